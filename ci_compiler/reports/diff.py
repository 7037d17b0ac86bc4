"""The effects of a change of the spec: variants added, removed, rebuilt, rerouted and resharded, and the cost.

It compares two plans, never two texts. A variant is identified by its branch and name. It is rebuilt if an input of its
derivation changes (`build_inputs`), in its own package or in a package that it needs.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

from ci_compiler.hardware.families import family_of, nixpkgs
from ci_compiler.plan.job_graph import PlannedJob, guessed_of, jobs_of, needs_of
from ci_compiler.plan.lookup import BuiltVariant, built_variants
from ci_compiler.plan.matrix import Cell, Variant, applying, axis_values
from ci_compiler.plan.needs import Needs
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.records import Records
from ci_compiler.recipes.capabilities import variants_with_capabilities
from ci_compiler.recipes.seeds import seeder_of
from ci_compiler.reports.costs import Bill, bill_of
from ci_compiler.reports.evidence import proofs
from ci_compiler.reports.forecast import end_of, machine_counts
from ci_compiler.spec.axes import SHORT_FAMILY
from ci_compiler.spec.model import RecipeKind, Spec
from ci_compiler.spec.presets import override_in
from ci_compiler.spec.schema import with_defaults
from ci_compiler.stages import Stage, stages
from ci_compiler.variant import variant_name

Key = tuple[str, str]
"""A variant's branch and name."""

NOT_RUN = ""
"""Stands for the pool of a stage that no pool runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeGroup:
    """Variants of one branch with the same change. `scope`: the axis values that they fill (empty: all variants)."""

    branch: str
    scope: tuple[str, ...]
    names: tuple[str, ...]
    whole: bool
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerouted:
    """A stage whose jobs move to another pool, or to none, with the affected variants."""

    stage: Stage
    before: str
    after: str
    groups: tuple[ChangeGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The seconds that a pool needs to build the added and rebuilt variants."""

    pool: str
    jobs: int
    seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDifference:
    """All changes from one plan to another.

    `resharded`: variants by the shard before and after. `warnings_new`, `warnings_gone`: as `message [code]`. `proved`:
    what tests say of the added and rebuilt variants, most variants first. `settings`: every value of the spec that
    differs, with its dotted path. Times are in seconds: `end` for building the added and rebuilt variants,
    `full_before` and `full_after` for a full build. `guessed`, `guessed_full`: the packages whose minutes in these are
    a guess. `bill`: what the first costs, by the prices.
    """

    variants: int
    added: tuple[ChangeGroup, ...]
    removed: tuple[ChangeGroup, ...]
    rebuilt: tuple[ChangeGroup, ...]
    rerouted: tuple[Rerouted, ...]
    resharded: Mapping[tuple[str, str], tuple[str, ...]]
    warnings_new: tuple[str, ...]
    warnings_gone: tuple[str, ...]
    settings: tuple[tuple[str, str, str], ...]
    proved: tuple[ChangeGroup, ...]
    costs: tuple[Cost, ...]
    end: int
    full_before: int
    full_after: int
    guessed: tuple[str, ...]
    guessed_full: tuple[str, ...]
    bill: Bill | None = None

    def __bool__(self) -> bool:
        """Whether anything changes."""
        variants = (self.added, self.removed, self.rebuilt, self.rerouted, self.resharded)
        return any((*variants, self.warnings_new, self.warnings_gone, self.settings))


def build_inputs(plan: Plan, cell: Cell, variant: Variant) -> dict[str, str]:
    """The inputs of the derivation of `variant`, by name: of its cell, its package and all packages that it needs.

    Descriptions, hashes of pinned commits and permissions to evaluate do not change a derivation and are left out. The
    repository's own recipes do not read the spec: they have no input but the recipes that they need.
    """
    spec = plan.spec
    needs = () if cell.listed else needs_of(spec, variant.package)
    recipes = {variant.package: variant.name} | {name: variant_name(name, cell.suffix) for name in needs}
    kinds = {package: spec.packages[package].kind_of(name) for package, name in recipes.items()}
    inputs = {f"recipes of {package}": str(kind) for package, kind in kinds.items()}
    written = [one for one, kind in kinds.items() if kind is not RecipeKind.OWN or not spec.backend.has_recipes]
    if written:
        inputs |= _cell_inputs(spec, cell, variant)
    for name in written:
        inputs |= _package_inputs(spec, cell, name)
        inputs |= _recipe_inputs(spec, cell, name)
        inputs[f"compiler seed of {name}"] = _seed(plan, cell, name)
    return inputs


