"""The audit walks the graph: what is wrong in a package that a recipe builds with is found in the recipe."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ci_compiler.adoption import self_test
from ci_compiler.adoption.audit import Audited, audit
from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.spec.build import parse_spec
from tests.adoption.fleets import flags_of, head, system_of
from tests.adoption.helpers import needs_nix

SPEC = """\
version: 1
owner: my-org
branches:
  main: {cuda: "12.8", nixpkgs: fe5e41d7ffc0421f0913e8472ce6238ed0daf8e3}
packages: {ort: {recipes: own}, server: {recipes: own}, torchvision: {recipes: own}}
matrix:
  python: ["3.12"]
  isas: {x86_64-linux: [avx2, avx512]}
  gpus: {sm80: {}, sm90: {}}
runners: {x86: {runs-on: [self-hosted, linux, x64], cpu: [avx2, avx512]}}
publish: {on-shared-machines: true}
"""
SHARED = {
    "lib/cpu-isa.nix": f"{{\n  avx2 = [ {flags_of('avx2')} ];\n  avx512 = [ {flags_of('avx512')} ];\n}}\n",
    "lib/custom-torch.nix": """\
{ torchBase, smCapability, cpuFlags }:
(torchBase.override { cudaSupport = true; gpuTargets = [ smCapability ]; }).overrideAttrs (old: {
  pname = "pytorch-custom";
  requiredSystemFeatures = [ "big-parallel" ];
  preConfigure = (old.preConfigure or "") + ''
    export CXXFLAGS="${toString cpuFlags} $CXXFLAGS"
  '';
  passthru = (old.passthru or { }) // { cudaCapabilities = [ smCapability ]; };
})
""",
}


def ort(name: str, sm: str, isa: str) -> str:
    """A Python package around a library of the top level, which is what compiles."""
    return f"""{head("12_8")}  cpuFlags = [ {flags_of(isa)} ];
  library = (nixpkgs_pinned.onnxruntime.override {{ cudaSupport = true; }}).overrideAttrs (old: {{
    version = "1.20.1";
    cmakeFlags = (old.cmakeFlags or [ ]) ++ [ (lib.cmakeFeature "CMAKE_CUDA_ARCHITECTURES" "{sm}") ];
    preConfigure = ''export CXXFLAGS="${{toString cpuFlags}} $CXXFLAGS"'';
  }});
in
  (nixpkgs_pinned.python312Packages.onnxruntime.override {{ onnxruntime = library; }}).overrideAttrs (old: {{
    pname = "{name}";
    meta = old.meta // {{ platforms = [ "{system_of(isa)}" ]; }};
  }})
"""


def server(name: str, sm: str, isa: str) -> str:
    """A package from a Python set that has a torch and a library of its own."""
    return f"""{head("12_8", config=f' cudaCapabilities = [ "{sm[:-1]}.{sm[-1]}" ];')}
  cpuISA = (import ./lib/cpu-isa.nix).{isa};
  smCapability = "{sm[:-1]}.{sm[-1]}";
  python = nixpkgs_pinned.python312.override {{
    packageOverrides = self: super: {{
      torch = import ./lib/custom-torch.nix {{ inherit smCapability; cpuFlags = cpuISA; torchBase = super.torch; }};
      bitsandbytes = super.bitsandbytes.overrideAttrs (old: {{
        cmakeFlags = (old.cmakeFlags or [ ]) ++ [ "-DCOMPUTE_CAPABILITY={sm}" "-DCUDA_VERSION=12.8" ];
      }});
    }};
  }};
in
  python.pkgs.server.overrideAttrs (old: {{
    pname = "{name}";
    meta = old.meta // {{ platforms = [ "{system_of(isa)}" ]; }};
  }})
"""


def vision(name: str, sm: str, isa: str) -> str:
    """A torchvision with a torch of its own."""
    return f"""{head("12_8")}  smCapability = "{sm[:-1]}.{sm[-1]}";
  cpuISA = (import ./lib/cpu-isa.nix).{isa};
  torchBase = nixpkgs_pinned.python312Packages.torch;
  customTorch = import ./lib/custom-torch.nix {{ inherit smCapability torchBase; cpuFlags = cpuISA; }};
in
  (nixpkgs_pinned.python312Packages.torchvision.override {{ torch = customTorch; }}).overrideAttrs (old: {{
    pname = "{name}";
    propagatedBuildInputs = old.propagatedBuildInputs ++ [ customTorch.out ];
    meta = old.meta // {{ platforms = [ "{system_of(isa)}" ]; }};
  }})
