"""What can exist and what cannot: names against the tables, GPUs against toolkits and hosts, variants against needs.

`check_names` comes first and makes every later lookup safe; `judge` then sorts the matrix' candidates into cells that
are built and cells that are left out, each with its reason. A cell that the spec asked for by name and that cannot
exist is an error; one that the product made is left out on record. Each rule has a code and the source of its fact.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations

from ci_compiler.errors import Finding, InputError, Severity, nearest
from ci_compiler.hardware import CPU, Gpu, Hardware, Toolkit, UnknownHardwareError
from ci_compiler.plan.matrix import Candidate, Cell, candidates, cells_of, in_build_order
from ci_compiler.plan.patterns import matcher
from ci_compiler.spec.load import Path_
from ci_compiler.spec.model import Package, Spec, Stage, TestPolicy
from ci_compiler.spec.work_arounds import work_arounds

ATTRIBUTE_PATH = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
"""What one step of a Flox attribute path can hold without quotes: a Nix identifier (Nix manual, lexical structure)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """What the spec selects and the fleet does not hold. `python` and `package` empty: all of them."""

    branch: str
    gpu: str
    isa: str
    python: str = ""
    package: str = ""
    code: str
    reason: str
    path: Path_


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The cells that are built, what is left out and why, and what was wrong or odd on the way."""

    cells: tuple[Cell, ...]
    left_out: tuple[LeftOut, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A reason why a GPU variant cannot exist: `problem` says it of a GPU, the branch's toolkit and a Nix system.

    `named` tells by which of its pairs a candidate was asked for by name. `source` is where the fact stands.
    """

    code: str
    source: str
    problem: Callable[[Gpu, Toolkit, str], str]
    named: Callable[[Candidate], bool]


def _too_new(gpu: Gpu, toolkit: Toolkit, _: str) -> str:
    if toolkit.version >= gpu.first_cuda:
        return ""
    return f"{gpu.name} needs CUDA {gpu.first_cuda} or newer, and the branch has {toolkit.version}"


def _too_old(gpu: Gpu, toolkit: Toolkit, _: str) -> str:
    if gpu.last_cuda is None or toolkit.version <= gpu.last_cuda:
        return ""
    return f"CUDA {gpu.last_cuda} was the last to know {gpu.name}, and the branch has {toolkit.version}"


def _host(gpu: Gpu, _: Toolkit, system: str) -> str:
    if system in gpu.systems:
        return ""
    return f"{gpu.name} ({gpu.summary}) comes with {' and '.join(gpu.systems)} hosts alone, not {system}"


RULES = (
    Rule(
        code="gpu-needs-newer-cuda",
        source="nixpkgs _cuda/db/bootstrap/cuda.nix, minCudaMajorMinorVersion; CUDA release notes",
        problem=_too_new,
        named=lambda candidate: candidate.gpu_on_branch,
    ),
    Rule(
        code="gpu-dropped-by-cuda",
        source="nixpkgs _cuda/db/bootstrap/cuda.nix, maxCudaMajorMinorVersion; CUDA 13.0 release notes",
        problem=_too_old,
        named=lambda candidate: candidate.gpu_on_branch,
    ),
    Rule(
        code="gpu-host",
        source="NVIDIA's product pages: Jetson and DRIVE Orin and Thor and DGX Spark are modules with an ARM CPU",
        problem=_host,
        named=lambda candidate: candidate.isa_on_gpu,
    ),
)


def check_names(spec: Spec) -> list[Finding]:
    """Every name in the spec that nothing declares, and every declaration that cannot be told from another."""
    return [
        *_check_branches(spec),
        *_check_packages(spec),
        *_check_axes(spec),
        *_check_exclusions(spec),
        *_check_pools(spec),
        *_check_alike(spec),
    ]


def judge(spec: Spec) -> Judged:
    """The matrix sorted. Raises InputError where `check_names` finds anything, since nothing can be told then."""
    if findings := check_names(spec):
        raise InputError(findings)
    toolkits = {name: spec.hardware.toolkit(branch.cuda) for name, branch in spec.branches.items()}
    packages = {name: _packages_of(spec, name) for name in spec.branches}
    cells: list[Cell] = []
    left_out: list[LeftOut] = []
    for candidate in candidates(spec):
        rule, reason = _impossible(spec.hardware, toolkits[candidate.branch], candidate)
        if rule is None:
            cells.extend(cells_of(spec, candidate, packages[candidate.branch]))
        elif rule.named(candidate):
            findings.append(spec.finding(candidate.path, rule.code, f"{_pair(candidate)}: {reason}"))
        else:
            left_out.append(_left_out(candidate, rule.code, reason))
    kept, excluded, unused = _exclude(spec, cells)
    findings += unused
    if not findings:
        findings += [*_check_cells(spec, kept), *_check_axis_use(spec, kept, [*left_out, *excluded])]
    return Judged(cells=tuple(kept), left_out=(*left_out, *excluded), findings=tuple(findings))


