"""Recipes of all kinds, evaluated by the real Nix against the stand-in for nixpkgs."""

from __future__ import annotations

import resource
import shutil
from pathlib import Path
from textwrap import dedent

import pytest

from ci_compiler.adoption.evaluator import EvaluatedSource, Fetch, Patch, evaluate, find_recipes
from tests.adoption.helpers import AVX512, CASES, NIXPKGS, PIN, TORCH_ARCHIVE, needs_nix, one, problem, the_case
from tests.processes import MINUTES


@needs_nix
def test_gpu_recipe_is_recorded_in_full() -> None:
    torch = the_case("cuda-13_0")["pytorch-python313-cuda13_0-sm90-avx512"]
    assert (torch.package, torch.attribute, torch.python) == ("torch", "python3Packages.torch", "3.13")
    assert (torch.pname, torch.version, torch.system) == (
        "pytorch210-python313-cuda13_0-sm90-avx512", "2.10.0", "x86_64-linux",
    )  # fmt: skip
    assert torch.name == f"python3.13-{torch.pname}-{torch.version}"
    assert torch.drv_path.endswith(f"-{torch.name}.drv")
    assert torch.platforms == ("x86_64-linux",)
    assert torch.description == "PyTorch 2.10 for NVIDIA Hopper (SM90) with AVX-512"
    assert "H100, H200" in torch.long_description
    assert (torch.pin, torch.pins) == (PIN, (PIN,))
    assert torch.config == {"allowUnfree": True, "allowBroken": True, "cudaSupport": True}
    assert torch.overlays == (("cudaPackages",), ("magma",), ("python3Packages",))
    assert (torch.toolkit_attribute, torch.toolkit_version, torch.toolkit_support) == ("cudaPackages_13", "13.0", True)
    assert torch.override == {"cudaSupport": True, "gpuTargets": ["9.0"]}
    assert torch.gpu_targets == ("9.0",)


@needs_nix
def test_gpu_recipe_build_is_recorded_in_full() -> None:
    torch = the_case("cuda-13_0")["pytorch-python313-cuda13_0-sm90-avx512"]
    assert torch.ninja_flags == ("-j32",)
    assert torch.required_system_features == ("big-parallel",)
    assert torch.cmake_flags[:2] == ("-DTORCH_BUILD_VERSION=2.10.0", "-DCUDA_VERSION=13.0")
    assert torch.env == {"PYTORCH_BUILD_VERSION": "2.10.0"}
    assert torch.flags["CXXFLAGS"] == torch.flags["CFLAGS"] == (*AVX512, "-I/build/cccl-compat")
    assert torch.flags["CUDAFLAGS"] == ("-I/build/cccl-compat",)
    assert torch.exports["CXXFLAGS"].endswith(" $CXXFLAGS")  # at the front
    assert torch.max_jobs == "32"
    assert "NOT_A_VARIABLE" not in torch.exports
    assert torch.passthru == {"gpuArch": "sm90", "cpuISA": "avx512", "blasProvider": "cublas"}
    assert "cuda_cccl-13.0/include/$part" in str(torch.attributes["postPatch"])
    assert torch.sources == (
        EvaluatedSource(
            name="source", fetcher="fetchFromGitHub", owner="pytorch", repo="pytorch", rev="v2.10.0", submodules=True,
            url="https://github.com/pytorch/pytorch/archive/v2.10.0.tar.gz",
            hash="sha256-RKiZLHBCneMtZKRgTEuW1K7+Jpi+tx11BMXuS1jC1xQ=",
        ),
    )  # fmt: skip
    assert torch.overlaid["cudaPackages"].toolkit == "cudaPackages_13"
    assert torch.overlaid["magma"].patches == (
        Patch(
            name="cuda-13.0-clockrate-fix.patch",
            url="https://github.com/icl-utk-edu/magma/commit/235aefb7b064954fce09d035c69907ba8a87cbcd.patch",
            hash="sha256-i9InbxD5HtfonB/GyF9nQhFmok3jZ73RxGcIciGBGvU=",
        ),
    )
    assert {"src", "version", "pname"} <= set(torch.sets)


