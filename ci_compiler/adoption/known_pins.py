"""What the stand-in for nixpkgs knows of nixpkgs' revisions (`standin/pins.nix`)."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ci_compiler.adoption import nix_instantiate as nix

_PINS = Path(nix.__file__).with_name("standin") / "pins.nix"
_EXPRESSION = "{ file }: let pins = import file; in { inherit (pins) newest revisions; }"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPins:
    """The revision that an unknown one is taken for, and each known one's releases by package attribute."""

    newest: str
    versions: Mapping[str, Mapping[str, str]]

    def like(self, versions: Mapping[str, str]) -> str:
        """The revision that has the most of `versions` (by attribute), the newest among equals."""
        return max(
            self.versions,
            key=lambda pin: (sum(self.versions[pin].get(k) == v for k, v in versions.items()), pin == self.newest, pin),
        )


@cache
def known_pins() -> KnownPins:
    """The table, read by Nix itself. Raises InputError where that is missing."""
    argv = nix.command(
        "--eval", "--strict", "--json", "--expr", _EXPRESSION, "--argstr", "file", str(_PINS), readable=[_PINS.parent]
    )
    with tempfile.TemporaryDirectory(prefix="ci-compiler-") as home:
        done = subprocess.run(argv, env=nix.environment(Path(home)), capture_output=True, check=True)
    told = json.loads(done.stdout)
    versions = {pin: row["versions"] for pin, row in told["revisions"].items()}
    return KnownPins(newest=told["newest"], versions=versions)
