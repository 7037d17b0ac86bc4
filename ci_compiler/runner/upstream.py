"""Facts about other software: versions, defaults and limits, from `upstream.json`, which states their sources."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ci_compiler.units import release


class NixHole(NamedTuple):
    """A hole between the users of a Nix daemon: versions from `since` on have it, up to those in `fixed`.

    `fixed` has a version for each line that was fixed, a line being the first two numbers of a version. All later lines
    are fixed as well.
    """

    name: str
    what: str
    since: str
    fixed: tuple[str, ...]

    def is_in(self, version: str) -> bool:
        """Whether the Nix `version` has it."""
        numbers = release(version)
        known = {release(one)[:2]: release(one) for one in self.fixed}
        if numbers < release(self.since) or numbers[:2] > max(known):
            return False
        return numbers[:2] not in known or numbers < known[numbers[:2]]


class UpstreamState(NamedTuple):
    """`written`: a day on which this version of the package existed, in seconds since 1970.

    `runner`: the lowest version that may still register; with those up to each of `runner_refused`, from a day on, it
    gets no jobs. `nix`: settings where nothing sets them; from Nix
    `builds_since` on, builds are made in `builds_folder`. `holes`: the known holes between the users of a Nix daemon.
    """

    written: int
    runner: str
    runner_days: int
    runner_refused: dict[str, str]
    nix: dict[str, str]
    builds_since: str
    builds_folder: str
    holes: tuple[NixHole, ...]


@cache
def upstream() -> UpstreamState:
    """The facts from `upstream.json`."""
    data = json.loads(Path(__file__).with_name("upstream.json").read_bytes())
    del data["source"]
    data["written"] = int(datetime.fromisoformat(data["written"]).replace(tzinfo=UTC).timestamp())
    data["holes"] = tuple(NixHole(**row | {"fixed": tuple(row["fixed"])}) for row in data["holes"])
    return UpstreamState(**data)


def without_holes() -> str:
    """The Nix from which on no version has a known hole: each is fixed there and in all later lines."""
    return max((version for hole in upstream().holes for version in hole.fixed), key=release)


def holes(version: str) -> tuple[NixHole, ...]:
    """The known holes of the Nix `version`, as `nix --version` prints it or as a number."""
    return tuple(hole for hole in upstream().holes if hole.is_in(version))