@needs_nix
def test_places_are_where_things_are_written() -> None:
    torch = the_case("cuda-13_0")["pytorch-python313-cuda13_0-sm90-avx512"]
    lines = torch.path.read_text(encoding="utf-8").splitlines()
    for name, text in {
        "pname": 'pname = "pytorch210',
        "override.gpuTargets": "gpuTargets =",
        "meta.platforms": "platforms =",
        "passthru.gpuArch": "gpuArch =",
        "config.cudaSupport": "cudaSupport =",
        "nixpkgs.overlays": "overlays =",
        "env.PYTORCH_BUILD_VERSION": "PYTORCH_BUILD_VERSION =",
    }.items():
        place = torch.places[name]
        assert place.file == str(torch.path)
        assert lines[place.line - 1][place.column - 1 :].startswith(text)


@needs_nix
def test_cpu_recipe() -> None:
    torch = the_case("cuda-13_0")["pytorch-python313-cpu-avx"]
    assert not torch.toolkit_support
    assert torch.config == {"allowUnfree": True}
    assert torch.ninja_flags == ("-j32", "-k", "1")
    assert torch.cmake_flags == ("-DUSE_NNPACK=OFF",)  # added by a hook
    assert torch.flags["CXXFLAGS"] == ("-mavx", "-mno-fma", "-mno-bmi", "-mno-bmi2", "-mno-avx2")
    assert {name: torch.exports[name] for name in ("USE_MKLDNN", "USE_FBGEMM", "USE_NNPACK")} == {
        "USE_MKLDNN": "0", "USE_FBGEMM": "0", "USE_NNPACK": "0",
    }  # fmt: skip
    assert torch.attributes == {"USE_MKLDNN": 0, "hardeningDisable": ["fortify3"]}
    assert torch.sources == ()  # nixpkgs' own
    assert "src" not in torch.sets


@needs_nix
def test_vision_uses_the_torch_of_its_folder() -> None:
    case = the_case("cuda-13_0")
    torch = case["pytorch-python313-cuda13_0-sm90-avx512"]
    vision = case["torchvision-python313-cuda13_0-sm90-avx512"]
    assert (vision.package, vision.attribute, vision.version) == (
        "torchvision", "python313Packages.torchvision", "0.25.0",
    )  # fmt: skip
    assert vision.torch is not None
    assert vision.torch.drv_path == torch.drv_path
    assert vision.propagated_torch == (torch.drv_path,)
    assert vision.torch.path == torch.path
    assert vision.torch.gpu_targets == ("9.0",)
    assert vision.torch.required_system_features == ("big-parallel",)
    assert vision.torch.flags == torch.flags
    assert (vision.toolkit_support, vision.toolkit_attribute) == (True, "cudaPackages_13")
    # torch.cudaCapabilities has nixpkgs' defaults for CUDA 13.0, whatever `gpuTargets` says.
    assert vision.exports["TORCH_CUDA_ARCH_LIST"] == "7.5;8.0;8.6;8.9;9.0;10.0;10.3;12.0;12.1"
    assert vision.exports["FORCE_CUDA"] == "1"
    assert vision.imports == (torch.path,)
    patch = CASES / "cuda-13_0" / "patches" / "no-video.patch"
    assert vision.patches == (Patch(name="no-video.patch", path=patch),)
    assert vision.reads == (patch,)
    assert vision.sources[0].rev == "v0.25.0"  # given as `tag`


@needs_nix
def test_vision_uses_the_torch_of_another_repository() -> None:
    torch = the_case("cuda-13_0")["pytorch-python313-cuda13_0-sm90-avx512"]
    archives = {"https://github.com/my-org/build-pytorch/archive/": CASES / "cuda-13_0"}
    (vision,) = the_case("vision-of-another-repository", tarballs=archives).values()
    assert vision.torch is not None
    assert vision.torch.drv_path == torch.drv_path
    assert vision.propagated_torch == (torch.drv_path,)
    assert vision.imports == ()
    assert set(vision.fetched) == {
        Fetch(url=NIXPKGS, hash="1" * 52, revision=PIN),
        Fetch(url=NIXPKGS, revision=PIN),
        Fetch(url=TORCH_ARCHIVE, hash="0" * 52),
    }


