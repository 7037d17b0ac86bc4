"""Tables with every answer that the finder page can give: the decisions of `Finder`.

A machine is looked up by the architecture of its GPU, the instruction sets of its CPU and its driver; an answer also by
package, branch, Python and workload. Equal rows are stored once, and other tables refer to them by index.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from ci_compiler.hardware import CPU, Gpu, Hardware
from ci_compiler.hardware.drivers import too_new_driver
from ci_compiler.hardware.products import known_gpus
from ci_compiler.hardware.workloads import Workload
from ci_compiler.plan.matrix import Cell
from ci_compiler.reports.evidence import Proofs
from ci_compiler.reports.finder import Finder, FinderAnswer, FinderStep
from ci_compiler.reports.offers import Offer, Profile, Wishes, branch_order, fits, needed_driver, runs_code
from ci_compiler.spec.model import Spec

Value = TypeVar("Value")

NO_GPU, UNKNOWN_GPU = "none", "unknown"
"""The keys for a machine without a GPU, and for a GPU whose architecture is not in the hardware tables."""


class Rows:
    """A list of JSON values without duplicates; `index` returns the index of a value."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self._known: dict[str, int] = {}

    def index(self, row: object) -> int:
        """The index of `row`, which is added if it is new."""
        key = repr(row)
        if key not in self._known:
            self._known[key] = len(self.rows)
            self.rows.append(row)
        return self._known[key]


