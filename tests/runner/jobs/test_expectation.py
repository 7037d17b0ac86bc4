"""The expectations of a variant, and that the probe can check all of them."""

from __future__ import annotations

import json

import pytest

from ci_compiler.hardware import tables
from ci_compiler.plan.pipeline import plan
from ci_compiler.plan.proof import checks as table
from ci_compiler.runner.jobs.expectation import expectation
from ci_compiler.runner.jobs.smoke_probe import checks, gpu_libraries, numerics
from ci_compiler.runner.targets import find
from ci_compiler.spec.build import bundled_spec
from ci_compiler.stages import CPU_TEST, GPU_TEST

TABLE = table()


def test_every_check_of_the_table_is_one_of_the_probes() -> None:
    for row in (*TABLE["packages"].values(), TABLE["other"]):
        assert set(row["checks"]) <= set(checks.CHECKS)
        assert {*row["numerics"], *row["gpu-numerics"]} <= set(numerics.NUMERICS | gpu_libraries.LIBRARIES)


def test_every_instruction_set_has_levels_to_dispatch_to() -> None:
    assert set(TABLE["dispatch"]) == set(tables().isas)


def test_the_bundled_packages_have_tests() -> None:
    assert {package.attribute for package in bundled_spec().packages.values()} == set(TABLE["packages"])


@pytest.mark.parametrize(
    ("name", "branch", "cuda", "architectures", "cudnn", "targets"),
    [
        ("pytorch-python313-cuda12_8-sm90-avx512", "main", "12.8", ("sm_90",), True, ("sm_90",)),
        ("pytorch-python313-cuda12_8-sm61-avx", "main", "12.8", ("sm_61",), False, ("sm_61",)),
        ("pytorch-python313-cuda12_9-sm103-armv9", "cuda-12_9", "12.9", ("sm_103",), True, ("sm_103",)),
        ("torchvision-python313-cuda13_0-sm121-armv9", "cuda-13_0", "13.0", ("sm_121",), True, ("sm_121",)),
        ("torchaudio-python313-cpu-avx2", "cuda-13_0", "", (), False, ()),
    ],
)
def test_a_variant_is_expected_to_be_what_its_name_says(
    name: str, branch: str, cuda: str, architectures: tuple[str, ...], cudnn: bool, targets: tuple[str, ...]
) -> None:
    spec = bundled_spec()
    built = find(spec, name, branch)
    wanted = expectation(spec, built, GPU_TEST)
    assert (wanted.toolkit, wanted.architectures, wanted.dnn) == (cuda, architectures, cudnn)
    assert (wanted.targets, bool(wanted.gpu_numerics)) == (targets, bool(targets))
    assert wanted.version == spec.branches[branch].versions[name.partition("-")[0]]
    on_cpu = expectation(spec, built, CPU_TEST)
    assert (on_cpu.targets, on_cpu.gpu_numerics) == ((), ())
    assert on_cpu.architectures == architectures


def test_every_variant_of_the_bundled_stack_has_an_expectation() -> None:
    spec = bundled_spec()
    for shard in plan(spec).shards[:3]:
        for name in shard.variants:
            json.loads(expectation(spec, find(spec, name, shard.branch), GPU_TEST).as_json())


def test_an_override_replaces_only_what_it_names() -> None:
    spec = bundled_spec()
    built = find(spec, "pytorch-python313-cuda12_8-sm90-avx512")
    usual = expectation(spec, built, CPU_TEST)
    changed = expectation(spec, built, CPU_TEST, version="9", toolkit="")
    assert (changed.version, changed.toolkit, changed.architectures) == ("9", "", usual.architectures)


def test_an_avx_build_must_not_go_beyond_avx_and_an_avx512_build_must_reach_it() -> None:
    levels = {isa: set(found) for isa, found in TABLE["dispatch"].items()}
    assert not levels["avx"] & {"AVX2", "AVX512"}
    assert levels["avx2"] == {"AVX2", "AVX512"}
    for isa in ("avx512", "avx512vnni", "avx512bf16"):
        assert levels[isa] == {"AVX512"}
