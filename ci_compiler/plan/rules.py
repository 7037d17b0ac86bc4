"""Which cells can exist: checks GPUs against toolkits and hosts, and variants against the packages that they need.

`judge` sorts the candidates of the matrix into cells that are built and cells that are left out, each with a reason.
`findings.toml` has the source of the fact behind each rule.

What a variant is built with must exist, and no variant may be built with itself by way of others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise

from ci_compiler.backends.protocol import CachePush
from ci_compiler.codes import Code, Severity
from ci_compiler.errors import Finding, nearest
from ci_compiler.hardware import ALL, CPU, Hardware
from ci_compiler.hardware.families import family_of, files_of, has_facts
from ci_compiler.hardware.pairs import hardware_problems
from ci_compiler.plan.matrix import (
    Candidate,
    Cell,
    Cells,
    Combination,
    Values,
    Variant,
    candidates,
    grammar_of,
    listed_cells,
)
from ci_compiler.plan.needs import Needs
from ci_compiler.plan.pins import unverified_commits
from ci_compiler.plan.profiles import unused
from ci_compiler.plan.releases import release_findings, uses_dnn
from ci_compiler.spec.axes import NO_ACCELERATOR, PARTS
from ci_compiler.spec.edges import NEEDS, Edge
from ci_compiler.spec.load import Path_
from ci_compiler.spec.model import Matrix, Package, RecipeKind, Spec, in_build_order
from ci_compiler.spec.patterns import matcher
from ci_compiler.variant import ATTRIBUTE, variant_name


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut(Combination):
    """A part of the matrix that is not built, with the reason: what has its values. An empty `package` means all."""

    package: str = ""
    code: Code
    reason: str
    path: Path_


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The cells that are built, the parts of the matrix that are left out, and the errors and warnings about both."""

    cells: tuple[Cell, ...]
    left_out: tuple[LeftOut, ...]
    findings: tuple[Finding, ...]


def judge(spec: Spec) -> Judged:
    """The cells of the matrix that are built, those that are left out, and the findings on both."""
    findings: list[Finding] = []
    left_out: list[LeftOut] = []
    groups: list[Sequence[Cell]] = []
    for path, matrix, packages in spec.matrices:
        cells, out, found = _judge_matrix(spec, path, matrix, packages)
        groups.append(cells)
        left_out += out
        findings += found
    merged = groups[0] if len(groups) == 1 else list(_merged(spec, groups))
    if any(package.joins for package in spec.packages.values()):
        from ci_compiler.plan.joins import with_joins  # few specs join builds

        merged = with_joins(spec, list(merged), findings)
    kept = [*merged, *listed_cells(spec)]
    if not findings:
        findings += [*_check_names(spec, kept), *_check_backend(spec, kept)]
    if not findings:
        findings += [*_check_cells(spec, kept), *_check_axis_use(spec, kept, left_out)]
        if not findings:
            for rule in (release_findings, redistribution_findings, unverified_commits):
                findings += rule(spec, kept)
    return Judged(cells=tuple(kept), left_out=tuple(left_out), findings=tuple(findings))


def _judge_matrix(
    spec: Spec, path: Path_, matrix: Matrix, packages: Sequence[Package]
) -> tuple[list[Cell], list[LeftOut], list[Finding]]:
    """The cells of one matrix for the packages that take it, what is left out, and the findings."""
    cells: list[Cell] = []
    left_out: dict[object, LeftOut] = {}
    on = {name: _packages_of(packages, name) for name in spec.branches}
    own = "" if path == ("matrix",) else packages[0].name
    maker = Cells(spec, matrix)
    for candidate in candidates(spec, path, matrix):
        impossible = _impossible(spec.hardware, candidate)
        if impossible is None:
            cells.extend(maker.of(candidate, on[candidate.branch]))
        else:
            code, reason = impossible
            values = tuple(pair for pair in candidate.values if pair[0] in _DECIDING)
            out = _left_out(candidate, values, own, code, reason, candidate.path)
            left_out.setdefault((out.branch, out.values), out)
    kept, excluded, unused = _exclude(spec, path, matrix, list(_merged(spec, [cells])))
    return kept, [*left_out.values(), *excluded], unused


_DECIDING = {*PARTS, "isa", "platform"}
"""The axes that decide whether a combination can exist."""


