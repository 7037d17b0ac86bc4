"""What wheels say of their version: in their names, and in their metadata."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from email.parser import Parser
from pathlib import Path

from ci_compiler.codes import Code
from ci_compiler.errors import failure
from ci_compiler.outside import member_of

_MOST = 1 << 20
"""The most bytes of metadata that are read."""


def check_versions(name: str, distribution: str, version: str, files: Iterable[Path]) -> None:
    """Raises StageError if a wheel among the files of the variant `name` has another version than `version`.

    If wheels of `distribution` are among them, only those count: the others may be what it needs.
    """
    wheels = [path for path in files if path.suffix == ".whl"]
    own = [path for path in wheels if _plain(path.name.partition("-")[0]) == _plain(distribution)]
    for path in own or wheels:
        for where, stated in _stated(name, path):
            if _plain(stated) != _plain(version):
                message = f"{path.name} is version {stated or 'unknown'} by its {where}, and {version} is declared"
                raise failure(name, Code.VERSION_DIFFERS, message)


def _stated(name: str, path: Path) -> Iterator[tuple[str, str]]:
    """The versions that the wheel at `path` states."""
    words = path.name.removesuffix(".whl").split("-")
    yield "name", words[1] if len(words) in {5, 6} else ""  # PEP 427
    try:
        text = member_of(path, r"[^/]+\.dist-info/METADATA", _MOST)
    except OSError as error:
        raise failure(name, Code.VERSION_DIFFERS, f"{path.name} has no metadata that can be read: {error}") from None
    yield "metadata", Parser().parsestr(text, headersonly=True).get("Version", "")


def _plain(text: str) -> str:
    """A name or a version in one spelling: separators and cases differ (PEP 440, PEP 503)."""
    return re.sub(r"\.(?=[a-z])", "", re.sub(r"[-_.]+", ".", text.lower()))
