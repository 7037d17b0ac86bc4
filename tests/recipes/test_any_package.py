"""Compiled recipes of packages other than torch: they evaluate with functions that take nixpkgs' arguments.

`nixpkgs/` declares functions with exactly the arguments of nixpkgs' own (each file names its source), so an argument
that nixpkgs does not know fails the evaluation here as it does there.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.plan.rules import judge
from ci_compiler.recipes.render import recipes
from ci_compiler.spec.model import Spec
from tests.checkers import require
from tests.specs import MAIN, small, spec_of

NIXPKGS = Path(__file__).parent / "nixpkgs"
EVALUATE = """
{ recipe, nixpkgs }:
let
  scope = { builtins = builtins // { inherit fetchTarball; }; import = imported; };
  fetchTarball = _: nixpkgs;
  imported = path: if path == nixpkgs then import path else builtins.scopedImport scope path;
  drv = imported recipe { };
  closure = one: [ one ] ++ builtins.concatMap closure (one.dependencies or [ ]);
  torches = builtins.filter (one: one.isTorch or false) (closure drv);
  nameOf = one: { name = builtins.unsafeDiscardStringContext (baseNameOf one.drvPath); value = null; };
in
{
  inherit (drv) recorded drvPath;
  torches = builtins.attrNames (builtins.listToAttrs (map nameOf torches));
  blas = drv.blasProvider or null;
  inner = drv.onnxruntime.recorded or null;
}
"""

TORCH = {"attribute": "torch"}
CPU, GPU = "python313-cpu-avx2", "python313-cuda12_8-sm90-avx2"


def spec_with(packages: dict[str, Any], **changes: Any) -> Spec:
    """The small spec with these packages in place of its own, on one ISA."""
    main = MAIN | {"versions": dict.fromkeys(packages, "1.0")} | changes.pop("main", {})
    matrix = {"python": ["3.13"], "isas": {"x86_64-linux": ["avx2"]}, "gpus": {"cpu": {}, "sm90": {}}}
    return spec_of(small(packages=packages, branches={"main": main}, **({"matrix": matrix} | changes)))


def evaluated(spec: Spec, name: str, folder: Path) -> dict[str, Any]:
    """What the recipe of the variant `name` evaluates to. Raises CalledProcessError."""
    for path, text in recipes(spec, judge(spec), "main").items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")
    return evaluated_in(folder, name)


def evaluated_in(folder: Path, name: str) -> dict[str, Any]:
    """What the recipe of the variant `name` in the repository at `folder` evaluates to. Raises CalledProcessError."""
    nix = require("nix-instantiate")
    (folder / "evaluate.nix").write_text(EVALUATE, "utf-8")
    command = [nix, "--eval", "--strict", "--json", "--store", "dummy://", str(folder / "evaluate.nix")]
    command += ["--arg", "recipe", str(folder / f".flox/pkgs/{name}.nix"), "--arg", "nixpkgs", str(NIXPKGS)]
    found: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return found


def recipe_of(spec: Spec, name: str) -> str:
    return recipes(spec, judge(spec), "main", self_contained=True)[f".flox/pkgs/{name}.nix"]


def test_flash_attn_takes_its_architectures_from_the_environment(tmp_path: Path) -> None:
    packages = {
        "pytorch": TORCH,
        "flash-attn": {"needs": ["pytorch"], "environment": {"FLASH_ATTN_CUDA_ARCHS": "@sm@", "NVCC_THREADS": 2}},
    }
    spec = spec_with(packages)
    found = evaluated(spec, f"flash-attn-{GPU}", tmp_path)
    lines = found["recorded"]["preConfigure"].splitlines()
    assert lines[-5:-2] == ["export MAX_JOBS=32", "export FLASH_ATTN_CUDA_ARCHS=90", "export NVCC_THREADS=2"]
    assert 'export CXXFLAGS="-mavx2 -mfma' in found["recorded"]["preConfigure"]
    assert len(found["torches"]) == 1
    cpu = evaluated(spec, f"flash-attn-{CPU}", tmp_path)["recorded"]["preConfigure"]
    assert "FLASH_ATTN_CUDA_ARCHS" not in cpu, "a CPU build leaves out what names the GPU"
    assert "export NVCC_THREADS=2" in cpu
    assert "cudaCapabilities" not in recipe_of(spec, f"flash-attn-{GPU}")


def test_a_recipe_adds_to_what_nixpkgs_asks_of_a_builder(tmp_path: Path) -> None:
    packages = {"pytorch": TORCH | {"attributes": {"requiredSystemFeatures": ["big-parallel", "gccarch-znver4"]}}}
    found = evaluated(spec_with(packages), f"pytorch-{CPU}", tmp_path)
    assert found["recorded"]["requiredSystemFeatures"] == ["big-parallel", "gccarch-znver4"]
    only = {"pytorch": TORCH | {"attributes": {"requiredSystemFeatures": ["gccarch-znver4"]}}}
    found = evaluated(spec_with(only), f"pytorch-{CPU}", tmp_path)
    assert found["recorded"]["requiredSystemFeatures"] == ["big-parallel", "gccarch-znver4"]


def test_allow_broken_is_for_the_package_alone(tmp_path: Path) -> None:
    spec = spec_with({"pytorch": TORCH}, main={"allow-broken": True})
    assert evaluated(spec, f"pytorch-{GPU}", tmp_path)["recorded"]["meta"]["broken"] is False
    assert "allowBroken" not in recipe_of(spec, f"pytorch-{GPU}")
    assert "broken" not in recipe_of(spec_with({"pytorch": TORCH}), f"pytorch-{GPU}")


def test_what_nixpkgs_says_of_the_blas_stays(tmp_path: Path) -> None:
    found = evaluated(spec_with({"pytorch": TORCH}), f"pytorch-{CPU}", tmp_path)
    assert found["blas"] == "the derivation of nixpkgs"


VLLM = {
    "pytorch": TORCH,
    "torchvision": {"needs": ["pytorch"]},
    "vllm": {"needs": ["torchvision"], "at": "set", "arguments": {"gpuTargets": ["@capability@"]}},
}


def test_vllm_in_the_package_set_has_one_torch(tmp_path: Path) -> None:
    spec = spec_with(VLLM)
    found = evaluated(spec, f"vllm-{GPU}", tmp_path)
    torch = evaluated(spec, f"pytorch-{GPU}", tmp_path)
    assert "-DTORCH_CUDA_ARCH_LIST:STRING=9.0" in found["recorded"]["cmakeFlags"]
    assert found["recorded"]["pname"] == f"vllm-{GPU}"
    assert [Path(torch["drvPath"]).name] == found["torches"]
    assert evaluated(spec, f"torchvision-{GPU}", tmp_path)["torches"] == found["torches"]
    assert evaluated(spec, f"vllm-{CPU}", tmp_path)["torches"] != found["torches"]


def test_vllm_at_the_leaf_has_the_torch_of_the_set_as_well(tmp_path: Path) -> None:
    """What `at: set` is for: xformers comes from the set, with the set's torch."""
    leaf = VLLM | {"vllm": {"needs": ["pytorch", "torchvision"], "arguments": {"gpuTargets": ["@capability@"]}}}
    assert len(evaluated(spec_with(leaf), f"vllm-{GPU}", tmp_path)["torches"]) == 2


def test_jaxlib_takes_its_architecture_from_the_general_switch(tmp_path: Path) -> None:
    spec = spec_with({"jaxlib": {"arguments": {"mklSupport": False}}})
    found = evaluated(spec, f"jaxlib-{GPU}", tmp_path)["recorded"]
    assert found["TF_CUDA_COMPUTE_CAPABILITIES"] == ["sm_90"]
    assert found["mklSupport"] is False
    assert evaluated(spec, f"jaxlib-{CPU}", tmp_path)["recorded"]["TF_CUDA_COMPUTE_CAPABILITIES"] == []


LLAMA = {"set": "top", "arguments": {"rpcSupport": True}, "cmake-flags": ["-DCMAKE_CUDA_ARCHITECTURES=@sm@"]}


@pytest.mark.parametrize(
    ("cores", "jobs", "shell"), [("8", "8", "bash"), ("24", "24", "bash"), ("96", "24", "bash"), ("96", "24", "sh")]
)
def test_a_build_runs_as_many_compilers_as_cores_and_jobs_allow(
    tmp_path: Path, cores: str, jobs: str, shell: str
) -> None:
    spec = spec_with({"pytorch": TORCH, "flash-attn": {"needs": ["pytorch"], "jobs": 24}})
    code = evaluated(spec, f"flash-attn-{CPU}", tmp_path)["recorded"]["preConfigure"]
    script = f"set -eu; CXXFLAGS= CFLAGS=\n{code}\nenv"
    env = {"NIX_BUILD_CORES": cores, "PATH": os.environ["PATH"]}
    ended = subprocess.run([shell, "-c", script], env=env, capture_output=True, text=True, check=True)
    assert {f"MAX_JOBS={jobs}", f"NIX_BUILD_CORES={jobs}"} <= set(ended.stdout.splitlines())


def test_llama_cpp_of_the_top_level_takes_a_cmake_flag(tmp_path: Path) -> None:
    spec = spec_with({"llama-cpp": LLAMA})
    found = evaluated(spec, f"llama-cpp-{GPU}", tmp_path)["recorded"]
    assert found["cmakeFlags"][1:] == ["-DCMAKE_CUDA_ARCHITECTURES:STRING=80;90", "-DCMAKE_CUDA_ARCHITECTURES=90"]
    assert found["rpcSupport"] is True
    assert "ninjaFlags" not in found  # nixpkgs' hook passes -j$NIX_BUILD_CORES
    assert "blasProvider" not in recipe_of(spec, f"llama-cpp-{GPU}")
    assert "cmakeFlags" not in recipe_of(spec, f"llama-cpp-{CPU}")
    in_the_set = spec_with({"llama-cpp": LLAMA | {"at": "set"}})
    assert evaluated(in_the_set, f"llama-cpp-{GPU}", tmp_path)["recorded"] == found


def test_an_argument_keeps_the_hashes_of_cuda_libraries_and_the_switch_does_not(tmp_path: Path) -> None:
    def libraries(**changes: Any) -> list[str]:
        spec = spec_with({"llama-cpp": LLAMA | {"arguments": {}} | changes})
        return list(evaluated(spec, f"llama-cpp-{GPU}", tmp_path)["recorded"]["buildInputs"])

    unset = libraries()
    assert libraries(arguments={"rpcSupport": True}) == unset
    assert libraries(capabilities=True) != unset


def test_onnxruntime_of_the_python_set_is_built_for_the_switch(tmp_path: Path) -> None:
    spec = spec_with({"onnxruntime": {}})
    found = evaluated(spec, f"onnxruntime-{GPU}", tmp_path)
    assert found["inner"]["cmakeFlags"] == ["-DCMAKE_CUDA_ARCHITECTURES:STRING=90"]
    assert found["inner"]["pythonSupport"] is True
    other = spec_with({"onnxruntime": {"arguments": {"onnxruntime": "@pkgs.onnxruntime@"}}})
    assert evaluated(other, f"onnxruntime-{GPU}", tmp_path)["inner"]["pythonSupport"] is True


@pytest.mark.parametrize(
    ("package", "argument"),
    [
        ("flash-attn", "cudaSupport"),
        ("jaxlib", "gpuTargets"),
        ("llama-cpp", "gpuTargets"),
        ("onnxruntime", "cudaSupport"),
    ],
)
def test_an_argument_that_nixpkgs_does_not_know_fails_the_evaluation(
    package: str, argument: str, tmp_path: Path
) -> None:
    where = "top" if package == "llama-cpp" else "python"
    spec = spec_with({package: {"set": where, "arguments": {argument: True}}})
    with pytest.raises(subprocess.CalledProcessError) as failed:
        evaluated(spec, f"{package}-{GPU}", tmp_path)
    assert f"called with unexpected argument '{argument}'" in failed.value.stderr


def test_values_of_the_spec_are_written_as_nix(tmp_path: Path) -> None:
    attributes = {"doCheck": False, "list": ["a'' ${b}", -1, None, {"c d": "@isa@ @@isa@@"}], "gpu": {"only": "@gpu@"}}
    llama = LLAMA | {
        "attributes": attributes,
        "environment": {"TEXT": "it's ${x} '' $Y"},
        "inputs": {"buildInputs": ["onnxruntime", "@python-tag@Packages.torch"]},
    }
    spec = spec_with({"llama-cpp": llama, "pytorch": TORCH})
    found = evaluated(spec, f"llama-cpp-{GPU}", tmp_path)["recorded"]
    assert (found["doCheck"], found["only"]) == (False, "sm90")
    assert found["list"] == ["a'' ${b}", -1, None, {"c d": "avx2 @isa@"}]
    shell = found["preConfigure"] + '\nprintf %s "$TEXT"'
    assert subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True).stdout == "it's ${x} '' $Y"
    assert [path.partition("-")[2] for path in found["buildInputs"]] == ["nccl-0", "onnxruntime-1.22.2", "torch-2.8.0"]
    assert "only" not in evaluated(spec, f"llama-cpp-{CPU}", tmp_path)["recorded"]


