"""What a test stage proves: what is declared, what the tool brings, or only that the package can be imported."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ci_compiler.plan.pipeline import plan
from ci_compiler.plan.proof import (
    Proof,
    Reach,
    coverage,
    is_imported_only,
    job_title,
    module_of,
    passed,
    proof_of,
    required_tests,
    untested_findings,
)
from ci_compiler.plan.suites import Bench
from ci_compiler.stages import BENCHMARK, BUILD, CPU_TEST, GPU_TEST, PUBLISH
from tests.specs import small, spec_of

FILE = {"python": "tests/smoke.py"}


def fleet(smoke: dict[str, Any] | None = None, **changes: Any) -> Any:
    """The small spec with a package of no known kind, and its smoke test."""
    packages = {"pytorch": {"attribute": "torch"}, "torchvision": {"needs": ["pytorch"]}, "apex": {}}
    packages["apex"] = {"smoke": smoke} if smoke else {}
    document = small(packages=packages, **changes)
    document["branches"]["main"]["versions"]["apex"] = "0.1"
    return spec_of(document)


@pytest.mark.parametrize(
    ("smoke", "on_cpu", "on_gpu"),
    [
        (None, Proof.IMPORTED_ONLY, Proof.IMPORTED_ONLY),
        (FILE, Proof.DECLARED, Proof.DECLARED),
        ({"cpu": FILE}, Proof.DECLARED, Proof.IMPORTED_ONLY),
        ({"gpu": FILE}, Proof.IMPORTED_ONLY, Proof.DECLARED),
    ],
)
def test_what_is_declared_decides_stage_by_stage(smoke: dict[str, Any] | None, on_cpu: Proof, on_gpu: Proof) -> None:
    package = fleet(smoke).packages["apex"]
    assert (proof_of(package, CPU_TEST), proof_of(package, GPU_TEST)) == (on_cpu, on_gpu)


def test_the_tool_brings_the_tests_of_torch() -> None:
    packages = fleet().packages
    assert {proof_of(packages[name], GPU_TEST) for name in ("pytorch", "torchvision")} == {Proof.BUNDLED}


def test_publishing_after_tests_that_only_import_says_so() -> None:
    spec = fleet()
    titles = [job_title(spec, spec.packages["apex"], stage) for stage in (BUILD, CPU_TEST, GPU_TEST, PUBLISH)]
    assert titles == ["build", "cpu-test (imported only)", "gpu-test (imported only)", "publish (imported only)"]
    assert job_title(spec, spec.packages["pytorch"], PUBLISH) == "publish"


@pytest.mark.parametrize(("after", "only"), [(["cpu-test"], False), (["gpu-test"], True), ([], False)])
def test_publishing_counts_only_the_tests_that_it_waits_for(after: list[str], only: bool) -> None:
    spec = fleet({"cpu": FILE}, publish={"after": after})
    assert is_imported_only(spec, spec.packages["apex"], PUBLISH) is only


@pytest.mark.parametrize(
    ("only", "reach", "recorded", "shown"),
    [
        (False, "", False, "passed"),
        (False, Reach.OWN, False, "passed"),
        (False, "on a moon", False, "passed"),
        (False, "on a larger CPU", False, "passed (on a larger CPU)"),
        (True, "", False, "passed (imported only)"),
        (True, Reach.EMULATED, True, "passed before (imported only, instruction set emulated)"),
        (False, "", True, "passed before"),
    ],
)
def test_a_test_that_passed_is_shown_with_what_it_does_not_prove(
    only: bool, reach: str, recorded: bool, shown: str
) -> None:
    assert passed(imported_only=only, reach=reach, recorded=recorded) == shown


def test_the_module_of_a_package_is_that_of_the_table_else_what_its_attribute_suggests() -> None:
    packages = small()["packages"] | {"vision": {"attribute": "torch-vision-x"}}
    branch = small()["branches"]["main"] | {"versions": dict.fromkeys(packages, "1.0")}
    known = spec_of(small(packages=packages, branches={"main": branch})).packages
    modules = {name: module_of(package) for name, package in known.items()}
    assert modules == {"pytorch": "torch", "torchvision": "torchvision", "vision": "torch_vision_x"}


def test_a_build_proves_nothing_and_a_stage_that_only_measures_neither() -> None:
    spec = fleet(tests={"benchmark": "where-routed"})
    apex = spec.packages["apex"]
    stages = (BUILD, CPU_TEST, BENCHMARK, PUBLISH)
    assert [is_imported_only(spec, apex, stage) for stage in stages] == [False, True, False, True]


UNIT, OPS = {"command": "x", "minutes": 5}, {"command": "x", "minutes": 5, "on": "gpu"}
ON_A100 = OPS | {"matrix": {"values": {"accelerator": "cuda sm90"}}}


@pytest.mark.parametrize(
    ("suite", "on_cpu", "on_gpu"),
    [(UNIT, False, True), (OPS, True, False), (OPS | {"gpus": 2}, True, True), (ON_A100, True, True)],
)
def test_a_suite_that_runs_wherever_its_stage_does_proves_more_than_an_import(
    suite: dict[str, Any], on_cpu: bool, on_gpu: bool
) -> None:
    given = small(packages={"apex": {"suites": {"one": suite}}})
    given["branches"]["main"]["versions"] = {"apex": "0.1"}
    spec = spec_of(given)
    apex = spec.packages["apex"]
    assert [is_imported_only(spec, apex, stage) for stage in (CPU_TEST, GPU_TEST)] == [on_cpu, on_gpu]
    bound = replace(apex, suites={name: replace(one, installs=frozenset()) for name, one in apex.suites.items()})
    assert [is_imported_only(spec, bound, stage) for stage in (CPU_TEST, GPU_TEST)] == [True, True]


def claimed(package: dict[str, Any] | None = None, **changes: Any) -> tuple[list[str], str]:
    """The required tests of a variant of apex for a GPU, and what publishing it claims."""
    given = small(packages={"apex": package or {}}, **changes)
    given["branches"]["main"]["versions"] = {"apex": "0.1"}
    made = plan(spec_of(given))
    ((cell, route), *_) = (
        (cell, route) for cell, route in zip(made.judged.cells, made.routes, strict=True) if cell.target == "sm90"
    )
    required = required_tests(made.spec, cell, cell.variants[0], route)
    assert all(isinstance(test, Bench) is name.startswith("suite ") for name, test in required.items())
    return list(required), coverage(made.spec, cell, cell.variants[0], route)


BUILDER = {"runs-on": ["self-hosted", "linux", "x64", "b"], "cpu": ["avx512"]}
NO_TEST = {"runners": {"builder": BUILDER | {"stages": ["build", "publish"]}}}


@pytest.mark.parametrize(
    ("package", "changes", "tests", "claim"),
    [
        ({}, {}, ["cpu-test", "gpu-test"], "passed cpu-test and gpu-test"),
        ({}, {"publish": {"after": ["gpu-test"]}}, ["gpu-test"], "passed gpu-test"),
        ({}, {"runners": {"builder": BUILDER}}, ["cpu-test"], "passed cpu-test"),
        (
            {"suites": {"unit": UNIT, "ops": OPS, "wide": OPS | {"gpus": 4}}},
            {},
            ["cpu-test", "gpu-test", "suite unit", "suite ops"],
            "passed cpu-test and gpu-test and suite unit and suite ops",
        ),
        ({"suites": {"unit": UNIT}}, {"publish": {"after": ["gpu-test"]}}, ["gpu-test"], "passed gpu-test"),
        ({"untested": "No machine."}, {}, ["cpu-test", "gpu-test"], "passed cpu-test and gpu-test"),
        ({"untested": "No machine."}, NO_TEST, [], "untested (No machine.)"),
        ({"untested": {"*-cpu-*": "No machine."}}, NO_TEST, [], ""),
        ({}, NO_TEST, [], ""),
    ],
)
def test_publishing_claims_the_tests_that_a_pool_runs_or_why_there_are_none(
    package: dict[str, Any], changes: dict[str, Any], tests: list[str], claim: str
) -> None:
    assert claimed(package, **changes) == (tests, claim)


@pytest.mark.parametrize(
    ("apex", "branch", "said"),
    [
        ({}, {}, "apex-python313-cpu-avx2 and 3 more on main"),
        ({"untested": {"*-avx512": "No machine."}}, {}, "apex-python313-cpu-avx2 and 1 more on main"),
        (
            {"untested": {"*-avx512": "No machine.", "*-cpu-*": "None."}},
            {},
            "apex-python313-cuda12_8-sm90-avx2 on main",
        ),
        ({"untested": "No machine."}, {}, ""),
        ({}, {"publish": False}, ""),
    ],
)
def test_variants_that_nothing_tests_and_no_reason_excuses_are_a_warning(
    apex: dict[str, Any], branch: dict[str, Any], said: str
) -> None:
    given = small(packages={"apex": apex}, **NO_TEST)
    given["branches"]["main"] |= branch | {"versions": {"apex": "0.1"}}
    made = plan(spec_of(given))
    found = list(untested_findings(made.spec, zip(made.judged.cells, made.routes, strict=True)))
    assert [one.place for one in found] == [made.spec.place("packages", "apex", key=True)] * bool(said)
    message = (
        f"no pool runs a test that publishing {said} waits for, so it is not published; add a pool that tests it, or "
        "accept it with `untested: WHY` in apex"
    )
    assert [(one.code, one.message) for one in found] == [("no-test", message)] * bool(said)
