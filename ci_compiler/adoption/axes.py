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
from typing import Any

from ci_compiler.adoption.exclusions import BECAUSE, Cover, VariantKey
from ci_compiler.adoption.names import possible
from ci_compiler.adoption.spec_yaml import flow
from ci_compiler.hardware import ALL, CPU, Hardware
from ci_compiler.hardware.families import DEFAULT, family_of
from ci_compiler.spec.axes import SHORT_FAMILY
from ci_compiler.units import grouped

MOST_LINES = 60
"""The exclusions by pattern that a matrix may have; variants are excluded by name where these are not enough."""

_MOST_TRIED = 12
"""The exclusions by pattern that a form of an entry may need; forms that need more count as long."""

Usual = tuple[str, ...]
Entry = dict[str, Any]
"""A GPU's entry as in the spec's document."""

Slot = tuple[str, str, str]
"""A branch, a toolkit ('' for CPU variants) and an ISA: the places where a GPU may have variants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a matrix is multiplied by: the toolkits and Pythons of each branch, and the branches of each package."""

    kits: Mapping[str, tuple[str, ...]]
    pythons: Mapping[str, tuple[str, ...]]
    packages: Mapping[str, tuple[str, ...]]
    hardware: Hardware


def matrix_of(variants: Sequence[VariantKey], ground: Ground) -> dict[str, Any]:
    """The matrix of `variants`, all of which the rules allow, as in the spec's document and without Pythons."""
    search = _Search(variants, ground)
    usual, gpus = search.best()
    exclude = search.excluded(usual, gpus, frozenset(variants))
    return {"isas": _by_system(usual, ground.hardware), "gpus": gpus, "exclude": exclude}


def _by_system(usual: Usual, hardware: Hardware) -> dict[str, tuple[str, ...]]:
    found = {system: tuple(isa for isa in usual if hardware.isa(isa).system == system) for system in hardware.systems}
    return {system: isas for system, isas in found.items() if isas}


