"""The spec of a fleet: what it states about branches, packages and axes, from names and facts.

`matrix_of` finds the matrix that states a set of variants in few characters: products and their exceptions.

Each GPU's entry has a few possible forms: empty, with branches or toolkits, with its own ISAs, with further ISAs by
branch. GPUs with the same variants get the same form: the shortest, counted together with the exclusions that it
needs. The exclusions of all entries are then found together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from itertools import product as all_of
from typing import Any

from ci_compiler.adoption.exclusions import BECAUSE, Cover, Key
from ci_compiler.adoption.facts import Facts, PackageFacts, most_common
from ci_compiler.adoption.guesses import Guessed
from ci_compiler.adoption.names import Row, possible
from ci_compiler.adoption.opened import combinations
from ci_compiler.adoption.reads import Elsewhere, Reads
from ci_compiler.adoption.spec_text import GUESSED, Section, SpecText
from ci_compiler.adoption.spec_yaml import flow
from ci_compiler.hardware import ALL, CPU, Hardware, Version
from ci_compiler.hardware.families import DEFAULT, family_of
from ci_compiler.spec.axes import SHORT_FAMILY
from ci_compiler.spec.build import bundled_spec
from ci_compiler.spec.model import Package, Source
from ci_compiler.spec.packages import Pin
from ci_compiler.spec.schema import schema, with_defaults
from ci_compiler.units import grouped

ALIKE = 0.6
"""The share of variants that two packages must have in common to take the same matrix."""

_MAIN = ("main", "master")


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """The recipes of a spec, and what is known about them."""

    rows: Sequence[Row]
    facts: Facts
    reads: Mapping[str, Reads]
    guessed: Guessed
    spelled: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def branches(self) -> tuple[str, ...]:
        """The branches, in the order of the folders."""
        return tuple(dict.fromkeys(row.branch for row in self.rows))

    @cached_property
    def repeated(self) -> dict[str, str]:
        """The branches that repeat names and versions of another, by which they would be overwritten, with that one."""
        held: dict[str, set[tuple[str, str]]] = {}
        for row in self.rows:
            version = self.facts.versions.get((row.branch, row.package), "")
            held.setdefault(row.branch, set()).add((row.name, version))
        taken: dict[tuple[str, str], str] = {}
        repeated: dict[str, str] = {}
        for branch in sorted(held, key=lambda branch: (branch not in _MAIN, -len(held[branch]))):
            if both := held[branch] & taken.keys():
                repeated[branch] = taken[min(both)]
            else:
                taken |= dict.fromkeys(held[branch], branch)
        return repeated

    @cached_property
    def elsewhere(self) -> dict[str, Elsewhere]:
        """The packages that other repositories build."""
        return {name: one for reads in self.reads.values() for name, one in reads.elsewhere.items()}

    @cached_property
    def packages(self) -> dict[str, list[Row]]:
        """The recipes of each package: the bundled stack's packages first, the others by name."""
        known, rows = list(_bundled()), grouped(self.rows, lambda row: row.package)
        place = {name: known.index(usual) if (usual := _usual_name(name)) else len(known) for name in rows}
        return {name: rows[name] for name in sorted(rows, key=lambda name: (place[name], name))}

    @cached_property
    def kits(self) -> dict[str, tuple[str, ...]]:
        """The toolkits of each branch."""
        return {branch: self._versions(branch, "toolkit") for branch in self.branches}

    @cached_property
    def pythons(self) -> dict[str, tuple[str, ...]]:
        """The Pythons of each branch."""
        return {branch: self._versions(branch, "python") for branch in self.branches}

    @cached_property
    def usual_pythons(self) -> tuple[str, ...]:
        """The Pythons of most branches, which the matrix states."""
        return most_common(filter(None, self.pythons.values())) or ()

    def on(self, rows: Sequence[Row], branches: Sequence[str] = ()) -> dict[str, object]:
        """The key `branches` of an entry that `rows` are of, if they are not on all `branches` (of the fleet)."""
        branches = branches or self.branches
        own = [branch for branch in branches if any(row.branch == branch for row in rows)]
        return {"branches": own} if len(own) < len(branches) else {}

    def _versions(self, branch: str, axis: str) -> tuple[str, ...]:
        versions = {getattr(row, axis) for row in self.rows if row.branch == branch} - {""}
        return tuple(sorted(versions, key=Version.parse))


def spec_text(fleet: Fleet, compiled: frozenset[str], extra: Mapping[str, Sequence[Key]]) -> SpecText:
    """The spec in which the recipes of the packages `compiled` are compiled, and all others the repository's own.

    `extra` are variants of each package to exclude by name, beyond what the search for patterns excludes.
    """
    general, own = _matrices(fleet, extra)
    systems = {row.system for row in fleet.rows}
    return SpecText(
        branches=[_branch(fleet, branch) for branch in fleet.branches],
        packages=[
            *(_elsewhere(fleet, name, source) for name, source in fleet.elsewhere.items()),
            *(
                _package(fleet, name, rows, own.get(name, {}), compiled=name in compiled)
                for name, rows in fleet.packages.items()
            ),
        ],
        matrix=general,
        systems=[system for system in fleet.guessed.hardware.systems if system in systems],
        declared=fleet.guessed.declared,
        hardware=fleet.guessed.hardware,
        spelled=fleet.spelled if any(row.values for row in fleet.rows) else {},
    )