@needs_nix
def test_another_repository_without_a_folder_is_a_finding() -> None:
    root = CASES / "vision-of-another-repository"
    evaluations, findings = evaluate(root, find_recipes(root), timeout=MINUTES)
    assert evaluations == ()
    assert TORCH_ARCHIVE in findings[0].message
    assert findings[0].place.line == 7


@needs_nix
def test_equal_torches_have_equal_derivations_and_others_do_not(tmp_path: Path) -> None:
    recipe = dedent("""
        {{ }}:
        let pkgs = import (fetchTarball "https://github.com/NixOS/nixpkgs/archive/{pin}.tar.gz") {{
          config = {{ cudaSupport = true; {config} }};
          overlays = [ (final: prev: {{ cudaPackages = final.{cuda}; }}) (final: prev: {{ {overlay} }}) ];
        }};
        in ({package}.override {{ gpuTargets = [ "{gpu}" ]; }}).overrideAttrs (old: {{
          preConfigure = "export CXXFLAGS={flag}"; meta = old.meta // {{ description = "{about}"; }};
        }})
    """)
    base = {
        "pin": PIN, "config": "", "cuda": "cudaPackages_13", "overlay": "", "gpu": "9.0", "flag": "-mavx2", "about": "",
        "package": "pkgs.python313Packages.torch",
    }  # fmt: skip
    same = [
        {}, {"about": "another"}, {"config": "allowUnfree = true;"}, {"cuda": "cudaPackages_13_0"},
        {"package": "pkgs.python3Packages.pytorch"}, {"overlay": "hello = prev.curl;"},
    ]  # fmt: skip
    other = [
        {"pin": "f" * 40}, {"cuda": "cudaPackages_12_9"}, {"gpu": "9.0a"}, {"flag": "-mavx"},
        {"package": "pkgs.python312Packages.torch"}, {"config": "cudaForwardCompat = false;"},
        {"overlay": "magma = prev.magma.overrideAttrs { patches = [ ./recipe.nix ]; };"},
        {"overlay": "cudaPackages = prev.cudaPackages.overrideScope (a: b: { cudnn = b.cudnn_8; });"},
    ]  # fmt: skip
    paths = [one(tmp_path, recipe.format(**base | change)).drv_path for change in (*same, *other)]
    assert len(set(paths[: len(same)])) == 1
    assert len(set(paths)) == 1 + len(other)


@needs_nix
def test_older_call_convention() -> None:
    vision = the_case("old-convention")["torchvision-python313-cuda12_8-sm121-avx512"]
    assert (vision.pin, vision.pins, vision.fetched) == ("", (), ())
    assert vision.platforms == ("x86_64-linux", "aarch64-linux")
    assert vision.torch is not None
    assert vision.torch.attribute == "python3Packages.pytorch"  # the old name
    assert vision.torch.gpu_targets == ("sm_121",)
    assert vision.torch.flags["CXXFLAGS"] == AVX512
    assert vision.torch.exports["CXXFLAGS"].startswith("$CXXFLAGS ")  # at the end
    assert vision.torch.path == vision.path
    assert vision.exports["NIX_BUILD_CORES"] == "32"
    assert (vision.toolkit_support, vision.toolkit_attribute, vision.toolkit_version) == (True, "cudaPackages", "12.8")
    assert vision.required_system_features == ()


@needs_nix
def test_cpu_recipe_of_the_older_convention() -> None:
    vision = the_case("old-convention")["torchvision-python313-cpu-avx2"]
    assert vision.torch is not None
    assert not vision.torch.toolkit_support
    assert "buildInputs" in vision.torch.attributes
    assert len(vision.platforms) > 2


@needs_nix
def test_nixpkgs_from_the_search_path(tmp_path: Path) -> None:
    torch = the_case("old-convention")["pytorch-python313-cpu-avx2"]
    assert (torch.package, torch.attribute, torch.pin) == ("torch", "python313Packages.torch", "")
    assert torch.platforms == ("x86_64-linux", "x86_64-darwin")
    found = one(tmp_path, "(import <nixpkgs> { config.cudaSupport = true; }).python3.pkgs.torch")
    assert (found.pin, found.pins, found.toolkit_support) == ("", ("",), True)
    for text in ("pkgs: pkgs.python3Packages.torch", "{ ... }@args: (import <nixpkgs> { }).python3Packages.torch"):
        assert one(tmp_path, text).package == "torch"


