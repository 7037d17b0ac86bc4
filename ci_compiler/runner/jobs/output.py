"""The folder that a stage leaves its files in."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ci_compiler.codes import Code
from ci_compiler.errors import wrong


def output_folder(folder: Path, stale: Iterable[str]) -> None:
    """Makes the folder that a stage leaves its files in, without those of an earlier run. Raises InputError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in stale:
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        message = f"cannot be written to: {error.strerror}"
        raise wrong(folder, Code.CANNOT_WRITE, message) from None