# Branches.


def _branch(fleet: Fleet, name: str) -> Section:
    facts = fleet.facts
    pins = {kit: facts.pins.get((name, kit), Pin()) for kit in fleet.kits[name]}
    own = next((pin for pin in (facts.pins.get((name, "")), *pins.values()) if pin and pin.nixpkgs), Pin())
    base = _row_of(own)
    row = _toolkits(base, pins)
    if fleet.pythons[name] not in {(), fleet.usual_pythons}:
        row["python"] = fleet.pythons[name]
    row |= base
    versions = {package: facts.versions.get((name, package), "") for package in fleet.packages}
    if stated := {package: version for package, version in versions.items() if version}:
        row["versions"] = stated
    guessed = sorted(package for branch, package in facts.guessed_versions if branch == name)
    remarks = {"versions": f"{GUESSED} from texts: {', '.join(guessed)}"} if guessed else {}
    if name in fleet.repeated:
        row["publish"] = False
        remarks["publish"] = (
            f"{GUESSED}: {fleet.repeated[name]} has the same names and versions, which one would overwrite"
        )
    return Section(name, row, remarks=remarks)


def _toolkits(base: Mapping[str, Any], pins: Mapping[str, Pin]) -> dict[str, object]:
    """The key of the toolkits of a branch: its toolkits, with what their pins change in that of the branch."""
    refined = {kit: _refined(base, _row_of(pin)) if pin.nixpkgs else {} for kit, pin in pins.items()}
    if any(refined.values()):
        return {SHORT_FAMILY: refined}
    return {SHORT_FAMILY: next(iter(pins)) if len(pins) == 1 else list(pins)} if pins else {}


def _row_of(pin: Pin) -> dict[str, Any]:
    """A pin's keys in the spec, without its defaults."""
    row: dict[str, Any] = {}
    for own in fields(pin):
        value = getattr(pin, own.name)
        if own.name == "sources":
            value = {package: _source(source) for package, source in value.items()}
        if value:
            row[own.name.replace("_", "-")] = value
    return row


