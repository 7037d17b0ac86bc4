"""What the checks of the probe share: how they fail, and the package that they look at."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any


class WrongError(Exception):
    """The check failed; the message says what it found."""


class SkippedError(Exception):
    """The check cannot run; the message says why."""


Wanted = Mapping[str, Any]


def same(found: str, wanted: str, *, shown: str = "") -> str:
    """`found`, or `shown` in its place. Raises WrongError if it is not what is wanted."""
    if found != wanted:
        raise WrongError(f"found {shown or found}, expected {wanted}")
    return shown or found


def torch_module() -> Any:
    """PyTorch, imported when it is first needed."""
    return importlib.import_module("torch")
