"""Whose files reach whom, with a backend that makes files: what a variant needs, and what it is made without.

The files come from a build of the same run, or from where they are published, by the declared command `fetch`. Without
that command, a run that builds a variant builds what it needs as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ci_compiler.codes import Code
from ci_compiler.errors import Finding
from ci_compiler.plan.matrix import Cell, Variant
from ci_compiler.plan.needs import Needs
from ci_compiler.plan.sharding import Shard, job_id
from ci_compiler.spec.model import Spec

JobKey = tuple[str, str]
"""A job that builds: its branch, and its id in the file of its shard."""


def hands_files(spec: Spec, package: str = "") -> bool:
    """Whether variants of `package` ('': of any) are built and tested with the files of others."""
    asked = [spec.packages[package]] if package else spec.packages.values()
    return spec.backend.uses_artifacts and any(one.needs for one in asked)


def is_fetched(spec: Spec, package: str) -> bool:
    """Whether the files of `package` can be fetched from where they are published."""
    command = spec.packages[package].command
    return bool(command and command.fetch)


def needed(needs: Needs, cell: Cell, package: str) -> dict[str, tuple[Cell, Variant]]:
    """What the variant of `package` in `cell` needs, directly and transitively, by name, in build order."""
    found: dict[str, tuple[Cell, Variant]] = {}
    for other, variant in needs.of(cell, package):
        found |= {name: one for name, one in needed(needs, other, variant.package).items() if name not in found}
        found.setdefault(variant.name, (other, variant))
    return found


class HandedFiles:
    """The edges along which files are handed over, among all cells of a plan."""

    def __init__(self, spec: Spec, cells: Iterable[Cell]) -> None:
        self.spec = spec
        self._cells = tuple(cells)
        self._needs = Needs(spec, self._cells)

    def needed(self, cell: Cell, package: str) -> dict[str, tuple[Cell, Variant]]:
        """As the function of this name; {} where no files are handed over."""
        return needed(self._needs, cell, package) if hands_files(self.spec, package) else {}

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
        """What must be built with a variant: what it needs directly and cannot be fetched, and so on."""
        for other, variant in self._needs.of(cell, package):
            if not is_fetched(self.spec, variant.package):
                yield variant.name
                yield from self._not_fetched(other, variant.package)

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
    return cell.branch, job_id(cell)


def out_of_reach(spec: Spec, shards: Iterable[Shard]) -> Iterator[Finding]:
    """Files that cannot be handed over: another file's workflow builds them, and no command fetches them."""
    held = [(shard, cell, variant) for shard in shards for cell, _ in shard.cells for variant in cell.variants]
    shard_of = {(cell.branch, variant.name): shard for shard, cell, variant in held}
    needs = Needs(spec, dict.fromkeys(cell for _, cell, _ in held))
    said: set[tuple[str, str]] = set()
    for shard, cell, variant in held:
        for other, need in needs.of(cell, variant.package):
            elsewhere, pair = shard_of[other.branch, need.name], (variant.package, need.package)
            if elsewhere is shard or is_fetched(spec, need.package) or pair in said:
                continue
            said.add(pair)
            message = (
                f"{variant.name} needs the files of {need.name}, which {elsewhere.name}.yml builds, and not "
                f"{shard.name}.yml; declare `packages.{need.package}.command.fetch`, which fetches what is published"
            )
            yield spec.finding(("packages", variant.package, "needs"), Code.NEED_OUT_OF_REACH, message)
