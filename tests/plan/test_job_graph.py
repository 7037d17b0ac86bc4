"""The jobs of a run with what they wait for and how long they take, and the order in which they are written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from ci_compiler.plan.job_graph import (
    PlannedJob,
    better_order,
    built_after,
    guessed_of,
    jobs_of,
    needs_of,
    usual_seconds,
    with_cells_ordered,
    with_needs,
)
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.spec.build import parse_spec
from ci_compiler.spec.model import Pool
from tests.plan.test_open_matrix import X86, decided
from tests.specs import matrix, small, spec_of

VISION = "torchvision-python313-cuda12_8-sm90-avx2"
TORCH = "pytorch-python313-cuda12_8-sm90-avx2"
ONE_CELL = matrix(gpus={"sm90": {"isas": ["avx2"]}})
PACKAGES: dict[str, Any] = {
    "pytorch": {"attribute": "torch", "minutes": {"gpu": 100, "cpu": 50}},
    "torchvision": {"needs": ["pytorch"], "minutes": {"gpu": 20, "cpu": 10}},
}


def planned(**changes: Any) -> Plan:
    return plan(spec_of(small(**{"packages": PACKAGES, **ONE_CELL, **changes})))


def shown(jobs: Iterable[PlannedJob]) -> list[str]:
    """Each job as `PACKAGE STAGE SUITE POOL MINUTES: NEEDS`."""
    return [
        f"{' '.join(filter(None, (job.variant.package, job.stage.name, job.suite, job.pool)))} {job.seconds // 60}: "
        + " ".join(map(str, job.needs))
        for job in jobs
    ]


def test_builds_wait_for_builds_tests_for_theirs_and_publishing_for_all_of_the_shard() -> None:
    made = planned()
    jobs = jobs_of(made.spec, made.shards)
    assert shown(jobs) == [
        "pytorch build builder 100: ",
        "pytorch cpu-test builder 5: 0",
        "pytorch gpu-test h100 10: 0",
        "torchvision build builder 20: 0",
        "torchvision cpu-test builder 5: 3",
        "torchvision gpu-test h100 10: 3",
        "pytorch publish builder 5: 0 1 2 3 4 5",
        "torchvision publish builder 5: 6",
    ]
    assert {(job.shard, *job.key) for job in jobs} == {("build-main-sm90", "main", name) for name in (TORCH, VISION)}
    assert jobs_of(made.spec, made.shards, publish=False) == jobs[:6]


def test_a_shard_publishes_only_after_all_of_its_cells_and_no_other_shard_waits() -> None:
    made = planned(**matrix(gpus={"cpu": {"isas": ["avx2", "avx512"]}, "sm90": {"isas": ["avx2"]}}))
    jobs = jobs_of(made.spec, made.shards)
    publishing = {at: (job.cell.target, job.needs) for at, job in enumerate(jobs) if job.stage.name == "publish"}
    first, second = tuple(range(8)), tuple(range(12, 18))
    one_by_one = [("cpu", first), ("cpu", (8,)), ("cpu", (9,)), ("cpu", (10,)), ("sm90", second), ("sm90", (18,))]
    assert publishing == dict(zip([8, 9, 10, 11, 18, 19], one_by_one, strict=True))


def test_only_the_chosen_variants_have_jobs_and_wait_for_those_that_have() -> None:
    made = planned(packages=PACKAGES | {"torchvision": {**PACKAGES["torchvision"], "needs": []}})
    jobs = jobs_of(made.spec, made.shards, chosen={("main", VISION)}, publish=False)
    assert shown(jobs) == [
        "torchvision build builder 20: ",
        "torchvision cpu-test builder 5: 0",
        "torchvision gpu-test h100 10: 0",
    ]
    assert jobs_of(made.spec, made.shards, chosen={("other", VISION)}) == ()
    assert jobs_of(made.spec, made.shards, chosen=()) == ()


def test_alone_each_variant_builds_what_it_needs_and_waits_for_nothing() -> None:
    made = planned()
    jobs = jobs_of(made.spec, made.shards, alone=True, publish=False)
    assert [text for text in shown(jobs) if " build " in text] == [
        "pytorch build builder 100: ",
        "torchvision build builder 120: ",
    ]


RECORDED = {("main", TORCH, "build"): 60, ("main", VISION, "gpu-test"): 0, ("other", VISION, "build"): 60}


def test_recorded_durations_take_the_place_of_the_minutes_of_the_spec() -> None:
    made = planned()
    jobs = jobs_of(made.spec, made.shards, recorded=RECORDED, publish=False)
    minutes = {(job.variant.package, job.stage.name): job.seconds / 60 for job in jobs}
    assert minutes == {
        ("pytorch", "build"): 1,
        ("pytorch", "cpu-test"): 5,
        ("pytorch", "gpu-test"): 10,
        ("torchvision", "build"): 20,
        ("torchvision", "cpu-test"): 5,
        ("torchvision", "gpu-test"): 0,
    }
    (alone,) = (
        job
        for job in jobs_of(made.spec, made.shards, recorded=RECORDED, alone=True)
        if job.key[1] == VISION and job.stage.name == "build"
    )
    assert alone.seconds == 21 * 60


def test_suites_come_after_the_test_of_their_stage_and_publishing_waits_for_them() -> None:
    suites = {
        "ops": {"command": "x", "minutes": 90, "shards": 2, "on": "gpu"},
        "unit": {"command": "x", "minutes": 15},
        "wide": {"command": "x", "minutes": 45, "on": "gpu", "gpus": 4},
    }
    made = planned(packages={"pytorch": PACKAGES["pytorch"] | {"suites": suites}, "torchvision": {}})
    jobs = jobs_of(made.spec, made.shards, chosen={("main", TORCH)})
    assert shown(jobs) == [
        "pytorch build builder 100: ",
        "pytorch cpu-test builder 5: 0",
        "pytorch cpu-test unit builder 15: 1",
        "pytorch gpu-test h100 10: 0",
        "pytorch gpu-test ops h100 90: 3",
        "pytorch gpu-test ops h100 90: 3",
        "pytorch publish builder 5: 0 2 4 5",
    ]


def test_a_benchmark_waits_for_the_tests_and_publishing_for_it() -> None:
    h100 = {"runs-on": ["self-hosted", "linux", "x64", "h"], "gpu": "sm90", "cpu": ["avx512"]}
    builder = {"runs-on": ["self-hosted", "linux", "x64", "b"], "cpu": ["avx512"]}
    made = planned(
        packages={"pytorch": PACKAGES["pytorch"], "torchvision": {}},
        tests={"benchmark": "where-routed"},
        runners={"builder": builder, "h100": h100},
        publish={"after": ["cpu-test"]},
    )
    jobs = jobs_of(made.spec, made.shards, chosen={("main", TORCH)})
    assert shown(jobs) == [
        "pytorch build builder 100: ",
        "pytorch cpu-test builder 5: 0",
        "pytorch gpu-test h100 10: 0",
        "pytorch benchmark h100 15: 0 1 2",
        "pytorch publish builder 5: 0 1 3",
    ]


def builds(made: Plan, **given: Any) -> dict[str, list[str]]:
    """The builds with the variants of those that they wait for, in the order of the jobs."""
    jobs = jobs_of(made.spec, made.shards, **given)
    return {
        job.variant.name: [jobs[need].variant.name for need in job.needs] for job in jobs if job.stage.name == "build"
    }


VALUES = {"platform": X86, "python": ["3.12", "3.13"]}


def test_cells_of_open_matrices_come_after_those_that_they_need() -> None:
    packages = {
        "app": {"needs": ["ext", {"package": "lib", "python": "3.12"}]},
        "ext": {"needs": ["lib"]},
        "lib": {},
        "docs": {"ignores": ["python"], "gathers": ["lib"]},
    }
    made = decided({"values": VALUES}, packages)
    found = builds(made)
    assert found == {
        f"lib-python312-{X86}": [],
        f"lib-python313-{X86}": [],
        f"ext-python312-{X86}": [f"lib-python312-{X86}"],
        f"ext-python313-{X86}": [f"lib-python313-{X86}"],
        f"app-python312-{X86}": [f"lib-python312-{X86}", f"ext-python312-{X86}"],
        f"app-python313-{X86}": [f"lib-python312-{X86}", f"ext-python313-{X86}"],
        f"docs-{X86}": [f"lib-python312-{X86}", f"lib-python313-{X86}"],
    }
    backwards = [replace(shard, cells=shard.cells[::-1]) for shard in made.shards]
    order = list(builds(replace(made, shards=tuple(backwards))))
    assert all(order.index(need) < order.index(name) for name, needs in found.items() for need in needs)
    assert not any(builds(made, alone=True).values())
    assert builds(made, chosen={("main", f"app-python312-{X86}")}) == {f"app-python312-{X86}": []}


def test_a_joined_build_is_one_job_which_the_tests_of_all_its_variants_wait_for() -> None:
    made = decided({"values": VALUES}, {"lib": {"joins": ["python"]}, "ext": {"needs": ["lib"]}})
    assert shown(jobs_of(made.spec, made.shards, publish=False)) == [
        "lib build x86 30: ",
        "lib cpu-test x86 5: 0",
        "ext build x86 30: 0",
        "ext cpu-test x86 5: 2",
        "lib cpu-test x86 5: 0",
        "ext build x86 30: 0",
        "ext cpu-test x86 5: 5",
    ]


EDGES = spec_of(
    small(
        packages={
            "c": {"needs": ["b"]},
            "b": {"needs": ["a", {"package": "d", "isa": "avx2"}], "gathers": ["e"]},
            **{name: {} for name in "aed"},
        },
        branches={"main": small()["branches"]["main"] | {"versions": dict.fromkeys("abcde", "1.0")}},
    )
)


@pytest.mark.parametrize(
    ("package", "needs", "after", "built"),
    [
        ("a", (), (), "a"),
        ("b", ("a",), ("a", "d", "e"), "ab"),
        ("c", ("b", "a"), ("b", "a", "d", "e"), "abc"),
    ],
)
def test_what_a_package_needs_in_every_cell_and_what_it_is_built_after(
    package: str, needs: tuple[str, ...], after: tuple[str, ...], built: str
) -> None:
    assert needs_of(EDGES, package) == needs
    assert built_after(EDGES, package) == after
    assert [one.name for one in with_needs(EDGES, [package])] == [*built]


def test_a_package_that_is_built_with_variants_of_its_own_is_not_after_itself() -> None:
    made = decided({"values": VALUES}, {"lib": {"needs": [{"package": "lib", "python": "3.12"}]}})
    assert built_after(made.spec, "lib") == ()


@pytest.mark.parametrize(
    ("target", "jobs", "cores", "minutes"),
    [
        ("sm90", 32, 32, 100),
        ("cpu", 32, 32, 50),
        ("sm90", 32, 16, 200),
        ("sm90", 32, 64, 100),
        ("sm90", 64, 64, 50),
        ("sm90", 64, 128, 50),
        ("sm90", 8, 16, 100),
        ("sm90", 8, 4, 200),
    ],
)
def test_a_build_takes_its_minutes_on_32_cores_as_far_as_it_has_compile_jobs(
    target: str, jobs: int, cores: int, minutes: int
) -> None:
    package = replace(spec_of(small(packages=PACKAGES)).packages["pytorch"], jobs=jobs)
    values = (("family", "cpu" if target == "cpu" else "cuda"), ("target", target))
    cell = Cell(branch="main", values=values, isa="avx2", system=X86, suffix="x", variants=())
    assert usual_seconds(package, cell, Pool(name="p", cores=cores)) == minutes * 60


def test_guessed_minutes_count_where_no_build_was_recorded() -> None:
    text = """\
