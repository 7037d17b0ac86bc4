"""A GPU variant is tested only on the machine with the GPU, and published only if that test passed.

No GPU is needed: the machine of the GPU pool has an `nvidia-smi` and a driver of its own (`bin/h100`,
`stack/libcuda.c`), which show one H100. What the packages compute on it is nothing; that is proved on real ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.act import PASSED

from .world import PYTHON, TAG, World

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from .act import Run
    from .conftest import NewWorld

ENGINE, VISION = (f"{package}-{TAG}-cuda12_8-sm90-avx2" for package in ("engine", "vision"))


@pytest.fixture(scope="module")
def world(new_world: NewWorld) -> World:
    return new_world("nix")


@pytest.fixture(scope="module")
def without_driver(world: World) -> Run:
    """A run while the machine has no driver."""
    return world.dispatch("build-main-sm90.yml", "main", variant=ENGINE, publish="true")


def test_a_machine_without_a_driver_fails_the_gpu_test_in_words(without_driver: Run) -> None:
    assert "gpu-test doctor: 1" in without_driver.did(ENGINE)
    assert "this machine: gpu-usable" in without_driver.log.said


def test_a_variant_whose_gpu_test_failed_is_not_published(world: World, without_driver: Run) -> None:
    assert {entry.job for entry in without_driver.journal} == {"preflight", "build", "cpu-test", "gpu-test"}
    assert not world.signed(without_driver.json(f"build-{ENGINE}", "manifest.json")["store_path"])


@pytest.fixture(scope="module")
def with_driver(world: World, without_driver: Run) -> Run:
    """A run with the driver installed, after the one that failed."""
    assert without_driver.status != 0
    world.install_driver()
    return world.dispatch("build-main-sm90.yml", "main", variant="all", publish="true")


@pytest.mark.usefixtures("machines_apart")
def test_both_tests_run_after_the_build_and_publishing_after_both(with_driver: Run) -> None:
    assert with_driver.status == 0
    for variant in (ENGINE, VISION):
        assert with_driver.before(("build", variant), ("cpu-test", variant))
        assert with_driver.before(("build", variant), ("gpu-test", variant))
        assert with_driver.before(("cpu-test", variant), ("publish", "-"))
        assert with_driver.before(("gpu-test", variant), ("publish", "-"))


@pytest.mark.usefixtures("machines_apart")
def test_the_gpu_test_says_which_gpu_and_driver_it_had(with_driver: Run) -> None:
    result = with_driver.json(f"gpu-test-{VISION}", "result.json")
    found = {check["check"]: check["message"] for check in result["checks"]}
    assert result["passed"] is True
    assert "NVIDIA H100 80GB HBM3 (sm90)" in found["machine-gpu"]
    assert "/run/opengl-driver/lib/libcuda.so.1" in found["machine-gpu-usable"]
    build, *tests = with_driver.row(VISION)[:3]
    assert build == "passed"
    assert set(tests) <= PASSED


@pytest.mark.usefixtures("machines_apart")
def test_a_gpu_variant_is_built_for_its_gpu(world: World, with_driver: Run) -> None:
    store_path = with_driver.json(f"build-{ENGINE}", "manifest.json")["store_path"]
    module = world.on("builder", "cat", f"{store_path}/lib/python{PYTHON}/site-packages/engine/__init__.py")
    assert "cuda = '12.8'" in module
    assert "architectures = '9.0'.split()" in module
    assert world.signed(store_path)


PROGRAM = """\
import json, os, time
import engine
start = time.perf_counter()
sum(range(20_000))
took = time.perf_counter() - start
print(json.dumps({"name": "sum", "device": os.environ["BENCHMARK_DEVICE"], "seconds": [took]}))
"""


@pytest.fixture(scope="module")
def measured(world: World, with_driver: Run) -> Run:
    """A run of a changed engine, which is measured beside the one that was published."""
    assert with_driver.status == 0
    world.write_spec(
        ("stages: [gpu-test]", "stages: [gpu-test, benchmark]"),
        ("title: Engine\n", "title: Engine\n    benchmark: {python: bench.py}\n"),
        ('gpuTargets: ["@capability@"]', 'gpuTargets: ["@capability@", "9.0a"]'),
        ("publish: {", "tests: {benchmark: where-routed}\nbenchmark: {runs: 5, floor: 99}\npublish: {"),
    )
    (world.clone / "bench.py").write_text(PROGRAM, "utf-8")
    world.compile("main")
    world.commit("Measure")
    world.git("push", "--quiet", "origin", "main")
    world.add_nixpkgs("h100")  # which evaluates the recipe of the publication
    return world.dispatch("build-main-sm90.yml", "main", variant=ENGINE)


@pytest.mark.weekly
@pytest.mark.usefixtures("machines_apart")
def test_a_benchmark_follows_the_tests_and_takes_the_last_publication(measured: Run, with_driver: Run) -> None:
    assert measured.status == 0, measured.log.said
    assert measured.before(("cpu-test", ENGINE), ("benchmark", ENGINE))
    assert measured.before(("gpu-test", ENGINE), ("benchmark", ENGINE))
    found = measured.json(f"benchmark-{ENGINE}", "benchmark.json")
    assert (found["beside"], found["beside-is"], found["runs"]) == (ENGINE, "publication", 5)
    assert found["machine"]["gpu"] == "NVIDIA H100 80GB HBM3"
    arms = {
        one["device"]: {arm: len(times["steady"]) for arm, times in one["arms"].items()}
        for one in found["measurements"]
    }
    assert arms == {device: {"own": 5, "beside": 5} for device in ("cpu", "gpu")}
    old, new = (run.json(f"build-{ENGINE}", "manifest.json") for run in (with_driver, measured))
    assert old["store_path"] != new["store_path"]
    assert f"second build: {ENGINE} at " in measured.log.said
    assert measured.row(ENGINE)[3].startswith("this build over the last publication: CPU ")


@pytest.mark.usefixtures("machines_apart")
def test_a_run_keeps_what_its_benchmarks_found_as_one_artifact(measured: Run) -> None:
    (file,) = measured.files("benchmarks")
    assert measured.json("benchmarks", file) == measured.json(f"benchmark-{ENGINE}", "benchmark.json")