@needs_nix
def test_package_from_nothing_with_unknown_attributes() -> None:
    nightly = the_case("old-convention")["pytorch-python313-cuda13_0-sm121-armv9-nightly"]
    assert (nightly.package, nightly.attribute) == ("other", "python313Packages.buildPythonPackage")
    assert nightly.version == "2.9.0.dev20250901"
    assert nightly.exports["TORCH_CUDA_ARCH_LIST"] == "12.1"
    assert nightly.exports["USE_CUDA"] == "1"
    assert nightly.flags["CXXFLAGS"] == ("-march=armv9-a+sve2",)
    assert nightly.cmake_flags == (
        "-DUSE_NCCL:BOOL=FALSE", "-DCUDA_VERSION:STRING=13.0", "-DCMAKE_CUDA_ARCHITECTURES=121",
    )  # fmt: skip
    inputs = nightly.attributes["buildInputs"]
    assert isinstance(inputs, list)
    assert [item["name"] for item in inputs] == [
        "cuda_cccl-13.0", "libcudss-0", "someLibrary-0", "thing-3", "python3.13-numpy-0", "python3.13-helper-1",
    ]  # fmt: skip


@needs_nix
def test_recipe_as_an_argument_of_another() -> None:
    case = the_case("old-convention")
    wrapped = case["pytorch-python313-cuda12_8-sm90-avx2-wrapped"]
    torch = case["pytorch-python313-cpu-avx2"]
    assert (wrapped.package, wrapped.attribute) == ("other", "symlinkJoin")
    assert wrapped.attributes["paths"] == [{"derivation": torch.drv_path, "name": torch.name}]
    assert wrapped.imports == (torch.path,)


@needs_nix
def test_shared_builder() -> None:
    root = CASES / "shared-builder"
    pkgs = root / ".flox" / "pkgs"
    case = the_case("shared-builder")
    assert set(case) == {"pytorch-python313-cuda12_8-sm90-avx2", "pytorch-python313-cpu-armv9", "default"}
    gpu, arm = case["pytorch-python313-cuda12_8-sm90-avx2"], case["pytorch-python313-cpu-armv9"]
    assert (gpu.pname, gpu.gpu_targets, gpu.version) == (gpu.path.stem, ("9.0",), "2.8.0")
    assert gpu.passthru == {"variant": gpu.pname}
    assert gpu.imports == (pkgs / "lib" / "default.nix", pkgs / "lib" / "isas.nix", pkgs / "lib" / "torch.nix")
    assert gpu.reads == (pkgs / "lib" / "versions.json",)
    assert gpu.places["pname"].file == str(pkgs / "lib" / "torch.nix")
    assert (arm.flags["CXXFLAGS"], arm.platforms) == (("-march=armv9-a+sve2",), ("aarch64-linux",))
    assert case["default"].pname == "pytorch-python313-cpu-avx2"


@needs_nix
def test_nixpkgs_is_known_by_every_address(tmp_path: Path) -> None:
    addresses = {
        f'fetchTarball "https://github.com/nixos/nixpkgs/tarball/{PIN}"': PIN,
        f'builtins.fetchTarball {{ url = "https://codeload.github.com/NixOS/nixpkgs/tar.gz/{PIN}"; }}': PIN,
        'fetchTarball "https://github.com/NixOS/nixpkgs/archive/refs/heads/nixos-25.11.zip"': "nixos-25.11",
        'fetchTarball "https://channels.nixos.org/nixos-25.11/nixexprs.tar.xz"': "nixos-25.11",
        f'builtins.fetchGit {{ url = "https://github.com/NixOS/nixpkgs.git"; rev = "{PIN}"; }}': PIN,
        f'fetchTree {{ type = "github"; owner = "NixOS"; repo = "nixpkgs"; rev = "{PIN}"; }}': PIN,
        "((import <nixpkgs> { }).fetchFromGitHub "
        f'{{ owner = "NixOS"; repo = "nixpkgs"; rev = "{PIN}"; hash = ""; }})': PIN,
    }
    for address, pin in addresses.items():
        assert one(tmp_path, f"(import ({address}) {{ }}).python3Packages.torch").pin == pin
    library = f'with import "${{fetchTarball "{NIXPKGS}"}}/lib"; '
    recipe = library + '{ python3Packages, ... }: python3Packages.torch // { version = toUpper "a"; }'
    assert one(tmp_path, recipe).version == "A"