def _cell_inputs(spec: Spec, cell: Cell, variant: Variant) -> dict[str, str]:
    pin, hardware = spec.branches[cell.branch].pin(cell.toolkit), spec.hardware
    inputs = {
        "nixpkgs": pin.nixpkgs,
        "work-arounds": ", ".join(pin.work_arounds),
        "Python": cell.python,
        "system": cell.system,
        f"flags of {cell.isa}": " ".join(hardware.isa(cell.isa).flags),
    }
    inputs |= {f"{name} of the variant": value for name, value in axis_values(spec, cell).items()}
    if cell.family == SHORT_FAMILY and cell.toolkit:
        kit = family_of(cell.family).toolkit
        inputs[kit] = cell.toolkit
        inputs[f"{kit} package set"] = hardware.toolkit(cell.toolkit).attribute
        inputs[f"target of {cell.target}"] = _target(spec, cell)
        inputs[f"config.{nixpkgs(cell.family)['capabilities']}, so its {kit} libraries are rebuilt too"] = (
            str(hardware.gpu(cell.target).capability) if variant in variants_with_capabilities(spec, cell) else ""
        )
    elif variant in variants_with_capabilities(spec, cell):
        inputs[f"target of {family_of(cell.family).toolkit}'s libraries, which are rebuilt"] = cell.target
    return inputs


def _seed(plan: Plan, cell: Cell, package: str) -> str:
    """The variant of `package` whose host code the one of `cell` takes, with what they do not share; '' for none."""
    seeder = seeder_of(plan.spec, plan.judged.cells, cell, package)
    if seeder is None:
        return ""
    return f"{variant_name(package, seeder.suffix)}, {_target(plan.spec, seeder)}"


def _target(spec: Spec, cell: Cell) -> str:
    gpu = spec.hardware.gpu(cell.target)
    return f"{gpu.capability} {'with' if gpu.dnn else 'without'} {family_of(gpu.family).dnn}"


def _package_inputs(spec: Spec, cell: Cell, name: str) -> Iterator[tuple[str, str]]:
    package, branch = spec.packages[name], spec.branches[cell.branch]
    pin = branch.pin(cell.toolkit)
    yield f"version of {name}", branch.versions.get(name, "")
    yield f"attribute of {name}", package.attribute
    yield f"needs of {name}", ", ".join(map(str, package.edges))
    yield f"gathers of {name}", ", ".join(map(str, package.gathers))
    yield f"compile jobs of {name}", str(package.jobs)
    if package.command:
        yield f"build script of {name}", package.command.build
        yield f"files of {name}", ", ".join(package.command.files)
        yield f"container of {name}", applying(package.command.container, cell)
        for variable, rows in package.command.env.items():
            yield f"{variable} of {name}", applying(rows, cell)
    yield f"pname of {name}", pin.pnames.get(name, name)
    source = pin.sources.get(name)
    yield f"source of {name}", f"{source.repository} {source.tag} {source.hash} {source.submodules}" if source else ""
    elsewhere = package.repository
    yield f"repository of {name}", f"{elsewhere.name} {elsewhere.rev.get(branch.name, '')}" if elsewhere else ""


def _recipe_inputs(spec: Spec, cell: Cell, name: str) -> Iterator[tuple[str, str]]:
    """What the spec says of the recipe of package `name` in `cell`."""
    package = spec.packages[name]
    override = override_in(package, cell.family)
    yield f"template of {name}", package.template
    yield f"preset of {name}", package.preset
    yield f"package set of {name}", f"{package.set}, {package.at}"
    yield f"overlays of {name}", ", ".join(package.overlays)
    for key in ("arguments", "environment", "inputs", "attributes", "cmake_flags", "build_flags"):
        yield f"{key.replace('_', '-')} of {name}", json.dumps(getattr(override, key))
    for work_around in spec.work_arounds.values():
        listed = spec.branches[cell.branch].pin(cell.toolkit).work_arounds
        used = work_around.name in listed and (not work_around.packages or name in work_around.packages)
        yield f"work-around {work_around.name} of {name}", json.dumps(asdict(work_around)) if used else ""


