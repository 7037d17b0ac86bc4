"""What compiled recipes override, by kind of build: the presets, and a package's own keys over them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ci_compiler.spec.packages import Package
from ci_compiler.spec.presets import by_build, handed_on, override_of, preset_of, presets
from tests.specs import small, spec_of


@pytest.mark.parametrize(
    ("written", "gpu", "cpu"),
    [
        ({"a": 1, "b": "@sm@", "c": ["@gpu@"]}, {"a": 1, "b": "@sm@", "c": ["@gpu@"]}, {"a": 1, "c": ["@gpu@"]}),
        ({"a": 1, "gpu": {"b": 2}, "cpu": {"a": 3}}, {"a": 1, "b": 2}, {"a": 3}),
        ({"gpu": {"b": "@cuda@"}, "cpu": {"c": "@cuda@"}}, {"b": "@cuda@"}, {"c": "@cuda@"}),
        ({"gpu": True, "cpu": "text"}, {"gpu": True, "cpu": "text"}, {"gpu": True, "cpu": "text"}),
        (["-DA=@sm@", "-DB"], ("-DA=@sm@", "-DB"), ("-DB",)),
        ({"gpu": ["-DA"]}, ("-DA",), ()),
        ({"gpu": ["-DA"], "cpu": ["-DB=@sm@"]}, ("-DA",), ("-DB=@sm@",)),
        ({}, {}, {}),
    ],
)
def test_values_for_each_kind_of_build(written: Any, gpu: Any, cpu: Any) -> None:
    assert by_build(written) == {"gpu": gpu, "cpu": cpu}


def test_the_preset_of_an_attribute_is_called_like_it() -> None:
    assert [preset_of("", "torch"), preset_of("", "numpy"), preset_of("mine", "torch")] == ["torch", "package", "mine"]


def package(**keys: Any) -> Package:
    """The package `torch` with these keys."""
    document = small(packages={"torch": {"attribute": "torch", **keys}})
    document["branches"]["main"]["versions"] = {"torch": "2.8.0"}
    return spec_of(document).packages["torch"]


def test_torch_hands_on_its_output_and_others_nothing() -> None:
    assert handed_on(package()) == "out"
    assert handed_on(package(preset="torchvision")) == ""


def test_a_preset_builds_on_the_one_of_every_package() -> None:
    gpu, cpu = (override_of(package(), family) for family in ("cuda", "cpu"))
    assert gpu.arguments == {"cudaSupport": True, "gpuTargets": ["@capability@"]}
    assert cpu.arguments == {"cudaSupport": False}
    assert gpu.environment == cpu.environment == {"MAX_JOBS": "@jobs@"}
    assert gpu.attributes == cpu.attributes == {"requiredSystemFeatures": ["big-parallel"]}
    assert (gpu.passthru, cpu.passthru) == ({"cudaCapabilities": ["@capability@"]}, {})
    assert (gpu.capability, gpu.machine_code) == ("TORCH_CUDA_ARCH_LIST takes @capability@, never sm_@sm@.", "also")
    assert (gpu.architecture, gpu.source_overlay, gpu.from_environment) == (True, True, True)
    assert (cpu.architecture, gpu.cmake_flags, gpu.build_flags, gpu.inputs) == (False, (), (), {})


def test_a_packages_own_keys_come_last() -> None:
    own = package(
        arguments={"gpu": {"cudaSupport": False, "x": 1}},
        environment={"MAX_JOBS": "3", "A": "@sm@"},
        **{"cmake-flags": ["-DA=@gpu@"], "build-flags": {"cpu": ["-k"]}},
    )
    gpu, cpu = (override_of(own, family) for family in ("cuda", "cpu"))
    assert gpu.arguments == {"cudaSupport": False, "gpuTargets": ["@capability@"], "x": 1}
    assert cpu.arguments == {"cudaSupport": False}
    assert (gpu.environment, cpu.environment) == ({"MAX_JOBS": "3", "A": "@sm@"}, {"MAX_JOBS": "3"})
    assert (gpu.cmake_flags, cpu.cmake_flags) == (("-DA=@gpu@",), ("-DA=@gpu@",))
    assert (gpu.build_flags, cpu.build_flags) == ((), ("-k",))


def test_a_package_without_a_preset_of_its_own_has_the_common_one_once() -> None:
    plain = override_of(package(preset="package"), "cuda")
    assert plain.arguments == {}
    assert plain.environment == {"MAX_JOBS": "@jobs@"}
    assert (plain.capability, plain.machine_code) == ("The compute capability of @gpu@.", "")
    assert (plain.architecture, plain.source_overlay, plain.from_environment) == (False, False, False)


@pytest.mark.parametrize("keys", [{"arguments": {"gpu": {"a": "@gpu@"}}}, {"environment": {"A": "@sm@"}},
                                  {"attributes": {"a": "@capability@"}}, {"cmake-flags": ["@gpu@"]}])  # fmt: skip
def test_a_recipe_that_mentions_its_architecture_names_it(keys: dict[str, Any]) -> None:
    assert override_of(package(preset="package", **keys), "cuda").architecture


def test_the_presets_have_tables_by_kind_of_build() -> None:
    assert set(presets()) == set(presets("rocm"))
    assert set(presets()) >= {"package", "torch", "torchvision", "torchaudio", "llama-cpp", "vllm"}
    assert presets()["llama-cpp"] == {}, "it is known for another family"
    assert presets()["torchvision"]["architecture"] is True
    assert override_of(replace(package(), preset="torchvision"), "cuda").machine_code == "only"


def test_a_family_adds_its_own_to_what_all_have() -> None:
    torch = override_of(package(), "rocm")
    assert torch.arguments == {"rocmSupport": True, "gpuTargets": ["@capability@"]}
    assert torch.environment == {"MAX_JOBS": "@jobs@"}
    assert (torch.passthru, torch.capability) == ({}, "LLVM's name of the target.")
    assert (torch.architecture, torch.source_overlay, torch.from_environment) == (True, True, True)
