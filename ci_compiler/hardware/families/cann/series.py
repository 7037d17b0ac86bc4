"""The series of a chip: what CANN's packages of kernels are for. It imports only the standard library."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

WORDS: Mapping[str, Any] = json.loads(Path(__file__).with_name("words.json").read_bytes())


def series_of(target: str) -> str:
    """The series of a target, which is a chip (`ascend910b4`) or a series; the text itself for any other."""
    return next((series for series in WORDS["series"] if target.startswith(series)), target)


def series_of_chip(name: str) -> str:
    """The series of a chip as the driver names it (`Ascend910B4`, `310P3`): some are named like another series."""
    chip = name.lower().removeprefix("ascend")
    return str(WORDS["driver-names"].get(chip) or series_of(f"ascend{chip}"))
