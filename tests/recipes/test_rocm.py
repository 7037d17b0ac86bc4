"""Recipes for ROCm: nixpkgs' own arguments, and builds that prove their targets."""

from __future__ import annotations

import json
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.plan.lookup import built_variants
from ci_compiler.plan.pipeline import plan
from ci_compiler.plan.rules import judge
from ci_compiler.recipes.judged import differences
from ci_compiler.recipes.render import recipes
from ci_compiler.spec.model import Spec
from tests.checkers import require
from tests.recipes.test_any_package import evaluated, recipe_of
from tests.recipes.test_build_proof import Build, build, output  # noqa: F401
from tests.recipes.test_thin import same_derivations
from tests.specs import HASH, UNKNOWN_PIN, small, spec_of

PACKAGES: dict[str, Any] = {
    "pytorch": {"attribute": "torch"},
    "torchvision": {"needs": ["pytorch"]},
    "torchaudio": {"needs": ["pytorch"]},
    "vllm": {"needs": ["torchvision"], "at": "set"},
    "llama-cpp": {"set": "top"},
}
VERSIONS = {"torchvision": "0.24.1", "vllm": "0.19.0", "llama-cpp": "7268"}
CELL = "python313-rocm6_4-gfx942-avx2"
TORCH = "pytorch-python313-rocm6_4-gfx942-avx2"


def document(*accelerators: str, **packages: dict[str, Any]) -> dict[str, Any]:
    """A spec of packages for these accelerators, on one ISA."""
    chosen = packages or PACKAGES
    main = {
        "nixpkgs": UNKNOWN_PIN,
        "nixpkgs-hash": HASH,
        "versions": {name: VERSIONS.get(name, "2.9.1") for name in chosen},
    }
    values = {"python": "3.13", "isa": "avx2", "accelerator": list(accelerators)}
    pools = {"builder": small()["runners"]["builder"]}
    return small(branches={"main": main}, packages=chosen, matrix={"values": values}, runners=pools)


def spec_with(*accelerators: str, **packages: dict[str, Any]) -> Spec:
    return spec_of(document(*accelerators, **packages))


SPEC = spec_with("cpu", "rocm 6.4 gfx942", "rocm 6.4 gfx90a,gfx1100", "rocm 6.4 gfx950")


def test_nixpkgs_arguments_name_the_target(tmp_path: Path) -> None:
    torch = evaluated(SPEC, TORCH, tmp_path)["recorded"]
    assert torch["gpuTargets"] == ["gfx942"]
    assert 'export CXXFLAGS="-mavx2 -mfma -mf16c $CXXFLAGS"' in torch["preConfigure"]
    assert "$HIPCC_COMPILE_FLAGS_APPEND -Xarch_host -mavx2 -Xarch_host -mfma" in torch["preConfigure"]
    assert (
        "-DCMAKE_HIP_ARCHITECTURES:STRING=gfx942"
        in evaluated(SPEC, f"llama-cpp-{CELL}", tmp_path)["recorded"]["cmakeFlags"]
    )
    vllm = evaluated(SPEC, f"vllm-{CELL}", tmp_path)
    assert vllm["recorded"]["env"] == {"PYTORCH_ROCM_ARCH": "gfx942"}
    assert len(vllm["torches"]) == 1
    for package in ("torchvision", "torchaudio"):
        found = evaluated(SPEC, f"{package}-{CELL}", tmp_path)
        assert found["torches"] == vllm["torches"]
        own = found["recorded"]["preConfigure"]
        assert own.rindex('export PYTORCH_ROCM_ARCH="gfx942"\nexport FORCE_CUDA=1\n') > own.find("gfx1100"), (
            "ours is the last"
        )


def test_several_targets_are_one_list(tmp_path: Path) -> None:
    name = TORCH.replace("gfx942", "gfx90a_gfx1100")
    assert evaluated(SPEC, name, tmp_path)["recorded"]["gpuTargets"] == ["gfx90a", "gfx1100"]


def test_libraries_are_built_for_a_target_that_nixpkgs_does_not_build_for(tmp_path: Path) -> None:
    assert "overrideScope" not in recipe_of(SPEC, TORCH)
    other = TORCH.replace("gfx942", "gfx950")
    assert "localGpuTargets" in recipe_of(SPEC, other)
    plain, alone = (evaluated(SPEC, name, tmp_path)["recorded"]["buildInputs"] for name in (TORCH, other))
    assert plain != alone


def test_packages_without_an_argument_for_targets_get_libraries_for_theirs() -> None:
    spec = spec_with("rocm 6.4 gfx942", mine={"attribute": "xformers"}, torch={})
    assert "localGpuTargets" in recipe_of(spec, f"mine-{CELL}")
    assert "localGpuTargets" not in recipe_of(spec, f"torch-{CELL}")


def test_another_rocm_than_the_specs_ends_the_evaluation(tmp_path: Path) -> None:
    spec = spec_with("rocm 7.1 gfx942", torch={})
    with pytest.raises(subprocess.CalledProcessError) as failed:
        evaluated(spec, "torch-python313-rocm7_1-gfx942-avx2", tmp_path)
    assert "this nixpkgs has ROCm 6.4.3, and the spec says 7.1" in failed.value.stderr