@needs_nix
@pytest.mark.parametrize(
    ("overlay", "packages"),
    [
        ("python3 = prev.python3.override { packageOverrides = a: b: { CHANGED }; };", "python3.pkgs"),
        ("python3Packages = prev.python3Packages.override { overrides = a: b: { CHANGED }; };", "python3Packages"),
        ("python313Packages = prev.python313Packages.overrideScope (a: b: { CHANGED });", "python3Packages"),
        ("pythonPackagesExtensions = prev.pythonPackagesExtensions ++ [ (a: b: { CHANGED }) ];", "python3Packages"),
    ],
)
def test_ways_to_change_python_packages(tmp_path: Path, overlay: str, packages: str) -> None:
    changed = overlay.replace("CHANGED", 'torch = b.torch.overrideAttrs { version = "9"; };')
    pkgs = f"(import <nixpkgs> {{ overlays = [ (final: prev: {{ {changed} }}) ]; }}).{packages}"
    assert one(tmp_path, f"{pkgs}.torch").version == "9"
    alias = one(tmp_path, f'({pkgs}.pytorch.override {{ cudaSupport = true; }}).overrideAttrs {{ pname = "a"; }}')
    assert (alias.version, alias.toolkit_support) == ("9", True)
    assert alias.attribute == f"{packages.replace('python3.pkgs', 'python313Packages')}.pytorch"
    vision = one(tmp_path, f"{pkgs}.torchvision")
    assert vision.torch is not None
    assert vision.torch.version == "9"


@needs_nix
def test_package_sets_changed_in_part(tmp_path: Path) -> None:
    changed = 'prev.python313Packages // { torch = prev.python313Packages.torch.overrideAttrs { version = "9"; }; }'
    overlay = f"(final: prev: {{ python313Packages = {changed}; }})"
    assert one(tmp_path, f"(import <nixpkgs> {{ overlays = [ {overlay} ]; }}).python3Packages.torch").version == "9"
    # A package set under one name does not appear under the other, as in nixpkgs.
    overlay = f"(final: prev: {{ python3Packages = {changed}; }})"
    assert one(tmp_path, f"(import <nixpkgs> {{ overlays = [ {overlay} ]; }}).python313Packages.torch").version != "9"


@needs_nix
def test_a_torch_that_is_propagated_without_an_override(tmp_path: Path) -> None:
    audio = one(
        tmp_path,
        """
        { pkgs, python3Packages }:
        let
          torch = python3Packages.torch.override {
            cudaPackages = pkgs.cudaPackages_12_9;
            cudaSupport = true;
            gpuTargets = [ "sm_90" ];
          };
        in
        python3Packages.torchaudio.overridePythonAttrs { propagatedBuildInputs = [ ]; dependencies = [ torch ]; }
        """,
    )
    assert audio.torch is not None
    assert audio.torch.gpu_targets == ("sm_90",)
    assert audio.torch.override["cudaPackages"] == "<cudaPackages 12.9>"
    assert audio.propagated_torch == (audio.torch.drv_path,)
    assert (audio.toolkit_support, audio.toolkit_attribute, audio.toolkit_version) == (
        True,
        "cudaPackages_12_9",
        "12.9",
    )


