"""GitHub's limits, read from `limits.json`."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ci_compiler.units import counted


class Limit(NamedTuple):
    """A limit that GitHub enforces, and the `gate` at or below it where the compiler stops to leave some room."""

    gate: int
    limit: int


@cache
def _table() -> dict[str, Limit]:
    content = json.loads(Path(__file__).with_name("limits.json").read_bytes())
    return {name: Limit(**entry) for name, entry in content["limits"].items()}


def limit(name: str) -> Limit:
    """The limit called `name` in the table, in the unit that the name states. Raises KeyError."""
    return _table()[name]


def beyond_filters(what: str, files: int) -> str:
    """A sentence about `what`, which changes more files than GitHub's path filters see; '' if they see all of them."""
    most = limit("filtered-files").gate
    # Assumes `path-filter-limit`.
    return f"{what} changes {counted(files, 'file')}, and GitHub's path filters see {most}" if files > most else ""
