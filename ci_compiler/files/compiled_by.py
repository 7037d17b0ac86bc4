"""The version of ci-compile that compiled a tree, which the compiled workflows state in a variable.

A machine compares it with its own version before it works, and a compile before it overwrites files.
"""

from __future__ import annotations

import re
from pathlib import Path

from ci_compiler.files import COMPILED_BY
from ci_compiler.files.drift import is_ours
from ci_compiler.outside import text_of
from ci_compiler.units import numbers

FILES = (".github/workflows/cell.yml", ".github/workflows/variant.yml")
"""The workflows that set it; every compiled tree has one of them."""

UNSTATED = "0.1.0"
"""The version that did not state itself."""

_LINE = re.compile(rf'^  {COMPILED_BY}: "?([0-9A-Za-z.+]+)"?$', re.MULTILINE)


def compiled_by(root: Path) -> str:
    """The version that compiled the tree at `root`; '' if there are no compiled workflows."""
    for path in FILES:
        if is_ours(root / path):
            match = _LINE.search(text_of(root / path, errors="replace"))
            return match[1] if match else UNSTATED
    return ""


def is_older(version: str, other: str) -> bool:
    """Whether `version` is older than `other`; only their numbers count."""
    return numbers(version) < numbers(other)