class _Search:
    """One call of `matrix_of`. `slots` is where each GPU has variants, `able` where the rules allow them."""

    def __init__(self, variants: Sequence[VariantKey], ground: Ground) -> None:
        self.ground, self.hardware = ground, ground.hardware
        self.slots = {
            gpu: frozenset((key.branch, key.toolkit, key.isa) for key in keys)
            for gpu, keys in grouped(variants, lambda key: key.gpu).items()
        }
        known = [CPU, ALL.name, *self.hardware.gpus]
        self.gpus = sorted(self.slots, key=known.index)
        self.isas = sorted({key.isa for key in variants})
        self.branches = [branch for branch in ground.kits if any(branch == key.branch for key in variants)]
        self.able = {gpu: frozenset(self._able(gpu)) for gpu in self.gpus}
        self._costs: dict[tuple[frozenset[Slot], frozenset[Slot]], int] = {}

    def _able(self, gpu: str) -> Iterator[Slot]:
        for branch in self.ground.kits:
            for kit in [""] if gpu == CPU else self.ground.kits[branch]:
                yield from (
                    (branch, kit, isa) for isa in self.isas if gpu == CPU or possible(self.hardware, gpu, kit, isa)
                )

    def best(self) -> tuple[Usual, dict[str, Entry]]:
        """The usual ISAs and the entries that are shortest."""
        alike = grouped(self.gpus, lambda gpu: (self.slots[gpu], self.able[gpu]))
        found: list[tuple[int, Usual, dict[str, Entry]]] = []
        for usual in self._usuals():
            size, chosen = len(flow(_by_system(usual, self.hardware))), dict[str, Entry]()
            for group in alike.values():
                cost, entry = min(self._forms(group, usual), key=lambda form: form[0])
                size += cost
                chosen |= dict.fromkeys(group, entry)
            found.append((size, usual, chosen))
        _, usual, chosen = min(found, key=lambda choice: choice[:2])
        return usual, {gpu: chosen[gpu] for gpu in self.gpus}

    def _usuals(self) -> Iterator[Usual]:
        """Sets of usual ISAs to try: for each system the three most common sets, all ISAs, and none."""
        places: dict[tuple[str, str, str], set[str]] = {}
        for gpu, slots in self.slots.items():
            for branch, kit, isa in slots:
                places.setdefault((gpu, branch, kit), set()).add(isa)
        choices: list[list[frozenset[str]]] = []
        for system in self.hardware.systems:
            own = frozenset(isa for isa in self.isas if self.hardware.isa(isa).system == system)
            counts = Counter(own & isas for isas in places.values() if own & isas)
            ordered = sorted(counts, key=lambda isas: (-counts[isas], -len(isas), sorted(isas)))
            choices.append(list(dict.fromkeys([*ordered[:3], own, frozenset()])))
        for chosen in all_of(*choices):
            if usual := tuple(sorted(frozenset().union(*chosen))):
                yield usual

    # The forms.

    def _forms(self, group: Sequence[str], usual: Usual) -> Iterator[tuple[int, Entry]]:
        """The forms of an entry that `group` shares, the plainest first, each with its length in the spec."""
        gpu = group[0]
        slots = self.slots[gpu]
        on: dict[str, frozenset[str]] = {}
        for branch in self.ground.kits:
            if isas := frozenset(isa for there, _, isa in slots if there == branch):
                on[branch] = isas
        kits = tuple(dict.fromkeys(kit for known in self.ground.kits.values() for kit in known))
        used = tuple(kit for kit in kits if any(kit == has for _, has, _ in slots))
        limits = dict.fromkeys([(), () if gpu == CPU or used == kits else used])
        shared, every = frozenset.intersection(*on.values()), frozenset().union(*on.values())
        own = dict.fromkeys([frozenset[str](), shared, *sorted(on.values(), key=sorted), every])
        for branches, limit in all_of(dict.fromkeys([(), () if len(on) == len(self.branches) else tuple(on)]), limits):
            for isas in own:
                base = isas or frozenset(usual)
                if isas != set(usual) and (isas or base & every):
                    also = {branch: tuple(sorted(mine - base)) for branch, mine in on.items() if mine - base}
                    row = {"branches": branches, SHORT_FAMILY: limit, "isas": tuple(sorted(isas)), "also": also}
                    entry = {key: value for key, value in row.items() if value}
                    size = sum(len(name) for name in group) + len(group) * len(flow(entry))
                    yield size + self._cost(self._held(usual, gpu, entry), slots), entry

    def _held(self, usual: Usual, gpu: str, entry: Entry) -> frozenset[Slot]:
        """The places where an entry puts variants."""
        branches, kits = entry.get("branches", self.ground.kits), entry.get(SHORT_FAMILY, ())
        isas, also = entry.get("isas", usual), entry.get("also", {})
        return frozenset(
            (branch, kit, isa)
            for branch, kit, isa in self.able[gpu]
            if branch in branches and (not kits or kit in kits) and (isa in isas or isa in also.get(branch, ()))
        )

    def _cost(self, held: frozenset[Slot], wanted: frozenset[Slot]) -> int:
        """The characters of the exclusions that leave `wanted` of `held`."""
        if (held, wanted) not in self._costs:
            slots = sorted(held)
            keys = [
                VariantKey(branch, "", "3", kit, family_of(DEFAULT).example if kit else CPU, isa)
                for branch, kit, isa in slots
            ]
            cover = Cover(keys)
            bits = cover.mask(key for key in keys if (key.branch, key.toolkit, key.isa) in wanted)
            lines = cover.lines(bits, _MOST_TRIED) if held != wanted else ()
            size = 60 * len(held - wanted) if lines is None else sum(len(line.text) for line in lines)
            self._costs[held, wanted] = size
        return self._costs[held, wanted]

    # The exclusions.

    def excluded(self, usual: Usual, gpus: Mapping[str, Entry], wanted: frozenset[VariantKey]) -> list[Entry]:
        """The exclusions that the entries need, by patterns, or by name where patterns get long."""
        held = [
            VariantKey(branch, package, python, kit, gpu, isa)
            for gpu, entry in gpus.items()
            for branch, kit, isa in sorted(self._held(usual, gpu, entry))
            for package, on in self.ground.packages.items()
            if branch in on
            for python in self.ground.pythons[branch]
        ]
        cover = Cover(held)
        lines = cover.lines(cover.mask(wanted), MOST_LINES)
        if lines is not None:
            return [_exclusion(line.pattern, line.branches) for line in lines]
        return by_name(key for key in held if key not in wanted)


def by_name(keys: Iterable[VariantKey]) -> list[Entry]:
    """Exclusions of `keys` by name."""
    return [_exclusion(key.name, (key.branch,)) for key in keys]


def _exclusion(pattern: str, branches: tuple[str, ...]) -> Entry:
    return {"variants": pattern, **({"branches": branches} if branches else {}), "because": BECAUSE}