@needs_nix
def test_a_python_with_packages_has_the_output_out_of_each(tmp_path: Path) -> None:
    made = one(
        tmp_path,
        """
        { python3, lib }:
        let
          torch = python3.pkgs.torch.overrideAttrs { pname = "mine"; };
          vision = (python3.pkgs.torchvision.override { inherit torch; }).overrideAttrs (old: {
            propagatedBuildInputs = old.propagatedBuildInputs ++ [ torch.out ];
          });
          said = packages: lib.concatMapStringsSep " " (one: "${one.pname}.${one.outputName}") packages;
        in
        (python3.withPackages (_: [ vision ])).overrideAttrs (old: {
          required = said vision.requiredPythonModules;
          linked = said old.paths;
        })
        """,
    )

    # What nixpkgs' own functions give for a package of these outputs: toPythonModule, and buildEnv as wrapper.nix asks.
    def shown(attribute: str) -> list[str]:
        known = {"python3", "torchvision", "mine", "numpy", "triton"}
        return [one for one in str(made.attributes[attribute]).split() if one.partition(".")[0] in known]

    assert shown("required") == ["python3.out", "mine.dev", "numpy.out", "triton.out"]
    assert shown("linked") == ["python3.out", "torchvision.out", "mine.dev", "mine.out", "numpy.out", "triton.out"]


JETSON = """
{ lib }:
let
  pkgs = import (builtins.fetchTarball "https://github.com/NixOS/nixpkgs/archive/PIN.tar.gz") {
    system = "SYSTEM";
    config = { allowUnfree = true; cudaSupport = true; cudaCapabilities = [ CAPABILITIES ]; };
    overlays = [ (final: prev: { cudaPackages = final.cudaPackages_CUDA; }) ];
  };
  torch = pkgs.python3Packages.torch;
  hook = torch.cudaPackages.autoAddCudaCompatRunpath;
in
torch.overrideAttrs (old: {
  said = lib.concatMapStringsSep " " lib.boolToString [
    torch.cudaPackages.flags.isJetsonBuild hook.enableHook torch.cudaPackages.nccl.meta.available
    (builtins.any (input: input.pname == hook.pname) torch.nativeBuildInputs)
  ];
  capabilities = torch.cudaCapabilities;
})
""".replace("PIN", PIN)


@needs_nix
@pytest.mark.parametrize(
    ("cuda", "capabilities", "said", "of_torch"),
    [
        ("12_8", "", "false false true false", "7.5 8.0 8.6 8.9 9.0 10.0 12.0"),
        ("12_9", "", "false false true false", "7.5 8.0 8.6 8.9 9.0 10.0 10.3 12.0 12.1"),
        ("12_1", "7.2", "true true false true", "7.2"),
        ("12_6", "8.7", "true true false true", "8.7"),
        ("12_9", "10.1", "true true true true", "10.1"),
        ("13", "11.0", "true false true true", ""),  # Thor: no cuda_compat, and not in the list of torch 2.8
    ],
)
def test_a_jetson_is_built_as_nixpkgs_does(
    tmp_path: Path, cuda: str, capabilities: str, said: str, of_torch: str
) -> None:
    listed = f'"{capabilities}"' if capabilities else ""
    text = JETSON.replace("CUDA", cuda).replace("CAPABILITIES", listed).replace("SYSTEM", "aarch64-linux")
    made = one(tmp_path, text)
    assert (made.attributes["said"], made.attributes["capabilities"]) == (said, of_torch.split())


@needs_nix
@pytest.mark.parametrize(
    ("cuda", "capabilities", "system", "said"),
    [
        ("12_8", '"11.0"', "aarch64-linux", "11.0 (CUDA 12.8 does not support them)"),
        ("13", '"6.1"', "x86_64-linux", "6.1 (CUDA 13.0 does not support them)"),
        ("13", '"11.0"', "x86_64-linux", "11.0 (they are for aarch64-linux)"),
        ("12_6", '"8.7" "8.6"', "aarch64-linux", "8.7 (nixpkgs builds for them alone)"),
        ("12_8", '"90"', "x86_64-linux", "90 (nixpkgs does not know them)"),
    ],
)
def test_capabilities_that_nixpkgs_refuses(
    tmp_path: Path, cuda: str, capabilities: str, system: str, said: str
) -> None:
    text = JETSON.replace("CUDA", cuda).replace("CAPABILITIES", capabilities).replace("SYSTEM", system)
    assert f"refuses config.cudaCapabilities: {said}" in problem(tmp_path, text).message