def _impossible(hardware: Hardware, toolkit: Toolkit, candidate: Candidate) -> tuple[Rule | None, str]:
    if candidate.gpu != CPU:
        gpu = hardware.gpu(candidate.gpu)
        for rule in RULES:
            if reason := rule.problem(gpu, toolkit, candidate.system):
                return rule, reason
    return None, ""


def _pair(candidate: Candidate) -> str:
    return f"{candidate.gpu} with {candidate.isa} on {candidate.branch}"


def _left_out(candidate: Candidate, code: str, reason: str) -> LeftOut:
    return LeftOut(
        branch=candidate.branch,
        gpu=candidate.gpu,
        isa=candidate.isa,
        code=code,
        reason=reason,
        path=candidate.path,
    )


def _packages_of(spec: Spec, branch: str) -> tuple[Package, ...]:
    """The packages that are built on `branch`, each behind those it needs; another repository's are not."""
    wanted = {name: package for name, package in spec.packages.items() if _on(package, branch)}
    return tuple(package for package in in_build_order(wanted) if package.repository is None)


def _on(package: Package, branch: str) -> bool:
    return not package.branches or branch in package.branches


# Exclusions.


def _exclude(spec: Spec, cells: list[Cell]) -> tuple[list[Cell], list[LeftOut], list[Finding]]:
    """The cells without what the exclusions name, that on record, and the exclusions that name nothing."""
    left_out: list[LeftOut] = []
    unused = []
    for exclusion in spec.matrix.exclude:
        matches, before, kept = matcher(exclusion.pattern), len(left_out), []
        path = ("matrix", "exclude", exclusion.index)
        for cell in cells:
            here = not exclusion.branches or cell.branch in exclusion.branches
            out = [variant for variant in cell.variants if matches(variant.name)] if here else []
            left_out += [
                LeftOut(
                    branch=cell.branch,
                    gpu=cell.gpu,
                    isa=cell.isa,
                    python=cell.python,
                    package=variant.package,
                    code="excluded",
                    reason=exclusion.because,
                    path=path,
                )
                for variant in out
            ]
            rest = tuple(variant for variant in cell.variants if variant not in out) if out else cell.variants
            if rest:
                kept.append(replace(cell, variants=rest) if out else cell)
        if len(left_out) == before:
            message = f"the exclusion {exclusion.pattern!r} matches no variant"
            unused.append(spec.finding((*path, "variants"), "unused-exclusion", message))
        cells = kept
    return cells, left_out, unused


# What the cells must hold.


def _check_cells(spec: Spec, cells: list[Cell]) -> Iterator[Finding]:
    if not cells:
        yield spec.finding(("matrix",), "empty-matrix", "no variant is left; nothing would be built")
    seen: set[tuple[str, str, str]] = set()
    for cell in cells:
        held = {variant.package for variant in cell.variants}
        for variant in cell.variants:
            for need in spec.packages[variant.package].needs:
                key = (cell.branch, variant.package, need)
                elsewhere = spec.packages[need].repository is not None
                if need not in held and not elsewhere and key not in seen:
                    seen.add(key)
                    message = f"{variant.name} needs {need}-{cell.suffix}, which {cell.branch} does not build"
                    yield spec.finding(("packages", variant.package, "needs"), "needs-missing-variant", message)
        odd = next((v.name for v in cell.variants if not ATTRIBUTE_PATH.fullmatch(v.name)), None)
        if odd is not None:
            message = f"{odd!r} cannot stand in a Flox attribute path (letters, digits, _ and -)"
            yield spec.finding(("matrix",), "name-attribute-path", message)
    yield from _check_versions_apart(spec, cells)


def _check_versions_apart(spec: Spec, cells: list[Cell]) -> Iterator[Finding]:
    """Variants that have one name on two branches must differ in version, or publishing one overwrites the other."""
    names: dict[str, set[str]] = {name: set() for name in spec.branches}
    for cell in cells:
        names[cell.branch].update(variant.name for variant in cell.variants)
    for one, other in combinations(spec.branches.values(), 2):
        same = [p for p in spec.packages if p in one.versions and one.versions[p] == other.versions.get(p)]
        shared = names[one.name] & names[other.name] if same else set()
        for package in same:
            both = sorted(name for name in shared if name.startswith(f"{package}-"))
            if both:
                more = f" and {len(both) - 1} more" if len(both) > 1 else ""
                message = (
                    f"{both[0]}{more} would have version {one.versions[package]} on {one.name} and on {other.name}; "
                    "publishing one overwrites the other"
                )
                yield spec.finding(("branches", other.name, "versions", package), "same-name-same-version", message)


