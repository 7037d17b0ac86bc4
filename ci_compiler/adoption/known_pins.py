"""The revisions of nixpkgs that the stand-in for nixpkgs knows (`standin/pins.nix`)."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ci_compiler.adoption import nix_instantiate as nix
from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.process import ask

_PINS = Path(nix.__file__).with_name("standin") / "pins.nix"
_SECONDS = 60.0
_EXPRESSION = "{ file }: let pins = import file; in { inherit (pins) newest revisions; }"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPins:
    """The revision that stands for an unknown one, and the releases in each known one by package attribute."""

    newest: str
    versions: Mapping[str, Mapping[str, str]]

    def like(self, versions: Mapping[str, str]) -> str:
        """The revision that has most of `versions` (by attribute), the newest of several."""
        return max(
            self.versions,
            key=lambda pin: (sum(self.versions[pin].get(k) == v for k, v in versions.items()), pin == self.newest, pin),
        )


@cache
def known_pins() -> KnownPins:
    """The table, read by Nix. Raises InputError if Nix is missing or fails."""
    argv = nix.command(
        "--eval", "--strict", "--json", "--expr", _EXPRESSION, "--argstr", "file", str(_PINS), readable=[_PINS.parent]
    )
    with tempfile.TemporaryDirectory(prefix="ci-compiler-") as home:
        ended = ask(argv, seconds=_SECONDS, env=nix.environment(Path(home)))
    if ended.status:
        raise wrong(nix.PROGRAM, Code.NIX_FAILED, ended.said)
    table = json.loads(ended.out)
    versions = {pin: row["versions"] for pin, row in table["revisions"].items()}
    return KnownPins(newest=table["newest"], versions=versions)