def _left_out(part: Combination, values: Values, package: str, code: Code, reason: str, path: Path_) -> LeftOut:
    """What is left out with `part`: all that has `values`."""
    return LeftOut(
        branch=part.branch,
        values=values,
        system=part.system,
        isa=part.isa,
        package=package,
        code=code,
        reason=reason,
        path=path,
    )


def _merged(spec: Spec, groups: Iterable[Iterable[Cell]]) -> Iterator[Cell]:
    """The cells of several matrices, branch by branch, each once with the variants of all of them in build order.

    Where edges lead to other cells, each variant has a cell of its own.
    """
    order = {package.name: index for index, package in enumerate(in_build_order(spec.packages))}
    found: dict[tuple[object, ...], list[Cell]] = {}
    for cell in chain.from_iterable(groups):
        own = cell.variants if spec.has_edges else ()
        found.setdefault((cell.branch, cell.suffix, frozenset(cell.values), own), []).append(cell)
    branches = {name: index for index, name in enumerate(spec.branches)}
    for same in sorted(found.values(), key=lambda cells: branches[cells[0].branch]):
        variants = dict.fromkeys(chain.from_iterable(cell.variants for cell in same))
        yield replace(
            same[0], variants=tuple(sorted(variants, key=lambda variant: order[variant.package])), alone=spec.has_edges
        )


def _impossible(hardware: Hardware, candidate: Candidate) -> tuple[Code, str] | None:
    """The first reason why `candidate` cannot exist."""
    gpu, toolkit = hardware.gpus.get(candidate.target), hardware.toolkits.get(candidate.toolkit)
    if gpu is None or toolkit is None or candidate.family != gpu.family:
        return None
    return next(hardware_problems(gpu, toolkit, candidate.system), None)


def _packages_of(packages: Sequence[Package], branch: str) -> tuple[Package, ...]:
    """Those of `packages` that are built on `branch`, dependencies first, without those of another repository."""
    wanted = {package.name: package for package in packages if package.on(branch)}
    return tuple(package for package in in_build_order(wanted) if package.repository is None)


# Exclusions.


def _exclude(
    spec: Spec, at: Path_, matrix: Matrix, cells: list[Cell]
) -> tuple[list[Cell], list[LeftOut], list[Finding]]:
    """The cells without the excluded variants, a record of these, and an error for each exclusion without effect."""
    left_out: list[LeftOut] = []
    unused = []
    for exclusion in matrix.exclude:
        matches, before, kept = matcher(exclusion.pattern), len(left_out), []
        path = (*at, "exclude", exclusion.index)
        because = Code.EXCLUDED, exclusion.because, path
        for cell in cells:
            here = not exclusion.branches or cell.branch in exclusion.branches
            here = here and (exclusion.when is None or exclusion.when.holds(cell.conditions))
            out = [variant for variant in cell.variants if matches(variant.name)] if here else []
            left_out += [_left_out(cell, cell.values, variant.package, *because) for variant in out]
            rest = tuple(variant for variant in cell.variants if variant not in out) if out else cell.variants
            if rest:
                kept.append(replace(cell, variants=rest) if out else cell)
        if len(left_out) == before:
            shown, key = (f"when {exclusion.when}", "when") if exclusion.when else (repr(exclusion.pattern), "variants")
            message = f"the exclusion {shown} matches no variant"
            unused.append(spec.finding((*path, key), Code.UNUSED_EXCLUSION, message))
        cells = kept
    return cells, left_out, unused


# Checks of the cells.


def _check_cells(spec: Spec, cells: list[Cell]) -> Iterator[Finding]:
    if not cells:
        yield spec.finding(("matrix",), Code.EMPTY_MATRIX, "no variant is left; nothing would be built")
    yield from edge_findings(spec, cells)
    yield from _check_attributes(spec, cells)
    yield from _check_versions_apart(spec, cells)


def _check_attributes(spec: Spec, cells: Iterable[Cell]) -> Iterator[Finding]:
    """One error about all names with signs that a step of an attribute path cannot have, and the values they are of."""
    odd = [
        (cell, one.name)
        for cell in cells
        for one in cell.variants
        if not (cell.listed or ATTRIBUTE.fullmatch(one.name))
    ]
    if odd:
        values = dict.fromkeys(
            f"{cell.axes.get(axis, tag)!r} of {axis}"
            for cell, _ in odd
            for axis, tag in grammar_of(spec).spellings(cell.axes).items()
            if not ATTRIBUTE.fullmatch(f"_{tag}")
        )
        message = f"{odd[0][1]!r} cannot be the name of a variant, which has letters, digits, _ and - only"
        instead = f"; write another value, or give the axis a `tag`, for {' and '.join(values)}" if values else ""
        yield spec.finding(("matrix",), Code.NAME_ATTRIBUTE_PATH, f"{message}{instead}")


