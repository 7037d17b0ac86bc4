"""The Python interpreter that a store path was built for, and the folders of the packages that its users get."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from ci_compiler.backends.job import ImportWay, Interpreter
from ci_compiler.codes import Code
from ci_compiler.errors import failure
from ci_compiler.outside import text_of

DEVELOPMENT, INSTALLED = "propagated-build-inputs", "propagated-user-env-packages"
"""The files below `nix-support` in which a store path records the packages that its users get with it.

The first is read for a development environment (nixpkgs manual, propagatedBuildInputs; Flox in development mode, which
also reads the second), the second for an installed package (Nix manual, nix-env; Flox at run time).
"""

WITH_PACKAGES = "withPackages"
"""The third way to get a package: nixpkgs' `python.withPackages`, which reads the attribute `requiredPythonModules`."""


def interpreter_of(path: str, outputs: Sequence[str], modules: Sequence[str] = ()) -> Interpreter:
    """The interpreter for the package at `path`: its own Python, with what its `outputs` propagate and nothing else.

    A package with several outputs records in `dev` what it propagates. The rest of the closure is left out: a user who
    installs the package does not get it either. `modules` is what `withPackages` adds to it (() for unknown).
    Raises StageError for a Python package without an interpreter.
    """
    own = sorted(Path(path).glob("lib/python3.*/site-packages"))
    if not own:
        return Interpreter(program="", home=path, lacks="has no lib/python3.X/site-packages to import from")
    inside, name = own[0].relative_to(path), own[0].parent.name
    paths = propagated(path, *outputs, files=(DEVELOPMENT, INSTALLED))
    programs = (Path(one, "bin", name) for one in paths)
    program = next((file for file in programs if os.access(file, os.X_OK)), None)
    if program is None:
        raise failure(path, Code.NO_PYTHON, f"propagates no {name}")

    def folders(packages: Iterable[str]) -> tuple[str, ...]:
        return tuple(str(folder) for package in packages if (folder := Path(package) / inside).is_dir())

    ways = (_installed(path, folders), _with_packages(path, modules, folders))
    return Interpreter(program=str(program), paths=folders(paths), home=path, ways=ways)


def _installed(path: str, folders: Callable[[Iterable[str]], tuple[str, ...]]) -> ImportWay:
    paths = propagated(path, files=(INSTALLED,))
    lacks = "" if len(paths) > 1 else f"the package records no {INSTALLED}, so that its users get it alone at run time"
    return ImportWay(name=INSTALLED, paths=folders(paths), lacks=lacks)


def _with_packages(path: str, modules: Sequence[str], folders: Callable[[Iterable[str]], tuple[str, ...]]) -> ImportWay:
    absent = next((module for module in modules if not Path(module).exists()), "")
    lacks = f"{absent} is not in the closure of the package" if absent else ""
    lacks = lacks if modules else "the manifest names no requiredPythonModules"
    return ImportWay(name=WITH_PACKAGES, paths=folders((path, *modules)), lacks=lacks)


def propagated(*paths: str, files: Sequence[str]) -> Sequence[str]:
    """`paths` and the packages that they propagate by `files`, directly and transitively, nearest first."""
    found = list(dict.fromkeys(paths))
    waiting = list(found)
    while waiting:
        new = [one for one in dict.fromkeys(_recorded(waiting.pop(0), files)) if one not in found]
        found += new
        waiting += new
    return found


def _recorded(path: str, files: Sequence[str]) -> Iterator[str]:
    for file in files:
        with contextlib.suppress(OSError):
            yield from text_of(Path(path, "nix-support", file)).split()
