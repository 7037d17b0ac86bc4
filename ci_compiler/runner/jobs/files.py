"""The files of a stage: its folder, and JSON with the digest by which the job reports it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.files.atomic import write_file
from ci_compiler.outside import bytes_of


def output_folder(folder: Path, stale: Iterable[str]) -> None:
    """Creates the folder for a stage's files, and removes those of an earlier run. Raises InputError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in stale:
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise wrong(folder, Code.CANNOT_WRITE, f"cannot be written to: {error.strerror}") from None


def digest_of(content: bytes) -> str:
    """The digest of a file of a job, as the job reports it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def write_json(path: Path, data: Mapping[str, Any]) -> str:
    """Writes `data` as JSON, the whole file or none; returns the digest of the file. A link there is replaced."""
    text = f"{json.dumps(data, indent=2, ensure_ascii=False)}\n"
    write_file(path, text)
    return digest_of(text.encode())


def found_in(folder: Path, name: str) -> list[Path]:
    """The files called `name` in `folder` and up to two folders below, such as those of artifacts; no link leads out.

    download-artifact creates no folder for a single artifact.
    """
    # Assumes `artifact-alone`.
    real = folder.resolve()
    found = (path for depth in ("", "*/", "*/*/") for path in folder.glob(f"{depth}{name}"))
    return sorted(path for path in found if path.parent.resolve() == real / path.parent.relative_to(folder))


def by_digest(folders: Iterable[Path], name: str) -> dict[str, Path]:
    """The files that `found_in` finds in `folders` and that can be read, by their digests."""
    found: dict[str, Path] = {}
    for path in (path for folder in folders for path in found_in(folder, name)):
        with suppress(OSError):
            found[digest_of(bytes_of(path))] = path
    return found
