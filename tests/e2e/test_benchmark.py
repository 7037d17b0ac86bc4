"""A benchmark follows the tests on their machine, with a second build of the package: the neighbour, in these runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from .world import TAG, World

if TYPE_CHECKING:
    from .act import Run
    from .conftest import NewWorld

WORKFLOW = "build-main-cpu.yml"
AVX, AVX2 = (f"engine-{TAG}-cpu-{isa}" for isa in ("avx", "avx2"))

PROGRAM = """\
import json, os, time
import engine
start = time.perf_counter()
sum(range(20_000))
took = time.perf_counter() - start
print(json.dumps({"name": "sum", "device": os.environ["BENCHMARK_DEVICE"], "seconds": [took]}))
"""


@pytest.fixture(scope="module")
def world(new_world: NewWorld) -> World:
    """A world whose spec measures the engine by a program of its own."""
    world = new_world("nix")
    world.write_spec(
        ("stages: [cpu-test], cpu: [avx2]", "stages: [cpu-test, benchmark], cpu: [avx2]"),
        ("title: Engine\n", "title: Engine\n    benchmark: {python: bench.py}\n"),
        ("publish: {", "tests: {benchmark: where-routed}\nbenchmark: {runs: 5}\npublish: {"),
    )
    (world.clone / "bench.py").write_text(PROGRAM, "utf-8")
    world.compile("main")
    world.commit("Measure")
    world.git("push", "--quiet", "origin", "main")
    world.add_nixpkgs("tester")  # which evaluates the recipe of the neighbour
    return world


@pytest.fixture(scope="module")
def alone(world: World) -> Run:
    """A run of the variant that has no neighbour, and that is published for the first time."""
    return world.dispatch(WORKFLOW, "main", variant=AVX, publish="true")


@pytest.fixture(scope="module")
def beside(world: World, alone: Run) -> Run:
    """A run of its neighbour, after the first one was published."""
    assert alone.status == 0, alone.log.said
    return world.dispatch(WORKFLOW, "main", variant=AVX2)


def test_a_variant_without_a_second_build_is_measured_alone(alone: Run) -> None:
    steps = ["build build", "cpu-test smoke", "benchmark doctor", "benchmark fetch", "benchmark benchmark"]
    assert [step for step in alone.did(AVX) if step in steps] == steps
    assert alone.json(f"benchmark-{AVX}", "result.json")["passed"] is True
    assert alone.row(AVX)[2:4] == ["–", "measured alone"]
    assert "second build: none" in alone.log.said


@pytest.mark.usefixtures("machines_apart")
def test_the_next_isa_is_measured_beside_it_on_the_same_machine(beside: Run) -> None:
    assert beside.status == 0, beside.log.said
    assert f"second build: {AVX}" in beside.log.said
    found = beside.json(f"benchmark-{AVX2}", "benchmark.json")
    assert (found["beside"], found["beside-is"], found["runs"]) == (AVX, "neighbour", 5)
    (one,) = (one for one in found["measurements"] if one["device"] == "cpu")
    assert {arm: len(times["steady"]) for arm, times in one["arms"].items()} == {"own": 5, "beside": 5}
    assert beside.row(AVX2)[3].startswith("avx2 over avx: ")
    assert beside.before(("cpu-test", AVX2), ("benchmark", AVX2))


def test_the_run_keeps_what_its_benchmarks_found_as_one_artifact(beside: Run) -> None:
    (file,) = beside.files("benchmarks")
    kept = json.loads((beside.folder("benchmarks") / file).read_text("utf-8"))
    assert kept == beside.json(f"benchmark-{AVX2}", "benchmark.json")
