"""The Python interpreter that a store path was built for, and the folders of the packages that it needs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ci_compiler.backends.job import Interpreter
from ci_compiler.codes import Code
from ci_compiler.errors import failure

_PROPAGATED = "nix-support/propagated-build-inputs"
"""Where nixpkgs records the packages that a package needs at run time (nixpkgs manual, propagatedBuildInputs)."""


def interpreter_of(path: str, closure: Sequence[str]) -> Interpreter:
    """The interpreter for the package at `path`: its own Python, with what it propagates and the rest of `closure`.

    Propagated packages come first. The rest of the closure is searched as well, because a package with several outputs
    may record its propagated packages in an output that is not in the closure. Raises StageError for a
    Python package without an interpreter.
    """
    own = sorted(Path(path).glob("lib/python3.*/site-packages"))
    if not own:
        return Interpreter(program="", home=path, lacks="has no lib/python3.X/site-packages to import from")
    inside, name = own[0].relative_to(path), own[0].parent.name
    paths = tuple(dict.fromkeys((*propagated(path), *reversed(closure))))
    programs = (Path(one, "bin", name) for one in paths)
    program = next((file for file in programs if os.access(file, os.X_OK)), None)
    if program is None:
        raise failure(path, Code.NO_PYTHON, f"has no {name} in its closure")
    folders = (Path(one) / inside for one in paths)
    return Interpreter(
        program=str(program), paths=tuple(str(folder) for folder in folders if folder.is_dir()), home=path
    )


def propagated(path: str) -> Sequence[str]:
    """`path` and the packages that it propagates, directly and transitively, nearest first."""
    found, waiting = [path], [path]
    while waiting:
        new = [one for one in _recorded(waiting.pop(0)) if one not in found]
        found += new
        waiting += new
    return found


def _recorded(path: str) -> Iterator[str]:
    try:
        yield from Path(path, _PROPAGATED).read_text("utf-8").split()
    except (OSError, UnicodeDecodeError):
        return