def _check_axis_use(spec: Spec, cells: list[Cell], left_out: Iterable[LeftOut]) -> Iterator[Finding]:
    """Entries of the axes that nothing came of."""
    used = {(cell.branch, cell.gpu) for cell in cells}
    if not used:
        return
    for axis in spec.matrix.gpus:
        path = ("matrix", "gpus", axis.name)
        if not any(gpu == axis.name for _, gpu in used):
            reasons = dict.fromkeys(one.reason for one in left_out if one.gpu == axis.name)
            why = "; ".join(reasons) or "everything of it is excluded"
            yield spec.finding(path, "unused-gpu", f"{axis.name}: nothing of it is built: {why}", key=True)
    branches = {branch for branch, _ in used}
    for name in spec.branches:
        if name not in branches:
            yield spec.finding(("branches", name), "unused-branch", f"{name} has no variant", key=True)


# Names.


def _check_branches(spec: Spec) -> Iterator[Finding]:
    for branch in spec.branches.values():
        path = ("branches", branch.name)
        yield from _look_up(spec, (*path, "cuda"), spec.hardware.toolkit, branch.cuda)
        for key, table in (("versions", branch.versions), ("sources", branch.sources), ("pnames", branch.pnames)):
            for name in table:
                if name not in spec.packages:
                    message = f"unknown package {name!r}{nearest(name, spec.packages)}"
                    yield spec.finding((*path, key, name), "unknown-package", message, key=True)
        for index, name in enumerate(branch.work_arounds):
            if name not in work_arounds():
                message = f"unknown work-around {name!r}{nearest(name, work_arounds())}"
                yield spec.finding((*path, "work-arounds", index), "unknown-work-around", message)
        for package in spec.packages.values():
            if _on(package, branch.name) and package.name not in branch.versions:
                message = f"branch {branch.name} gives no version of {package.name}"
                yield spec.finding((*path, "versions"), "missing-version", message)


def _check_packages(spec: Spec) -> Iterator[Finding]:
    for package in spec.packages.values():
        path: Path_ = ("packages", package.name)
        for index, need in enumerate(package.needs):
            if need not in spec.packages:
                message = f"unknown package {need!r}{nearest(need, spec.packages)}"
                yield spec.finding((*path, "needs", index), "unknown-package", message)
        yield from _known_branches(spec, (*path, "branches"), package.branches)
        yield from _check_repository(spec, package)
    try:
        in_build_order(dict(spec.packages))
    except ValueError as error:
        if all(need in spec.packages for package in spec.packages.values() for need in package.needs):
            yield spec.finding(("packages",), "needs-circle", str(error))


def _check_repository(spec: Spec, package: Package) -> Iterator[Finding]:
    """A package of another repository has a commit and a hash for each of its branches, and needs nothing here."""
    if package.repository is None:
        return
    path: Path_ = ("packages", package.name, "repository")
    for key, table in (("rev", package.repository.rev), ("hash", package.repository.hash)):
        yield from _known_branches(spec, (*path, key), table, key=True)
        for branch in spec.branches:
            if _on(package, branch) and branch not in table:
                yield spec.finding((*path, key), f"missing-{key}", f"no {key} for branch {branch}")


def _check_axes(spec: Spec) -> Iterator[Finding]:
    for system, isas in spec.matrix.isas.items():
        path: Path_ = ("matrix", "isas", system)
        if system not in spec.hardware.systems:
            message = f"unknown system {system!r}{nearest(system, spec.hardware.systems)}"
            yield spec.finding(path, "unknown-system", message, key=True)
        for index, isa in enumerate(isas):
            yield from _check_isa_of_system(spec, (*path, index), isa, system)
    for axis in spec.matrix.gpus:
        root: Path_ = ("matrix", "gpus", axis.name)
        if axis.name != CPU:
            yield from _look_up(spec, root, spec.hardware.gpu, axis.name, key=True, extra=CPU)
        yield from _known_branches(spec, (*root, "branches"), axis.branches)
        for index, isa in enumerate(axis.isas):
            yield from _look_up(spec, (*root, "isas", index), spec.hardware.isa, isa)
        for branch, isas in axis.also.items():
            path = (*root, "also", branch)
            yield from _known_branches(spec, path, (branch,), key=True)
            if axis.branches and branch in spec.branches and branch not in axis.branches:
                message = f"{axis.name} is not built on {branch}, so `also` adds nothing there"
                yield spec.finding(path, "unused-also", message, key=True)
            for index, isa in enumerate(isas):
                yield from _look_up(spec, (*path, index), spec.hardware.isa, isa)


