"""Names in what the spec says of recipes and proofs: presets, placeholders, patterns, keys that must fit together."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import date

from ci_compiler.codes import Code
from ci_compiler.errors import Finding
from ci_compiler.spec.load import Path_
from ci_compiler.spec.model import Package, RecipeKind, Spec
from ci_compiler.spec.placeholders import mentioned, unknown
from ci_compiler.spec.presets import presets
from ci_compiler.spec.suites import SmokeTest, Suite
from ci_compiler.spec.values import names_of
from ci_compiler.spec.work_arounds import work_arounds
from ci_compiler.stages import BENCHMARK, TestPolicy

_WITH_PLACEHOLDERS = ("arguments", "environment", "cmake-flags", "build-flags", "inputs", "attributes")


def recipe_findings(spec: Spec) -> Iterator[Finding]:
    """An error for each name that nothing declares."""
    for package in spec.packages.values():
        yield from _check_package(spec, package)
    for name, one in spec.work_arounds.items():
        path: Path_ = ("work-arounds", name)
        if name in work_arounds():
            message = f"there is a bundled work-around called {name!r}; give this one another name"
            yield spec.finding(path, Code.DUPLICATE_NAME, message, key=True)
        for index, needed in enumerate(one.packages):
            yield from spec.unless_known((*path, "packages", index), Code.UNKNOWN_PACKAGE, needed, spec.packages)
        yield from _check_texts(spec, path, _written(spec, path))


def _check_package(spec: Spec, package: Package) -> Iterator[Finding]:
    path: Path_ = ("packages", package.name)
    yield from spec.unless_known((*path, "preset"), Code.UNKNOWN_PRESET, package.preset, presets())
    for pattern, kind in package.recipes:
        if kind is RecipeKind.TEMPLATE and not package.template:
            by_pattern = (*path, "recipes", pattern)
            message = f"recipes of {package.name} come from a template; add `template: FILE`"
            yield spec.finding(by_pattern, Code.TEMPLATE_MISSING, message)
    for key in _WITH_PLACEHOLDERS:
        yield from _check_texts(spec, (*path, key), _written(spec, (*path, key)))


def _written(spec: Spec, path: Path_) -> object:
    """The value at `path` in the document; None if there is none."""
    value = spec.document.value
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _check_texts(spec: Spec, path: Path_, value: object) -> Iterator[Finding]:
    """An error for each unknown placeholder, and each number that Nix has not, in the JSON `value` at `path`."""
    if isinstance(value, str):
        for _, message in unknown(value):
            yield spec.finding(path, Code.UNKNOWN_PLACEHOLDER, message)
    elif isinstance(value, float) and not math.isfinite(value):
        yield spec.finding(path, Code.WRONG_VALUE, f"{spec.document.typed[path]} is no number in Nix")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _check_texts(spec, (*path, key), item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _check_texts(spec, (*path, index), item)


def proof_findings(spec: Spec) -> Iterator[Finding]:
    """An error for each smoke test, suite and benchmark that could never run, or whose results could not be judged."""
    yield from _check_smoke(spec)
    yield from _check_benchmarks(spec)
    yield from _check_expected(spec)
    for package in spec.packages.values():
        found = (finding for suite in package.suites.values() for finding in _check_suite(spec, package, suite))
        yield from dict.fromkeys(found)  # the rows of a suite share its keys


def placeholder_findings(spec: Spec, path: Path_, text: str) -> Iterator[Finding]:
    """An error for each placeholder in `text` that is not the name of a variant's value."""
    known = names_of(spec)
    for name in sorted(mentioned(text).difference(known)):
        from ci_compiler.spec.reasons import meant  # only a wrong spec needs it

        yield spec.finding(path, Code.UNKNOWN_PLACEHOLDER, f"unknown placeholder @{name}@{meant(name, known)}")


def _check_smoke(spec: Spec) -> Iterator[Finding]:
    """A smoke test says either `python` or `run`, and what it expects is a regular expression."""
    for package in spec.packages.values():
        if package.smoke is None:
            continue
        path: Path_ = ("packages", package.name, "smoke")
        tables = {"cpu": package.smoke.cpu, "gpu": package.smoke.gpu}
        own: dict[Path_, SmokeTest] = {(*path, name): one for name, one in tables.items() if one}
        if not own or package.smoke.run or package.smoke.expect:  # a file alone is right
            own[path] = package.smoke
        for where, test in own.items():
            yield from _check_smoke_test(spec, where, test)