def _check_names(spec: Spec, cells: Iterable[Cell]) -> Iterator[Finding]:
    """An error for the first name that two cells of a branch share, as file systems without case compare them."""
    known: dict[tuple[str, str], tuple[Cell, str]] = {}
    for cell in cells:
        for variant in cell.variants:
            other, name = known.setdefault((cell.branch, variant.name.casefold()), (cell, variant.name))
            if other is not cell:
                apart = [axis for axis in {**other.axes, **cell.axes} if other.axes.get(axis) != cell.axes.get(axis)]
                message = f"{variant.name} is the name of two variants, which differ in {' and '.join(apart)}"
                if name != variant.name:
                    message = f"the variant {variant.name!r} and {name!r} cannot be told apart in file names"
                yield spec.finding(("names",) if spec.names else ("matrix",), Code.DUPLICATE_NAME, message)
                return


def _check_backend(spec: Spec, cells: Iterable[Cell]) -> Iterator[Finding]:
    """An error for each package and platform or family of which the backend cannot build a variant."""
    seen: set[tuple[str, str]] = set()
    for cell, variant in ((one, variant) for one in cells if not one.listed for variant in one.variants):
        compiled = spec.packages[variant.package].kind_of(variant.name) is RecipeKind.COMPILED
        why = ""
        if not spec.backend.makes(cell.system):
            why = f"the backend {spec.backend} builds nothing for {cell.system}"
        elif spec.backend.has_recipes and compiled and cell.family not in {CPU, *files_of("nixpkgs.json")}:
            why = f"no recipe is compiled for {cell.family}: its arguments are not known"
        elif spec.backend.has_recipes and compiled and not _is_for_targets(cell):
            why = f"a compiled recipe for {cell.family} is that of a toolkit and of targets"
        elif spec.backend.has_recipes and compiled and not cell.python and spec.packages[variant.package].set != "top":
            why = "a compiled recipe of a Python package is that of a Python"
        if why and (variant.package, why) not in seen:
            seen.add((variant.package, why))
            message = f"{variant.name}: {why}; leave it out, or use recipes of your own or `backend: command`"
            yield spec.finding(("packages", variant.package), Code.BACKEND_CANNOT, message, key=True)


def _is_for_targets(cell: Cell) -> bool:
    """Whether `cell` says what its code is compiled with and for; `all` is known where a table has the targets."""
    if cell.family == CPU:
        return True
    all_known = cell.target != ALL.name or has_facts(cell.family, "gpus")
    return bool(cell.toolkit and cell.target != cell.family and all_known)


def _check_versions_apart(spec: Spec, cells: list[Cell]) -> Iterator[Finding]:
    """Variants with the same name on two branches must differ in version: publishing one overwrites the other."""
    built: dict[str, set[Variant]] = {name: set() for name in spec.branches}
    for cell in cells:
        built[cell.branch].update(cell.variants)
    first: dict[tuple[str, str], str] = {}
    for branch in spec.branches.values():
        shared: dict[tuple[str, str], list[str]] = {}
        for variant in built[branch.name] if branch.publish else ():
            if version := branch.versions.get(variant.package, ""):
                owner = first.setdefault((variant.name, version), branch.name)
                if owner != branch.name:
                    shared.setdefault((owner, variant.package), []).append(variant.name)
        for (owner, package), names in sorted(shared.items()):
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            message = (
                f"{min(names)}{more} would have version {branch.versions[package]} on {owner} and on {branch.name}; "
                f"publishing one overwrites the other; if {branch.name} is for a consumer, give it `publish: false`"
            )
            yield spec.finding(("branches", branch.name, "versions", package), Code.SAME_NAME_SAME_VERSION, message)


def _check_axis_use(spec: Spec, cells: list[Cell], left_out: Iterable[LeftOut]) -> Iterator[Finding]:
    """An error for each GPU of a matrix, and each branch, that has no cell."""
    used = {(variant.package, cell.target) for cell in cells for variant in cell.variants if not cell.listed}
    for root, matrix, packages in spec.matrices:
        names = [package.name for package in packages]
        yield from _check_conditions(spec, packages, cells)
        mine = [one for one in left_out if one.package in {"", *names}]
        for target, path in _unused_targets(spec, root, matrix, packages, used).items():
            reasons = dict.fromkeys(one.reason for one in mine if one.target == target)
            why = "; ".join(reasons) or "all its variants are excluded"
            message = f"no variant is built for {target}: {why}"
            yield spec.finding(path, Code.UNUSED_GPU, message, key=True)
    yield from unused(spec, cells)
    branches = {cell.branch for cell in cells}
    for name in spec.branches:
        if branches and name not in branches:
            message = f"no variant is built on {name}; select it in `matrix`, or remove the branch"
            yield spec.finding(("branches", name), Code.UNUSED_BRANCH, message, key=True)