def _refined(base: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """What a toolkit's pin changes in that of its branch."""
    empty = {"allow-broken": False, "work-arounds": ()}
    changed = {key: value for key, value in row.items() if base.get(key) != value}
    return changed | {key: value for key, value in empty.items() if key in base and key not in row}


def _source(source: Source) -> dict[str, object]:
    row: dict[str, object] = {"repository": source.repository, "tag": source.tag, "hash": source.hash}
    return row | ({"submodules": True} if source.submodules else {})


# Packages.


def _package(fleet: Fleet, name: str, rows: Sequence[Row], matrix: Mapping[str, object], *, compiled: bool) -> Section:
    row: dict[str, object] = {} if compiled else {"recipes": "own"}
    listed = [recipe for recipe in rows if recipe.listed]
    single = all(recipe.listed and recipe.name == name for recipe in rows)
    guesses = [*["the system"] * any(recipe.guessed for recipe in listed), "the minutes"]
    if single:
        row["system"] = most_common([recipe.system for recipe in rows])
    row |= _usual_row(name, fleet.facts.packages.get(name, PackageFacts()))
    if fleet.reads[name].shared and not compiled:
        row["shared"] = fleet.reads[name].shared
    row |= {"needs": needs} if (needs := _needs(fleet, name, rows)) else {}
    row |= fleet.on(rows)
    if listed and not single:
        branches = [branch for branch in fleet.branches if any(recipe.branch == branch for recipe in rows)]
        row["variants"] = {
            variant: {"system": most_common([recipe.system for recipe in same]), **fleet.on(same, branches)}
            for variant, same in grouped(listed, lambda recipe: recipe.name).items()
        }
    row |= {"matrix": stated} if (stated := {key: value for key, value in matrix.items() if value}) else {}
    return Section(name, row, f"{GUESSED}: {', '.join(guesses)}")


@cache
def _bundled() -> Mapping[str, Package]:
    return bundled_spec().packages


def _usual_name(name: str) -> str:
    """The bundled stack's package that a package is, by its name: `torchvision` for `torchvision027`; '' for none."""
    plain = name.rstrip("0123456789")
    return plain if plain in _bundled() else ""


def _usual_row(name: str, facts: PackageFacts) -> dict[str, object]:
    """What is known of a package, and what the bundled stack states about it, as far as it is not the default."""
    usual = _bundled().get(_usual_name(name))
    row: dict[str, object] = {"attribute": facts.attribute, "title": facts.title, "jobs": facts.jobs}
    if usual is not None:
        row |= {"attribute": usual.attribute, "title": facts.title or usual.title, "minutes": dict(usual.minutes)}
        row |= {"disk": usual.disk, "memory": usual.memory}
    defaults = {**with_defaults({}, schema()["$defs"]["package"]), "attribute": name, "title": name}
    stated = {key: value for key, value in row.items() if value and value != defaults.get(key)}
    return stated | {"minutes": row.get("minutes", defaults["minutes"])}


def _elsewhere(fleet: Fleet, name: str, source: Elsewhere) -> Section:
    """A package that another repository builds."""
    rows = [row for package, rows in fleet.packages.items() if name in fleet.reads[package].elsewhere for row in rows]
    repository = {"name": source.repository, "rev": source.rev, "hash": source.hash}
    row: dict[str, object] = {"recipes": "own", **_usual_row(name, PackageFacts())}
    del row["minutes"]  # nothing here builds it
    row |= fleet.on(rows) | {"repository": {key: value for key, value in repository.items() if value}}
    return Section(name, row)


def _needs(fleet: Fleet, name: str, rows: Sequence[Row]) -> tuple[str, ...]:
    """The packages whose recipes this one's import, if each of its variants has theirs in the same cell."""
    keys = {row.key for row in fleet.rows if not row.listed}
    mine = [row.key for row in rows if not row.listed]
    wanted = fleet.reads[name].needs
    return tuple(
        need
        for need in wanted
        if need in fleet.elsewhere or (mine and all(key._replace(package=need) in keys for key in mine))
    )


# Axes.


def _matrices(
    fleet: Fleet, extra: Mapping[str, Sequence[Key]]
) -> tuple[Mapping[str, Any], dict[str, Mapping[str, Any]]]:
    """The general matrix ({}: none), and the own ones of packages that have little in common with it."""
    placed = grouped((row for row in fleet.rows if not row.listed), lambda row: row.package)
    open_ = {name: placed.pop(name) for name in list(placed) if any(row.values for row in placed[name])}
    keys = {package: [row.key for row in rows] for package, rows in placed.items()}

    def matrix_for(names: Sequence[str]) -> dict[str, Any]:
        on = {name: tuple(dict.fromkeys(key.branch for key in keys[name])) for name in names}
        ground = Ground(kits=fleet.kits, pythons=fleet.pythons, packages=on, hardware=fleet.guessed.hardware)
        matrix = matrix_of([key for name in names for key in keys[name]], ground)
        more = [exclusion for name in names for exclusion in by_name(extra.get(name, ()))]
        return {"python": fleet.usual_pythons, **matrix, "exclude": [*matrix["exclude"], *more]}

    # A package that has listed variants alone takes the general matrix where there is one.
    others = {name: rows for name, rows in fleet.packages.items() if name not in keys and name not in open_}
    outside = any(row.name != name for name, rows in others.items() for row in rows)
    together = [] if outside or not keys else _together(keys)
    own: dict[str, Mapping[str, Any]] = {name: matrix_for([name]) for name in keys if name not in together}
    own |= {name: {"rows": [_short(one) for one in combinations(rows)]} for name, rows in open_.items()}
    return matrix_for(together) if together else {}, own


def _short(row: Mapping[str, Sequence[str]]) -> dict[str, object]:
    return {axis: values if values[1:] else values[0] for axis, values in row.items()}


def _together(keys: Mapping[str, Sequence[Key]]) -> list[str]:
    """The packages that share the general matrix: those with about the same variants as the largest."""
    cells = {name: {key._replace(package="") for key in mine} for name, mine in keys.items()}
    largest = max(cells, key=lambda name: len(cells[name]))
    return [name for name in cells if _alike(cells[largest], cells[name])]


def _alike(one: set[Key], other: set[Key]) -> bool:
    """Whether two packages have about the same variants on the branches that both are on."""
    both = {key.branch for key in one} & {key.branch for key in other}
    here, there = ({key for key in keys if key.branch in both} for keys in (one, other))
    return not both or len(here & there) >= ALIKE * len(here | there)


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


def matrix_of(variants: Sequence[Key], ground: Ground) -> dict[str, Any]:
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

    def __init__(self, variants: Sequence[Key], ground: Ground) -> None:
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
                Key(branch, "", "3", kit, family_of(DEFAULT).example if kit else CPU, isa) for branch, kit, isa in slots
            ]
            cover = Cover(keys)
            bits = cover.mask(key for key in keys if (key.branch, key.toolkit, key.isa) in wanted)
            lines = cover.lines(bits, _MOST_TRIED) if held != wanted else ()
            size = 60 * len(held - wanted) if lines is None else sum(len(line.text) for line in lines)
            self._costs[held, wanted] = size
        return self._costs[held, wanted]

    # The exclusions.

    def excluded(self, usual: Usual, gpus: Mapping[str, Entry], wanted: frozenset[Key]) -> list[Entry]:
        """The exclusions that the entries need, by patterns, or by name where patterns get long."""
        held = [
            Key(branch, package, python, kit, gpu, isa)
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


def by_name(keys: Iterable[Key]) -> list[Entry]:
    """Exclusions of `keys` by name."""
    return [_exclusion(key.name, (key.branch,)) for key in keys]


def _exclusion(pattern: str, branches: tuple[str, ...]) -> Entry:
    return {"variants": pattern, **({"branches": branches} if branches else {}), "because": BECAUSE}