class Tables:
    """The tables of one plan; `as_data` returns them for the page."""

    def __init__(self, spec: Spec, cells: Sequence[Cell], known: Proofs) -> None:
        self.spec, self.cells, self.known = spec, cells, known
        self._at = {(cell.branch, variant.name): at for at, cell in enumerate(cells) for variant in cell.variants}
        self._drivers, self._answers, self._steps, self._said = Rows(), Rows(), Rows(), Rows()
        self._portables = Rows()
        self._gpus = known_gpus(spec.hardware)
        gpus = sorted(self._gpus.values(), key=lambda gpu: gpu.capability)
        built = {cell.target for cell in cells} - {CPU}
        self._profiles: dict[object, Profile] = {}  # by everything that an answer depends on
        self._machines = {
            gpu.name if gpu else name: {
                " ".join((system, *isas)): self._profile(built, system, isas, gpu, has_gpu=name != NO_GPU)
                for system, isas in _cpus(spec.hardware)
            }
            for name, gpu in ((NO_GPU, None), (UNKNOWN_GPU, None), *((gpu.name, gpu) for gpu in gpus))
        }

    def _profile(
        self, built: set[str], system: str, isas: tuple[str, ...], gpu: Gpu | None, *, has_gpu: bool
    ) -> Profile:
        """The profile of a machine; machines with the same answers share one profile."""
        profile = Profile(system=system, isas=isas, gpu=gpu, has_gpu=has_gpu)
        distinct = gpu and (
            system not in gpu.systems or any(runs_code(self.spec.hardware, profile, name) for name in built)
        )
        key = profile if distinct else (system, isas, has_gpu, gpu is None, gpu is not None and gpu.on_chip)
        return self._profiles.setdefault(key, profile)

    def as_data(self) -> dict[str, Any]:
        """The tables as JSON."""
        groups = Rows()  # shared by packages whose answers differ only in the name and version of the package
        group_of = {package: groups.index(self._group(package)) for package in self.spec.packages}
        finders = [
            Finder(self.spec, self.cells, next(name for name, own in group_of.items() if own == group), self.known)
            for group in range(len(groups.rows))
        ]
        return {
            "machines": {
                "gpus": list(self._machines),
                "cpus": {key: self._highest(profile.isas) for key, profile in self._machines[NO_GPU].items()},
            },
            "running": [
                [self._drivers.index(self._running(profile)) for profile in profiles.values()]
                for profiles in self._machines.values()
            ],
            "groups": group_of,
            "portable": [self._portable(finder) for finder in finders],
            "found": [self._found(finder) for finder in finders],
            "alternatives": [self._alternatives(finder) for finder in finders],
            "drivers": self._drivers.rows,
            "portables": self._portables.rows,
            "answers": self._answers.rows,
            "steps": self._steps.rows,
            "said": self._said.rows,
        }

    def _group(self, package: str) -> list[object]:
        holds = [any(variant.package == package for variant in cell.variants) for cell in self.cells]
        finder = Finder(self.spec, self.cells, package, self.known)
        own = package if finder.contested else ""  # the answers name the variants with fewer tests
        return [branch_order(self.spec, package), holds, sorted(finder.recalled.items()), own]

    def _highest(self, isas: Iterable[str]) -> str:
        """Those of `isas` that no other one of them includes, as the page shows them."""
        runs = self.spec.hardware.runs
        return ", ".join(isa for isa in isas if not any(isa in runs([other]) for other in isas if other != isa))

    def _running(self, profile: Profile) -> list[list[object]]:
        """The cells that a machine runs: `[driver, cells, end]` with the lowest driver that runs the cells.

        `end` is the lowest driver that no longer runs them; None if there is none.
        """
        found: dict[int, list[int]] = defaultdict(list)
        if not profile.gpu or profile.system in profile.gpu.systems:
            for at, cell in enumerate(self.cells):
                if fits(self.spec, profile, cell):
                    found[needed_driver(self.spec, cell, profile.gpu)].append(at)
        end = too_new_driver(profile.gpu) or None
        return [[driver, found[driver], end if driver else None] for driver in sorted(found)]

    def _found(self, finder: Finder) -> dict[str, Any]:
        """The answer for each GPU and CPU, by branch, Python and workload."""
        return self._by_wish(
            lambda branch, python: {
                workload.value: self._by_machine(finder, branch, python, workload) for workload in Workload
            }
        )

    def _portable(self, finder: Finder) -> dict[str, dict[str, int]]:
        """The CPUs that stand for an unknown one, for each GPU, by branch and Python."""
        return self._by_wish(lambda branch, python: self._portables.index(self._portable_cpus(finder, branch, python)))

    def _by_wish(self, answer: Callable[[str, str], Value]) -> dict[str, dict[str, Value]]:
        """What `answer` returns, by branch and Python ('': any); a single Python is answered once, with any."""
        pythons = self.spec.pythons
        by_branch: dict[str, dict[str, Value]] = {}
        for branch in ("", *self.spec.branches):
            own = {python: answer(branch, python) for python in ("", *(pythons if len(pythons) > 1 else ()))}
            by_branch[branch] = {python: own.get(python, own[""]) for python in ("", *pythons)}
        return by_branch

    def _portable_cpus(self, finder: Finder, branch: str, python: str) -> list[int]:
        cpus = list(self._machines[NO_GPU])
        wishes = Wishes(package=finder.package, branch=branch, python=python)
        profiles = [
            finder.unknown_cpu(Profile(system="", isas=(), gpu=self._gpus.get(name), has_gpu=name != NO_GPU), wishes)
            for name in self._machines
        ]
        return [cpus.index(" ".join((profile.system, *profile.isas))) for profile in profiles]

    def _by_machine(self, finder: Finder, branch: str, python: str, workload: Workload) -> list[list[int]]:
        wishes = Wishes(package=finder.package, workload=workload, branch=branch, python=python)
        answers = {id(profile): self._answer(finder.answer(profile, wishes)) for profile in self._profiles.values()}
        return [[answers[id(profile)] for profile in profiles.values()] for profiles in self._machines.values()]

    def _answer(self, answer: FinderAnswer) -> int:
        """`[driver, step]` with the lowest driver of each step; the last entry is for an unknown driver."""
        steps = [[step.driver, self._step(step)] for step in answer.steps]
        return self._answers.index([*steps, [None, self._step(answer.unknown)]])

    def _step(self, step: FinderStep) -> int:
        parts = {
            "best": step.best and self._cell(step.best),
            "nearest": step.nearest and self._cell(step.nearest),
            "impossible": step.impossible or None,
            "problems": step.problems and self._said.index(step.problems),
            "why": step.why and self._said.index(step.why),
            "doubts": step.doubts and self._said.index(step.doubts),
            "better": [
                [self._cell(note.offer), note.offer.driver, self._said.index([note.note])] for note in step.better
            ],
        }
        return self._steps.index({name: part for name, part in parts.items() if part not in (None, (), [])})

    def _alternatives(self, finder: Finder) -> dict[int, list[list[int]]]:
        """For each cell, `[cell, text]` of the lower-ranked cells that differ from it in one axis."""
        every = finder.alternatives(finder.ranked(None, Workload.GENERAL))
        return {
            self._cell(offer): [[self._cell(note.offer), self._said.index([note.note])] for note in others]
            for offer, others in every.items()
        }

    def _cell(self, offer: Offer) -> int:
        return self._at[offer.branch, offer.name]


def _cpus(hardware: Hardware) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every system with every set of ISAs that a CPU can run; an ISA includes all ISAs that it extends."""
    for system in hardware.systems:
        own = [isa.name for isa in hardware.isas.values() if isa.system == system]
        found = {hardware.runs([], system)}
        for isa in own:
            found |= {some | hardware.runs([isa]) for some in found}
        yield from sorted((system, tuple(name for name in own if name in some)) for some in found)