@needs_nix
@pytest.mark.parametrize("builder", ["python312Packages.buildPythonPackage", "stdenv.mkDerivation"])
def test_builders_take_functions_of_the_final_attributes(tmp_path: Path, builder: str) -> None:
    text = '(final: { pname = "a"; version = "1"; src = pkgs.fetchPypi { inherit (final) pname version; }; })'
    made = one(tmp_path, f'{{ pkgs }}: (pkgs.{builder} {text}).overrideAttrs {{ version = "2"; }}')
    prefix = "python3.12-" if builder.startswith("python") else ""
    assert (made.package, made.attribute, made.name) == ("other", builder, f"{prefix}a-2")
    assert made.sources[0].url.endswith("/a-2.tar.gz")


MINE = 'python3Packages.buildPythonPackage { pname = "mine"; version = "1"; pyproject = true; }'
APP = 'python3Packages.buildPythonApplication { pname = "app"; version = "1"; pyproject = false; }'


@needs_nix
@pytest.mark.parametrize(
    ("package", "change", "name", "outputs"),
    [
        (MINE, '{ outputs = old.outputs ++ [ "more" ]; }', "python3.13-mine-1", ["out", "dist", "more"]),
        (MINE, '{ outputs = [ "out" "lib" ]; pname = "other"; }', "python3.13-other-1", ["out", "lib"]),
        (MINE, '{ name = "plain-1"; }', "plain-1", ["out", "dist"]),
        (APP, '{ name = "${old.name}-more"; }', "app-1-more", ["out"]),
        ("python3Packages.torch", '{ name = "${old.name}-more"; version = "2"; }', "python3.13-torch-2-more",
         ["out", "dev", "lib", "cxxdev", "dist"]),
        ("python3Packages.unheard", '{ outputs = old.outputs ++ [ "lib" ]; version = "3"; }',
         "python3.13-unheard-3", ["out", "dist", "lib"]),
        ("unheard", '{ outputs = old.outputs ++ [ "lib" ]; src = old.src.override { tag = "v3"; }; version = "3"; }',
         "unheard-3", ["out", "lib"]),
    ],
)  # fmt: skip
def test_what_a_builder_sets_is_seen_and_replaced(
    tmp_path: Path, package: str, change: str, name: str, outputs: list[str]
) -> None:
    text = f"""
        {{ pkgs }}:
        let made = (pkgs.{package}).overrideAttrs (old: {change});
        in made.overrideAttrs {{ passthru = {{ inherit (made) outputs; }}; }}
    """
    made = one(tmp_path, text)
    assert (made.name, made.passthru["outputs"]) == (name, outputs)


@needs_nix
def test_a_package_that_is_not_known_may_have_any_output(tmp_path: Path) -> None:
    made = one(tmp_path, '{ pkgs }: pkgs.stdenv.mkDerivation { name = "a-1"; inputs = [ pkgs.unheard.dev ]; }')
    assert made.attributes["inputs"]
    fixed = '(pkgs.unheard.overrideAttrs { outputs = [ "out" "lib" ]; })'
    said = problem(tmp_path, f'{{ pkgs }}: pkgs.stdenv.mkDerivation {{ name = "a-1"; inputs = [ {fixed}.dev ]; }}')
    assert "attribute 'dev' missing" in said.message


@needs_nix
def test_odd_values_are_abbreviated(tmp_path: Path) -> None:
    torch = one(
        tmp_path,
        """
        { pkgs, python3Packages }:
        python3Packages.torch.overrideAttrs (old: {
          odd = [ null 1.5 true ./recipe.nix (x: x) python3Packages ];
          passthru = { inherit pkgs; wrong = throw "no"; tests.run = pkgs.hello; };
        })
        """,
    )
    path = str((tmp_path / "recipe.nix").resolve())
    assert torch.attributes["odd"] == [None, 1.5, True, {"path": path}, "<function>", "<python3.13.pkgs>"]
    assert torch.passthru["pkgs"] == "<nixpkgs>"
    assert torch.passthru["wrong"] == "<error>"


