"""The commits that actions are pinned to, read from `pins.json`."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from ci_compiler.workflows.writer import Remarked


@cache
def _pins() -> dict[str, dict[str, str]]:
    pins: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("pins.json").read_bytes())["pins"]
    return pins


@cache
def pinned(action: str) -> Remarked:
    """The `uses:` of `action` at its pinned commit, with its tag as the remark. Raises KeyError if it has no pin."""
    pin = _pins()[action]
    return Remarked(f"{action}@{pin['commit']}", pin["tag"])
