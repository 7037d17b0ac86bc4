"""The axes, values and conditions of matrices: each must be built in, declared, or known to the tables."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, nearest
from ci_compiler.hardware import UnknownHardwareError, tables
from ci_compiler.hardware.families import FAMILIES, NamedTarget, facts, family_of, products_of
from ci_compiler.spec.axes import AXES, PARTS, SHORT_FAMILY, Accelerator, Matrix, When
from ci_compiler.spec.edges import EVERY
from ci_compiler.spec.forms import PYTHON_VERSION
from ci_compiler.spec.load import Path_
from ci_compiler.spec.model import Package, Spec
from ci_compiler.spec.open_hardware import hosted, known_platforms
from ci_compiler.spec.triggers import NIGHTLY, PUSH, RELEASE
from ci_compiler.spec.unknown_names import look_up, look_up_toolkit, why_unknown
from ci_compiler.spec.values import NAMES
from ci_compiler.stages import Stage

PYTHON = f"{PYTHON_VERSION}t?"
"""A Python version, with `t` for a free-threaded one."""


def open_findings(spec: Spec) -> Iterator[Finding]:
    """An error for each axis and value that nothing declares, and for each axis that nothing can have."""
    declared = {name for name, axis in spec.axes.items() if axis.values}
    known = {*AXES, *PARTS, "branch", *declared}
    for name in spec.axes:
        if name not in {*AXES, *PARTS, *declared}:
            yield spec.finding(("axes", name), Code.UNKNOWN_AXIS, f"the axis {name} has no values; list them", key=True)
    for path, matrix, _ in spec.matrices:
        yield from _matrix(spec, path, matrix, {*AXES, "branch", *declared})
        for exclusion in matrix.exclude:
            yield from _conditions(spec, (*path, "exclude", exclusion.index, "when"), exclusion.when, known)
    for axis in re.findall(r"\{([a-z0-9_-]+)\}", spec.names):
        if axis not in known:
            yield _unknown_axis(spec, ("names",), axis, known, key=False)
    for package in spec.packages.values():
        yield from _package(spec, package, known)
    yield from _settings(spec, known)
    yield from _pools(spec)


def profile_findings(spec: Spec) -> Iterator[Finding]:
    """Errors about the axes in the conditions of profiles, and about profiles that publish what they do not test."""
    known = {*AXES, *PARTS, "branch", *spec.axes}
    for path, when in spec.profiles.conditions:
        yield from _conditions(spec, path, when, known)
    if any(branch.publish for branch in spec.branches.values()):
        for name in (PUSH, NIGHTLY, RELEASE):
            left = [stage for stage in spec.profiles.left_out(name) if stage in spec.stages]
            if left and spec.profiles.publishes(name, on_push=spec.publish.on_push):
                yield spec.finding(("profiles", name, "tests"), Code.PUBLISHES_UNTESTED, _untested(name, left))


def _untested(profile: str, left: Sequence[Stage]) -> str:
    off = "`publish: {on-push: false}`" if profile == PUSH else "`publish: false`"
    return f"leaves out {' and '.join(map(str, left))}, but the profile publishes; take `tests` away, or add {off}"


def _settings(spec: Spec, known: Collection[str]) -> Iterator[Finding]:
    for name, rows in spec.settings.items():
        if name in {*NAMES, *known, "files"}:
            message = f"{name} is a value of every variant already; give the setting another name"
            yield spec.finding(("settings", name), Code.DUPLICATE_NAME, message, key=True)
        for setting in rows:
            yield from _conditions(spec, ("settings", name, setting.index, "when"), setting.when, known)


def _matrix(spec: Spec, path: Path_, matrix: Matrix, known: Collection[str]) -> Iterator[Finding]:
    for below, values in _written(matrix):
        for axis, listed in values.items():
            at: Path_ = (*path, *below, axis)
            if axis not in known:
                yield _unknown_axis(spec, at, axis, known)
            else:
                yield from _unknown_values(spec, at, axis, listed)


def _package(spec: Spec, package: Package, known: Collection[str]) -> Iterator[Finding]:
    root: Path_ = ("packages", package.name)
    yield from _axes(spec, (*root, "ignores"), package.ignores, known)
    yield from _conditions(spec, (*root, "when"), package.when, known)
    for below, setting in package.command.rows if package.command else ():
        yield from _conditions(spec, (*root, "command", *below, "when"), setting.when, known)
    for row in package.joins:
        at: Path_ = (*root, "joins", row.index)
        axes = (*at, "axes") if (*at, "axes") in spec.document.values else (*root, "joins")  # rows, or a list of axes
        yield from _axes(spec, axes, row.axes, known)
        yield from _conditions(spec, (*at, "when"), row.when, known)
        if row.package:
            yield from spec.unless_known((*at, "with"), Code.UNKNOWN_PACKAGE, row.package, spec.packages)


def edge_findings(spec: Spec) -> Iterator[Finding]:
    """An error for each axis and value of an edge that nothing declares."""
    known = {*AXES, *PARTS, *(name for name, axis in spec.axes.items() if axis.values)}
    for package in spec.packages.values():
        for key, edges in package.edges_by_kind:
            for edge in edges:
                at: Path_ = ("packages", package.name, key, edge.index)
                yield from _conditions(spec, (*at, "when"), edge.when, {*known, "branch"})
                for axis, values in edge.values:
                    listed = [value for value in values if value != EVERY]
                    if axis not in known:
                        yield _unknown_axis(spec, (*at, axis), axis, known)
                    elif axis == "family":
                        for value in listed:
                            yield from _unknown_family(spec, (*at, axis), Accelerator(family=value))
                    elif axis not in PARTS:  # the values of other parts are those of variants
                        yield from _unknown_values(spec, (*at, axis), axis, values, beside=[EVERY])


def _written(matrix: Matrix) -> Iterator[tuple[Path_, Mapping[str, Sequence[str]]]]:
    yield ("values",), matrix.values
    for index, row in enumerate(matrix.rows):
        yield ("rows", index), row


def _unknown_axis(spec: Spec, path: Path_, axis: str, known: Collection[str], *, key: bool = True) -> Finding:
    from ci_compiler.spec.reasons import meant  # only a wrong spec needs it

    message = f"unknown axis {axis!r}, which `axes` may declare{meant(axis, known)}"
    return spec.finding(path, Code.UNKNOWN_AXIS, message, key=key)


def _axes(spec: Spec, path: Path_, names: Iterable[str], known: Collection[str]) -> Iterator[Finding]:
    for index, name in enumerate(names):
        if name not in known:
            yield _unknown_axis(spec, (*path, index), name, known)


def _conditions(spec: Spec, path: Path_, when: When | None, known: Collection[str]) -> Iterator[Finding]:
    """Errors about the axes of a condition; that it holds for a cell is checked with the cells."""
    for axis, among in when.values if when else ():
        if axis not in known:
            yield _unknown_axis(spec, (*path, axis), axis, known)
        elif axis == "accelerator":
            for text in among:
                yield from _unknown_family(spec, (*path, axis), Accelerator.parse(text))


def _unknown_values(
    spec: Spec, at: Path_, axis: str, values: Sequence[str], *, beside: Iterable[str] = ()
) -> Iterator[Finding]:
    """Errors about `values` at `at` that the axis has not; `beside` are words that may stand there as well."""
    row = spec.axes.get(axis)
    declared = {*row.values, *row.serves, *beside} if row else {*beside}
    if axis == "branch":
        declared |= set(spec.branches)
    elif axis == "platform":
        declared |= set(known_platforms(spec))
    for index, value in enumerate(values):
        if value in declared:
            continue
        path = _entry(spec, at, index)
        if axis == "accelerator":
            yield from _unknown_accelerator(spec, path, Accelerator.parse(value))
        elif axis == "isa":
            yield from look_up(spec, path, spec.hardware.isa, value)
        elif axis != "python":
            message = why_unknown(path, value) or f"unknown {axis} {value!r}{nearest(value, declared)}"
            yield spec.finding(path, _CODES.get(axis, Code.UNKNOWN_VALUE), message)
        elif not re.fullmatch(PYTHON, value):
            message = f"{value!r} is not a Python version from 3.9 to 3.15, which `t` may follow; `axes` may declare it"
            yield spec.finding(path, Code.UNKNOWN_VALUE, message)


_CODES = {"platform": Code.UNKNOWN_SYSTEM, "branch": Code.UNKNOWN_BRANCH}


def _unknown_family(spec: Spec, path: Path_, accelerator: Accelerator) -> Iterator[Finding]:
    known = [*FAMILIES, *spec.hardware.families]
    if accelerator.family not in known:
        message = f"unknown family {accelerator.family!r}, which `hardware: {{families: …}}` may declare"
        why = _alias(spec, accelerator.family) or why_unknown(path, accelerator.family)
        why = why or _misspelled(accelerator.family)
        yield spec.finding(path, Code.UNKNOWN_FAMILY, why or f"{message}{nearest(accelerator.family, known)}")


def _alias(spec: Spec, name: str) -> str:
    """The message about an alias of a declared family; '' for any other name."""
    family = next((one.name for one in spec.hardware.families.values() if name.lower() in one.aliases), "")
    return f"{name!r} is an alias; write {family}" if family else ""


def _misspelled(text: str) -> str:
    """The message about what stands where a family must, and is a target, or an accelerator without blanks."""
    words = re.split("[-_:/]+", text)
    if words[1:] and words[0] in FAMILIES:
        return f"{text!r} has other signs than blanks between its parts; write {' '.join(words)}"
    of = _family_of_target(text)
    return f"{text!r} is a target of {of}, and the family comes first; write {of} VERSION {text}" if of else ""


def _family_of_target(name: str) -> str:
    """The family whose targets are called like `name`; '' if none is, of those with such a rule."""
    return next((one for one in FAMILIES if family_of(one).prefix and family_of(one).is_target(name)), "")


def _unknown_accelerator(spec: Spec, path: Path_, accelerator: Accelerator) -> Iterator[Finding]:
    """Errors about a family, toolkit or target. Those of a family without facts have no right values."""
    family, toolkit, target = accelerator
    if findings := list(_unknown_family(spec, path, accelerator)):
        yield from findings
        return
    rows = [row for rows in spec.accelerator_tables() if (row := rows.get(family))]
    listed = {name for row in rows for name in (*row.toolkits, *row.targets)}
    served = {name for part in ("toolkit", "target") if part in spec.axes for name in spec.axes[part].serves}
    if family == SHORT_FAMILY:
        known = {*tables().toolkits, *spec.hardware_rows.toolkits}
        of_series = {name.rpartition(".")[0] for name in known}
        if toolkit and toolkit not in {*known, *of_series, *listed, *served, *spec.toolkits}:
            yield from look_up_toolkit(spec, path, toolkit)
    if target and target not in {*listed, *served} and not spec.hardware.family(family).is_target(target):
        message = why_unknown(path, target) or f"{target!r} is not a target of {family}{_meant(spec, family, target)}"
        yield spec.finding(path, Code.UNKNOWN_GPU, message)


def target_findings(spec: Spec) -> Iterator[Finding]:
    """A warning for each target in a matrix or of a pool whose code no GPU runs that the family's table has."""
    places = [((*path, *below, "accelerator"), row) for path, one, _ in spec.matrices for below, row in _written(one)]
    named = [(at, index, text) for at, row in places for index, text in enumerate(row.get("accelerator", ()))]
    named += [(("runners", pool.name, "accelerator"), 0, pool.accelerator) for pool in spec.pools if pool.accelerator]
    tables = spec.accelerator_tables()
    listed = {(family, name) for rows in tables for family, row in rows.items() for name in row.targets}
    for at, index, text in named:
        family, _, target = Accelerator.parse(text)
        own = family_of(family)
        listed_here = products_of(family)
        more = facts(family, "names")["others"] if listed_here else ()
        known = [NamedTarget(one, family) for one in (*listed_here, *more)]
        for part in filter(None, target.split(",") if known else ()):
            built = NamedTarget(own.named(part), family)
            if (family, part) not in listed and not any(own.runs(one, built) for one in known):
                near = nearest(part, listed_here, only_near=True) or "; `accelerators` may list it"
                message = f"no known GPU of {family} runs code for {part!r}{near}"
                yield spec.finding(_entry(spec, at, index), Code.UNLISTED_TARGET, message)