def _unused_targets(
    spec: Spec, root: Path_, matrix: Matrix, packages: Sequence[Package], used: Collection[tuple[str, str]]
) -> dict[str, Path_]:
    """The targets for which nothing is built, and whose rows have no other; each with the path of its first row."""
    names = [one.name for one in packages if not {"accelerator", "family", "target"} & {*one.ignores}]
    rows: dict[Path_, set[str]] = {}
    for candidate in candidates(spec, root, matrix) if used and names else ():
        rows.setdefault(candidate.row, set()).add(candidate.target)
    built = {target for name, target in used if name in names}
    found: dict[str, Path_] = {}
    for path, targets in rows.items():
        if not targets & built and NO_ACCELERATOR.label not in targets:
            found |= {target: path for target in sorted(targets) if target not in found}
    alive = {target for targets in rows.values() if targets & built for target in targets}
    return {target: path for target, path in found.items() if target not in alive}


def _check_conditions(spec: Spec, packages: Sequence[Package], cells: Iterable[Cell]) -> Iterator[Finding]:
    """An error for each condition of a package, and each row of a setting, that no cell meets."""
    of = {
        package.name: [cell.conditions for cell in cells if any(v.package == package.name for v in cell.variants)]
        for package in packages
    }
    every = [axes for group in of.values() for axes in group]
    checked = [
        *(
            (("packages", package.name, "joins", row.index, "when"), row.when, of[package.name])
            for package in packages
            for row in package.joins
        ),
        *(
            (("packages", package.name, kind, edge.index, "when"), edge.when, of[package.name])
            for package in packages
            for kind, edges in package.edges_by_kind
            for edge in edges
        ),
        *(
            (("packages", package.name, "command", *path, "when"), row.when, of[package.name])
            for package in packages
            if package.command
            for path, row in package.command.rows
        ),
        *(
            (("settings", name, row.index, "when"), row.when, every)
            for name, rows in spec.settings.items()
            for row in rows
        ),
    ]
    for path, when, among in checked:
        if when and not any(map(when.holds, among)):
            yield spec.finding(path, Code.UNUSED_CONDITION, f"{when} holds for no variant")


def errors_among(findings: Iterable[Finding]) -> list[Finding]:
    """The findings that are errors: those that stop a command."""
    return [finding for finding in findings if finding.severity is Severity.ERROR]


Node = tuple[str, str]
"""A job that builds: its branch, and its cell or joined build."""


def edge_findings(spec: Spec, cells: Sequence[Cell]) -> Iterator[Finding]:
    """An error for each edge that leads to no variant, or to several where one is needed; and for circles."""
    needs, seen, findings = Needs(spec, cells), set[tuple[str, str, str, int]](), list[Finding]()
    leading = {name: [*_leading(spec, package)] for name, package in spec.packages.items()}
    for cell in cells:
        held = {variant.package for variant in cell.variants}
        for variant in () if cell.listed else cell.variants:
            for kind, edge, in_cell in leading[variant.package]:
                if in_cell and edge.package in held:
                    continue
                key = (cell.branch, variant.package, kind, edge.index)
                if key not in seen and (edge.when is None or edge.when.holds(cell.conditions)):
                    reached = needs.reached(cell, kind, edge)
                    if not reached or (kind == NEEDS and len(reached) > 1):
                        seen.add(key)
                        message = _message(needs, cell, variant, kind, edge, reached)
                        path = ("packages", variant.package, kind, *(() if edge.is_plain else (edge.index,)))
                        findings.append(spec.finding(path, Code.NEEDS_MISSING_VARIANT, message))
    yield from findings or _circles(needs, cells)
    yield from _unusable(spec)


def _leading(spec: Spec, package: Package) -> Iterator[tuple[str, Edge, bool]]:
    """The edges of a package to variants of this plan, each with its kind and whether its own cell may hold the one."""
    for kind, edges in package.edges_by_kind:
        for edge in edges:
            if not (edge.is_plain and spec.packages[edge.package].repository is not None):
                yield kind, edge, kind == NEEDS and not edge.values


