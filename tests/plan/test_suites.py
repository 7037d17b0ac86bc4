"""Test suites in the plan: their pools, their jobs, and what they prove."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from ci_compiler.errors import InputError
from ci_compiler.plan.job_graph import jobs_of
from ci_compiler.plan.lookup import explain
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.plan.proof import is_imported_only, required_tests
from ci_compiler.plan.suites import (
    Bench,
    bench_of,
    benches,
    benches_of,
    has_rows,
    joined_legs,
    joined_packages,
    legs,
    longest_minutes,
    suite_jobs,
    suites_of,
)
from ci_compiler.runner.limits import longest
from ci_compiler.stages import CPU_TEST, GPU_TEST, PUBLISH
from ci_compiler.sync.compiled import compile_files
from tests.specs import SMALL, small, spec_of

NAME = "pytorch-python313-cuda12_8-sm90-avx2"
UNIT = {"command": "ci/unit.sh", "minutes": 15}
OPS = {"command": "ci/ops.sh", "minutes": 90, "shards": 3, "on": "gpu"}
WIDE = {"command": "ci/wide.sh", "minutes": 45, "on": "gpu", "gpus": 4}
H100 = SMALL["runners"]["h100"]
X2, X4, X8 = ({"runs-on": ["self-hosted", "linux", "x64", name], "gpu": "sm90", "cpu": ["avx512"]} for name in "abc")
X2, X4, X8 = X2 | {"gpus": 2}, X4 | {"gpus": 4}, X8 | {"gpus": 8}


def planned(suites: dict[str, Any], pools: dict[str, Any] | None = None, **changes: Any) -> Plan:
    """The plan of the small spec with suites of pytorch, and with further pools."""
    packages = {"pytorch": {"attribute": "torch", "suites": suites}, "torchvision": {"needs": ["pytorch"]}}
    return plan(spec_of(small(packages=packages, runners=SMALL["runners"] | (pools or {}), **changes)))


def where(decided: Plan) -> dict[str, str]:
    """Where the suites of the variant `NAME` run."""
    (built,) = explain(decided, NAME).built
    return {key.removeprefix("suite "): text for key, text in built.stages() if key.startswith("suite ")}


def test_a_suite_runs_on_the_least_scarce_pool_with_enough_gpus() -> None:
    decided = planned({"unit": UNIT, "ops": OPS, "wide": WIDE}, {"x8": X8, "x2": X2, "x4": X4})
    assert where(decided) == {"unit": "builder, 1 shard", "ops": "h100, 3 shards", "wide": "x4, 1 shard"}
    assert not [one for one in decided.warnings if one.code == "unused-pool" and "x4" in one.message]


def test_a_suite_for_which_no_pool_has_enough_gpus_is_skipped_with_the_reason() -> None:
    reason = "no pool for gpu-test on x86_64-linux has 4 GPUs that run sm90 beside a CPU that runs avx2"
    assert where(planned({"wide": WIDE}, {"x2": X2})) == {"wide": f"not run: {reason}"}


def test_a_required_test_makes_that_an_error() -> None:
    with pytest.raises(InputError, match="no pool for gpu-test on x86_64-linux has 4 GPUs"):
        planned({"wide": WIDE}, tests={"gpu-test": "required"})


def test_a_cpu_variant_has_no_suites_on_gpus() -> None:
    decided = planned({"unit": UNIT, "ops": OPS})
    cpu = [route for cell, route in zip(decided.judged.cells, decided.routes, strict=True) if cell.target == "cpu"]
    assert {tuple(route.suites) for route in cpu} == {(Bench(CPU_TEST, 1),)}


def test_shards_count_the_jobs_of_suites() -> None:
    plain, suites = planned({}), planned({"unit": UNIT, "ops": OPS, "wide": WIDE})
    # Two cells a shard, each with 1 + 3 + 1 jobs of pytorch.
    assert [shard.jobs for shard in suites.shards] == [shard.jobs + 2 * 5 for shard in plain.shards]


def test_the_forecast_has_a_job_for_each_shard_and_publishing_waits_for_all() -> None:
    decided = planned({"ops": OPS, "wide": WIDE})
    jobs = [job for job in jobs_of(decided.spec, decided.shards) if job.variant.name == NAME]
    shards = [job for job in jobs if job.suite]
    assert [(job.suite, job.seconds, job.pool) for job in shards] == [("ops", 90 * 60, "h100")] * 3
    every = jobs_of(decided.spec, decided.shards)
    (publish,) = (job for job in jobs if job.stage is PUBLISH)
    assert {every[index].suite for index in publish.needs} == {"", "ops"}
    assert all(every[index].stage is GPU_TEST for job in shards for index in job.needs)


def test_a_job_of_a_pool_may_take_as_long_as_its_longest_suite() -> None:
    decided = planned({"ops": OPS, "wide": WIDE | {"minutes": 300}}, {"x4": X4})
    pools = {pool.name: pool for pool in decided.spec.pools}
    assert longest(decided.spec, pools["h100"]) == (60 + 90) * 60
    assert longest(decided.spec, pools["x4"]) == (60 + 300) * 60


@pytest.mark.parametrize(("suite", "only"), [(OPS, False), (WIDE, True), (UNIT, True)])
def test_a_suite_that_runs_wherever_its_stage_does_proves_the_package(suite: dict[str, Any], *, only: bool) -> None:
    document = small(packages={"pytorch": {}, "torchvision": {}, "apex": {"suites": {"one": suite}}})
    document["branches"]["main"]["versions"]["apex"] = "0.1"
    spec = spec_of(document)
    assert is_imported_only(spec, spec.packages["apex"], GPU_TEST) is only
    assert is_imported_only(spec, spec.packages["apex"], PUBLISH) is (suite is WIDE)


V100, SM70 = H100 | {"runs-on": ["self-hosted", "linux", "x64", "v100"], "gpu": "sm70"}, "cuda sm70"
ROWS = {
    "rows": [{"accelerator": SM70, "driver": "oldest"}, {"accelerator": "cuda sm90", "driver": ["oldest", "latest"]}]
}


def test_a_suite_has_rows_of_its_own_each_on_its_machines() -> None:
    rows = {"command": "ci/rows.sh", "minutes": 5, "on": "gpu", "shards": 2, "matrix": ROWS}
    decided = planned({"rows": rows}, {"v100": V100})
    suites = decided.spec.packages["pytorch"].suites
    assert {name: one.target for name, one in suites.items()} == {
        "rows-cuda-sm70-oldest": "sm70",
        "rows-cuda-sm90-oldest": "sm90",
        "rows-cuda-sm90-latest": "sm90",
    }
    assert where(decided) == {
        "rows-cuda-sm70-oldest": "not run: no pool has 1 GPU of sm70 that runs sm90",
        "rows-cuda-sm90-oldest": "h100, 2 shards",
        "rows-cuda-sm90-latest": "h100, 2 shards",
    }
    assert dict(suites["rows-cuda-sm90-latest"].values) == {"accelerator": "cuda sm90", "driver": "latest"}
    jobs = [job for job in jobs_of(decided.spec, decided.shards) if job.variant.name == NAME and job.suite]
    assert len(jobs) == 2 * 2


@pytest.mark.parametrize("toolkit", ["", "12.8 "])
def test_a_variant_for_all_targets_is_tested_on_each(toolkit: str) -> None:
    matrix = SMALL["matrix"] | {"gpus": {"all": {}}}
    rows = {
        "command": "ci/rows.sh",
        "minutes": 5,
        "on": "gpu",
        "matrix": {"values": {"accelerator": [f"cuda {toolkit}sm70", f"cuda {toolkit}sm90"]}},
    }
    decided = planned({"rows": rows}, {"v100": V100}, matrix=matrix)
    pools = {bench.target: pool.name for route in decided.routes for bench, pool in route.suites.items()}
    assert pools == {"sm70": "v100", "sm90": "h100"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"branch": ["main"]}, "a suite runs for the variants of each branch"),
        (
            {"python": ["3.12"]},
            "no variant of pytorch serves; the nearest is pytorch-.*python 3.13 does not serve 3.12",
        ),
        ({"accelerator": SM70}, "runs on the CPU; for the GPU sm70, write `on: gpu`"),
    ],
)
def test_a_row_that_a_suite_cannot_have_is_an_error(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        planned({"rows": UNIT | {"matrix": {"values": values}}})


# Rows on axes of variants, in an open matrix.

ABI3 = {"python": {"serves": {"abi3": ["3.11", "3.12", "3.14"]}}}


def opened(rows: list[dict[str, Any]], axes: dict[str, Any] = ABI3, **values: Any) -> Plan:
    """The plan of one package for two platforms, with a suite with `rows`."""
    suite = {"command": "ci/test.sh", "minutes": 5, "matrix": {"rows": rows}}
    command = {"build": "ci/build.sh", "files": ["dist/*"], "install": "true", "publish": "true"}
    runners = {
        name: {"runs-on": ["self-hosted", "linux", arch], "stages": ["build", "cpu-test", "publish"]}
        for name, arch in (("amd", "x64"), ("arm", "arm64"))
    }
    values = {"python": ["abi3"], "platform": ["x86_64-linux", "aarch64-linux"], **values}
    return plan(
        spec_of(
            {
                "version": 1,
                "owner": "an-owner",
                "backend": "command",
                "branches": {"main": {"versions": {"ext": "1.0"}}},
                "axes": axes,
                "matrix": {"values": values},
                "packages": {"ext": {"command": command, "suites": {"unit": suite}}},
                "runners": runners,
                "publish": {"on-shared-machines": True},
            }
        )
    )


def legs_of(decided: Plan) -> dict[str, list[str]]:
    """The suites that the compiled files run, by variant."""
    files = compile_files(decided).items()
    jobs = [job for path, text in files if "/build-" in path for job in yaml.safe_load(text)["jobs"].values()]
    called = [job["with"] for job in jobs if job["uses"].endswith("/variant.yml")]
    return {given["name"]: [leg["suite"] for leg in json.loads(given["cpu-test-suites"])] for given in called}


def test_a_row_runs_for_the_variants_that_have_or_serve_its_values() -> None:
    decided = opened([{"python": ["3.11", "3.14"]}, {"python": "3.12", "platform": "aarch64-linux"}])
    every = ["unit-3-11", "unit-3-14"]
    assert legs_of(decided) == {
        "ext-abi3-x86_64-linux": every,
        "ext-abi3-aarch64-linux": [*every, "unit-3-12-aarch64-linux"],
    }
    jobs = [(job.cell.axes["platform"], job.suite) for job in jobs_of(decided.spec, decided.shards) if job.suite]
    assert ("x86_64-linux", "unit-3-12-aarch64-linux") not in jobs
    assert len(jobs) == 5
    (built,) = explain(decided, "ext-abi3-x86_64-linux").built
    assert {name for name, _ in built.stages() if name.startswith("suite")} == {"suite unit-3-11", "suite unit-3-14"}
    assert set(required_tests(decided.spec, built.cell, built.variant, built.route)) == {
        "cpu-test",
        "suite unit-3-11",
        "suite unit-3-14",
    }


@pytest.mark.parametrize("order", [["old", "abi3"], ["abi3", "old"]])
def test_of_interchangeable_variants_the_one_that_serves_fewest_values_runs_a_row(order: list[str]) -> None:
    serves = {"old": ["3.11", "3.12", "3.14"], "abi3": ["3.12", "3.14"], "twin": ["3.12", "3.14"]}
    axes = {"python": {"serves": serves}}
    decided = opened([{"python": ["3.11", "3.14"]}], axes, python=[*order, "twin"], platform=["x86_64-linux"])
    assert {name: legs for name, legs in legs_of(decided).items() if legs} == {
        "ext-old-x86_64-linux": ["unit-3-11"],
        "ext-abi3-x86_64-linux": ["unit-3-14"],
    }


def test_a_row_runs_for_each_value_itself_where_it_is_built() -> None:
    decided = opened([{"python": ["3.11", "3.12"]}], python=["3.11", "3.12"], platform=["x86_64-linux"])
    assert legs_of(decided) == {
        "ext-python311-x86_64-linux": ["unit-3-11"],
        "ext-python312-x86_64-linux": ["unit-3-12"],
    }


def test_a_row_that_nothing_serves_is_an_error_with_what_there_is() -> None:
    message = (
        "suites.unit-3-9 has a row for python 3.9, which no variant of ext serves; the nearest is ext-abi3-.*, whose"
    )
    with pytest.raises(InputError, match=message):
        opened([{"python": "3.9"}])


# Test rows of RAPIDS for C++ on x86-64: the GPU, its driver, CUDA on the machine, dependencies, the system.
RAPIDS = """\
v100 earliest 12.2.2 oldest rockylinux8
l4 latest 13.0.2 latest ubuntu24.04
rtxpro6000 latest 13.1.1 latest ubuntu24.04
h100 latest 12.9.1 latest ubuntu22.04
h100 latest 13.1.1 latest ubuntu24.04
"""
TARGETS = {"v100": "sm70", "l4": "sm89", "h100": "sm90", "rtxpro6000": "sm120"}


def test_the_rows_of_a_public_test_matrix_come_out_those_on_other_toolkits_included() -> None:
    wanted = [line.split() for line in RAPIDS.splitlines()]
    axes = ("accelerator", "driver", "cuda-runtime", "dependencies", "system-image")
    rows = [dict(zip(axes, (f"cuda {TARGETS[gpu]}", *rest), strict=True)) for gpu, *rest in wanted]
    pools = {gpu: H100 | {"runs-on": ["self-hosted", "linux", "x64", gpu], "gpu": TARGETS[gpu]} for gpu in TARGETS}
    suite = {"command": "ci/test.sh", "minutes": 5, "on": "gpu", "matrix": {"rows": rows}}
    decided = planned({"cpp": suite}, pools, matrix=SMALL["matrix"] | {"gpus": {"all": {}}})
    route = next(route for route in decided.routes if route.suites)
    made = decided.spec.packages["pytorch"].suites.values()
    found = [(route.suites[bench_of(one)].gpu, *list(one.values.values())[1:]) for one in made]
    assert sorted(found) == sorted((TARGETS[gpu], *rest) for gpu, *rest in wanted)
    assert {"12.2.2", "13.0.2"} < {one.values["cuda-runtime"] for one in made}  # for which nothing is built


# The jobs of suites.


@pytest.mark.parametrize(
    ("bench", "job", "machine", "title", "own"),
    [
        (Bench(CPU_TEST, 1), "cpu-test-suites", "cpu-test", "cpu-test suites", False),
        (Bench(GPU_TEST, 4), "gpu-test-suites-4", "gpu-test-4", "gpu-test suites on 4 GPUs", True),
        (Bench(GPU_TEST, 1, "sm90"), "gpu-test-suites-sm90", "gpu-test-sm90", "gpu-test suites on sm90", True),
        (
            Bench(GPU_TEST, 2, "gfx942:xnack+"),
            "gpu-test-suites-2-gfx942_xnack_",
            "gpu-test-2-gfx942_xnack_",
            "gpu-test suites on 2 GPUs of gfx942:xnack+",
            True,
        ),
    ],
)
def test_the_job_of_a_kind_of_machine_has_its_stage_and_what_is_beyond_it(
    bench: Bench, job: str, machine: str, title: str, *, own: bool
) -> None:
    assert (bench.job, bench.job_of("torch"), bench.machine) == (job, f"torch_{job}", machine)
    assert (bench.title, bench.is_own) == (title, own)


def test_a_job_has_a_leg_for_each_shard_of_the_suites_of_its_machines() -> None:
    decided = planned({"unit": UNIT, "ops": OPS, "wide": WIDE, "long": UNIT | {"minutes": 200}})
    package, (cell, *_) = decided.spec.packages["pytorch"], decided.judged.cells
    cpu, gpu, wide = Bench(CPU_TEST, 1), Bench(GPU_TEST, 1), Bench(GPU_TEST, 4)
    assert (
        benches([package, decided.spec.packages["torchvision"]]) == benches_of(decided.spec, cell) == (cpu, gpu, wide)
    )
    assert legs(package.suites.values(), gpu) == [{"suite": "ops", "shard": f"{one}/3"} for one in (1, 2, 3)]
    assert legs(package.suites.values(), cpu) == [{"suite": "unit", "shard": "1/1"}, {"suite": "long", "shard": "1/1"}]
    assert [longest_minutes(decided.spec, bench) for bench in (cpu, gpu, wide)] == [60 + 200, 60 + 90, 60 + 45]
    assert [suite.name for suite in suites_of(decided.spec, cell, cell.variants[0])] == [*package.suites]
    assert suites_of(decided.spec, cell, cell.variants[1]) == []
    assert not has_rows(decided.spec.packages.values())


def test_a_row_that_is_bound_to_variants_runs_for_these_alone() -> None:
    decided = opened([{"python": "3.12", "platform": "aarch64-linux"}])
    assert has_rows(decided.spec.packages.values())
    runs = {cell.system: len(suites_of(decided.spec, cell, cell.variants[0])) for cell in decided.judged.cells}
    assert runs == {"x86_64-linux": 0, "aarch64-linux": 1}
    assert {cell.system: len(benches_of(decided.spec, cell)) for cell in decided.judged.cells} == runs


def listed(suites: dict[str, Any], others: dict[str, Any]) -> dict[str, int]:
    """The jobs of suites of each listed variant, of a package with `suites` and of one with `others`."""
    packages = {
        name: {"recipes": "own", "variants": {f"{name}-own": {"system": "x86_64-linux"}}, "suites": own}
        for name, own in (("pytorch", suites), ("torchvision", others))
    }
    decided = plan(spec_of(small(packages=packages)))
    count = suite_jobs(decided.spec)
    return {cell.listed.removesuffix("-own"): count(cell) for cell in decided.judged.cells if cell.listed}


def test_a_listed_variant_has_its_legs_and_a_skipped_job_for_each_other_kind_of_machine() -> None:
    assert listed({}, {}) == {"pytorch": 0, "torchvision": 0}
    assert listed({"unit": UNIT}, {}) == {"pytorch": 1, "torchvision": 1}
    assert listed({"unit": UNIT | {"shards": 3}}, {"ops": OPS}) == {"pytorch": 3 + 1, "torchvision": 1 + 3}


def test_the_legs_of_a_joined_build_have_the_names_of_its_variants() -> None:
    command = {"build": "ci/build.sh", "files": ["dist/*"], "install": "true", "publish": "true"}
    packages = {
        "lib": {"command": command, "joins": ["python"], "suites": {"unit": UNIT | {"shards": 2}}},
        "ext": {"command": command, "joins": [{"with": "tool"}]},
        "tool": {"command": command},
        "other": {"command": command},
    }
    given = small(
        backend="command",
        branches={"main": {"versions": dict.fromkeys(packages, "1.0")}},
        packages=packages,
        matrix={"values": {"python": ["3.12", "3.13"], "platform": "x86_64-linux"}},
        runners={"builder": SMALL["runners"]["builder"]},
    )
    decided = plan(spec_of(given))
    assert [package.name for package in joined_packages(decided.spec)] == ["lib", "ext", "tool"]
    cells = [cell for cell in decided.judged.cells if cell.variants[0].package == "lib"]
    assert joined_legs(decided.spec, cells, Bench(CPU_TEST, 1)) == [
        {"name": f"lib-python{python}-x86_64-linux", "suite": "unit", "shard": f"{shard}/2"}
        for python in ("312", "313")
        for shard in (1, 2)
    ]
    assert joined_legs(decided.spec, cells, Bench(GPU_TEST, 1)) == []
