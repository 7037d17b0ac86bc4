"""The spec of a fleet: what it states about branches, packages and axes, from names and facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from typing import Any

from ci_compiler.adoption.axes import Ground, by_name, matrix_of
from ci_compiler.adoption.exclusions import BECAUSE, Key
from ci_compiler.adoption.facts import Facts, PackageFacts, most_common
from ci_compiler.adoption.guesses import Guessed
from ci_compiler.adoption.names import Row
from ci_compiler.adoption.reads import Elsewhere, Reads
from ci_compiler.adoption.spec_text import GUESSED, BranchText, PackageText, SpecText
from ci_compiler.hardware import Version
from ci_compiler.spec.build import bundled_spec
from ci_compiler.spec.model import Exclusion, Matrix, Package, Source
from ci_compiler.spec.packages import Pin
from ci_compiler.spec.schema import schema, with_defaults

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
        known = list(_bundled())
        found: dict[str, list[Row]] = {}
        for row in self.rows:
            found.setdefault(row.package, []).append(row)
        order = sorted(
            found, key=lambda name: (known.index(usual) if (usual := _usual_name(name)) else len(known), name)
        )
        return {name: found[name] for name in order}


def spec_text(fleet: Fleet, compiled: frozenset[str], extra: Mapping[str, Sequence[Key]]) -> SpecText:
    """The spec in which the recipes of the packages `compiled` are compiled, and all others the repository's own.

    `extra` are variants of each package to exclude by name, beyond what the search for patterns excludes.
    """
    cudas = {branch: _cudas(fleet, branch) for branch in fleet.branches}
    pythons, usual = _pythons(fleet)
    general, own = _matrices(fleet, cudas, pythons, usual, extra)
    systems = {row.system for row in fleet.rows}
    return SpecText(
        branches=[_branch(fleet, branch, cudas[branch], pythons[branch], usual) for branch in fleet.branches],
        packages=[
            *(_elsewhere(fleet, name, one) for name, one in fleet.elsewhere.items()),
            *(
                _package(fleet, name, rows, own.get(name), compiled=name in compiled)
                for name, rows in fleet.packages.items()
            ),
        ],
        matrix=general,
        systems=[system for system in fleet.guessed.hardware.systems if system in systems],
        declared=fleet.guessed.declared,
        hardware=fleet.guessed.hardware,
    )


# Branches.


def _cudas(fleet: Fleet, branch: str) -> tuple[str, ...]:
    return tuple(sorted({row.cuda for row in fleet.rows if row.branch == branch and row.cuda}, key=Version.parse))


def _pythons(fleet: Fleet) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """The Pythons of each branch, and those of most branches, which the matrix states."""
    found = {
        branch: tuple(
            sorted({row.python for row in fleet.rows if row.branch == branch and row.python}, key=Version.parse)
        )
        for branch in fleet.branches
    }
    return found, most_common(filter(None, found.values())) or ()


def _branch(
    fleet: Fleet, name: str, cudas: tuple[str, ...], pythons: tuple[str, ...], usual: tuple[str, ...]
) -> BranchText:
    facts = fleet.facts
    pins = {cuda: facts.pins.get((name, cuda), Pin()) for cuda in cudas}
    own = next((pin for pin in (facts.pins.get((name, "")), *pins.values()) if pin and pin.nixpkgs), Pin())
    guessed = sorted(package for branch, package in facts.guessed_versions if branch == name)
    remarks = {"versions": f"{GUESSED} from texts: {', '.join(guessed)}"} if guessed else {}
    if name in fleet.repeated:
        remarks["publish"] = (
            f"{GUESSED}: {fleet.repeated[name]} has the same names and versions, which one would overwrite"
        )
    return BranchText(name=name, row=_branch_row(fleet, name, own, pins, pythons, usual), remarks=remarks)


def _branch_row(
    fleet: Fleet, name: str, own: Pin, pins: Mapping[str, Pin], pythons: tuple[str, ...], usual: tuple[str, ...]
) -> dict[str, object]:
    base = _row_of(own)
    refined = {cuda: _refined(base, _row_of(pin)) if pin.nixpkgs else {} for cuda, pin in pins.items()}
    row: dict[str, object] = {}
    if any(refined.values()):
        row["cuda"] = refined
    elif pins:
        row["cuda"] = next(iter(pins)) if len(pins) == 1 else list(pins)
    if pythons and pythons != usual:
        row["python"] = pythons
    here = {one.package for one in fleet.rows if one.branch == name}
    known = {package: fleet.facts.versions.get((name, package), "") for package in fleet.packages if package in here}
    row |= base
    if versions := {package: version for package, version in known.items() if version}:
        row["versions"] = versions
    if name in fleet.repeated:
        row["publish"] = False
    return row


def _row_of(pin: Pin) -> dict[str, Any]:
    """A pin's keys in the spec, without its defaults."""
    row: dict[str, Any] = {}
    for one in fields(pin):
        value = getattr(pin, one.name)
        if one.name == "sources":
            value = {package: _source(source) for package, source in value.items()}
        if value:
            row[one.name.replace("_", "-")] = value
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


