"""The bundled pieces of recipes, some of which are work-arounds that a branch of the spec lists by name.

`pieces.json`, and that of each family that has one, gives for each piece the reason for it, the recipes that have it,
and what it adds: an overlay, CMake flags, exported variables, lines of shell. Longer texts are files beside it. Those
of shell are the content of a Nix string, so `${lib…}` is expanded by Nix and `''${…}` by the shell. `@word@` stands for
a value of the recipe.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ci_compiler.hardware.families import folders_of

FOLDERS = {"": Path(__file__).parent} | folders_of("work_arounds")
"""The folders with pieces: those for all builds, and those for builds of a family."""


@cache
def table() -> Mapping[str, Mapping[str, Any]]:
    """The rows of each `pieces.json` by the names of the pieces, in their order; `folder` has their files."""
    rows: dict[str, dict[str, Any]] = {}
    for family, folder in FOLDERS.items():
        own = {"family": family} if family else {}
        for name, row in json.loads((folder / "pieces.json").read_bytes())["pieces"].items():
            rows[name] = row | {"when": row["when"] | own, "folder": folder}
    return dict(sorted(rows.items(), key=lambda row: row[1]["order"]))


@cache
def work_arounds() -> tuple[str, ...]:
    """The names that a branch may list under `work-arounds`."""
    return tuple(name for name, row in table().items() if row["when"].get("work-around"))
