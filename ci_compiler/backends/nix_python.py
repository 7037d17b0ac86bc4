"""The Python interpreter that a store path was built for, and the folders of the packages that its users get."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ci_compiler.backends.job import Interpreter
from ci_compiler.codes import Code
from ci_compiler.errors import failure

PROPAGATED = ("nix-support/propagated-build-inputs", "nix-support/propagated-user-env-packages")
"""Where a store path records the packages that its users get with it.

The first list is that of a development environment (nixpkgs manual, propagatedBuildInputs; Flox in development mode),
the second that of an installed package (Nix manual, nix-env; Flox at run time).
"""


def interpreter_of(path: str, outputs: Sequence[str]) -> Interpreter:
    """The interpreter for the package at `path`: its own Python, with what its `outputs` propagate and nothing else.

    A package with several outputs records in `dev` what it propagates. The rest of the closure is left out: a user who
    installs the package does not get it either. Raises StageError for a Python package without an interpreter.
    """
    own = sorted(Path(path).glob("lib/python3.*/site-packages"))
    if not own:
        return Interpreter(program="", home=path, lacks="has no lib/python3.X/site-packages to import from")
    inside, name = own[0].relative_to(path), own[0].parent.name
    paths = propagated(path, *outputs)
    programs = (Path(one, "bin", name) for one in paths)
    program = next((file for file in programs if os.access(file, os.X_OK)), None)
    if program is None:
        raise failure(path, Code.NO_PYTHON, f"propagates no {name}")
    folders = (Path(one) / inside for one in paths)
    return Interpreter(
        program=str(program), paths=tuple(str(folder) for folder in folders if folder.is_dir()), home=path
    )


def propagated(*paths: str) -> Sequence[str]:
    """`paths` and the packages that they propagate, directly and transitively, nearest first."""
    found = list(dict.fromkeys(paths))
    waiting = list(found)
    while waiting:
        new = [one for one in dict.fromkeys(_recorded(waiting.pop(0))) if one not in found]
        found += new
        waiting += new
    return found


def _recorded(path: str) -> Iterator[str]:
    for file in PROPAGATED:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            yield from Path(path, file).read_text("utf-8").split()
