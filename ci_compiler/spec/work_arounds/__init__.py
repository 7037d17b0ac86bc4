"""The bundled pieces of recipes, some of which are work-arounds that a branch of the spec lists by name.

`pieces.json` gives for each piece the reason for it, the recipes that have it, and what it adds: an overlay, CMake
flags, exported variables, lines of shell. Longer texts are files of this folder. Those of shell are the content of a
Nix string, so `${lib…}` is expanded by Nix and `''${…}` by the shell. `@word@` stands for a value of the recipe.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


@cache
def table() -> Mapping[str, Mapping[str, Any]]:
    """The rows of `pieces.json` by the names of the pieces."""
    rows: dict[str, dict[str, Any]] = json.loads((FOLDER / "pieces.json").read_bytes())["pieces"]
    return rows


@cache
def work_arounds() -> tuple[str, ...]:
    """The names that a branch may list under `work-arounds`."""
    return tuple(name for name, row in table().items() if row["when"].get("work-around"))