def _package(fleet: Fleet, name: str, rows: Sequence[Row], matrix: Matrix | None, *, compiled: bool) -> PackageText:
    on = {row.branch for row in rows}
    usual = _usual(name)
    row: dict[str, object] = {} if compiled else {"recipes": "own"}
    listed = [one for one in rows if one.listed]
    single = all(one.listed and one.name == name for one in rows)
    guesses = [*["the system"] * any(one.guessed for one in listed), "the minutes"]
    if single:
        row["system"] = most_common([one.system for one in rows])
    row |= _usual_row(name, usual, fleet.facts.packages.get(name, PackageFacts()))
    if fleet.reads[name].shared and not compiled:
        row["shared"] = fleet.reads[name].shared
    row |= {"needs": needs} if (needs := _needs(fleet, name, rows)) else {}
    row |= (
        {"branches": branches}
        if len(branches := [one for one in fleet.branches if one in on]) < len(fleet.branches)
        else {}
    )
    if listed and not single:
        row["variants"] = dict(_variants(listed, branches))
    return PackageText(name=name, row=row, matrix=matrix, remark=f"{GUESSED}: {', '.join(guesses)}")


def _variants(listed: Sequence[Row], branches: Sequence[str]) -> Iterator[tuple[str, dict[str, object]]]:
    for name in dict.fromkeys(row.name for row in listed):
        mine = [row for row in listed if row.name == name]
        on = [branch for branch in branches if any(row.branch == branch for row in mine)]
        row: dict[str, object] = {"system": most_common([one.system for one in mine])}
        yield name, row | ({"branches": on} if len(on) < len(branches) else {})


@cache
def _bundled() -> Mapping[str, Package]:
    return bundled_spec().packages


def _usual_name(name: str) -> str:
    """The bundled stack's package that a package is, by its name: `torchvision` for `torchvision027`; '' for none."""
    plain = name.rstrip("0123456789")
    return plain if plain in _bundled() else ""


def _usual(name: str) -> Package | None:
    return _bundled().get(_usual_name(name))


def _usual_row(name: str, usual: Package | None, facts: PackageFacts) -> dict[str, object]:
    """What is known of a package, and what the bundled stack states about it, as far as it is not the default."""
    row: dict[str, object] = {"attribute": facts.attribute, "title": facts.title, "jobs": facts.jobs}
    if usual is not None:
        row |= {"attribute": usual.attribute, "title": facts.title or usual.title, "minutes": dict(usual.minutes)}
        row |= {"disk": usual.disk, "memory": usual.memory}
    defaults = {**with_defaults({}, schema()["$defs"]["package"]), "attribute": name, "title": name}
    stated = {key: value for key, value in row.items() if value and value != defaults.get(key)}
    return stated | {"minutes": row.get("minutes", defaults["minutes"])}


def _elsewhere(fleet: Fleet, name: str, one: Elsewhere) -> PackageText:
    """A package that another repository builds."""
    rows = [row for package, rows in fleet.packages.items() if name in fleet.reads[package].elsewhere for row in rows]
    on = [branch for branch in fleet.branches if any(row.branch == branch for row in rows)]
    there: dict[str, object] = {"name": one.repository, "rev": one.rev, "hash": one.hash}
    row: dict[str, object] = {"recipes": "own", **_usual_row(name, _usual(name), PackageFacts())}
    del row["minutes"]  # nothing here builds it
    row |= {"branches": on} if len(on) < len(fleet.branches) else {}
    return PackageText(name=name, row=row | {"repository": {key: value for key, value in there.items() if value}})


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
    fleet: Fleet,
    cudas: Mapping[str, tuple[str, ...]],
    pythons: Mapping[str, tuple[str, ...]],
    usual: tuple[str, ...],
    extra: Mapping[str, Sequence[Key]],
) -> tuple[Matrix | None, dict[str, Matrix]]:
    """The general matrix, and the own ones of packages that have little in common with it."""
    keys: dict[str, list[Key]] = {}
    for row in fleet.rows:
        if not row.listed:
            keys.setdefault(row.package, []).append(row.key)
    if not keys:
        return None, {}

    def made(names: Sequence[str]) -> Matrix:
        variants = [key for name in names for key in keys[name]]
        on = {name: tuple(dict.fromkeys(key.branch for key in keys[name])) for name in names}
        ground = Ground(cudas=cudas, pythons=pythons, packages=on, hardware=fleet.guessed.hardware)
        more = [one for name in names for one in by_name(extra.get(name, ()))]
        matrix = matrix_of(variants, ground)
        lines = [*((one.pattern, one.branches) for one in matrix.exclude), *more]
        exclude = tuple(
            Exclusion(index=index, pattern=pattern, branches=branches, because=BECAUSE)
            for index, (pattern, branches) in enumerate(lines)
        )
        return replace(matrix, pythons=usual, exclude=exclude)

    # A package that has listed variants alone takes the general matrix where there is one.
    outside = [
        name for name, rows in fleet.packages.items() if name not in keys and any(row.name != name for row in rows)
    ]
    together = [] if outside else _together(keys)
    own = {name: made([name]) for name in keys if name not in together}
    return (made(together) if together else None), own


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