def _check_isa_of_system(spec: Spec, path: Path_, isa: str, system: str) -> Iterator[Finding]:
    unknown = list(_look_up(spec, path, spec.hardware.isa, isa))
    yield from unknown
    if not unknown and spec.hardware.isa(isa).system != system and system in spec.hardware.systems:
        message = f"{isa} is an ISA of {spec.hardware.isa(isa).system}, not of {system}"
        yield spec.finding(path, "isa-system", message)


def _check_exclusions(spec: Spec) -> Iterator[Finding]:
    for exclusion in spec.matrix.exclude:
        path: Path_ = ("matrix", "exclude", exclusion.index)
        yield from _known_branches(spec, (*path, "branches"), exclusion.branches)
        try:
            matcher(exclusion.pattern)
        except (ValueError, re.error) as error:
            yield spec.finding((*path, "variants"), "wrong-pattern", str(error))


def _check_pools(spec: Spec) -> Iterator[Finding]:
    for pool in spec.pools:
        path: Path_ = ("runners", pool.name)
        if not pool.system:
            message = f"{pool.name}: no label tells x64 or arm64; give its `system`"
            yield spec.finding(path, "missing-system", message, key=True)
        elif pool.system not in spec.hardware.systems:
            message = f"unknown system {pool.system!r}{nearest(pool.system, spec.hardware.systems)}"
            yield spec.finding((*path, "system"), "unknown-system", message)
        for index, isa in enumerate(pool.cpu):
            yield from _check_isa_of_system(spec, (*path, "cpu", index), isa, pool.system)
        if pool.gpu:
            unknown = list(_look_up(spec, (*path, "gpu"), spec.hardware.gpu, pool.gpu))
            yield from unknown
            if not unknown and pool.system not in spec.hardware.gpu(pool.gpu).systems:
                message = f"{pool.gpu} does not come with {pool.system} hosts"
                yield spec.finding((*path, "gpu"), "gpu-host", message)
        elif Stage.GPU_TEST in pool.stages:
            message = f"{pool.name} shall run gpu-test but names no GPU"
            yield spec.finding((*path, "stages"), "missing-gpu", message)
    for index, stage in enumerate(spec.publish.after):
        if spec.tests[stage] is TestPolicy.NEVER and ("publish", "after") in spec.document.values:
            message = f"publishing waits for {stage}, which `tests` switches off"
            yield spec.finding(("publish", "after", index), "test-never-runs", message)


def _check_alike(spec: Spec) -> Iterator[Finding]:
    """Names that differ only in case, or in characters that file names lose: one file could not hold both."""
    for path, kind, names in (("packages", "package", spec.packages), ("branches", "branch", spec.branches)):
        seen: dict[str, str] = {}
        for name in names:
            key = name.replace("/", "-").casefold()
            if key in seen:
                message = f"the {kind} {name!r} and {seen[key]!r} cannot be told apart in file names"
                yield spec.finding((path, name), "duplicate-name", message, key=True)
            seen[key] = name


def _known_branches(spec: Spec, path: Path_, names: Iterable[str], *, key: bool = False) -> Iterator[Finding]:
    for index, name in enumerate(names):
        if name not in spec.branches:
            message = f"unknown branch {name!r}{nearest(name, spec.branches)}"
            yield spec.finding(path if key else (*path, index), "unknown-branch", message, key=key)


def _look_up(
    spec: Spec, path: Path_, table: Callable[[str], object], name: str, *, key: bool = False, extra: str = ""
) -> Iterator[Finding]:
    """The finding for `name` where `table` does not hold it; `extra` is a further name that stands in its place."""
    try:
        table(name)
    except UnknownHardwareError as error:
        message = f"{error} (or {extra})" if extra else str(error)
        code = "unknown-" + error.kind.split()[-1].lower()
        yield spec.finding(path, code, _of_product(spec, name) or message, key=key)


def _of_product(spec: Spec, name: str) -> str:
    """What to write in place of a product's name (`h100`); '' for what is none."""
    from ci_compiler.hardware.products import device  # a wrong spec is worth the time

    try:
        known = device(name)
    except UnknownHardwareError:
        return ""
    of = [gpu.name for gpu in spec.hardware.gpus.values() if known and gpu.capability == known.capability]
    return f"{name!r} is a product; write its architecture, {of[0]}" if of else ""


def errors_among(findings: Iterable[Finding]) -> list[Finding]:
    """The findings that stop a command."""
    return [finding for finding in findings if finding.severity is Severity.ERROR]
