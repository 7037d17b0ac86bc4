"""All about one variant: what selects it, what builds and tests it, and why a name is not built."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ci_compiler.plan.lookup import built_variants, explain
from ci_compiler.plan.pipeline import Plan, plan
from tests.plan.test_open_matrix import COMMAND, X86, document
from tests.specs import MAIN, SMALL, matrix, small, spec_of

CUDA = "pytorch-python313-cuda12_8-sm90-avx2"


def planned(**changes: Any) -> Plan:
    return plan(spec_of(small(**changes)))


def beginning(text: str, column: int, length: int) -> str:
    return text[column - 1 :][:length]


@pytest.mark.parametrize(
    ("gpus", "isa", "there"),
    [
        ({"sm90": {}}, "avx2", '"sm90": {}'),
        ({"sm90": {"isas": ["avx2", "avx"]}}, "avx", '"avx"]'),
        ({"sm90": {"isas": ["avx2"], "also": {"main": ["avx512", "avx"]}}}, "avx", '"avx"]}'),
        ({"sm90": {"also": {"main": ["avx"]}}}, "avx2", '"sm90": {'),
        ({"sm80": {"isas": ["avx"]}, "sm90": {"isas": ["avx2", "avx"]}}, "avx2", '"avx2", "avx"]'),
    ],
)
def test_what_selects_a_variant_is_its_isa_under_the_gpu_else_the_gpu(
    gpus: dict[str, Any], isa: str, there: str
) -> None:
    given = small(**matrix(gpus=gpus))
    (built,) = explain(plan(spec_of(given)), f"pytorch-python313-cuda12_8-sm90-{isa}").built
    assert beginning(json.dumps(given), built.selected_by.column, len(there)) == there


def test_a_listed_variant_is_selected_by_its_entry_and_another_by_its_row() -> None:
    given = small()
    given["packages"]["pytorch"] |= {"variants": {"pytorch-own": {"system": X86}}}
    (built,) = explain(plan(spec_of(given)), "pytorch-own").built
    assert beginning(json.dumps(given), built.selected_by.column, 15) == '"pytorch-own": '
    assert (built.job, built.version) == ("pytorch-own", "2.8.0")
    opened = document({"values": {"platform": X86}}, {"ext": {}, "own": {"matrix": {"values": {"platform": X86}}}})
    text, columns = json.dumps(opened), [one.selected_by.column for one in built_variants(plan(spec_of(opened)))]
    assert columns == [text.rindex('"values"') + 1, text.index('"values"') + 1]


def test_where_a_variant_is_built_and_how_to_start_it() -> None:
    made = planned()
    (built,) = explain(made, CUDA).built
    assert built.variant.name == CUDA
    assert built.version == "2.8.0"
    assert built.recipe == f".flox/pkgs/{CUDA}.nix"
    assert built.job == "python313-avx2 / pytorch"
    assert built.dispatch == f"gh workflow run build-main-sm90.yml --ref main -f variant={CUDA}"
    opened = plan(spec_of(document({"values": {"platform": X86, "python": ["3.12", "3.13"]}})))
    (script,) = explain(opened, f"ext-python312-{X86}").built
    assert (script.recipe, script.job) == (COMMAND["build"], f"python312-{X86}")
    joined = document({"values": {"platform": X86, "python": ["3.12", "3.13"]}}, {"ext": {"joins": ["python"]}})
    (one,) = explain(plan(spec_of(joined)), f"ext-python312-{X86}").built
    assert one.job == f"ext-{X86}"


SUITES = {
    "ops": {"command": "x", "minutes": 5, "on": "gpu", "shards": 2},
    "wide": {"command": "x", "minutes": 5, "on": "gpu", "gpus": 4},
}


def test_each_stage_and_each_suite_has_its_pool_or_the_reason_why_it_has_none() -> None:
    h100 = {"runs-on": ["self-hosted", "linux", "x64", "h"], "gpu": "sm90", "cpu": ["avx512"]}
    runners = {"builder": SMALL["runners"]["builder"], "h100": h100 | {"stages": ["gpu-test", "benchmark"]}}
    packages = {"pytorch": {"attribute": "torch", "suites": SUITES}, "torchvision": {}}
    made = planned(packages=packages, runners=runners, tests={"cpu-test": "never", "benchmark": "where-routed"})
    (built,) = explain(made, "pytorch-python313-cuda12_8-sm90-avx512").built
    wide = "no pool for gpu-test on x86_64-linux has 4 GPUs that run sm90 beside a CPU that runs avx512"
    assert dict(built.stages()) == {
        "build": f"builder ({made.spec.pools[0].runs_on})",
        "cpu-test": "not run: the spec switches cpu-test off",
        "gpu-test": f"h100 ({made.spec.pools[1].runs_on})",
        "benchmark": f"h100 ({made.spec.pools[1].runs_on}), beside {CUDA}",
        "publish": f"builder ({made.spec.pools[0].runs_on})",
        "suite ops": "h100, 2 shards",
        "suite wide": f"not run: {wide}",
    }
    (other,) = explain(made, "torchvision-python313-cuda12_8-sm90-avx2").built
    assert [name for name, _ in other.stages() if name.startswith("suite")] == []


def test_the_built_variants_come_by_shard_cell_and_package() -> None:
    made = planned(branches={"main": MAIN, "next": MAIN | {"publish": False}}, **matrix(gpus={"cpu": {}}))
    every = [(one.shard.branch, one.cell.isa, one.variant.package) for one in built_variants(made)]
    assert every == [
        (branch, isa, package)
        for branch in ("main", "next")
        for isa in dict.fromkeys(isa for _, isa, _ in every)
        for package in ("pytorch", "torchvision")
    ]
    assert [one.shard.branch for one in explain(made, "pytorch-python313-cpu-avx2").built] == ["main", "next"]


MATRIX = matrix(
    gpus={
        "cpu": {"isas": ["avx2"]},
        "sm80": {"branches": ["next"]},
        "sm90": {"cuda": ["12.8"]},
        "sm103": {"isas": ["avx2"]},
    },
    exclude=[{"variants": "torchvision-*-cpu-*", "because": "nobody wants it"}],
)
BRANCHES = {"main": MAIN | {"cuda": ["12.8", "12.9"]}, "next": MAIN | {"cuda": "13.0", "python": ["3.12"]}}
BRANCHES["next"] |= {"versions": {"pytorch": "2.9.0", "torchvision": "0.24.0"}, "nixpkgs": "0" * 40}


@pytest.fixture(scope="module")
def both() -> Plan:
    return planned(branches=BRANCHES, **MATRIX)


@pytest.mark.parametrize(
    ("name", "reasons"),
    [
        (
            "torchvision-python313-cpu-avx2",
            [
                ("left out on main: nobody wants it (excluded)", ("matrix", "exclude", 0)),
                ("Python 3.13 is not in the matrix", ("branches", "next", "python")),
            ],
        ),
        (
            "pytorch-python313-cuda12_8-sm103-avx2",
            [
                (
                    "left out on main: sm103 needs CUDA 12.9 or newer, and the branch has 12.8 (gpu-needs-newer-cuda)",
                    ("matrix", "gpus", "sm103", "isas", 0),
                )
            ],
        ),
        ("pytorch-python313-cuda12_8-sm80-avx2", [("sm80 is not selected on main", ("matrix", "gpus", "sm80"))]),
        ("pytorch-python313-cuda12_8-sm89-avx2", [("sm89 is not in the matrix", ("matrix", "gpus"))]),
        ("pytorch-python313-cuda12_9-sm90-avx2", [("sm90 is not selected for CUDA 12.9", ("matrix", "gpus", "sm90"))]),
        ("pytorch-python312-cuda13_0-sm90-avx2", [("sm90 is not selected on next", ("matrix", "gpus", "sm90"))]),
        (
            "pytorch-python312-cuda13_0-sm103-avx512",
            [("avx512 is not selected for sm103 on next", ("matrix", "gpus", "sm103"))],
        ),
        (
            "pytorch-python311-cpu-avx2",
            [
                ("Python 3.11 is not in the matrix", ("matrix", "python")),
                ("Python 3.11 is not in the matrix", ("branches", "next", "python")),
            ],
        ),
        (
            "pytorch-python313-cpu-avx",
            [
                ("avx is not selected for cpu on main", ("matrix", "gpus", "cpu")),
                ("Python 3.13 is not in the matrix", ("branches", "next", "python")),
            ],
        ),
    ],
)
def test_the_reason_why_a_variant_is_not_built_is_that_of_each_branch(
    both: Plan, name: str, reasons: list[tuple[str, tuple[str | int, ...]]]
) -> None:
    found = explain(both, name)
    assert (found.name, found.built, found.unknown) == (name, (), "")
    assert [one.reason for one in found.absent] == [reason for reason, _ in reasons]
    for one, (_, path) in zip(found.absent, reasons, strict=True):
        assert one.place == both.spec.place(*path, key=path[-2:-1] == ("gpus",))


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("pytorch-cpu", "'pytorch-cpu' is not a variant's name (PACKAGE-python313-cuda12_8-"),
        ("pytorch-python313-cpu-avx22_", "unknown ISA 'avx22_'; did you mean avx2 or "),
        ("pytorch_python313-cpu-avx2", "; did you mean pytorch-python313-cpu-avx2?"),
        ("zzz", "; `ci-compile variants` lists them"),
        ("pytorch", "'pytorch' is a package, and no variant; `ci-compile variants` lists the names of variants"),
        ("main", "'main' is a branch, and no variant; "),
        ("builder", "'builder' is a pool, and no variant; "),
        ("pytorch-python313-cpu-armv8.2", "is not a Flox attribute path; write pytorch-python313-cpu-armv8_2"),
        ("pytorchh-python313-cpu-avx2", "unknown package 'pytorchh'; did you mean pytorch?"),
        ("pytorch-python313-cuda12_8-sm9-avx2", "unknown GPU 'sm9'; did you mean sm90?"),
        ("pytorch-python313-cuda12_6-sm90-avx2", "no branch builds with CUDA 12.6; did you mean 12."),
    ],
)
def test_a_name_that_no_variant_can_have_says_what_is_wrong_with_it(both: Plan, name: str, problem: str) -> None:
    found = explain(both, name)
    assert (found.name, found.built, found.absent) == (name, (), ())
    assert problem in found.unknown


def test_a_package_without_a_matrix_has_no_such_variant() -> None:
    packages = {"pytorch": {"recipes": "own", "variants": {"pytorch-own": {"system": X86}}}}
    given = small(packages=packages)
    del given["matrix"]
    given["branches"]["main"]["versions"] = {"pytorch": "2.8.0"}
    made = plan(spec_of(given))
    (absent,) = explain(made, "pytorch-python313-cpu-avx2").absent
    assert absent == ("pytorch has no matrix", made.spec.place("packages", "pytorch"))


def test_a_name_of_an_open_matrix_is_explained_by_its_selection() -> None:
    values = {"platform": X86, "python": ["3.12", "3.13"], "accelerator": ["cpu", "cuda 13.0"]}
    excluded = [{"when": {"python": "3.12", "accelerator": "cuda"}, "because": "nobody wants it"}]
    made = plan(spec_of(document({"values": values, "exclude": excluded})))
    out = explain(made, f"ext-python312-cuda13_0-{X86}")
    assert [one.reason for one in out.absent] == ["left out on main: nobody wants it (excluded)"]
    assert not out.unknown
    assert "'python311' is no value of an axis" in explain(made, f"ext-python311-cpu-{X86}").unknown
    (other,) = explain(made, "ext-python312-cpu").absent
    assert other.reason.startswith("the matrix does not have these values together; the nearest, ext-python312-cpu-")
