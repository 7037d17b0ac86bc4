"""Pauses: a repository variable whose words stop new jobs on self-hosted machines.

Every compiled job on a pool asks for the four words that concern it before it starts. What already runs is not stopped.
The value of the variable is words with spaces between them, which a person may also write on GitHub. GitHub compares
them in any case.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.routing import Route
from ci_compiler.spec.model import Spec
from ci_compiler.stages import PUBLISH

PAUSE_VARIABLE = "CI_PAUSED"
"""The repository variable."""

ALL_WORD = "all"
_BRANCH, _POOL, _BOTH = "branch:{branch}", "pool:{pool}", "pool:{pool}@{branch}"

WORDS = (ALL_WORD, _BRANCH, _POOL, _BOTH)
"""The forms of the words that pause a job of a branch on a pool. Neither name can contain a space."""


def pause_word(branch: str | None, pool: str | None) -> str:
    """The word that pauses the jobs of `branch` on `pool` (None: of all branches, on all pools)."""
    if pool is None:
        return ALL_WORD if branch is None else _BRANCH.format(branch=branch)
    return _POOL.format(pool=pool) if branch is None else _BOTH.format(branch=branch, pool=pool)


def words_of_jobs(jobs: Iterable[tuple[str, str]]) -> list[str]:
    """Every word that pauses one of `jobs`, each a branch and a pool; none without jobs."""
    return list(dict.fromkeys(form.format(branch=branch, pool=pool) for branch, pool in jobs for form in WORDS))


def words_of_cells(cells: Iterable[tuple[Cell, Route]], *, publish: bool) -> list[str]:
    """Every word that pauses a job of `cells`; those of publishing only if the run is to `publish`."""
    return words_of_jobs(
        (cell.branch, pool.name)
        for cell, route in cells
        for pool in (
            *(pool for stage, pool in route.pools.items() if publish or stage != PUBLISH),
            *route.suites.values(),
        )
    )


def words_in_force(spec: Spec, value: str) -> Iterator[tuple[str, bool]]:
    """The words in `value`, each with whether it pauses anything of `spec`."""
    known = {word.lower() for word in words_of_jobs((b, pool.name) for b in spec.branches for pool in spec.pools)}
    for word in dict.fromkeys(value.split()):
        yield word, word.lower() in known
