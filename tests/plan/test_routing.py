"""Routing to the least scarce pool that fits, and labels that match other pools' machines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ci_compiler.errors import InputError
from ci_compiler.plan.pipeline import plan
from ci_compiler.plan.routing import runs_gpu
from ci_compiler.stages import BUILD
from tests.specs import CACHE, small, spec_of

Pools = dict[str, dict[str, Any]]


def routed(runners: Pools, *, gpu: str = "sm90", isa: str = "avx2", **changes: Any) -> dict[str, str]:
    """The pool of each stage for the only cell of a spec with these pools; '-' and the reason if there is none."""
    matrix = {"python": ["3.13"], "isas": {"x86_64-linux": [isa]}, "gpus": {gpu: {}}}
    decided = plan(spec_of(small(runners=runners, matrix=matrix, **changes)))
    (route,) = decided.routes
    found = {stage.name: pool.name for stage, pool in route.pools.items()}
    return found | {stage.name: f"- {reason}" for stage, reason in route.skipped.items()}


def pool(*labels: str, **keys: Any) -> dict[str, Any]:
    return {"runs-on": ["self-hosted", "linux", "x64", *labels], "cpu": ["avx512bf16"], **keys}


def test_builders_are_preferred_to_gpu_machines_and_large_pools_to_small_ones() -> None:
    pools = {"few": pool("few"), "many": pool("many", count=3), "gpu": pool("g", gpu="sm90", count=9)}
    pools["gpu"]["stages"] = ["build", "cpu-test", "gpu-test", "publish"]
    assert routed(pools) == {"build": "many", "cpu-test": "many", "gpu-test": "gpu", "publish": "many"}
    assert routed({"gpu": pools["gpu"]})["build"] == "gpu"


def test_a_gpu_machine_builds_only_if_its_pool_says_so() -> None:
    with pytest.raises(InputError, match="no-pool"):
        routed({"gpu": pool("g", gpu="sm90")})


@pytest.mark.parametrize(
    ("gpus", "wanted", "taken"),
    [
        (["sm86", "sm80"], "sm80", "sm80"),
        (["sm86"], "sm80", "sm86"),
        (["sm80"], "sm86", None),
        (["sm90"], "sm80", None),
        (["sm89", "sm86"], "sm80", "sm89"),
    ],
)
def test_a_gpu_test_needs_a_gpu_that_runs_the_cubin(gpus: list[str], wanted: str, taken: str | None) -> None:
    pools = {"builder": pool("b")} | {gpu: pool(gpu, gpu=gpu) for gpu in gpus}
    found = routed(pools, gpu=wanted)["gpu-test"]
    assert found == (
        taken or f"- no pool for gpu-test on x86_64-linux has a GPU that runs {wanted} beside a CPU that runs avx2"
    )


def test_a_cpu_test_needs_the_isas_flags() -> None:
    pools = {"old": pool("old", count=9) | {"cpu": ["avx2"]}, "new": pool("new") | {"cpu": ["avx512bf16"]}}
    assert routed(pools, isa="avx512")["cpu-test"] == "new"
    assert routed(pools, isa="avx2")["cpu-test"] == "old"
    assert routed(pools, isa="avx512")["build"] == "old"
    lack = "- no pool for cpu-test on x86_64-linux has a CPU that runs avx512vnni"
    assert routed(pools, isa="avx512vnni")["cpu-test"] == lack


def test_a_build_needs_disk_and_memory() -> None:
    pools = {"small": pool("small", count=9, disk=10), "large": pool("large", disk=100)}
    packages = {"pytorch": {"attribute": "torch", "disk": 50}, "torchvision": {"needs": ["pytorch"]}}
    assert routed(pools, packages=packages)["build"] == "large"
    assert routed(pools, packages=packages)["cpu-test"] == "small"


@pytest.mark.parametrize("what", ["disk", "memory"])
def test_a_build_fits_a_pool_that_just_fits_its_largest_package(what: str) -> None:
    packages = {"pytorch": {"attribute": "torch", what: 50}, "torchvision": {"needs": ["pytorch"], what: 20}}
    for size, taken in ((49, "large"), (50, "just")):
        pools = {"just": pool("just", count=9, **{what: size}), "large": pool("large", **{what: 900})}
        assert routed(pools, packages=packages)["build"] == taken


def test_a_pool_without_a_gpu_runs_no_gpu_test() -> None:
    spec = spec_of(small())
    assert {one.name: runs_gpu(spec.hardware, one, "sm90") for one in spec.pools} == {"builder": False, "h100": True}


def test_tests_that_are_switched_off_are_shown_as_skipped() -> None:
    found = routed({"builder": pool("b")}, tests={"gpu-test": "never"})
    assert found["gpu-test"] == "- the spec switches gpu-test off"


@pytest.mark.parametrize(
    ("one", "other", "steals"),
    [
        (["a"], ["a", "b"], True),
        (["A"], ["a", "b"], True),
        (["a", "c"], ["a", "b"], False),
        ("set-a", "set-b", False),
        ("set-a", "set-a", True),
        ("set-a", ["a"], False),
        (["self-hosted"], "set-a", False),
        ({"group": "g", "labels": ["a"]}, {"group": "g", "labels": ["a", "b"]}, True),
        ({"group": "g", "labels": ["a"]}, {"group": "h", "labels": ["a", "b"]}, False),
        (["a"], {"group": "h", "labels": ["a", "b"]}, True),
        ({"group": "g"}, {"group": "g", "labels": ["b"]}, True),
        (["self-hosted", "Linux", "x64"], ["b"], True),  # every runner has these labels
        (["self-hosted", "x64"], {"group": "h"}, True),
        (["self-hosted", "linux", "x64", "c"], ["b"], False),
    ],
)
def test_labels_that_machines_of_another_pool_have_too_are_an_error(one: Any, other: Any, *, steals: bool) -> None:
    keys = {"system": "x86_64-linux", "cpu": ["avx2"]}
    runners = {"one": {"runs-on": one, **keys, "count": 2}, "other": {"runs-on": other, **keys, "gpu": "sm90"}}
    try:
        routed(runners)
        found = False
    except InputError as error:
        found = "pool-steals" in str(error)
    assert found == steals


@pytest.mark.parametrize(
    ("label", "near"),
    [
        ("self-hoste", "self-hosted"),
        ("selfhosted", "self-hosted"),
        ("Self_Hosted", "self-hosted"),
        ("slef-hosted", "self-hosted"),
        ("linx", "Linux"),
        ("macsos", "macOS"),
        ("amr64", "ARM64"),
        ("SELF-HOSTED", ""),
        ("linux", ""),
        ("linux2", ""),
        ("x86", ""),
        ("x64-large", ""),
        ("arm", ""),
        ("gpu-sm90", ""),
    ],
)
def test_a_label_that_is_almost_one_of_github_is_a_warning(label: str, near: str) -> None:
    runners = {"builder": {"runs-on": [label, "own"], "system": "x86_64-linux", "cpu": ["avx2"]}}
    found = [one for one in plan(spec_of(small(runners=runners))).warnings if one.code == "misspelled-label"]
    said = [f"{label!r} of builder is no label of GitHub's; did you mean {near}?"] if near else []
    assert [one.message for one in found] == said


def test_a_pool_that_nothing_uses_is_a_warning() -> None:
    runners = {"builder": pool("b"), "a100": pool("a", gpu="sm80")}
    matrix = {"python": ["3.13"], "isas": {"x86_64-linux": ["avx2"]}, "gpus": {"sm90": {}}}
    decided = plan(spec_of(small(runners=runners, matrix=matrix)))
    [warning] = decided.warnings
    assert warning.code == "unused-pool"
    assert warning.message.startswith("no job goes to a100; remove it, or ")
    assert decided.routes[0].pools[BUILD].name == "builder"


def test_every_machine_runs_the_baseline_of_its_system() -> None:
    pools = {"bare": pool("bare", count=3) | {"cpu": []}, "new": pool("new")}
    assert routed(pools, gpu="cpu", isa="baseline")["cpu-test"] == "bare"
    assert routed(pools, gpu="cpu", isa="avx")["cpu-test"] == "new"


@pytest.mark.parametrize(
    ("labels", "system"),
    [
        (["linux", "x64"], "x86_64-linux"),
        (["Linux", "ARM64"], "aarch64-linux"),
        (["arm64"], "aarch64-linux"),
        (["macOS", "ARM64"], "aarch64-darwin"),
    ],
)
def test_the_labels_tell_the_system_of_a_pool(labels: list[str], system: str) -> None:
    spec = spec_of(small(runners={"builder": pool("b"), "other": {"runs-on": ["self-hosted", *labels]}}))
    assert spec.pools[1].system == system


# The pool that the spec names for a listed variant.

PINNED = "pytorch-pinned"


def pinned(runners: Pools, **changes: Any) -> dict[str, str]:
    """The pool of each stage for a listed variant with `pool: mine`; '-' and the reason if there is none."""
    decided = plan(spec_of(document_of(runners, **changes)))
    cells = zip(decided.judged.cells, decided.routes, strict=True)
    (route,) = (route for cell, route in cells if cell.listed == PINNED)
    found = {stage.name: pool.name for stage, pool in route.pools.items()}
    return found | {stage.name: f"- {reason}" for stage, reason in route.skipped.items()}


def document_of(runners: Pools, **changes: Any) -> dict[str, Any]:
    document = small(runners=runners, publish={})
    listed = {"recipes": "own", "variants": {PINNED: {"system": "x86_64-linux", "pool": "mine"}}}
    document["packages"] = {"pytorch": {"attribute": "torch", **listed, **changes}}
    document["branches"]["main"]["versions"] = {"pytorch": "2.8.0"}
    document["publish"] = {}
    return document


def test_a_listed_variant_is_built_and_tested_by_its_pool_and_published_by_a_pool_that_publishes() -> None:
    pools = {
        "mine": pool("mine"),
        "other": pool("other", count=9),
        "publisher": pool("p", stages=["publish"]),
        "h100": pool("h", gpu="sm90"),
    }
    assert pinned(pools) == {"build": "mine", "cpu-test": "mine", "publish": "publisher"}


def test_a_pool_that_publishes_too_keeps_its_listed_variant() -> None:
    """The pool is marked as accepted for both, as it builds the code that it signs."""
    pools = {"mine": pool("mine"), "other": pool("other", count=9), "h100": pool("h", gpu="sm90")}
    pools["mine"]["stages"] = pools["other"]["stages"] = ["build", "cpu-test", "publish"]
    with pytest.raises(InputError, match="mine publishes, and runs build and cpu-test as well"):
        pinned(pools)


@pytest.mark.parametrize(
    ("mine", "changes", "reason"),
    [
        ({"stages": ["cpu-test"]}, {}, "mine, the `pool` of pytorch-pinned, does not run build"),
        ({"disk": 10}, {"disk": 64}, "mine, the `pool` of pytorch-pinned, lacks what build needs: 64 GB of disk and"),
        (
            {"runs-on": ["self-hosted", "linux", "arm64", "mine"], "cpu": ["armv9"]},
            {},
            "mine, the `pool` of pytorch-pinned, is not for x86_64-linux",
        ),
    ],
)
def test_a_pool_that_cannot_build_its_listed_variant_is_named(mine: Any, changes: Any, reason: str) -> None:
    pools = {
        "mine": pool("mine") | mine,
        "other": pool("other", count=9, disk=900),
        "publisher": pool("p", stages=["publish"]),
    }
    with pytest.raises(InputError) as caught:
        pinned(pools, **changes)
    (finding,) = (one for one in caught.value.findings if one.code == "no-pool")
    assert reason in finding.message
    text = json.dumps(document_of(pools, **changes))
    assert text[finding.place.column - 1 :].startswith('"pool": "mine"')


def test_a_test_that_the_pool_of_a_listed_variant_does_not_run_is_skipped_with_the_reason() -> None:
    pools = {"mine": pool("mine"), "other": pool("other"), "publisher": pool("p", stages=["publish"])}
    pools["mine"]["stages"] = ["build"]
    assert pinned(pools)["cpu-test"] == "- mine, the `pool` of pytorch-pinned, does not run cpu-test"


# What is said about the pools of a whole spec.

TESTERS: Pools = {"builder": pool("b", disk=900, memory=900), "h100": pool("h", gpu="sm90")}


def warned(code: str, runners: Pools, **changes: Any) -> list[str]:
    """The messages of the warnings with `code`."""
    return [one.message for one in plan(spec_of(small(runners=runners, **changes))).warnings if one.code == code]


def refused(runners: Pools, **changes: Any) -> list[str]:
    """The messages of the errors."""
    with pytest.raises(InputError) as caught:
        plan(spec_of(small(runners=runners, **changes)))
    return [finding.message for finding in caught.value.findings]


def test_compilers_that_take_more_memory_than_their_machine_has_are_a_warning() -> None:
    builder = pool("b", cores=32, memory=100, disk=900)
    packages = {
        "pytorch": {"attribute": "torch", "jobs": 64, "memory-per-job": 4},
        "torchvision": {"jobs": 25, "memory-per-job": 4},
    }
    [said] = warned("jobs-exceed-memory", {"builder": builder}, packages=packages)
    assert said == (
        "32 compilers of pytorch take 128 GB of memory (4 GB each), and builder has 100; give pytorch `jobs: 25`, or "
        "builder machines with 128 GB"
    )


def test_a_machine_with_less_memory_than_a_compiler_takes_is_advised_one_job() -> None:
    packages = {
        "pytorch": {"attribute": "torch", "memory-per-job": 40, "memory": 8},
        "torchvision": {"memory-per-job": 1},
    }
    [said] = warned("jobs-exceed-memory", {"builder": pool("b", cores=2, memory=30, disk=900)}, packages=packages)
    assert said.startswith("2 compilers of pytorch take 80 GB of memory (40 GB each), and builder has 30; ")
    assert "give pytorch `jobs: 1`" in said


def test_the_first_pool_that_has_no_way_to_the_results_is_named() -> None:
    said = (
        "what builder builds, h100 tests or publishes: without a `cache` to bring it there, this fails where they "
        "share no store"
    )
    assert warned("no-cache", TESTERS) == [said]
    assert warned("no-cache", {"builder": TESTERS["builder"]}) == []
    assert warned("no-cache", TESTERS, **CACHE) == []
    into = warned("no-cache", TESTERS, backend="nix")
    assert into == ["backend nix publishes into a binary cache: without a `cache` publishing fails"]


def test_a_pool_that_builds_what_it_publishes_is_refused() -> None:
    [said] = refused({"builder": pool("b", disk=900, memory=900)}, publish={"on-shared-machines": False})
    assert said == (
        "builder publishes, and runs build and cpu-test as well: code that runs there may take the publishing secret; "
        "give publishing a pool of its own (`stages: [publish]`) and leave it out of this one, or accept this with "
        "`publish: {on-shared-machines: true}`"
    )
    apart = {
        "builder": pool("b", stages=["build", "cpu-test"]),
        "publisher": pool("p", stages=["publish"]),
    }
    assert plan(spec_of(small(runners=apart, publish={"on-shared-machines": False}))).routes


def test_pools_that_are_too_small_are_named_with_what_they_have() -> None:
    packages = {"pytorch": {"attribute": "torch", "disk": 50, "memory": 64}, "torchvision": {}}
    arm = {"runs-on": ["self-hosted", "linux", "arm64"], "cpu": ["armv9"], "disk": 1, "memory": 1}
    small_ones = {
        "arm": arm,
        "a": pool("a", disk=10, memory=900),
        "b": pool("b", disk=900, memory=8),
        "c": pool("c", disk=20, memory=16),
        "d": pool("d", disk=1, memory=1),
        "tester": pool("t", stages=["cpu-test"], disk=1, memory=1),
    }
    assert (
        "no pool for build on x86_64-linux has 50 GB of disk and 64 GB of memory; a has 10 GB of disk; b has 8 GB of "
        "memory; c has 20 GB of disk and 16 GB of memory (pytorch-python313-cpu-avx2 on main)"
    ) in refused(small_ones, packages=packages)


def test_a_test_suite_goes_to_a_machine_with_its_gpus() -> None:
    suites = {
        "two": {"command": "x", "minutes": 5, "on": "gpu", "gpus": 2},
        "one": {"command": "x", "minutes": 5, "on": "gpu"},
        "plain": {"command": "x", "minutes": 5},
    }
    packages = {"pytorch": {"attribute": "torch", "suites": suites}, "torchvision": {}}
    runners = {
        "builder": pool("b"),
        "single": pool("s", gpu="sm90", count=9),
        "double": pool("d", gpu="sm90", gpus=2),
    }
    matrix = {"python": ["3.13"], "isas": {"x86_64-linux": ["avx2"]}, "gpus": {"sm90": {}}}
    (route,) = plan(spec_of(small(runners=runners, packages=packages, matrix=matrix))).routes
    assert {(bench.stage.name, bench.gpus): taken.name for bench, taken in route.suites.items()} == {
        ("gpu-test", 2): "double",
        ("gpu-test", 1): "single",
        ("cpu-test", 1): "builder",
    }
    del runners["double"]
    (route,) = plan(spec_of(small(runners=runners, packages=packages, matrix=matrix))).routes
    assert {bench.gpus: why for bench, why in route.skipped_suites.items()} == {
        2: "no pool for gpu-test on x86_64-linux has 2 GPUs that run sm90 beside a CPU that runs avx2"
    }


def test_a_test_suite_for_a_gpu_needs_that_gpu() -> None:
    row = {"values": {"accelerator": "cuda 12.8 sm80"}}
    suites = {"old": {"command": "x", "minutes": 5, "on": "gpu", "matrix": row}}
    packages = {"pytorch": {"attribute": "torch", "suites": suites}, "torchvision": {}}
    matrix = {"python": ["3.13"], "isas": {"x86_64-linux": ["avx2"]}, "gpus": {"sm80": {}}}
    runners = {"builder": pool("b"), "a40": pool("a40", gpu="sm86")}
    (route,) = plan(spec_of(small(runners=runners, packages=packages, matrix=matrix))).routes
    assert list(route.skipped_suites.values()) == ["no pool has 1 GPU of sm80 that runs sm80"]
    runners["a100"] = pool("a100", gpu="sm80")
    (route,) = plan(spec_of(small(runners=runners, packages=packages, matrix=matrix))).routes
    assert [taken.name for taken in route.suites.values()] == ["a100"]


def test_a_benchmark_runs_beside_the_nearest_cell_whose_code_runs_there_too() -> None:
    runners = {"builder": pool("b"), "h100": pool("h", gpu="sm90", stages=["gpu-test", "benchmark"])}
    matrix = {
        "python": ["3.13"],
        "isas": {"x86_64-linux": ["avx2", "avx512"]},
        "gpus": {"cpu": {}, "sm80": {}, "sm90": {}},
    }
    spec = spec_of(small(runners=runners, matrix=matrix, tests={"benchmark": "where-routed"}))
    decided = plan(spec)
    beside = {
        cell.suffix: route.neighbours
        for cell, route in zip(decided.judged.cells, decided.routes, strict=True)
        if cell.target == "sm90"
    }
    named = {suffix: {stage.name: other for stage, other in others.items()} for suffix, others in beside.items()}
    assert named == {
        "python313-cuda12_8-sm90-avx2": {},
        "python313-cuda12_8-sm90-avx512": {"benchmark": "python313-cuda12_8-sm90-avx2"},
    }


def test_neighbours_have_the_same_values_on_all_other_axes() -> None:
    own = {"recipes": "own", "matrix": {"values": {"isa": ["avx", "avx2"], "python": "3.13"}}}
    packages = {"pytorch": {"attribute": "torch"}, "torchvision": own}
    matrix = {"python": ["3.13"], "isas": {"x86_64-linux": ["avx2", "avx512"]}, "gpus": {"cpu": {}}}
    decided = plan(spec_of(small(packages=packages, matrix=matrix, tests={"benchmark": "where-routed"})))
    beside = {
        cell.variants[0].name: [*route.neighbours.values()]
        for cell, route in zip(decided.judged.cells, decided.routes, strict=True)
    }
    assert beside == {
        "pytorch-python313-cpu-avx2": [],
        "pytorch-python313-cpu-avx512": ["python313-cpu-avx2"],
        "torchvision-python313-avx": [],
        "torchvision-python313-avx2": ["python313-avx"],
    }


def test_a_stage_that_no_pool_runs_is_said_to_lack_one_of_the_system() -> None:
    [said] = refused({"builder": pool("b", stages=["build", "cpu-test"])}, publish={"on-shared-machines": True})
    why = "builder runs only build and cpu-test there; add publish to its `stages`, or a pool for it"
    assert said == f"no pool for publish has x86_64-linux: {why} (pytorch-python313-cpu-avx2 on main)"


def test_a_run_of_a_profile_leaves_out_tests_and_suites_with_the_reason() -> None:
    suites = {"plain": {"command": "x", "minutes": 5}}
    packages = {"pytorch": {"attribute": "torch", "suites": suites}, "torchvision": {}}
    matrix = {"python": ["3.13"], "isas": {"x86_64-linux": ["avx2"]}, "gpus": {"cpu": {}}}
    (route,) = plan(spec_of(small(packages=packages, matrix=matrix))).routes
    (cpu_test,) = (stage for stage in route.pools if stage.name == "cpu-test")
    assert route.in_profile("nightly", ()) is route
    left = route.in_profile("nightly", [cpu_test])
    why = "the profile nightly leaves it out"
    assert (left.skipped[cpu_test], list(left.suites), list(left.skipped_suites.values())) == (why, [], [why])
    assert [stage.name for stage in left.pools] == ["build", "publish"]
    assert [stage.name for stage in route.of_request([cpu_test]).pools] == ["build", "publish"]