def test_an_own_work_around_and_an_overlay_apply(tmp_path: Path) -> None:
    fix = {
        "why": "The tests of @package@ need a GPU.",
        "packages": ["llama-cpp"],
        "build": "gpu",
        "overlay": "(final: prev: {\n  llama-cpp = prev.llama-cpp.override { rpcSupport = false; };\n})\n",
        "cmake": ["-DTESTS=OFF"],
        "exports": {"ARCH": '"${gpuArchSM}"'},
        "pre-configure": "echo @capability@\n",
    }
    packages = {"llama-cpp": {"set": "top", "overlays": ["nix/blas.nix"]}, "jaxlib": {}}
    spec = spec_with(packages, main={"work-arounds": ["no-tests"]}, **{"work-arounds": {"no-tests": fix}})
    (tmp_path / "nix").mkdir()
    overlay = "final: prev: { llama-cpp = prev.llama-cpp.override { blasSupport = true; }; }\n"
    (tmp_path / "nix/blas.nix").write_text(overlay, "utf-8")
    found = evaluated(spec, f"llama-cpp-{GPU}", tmp_path)["recorded"]
    assert (found["rpcSupport"], found["blasSupport"]) == (False, True)
    assert found["cmakeFlags"][-1] == "-DTESTS=OFF"
    assert found["preConfigure"].endswith('# The tests of llama-cpp need a GPU.\nexport ARCH="9.0"\necho 9.0\n')
    for other in (f"llama-cpp-{CPU}", f"jaxlib-{GPU}"):
        assert "TESTS" not in recipe_of(spec, other)


