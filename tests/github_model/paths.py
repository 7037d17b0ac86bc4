"""The jobs of a run by their paths: ids with `/` between calls; `#1` is the second leg of a matrix."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from tests.github_model.state import Run
from tests.github_model.tree import Tree


def leaves(run: Run) -> list[str]:
    """The paths of the jobs of a run that have steps, or were never begun."""
    return [path for path in run.jobs if not parts(run, path)]


def parts(run: Run, path: str) -> tuple[str, ...]:
    """The jobs directly in a call or a matrix."""
    return _children(tuple(run.jobs)).get(path, ())


@cache
def _children(paths: tuple[str, ...]) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for path in paths:
        found[container(path)] = (*found.get(container(path), ()), path)
    return found


@cache
def container(path: str) -> str:
    """The call or the matrix that a job is in; '' for none."""
    last = path.rpartition("/")[2]
    return path.rpartition("#")[0] if "#" in last else path.rpartition("/")[0]


def containers(path: str) -> list[str]:
    """The calls and matrices that a job is in, the innermost first."""
    outer = container(path)
    return [outer, *containers(outer)] if outer else []


def caller(path: str) -> str:
    """The call that a job is in, with the leg of its matrix; '' for none."""
    return path.rpartition("/")[0]


@cache
def closure(tree: Tree, file: str, path: str) -> frozenset[str]:
    """The ids of the jobs of the same file that a job waits for, at any distance."""
    prefix = path[: path.rfind("/") + 1]
    found: set[str] = set()
    for need in tree.job(file, path).needs:
        found |= {need} | closure(tree, file, prefix + need)
    return frozenset(found)


@cache
def ancestors(tree: Tree, file: str, path: str) -> tuple[str, ...]:
    """The jobs above a job, also those above the calls that it is in."""
    prefix = path[: path.rfind("/") + 1]
    own = [prefix + one for one in closure(tree, file, path)]
    outer = caller(path)
    return (*own, *(ancestors(tree, file, outer) if outer else ()))


def is_leg(path: str) -> bool:
    """Whether a job is a leg of a matrix."""
    return "#" in path.rpartition("/")[2]