def _entry(spec: Spec, at: Path_, index: int) -> Path_:
    """The place of an entry of a list at `at`, where one entry may stand for a list."""
    return (*at, index) if (*at, index) in spec.document.values else at


def _meant(spec: Spec, family: str, target: str) -> str:
    """The clause about what `target` is, if it is none of `family`: one of another family, a product, a slip."""
    from ci_compiler.hardware.products import device  # only a wrong spec needs it

    if other := _family_of_target(target):
        return f", but one of {other}"
    declared = spec.hardware_rows.families.get(family)
    targets = [*products_of(family), *spec.hardware.gpus, *((declared.targets or ()) if declared else ())]
    near = nearest(target, [one for one in targets if spec.hardware.family(family).is_target(one)], only_near=True)
    with suppress(UnknownHardwareError, ValueError):
        found = device(spec.hardware, target)
        if found and found.family == family and found.target != target:
            return f"; it is a product with the target {found.target or found.sm}"
    return near


def _pools(spec: Spec) -> Iterator[Finding]:
    for pool in spec.pools:
        root: Path_ = ("runners", pool.name)
        if pool.hosted and pool.hosted not in hosted():
            message = f"unknown GitHub-hosted machine {pool.hosted!r}{nearest(pool.hosted, hosted())}"
            why = why_unknown((*root, "hosted"), pool.hosted)
            yield spec.finding((*root, "hosted"), Code.UNKNOWN_VALUE, why or message)
        for key, names in (("builds", pool.builds), ("runs", pool.runs)):
            for index, name in enumerate(names):
                if name not in known_platforms(spec):
                    message = f"unknown platform {name!r}{nearest(name, known_platforms(spec))}"
                    yield spec.finding((*root, key, index), Code.UNKNOWN_SYSTEM, message)
        if pool.accelerator:
            yield from _unknown_accelerator(spec, (*root, "accelerator"), Accelerator.parse(pool.accelerator))
