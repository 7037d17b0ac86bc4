"""Findings about wrong specs with their entries, and what is left out and recorded. See also `examples/wrong`."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ci_compiler.errors import Finding
from ci_compiler.hardware import tables
from ci_compiler.hardware.pairs import HARDWARE_CODES, hardware_problems
from ci_compiler.plan.rules import errors_among, judge
from tests.specs import MAIN, SOURCE, Said, assert_said, branches, builder, errors_in, excluding, matrix, small, spec_of


def findings(document: dict[str, Any]) -> Sequence[Finding]:
    return judge(spec_of(document)).findings


OWN = {"recipes": "own"}

WRONG: dict[str, tuple[dict[str, Any], list[Said]]] = {
    "a branch of nothing": (
        {"branches": {"main": MAIN, "none": MAIN | {"cuda": "12.9"}}, **matrix(gpus={"cpu": {"branches": ["main"]}})},
        [("unused-branch", "no variant is built on none; select it in `matrix`", '"none": {')],
    ),
    "a GPU of nothing": (
        excluding({"variants": "*-sm90-*"}),
        [("unused-gpu", "no variant is built for sm90: nobody wants it", '"sm90": {}')],
    ),
    "an exclusion for cells that there are not": (
        excluding({"when": {"python": "3.12"}}),
        [("unused-exclusion", "the exclusion when python 3.12 matches no variant", '{"python": "3.12"}')],
    ),
    "an edge that several variants serve": (
        {"packages": {"pytorch": OWN, "torchvision": OWN | {"needs": [{"package": "pytorch", "isa": "all"}]}}},
        [
            (
                "needs-missing-variant",
                (
                    "torchvision-python313-cpu-avx2 needs one variant of pytorch (isa all), and several serve it "
                    "alike: pytorch-python313-cpu-avx2, pytorch-python313-cpu-avx512; fix another axis, or use "
                    "`gathers`"
                ),
                '{"package": "pytorch", "isa": "all"}',
            )
        ],
    ),
    "an edge that no variant serves": (
        {"packages": {"pytorch": OWN, "torchvision": OWN | {"gathers": [{"package": "pytorch", "python": "3.12"}]}}},
        [
            (
                "needs-missing-variant",
                (
                    "torchvision-python313-cpu-avx2 gathers pytorch (python 3.12), which main does not build; did you "
                    "mean 3.13?"
                ),
                '{"package": "pytorch", "python": "3.12"}',
            )
        ],
    ),
    "an edge for cells that there are not": (
        {
            "packages": {
                "pytorch": OWN,
                "torchvision": OWN | {"needs": [{"package": "pytorch", "isa": "avx2", "when": {"python": "3.9"}}]},
            }
        },
        [("unused-condition", "python 3.9 holds for no variant", '{"python": "3.9"}')],
    ),
    "edges that close a circle of variants": (
        {
            "packages": {
                "pytorch": OWN | {"needs": [{"package": "torchvision", "isa": "avx512", "when": {"isa": "avx512"}}]},
                "torchvision": OWN | {"needs": ["pytorch"]},
            }
        },
        [
            (
                "needs-circle",
                (
                    "pytorch-python313-cpu-avx512 needs torchvision-python313-cpu-avx512, and "
                    "torchvision-python313-cpu-avx512 needs pytorch-python313-cpu-avx512: none of them can be built "
                    "first; limit one of these edges with `when`"
                ),
                '"needs": [{"package": "torchvision"',
            )
        ],
    ),
    "a compiled recipe with an edge to another cell": (
        {"packages": {"pytorch": {}, "torchvision": {"needs": [{"package": "pytorch", "isa": "avx2"}]}}},
        [
            (
                "backend-cannot",
                (
                    "a compiled recipe of torchvision takes the variants of its own cell, not pytorch (isa avx2); use "
                    "recipes of your own or `backend: command`"
                ),
                '{"package": "pytorch", "isa": "avx2"}',
            )
        ],
    ),
    "a compiled recipe that gathers": (
        {"packages": {"pytorch": {}, "torchvision": {"gathers": ["pytorch"]}}},
        [
            (
                "backend-cannot",
                "a compiled recipe of torchvision takes the variants of its own cell, not pytorch; ",
                '"pytorch"]}}',
            )
        ],
    ),
    "versions alike on two branches": (
        {"branches": {"main": MAIN, "other": MAIN}, **matrix(gpus={"cpu": {}})},
        [
            (
                "same-name-same-version",
                "pytorch-python313-cpu-avx2 and 1 more would have version 2.8.0 on main and on other; publishing one",
                '"2.8.0", "torchvision": "0.23.0"}}}',
            ),
            ("same-name-same-version", "torchvision-python313-cpu-avx2 and 1 more would have", '"0.23.0"}}}'),
        ],
    ),
    "one version alike on two branches": (
        {
            "branches": {"main": MAIN, "other": MAIN | {"versions": {"pytorch": "2.8.0", "torchvision": "0.24.0"}}},
            **matrix(gpus={"cpu": {"isas": ["avx2"]}}),
        },
        [("same-name-same-version", "pytorch-python313-cpu-avx2 would have version 2.8.0 on main", '"2.8.0", ')],
    ),
    "one version alike, of a package whose name another's begins with": (
        {
            "branches": {
                "main": MAIN | {"versions": {"torch": "1.0", "torchvision": "2.0"}},
                "other": MAIN | {"versions": {"torch": "1.0", "torchvision": "3.0"}},
            },
            "packages": {"torch": {}, "torchvision": {}},
            **matrix(gpus={"cpu": {"isas": ["avx2"]}}),
        },
        [("same-name-same-version", "torch-python313-cpu-avx2 would have version 1.0 on main", '"1.0", "torchv')],
    ),
    "an exclusion of what is excluded already, and one of a branch where nothing is": (
        excluding({"variants": "*-sm90-*-avx2"}, {"variants": "*-cpu-avx2"}, {"variants": "torchvision-*-cpu-avx2"}),
        [
            ("unused-exclusion", "the exclusion '*-sm90-*-avx2' matches no variant", '"*-sm90-*-avx2"'),
            ("unused-exclusion", "'torchvision-*-cpu-avx2' matches no variant", '"torchvision-*-cpu-avx2"'),
        ],
    ),
    "a need that is excluded, said once for all cells": (
        excluding({"variants": "pytorch-*"}),
        [
            (
                "needs-missing-variant",
                "torchvision-python313-cpu-avx2 needs pytorch-python313-cpu-avx2, which main does not build",
                '["pytorch"]',
            )
        ],
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_finding_points_at_the_wrong_entry(case: str) -> None:
    changes, expected = WRONG[case]
    document = small(**changes)
    found = findings(document)
    assert_said(document, found, expected)
    assert errors_among(found) == list(found)


@pytest.mark.parametrize(
    ("values", "recipes", "said"),
    [
        ({"python": "3.13", "platform": "x86_64-windows"}, {}, "the backend flox builds nothing for x86_64-windows"),
        ({"python": "3.13", "platform": "x86_64-windows"}, OWN, "the backend flox builds nothing for x86_64-windows"),
        (
            {"python": "3.13", "accelerator": ["xpu 2025.3", "xpu 2026.0"]},
            {},
            "no recipe is compiled for xpu: its arguments are not known",
        ),
        (
            {"python": "3.13", "accelerator": "rocm 7.1"},
            {},
            "a compiled recipe for rocm is that of a toolkit and of targets",
        ),
        ({"python": "3.13", "accelerator": "rocm 7.1"}, OWN, ""),
        ({"python": "3.13", "accelerator": "rocm 7.1 gfx942"}, {}, ""),
        ({"platform": "x86_64-linux"}, {}, "a compiled recipe of a Python package is that of a Python"),
        ({"platform": "x86_64-linux"}, OWN, ""),
        ({"python": "3.13", "accelerator": ["cpu", "cuda 12.8 sm90"]}, {}, ""),
    ],
)
def test_what_the_backend_cannot_build_is_an_error_said_once(
    values: dict[str, Any], recipes: dict[str, str], said: str
) -> None:
    hardware = {"families": {"xpu": {}}}
    packages = {"pytorch": {"attribute": "torch"} | recipes}
    document = small(packages=packages, matrix={"values": values}, hardware=hardware)
    document["branches"]["main"]["versions"] = {"pytorch": "2.8.0"}
    found = findings(document)
    assert [one.code for one in found] == ["backend-cannot"] * bool(said)
    ending = f": {said}; leave it out, or use recipes of your own or `backend: command`"
    assert all(one.message.endswith(ending) for one in found)
    assert all(json.dumps(document)[one.place.column - 1 :].startswith('"pytorch"') for one in found)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tests": {"cpu-test": "never", "gpu-test": "never"}},
        builder(system="x86_64-linux", gpu="sm90"),
        branches(sources={"pytorch": SOURCE}, pnames={"pytorch": "x"}, **{"work-arounds": ["torch-cccl"]}),
        matrix(gpus={"cpu": {"branches": ["main"], "also": {"main": ["avx"]}}, "sm90": {"isas": ["avx2"]}}),
        {"branches": {"main": MAIN, "other": MAIN | {"cuda": "12.9"}}, **matrix(gpus={"sm90": {}})},
        {"packages": {"pytorch": {}, "torchvision": {"branches": ["main"]}}, **excluding({"variants": "pytorch-*"})},
    ],
)
def test_a_correct_spec_has_no_findings(changes: dict[str, Any]) -> None:
    assert findings(small(**changes)) == ()


def test_a_package_of_another_repository_is_needed_and_not_built() -> None:
    repository = {"name": "o/r", "rev": {"main": "1" * 40}, "hash": {"main": SOURCE["hash"]}}
    packages = {"pytorch": {"attribute": "torch", "repository": repository}, "torchvision": {"needs": ["pytorch"]}}
    judged = judge(spec_of(small(packages=packages)))
    assert judged.findings == ()
    assert {variant.package for cell in judged.cells for variant in cell.variants} == {"torchvision"}


def test_an_exclusion_takes_variants_only_from_its_branches_and_is_recorded() -> None:
    exclude = [
        {"because": "nobody wants it", "variants": "torchvision-*-sm90-avx2", "branches": ["other"]},
        {"because": "too slow", "variants": "*-cuda12_8-sm90-avx512"},
    ]
    both = {"main": MAIN, "other": MAIN | {"cuda": "12.9"}}
    judged = judge(spec_of(small(branches=both, **matrix(gpus={"sm90": {}}, exclude=exclude))))
    held = {(cell.branch, cell.isa): [variant.package for variant in cell.variants] for cell in judged.cells}
    assert held == {
        ("main", "avx2"): ["pytorch", "torchvision"],
        ("other", "avx2"): ["pytorch"],
        ("other", "avx512"): ["pytorch", "torchvision"],
    }
    other, main = judged.cells[1], judged.cells[0]
    assert [(one.branch, one.toolkit, one.target, one.isa, one.package) for one in judged.left_out] == [
        ("other", "12.9", "sm90", "avx2", "torchvision"),
        ("main", "12.8", "sm90", "avx512", "pytorch"),
        ("main", "12.8", "sm90", "avx512", "torchvision"),
    ]
    assert [(one.code, one.reason, one.path) for one in judged.left_out[:2]] == [
        ("excluded", "nobody wants it", ("matrix", "exclude", 0)),
        ("excluded", "too slow", ("matrix", "exclude", 1)),
    ]
    assert judged.left_out[0].values == other.values
    assert dict(judged.left_out[1].values) == {**dict(main.values), "isa": "avx512"}
    assert judged.findings == ()


@pytest.mark.parametrize(
    ("gpu", "cuda", "code", "reason"),
    [
        ("sm61", "12.9", "", ""),
        ("sm61", "13.0", "gpu-dropped-by-cuda", "CUDA 12.9 was the last to know sm61, and the branch has 13.0"),
        ("sm103", "12.9", "", ""),
        ("sm103", "12.8", "gpu-needs-newer-cuda", "sm103 needs CUDA 12.9 or newer, and the branch has 12.8"),
        (
            "sm121",
            "13.0",
            "gpu-host",
            "sm121 (DGX Spark (GB10)) comes with aarch64-linux hosts alone, not x86_64-linux",
        ),
    ],
)
def test_impossible_cells_of_the_product_are_left_out_and_recorded(gpu: str, cuda: str, code: str, reason: str) -> None:
    gpus: dict[str, Any] = {"cpu": {}, "sm90": {}, gpu: {}}
    spec = spec_of(small(**branches(cuda=cuda), **matrix(gpus=gpus)))
    judged = judge(spec)
    records = {
        (out.code, out.reason, out.python, out.package, spec.place(*out.path, key=True))
        for out in judged.left_out
        if out.target == gpu
    }
    assert records == ({(code, reason, "", "", spec.place("matrix", "gpus", gpu, key=True))} if code else set())
    assert [out.isa for out in judged.left_out] == (["avx2", "avx512"] if code else [])
    assert [finding.code for finding in judged.findings] == (["unused-gpu"] if code else [])


@pytest.mark.parametrize(
    ("gpu", "entry", "codes", "there"),
    [
        ("sm61", {"branches": ["main"]}, ["gpu-dropped-by-cuda"] * 2, '{"branches": ["main"]}'),
        ("sm61", {"isas": ["avx2"]}, ["unused-gpu"], '"sm61": {'),
        ("sm61", {"also": {"main": ["avx"]}}, ["gpu-dropped-by-cuda"], '"avx"]'),
        ("sm121", {"isas": ["avx2"]}, ["gpu-host"], '"avx2"]}'),
        ("sm121", {"branches": ["main"]}, ["unused-gpu"], '"sm121": {'),
        ("sm121", {"also": {"main": ["armv9", "avx"]}}, ["gpu-host"], '"avx"]'),
    ],
)
def test_impossible_cells_that_the_spec_names_are_errors(
    gpu: str, entry: dict[str, Any], codes: list[str], there: str
) -> None:
    document = small(**branches(cuda="13.0"), **matrix(gpus={"cpu": {}, gpu: entry}))
    found = errors_in(document) or findings(document)
    assert [finding.code for finding in found] == codes
    assert json.dumps(document)[found[0].place.column - 1 :].startswith(there)


@pytest.mark.parametrize(
    ("entry", "isas"),
    [
        ({}, ["avx2", "avx512"]),
        ({"also": {"main": ["avx512", "avx"]}}, ["avx2", "avx512", "avx"]),
        ({"isas": ["avx"]}, ["avx"]),
        ({"isas": ["avx"], "also": {"main": ["avx", "avx2"]}}, ["avx", "avx2"]),
        ({"isas": ["avx"], "also": {"other": ["avx2"]}}, ["avx"]),
    ],
)
def test_also_adds_missing_isas_to_its_branch(entry: dict[str, Any], isas: list[str]) -> None:
    both = {"main": MAIN, "other": MAIN | {"cuda": "12.9"}}
    judged = judge(spec_of(small(branches=both, **matrix(gpus={"sm90": entry}))))
    assert [cell.isa for cell in judged.cells if cell.branch == "main"] == isas


def test_a_name_that_flox_cannot_address_is_an_error_in_any_spec() -> None:
    spec = spec_of(small(**matrix(gpus={"cpu": {"isas": ["avx2"]}})))
    package = replace(spec.packages["pytorch"], name="py.torch")
    branch = replace(spec.branches["main"], versions={"py.torch": "1.0"})
    (finding,) = judge(replace(spec, packages={"py.torch": package}, branches={"main": branch})).findings
    assert finding.code == "name-attribute-path"
    assert finding.place == spec.place("matrix")
    assert finding.message.startswith(
        "'py.torch-python313-cpu-avx2' cannot be the name of a variant, which has letters"
    )


def test_values_that_no_name_can_have_are_one_error_for_all_names() -> None:
    values = {"python": "3.13", "isa": ["avx2", "avx512"], "accelerator": "cpu", "torch": ["2.8+x", "2.9", "3 0"]}
    spec = spec_of(small(axes={"torch": ["2.8+x", "2.9", "3 0"]}, matrix={"values": values}))
    (finding,) = (one for one in judge(spec).findings if one.code == "name-attribute-path")
    name = "pytorch-python313-torch2_8+x-cpu-avx2"
    assert finding.message == (
        f"{name!r} cannot be the name of a variant, which has letters, digits, _ and - only; write another value, or "
        "give the axis a `tag`, for '2.8+x' of torch and '3 0' of torch"
    )


def test_every_reason_of_the_hardware_has_a_listed_code_of_its_own() -> None:
    known = tables()
    problems = {
        code
        for gpu in known.gpus.values()
        for toolkit in known.toolkits.values()
        for system in known.systems
        for code, _ in hardware_problems(gpu, toolkit, system)
    }
    assert sorted(problems) == sorted(HARDWARE_CODES)


def test_the_versions_of_many_branches_are_compared_in_linear_time() -> None:
    spec = spec_of(small(**matrix(gpus={"cpu": {"isas": ["avx2"]}})))
    main, times = spec.branches["main"], []
    for count in (500, 4000):
        many = [
            replace(main, name=f"b{number}", versions={"pytorch": f"2.{number}.0", "torchvision": f"0.{number}.0"})
            for number in range(count)
        ]
        judged, took = replace(spec, branches={branch.name: branch for branch in many}), []
        for _ in range(3):
            start = time.process_time()
            assert len(judge(judged).cells) == count
            took.append(time.process_time() - start)
        times.append(min(took))
    assert times[1] < 24 * times[0]


def test_a_version_alike_on_three_branches_is_one_finding_for_each_later_branch() -> None:
    found = findings(small(branches={"a": MAIN, "b": MAIN, "c": MAIN}, **matrix(gpus={"cpu": {}})))
    said = [one.message.partition(";")[0] for one in found if "pytorch-python" in one.message]
    shared = "pytorch-python313-cpu-avx2 and 1 more would have version 2.8.0 on"
    assert said == [f"{shared} a and on b", f"{shared} a and on c"]


CACHE = {"url": "s3://my-cache", "public-key": f"my-cache-1:{'A' * 43}="}


def missing(cache: dict[str, Any], **changes: Any) -> list[str]:
    """The ends of the findings: the products that the spec should name."""
    found = judge(spec_of(small(cache=CACHE | cache, **changes))).findings
    assert {finding.code for finding in found} <= {"redistribution-unclaimed"}
    return [finding.message.rsplit("redistributes: ", 1)[1].rstrip("`") for finding in found]


@pytest.mark.parametrize(
    ("cache", "products"),
    [
        ({"public": True}, ["[cuda, cudnn]"]),
        ({"public": True, "redistributes": ["cuda"]}, ["[cudnn]"]),
        ({"public": True, "redistributes": ["cuda", "cudnn"]}, []),
        ({"public": True, "push": "own"}, []),
        ({}, []),
    ],
)
def test_whole_closures_in_a_public_cache_need_the_owners_word(cache: dict[str, Any], products: list[str]) -> None:
    assert missing(cache) == products


def test_an_exclusion_takes_the_cells_of_its_condition_alone() -> None:
    judged = judge(spec_of(small(**excluding({"when": {"isa": "avx512", "accelerator": "cuda"}}))))
    assert judged.findings == ()
    assert [(cell.target, cell.isa) for cell in judged.cells] == [("cpu", "avx2"), ("cpu", "avx512"), ("sm90", "avx2")]
    assert {(out.target, out.isa, out.code) for out in judged.left_out} == {("sm90", "avx512", "excluded")}


def test_a_cell_carries_what_one_of_its_variants_carries() -> None:
    branch = MAIN | {"versions": {"pytorch": "2.8.0", "other": "1.0"}}
    changes = {"packages": {"other": {}, "pytorch": {"attribute": "torch"}}, "branches": {"main": branch}}
    assert missing({"public": True}, **changes) == ["[cuda, cudnn]"]


def test_only_what_is_built_counts() -> None:
    matrix = {"python": ["3.13"], "isas": {"x86_64-linux": ["avx2"]}}
    assert missing({"public": True}, matrix=matrix | {"gpus": {"cpu": {}}}) == []
    assert missing({"public": True}, matrix=matrix | {"gpus": {"sm61": {}}}) == ["[cuda]"]
