"""Whose files reach whom, with a backend that makes files: what a variant needs, and what it is made without.

The files come from a build of the same run, or from where they are published, by the declared command `fetch`. Without
that command, a run that builds a variant builds what it needs as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.needs import Needs, hands_files, is_fetched
from ci_compiler.spec.edges import GATHERS
from ci_compiler.spec.model import Spec

JobKey = tuple[str, str]
"""A job that builds: its branch, and its id in the file of its shard."""


class HandedFiles:
    """The edges along which files are handed over, among all cells of a plan."""

    def __init__(self, spec: Spec, cells: Iterable[Cell]) -> None:
        self.spec = spec
        self._cells = tuple(cells)
        self._needs = Needs(spec, self._cells)

    def needed(self, cell: Cell, package: str) -> list[str]:
        """The names of what the variant of `package` in `cell` gets files of, in build order."""
        if not hands_files(self.spec, package):
            return []
        return [variant.name for _, variant in self._needs.every(cell, package)]

    def gathered(self, cell: Cell, package: str) -> set[str]:
        """The names of what the variant of `package` in `cell` gathers."""
        return {link.variant.name for link in self._needs.links(cell, package) if link.kind == GATHERS}

    def built_as_well(self, branch: str, names: Iterable[str]) -> tuple[str, ...]:
        """`names`, and what must be built with them on `branch`, because it cannot be fetched."""
        wanted = dict.fromkeys(names)
        if not hands_files(self.spec):
            return tuple(wanted)
        for cell in self._cells:
            for variant in cell.variants if cell.branch == branch else ():
                if variant.name in wanted:
                    wanted |= dict.fromkeys(self._not_fetched(cell, variant.package))
        return tuple(wanted)

    def _not_fetched(self, cell: Cell, package: str) -> Iterator[str]:
        """What must be built with a variant: what it needs and cannot be fetched, the nearest first."""
        for _, variant in reversed(self._needs.every(cell, package)):
            if not is_fetched(self.spec, variant.package):
                yield variant.name

    def levels(self) -> Mapping[JobKey, int]:
        """How many jobs must run one after the other before a job gets all files; no entry for 0."""
        before: dict[JobKey, set[JobKey]] = {}
        if hands_files(self.spec):
            for cell in self._cells:
                keys = before.setdefault(job_key(cell), set())
                for variant in cell.variants:
                    keys |= {job_key(other) for other, _ in self._needs.of(cell, variant.package)} - {job_key(cell)}
        levels: dict[JobKey, int] = {}

        def level(key: JobKey) -> int:
            if key not in levels:
                levels[key] = 1 + max(map(level, before[key]), default=-1)
            return levels[key]

        return {key: level(key) for key in before if level(key)}


def job_key(cell: Cell) -> JobKey:
    """The job that builds `cell`."""
    return cell.branch, cell.key
