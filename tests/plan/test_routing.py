"""Routing to the least scarce pool that fits, and labels that match other pools' machines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ci_compiler.errors import InputError
from ci_compiler.plan.pipeline import plan
from ci_compiler.plan.routing import runs_gpu
from ci_compiler.stages import BUILD
from tests.specs import small, spec_of

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
