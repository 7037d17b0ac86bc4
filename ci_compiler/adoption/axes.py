"""The matrix that states a set of variants in the fewest characters: products and their exceptions.

Each GPU's entry has a few possible forms: empty, with branches, with its own ISAs, with further ISAs by branch. All
GPUs share the exclusions, which take out what the entries hold in excess. The forms are chosen so that entries and
exclusions together are shortest: one entry is changed at a time, until no change makes the text shorter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product as all_of

from ci_compiler.adoption.exclusions import BECAUSE, Cover, Key, Line
from ci_compiler.adoption.spec_yaml import flow
from ci_compiler.hardware import CPU, Hardware
from ci_compiler.plan.rules import RULES
from ci_compiler.spec.model import Exclusion, GpuAxis, Matrix

MOST_STEPS = 6000
"""The exclusions to try before the search for shorter entries ends: a few seconds for an irregular fleet."""

Usual = tuple[str, ...]


def matrix_of(
    variants: Sequence[Key], cudas: Mapping[str, str], packages: Mapping[str, tuple[str, ...]], hardware: Hardware
) -> Matrix:
    """The matrix of `variants`, all of which the rules allow.

    cudas: the CUDA version of each branch, in the spec's order. packages: the branches that each package is on.
    """
    search = _Search(variants, cudas, packages, hardware)
    usual, entries = search.best()
    lines = search.lines(usual, entries)
    return Matrix(
        pythons=tuple(search.pythons),
        isas=_by_system(usual, hardware),
        gpus=tuple(entries),
        exclude=tuple(
            Exclusion(index=index, pattern=line.pattern, branches=line.branches, because=BECAUSE)
            for index, line in enumerate(lines)
        ),
    )


def _by_system(usual: Usual, hardware: Hardware) -> dict[str, tuple[str, ...]]:
    found = {system: tuple(isa for isa in usual if hardware.isa(isa).system == system) for system in hardware.systems}
    return {system: isas for system, isas in found.items() if isas}


def entry_of(axis: GpuAxis) -> dict[str, object]:
    """A GPU's entry as in the spec's document."""
    row = {"branches": axis.branches, "isas": axis.isas, "also": axis.also}
    return {key: value for key, value in row.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """A form of a GPU's entry, the variants that it holds as bits, and its length."""

    axis: GpuAxis
    holds: int
    size: int


