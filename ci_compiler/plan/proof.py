"""How a test stage proves a package: by what the spec declares, by what the tool brings, or only by importing it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from ci_compiler.codes import Code
from ci_compiler.errors import Finding
from ci_compiler.plan.matrix import Cell, Variant
from ci_compiler.plan.routing import Route
from ci_compiler.plan.sharding import waits_for
from ci_compiler.plan.suites import Bench, bench_of, suites_of
from ci_compiler.spec.model import Package, Spec
from ci_compiler.spec.suites import Suite
from ci_compiler.stages import PUBLISH, Stage, StageKind


class Proof(StrEnum):
    """What a test stage proves a package by."""

    DECLARED = "declared"
    BUNDLED = "bundled"
    IMPORTED_ONLY = "imported only"


class Reach(StrEnum):
    """Which instruction set a test proves that a build runs on.

    OWN: the variant's, because the CPU has nothing beyond it. EMULATED: the variant's, because the test also ran on
    such a CPU under emulation. LARGER: only that of the machine's CPU, which has more.
    """

    OWN = "on its instruction set"
    EMULATED = "instruction set emulated"
    LARGER = "on a larger CPU"


def passed(*, imported_only: bool, reach: str, recorded: bool = False) -> str:
    """How a test that passed is shown: `passed (imported only, on a larger CPU)`. `reach` may be '' for unknown.

    `recorded`: it passed before and was left out: `passed before`.
    """
    remarks = [Proof.IMPORTED_ONLY.value] if imported_only else []
    remarks += [reach] if reach in set(Reach) - {Reach.OWN} else []
    how = "passed before" if recorded else "passed"
    return f"{how} ({', '.join(remarks)})" if remarks else how


@cache
def checks() -> Mapping[str, Any]:
    """The table of the bundled smoke tests, `checks.json`."""
    table: dict[str, Any] = json.loads(Path(__file__).with_name("checks.json").read_bytes())
    return table


def module_of(package: Package) -> str:
    """The Python module of `package`: that of the table, else the one that its attribute suggests."""
    known = checks()["packages"].get(package.attribute)
    return str(known["module"]) if known else package.attribute.replace("-", "_")


def proof_of(package: Package, stage: Stage) -> Proof:
    """What `stage`, which tests, proves of `package`."""
    if package.smoke and package.smoke.on(gpu=stage.needs_gpu):
        return Proof.DECLARED
    return Proof.BUNDLED if package.attribute in checks()["packages"] else Proof.IMPORTED_ONLY


def is_imported_only(spec: Spec, package: Package, stage: Stage) -> bool:
    """Whether `stage` only imports `package`; for publishing, whether all tests that it waits for do.

    A build proves nothing, and publishing that waits for no test claims nothing.
    """
    tests = [
        other for other in ([stage] if stage.is_test else waits_for(spec, stage)) if other.is_test and other.proves
    ]
    claims = stage.kind is not StageKind.BUILD and bool(tests)
    return claims and not any(_is_proved(package, test) for test in tests)


def _is_proved(package: Package, stage: Stage) -> bool:
    """Whether `stage` does more than import `package`: by its smoke test, or by a suite that runs wherever it does."""
    suites = (suite for suite in package.suites.values() if suite.installs is None and not bench_of(suite).is_own)
    return proof_of(package, stage) is not Proof.IMPORTED_ONLY or any(suite.stage is stage for suite in suites)


def required_tests(spec: Spec, cell: Cell, variant: Variant, route: Route) -> dict[str, Stage | Bench]:
    """The tests that `variant` must have passed before it is published, by name: those of them that a pool runs."""
    after = [stage for stage in waits_for(spec, PUBLISH) if stage.is_test]
    found: dict[str, Stage | Bench] = {stage.name: stage for stage in after if stage in route.pools}
    for suite in suites_of(spec, cell, variant):
        bench = bench_of(suite)
        if suite.stage in after and bench in route.suites:
            found[test_name(suite)] = bench
    return found


def coverage(spec: Spec, cell: Cell, variant: Variant, route: Route) -> str:
    """What publishing `variant` claims of it: `passed cpu-test`, or `untested (WHY)` by the spec; '' for nothing.

    A variant of which nothing is claimed is not published.
    """
    if tests := required_tests(spec, cell, variant, route):
        return f"passed {' and '.join(tests)}"
    why = spec.packages[variant.package].why_untested(variant.name)
    return f"untested ({why})" if why else ""


def uncovered(name: str) -> str:
    """Why a variant of which nothing is claimed is not published."""
    return f"no test covers {name}, and the spec does not say why (`untested`)"


def test_name(suite: Suite) -> str:
    """The name of a suite among the tests of a variant; no stage has it."""
    return f"suite {suite.name}"


def untested_findings(spec: Spec, parts: Iterable[tuple[Cell, Route]]) -> Iterator[Finding]:
    """A warning for each package and branch with variants that no test covers, without a reason in the spec."""
    found: dict[tuple[str, str], list[str]] = {}
    for cell, route in parts:
        for variant in cell.variants if PUBLISH in route.pools and spec.branches[cell.branch].publish else ():
            if not coverage(spec, cell, variant, route):
                found.setdefault((variant.package, cell.branch), []).append(variant.name)
    for (package, branch), (first, *others) in found.items():
        more = f" and {len(others)} more" if others else ""
        message = (
            f"no pool runs a test that publishing {first}{more} on {branch} waits for, so it is not published; add a "
            f"pool that tests it, or accept it with `untested: WHY` in {package}"
        )
        yield spec.finding(("packages", package), Code.NO_TEST, message, key=True)


def job_title(spec: Spec, package: Package, stage: Stage) -> str:
    """The name of the job of `stage` for `package`: `cpu-test`, or `cpu-test (imported only)`."""
    return f"{stage} ({Proof.IMPORTED_ONLY})" if is_imported_only(spec, package, stage) else stage.name
