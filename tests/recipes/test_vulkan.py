"""Recipes for Vulkan: nixpkgs' own arguments, no targets, and builds that prove the switch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ci_compiler.plan.rules import judge
from ci_compiler.recipes.render import recipes
from ci_compiler.spec.model import Spec
from tests.recipes.test_any_package import evaluated, recipe_of
from tests.recipes.test_build_proof import Build, build, output  # noqa: F401
from tests.recipes.test_rocm import document
from tests.recipes.test_thin import same_derivations
from tests.specs import HASH, UNKNOWN_PIN, small, spec_of

PACKAGES: dict[str, Any] = {
    "pytorch": {"attribute": "torch"},
    "torchvision": {"needs": ["pytorch"]},
    "llama-cpp": {"set": "top", "cmake-flags": ["-DCMAKE_CUDA_ARCHITECTURES=@sm@", "-DGGML_RPC=ON"]},
    "whisper-cpp": {"set": "top"},
}
CELL = "python313-vulkan-avx2"


def spec_with(*accelerators: str, **packages: dict[str, Any]) -> Spec:
    return spec_of(document(*accelerators, **packages))


SPEC = spec_with("cpu", "vulkan", "cuda 12.8 sm90", **PACKAGES)


def test_nixpkgs_argument_turns_it_on(tmp_path: Path) -> None:
    for package in ("llama-cpp", "whisper-cpp"):
        on, off = (evaluated(SPEC, f"{package}-{cell}", tmp_path)["recorded"] for cell in (CELL, "python313-cpu-avx2"))
        assert "-DGGML_VULKAN:BOOL=TRUE" in on["cmakeFlags"]
        assert "-DGGML_VULKAN:BOOL=FALSE" in off["cmakeFlags"]
        assert on["buildInputs"] != off["buildInputs"]
    torch = evaluated(SPEC, f"pytorch-{CELL}", tmp_path)
    assert torch["recorded"]["env"] == {"USE_VULKAN": "1"}
    assert evaluated(SPEC, f"torchvision-{CELL}", tmp_path)["torches"] == torch["torches"]


def test_a_recipe_names_neither_a_toolkit_nor_a_target() -> None:
    for package in PACKAGES:
        text = recipe_of(SPEC, f"{package}-{CELL}")
        assert "Support = true; }" in text or "inherit torch" in text
        assert not any(word in text for word in ("gpuTargets", "cuda", "CUDA", "gpuArchSM", "overlays", "@"))
        assert "GPU: each with Vulkan" in text
    assert 'cmakeFlags = (old.cmakeFlags or [ ]) ++ [ "-DGGML_RPC=ON" ]' in recipe_of(SPEC, f"llama-cpp-{CELL}")
    assert "-DCMAKE_CUDA_ARCHITECTURES=90" in recipe_of(SPEC, "llama-cpp-python313-cuda12_8-sm90-avx2")


def test_thin_recipes_build_what_self_contained_ones_build(tmp_path: Path) -> None:
    assert same_derivations(SPEC, "main", tmp_path) == 12


@pytest.mark.parametrize("platform", ["x86_64-linux", "aarch64-linux"])
def test_a_package_of_no_python_needs_no_axis_for_it(platform: str, tmp_path: Path) -> None:
    main = {"nixpkgs": UNKNOWN_PIN, "nixpkgs-hash": HASH, "versions": {"llama-cpp": "7268"}}
    pools = {"arm": {"runs-on": ["self-hosted", "linux", "arm64", "b"]}, **small()["runners"]}
    matrix = {"values": {"platform": ["x86_64-linux", "aarch64-linux"], "accelerator": ["cpu", "vulkan"]}}
    only = {"llama-cpp": {"set": "top"}}
    spec = spec_of(small(branches={"main": main}, packages=only, matrix=matrix, runners=pools))
    judged = judge(spec)
    assert "backend-cannot" not in {one.code for one in judged.findings}
    written = recipes(spec, judged, "main")
    assert {".flox/ci-compiler/llama-cpp-vulkan.nix", ".flox/ci-compiler/llama-cpp-cpu.nix"} <= {*written}
    found = evaluated(spec, f"llama-cpp-vulkan-{platform}", tmp_path)["recorded"]
    assert found["meta"]["platforms"] == [platform]
    assert "-DGGML_VULKAN:BOOL=TRUE" in found["cmakeFlags"]


@pytest.mark.parametrize(
    ("accelerator", "said"),
    [("vulkan 1.3", "a compiled recipe for vulkan is that of no toolkit; leave it out"), ("vulkan", "")],
)
def test_a_recipe_is_that_of_no_toolkit(accelerator: str, said: str) -> None:
    found = judge(spec_with(accelerator, **{"llama-cpp": {"set": "top"}})).findings
    assert [said in one.message for one in found] == [True] * bool(said)


GGML = spec_with("vulkan", **{"llama-cpp": {"set": "top"}})


def test_the_switch_arrives_and_what_the_build_runs_does_not_need_the_isa(build: Build) -> None:  # noqa: F811
    out = output(build(GGML, f"llama-cpp-{CELL}"))
    assert "GGML_VULKAN:BOOL=TRUE" in (out / "CMakeCache.txt").read_text("utf-8")
    assert "CMAKE_CXX_FLAGS:STRING=-mavx2 -mfma -mf16c" in (out / "CMakeCache.txt").read_text("utf-8")
    assert "CMAKE_CXX_FLAGS:STRING=\n" in (out / "shaders-gen.txt").read_text("utf-8")


def test_an_isa_without_flags_leaves_those_of_nixpkgs(build: Build) -> None:  # noqa: F811
    """As nixpkgs' llama.cpp on a Mac, which has a flag of its own in CMAKE_C_FLAGS."""
    main = {"nixpkgs": UNKNOWN_PIN, "nixpkgs-hash": HASH, "versions": {"llama-cpp": "7268"}}
    matrix = {"values": {"platform": "x86_64-linux", "accelerator": ["vulkan"]}}
    only = {"llama-cpp": {"set": "top"}}
    pools = {"builder": small()["runners"]["builder"]}
    spec = spec_of(small(branches={"main": main}, packages=only, matrix=matrix, runners=pools))
    flags = ('"-GNinja" "-DGGML', '"-GNinja" "-DCMAKE_C_FLAGS=-DDOTPROD=1" "-DGGML')
    cache = (output(build(spec, "llama-cpp-vulkan-x86_64-linux", flags)) / "CMakeCache.txt").read_text("utf-8")
    assert "CMAKE_C_FLAGS:STRING=-DDOTPROD=1" in cache


def test_a_switch_that_does_not_arrive_ends_the_build(build: Build) -> None:  # noqa: F811
    done = build(GGML, f"llama-cpp-{CELL}", ("vulkanSupport = true;", "vulkanSupport = false;"))
    assert done.returncode != 0
    assert "the recipe sets GGML_VULKAN to ON, and CMakeCache.txt has FALSE: the switch did not arrive" in done.stderr
