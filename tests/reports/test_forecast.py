"""The forecast: its jobs against the compiled workflows, its numbers against sums done by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.errors import InputError
from ci_compiler.plan.job_graph import better_order, jobs_of
from ci_compiler.plan.limits import limit
from ci_compiler.plan.lookup import built_variants
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.plan.simulation import simulate
from ci_compiler.reports.forecast import (
    HOSTED_SECONDS,
    PlannedJob,
    end_of,
    forecast,
    machine_counts,
)
from ci_compiler.reports.history import History, read_history
from ci_compiler.reports.load import load_of
from ci_compiler.spec.build import bundled_spec, parse_spec
from ci_compiler.stages import BUILD, CPU_TEST, GPU_TEST, PUBLISH, Stage, stage_of
from ci_compiler.units import duration
from ci_compiler.workflows import cell
from tests.loops import each
from tests.output import checked
from tests.specs import documents, small, spec_of

MINUTE = 60
MAIN = "from ci_compiler.cli.compile import main; raise SystemExit(main())"


@pytest.fixture(scope="module")
def bundled() -> Plan:
    return plan(bundled_spec())


def planned(**changes: Any) -> Plan:
    return plan(spec_of(small(**changes)))


def one_cell(*, packages: Any = None, cores: int = 32, isas: list[str] | None = None, **changes: Any) -> Plan:
    """A plan of CPU cells of one branch on one builder; by default one cell."""
    isas = isas or ["avx2"]
    builder = {"runs-on": ["self-hosted", "linux", "x64"], "cpu": isas, "cores": cores}
    packages = packages or {"pytorch": {"minutes": {"cpu": 60}}}
    known = {"pytorch": "2.8.0", "torch": "2.8.0", "torchvision": "0.23.0"}
    versions = {name: known.get(name, "1.0") for name in packages}
    document = small(
        packages=packages,
        matrix={"python": ["3.13"], "isas": {"x86_64-linux": isas}, "gpus": {"cpu": {}}},
        runners={"builder": builder},
    )
    document["branches"]["main"]["versions"] = versions
    return plan(spec_of(document | changes))


def by_name(jobs: tuple[PlannedJob, ...]) -> dict[tuple[str, str, Stage], PlannedJob]:
    return {(*job.key, job.stage): job for job in jobs}


# Jobs, and the workflows that they represent.


def test_jobs_wait_for_what_the_compiled_workflows_say(bundled: Plan) -> None:
    """Except for the builds that another job in its `needs` waits for, which change no time."""
    written: Any = cell.workflow(bundled.spec).jobs
    jobs = jobs_of(bundled.spec, bundled.shards, publish=False)
    found = by_name(jobs)
    assert len(found) == len(jobs)
    for job in jobs:
        first = {(jobs[need].variant.package, jobs[need].stage) for need in job.needs}
        wanted = {
            (package, stage_of(stage))
            for package, _, stage in (
                need.rpartition("_") for need in written[f"{job.variant.package}_{job.stage}"].needs or ()
            )
            if (job.cell.branch, f"{package}-{job.cell.suffix}", stage_of(stage)) in found
        }
        assert first == wanted
        assert all(jobs[need].cell == job.cell for need in job.needs)


def test_each_stage_of_each_variant_that_a_pool_runs_is_one_job_of_that_pool(bundled: Plan) -> None:
    wanted = Counter(
        (cell.branch, variant.name, stage, pool.name)
        for shard in bundled.shards
        for cell, route in shard.cells
        for variant in cell.variants
        for stage, pool in route.pools.items()
    )
    assert Counter((*job.key, job.stage, job.pool) for job in jobs_of(bundled.spec, bundled.shards)) == wanted


def test_a_build_waits_for_a_build_and_publishing_for_the_tests_that_the_policy_names() -> None:
    decided = planned(publish={"after": ["cpu-test"]})
    jobs = jobs_of(decided.spec, decided.shards)
    waits = {
        job.stage: [(jobs[need].variant.package, jobs[need].stage) for need in job.needs]
        for job in jobs
        if job.cell.target == "sm90" and job.variant.package == "torchvision"
    }
    assert waits[BUILD] == [("pytorch", BUILD)]
    assert waits[GPU_TEST] == [("torchvision", BUILD)]
    assert waits[PUBLISH] == [("pytorch", PUBLISH)]
    first = next(job for job in jobs if job.cell.target == "sm90" and job.stage is PUBLISH)
    shard = [index for index, job in enumerate(jobs) if job.shard == first.shard and job.stage in {BUILD, CPU_TEST}]
    assert list(first.needs) == shard


def test_dependents_of_a_package_that_is_not_chosen_wait_for_its_dependencies() -> None:
    packages = {"p": {}, "q": {"needs": ["p"]}, "r": {"needs": ["q"]}}
    decided = one_cell(packages=packages)
    names = {v.package: ("main", v.name) for v in decided.judged.cells[0].variants}
    jobs = jobs_of(decided.spec, decided.shards, chosen={names["p"], names["r"]})
    assert [(job.variant.package, job.stage) for job in jobs if job.stage is BUILD] == [
        ("p", BUILD),
        ("r", BUILD),
    ]
    last = next(job for job in jobs if job.variant.package == "r" and job.stage is BUILD)
    assert {(jobs[need].variant.package, jobs[need].stage) for need in last.needs} == {("p", BUILD)}
    alone = jobs_of(decided.spec, decided.shards, chosen={names["r"]})
    assert alone[0].needs == ()


# Sums by hand: build, then 5 minutes of cpu-test and 5 of publish; a minute around them.


@pytest.mark.parametrize(
    ("cores", "jobs", "minutes"),
    [(32, 32, 60), (16, 32, 120), (8, 32, 240), (64, 32, 60), (64, 64, 30), (64, 16, 60), (16, 16, 60), (8, 16, 120)],
)
def test_minutes_are_a_32_core_builders(cores: int, jobs: int, minutes: int) -> None:
    decided = one_cell(packages={"pytorch": {"minutes": {"cpu": 60}, "jobs": jobs}}, cores=cores)
    assert forecast(decided).end == (1 + minutes + 5 + 5) * MINUTE


def test_the_specs_stage_minutes_count() -> None:
    decided = one_cell(**{"stage-minutes": {"cpu-test": 7, "publish": 11}})
    assert forecast(decided).end == (1 + 60 + 7 + 11) * MINUTE
    assert forecast(decided, publish=False).end == (1 + 60 + 7) * MINUTE


def test_torch_built_once_against_torch_built_in_each() -> None:
    packages = {
        "torch": {"minutes": {"cpu": 60}},
        "vision": {"minutes": {"cpu": 10}, "needs": ["torch"]},
        "extra": {"minutes": {"cpu": 3}, "needs": ["vision"]},
    }
    found = forecast(one_cell(packages=packages))
    assert found.seconds == (60 + 10 + 3 + 3 * 10) * MINUTE
    assert found.alone_seconds == found.seconds + (60 + 70) * MINUTE
    assert found.end == HOSTED_SECONDS + found.seconds
    assert found.alone_end == HOSTED_SECONDS + found.alone_seconds
    assert [(job.variant.package, job.stage) for job in found.path if job.stage is BUILD] == [
        ("torch", BUILD),
        ("vision", BUILD),
        ("extra", BUILD),
    ]
    assert len(found.path) == 3 + 1 + 3  # no test between the builds, and publishing at the end


def test_one_more_machine_saves_what_it_saves() -> None:
    found = forecast(one_cell(isas=["avx2", "avx512"]))
    (builder,) = found.pools
    assert found.end == (1 + 2 * 70) * MINUTE
    assert builder.one_more == 65 * MINUTE  # one job publishes both
    assert (builder.jobs, builder.seconds, builder.busy) == (6, 140 * MINUTE, 1.0)
    assert found.bound.pool == "builder"
    assert forecast(one_cell()).pools[0].one_more == 0


def test_disk_use_includes_earlier_results_and_the_running_build() -> None:
    packages = {"torch": {"disk": 20}, "vision": {"disk": 10, "needs": ["torch"]}}
    (builder,) = forecast(one_cell(packages=packages, isas=["avx2", "avx512"])).pools
    # Both torches first (2 x 2 GB), then a vision that leaves 1 GB, then the other's 10 GB while it builds.
    assert (builder.build_disk, builder.disk_peak) == (20, 22.0)
    packages["vision"]["disk"] = 100
    (builder,) = forecast(one_cell(packages=packages, isas=["avx2", "avx512"])).pools
    assert (builder.build_disk, builder.disk_peak) == (100, 2 * 2 + 10 + 100)


def test_a_pull_request_builds_the_cells_that_the_spec_allows_and_publishes_nothing() -> None:
    found = forecast(one_cell(isas=["avx2", "avx512"], **{"pull-request": {"cells": 1}})).pull_request
    assert (found.branch, len(found.cells), found.seconds) == ("main", 1, (1 + 65) * MINUTE)
    none = forecast(one_cell(**{"pull-request": {"cells": 0}})).pull_request
    assert (none.cells, none.seconds) == ((), HOSTED_SECONDS)


def test_a_pull_request_shows_every_value_of_every_axis_where_it_can(bundled: Plan) -> None:
    every = replace(bundled.spec, pull_request=replace(bundled.spec.pull_request, cells=10_000))
    found = forecast(replace(bundled, spec=every)).pull_request
    assert 0 < len(found.cells) <= (256 - 5) // (3 * 4)  # the jobs that a run holds, less the hosted ones
    few = forecast(bundled).pull_request
    of_branch = [cell for cell in bundled.judged.cells if cell.branch == few.branch]
    assert len(few.cells) == bundled.spec.pull_request.cells < len(of_branch)
    assert {cell.target for cell in few.cells} == {cell.target for cell in of_branch}
    assert {cell.isa for cell in few.cells} == {cell.isa for cell in of_branch}


# The bundled stack.


def test_the_bundled_pools_come_within_10_percent_of_the_lower_bound(bundled: Plan) -> None:
    found = forecast(bundled)
    assert found.variants == 459
    assert found.lower_bound <= found.end <= 1.10 * found.lower_bound
    assert sum(one.jobs for one in found.pools) == len(found.jobs)
    assert sum(one.seconds for one in found.pools) == found.seconds
    assert all(0 < one.busy <= 1 for one in found.pools)
    assert max(one.bound for one in found.pools) == found.lower_bound
    assert found.alone_seconds > found.seconds
    assert found.alone_end > found.end


def test_in_waves_no_job_queues_for_longer_than_github_waits(bundled: Plan) -> None:
    found = forecast(bundled)
    hours = limit("queued-hours").limit * 3600
    waits = [s - r for s, r in zip(found.schedule.starts, found.schedule.ready, strict=True)]
    assert found.overdue == sum(wait > hours for wait in waits) > 0
    assert sorted(name for wave in found.waves for name in wave.shards) == sorted(found.shards)
    for wave in found.waves:
        jobs = jobs_of(bundled.spec, [shard for shard in bundled.shards if shard.name in wave.shards])
        assert simulate(jobs, machine_counts(bundled.spec)).longest_wait <= hours


# The order of the jobs.


def test_the_better_order_puts_what_is_long_first_and_ends_sooner() -> None:
    matrix = {"python": ["3.13"], "isas": {"x86_64-linux": ["avx2"]}, "gpus": {"cpu": {}, "sm80": {}, "sm90": {}}}
    gpus = {
        "python": ["3.13"],
        "isas": {"x86_64-linux": ["avx", "avx2", "avx512"]},
        "gpus": {"cpu": {}, "sm90": {"isas": ["avx"]}},
    }
    packages = {"pytorch": {"minutes": {"cpu": 60, "gpu": 180}}}
    branches = small()["branches"]
    branches["main"]["versions"] = {"pytorch": "2.8.0"}
    for one in (matrix, gpus):
        decided = planned(matrix=one, packages=packages, branches=branches)
        found = forecast(decided)
        assert found.better_end <= found.end
        assert better_order(decided.spec, decided.shards)[0].target != "cpu"
    assert found.better_end < found.end


def test_the_better_order_within_a_shard_puts_the_longer_cells_first() -> None:
    runners = small()["runners"]
    runners["arm"] = {"runs-on": ["self-hosted", "linux", "arm64"], "cpu": ["armv9"], "cores": 8}
    isas = {"x86_64-linux": ["avx2", "avx512"], "aarch64-linux": ["armv9"]}
    decided = planned(matrix={"python": ["3.13"], "isas": isas, "gpus": {"cpu": {}}}, runners=runners)
    assert [cell.isa for cell in decided.judged.cells] == ["avx2", "avx512", "armv9"]
    assert [cell.isa for cell, _ in decided.shards[0].cells] == ["armv9", "avx2", "avx512"]
    assert [cell.isa for cell, _ in better_order(decided.spec, decided.shards)[0].cells] == ["armv9", "avx2", "avx512"]


def test_no_cell_changes_the_order_of_another_shard(bundled: Plan) -> None:
    everything = {shard.name: [cell for cell, _ in shard.cells] for shard in better_order(bundled.spec, bundled.shards)}
    for gone in each(bundled.shards[::5]):
        left = replace(bundled, shards=tuple(shard for shard in bundled.shards if shard is not gone))
        for shard in each(better_order(left.spec, left.shards)):
            assert [cell for cell, _ in shard.cells] == everything[shard.name]


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(documents())
def test_what_every_forecast_keeps(document: dict[str, Any]) -> None:
    decided = plan(spec_of(document))
    found = forecast(decided)
    machines = machine_counts(decided.spec)
    assert found == forecast(decided)
    assert min(found.end, found.better_end, found.longest_end) >= found.lower_bound
    assert sum(one.seconds for one in found.pools) == found.seconds == sum(job.seconds for job in found.jobs)
    assert found.alone_seconds >= found.seconds
    ordered = better_order(decided.spec, decided.shards)
    assert sorted((s.name, sorted(c.suffix for c, _ in s.cells)) for s in ordered) == sorted(
        (s.name, sorted(c.suffix for c, _ in s.cells)) for s in decided.shards
    )
    assert found.better_end == end_of(jobs_of(decided.spec, ordered), machines)


# Recorded builds.


def record(folder: Path, name: str, seconds: float, branch: str = "main", memory: int = 0, **more: Any) -> None:
    folder.mkdir(parents=True)
    manifest = {
        "name": name,
        "branch": branch,
        "seconds": seconds,
        "closure_size": 1,
        "memory": memory,
        "started": "2026-01-01T00:00:00Z",
    }
    (folder / "manifest.json").write_text(json.dumps(manifest | more), "utf-8")


def test_a_recorded_variant_takes_the_median_and_the_others_the_estimate(tmp_path: Path) -> None:
    decided = one_cell(isas=["avx2", "avx512"])
    for index, seconds in enumerate((100.4, 1200, 90_000)):
        record(tmp_path / "runs" / str(index), "pytorch-python313-cpu-avx2", seconds)
    record(tmp_path / "elsewhere", "pytorch-python313-cpu-avx512", 1, branch="other")
    history = read_history(tmp_path)
    first, other = (
        ("main", "pytorch-python313-cpu-avx2", "build"),
        ("other", "pytorch-python313-cpu-avx512", "build"),
    )
    assert history == History(
        seconds={first: 1200, other: 1}, low={first: 320, other: 1}, high={first: 72_240, other: 1}, manifests=4
    )
    found = forecast(decided, history=history)
    assert found.measured == 1
    builds = {job.cell.isa: job.seconds for job in found.jobs if job.stage is BUILD}
    assert builds == {"avx2": 1200, "avx512": 60 * MINUTE}


def test_the_memory_of_recorded_builds_comes_back_by_package(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for index, memory in enumerate((40 * 10**9, 61 * 10**9, 0)):
        record(tmp_path / str(index), "pytorch-python313-cpu-avx2", 100, memory=memory)
    record(tmp_path / "elsewhere", "pytorch-python313-cpu-avx512", 1, branch="other", memory=10**12)
    found = forecast(one_cell(isas=["avx2", "avx512"]), history=read_history(tmp_path))
    assert found.memory == {"pytorch": 61 * 10**9}
    record(tmp_path / "bundled", "pytorch-python313-cpu-avx", 1, branch="cuda-13_0", memory=61 * 10**9)
    assert run(PROGRAM, ["forecast", "--history", str(tmp_path)]) == 0
    assert "61 GB in the largest recorded build of pytorch" in capsys.readouterr().out


def test_a_forecast_names_the_packages_whose_minutes_are_a_guess(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = json.dumps(small(), indent=1)
    known = plan(parse_spec(text.encode(), shown="spec"))
    guessed = text.replace('"pytorch": {', '"pytorch": {  # guessed', 1)
    (tmp_path / "spec.yaml").write_text(guessed, "utf-8")
    made = plan(parse_spec(guessed.encode(), shown="spec"))
    builds = {(*job.key, BUILD.name): 60 for job in jobs_of(made.spec, made.shards) if job.stage is BUILD}
    assert (forecast(known).guessed, forecast(made).guessed) == ((), ("pytorch",))
    assert forecast(made, history=History(seconds=builds)).guessed == ()
    chosen = {(cell.branch, variant.name) for cell in made.judged.cells for variant in cell.variants}
    assert (load_of(known, chosen, publish=False).guessed, load_of(made, chosen, publish=False).guessed) == (
        (),
        ("pytorch",),
    )
    assert run(PROGRAM, ["forecast", "--spec", str(tmp_path / "spec.yaml")]) == 0
    assert "by the spec's minutes (guessed minutes: pytorch)" in capsys.readouterr().out


def test_what_recorded_builds_found_in_compiler_seeds_is_counted_and_nothing_is_guessed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch = "pytorch-python313-cpu-avx2"
    record(tmp_path / "1", torch, 100, branch="cuda-13_0", seed={"found": 900, "of": 1000})
    record(tmp_path / "2", torch, 100, branch="cuda-13_0", seed={"found": 1000, "of": 1000})
    record(tmp_path / "3", torch, 100, branch="cuda-13_0", seed={})
    record(tmp_path / "elsewhere", torch, 100, branch="other", seed={"found": 0, "of": 1000})
    assert run(PROGRAM, ["forecast", "--history", str(tmp_path)]) == 0
    assert "95.0% of the host objects of recorded builds of pytorch, 1,900 of 2,000, came" in capsys.readouterr().out
    assert run(PROGRAM, ["forecast", "--history", str(tmp_path), "--json"]) == 0
    found = checked("ci-compile forecast", capsys.readouterr().out)
    assert found["compiler_seeds"] == {"pytorch": {"found": 1900, "of": 2000}}
    assert run(PROGRAM, ["forecast", "--json"]) == 0
    assert "compiler_seeds" not in json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"name": "a", "branch": "b", "seconds": 1, "seed": {"found": 2, "of": 1}}', "'seed' is not what it found"),
        ('{"name": "a", "branch": "b", "seconds": 1, "seed": {"found": true, "of": 1}}', "'seed' is not what it found"),
        ('{"name": "a", "branch": "b", "seconds": 1, "seed": [1]}', "'seed' is not what it found"),
        ('{"name": "a", "branch": "b", "seconds": 1, "memory": "2"}', "'memory' is not a number of bytes"),
        ("{", "manifest.json:1:2: is not JSON"),
        ("[]", "manifest.json: is not a JSON object"),
        ('{"name": "a", "branch": "b"}', "'seconds' is not a number"),
        ('{"name": "a", "branch": "b", "seconds": true}', "'seconds' is not a number"),
        ('{"name": "a", "branch": "b", "seconds": NaN}', "has the number NaN, which is out of range"),
        ('{"name": "a", "branch": "b", "seconds": -1}', "'seconds' is not a number"),
        ('{"name": 1, "branch": "b", "seconds": 1}', "'name' is not text"),
        (f'{{"name": "a", "branch": "b", "seconds": 1{"0" * 400}}}', "has the number 1000"),
        ('{"name": "a", "branch": "b", "seconds": 1e30}', "'seconds' is not a number of seconds"),
        ("[" * 100_000, "is nested deeper than 100 levels"),
        ("\udcff", "manifest.json:1:1: is not UTF-8 text"),
    ],
)
def test_an_invalid_manifest_is_reported_on_one_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "manifest.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError) as caught:
        read_history(tmp_path)
    assert len(caught.value.findings) == 1
    assert said in str(caught.value)


def test_a_history_without_manifests_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no manifest\.json in it or below"):
        read_history(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        read_history(tmp_path / "none")


def test_wheels_build_no_libraries_of_nixpkgs_again() -> None:
    wheels = Path(__file__).parents[1] / "examples/good/wheel/ci-matrix.yaml"
    decided = plan(parse_spec(wheels.read_bytes(), shown="ci-matrix.yaml"))
    assert any(one.cell.toolkit for one in built_variants(decided))
    assert not forecast(decided).capabilities


# The command.


def test_the_command_prints_a_table_and_the_same_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(json.dumps(small()), "utf-8")
    argv = ["forecast", "--root", str(tmp_path), "--spec", str(spec)]
    assert run(PROGRAM, argv) == 0
    text = capsys.readouterr().out
    assert run(PROGRAM, [*argv, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert f"full build       {duration(found['full_build']['as_written'])}, all shards" in text
    assert text.startswith(f"{found['variants']} variants in {found['jobs']} jobs")
    assert [line.split()[0] for line in text.splitlines()[2:4]] == [one["name"] for one in found["pools"]]
    assert run(PROGRAM, [*argv, "--history", str(tmp_path / "none")]) == 2


def test_the_same_bytes_under_any_hash_seed(tmp_path: Path) -> None:
    def told(seed: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", MAIN, "forecast", "--json"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    assert told("1") == told("2")