version: 1
owner: o
backend: command
branches: {main: {versions: {lib: "1", ext: "1"}}}
packages:
  lib:
    minutes: {gpu: 9, cpu: 9}  # guessed
    command: {build: b.sh, files: [x], install: x, publish: x}
  ext:
    minutes: {gpu: 9, cpu: 9}
    command: {build: b.sh, files: [x], install: x, publish: x}
matrix: {values: {platform: x86_64-linux}}
runners: {x86: {runs-on: [self-hosted, linux, x64]}}
publish: {on-shared-machines: true}
"""
    made = plan(parse_spec(text.encode(), shown="ci-matrix.yaml"))
    jobs = jobs_of(made.spec, made.shards)
    assert guessed_of(made.spec, jobs) == ("lib",)
    assert guessed_of(made.spec, jobs, {("main", f"lib-{X86}", "build"): 1}) == ()
    assert guessed_of(made.spec, jobs, {("main", f"lib-{X86}", "cpu-test"): 1}) == ("lib",)
    assert guessed_of(made.spec, [job for job in jobs if job.stage.name != "build"]) == ()


def test_the_longest_chain_comes_first_then_the_most_work_for_few_machines() -> None:
    runners = {
        "builder": {"runs-on": ["self-hosted", "linux", "x64", "b"], "cpu": ["avx2"], "count": 4},
        "wide": {
            "runs-on": ["self-hosted", "linux", "x64", "w"],
            "cpu": ["avx512"],
            "count": 1,
            "stages": ["cpu-test"],
        },
        "h100": {"runs-on": ["self-hosted", "linux", "x64", "h"], "gpu": "sm90", "cpu": ["avx512"]},
    }
    made = planned(runners=runners, **matrix(gpus={"cpu": {}, "sm90": {"isas": ["avx2"]}}))
    ordered = better_order(made.spec, made.shards)
    assert [shard.target for shard in ordered] == ["sm90", "cpu"]
    assert [cell.isa for cell, _ in ordered[1].cells] == ["avx512", "avx2"]
    backwards = [replace(shard, cells=shard.cells[::-1]) for shard in made.shards[::-1]]
    assert better_order(made.spec, backwards) == ordered
    assert [shard.target for shard in with_cells_ordered(made.spec, made.shards)] == ["cpu", "sm90"]
    assert list(with_cells_ordered(made.spec, backwards)) == list(with_cells_ordered(made.spec, made.shards))[::-1]