def _check_smoke_test(spec: Spec, path: Path_, test: SmokeTest) -> Iterator[Finding]:
    shown = ".".join(map(str, path))
    if bool(test.python) == bool(test.run):
        yield spec.finding(path, Code.WRONG_TEST, _which(path, both=bool(test.run)))
    elif test.expect and not test.run:
        message = f"{shown}: `expect` is about what `run` prints; a `python` file checks its results itself"
        yield spec.finding((*path, "expect"), Code.WRONG_TEST, message)
    yield from placeholder_findings(spec, (*path, "expect"), test.expect)
    try:
        re.compile(test.expect)
    except re.error as error:
        yield spec.finding((*path, "expect"), Code.WRONG_TEST, f"{shown}.expect is not a regular expression: {error}")


def _check_benchmarks(spec: Spec) -> Iterator[Finding]:
    """A declared benchmark says either `python` or `run`, and the stage is on where the spec says how it measures."""
    own: list[Path_] = [("benchmark",)] if ("benchmark",) in spec.document.values else []
    for package in spec.packages.values():
        if package.benchmark is not None:
            path: Path_ = ("packages", package.name, "benchmark")
            own.append(path)
            if bool(package.benchmark.python) == bool(package.benchmark.run):
                yield spec.finding(path, Code.WRONG_TEST, _which(path, both=bool(package.benchmark.run)))
    if spec.tests[BENCHMARK] is TestPolicy.NEVER:
        for path in own:
            message = (
                f"`{'.'.join(map(str, path))}` is about the stage {BENCHMARK}, which is off; `tests: {{{BENCHMARK}: "
                f"{TestPolicy.WHERE_ROUTED}}}` switches it on"
            )
            yield spec.finding(path, Code.TEST_NEVER_RUNS, message, key=True)


def _which(path: Path_, *, both: bool) -> str:
    how = "says both `python` and `run`; keep one" if both else "says neither `python` nor `run`"
    return f"{'.'.join(map(str, path))} {how}"


def _check_suite(spec: Spec, package: Package, suite: Suite) -> Iterator[Finding]:
    path: Path_ = ("packages", package.name, "suites", suite.declared_as or suite.name)
    shown = ".".join(map(str, path))
    if suite.on == "cpu" and suite.gpus > 1:
        yield spec.finding((*path, "gpus"), Code.WRONG_TEST, f"{shown} runs on the CPU; for GPUs, write `on: gpu`")
    if spec.tests[suite.stage] is TestPolicy.NEVER:
        message = f"{shown} belongs to {suite.stage}, which `tests` switches off"
        yield spec.finding(path, Code.TEST_NEVER_RUNS, message, key=True)
    if suite.on == "cpu" and suite.target:
        message = f"{shown} runs on the CPU; for the GPU {suite.target}, write `on: gpu`"
        yield spec.finding((*path, "matrix"), Code.WRONG_TEST, message)
    if "branch" in suite.values:
        message = f"{shown} has a row for a branch; a suite runs for the variants of each branch"
        yield spec.finding((*path, "matrix"), Code.WRONG_TEST, message)
    if suite.expected_failures and not suite.junit:
        message = f"{shown} declares no `junit` files, which say which test failed"
        yield spec.finding((*path, "expected-failures"), Code.WRONG_TEST, message)
    for index, expected in enumerate(suite.expected_failures):
        yield from _check_day(spec, (*path, "expected-failures", index, "until"), expected.until)


def _check_expected(spec: Spec) -> Iterator[Finding]:
    """An expected failure of a stage ends on a day of the calendar, and belongs to a stage that is not switched off."""
    for expected in spec.expected_failures:
        path: Path_ = ("expected-failures", expected.index)
        yield from _check_day(spec, (*path, "until"), expected.until)
        if spec.tests[expected.stage] is TestPolicy.NEVER:
            message = f"a failure of {expected.stage} is expected, which `tests` switches off"
            yield spec.finding((*path, "stage"), Code.TEST_NEVER_RUNS, message)


def _check_day(spec: Spec, path: Path_, text: str) -> Iterator[Finding]:
    try:
        date.fromisoformat(text)
    except ValueError:
        yield spec.finding(path, Code.WRONG_TEST, f"{text} is not a day of the calendar")