@needs_nix
def test_library(tmp_path: Path) -> None:
    torch = one(
        tmp_path,
        """
        { lib, pkgs, python3Packages }:
        python3Packages.torch.overrideAttrs { passthru = with lib; {
          split = splitString "." "a.b.c";
          infix = [ (hasInfix "b.c" "a.b.c") (hasInfix "b.c" "abxc") ];
          trimmed = trim "  x y \\n";
          updated = recursiveUpdate { a.b = 1; a.c = 2; } { a.b = 3; d = 1; };
          newer = versionAtLeast "2.10" "2.9";
          shell = escapeShellArgs [ "a b" "c" "it's" ];
          flat = unique (flatten [ 1 [ 2 [ 1 ] ] ]);
          fixed = (fix (extends (f: p: { b = p.a + f.c; }) (f: { a = 1; c = 2; }))).b;
          named = mapAttrs' (n: v: nameValuePair "x${n}" v) { a = 1; };
          products = cartesianProduct { a = [ 1 2 ]; b = [ 3 ]; };
          cmake = [ (cmakeBool "X" true) (cmakeFeature "Y" "z") ];
          folded = foldr (a: b: a - b) 0 [ 5 3 ];
          binaries = makeBinPath [ "/a" "/b" ];
          replicated = replicate 2 "x";
          program = removePrefix "${pkgs.hello}" (getExe pkgs.hello);
          callable = (callPackageWith { a = 1; b = 2; } ({ a, b ? 5, c ? 7 }: { sum = a + b + c; }) { }).sum;
        }; }
        """,
    )
    assert torch.passthru == {
        "split": ["a", "b", "c"],
        "infix": [True, False],
        "trimmed": "x y",
        "updated": {"a": {"b": 3, "c": 2}, "d": 1},
        "newer": True,
        "shell": "'a b' c 'it'\\''s'",
        "flat": [1, 2],
        "fixed": 3,
        "named": {"xa": 1},
        "products": [{"a": 1, "b": 3}, {"a": 2, "b": 3}],
        "cmake": ["-DX:BOOL=TRUE", "-DY:STRING=z"],
        "folded": 2,
        "binaries": "/a/bin:/b/bin",
        "replicated": ["x", "x"],
        "program": "/bin/hello",
        "callable": 10,
    }


@needs_nix
def test_the_result_does_not_depend_on_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NIX_PATH", "NIX_CONFIG", "NIX_REMOTE", "HOME"):
        monkeypatch.setenv(name, "/nonsense")
    torch = one(
        tmp_path,
        """
        { python3Packages }: python3Packages.torch.overrideAttrs {
          passthru = { inherit (builtins) currentSystem currentTime; home = builtins.getEnv "HOME"; };
        }
        """,
    )
    assert torch.passthru == {"currentSystem": "x86_64-linux", "currentTime": 0, "home": ""}


@needs_nix
def test_a_fleet_is_evaluated_in_seconds_of_a_processor(tmp_path: Path) -> None:
    case = CASES / "cuda-13_0" / ".flox" / "pkgs"
    torch, vision = (
        (case / f"{name}-python313-cuda13_0-sm90-avx512.nix").read_text(encoding="utf-8")
        for name in ("pytorch", "torchvision")
    )
    shutil.copytree(CASES / "cuda-13_0" / "patches", tmp_path / "patches")
    folder = tmp_path / ".flox" / "pkgs"
    folder.mkdir(parents=True)
    for number in range(153):
        for name, text in {"pytorch": torch, "torchvision": vision, "torchaudio": vision}.items():
            changed = text.replace("torchvision", name).replace("sm90", f"sm{number}")
            changed = changed.replace('"9.0"', f'"{number / 10}"')
            (folder / f"{name}-python313-cuda13_0-sm{number}-avx512.nix").write_text(changed, encoding="utf-8")
    recipes = find_recipes(tmp_path)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    evaluations, findings = evaluate(tmp_path, recipes, timeout=MINUTES)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 40
    assert findings == ()
    assert len(evaluations) == 459
    torches = {e.drv_path for e in evaluations if e.package == "torch"}
    assert len(torches) == 153
    assert {e.torch.drv_path for e in evaluations if e.torch} == torches
