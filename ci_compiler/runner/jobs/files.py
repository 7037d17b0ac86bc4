"""The files of a stage: its folder, and JSON with the digest by which the job reports it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ci_compiler.codes import Code
from ci_compiler.errors import wrong


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
    """Writes `data` as JSON, the whole file or none; returns the digest of the file."""
    fresh = path.with_name(f".{path.name}.new")
    content = f"{json.dumps(data, indent=2, ensure_ascii=False)}\n".encode()
    fresh.write_bytes(content)
    fresh.replace(path)
    return digest_of(content)