def test_a_cpu_recipe_is_as_without_rocm() -> None:
    name = "pytorch-python313-cpu-avx2"
    text = recipe_of(SPEC, name)
    assert "rocm" not in text
    assert "cudaSupport = false;" in text


def test_thin_recipes_build_what_self_contained_ones_build(tmp_path: Path) -> None:
    assert same_derivations(SPEC, "main", tmp_path) == 20


@pytest.mark.parametrize("accelerator", ["rocm", "rocm 6.4", "rocm gfx942", "rocm 6.4 all", "cuda 12.8"])
def test_a_compiled_recipe_is_for_a_toolkit_and_targets(accelerator: str) -> None:
    (found,) = judge(spec_with(accelerator, torch={})).findings
    family = accelerator.split(maxsplit=1)[0]
    assert f"a compiled recipe for {family} is that of a toolkit and of targets; leave it out" in found.message


@pytest.mark.parametrize(
    ("value", "said"), [("gfx942", ""), ("gfx90a", "PYTORCH_ROCM_ARCH=gfx90a"), ("gfx900;gfx942", "gfx900;gfx942")]
)
def test_a_derivation_is_judged_by_its_targets(value: str, said: str) -> None:
    (built,) = built_variants(plan(SPEC), TORCH)
    found = [*differences(SPEC, built, {"PYTORCH_ROCM_ARCH": value})]
    assert [said in text for text in found] == ([True] if said else [])


ROCM = spec_with("rocm 6.4 gfx942", pytorch={"attribute": "torch"})


def test_the_targets_of_torch_arrive(build: Build) -> None:  # noqa: F811
    cache = (output(build(ROCM, TORCH)) / "CMakeCache.txt").read_text("utf-8")
    assert "CMAKE_CXX_FLAGS:STRING=-mavx2 -mfma -mf16c -Irocm" in cache


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "gpuTargets = [ gpuArchSM ];",
            'gpuTargets = [ "gfx90a" ];',
            "the recipe declares gfx942: nothing is built for gfx942; 1 are built for gfx90a;",
        ),
        (
            "gpuTargets = [ gpuArchSM ];",
            'gpuTargets = [ gpuArchSM "gfx90a" ];',
            "1 are built for gfx90a; the declaration did not arrive",
        ),
        ("export PYTORCH_ROCM_ARCH=", "export OTHER_ARCH=", "nothing is built for gfx942;"),
        ("cpuFlags} $CMAKE_CXX_FLAGS", 'cpuFlags}" "$CMAKE_CXX_FLAGS', ""),
    ],
)
def test_targets_that_do_not_arrive_end_the_build(build: Build, old: str, new: str, said: str) -> None:  # noqa: F811
    done = build(ROCM, TORCH, (old, new))
    assert done.returncode != 0
    assert said in done.stderr


def bundle(*targets: str) -> bytes:
    """A bundle with code for the host and for `targets` (LLVM, "Clang Offload Bundler")."""
    names = [b"host-x86_64-unknown-linux-", *(f"hipv4-amdgcn-amd-amdhsa--{one}".encode() for one in targets)]
    entries = b"".join(struct.pack("<QQQ", 4096, 0, len(name)) + name for name in names)
    return b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(names)) + entries + bytes(4096)


def compressed(*targets: str) -> bytes:
    """The bundle as a frame of zstd after the header of version 3."""
    frame = subprocess.run([require("zstd"), "-qc"], input=bundle(*targets), capture_output=True, check=True).stdout
    return b"CCOB" + struct.pack("<HHQQQ", 3, 1, 32 + len(frame), 4096, 0) + frame + b"\0\x28\xb5\x2f\xfd other bytes"


@pytest.mark.parametrize(
    ("library", "targets", "said"),
    [
        (bundle("gfx942") + bundle("gfx942"), "gfx942", ""),
        (bundle("gfx90a:sramecc+:xnack-", "gfx9-4-generic"), "gfx90a:sramecc+:xnack- gfx9-4-generic", ""),
        (bundle("gfx90a", "gfx942"), "gfx942", "1 are built for gfx90a;"),
        (bundle("gfx90a:xnack-"), "gfx90a", "nothing is built for gfx90a; 1 are built for gfx90a:xnack-;"),
        (b"no code", "gfx942", "nothing is built for gfx942;"),
        (None, "gfx942 gfx1100", ""),
        (None, "gfx942", "2 are built for gfx1100;"),
    ],
)
def test_the_targets_in_libraries_are_read(library: bytes | None, targets: str, said: str, tmp_path: Path) -> None:
    nix, shell, zstd = (require(tool) for tool in ("nix-instantiate", "bash", "zstd"))
    path = ".flox/ci-compiler/shell/built-for-rocm.nix"
    (tmp_path / "f.nix").write_text(recipes(ROCM, judge(ROCM), "main")[path], "utf-8")
    read = subprocess.run([nix, "--eval", "--json", tmp_path / "f.nix"], capture_output=True, check=True)
    (tmp_path / "lib.so").write_bytes(library or b"ELF" + compressed("gfx942", "gfx1100") * 2)
    code = f"""{json.loads(read.stdout)}
        find {tmp_path}/lib.so -exec bash -c 'offloaded "$0" "$1"' {zstd} {{}} \\; | built_for 0 {targets}"""
    done = subprocess.run([shell, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == bool(said)
    assert said in done.stderr