def diff(before: Plan, after: Plan, branch: str = "", records: Records | None = None) -> PlanDifference:
    """What changes from `before` to `after`, of the variants of `branch` alone if it is given.

    `records`: the history, if one is given; its results are those of the builds before.
    """
    old, new = (
        {(one.cell.branch, one.variant.name): one for one in built_variants(plan) if branch in {"", one.cell.branch}}
        for plan in (before, after)
    )
    both = [key for key in new if key in old]
    reasons = {key: reason for key in both if (reason := _reasons(before, after, old[key], new[key]))}
    reasons |= _with_others(after, new, both, reasons)
    built = {key for key in new if key not in old} | set(reasons)
    jobs = jobs_of(after.spec, after.shards, chosen=built)
    machines = machine_counts(after.spec)
    warned, warns = (_warnings(plan) for plan in (before, after))
    costs = _costs(after, jobs)
    full = jobs_of(after.spec, after.shards)
    runs = len({job.shard for job in jobs})
    resharded: dict[tuple[str, str], list[str]] = {}
    for key in both:
        if old[key].shard.name != new[key].shard.name:
            resharded.setdefault((old[key].shard.name, new[key].shard.name), []).append(key[1])
    return PlanDifference(
        variants=len(new),
        added=tuple(_groups({key: () for key in new if key not in old}, new)),
        removed=tuple(_groups({key: () for key in old if key not in new}, old)),
        rebuilt=tuple(_groups(reasons, new)),
        rerouted=tuple(_rerouted(both, old, new)),
        resharded={names: tuple(variants) for names, variants in resharded.items()},
        warnings_new=tuple(text for text in warns if text not in warned),
        warnings_gone=tuple(text for text in warned if text not in warns),
        proved=tuple(_groups(_proved(after, [key for key in new if key in built], records), new)),
        settings=tuple(settings(*(with_defaults(plan.spec.document.value) for plan in (before, after)))),
        costs=costs,
        bill=bill_of(after.spec, {cost.pool: cost.seconds for cost in costs}, runs) if jobs else None,
        end=end_of(jobs, machines),
        full_before=end_of(jobs_of(before.spec, before.shards), machine_counts(before.spec)),
        full_after=end_of(full, machines),
        guessed=guessed_of(after.spec, jobs),
        guessed_full=guessed_of(after.spec, full),
    )


def _proved(plan: Plan, built: Sequence[Key], records: Records | None) -> dict[Key, tuple[str, ...]]:
    known = proofs(plan.spec, plan.judged.cells, plan.routes, records) if built else {}
    return {key: (known[key].verdict, *known[key].tested, *known[key].untested) for key in built}


def _costs(plan: Plan, jobs: Sequence[PlannedJob]) -> tuple[Cost, ...]:
    return tuple(
        Cost(
            pool=pool.name,
            jobs=sum(job.pool == pool.name for job in jobs),
            seconds=sum(job.seconds for job in jobs if job.pool == pool.name),
        )
        for pool in plan.spec.pools
    )


def _warnings(plan: Plan) -> list[str]:
    return list(dict.fromkeys(f"{finding.message} [{finding.code}]" for finding in plan.warnings))


# Rebuilt and rerouted.


def _reasons(before: Plan, after: Plan, old: BuiltVariant, new: BuiltVariant) -> tuple[str, ...]:
    """The build inputs that differ, each in words; () for none.

    Inputs that only one side has belong to a needed package that was added or removed, which `needs of` already shows.
    """
    was = build_inputs(before, old.cell, old.variant)
    will = build_inputs(after, new.cell, new.variant)
    return tuple(
        f"{name}{_from_to(was[name], value)}" for name, value in will.items() if name in was and was[name] != value
    )


def _with_others(
    after: Plan, new: Mapping[Key, BuiltVariant], both: Sequence[Key], changed: Container[Key]
) -> Iterator[tuple[Key, tuple[str, ...]]]:
    """The further variants for which something that they are built with is new, or is in `changed`; with the reason."""
    needs, known = Needs(after.spec, after.judged.cells), set(both)
    for key in both:
        if key not in changed:
            with_ = {(cell.branch, one.name) for cell, one in needs.every(new[key].cell, new[key].variant.package)}
            if any(one in changed or one not in known for one in with_):
                yield key, ("what it is built with",)


