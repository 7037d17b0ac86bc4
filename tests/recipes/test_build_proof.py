"""Recipes that are built by Nix: a build proves that its switches arrived, and ends where one did not.

`buildable/` is a nixpkgs whose torch hands switches to CMake as nixpkgs' own does, with a small CMake project in place
of PyTorch, and a program in place of NVIDIA's cuobjdump.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.plan.rules import judge
from ci_compiler.recipes.render import recipes
from ci_compiler.spec.model import Spec
from tests.checkers import require
from tests.specs import MAIN, small, spec_of

BUILDABLE = Path(__file__).parent / "buildable"
EXPRESSION = """
{ recipe, nixpkgs }:
let
  scope = { builtins = builtins // { fetchTarball = _: nixpkgs; }; import = imported; };
  imported = path: if path == nixpkgs then import path else builtins.scopedImport scope path;
in
imported recipe { }
"""
TORCH, MINI = "pytorch-python313", "mini-python313"


def spec_with(packages: dict[str, Any]) -> Spec:
    """A spec of these packages for sm61 and CPUs, with AVX and AVX2."""
    main = MAIN | {"versions": {"pytorch": "2.8.0", "torchvision": "0.23.0", "mini": "1.0"}}
    main["versions"] = {name: main["versions"][name] for name in packages}
    matrix = {"python": ["3.13"], "isas": {"x86_64-linux": ["avx2"]}, "gpus": {"cpu": {}, "sm61": {"isas": ["avx"]}}}
    return spec_of(small(packages=packages, branches={"main": main}, matrix=matrix))


SPEC = spec_with({"pytorch": {"attribute": "torch"}, "torchvision": {"needs": ["pytorch"]}})
SWITCHED = spec_with({"mini": {"set": "top", "cmake-flags": ["-DMINI_SWITCH:BOOL=OFF", "-Wno-dev"]}})

Build = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Builds a variant's recipe with nix-build, after texts of it or of nixpkgs were replaced.

    The store is the same for all tests, so that a torch that nobody changed is built once.
    """
    tmp_path = tmp_path_factory.mktemp("builds")
    nix, shell = require("nix-build"), require("bash")
    for tool in ("cmake", "ninja", "c++"):
        require(tool)
    assert shell
    nixpkgs = tmp_path / "nixpkgs"
    shutil.copytree(BUILDABLE, nixpkgs)
    folders = {"STORE": "store", "STATE": "var/nix", "LOG": "var/log", "CONF": "etc"}
    env = {f"NIX_{name}_DIR": str(tmp_path / "nix" / folder) for name, folder in folders.items()}
    env |= {"NIX_REMOTE": "", "NIX_CONFIG": "build-users-group =\nsandbox = false\nsubstituters =\n"}

    def built(spec: Spec, name: str, *replaced: tuple[str, str]) -> subprocess.CompletedProcess[str]:
        texts = {nixpkgs / "default.nix": (BUILDABLE / "default.nix").read_text("utf-8")}
        texts |= {tmp_path / path: text for path, text in recipes(spec, judge(spec), "main").items()}
        for old, new in replaced:
            assert any(old in text for text in texts.values()), old
            texts = {path: text.replace(old, new) for path, text in texts.items()}
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        (tmp_path / "build.nix").write_text(EXPRESSION, "utf-8")
        recipe = str(tmp_path / f".flox/pkgs/{name}.nix")
        command = [nix, "--no-out-link", str(tmp_path / "build.nix"), "--cores", "4"]
        command += ["--arg", "recipe", recipe, "--arg", "nixpkgs", str(nixpkgs)]
        return subprocess.run(command, env=os.environ | env, capture_output=True, text=True, check=False)

    return built


def output(done: subprocess.CompletedProcess[str]) -> Path:
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def test_the_switches_of_torch_arrive_and_its_heavy_targets_are_in_a_pool(build: Build) -> None:
    out = output(build(SPEC, f"{TORCH}-cuda12_8-sm61-avx"))
    cache = (out / "CMakeCache.txt").read_text("utf-8")
    assert {"USE_CUDNN:BOOL=0", "USE_FBGEMM:BOOL=0", "CXX_AVX2_FOUND:BOOL=FALSE"} <= set(cache.splitlines())
    assert "CMAKE_CXX_FLAGS:STRING=-mavx " in cache
    ninja = (out / "build.ninja").read_text("utf-8")
    depth = re.search(r"pool heavy\n  depth = (\d+)", (out / "rules.ninja").read_text("utf-8"))
    assert depth is not None
    assert 1 <= int(depth[1]) <= 4
    compiled = re.findall(r"^build (?!.*\bphony\b)[^:]*/(\w+)\.dir/\S+\.o: .*\n((?:  .*\n)+)", ninja, re.MULTILINE)
    assert {name: "pool = heavy" in lines for name, lines in compiled} == {
        "torch_cpu": False,
        "torch_cuda": True,
        "flash_attention": True,
    }
    output(build(SPEC, f"{TORCH}-cpu-avx2"))


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        (
            f"{TORCH}-cuda12_8-sm61-avx",
            "^(BUILD|USE|CMAKE)_",
            "^(BUILD|CMAKE)_",
            "the recipe sets USE_CUDNN to 0, and build/CMakeCache.txt has ON: the switch did not arrive",
        ),
        (
            f"{TORCH}-cuda12_8-sm61-avx",
            'sed -i "1i set(CXX_',
            'true "1i set(CXX_',
            "the recipe sets CXX_AVX2_FOUND to FALSE, and build/CMakeCache.txt has TRUE",
        ),
        (
            f"{TORCH}-cpu-avx2",
            "export MAX_JOBS=$NIX_BUILD_CORES",
            "export CXXFLAGS=-O2",
            "the recipe sets CMAKE_CXX_FLAGS to -mavx2 -mfma -mf16c, and build/CMakeCache.txt has -O2",
        ),
        (
            f"{TORCH}-cuda12_8-sm61-avx",
            "gpuTargets = [ gpuArchSM ];",
            "",
            "the recipe declares sm_61: nothing is built for sm_61;",
        ),
        (
            f"{TORCH}-cuda12_8-sm61-avx",
            "gpuTargets = [ gpuArchSM ];",
            'gpuTargets = [ gpuArchSM "9.0" ];',
            "are built for sm_90; the declaration did not arrive",
        ),
        (
            "torchvision-python313-cuda12_8-sm61-avx",
            'preBuild = "cmake',
            'preBuild = "export TORCH_CUDA_ARCH_LIST=9.0; cmake',
            "the recipe declares sm_61: nothing is built for sm_61;",
        ),
        (
            "torchvision-python313-cuda12_8-sm61-avx",
            'preBuild = "cmake',
            "preBuild = \"export TORCH_CUDA_ARCH_LIST='6.1;9.0'; cmake",
            "are built for sm_90; the declaration did not arrive",
        ),
    ],
)
def test_a_switch_that_does_not_arrive_ends_the_build(build: Build, name: str, old: str, new: str, said: str) -> None:
    done = build(SPEC, name, (old, new))
    assert done.returncode != 0
    assert "ci-compiler: " in done.stderr
    assert said in done.stderr


def test_torchvision_has_machine_code_for_its_architecture(build: Build) -> None:
    output(build(SPEC, "torchvision-python313-cuda12_8-sm61-avx"))


def test_cmake_flags_of_any_package_arrive_or_end_the_build(build: Build) -> None:
    cache = (output(build(SWITCHED, "mini-python313-cpu-avx2")) / "CMakeCache.txt").read_text("utf-8")
    assert "MINI_SWITCH:BOOL=OFF" in cache
    inert = build(SWITCHED, "mini-python313-cpu-avx2", ('cmakeFlags = [ "-GNinja" ]', "dontUseCmakeConfigure = true"))
    assert "the recipe sets MINI_SWITCH to OFF, and build/CMakeCache.txt has nothing" in inert.stderr
    overridden = ('cmakeFlags = [ "-GNinja" ]', 'cmakeFlags = [ "-GNinja" ]; preBuild = "cmake . -DMINI_SWITCH=ON"')
    assert (
        "the recipe sets MINI_SWITCH to OFF, and CMakeCache.txt has ON"
        in build(SWITCHED, "mini-python313-cpu-avx2", overridden).stderr
    )
