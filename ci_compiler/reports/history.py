"""The durations and the memory of recorded builds, read from their manifests."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from statistics import median
from typing import Any

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, Place, wrong
from ci_compiler.workflows.artifacts import MANIFEST

NAME = PurePosixPath(MANIFEST).name
"""The name of the manifest file of a build."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The median duration of builds in seconds, and the most memory in bytes, by branch and variant name.

    `manifests` is the number of manifests.
    """

    seconds: Mapping[tuple[str, str], int] = field(default_factory=dict)
    memory: Mapping[tuple[str, str], int] = field(default_factory=dict)
    manifests: int = 0


def read_history(folder: Path) -> History:
    """Reads the manifests in `folder` and below. Raises InputError if there are none, or if one is invalid."""
    if not folder.is_dir():
        raise wrong(folder, Code.HISTORY_MISSING, "no such folder")
    found: dict[tuple[str, str], list[float]] = {}
    memory: dict[tuple[str, str], int] = {}
    findings: list[Finding] = []
    paths = list(_manifests(folder))
    for path in paths:
        try:
            branch, name, seconds, used = _read(path)
            if used:
                memory[branch, name] = max(used, memory.get((branch, name), 0))
            if seconds is not None:
                found.setdefault((branch, name), []).append(seconds)
        except InputError as error:
            findings += error.findings
    if not paths:
        message = f"no {NAME} in it or below; builds leave them in their artifacts"
        findings += wrong(folder, Code.HISTORY_EMPTY, message).findings
    if findings:
        raise InputError(findings)
    medians = {key: round(median(times)) for key, times in sorted(found.items())}
    return History(seconds=medians, memory=dict(sorted(memory.items())), manifests=len(paths))


def _manifests(folder: Path) -> Iterator[Path]:
    for parent, below, files in os.walk(folder):
        below.sort()
        if NAME in files:
            yield Path(parent, NAME)


def _read(path: Path) -> tuple[str, str, float | None, int]:
    """The branch, the name, the seconds (None if the store already had it) and the memory (0: unknown) of a build.

    Raises InputError.
    """
    try:
        content: Any = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise _broken(path, f"cannot be read: {error.strerror}") from None
    except json.JSONDecodeError as error:
        raise _broken(path, f"not JSON: {error.msg}", error.lineno, error.colno) from None
    except (ValueError, RecursionError):
        raise _broken(path, "not JSON") from None
    if not isinstance(content, dict):
        raise _broken(path, "not the manifest of a build: not a mapping")
    branch, name, seconds = (content.get(key) for key in ("branch", "name", "seconds"))
    for key, value in (("branch", branch), ("name", name)):
        if not isinstance(value, str):
            raise _broken(path, f"not the manifest of a build: {key!r} is not text")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
        raise _broken(path, "not the manifest of a build: 'seconds' is not a number of seconds")
    memory = content.get("memory", 0)
    if type(memory) is not int or memory < 0:
        raise _broken(path, "not the manifest of a build: 'memory' is not a number of bytes")
    return str(branch), str(name), None if content.get("built") is False else float(seconds), memory


def _broken(path: Path, message: str, line: int = 0, column: int = 0) -> InputError:
    place = Place(file=str(path), line=line, column=column)
    return InputError([Finding(place=place, code=Code.BROKEN_MANIFEST, message=message)])