def _from_to(before: str, after: str) -> str:
    """The clause ` 12.8 → 12.9`, with commits abbreviated; '' if it would be long or a side is empty."""
    short = [text[:7] if len(text) == 40 and text.isalnum() else text for text in (before, after)]
    return f" {short[0]} → {short[1]}" if all(0 < len(text) <= 20 for text in short) else ""


def _rerouted(
    both: Sequence[Key], old: Mapping[Key, BuiltVariant], new: Mapping[Key, BuiltVariant]
) -> Iterator[Rerouted]:
    moved: dict[tuple[Stage, str, str], dict[Key, tuple[str, ...]]] = {}
    for key in both:
        for stage in stages():
            pools = [side[key].route.pools.get(stage) for side in (old, new)]
            before, after = (pool.name if pool else NOT_RUN for pool in pools)
            if before != after:
                moved.setdefault((stage, before, after), {})[key] = ()
    for (stage, before, after), keys in moved.items():
        yield Rerouted(stage=stage, before=before, after=after, groups=tuple(_groups(keys, new)))


# Groups of variants.


_AXES = ("target", "package", "isa", "python", "system")


def _groups(changed: Mapping[Key, tuple[str, ...]], known: Mapping[Key, BuiltVariant]) -> Iterator[ChangeGroup]:
    """`changed`, variants with their reasons, grouped by branch and reasons; `known` are all variants of the plan."""
    by_cause: dict[tuple[str, tuple[str, ...]], list[Key]] = {}
    for key, reasons in changed.items():
        by_cause.setdefault((key[0], reasons), []).append(key)
    of_branch: dict[str, list[Key]] = {}
    for key in known:
        of_branch.setdefault(key[0], []).append(key)
    for (branch, reasons), keys in by_cause.items():
        scope, whole = _scope(keys, of_branch[branch], known)
        names = tuple(name for _, name in keys)
        yield ChangeGroup(branch=branch, scope=scope, names=names, whole=whole, reasons=reasons)


def _scope(
    keys: Sequence[Key], every: Sequence[Key], known: Mapping[Key, BuiltVariant]
) -> tuple[tuple[str, ...], bool]:
    """The fewest values of one axis, else of two axes together, that `keys` fill, out of `every` variant of the branch.

    () for all of them. If `keys` fill no values of an axis completely, their GPUs, and False.
    """
    if len(keys) == len(every):
        return (), True
    further = (axis for key in every for axis, _ in known[key].cell.values)
    among = tuple(dict.fromkeys((*_AXES, *further)))
    for size in (1, 2):
        found: list[tuple[str, ...]] = []
        for axes in combinations(among, size):
            inside = dict.fromkeys(_value(known[key], axes) for key in keys)
            if sum(_value(known[key], axes) in inside for key in every) == len(keys):
                found.append(tuple(inside))
        if found:
            return min(found, key=len), True
    return tuple(dict.fromkeys(_value(known[key], ("target",)) for key in keys)), False


def _value(built: BuiltVariant, axes: Sequence[str]) -> str:
    """The values of `axes`, in words: `avx2`, `Python 3.13`."""
    cell = built.cell
    words = {"package": built.variant.package, "python": f"Python {cell.python or 'none'}"}
    words |= {axis: f"{axis} {cell.axes.get(axis, 'none')}" for axis in axes if axis not in _AXES}
    return " ".join(words.get(axis) or getattr(cell, axis) for axis in axes)


# Values of the spec.


def settings(before: Any, after: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str, str]]:
    """The values of two documents that differ: dotted path, before, after; '' for a side that lacks the value."""
    one, other = ({} if side is None else side for side in (before, after))
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys((*one, *other)):
            yield from settings(one.get(key, _ABSENT), other.get(key, _ABSENT), (*path, key))
    elif one != other:
        yield ".".join(path), _said(one), _said(other)


_ABSENT = object()


def _said(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_said(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_said, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is _ABSENT else str(value)
