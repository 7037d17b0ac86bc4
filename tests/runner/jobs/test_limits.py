"""How stages end: within the time of their job, and in order when they are cancelled."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from ci_compiler.hardware.machine import Machine
from ci_compiler.runner.limits import compile_jobs, job_seconds
from ci_compiler.spec.build import parse_spec
from ci_compiler.units import GB
from tests.backends import wheel
from tests.processes import MINUTES, has_ended, number_in, until
from tests.runner.jobs.world import TORCH, World, recipe


def test_a_stage_ends_before_github_ends_its_job() -> None:
    assert job_seconds(60) < 60 * 60
    assert job_seconds(1) > 0


@pytest.mark.parametrize(
    ("cores", "memory", "pool", "jobs"),
    [
        (64, 512, {}, 20),
        (2, 512, {}, 2),
        (64, 7, {}, 2),
        (64, 1, {}, 1),
        (0, 0, {}, 20),
        (64, 512, {"cores": 4}, 4),
        (64, 512, {"memory": 24}, 8),
    ],
)
def test_a_build_runs_as_many_compilers_as_its_machine_holds(
    cores: int, memory: int, pool: dict[str, int], jobs: int
) -> None:
    spec = wheel.spec()
    spec["packages"]["fastpath"] |= {"jobs": 20, "memory-per-job": 3}
    spec["runners"]["builder"] |= {"cores": 1024, "memory": 4096} | pool
    found = parse_spec(json.dumps(spec).encode(), shown="ci-matrix.yaml")
    machine = Machine(system="x86_64-linux", cores=cores, memory=memory * GB)
    assert compile_jobs(found.packages["fastpath"], machine, found.pools[0]) == jobs


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_cancelled_build_leaves_no_builder_and_no_manifest(world: World, number: int, status: int) -> None:
    world.write(TORCH, recipe(TORCH, "2.8.0", f"echo $$ >{world.folder}/builder; exec sleep 600"))
    world.commit()
    start = "from ci_compiler.cli.runner import main; raise SystemExit(main())"
    command = [sys.executable, "-c", start, "build", TORCH, "--branch", "main"]
    process = subprocess.Popen(command, cwd=world.root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    builder = number_in(world.folder / "builder")
    process.send_signal(number)
    assert process.wait(MINUTES) == status
    until(lambda: has_ended(builder))
    assert [path.name for path in (world.root / "build-output").iterdir()] == ["build.log"]