"""


def fleet() -> dict[str, str]:
    """The files of the repository below `.flox/pkgs`, by path."""
    cells = [(sm, isa) for sm in ("80", "90") for isa in ("avx2", "avx512")]
    makers = {"ort": ort, "server": server, "torchvision": vision}
    names = [(package, sm, isa, name_of(package, sm, isa)) for package in makers for sm, isa in cells]
    return {f"{name}.nix": makers[package](name, sm, isa) for package, sm, isa, name in names} | SHARED


def name_of(package: str, sm: str = "90", isa: str = "avx512") -> str:
    return f"{package}-python312-cuda12_8-sm{sm}-{isa}"


ORT, SERVER, VISION = (f"{name_of(package)}.nix" for package in ("ort", "server", "torchvision"))


def audited(root: Path, files: Mapping[str, str], say: Callable[[str], object] = str, spec: str = SPEC) -> Audited:
    for path, text in files.items():
        file = root / ".flox/pkgs" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    return audit(root, parse_spec(spec.encode(), shown="ci-matrix.yaml"), "main", say=say)


@needs_nix
def test_a_healthy_fleet_has_no_defect(tmp_path: Path) -> None:
    assert [str(cause.line) for cause in audited(tmp_path, fleet()).defects] == []


PLANTED: dict[str, tuple[str, str, str, str, str]] = {
    "another architecture of an inner library": (
        ORT,
        '"CMAKE_CUDA_ARCHITECTURES" "90"',
        '"CMAKE_CUDA_ARCHITECTURES" "89"',
        "wrong-gpu",
        "its onnxruntime: ",
    ),
    "a flag too many in an inner library": (
        ORT,
        "cpuFlags = [ ",
        'cpuFlags = [ "-mavx512vnni" ',
        "flags-exceed-isa",
        "its onnxruntime: ",
    ),
    "another ISA of a shared table": (
        SERVER,
        "cpu-isa.nix).avx512",
        "cpu-isa.nix).avx2",
        "wrong-cpu-flags",
        "custom-torch",
    ),
    "a shared table that changed": (
        "lib/cpu-isa.nix",
        '"-mavx512f"',
        '"-mavx512f" "-mavx512vnni"',
        "flags-exceed-isa",
        "avx512vnni",
    ),
    "a torchvision without its own torch": (
        VISION,
        "torchvision.override { torch = customTorch; }",
        "torchvision.override { }",
        "another-torch wrong-gpu",
        "",
    ),
    "a torchvision for all of nixpkgs' GPUs": (
        VISION,
        "customTorch = import ./lib/custom-torch.nix { inherit smCapability torchBase; cpuFlags = cpuISA; }",
        "customTorch = torchBase.override { cudaSupport = true; gpuTargets = [ smCapability ]; }",
        "wrong-gpu",
        "12.0, and sm90 is 9.0; nixpkgs has it from torch.cudaCapabilities, which gpuTargets does not change",
    ),
    "a torchvision with nixpkgs' torch": (
        VISION,
        "customTorch = import",
        "customTorch = torchBase; unused = import",
        "wrong-gpu",
        "",
    ),
    "CUDA's version in a define": (
        SERVER,
        "-DCUDA_VERSION=12.8",
        "-DCUDA_VERSION=12.9",
        "cuda-in-name",
        "its bitsandbytes: ",
    ),
    "an architecture in a define": (
        SERVER,
        "COMPUTE_CAPABILITY=90",
        "COMPUTE_CAPABILITY=80",
        "wrong-gpu",
        "its bitsandbytes: ",
    ),
    "another Python": (SERVER, "nixpkgs_pinned.python312.", "nixpkgs_pinned.python311.", "wrong-python", "3.11"),
    "another Python of what it wraps": (
        ORT,
        "nixpkgs_pinned.onnxruntime.override",
        "nixpkgs_pinned.python311Packages.onnxruntime.override",
        "wrong-python",
        "3.11",
    ),
}


@needs_nix
@pytest.mark.parametrize("planted", PLANTED)
def test_what_is_wrong_inside_is_found_in_the_recipe(tmp_path: Path, planted: str) -> None:
    path, old, new, code, said = PLANTED[planted]
    files = fleet()
    assert old in files[path]
    found = audited(tmp_path, files | {path: files[path].replace(old, new)})
    assert {cause.code for cause in found.defects} == set(code.split()), [str(cause.line) for cause in found.defects]
    named = {Path(file).name for cause in found.defects for file in cause.files}
    assert named == {path} if not path.startswith("lib/") else len(named) == 4
    assert all(said in finding.message for cause in found.defects for finding in cause.findings)


@needs_nix
def test_what_cannot_be_evaluated_is_said(tmp_path: Path) -> None:
    files = {ORT: "{ x }: builtins.fetchMercurial x", SERVER: fleet()[SERVER], **SHARED}
    said: list[str] = []
    found = audited(tmp_path, files, say=said.append)
    assert {cause.code for cause in found.defects} == {"missing-recipe"}
    assert (
        "only the text of 1 recipe was checked, which cannot be evaluated here: builtins.fetchMercurial is " in said[-1]
    )
    assert any("the version and inputs of bitsandbytes in nixpkgs" in line for line in said)


WIDE = SPEC.replace("[avx2, avx512]}\n  gpus", "[avx2, avx512, avx512vnni]}\n  gpus").replace(
    "gpus: {", "gpus: {sm75: {}, sm86: {}, sm89: {}, "
)


@needs_nix
def test_a_slip_in_one_of_many_recipes_is_a_note(tmp_path: Path) -> None:
    cells = [(sm, isa) for sm in ("75", "80", "86", "89", "90") for isa in ("avx2", "avx512", "avx512vnni")]
    files = {f"{name_of('ort', sm, isa)}.nix": ort(name_of("ort", sm, isa), sm, isa) for sm, isa in cells}
    only = WIDE.replace("server: {recipes: own}, torchvision: {recipes: own}", "")
    assert audited(tmp_path, files, spec=only) == Audited(defects=(), differences=())
    edited = files[ORT].replace('"-mavx512bw" ', "").replace('version = "1.20.1"', 'version = "1.20.0"')
    found = audited(tmp_path, files | {ORT: edited}, spec=only)
    (cause,) = found.notes
    assert (found.defects, cause.code, [Path(file).name for file in cause.files]) == ((), "unlike-the-others", [ORT])
    assert "onnxruntime: version is 1.20.0, and 1.20.1 in 4 other recipes of avx512" in cause.message
    assert "onnxruntime: -mavx512bw in CXXFLAGS is not set, and set in 4 other recipes of avx512" in cause.message


PLANTS = [
    {"kind": "another architecture", "pattern": '"@isa@ of nothing"', "replacement": ""},
    {
        "kind": "another architecture",
        "pattern": "COMPUTE_CAPABILITY=\\d+",
        "replacement": "COMPUTE_CAPABILITY=@other-digits@",
    },
    {
        "kind": "a shared flag too many",
        "shared": True,
        "cells": "isa",
        "pattern": '"-mavx512f"',
        "replacement": '\\g<0> "-mavx512vnni"',
    },
    {"kind": "a comment", "which": "last", "pattern": "pname = ", "replacement": "/* */ pname = "},
    {"kind": "a define of its own", "pattern": "lib.cmakeFeature", "replacement": 'lib.cmakeFeature "X" "1") (\\g<0>'},
]


@needs_nix
def test_the_self_test_says_which_planted_defects_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(self_test, "facts", lambda *_: {"plants": PLANTS})
    audited(tmp_path, fleet())
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.nix")}
    (tmp_path / "spec.yaml").write_text(SPEC, "utf-8")
    options = ["--self-test", "--branch", "main", "--spec", str(tmp_path / "spec.yaml"), "--root", str(tmp_path)]
    assert run(PROGRAM, ["audit", str(tmp_path), *options]) == 0
    out, err = capsys.readouterr()
    rows = [re.split(r"  +", line) for line in out.splitlines()]
    assert [row[:2] for row in rows] == [
        ["another architecture", "wrong-gpu"],
        ["a shared flag too many", "flags-exceed-isa"],
        ["a define of its own", "no"],
    ]
    assert err.splitlines()[-2:] == [
        "not planted, since nothing in these recipes can have it: a comment",
        "2 of 3 kinds seen (67%)",
    ]
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.nix")} == before


CONVERTED = "{ort: {recipes: own, attribute: onnxruntime, title: ONNX Runtime}}"
ABSEIL = 'pkgs: pkgs.abseil-cpp.overrideAttrs (old: {\n  cmakeFlags = [ "-DCMAKE_CXX_STANDARD=17" ];\n})\n'


@needs_nix
def test_a_conversion_that_would_lose_what_is_inside_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inner = "    buildInputs = [ (import ./lib/abseil.nix nixpkgs_pinned) ];\n"
    recipe = ort(name_of("ort"), "90", "avx512").replace("    version =", f"{inner}    version =")
    files = {ORT: recipe, "lib/abseil.nix": ABSEIL}
    only = SPEC.replace("{ort: {recipes: own}, server: {recipes: own}, torchvision: {recipes: own}}", CONVERTED)
    only = only.replace("daf8e3}", "daf8e3, versions: {ort: 1.20.1}}").replace("[avx2, avx512]}\n  g", "[avx512]}\n  g")
    only = only.replace("sm80: {}, ", "")
    audited(tmp_path, files, spec=only)
    (tmp_path / "spec.yaml").write_text(only, "utf-8")
    options = ["--branch", "main", "--spec", str(tmp_path / "spec.yaml"), "--root", str(tmp_path)]
    assert run(PROGRAM, ["recipes", "--adopt", "ort-*", *options]) == 2
    assert "it changes onnxruntime and abseil-cpp (abseil.nix:2), with which it is built" in capsys.readouterr().err
    assert (tmp_path / ".flox/pkgs" / ORT).read_text("utf-8") == files[ORT]