def _message(
    needs: Needs, cell: Cell, variant: Variant, kind: str, edge: Edge, found: Sequence[tuple[Cell, Variant]]
) -> str:
    if found:
        some = ", ".join(other.name for _, other in found[:3])
        more = "; fix another axis, or use `gathers`" if edge.values else ""
        return f"{variant.name} needs one variant of {edge}, and several serve it alike: {some}{more}"
    what = variant_name(edge.package, cell.suffix) if kind == NEEDS and not edge.values else str(edge)
    return f"{variant.name} {kind} {what}, which {cell.branch} does not build{_near(needs, cell, edge)}"


def _near(needs: Needs, cell: Cell, edge: Edge) -> str:
    """The values nearest to the first that `edge` names and no variant of its package has."""
    for axes in edge.wanted(cell.axes) if edge.values else ():
        for axis, value in axes.items():
            had = needs.values_of(cell.branch, edge.package, axis)
            if had and value not in had:
                return nearest(value, had)
    return ""


def _circles(needs: Needs, cells: Sequence[Cell]) -> Iterator[Finding]:
    """An error for a circle of jobs: variants, or builds that make several of them, none of which could be first."""
    from graphlib import CycleError, TopologicalSorter  # most specs have no edge that could close a circle

    after: dict[Node, dict[Node, tuple[Variant, str, Variant]]] = {}
    for cell in cells:
        for variant in cell.variants:
            for link in needs.links(cell, variant.package):
                own, other = (cell.branch, cell.key), (link.cell.branch, link.cell.key)
                if own != other:
                    after.setdefault(own, {}).setdefault(other, (variant, link.kind, link.variant))
    try:
        TopologicalSorter(after).prepare()
    except CycleError as error:
        nodes: list[Node] = error.args[1][::-1]
        steps = [after[one][other] for one, other in pairwise(nodes)]
        words = ", and ".join(f"{one.name} {kind} {other.name}" for one, kind, other in steps)
        message = f"{words}: none of them can be built first; limit one of these edges with `when`"
        yield needs.spec.finding(("packages", steps[0][0].package, steps[0][1]), Code.NEEDS_CIRCLE, message, key=True)


def _unusable(spec: Spec) -> Iterator[Finding]:
    """An error for each package whose edges its compiled recipe cannot follow."""
    for package in spec.packages.values():
        written = any(package.may_be(kind) for kind in (RecipeKind.COMPILED, RecipeKind.TEMPLATE))
        for kind, edges in package.edges_by_kind if written and package.repository is None else ():
            if edge := next((one for one in edges if kind != NEEDS or not one.is_plain), None):
                message = (
                    f"a compiled recipe of {package.name} takes the variants of its own cell, not {edge}; use recipes "
                    "of your own or `backend: command`"
                )
                yield spec.finding(("packages", package.name, kind, edge.index), Code.BACKEND_CANNOT, message)


def redistribution_findings(spec: Spec, cells: Iterable[Cell]) -> Iterator[Finding]:
    """An error if a public cache gets whole closures with libraries whose redistribution the spec does not claim.

    With `push: own`, these are left out on the machine that pushes (`backends.own_store`).
    """
    cache = spec.cache
    if cache is None or not cache.public or cache.push is CachePush.OWN or not spec.backend.has_recipes:
        return
    cells = tuple(cells)
    families = tuple(map(family_of, dict.fromkeys(cell.family for cell in cells)))
    carried = {product for cell in cells for product in _products(spec, cell)}
    missing = sorted(carried - set(cache.redistributes))
    if missing:
        whose = " and ".join(dict.fromkeys(f"{row.vendor}'s" for row in families if {*missing} & {*row.products}))
        message = (
            f"the cache is public, and whole closures carry {whose} {' and '.join(missing)} libraries; leave them out "
            f"with `push: own`, or if their licences let you serve them, write `redistributes: [{', '.join(missing)}]`"
        )
        yield spec.finding(("cache", "public"), Code.REDISTRIBUTION_UNCLAIMED, message)


def _products(spec: Spec, cell: Cell) -> Iterator[str]:
    """The products that its variants carry, by the names of their folders on the vendor's server."""
    has_dnn = any(uses_dnn(spec, cell, variant.package) for variant in cell.variants)
    yield from family_of(cell.family).products[: 2 if has_dnn else 1]
