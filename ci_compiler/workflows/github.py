"""What GitHub fixes: its limits and the commits that the actions are pinned to, read from `github.json`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ci_compiler.workflows.writer import Remarked


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A limit of GitHub's and the `gate` at which the compiler stops, which leaves room below it."""

    gate: int
    limit: int


@cache
def _table() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(Path(__file__).with_name("github.json").read_bytes())
    return content


def limit(name: str) -> Limit:
    """The limit called `name` in the table. Raises KeyError."""
    return Limit(**_table()["limits"][name])


@cache
def pinned(action: str) -> Remarked:
    """The `uses:` of `action` at its pinned commit, its tag in a remark. Raises KeyError for one without a pin."""
    pin = _table()["pins"][action]
    return Remarked(f"{action}@{pin['commit']}", pin["tag"])
