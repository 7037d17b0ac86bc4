"""The matrix that states a set of variants in few characters: products and their exceptions.

Each GPU's entry has a few possible forms: empty, with branches or toolkits, with its own ISAs, with further ISAs by
branch. GPUs with the same variants get the same form: the shortest, counted together with the exclusions that it
needs. The exclusions of all entries are then found together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product as all_of

from ci_compiler.adoption.exclusions import BECAUSE, Cover, Key
from ci_compiler.adoption.names import possible
from ci_compiler.adoption.spec_yaml import flow
from ci_compiler.hardware import ALL, CPU, Hardware
from ci_compiler.spec.model import Exclusion, GpuAxis, Matrix
from ci_compiler.variant import cell_suffix, variant_name

MOST_LINES = 60
"""The exclusions by pattern that a matrix may have; variants are excluded by name where these are not enough."""

_MOST_TRIED = 12
"""The exclusions by pattern that a form of an entry may need; forms that need more count as long."""

Usual = tuple[str, ...]
Slot = tuple[str, str, str]
"""A branch, a toolkit ('' for CPU variants) and an ISA: the places where a GPU may have variants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a matrix is multiplied by: the toolkits and Pythons of each branch, and the branches of each package."""

    cudas: Mapping[str, tuple[str, ...]]
    pythons: Mapping[str, tuple[str, ...]]
    packages: Mapping[str, tuple[str, ...]]
    hardware: Hardware


def matrix_of(variants: Sequence[Key], ground: Ground) -> Matrix:
    """The matrix of `variants`, all of which the rules allow."""
    search = _Search(variants, ground)
    usual, axes = search.best()
    pythons = dict.fromkeys(python for branch in ground.cudas for python in ground.pythons[branch])
    lines = search.excluded(usual, axes, frozenset(variants))
    return Matrix(
        pythons=tuple(sorted(pythons, key=lambda text: [*map(int, text.split("."))])),
        isas=_by_system(usual, ground.hardware),
        gpus=tuple(axes),
        exclude=tuple(
            Exclusion(index=index, pattern=pattern, branches=branches, because=BECAUSE)
            for index, (pattern, branches) in enumerate(lines)
        ),
    )


def _by_system(usual: Usual, hardware: Hardware) -> dict[str, tuple[str, ...]]:
    found = {system: tuple(isa for isa in usual if hardware.isa(isa).system == system) for system in hardware.systems}
    return {system: isas for system, isas in found.items() if isas}


def entry_of(axis: GpuAxis) -> dict[str, object]:
    """A GPU's entry as in the spec's document."""
    row = {"branches": axis.branches, "cuda": axis.toolkits, "isas": axis.isas, "also": axis.also}
    return {key: value for key, value in row.items() if value}


class _Search:
    """One call of `matrix_of`. `slots` is where each GPU has variants, `able` where the rules allow them."""

    def __init__(self, variants: Sequence[Key], ground: Ground) -> None:
        self.ground, self.hardware = ground, ground.hardware
        self.slots: dict[str, set[Slot]] = {}
        for key in variants:
            self.slots.setdefault(key.gpu, set()).add((key.branch, key.cuda, key.isa))
        known = [CPU, ALL.name, *self.hardware.gpus]
        self.gpus = sorted(self.slots, key=known.index)
        self.isas = sorted({key.isa for key in variants})
        self.branches = [branch for branch in ground.cudas if any(branch == key.branch for key in variants)]
        self.able = {gpu: frozenset(self._able(gpu)) for gpu in self.gpus}
        self._costs: dict[tuple[frozenset[Slot], frozenset[Slot]], int] = {}

    def _able(self, gpu: str) -> Iterator[Slot]:
        for branch in self.ground.cudas:
            for cuda in [""] if gpu == CPU else self.ground.cudas[branch]:
                yield from (
                    (branch, cuda, isa) for isa in self.isas if gpu == CPU or possible(self.hardware, gpu, cuda, isa)
                )

    def best(self) -> tuple[Usual, list[GpuAxis]]:
        """The usual ISAs and the entries that are shortest."""
        alike: dict[tuple[frozenset[Slot], frozenset[Slot]], list[str]] = {}
        for gpu in self.gpus:
            alike.setdefault((frozenset(self.slots[gpu]), self.able[gpu]), []).append(gpu)
        found: list[tuple[int, Usual, dict[str, GpuAxis]]] = []
        for usual in self._usuals():
            size, chosen = len(flow(_by_system(usual, self.hardware))), dict[str, GpuAxis]()
            for group in alike.values():
                cost, axis = min(self._forms(group, usual), key=lambda one: one[0])
                size += cost
                chosen |= {gpu: _called(gpu, axis) for gpu in group}
            found.append((size, usual, chosen))
        _, usual, chosen = min(found, key=lambda one: one[:2])
        return usual, [chosen[gpu] for gpu in self.gpus]

    def _usuals(self) -> Iterator[Usual]:
        """Sets of usual ISAs to try: for each system the three most common sets, all ISAs, and none."""
        places: dict[tuple[str, str, str], set[str]] = {}
        for gpu, slots in self.slots.items():
            for branch, cuda, isa in slots:
                places.setdefault((gpu, branch, cuda), set()).add(isa)
        choices: list[list[frozenset[str]]] = []
        for system in self.hardware.systems:
            here = {isa for isa in self.isas if self.hardware.isa(isa).system == system}
            counts = Counter(frozenset(isas & here) for isas in places.values() if isas & here)
            ordered = sorted(counts, key=lambda isas: (-counts[isas], -len(isas), sorted(isas)))
            choices.append(list(dict.fromkeys([*ordered[:3], frozenset(here), frozenset()])))
        for chosen in all_of(*choices):
            if usual := tuple(sorted(frozenset().union(*chosen))):
                yield usual

    # The forms.

    def _forms(self, group: Sequence[str], usual: Usual) -> Iterator[tuple[int, GpuAxis]]:
        """The forms of an entry that `group` shares, the plainest first, each with its length in the spec."""
        gpu = group[0]
        slots = self.slots[gpu]
        on: dict[str, frozenset[str]] = {}
        for branch in self.ground.cudas:
            if isas := frozenset(isa for there, _, isa in slots if there == branch):
                on[branch] = isas
        cudas = tuple(dict.fromkeys(cuda for known in self.ground.cudas.values() for cuda in known))
        used = tuple(cuda for cuda in cudas if any(cuda == has for _, has, _ in slots))
        limits = dict.fromkeys([(), () if gpu == CPU or used == cudas else used])
        shared, every = frozenset.intersection(*on.values()), frozenset().union(*on.values())
        own = dict.fromkeys([frozenset[str](), shared, *sorted(on.values(), key=sorted), every])
        for branches, limit in all_of(dict.fromkeys([(), () if len(on) == len(self.branches) else tuple(on)]), limits):
            for isas in own:
                base = isas or frozenset(usual)
                if isas != set(usual) and (isas or base & every):
                    also = {branch: tuple(sorted(mine - base)) for branch, mine in on.items() if mine - base}
                    axis = GpuAxis(name=gpu, branches=branches, toolkits=limit, isas=tuple(sorted(isas)), also=also)
                    yield self._size(group, usual, axis), axis

    def _size(self, group: Sequence[str], usual: Usual, axis: GpuAxis) -> int:
        entries = sum(len(gpu) for gpu in group) + len(group) * len(flow(entry_of(axis)))
        return entries + self._cost(self._held(usual, axis), frozenset(self.slots[axis.name]))

    def _held(self, usual: Usual, axis: GpuAxis) -> frozenset[Slot]:
        """The places where an entry puts variants."""
        branches, cudas, isas = axis.branches or self.ground.cudas, axis.toolkits, axis.isas or usual
        return frozenset(
            (branch, cuda, isa)
            for branch, cuda, isa in self.able[axis.name]
            if branch in branches and (not cudas or cuda in cudas) and (isa in isas or isa in axis.also.get(branch, ()))
        )

    def _cost(self, held: frozenset[Slot], wanted: frozenset[Slot]) -> int:
        """The characters of the exclusions that leave `wanted` of `held`."""
        if (held, wanted) not in self._costs:
            keys = [
                Key(branch=b, package="", python="3", cuda=c, gpu="sm90" if c else CPU, isa=i)
                for b, c, i in sorted(held)
            ]
            cover = Cover(keys)
            bits = cover.mask(key for key in keys if (key.branch, key.cuda, key.isa) in wanted)
            lines = cover.lines(bits, _MOST_TRIED) if held != wanted else ()
            size = 60 * len(held - wanted) if lines is None else sum(len(line.text) for line in lines)
            self._costs[held, wanted] = size
        return self._costs[held, wanted]

    # The exclusions.

    def excluded(
        self, usual: Usual, axes: Sequence[GpuAxis], wanted: frozenset[Key]
    ) -> list[tuple[str, tuple[str, ...]]]:
        """The exclusions that `axes` need, as patterns and their branches; by name where patterns get long."""
        held = [
            Key(branch=branch, package=package, python=python, cuda=cuda, gpu=axis.name, isa=isa)
            for axis in axes
            for branch, cuda, isa in sorted(self._held(usual, axis))
            for package, on in self.ground.packages.items()
            if branch in on
            for python in self.ground.pythons[branch]
        ]
        cover = Cover(held)
        lines = cover.lines(cover.mask(wanted), MOST_LINES)
        if lines is not None:
            return [(line.pattern, line.branches) for line in lines]
        return by_name(key for key in held if key not in wanted)


def by_name(keys: Iterable[Key]) -> list[tuple[str, tuple[str, ...]]]:
    """Exclusions of `keys` by name."""
    return [(variant_name(key.package, _suffix(key)), (key.branch,)) for key in keys]


def _suffix(key: Key) -> str:
    return cell_suffix(python=key.python, toolkit=key.cuda, target=key.gpu, isa=key.isa)


def _called(gpu: str, axis: GpuAxis) -> GpuAxis:
    return GpuAxis(name=gpu, branches=axis.branches, toolkits=axis.toolkits, isas=axis.isas, also=axis.also)