class _Search:
    """One call of `matrix_of`."""

    def __init__(
        self,
        variants: Sequence[Key],
        cudas: Mapping[str, str],
        packages: Mapping[str, tuple[str, ...]],
        hardware: Hardware,
    ) -> None:
        self.hardware, self.cudas, self.branches = hardware, cudas, list(cudas)
        self.pythons = sorted({key.python for key in variants}, key=lambda text: [*map(int, text.split("."))])
        self.gpus = [name for name in (CPU, *hardware.gpus) if any(key.gpu == name for key in variants)]
        self.all_isas = tuple(sorted({key.isa for key in variants}))
        self.isas: dict[tuple[str, str], frozenset[str]] = {}
        for key in variants:
            self.isas[key.gpu, key.branch] = self.isas.get((key.gpu, key.branch), frozenset()) | {key.isa}
        keys: dict[tuple[str, str, str], list[Key]] = {}
        for gpu, branch, isa in all_of(self.gpus, self.branches, self.all_isas):
            if self._possible(gpu, branch, isa):
                keys[gpu, branch, isa] = [
                    Key(branch=branch, package=package, python=python, gpu=gpu, isa=isa)
                    for package, on in packages.items()
                    if branch in on
                    for python in self.pythons
                ]
        self.cover = Cover([key for held in keys.values() for key in held], cudas)
        self.cells = {cell: self.cover.mask(held) for cell, held in keys.items()}
        self.wanted = self.cover.mask(variants)

    def _possible(self, gpu: str, branch: str, isa: str) -> bool:
        if gpu == CPU:
            return True
        toolkit, system = self.hardware.toolkit(self.cudas[branch]), self.hardware.isa(isa).system
        return not any(rule.problem(self.hardware.gpu(gpu), toolkit, system) for rule in RULES)

    # The search.

    def best(self) -> tuple[Usual, list[GpuAxis]]:
        """The usual ISAs and the entries that, with their exclusions, are shortest."""
        guesses = sorted((self._guess(usual) for usual in self._usuals()), key=lambda guess: guess[0])
        found: list[tuple[int, int, Usual, list[_Form]]] = []
        for rank, (_, usual, forms, chosen) in enumerate(guesses[:2]):
            for start in self._starts(forms, chosen):
                entries, size = self._descend(usual, forms, start)
                found.append((size, rank, usual, entries))
        _, _, usual, entries = min(found, key=lambda one: one[:2])
        return usual, [form.axis for form in entries]

    def _starts(self, forms: Sequence[Sequence[_Form]], chosen: list[_Form]) -> Iterator[list[_Form]]:
        """Starting points: each GPU's best form alone, its best with the usual ISAs, its plainest."""
        yield chosen
        yield [
            min((form for form in options if not form.axis.isas), key=self._alone, default=options[0])
            for options in forms
        ]
        yield [options[0] for options in forms]

    def lines(self, usual: Usual, entries: Sequence[GpuAxis]) -> tuple[Line, ...]:
        """The exclusions that `entries` need."""
        holds = 0
        for axis in entries:
            holds |= self._holds(usual, axis)
        return self.cover.lines(holds, self.wanted)

    def _guess(self, usual: Usual) -> tuple[tuple[int, Usual], Usual, list[list[_Form]], list[_Form]]:
        """The forms of every GPU, and each GPU's best form alone, with their size."""
        forms = [list(self._forms(gpu, usual)) for gpu in self.gpus]
        chosen = [min(options, key=self._alone) for options in forms]
        size = self._usual_size(usual) + sum(map(self._alone, chosen))
        return (size, usual), usual, forms, chosen

    def _alone(self, form: _Form) -> int:
        lines = self.cover.lines(form.holds, self.wanted & form.holds)
        return form.size + sum(len(line.text) for line in lines)

    def _descend(
        self, usual: Usual, forms: Sequence[Sequence[_Form]], start: Sequence[_Form]
    ) -> tuple[list[_Form], int]:
        """From `start`, changes the form of one GPU, or of all with the same forms, while the text gets shorter."""
        chosen, size = list(start), self._size(usual, start)
        moves = [(group, option) for group in _groups(forms) for option in range(len(forms[group[0]]))]
        shorter = True
        while shorter:
            shorter = False
            for group, option in moves:
                if self.cover.steps > MOST_STEPS:
                    return chosen, size
                changed = [forms[at][option] if at in group else form for at, form in enumerate(chosen)]
                if changed != chosen and (new := self._size(usual, changed)) < size:
                    chosen, size, shorter = changed, new, True
        return chosen, size

    def _size(self, usual: Usual, forms: Sequence[_Form]) -> int:
        """The number of characters of the usual ISAs, the entries and their exclusions."""
        holds = 0
        for form in forms:
            holds |= form.holds
        lines = self.cover.lines(holds, self.wanted)
        return self._usual_size(usual) + sum(form.size for form in forms) + sum(len(line.text) for line in lines)

    def _usual_size(self, usual: Usual) -> int:
        return len(flow(_by_system(usual, self.hardware)))

    # The forms.

    def _usuals(self) -> Iterator[Usual]:
        """Sets of usual ISAs to try: for each system the three most common sets, all ISAs, and none."""
        choices: list[list[frozenset[str]]] = []
        for system in self.hardware.systems:
            here = {isa for isa in self.all_isas if self.hardware.isa(isa).system == system}
            counts = Counter(isas & here for isas in self.isas.values() if isas & here)
            ordered = sorted(counts, key=lambda isas: (-counts[isas], -len(isas), sorted(isas)))
            choices.append(list(dict.fromkeys([*ordered[:3], frozenset(here), frozenset()])))
        for chosen in all_of(*choices):
            if usual := tuple(sorted(frozenset().union(*chosen))):
                yield usual

    def _forms(self, gpu: str, usual: Usual) -> Iterator[_Form]:
        """The forms of a GPU's entry, the plainest first."""
        on = {branch: isas for branch in self.branches if (isas := self.isas.get((gpu, branch)))}
        able = [branch for branch in self.branches if any((gpu, branch, isa) in self.cells for isa in self.all_isas)]
        shared, every = frozenset.intersection(*on.values()), frozenset().union(*on.values())
        own = dict.fromkeys([frozenset[str](), shared, *sorted(on.values(), key=sorted), every])
        for branches in dict.fromkeys([(), () if set(able) == set(on) else tuple(on)]):
            for isas in own:
                base = isas or set(usual)
                if isas != set(usual) and (isas or base & every):
                    also = {branch: tuple(sorted(mine - base)) for branch, mine in on.items() if mine - base}
                    axis = GpuAxis(name=gpu, branches=branches, isas=tuple(sorted(isas)), also=also)
                    size = len(gpu) + len(flow(entry_of(axis)))
                    yield _Form(axis=axis, holds=self._holds(usual, axis), size=size)

    def _holds(self, usual: Usual, axis: GpuAxis) -> int:
        holds = 0
        for branch in axis.branches or self.branches:
            for isa in {*(axis.isas or usual), *axis.also.get(branch, ())}:
                holds |= self.cells.get((axis.name, branch, isa), 0)
        return holds


def _groups(forms: Sequence[Sequence[_Form]]) -> list[tuple[int, ...]]:
    """The position of each GPU, and the positions of all GPUs with the same forms together."""
    alike: dict[str, list[int]] = {}
    for at, options in enumerate(forms):
        alike.setdefault(str([entry_of(form.axis) for form in options]), []).append(at)
    return [*((at,) for at in range(len(forms))), *(tuple(group) for group in alike.values() if len(group) > 1)]