@pytest.mark.parametrize(
    ("gpu", "cuda", "sets"),
    [("sm90", "12.8", False), ("sm61", "12.8", True), ("sm110", "13.0", True), ("sm75", "13.0", False)],
)
def test_the_switch_is_set_where_nixpkgs_does_not_build_for_the_gpu_unasked(gpu: str, cuda: str, sets: bool) -> None:
    """sm61 left the defaults after CUDA 12.3, and Jetson's are never among them: NCCL and MAGMA would lack them."""
    arm = gpu == "sm110"
    system, isa = ("aarch64-linux", "armv9") if arm else ("x86_64-linux", "avx2")
    matrix = {"python": ["3.13"], "isas": {system: [isa]}, "gpus": {gpu: {}}}
    spec = spec_with({"pytorch": TORCH}, main={"cuda": cuda}, matrix=matrix)
    name = f"pytorch-python313-cuda{cuda.replace('.', '_')}-{gpu}-{isa}"

    def config(spec: Spec) -> str:
        """The recipe up to the package, whose passthru has the capabilities in any case."""
        return recipe_of(spec, name).partition("\nin\n")[0]

    assert ("cudaCapabilities = [ gpuArchSM ];" in config(spec)) is sets
    for capabilities in (True, False):
        said = spec_with({"pytorch": TORCH | {"capabilities": capabilities}}, main={"cuda": cuda}, matrix=matrix)
        assert ("cudaCapabilities" in config(said)) is capabilities


def test_one_build_for_all_gpus_names_each_of_the_toolkit(tmp_path: Path) -> None:
    """Jetson is left out, because nixpkgs does not mix it with others; sm61 is not among nixpkgs' defaults."""
    matrix = {"python": ["3.13"], "isas": {"x86_64-linux": ["avx2"]}, "gpus": {"all": {}}}
    spec = spec_with({"pytorch": TORCH, "llama-cpp": LLAMA | {"capabilities": False}}, matrix=matrix)
    found = evaluated(spec, "pytorch-python313-cuda12_8-all-avx2", tmp_path)["recorded"]
    named = found["gpuTargets"]
    assert {"6.1", "9.0", "12.0"} <= set(named)
    assert not {"11.0", "8.7", "10.3"} & set(named)
    text = recipe_of(spec, "pytorch-python313-cuda12_8-all-avx2")
    assert f"cudaCapabilities = [ {' '.join(json.dumps(one) for one in named)} ];" in text
    llama = evaluated(spec, "llama-cpp-python313-cuda12_8-all-avx2", tmp_path)["recorded"]
    numbers = ";".join(one.replace(".", "") for one in named)
    assert llama["cmakeFlags"][-1] == f"-DCMAKE_CUDA_ARCHITECTURES={numbers}"
