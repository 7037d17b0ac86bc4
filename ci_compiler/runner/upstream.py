"""Facts about other software: versions, defaults and limits, from `upstream.json`, which states their sources."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """`written`: a day on which this version of the package existed, in seconds since 1970.

    `runner`: the lowest version that may still register. `nix`: settings where nothing sets them; from Nix
    `builds_since` on, builds are made in `builds_folder`.
    """

    written: int
    runner: str
    runner_days: int
    nix: dict[str, str]
    builds_since: str
    builds_folder: str


@cache
def upstream() -> Upstream:
    """The facts from `upstream.json`."""
    data = json.loads(Path(__file__).with_name("upstream.json").read_bytes())
    return Upstream(
        written=int(datetime.fromisoformat(data["written"]).replace(tzinfo=UTC).timestamp()),
        runner=data["runner"]["lowest"],
        runner_days=data["runner"]["days"],
        nix=data["nix"]["defaults"],
        builds_since=data["nix"]["builds-folder"]["since"],
        builds_folder=data["nix"]["builds-folder"]["path"],
    )
