"""What wheels say of their version and their Python: in their names, and in their metadata."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from email.parser import Parser
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from ci_compiler.codes import Code
from ci_compiler.errors import failure
from ci_compiler.outside import member_of

if TYPE_CHECKING:
    from ci_compiler.backends.job import JoinedVariant

_RELEASE = re.compile(r"3\.(?P<minor>[0-9]+)(?P<threads>t?)")
_TAG = re.compile(r"(?:cp|py)3(?P<minor>[0-9]*)")
_MOST = 1 << 20
"""The most bytes of metadata that are read."""


def check_wheels(variant: JoinedVariant, files: Iterable[Path]) -> None:
    """Raises StageError if a wheel among the files of a variant has another version, or is for another Python.

    If wheels of its package are among them, only those count: the others may be what it needs.
    """
    wheels = [path for path in files if path.suffix == ".whl"]
    own = [path for path in wheels if _plain(path.name.partition("-")[0]) == _plain(variant.package)]
    for path in own or wheels:
        for where, stated in _stated(variant.name, path) if variant.version else ():
            if _plain(stated) != _plain(variant.version):
                message = (
                    f"{path.name} is version {stated or 'unknown'} by its {where}, and {variant.version} is declared"
                )
                raise failure(variant.name, Code.VERSION_DIFFERS, message)
        if not _is_for(path, variant.python):
            message = f"{path.name} is not for Python {variant.python} by its name"
            raise failure(variant.name, Code.PYTHON_DIFFERS, message)


def _is_for(path: Path, python: str) -> bool:
    """Whether Python `python` (`3.13`, `3.14t`) installs the wheel at `path`; of other Pythons nothing is known."""
    release, words = _RELEASE.fullmatch(python), path.stem.split("-")
    if not release or len(words) not in {5, 6}:
        return True
    minor, threads = int(release["minor"]), release["threads"]
    for tag, abi in product(words[-3].split("."), words[-2].split(".")):
        if (named := _TAG.fullmatch(tag)) is None:
            continue
        first, own = int(named["minor"] or 0), tag == f"cp3{minor}"
        is_stable = (abi == "abi3" and not threads) or (abi == "none" and tag.startswith("py"))
        if (is_stable and first <= minor) or (own and abi in {"none", f"{tag}{threads}"}):
            return True
    return False


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
