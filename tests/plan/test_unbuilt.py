"""What open matrices leave out, and what `explain` says of names that they do not build."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from ci_compiler.plan.document import document
from ci_compiler.plan.lookup import explain
from ci_compiler.plan.pipeline import Plan, plan
from tests.plan.test_public_matrices import planned
from tests.specs import small, spec_of

FLASH = "flash-attn-python310-torch{}-abi{}-cuda{}-x86_64-linux"


@pytest.fixture(scope="module")
def flash() -> Plan:
    return planned("flash-attention")


def reason(decided: Plan, name: str) -> str:
    found = explain(decided, name)
    assert not found.built
    return found.unknown or "; ".join(one.reason for one in found.absent)


def test_an_excluded_variant_has_the_reason_and_the_place_of_its_exclusion(flash: Plan) -> None:
    (absent,) = explain(flash, FLASH.format("2_6_0", "FALSE", "13_0")).absent
    assert absent.reason == "left out on main: These releases of torch have no build for CUDA 13. (excluded)"
    assert absent.place == flash.spec.place("matrix", "exclude", 0)


def test_a_name_with_a_value_that_no_axis_has_names_the_nearest_ones(flash: Plan) -> None:
    said = reason(flash, FLASH.format("2_5_0", "FALSE", "12_9"))
    assert "'torch2_5_0' is no value of an axis; did you mean" in said
    assert "PACKAGE-{python}-{torch}-{cxx11abi}-{accelerator}" in said
    assert "sm90" not in said


def test_values_that_no_row_has_together_are_compared_with_the_nearest_variant() -> None:
    kernels = planned("hf-kernels")
    said = reason(kernels, "kernel-torch212-cxx11-xpu20260-x86_64-linux")
    assert said.startswith("the matrix does not have these values together; the nearest, kernel-torch212-cxx11-")
    assert reason(planned("llama-cpp"), "llama-bin-rocm7_2-x86_64-windows").endswith("has platform x86_64-linux")


def test_a_name_of_no_package_is_unknown(flash: Plan) -> None:
    assert reason(flash, "nonsense").startswith("'nonsense' is not a variant's name (PACKAGE-{python}")


def test_a_condition_of_the_package_is_the_reason() -> None:
    spec = small()
    spec["branches"]["main"]["versions"] = {"pytorch": "2.8.0", "extra": "1.0"}
    spec["packages"] = {
        "pytorch": {"recipes": "own"},
        "extra": {"recipes": "own", "when": {"accelerator": "cuda 13.0"}},
    }
    spec["matrix"] = {"values": {"python": "3.13", "accelerator": ["cpu", "cuda 13.0"], "platform": "x86_64-linux"}}
    decided = plan(spec_of(spec))
    assert explain(decided, "extra-python313-cuda13_0-x86_64-linux").built
    said = explain(decided, "extra-python313-cpu-x86_64-linux")
    assert [one.reason for one in said.absent] == ["extra is built only when accelerator cuda 13.0"]
    assert document(decided)["left-out"] == []


def test_rows_that_are_left_out_have_the_values_of_all_axes(flash: Plan) -> None:
    rows: list[dict[str, Any]] = document(flash)["left-out"]
    assert len(rows) == len(flash.judged.left_out) == 104
    assert len({tuple(row["axes"].items()) for row in rows}) == 104
    assert {row["axes"]["torch"] for row in rows} == {"2.6.0", "2.7.1", "2.8.0", "2.9.1", "2.10.0"}
    assert Counter(row["reason"] for row in rows) == Counter(one.reason for one in flash.judged.left_out)


def test_rows_of_the_short_form_have_the_values_that_decide() -> None:
    spec = small()
    spec["matrix"]["exclude"] = [{"variants": "torchvision-*-cpu-*", "because": "nobody wants them"}]
    rows = document(plan(spec_of(spec)))["left-out"]
    assert rows
    assert {row["axes"]["family"] for row in rows} == {"cpu"}
    assert all(row["axes"]["isa"] == row["isa"] for row in rows)


def test_what_a_variant_is_built_with_is_the_variant_that_serves_it() -> None:
    spec = small(packages={"lib": {"ignores": ["python"], "recipes": "own"}, "wheel": {"needs": ["lib"]}})
    spec["branches"]["main"]["versions"] = {"lib": "1", "wheel": "2"}
    spec["matrix"] = {"values": {"python": ["3.12", "3.13"], "accelerator": "cpu", "isa": "avx2"}}
    shards = document(plan(spec_of(spec)))["shards"]
    needs = {one["name"]: one["needs"] for shard in shards for cell in shard["cells"] for one in cell["variants"]}
    assert needs == {
        "lib-cpu-avx2": [],
        "wheel-python312-cpu-avx2": ["lib-cpu-avx2"],
        "wheel-python313-cpu-avx2": ["lib-cpu-avx2"],
    }
