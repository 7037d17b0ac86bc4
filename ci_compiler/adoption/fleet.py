"""The spec of a fleet: what it states about branches, packages and axes, from names and facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cache, cached_property
from typing import Any

from ci_compiler.adoption.axes import Ground, by_name, matrix_of
from ci_compiler.adoption.exclusions import VariantKey
from ci_compiler.adoption.facts import FleetFacts, PackageFacts, most_common
from ci_compiler.adoption.guesses import Guessed
from ci_compiler.adoption.names import Row
from ci_compiler.adoption.opened import combinations
from ci_compiler.adoption.reads import Elsewhere, Reads
from ci_compiler.adoption.spec_text import GUESSED, Section, SpecText
from ci_compiler.hardware import Version
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
    facts: FleetFacts
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


def spec_text(fleet: Fleet, compiled: frozenset[str], extra: Mapping[str, Sequence[VariantKey]]) -> SpecText:
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
    if upstream := fleet.facts.packages.get(name, PackageFacts()).upstream:
        usual = with_defaults({}, schema()["$defs"]["upstream"])
        row["upstream"] = {key: value for key, value in asdict(upstream).items() if value not in ("", usual.get(key))}
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
    fleet: Fleet, extra: Mapping[str, Sequence[VariantKey]]
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


def _together(keys: Mapping[str, Sequence[VariantKey]]) -> list[str]:
    """The packages that share the general matrix: those with about the same variants as the largest."""
    cells = {name: {key._replace(package="") for key in mine} for name, mine in keys.items()}
    largest = max(cells, key=lambda name: len(cells[name]))
    return [name for name in cells if _alike(cells[largest], cells[name])]


def _alike(one: set[VariantKey], other: set[VariantKey]) -> bool:
    """Whether two packages have about the same variants on the branches that both are on."""
    both = {key.branch for key in one} & {key.branch for key in other}
    here, there = ({key for key in keys if key.branch in both} for keys in (one, other))
    return not both or len(here & there) >= ALIKE * len(here | there)
