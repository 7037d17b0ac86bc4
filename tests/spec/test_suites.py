"""Smoke tests, suites and accepted failures: their keys, the rows of a suite, and what each is about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ci_compiler.spec.suites import (
    DeclaredBenchmark,
    ExpectedFailure,
    ExpectedStageFailure,
    Smoke,
    SmokeTest,
    Suite,
    SuiteMatrix,
    each_row,
)
from ci_compiler.stages import stages_that_test
from tests.spec.published import assert_published

CPU_TEST, GPU_TEST = (stage for stage in stages_that_test() if stage.name in {"cpu-test", "gpu-test"})


def test_the_schema_has_these_keys() -> None:
    assert_published(DeclaredBenchmark, ExpectedFailure, ExpectedStageFailure, Smoke, Suite, SuiteMatrix)


def test_a_smoke_test_of_one_kind_of_machine_comes_before_the_common_one() -> None:
    own = SmokeTest(python="b.py")
    assert Smoke(python="a.py", gpu=own).on(gpu=True) is own
    common = Smoke(python="a.py", gpu=own).on(gpu=False)
    assert common is not None
    assert common.python == "a.py"
    assert Smoke(run="x").on(gpu=True) is not None
    assert Smoke(gpu=own).on(gpu=False) is None


def suite(name: str = "ops", **keys: Any) -> Suite:
    return Suite(name=name, command="x", minutes=5, **keys)


def rows(**values: tuple[str, ...]) -> SuiteMatrix:
    return SuiteMatrix(values=values)


def test_the_rows_of_a_suite_are_there_once() -> None:
    made = SuiteMatrix(values={"a": ("1", "2")}, rows=({"b": ("x", "y")}, {"b": ("y",), "a": ("2",)}))
    assert list(made.combinations) == [
        {"a": "1", "b": "x"},
        {"a": "1", "b": "y"},
        {"a": "2", "b": "x"},
        {"a": "2", "b": "y"},
    ]
    assert list(SuiteMatrix(values={"a": ("1",)}).combinations) == [{"a": "1"}]


def test_each_row_is_a_suite_that_is_called_by_its_values() -> None:
    alike = rows(torch=("2.8", "2_8", "2/8"))
    found = each_row({"ops": suite(matrix=alike), "plain": suite("plain")})
    assert list(found) == ["ops-2-8", "ops-2-8-x2", "ops-2-8-x3", "plain"]
    assert [(one.name, one.declared_as, dict(one.values)) for one in found.values()] == [
        ("ops-2-8", "ops", {"torch": "2.8"}),
        ("ops-2-8-x2", "ops", {"torch": "2_8"}),
        ("ops-2-8-x3", "ops", {"torch": "2/8"}),
        ("plain", "", {}),
    ]


def test_a_row_with_an_accelerator_needs_its_target() -> None:
    assert suite(matrix=rows(accelerator=("cuda 12.8 sm90",))).target == "sm90"
    assert suite(matrix=rows(torch=("2.8",))).target == suite().target == ""


def test_a_suite_belongs_to_the_stage_of_its_machines() -> None:
    assert (suite().stage, suite(on="gpu").stage) == (CPU_TEST, GPU_TEST)


def test_a_suite_runs_for_all_variants_or_for_those_that_it_installs() -> None:
    some = replace(suite(), installs=frozenset({("main", "a")}))
    assert [some.runs_for("main", "a"), some.runs_for("main", "b"), some.runs_for("next", "a")] == [True, False, False]
    assert suite().runs_for("main", "anything")


@pytest.mark.parametrize(
    ("branches", "name", "branch", "stage", "expected"),
    [
        ((), "torch-sm61", "main", GPU_TEST, True),
        (("main",), "torch-sm61", "main", GPU_TEST, True),
        (("next",), "torch-sm61", "main", GPU_TEST, False),
        ((), "torch-sm90", "main", GPU_TEST, False),
        ((), "torch-sm61", "main", CPU_TEST, False),
    ],
)
def test_an_expected_failure_is_about_a_stage_of_variants_on_branches(
    branches: tuple[str, ...], name: str, branch: str, stage: Any, *, expected: bool
) -> None:
    failure = ExpectedStageFailure(
        index=0, pattern="*-sm61", branches=branches, stage=GPU_TEST, because="no kernels", until="2027-03-31"
    )
    assert failure.concerns(name, branch, stage) is expected
