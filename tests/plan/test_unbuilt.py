"""What open matrices leave out, and what `explain` says of names that they do not build."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from ci_compiler.plan.document import document
from ci_compiler.plan.lookup import explain
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.plan.rules import judge
from ci_compiler.plan.unbuilt import SelectedVariants
from tests.plan.test_open_matrix import ARM, X86
from tests.plan.test_open_matrix import document as open_document
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


# What an open matrix selects, and why some of it is not built.

VALUES = {"platform": X86, "python": ["3.12", "3.13"], "accelerator": ["cpu", "cuda 13.0 sm90", "cuda 13.0 sm61"]}
LEFT_OUT: list[dict[str, Any]] = [
    {"when": {"python": "3.12", "accelerator": "cuda sm90"}, "because": "Too old.", "branches": ["main"]},
    {"variants": "ext-python313-cpu-*", "because": "Not wanted."},
]


def selection(
    packages: dict[str, Any] | None = None, exclude: list[dict[str, Any]] | None = None, **more: Any
) -> SelectedVariants:
    matrix = {"values": VALUES} | ({"exclude": exclude} if exclude else {})
    decided = plan(spec_of(open_document(matrix, packages, **more)))
    return SelectedVariants(decided.spec, decided.judged)


def test_every_part_that_is_left_out_has_its_rule_its_reason_and_its_axes() -> None:
    found = selection(exclude=LEFT_OUT).judged.left_out
    dropped = "CUDA 12.9 was the last to know sm61, and the branch has 13.0"
    assert [(one.python, one.target, one.package, one.code, one.reason) for one in found] == [
        ("", "sm61", "", "gpu-dropped-by-cuda", dropped),
        ("3.12", "sm90", "ext", "excluded", "Too old."),
        ("3.13", "cpu", "ext", "excluded", "Not wanted."),
    ]
    assert [one.path[:3] for one in found[1:]] == [("matrix", "exclude", 0), ("matrix", "exclude", 1)]
    cuda = {"family": "cuda", "toolkit": "13.0"}
    assert found[0].axes == {"branch": "main", "platform": X86, **cuda, "target": "sm61"}
    assert found[1].axes == {"branch": "main", "platform": X86, "python": "3.12", **cuda, "target": "sm90"}


def test_what_the_condition_of_a_package_leaves_out_is_selected_but_not_left_out() -> None:
    of_cpu = selection({"ext": {"when": {"accelerator": "cpu"}}, "lib": {"branches": ["main"]}})
    assert of_cpu.packages == {"ext", "lib"}
    assert len(of_cpu.every) == 2 * 6
    assert len(list(of_cpu.absent(f"ext-python312-cuda13_0-sm90-{X86}"))) == 1


def test_a_package_is_selected_on_its_branches_and_not_where_another_repository_builds_it() -> None:
    branches = {name: {"versions": {"ext": name, "lib": name}} for name in ("1", "2")}
    found = selection({"ext": {"branches": ["2"]}, "lib": {}}, branches=branches)
    of_ext = [one.cell for one in found.every if one.cell.variants[0].package == "ext"]
    assert {cell.branch for cell in of_ext} == {"2"}
    assert len(found.every) == 3 * 6


def test_the_short_form_has_the_values_that_decide() -> None:
    matrix = small()["matrix"] | {"gpus": {"cpu": {}, "sm90": {}, "sm61": {}}}
    matrix["exclude"] = [{"variants": "torchvision-*-cpu-avx2", "because": "Not wanted."}]
    spec = spec_of(small(matrix=matrix, branches={"main": small()["branches"]["main"] | {"cuda": "13.0"}}))
    found = judge(spec).left_out
    by_isa = [{"branch": "main", "family": "cuda", "toolkit": "13.0", "target": "sm61", "isa": isa} for isa in ISAS]
    cpu = {"branch": "main", "python": "3.13", "family": "cpu", "isa": "avx2"}
    assert [one.axes for one in found] == [*by_isa, cpu]


ISAS = ("avx2", "avx512")


def test_an_exclusion_of_another_branch_is_not_the_reason() -> None:
    branches = {name: {"versions": {"ext": name}} for name in ("1", "2")}
    excluded = [
        {"when": {"accelerator": "cpu"}, "because": "Here.", "branches": ["1"]},
        {"when": {"python": "3.12", "accelerator": "cpu"}, "because": "There."},
    ]
    found = selection(exclude=excluded, branches=branches)
    reasons = [reason for reason, _ in found.absent(f"ext-python312-cpu-{X86}")]
    assert reasons == ["left out on 1: Here. (excluded)", "left out on 2: There. (excluded)"]


@pytest.mark.parametrize(
    ("name", "unknown"),
    [
        (f"ext-python313-cpu-{X86}", ""),
        (f"ext-cpu-python313-{X86}", ""),
        ("ext-cuda13_0-sm90", ""),
        (f"ext-python311-cpu-{X86}", "'python311' is no value of an axis; did you mean python313 or python312?"),
        (f"ext-python313-cpu-{X86}-more", "'more' is no value of an axis; known are "),
        (f"exta-python313-cpu-{X86}", f"; did you mean ext-python313-cpu-{X86} or "),
        ("zzz", "; `ci-compile variants` lists them"),
    ],
)
def test_a_name_is_unknown_if_a_word_of_it_spells_no_value(name: str, unknown: str) -> None:
    found = selection().unknown(name)
    assert bool(found) is bool(unknown)
    assert unknown in found
    form = "PACKAGE-{python}-{accelerator}-{isa}-{platform}"
    assert not found or found.startswith(f"{name!r} is not a variant's name ({form})")


def test_the_longest_package_that_a_name_begins_with_is_its_own() -> None:
    found = selection({"ext": {}, "ext-python312": {"matrix": {"values": {"platform": X86, "python": "3.13"}}}})
    assert found.unknown(f"ext-python312-python313-{X86}") == ""
    assert "'python312' is no value" in found.unknown(f"ext-python312-python312-{X86}")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (f"ext-python313-{X86}", f"ext-python313-cpu-{X86}, has accelerator cpu"),
        (f"ext-cpu-{X86}", f"ext-python312-cpu-{X86}, has python python312"),
        (f"ext-cpu-python313-{X86}", f"ext-python313-cpu-{X86}, has them in another order"),
        (f"lib-python313-cpu-{ARM}", f"lib-python313-{ARM}, has no accelerator"),
        (f"lib-python312-{ARM}", f"lib-python313-{ARM}, has python python313"),
    ],
)
def test_values_that_are_not_selected_together_are_compared_with_the_nearest(name: str, said: str) -> None:
    rows = [{"platform": ARM, "python": "3.13"}, {"platform": X86, "python": "3.12", "accelerator": "cpu"}]
    found = selection({"ext": {}, "lib": {"matrix": {"rows": rows}}})
    message, place = found.unselected(name)
    assert message == f"the matrix does not have these values together; the nearest, {said}"
    own = ("packages", "lib", "matrix") if name.startswith("lib") else ("matrix",)
    assert place == found.spec.place(*own, key=True)


def test_each_target_that_cannot_be_built_has_the_reason_of_its_own() -> None:
    values = {"platform": X86, "accelerator": ["cpu", "cuda 12.8 sm103", "cuda 13.0 sm61"]}
    decided = plan(spec_of(open_document({"values": values})))
    assert {one.target: one.code for one in decided.judged.left_out} == {
        "sm103": "gpu-needs-newer-cuda",
        "sm61": "gpu-dropped-by-cuda",
    }


def test_a_package_may_be_for_the_cells_of_a_branch_alone() -> None:
    branches = {name: {"versions": {"ext": name, "lib": name}} for name in ("1", "2")}
    exclude = [{"when": {"python": "3.12"}, "because": "Too old."}]
    packages = {"ext": {"when": {"branch": "1", "accelerator": "cpu"}}, "lib": {"when": {"accelerator": "cpu"}}}
    found = selection(packages, exclude, branches=branches).judged.left_out
    excluded = [(one.branch, one.package) for one in found if one.code == "excluded"]
    assert excluded == [("1", "ext"), ("1", "lib"), ("2", "lib")]
