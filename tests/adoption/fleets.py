"""Miniature repositories in the shapes that fleets of recipes have, made by generators.

Each shape is branches of recipes and shared files. Recipes are written in the styles that occur: a pin per toolkit,
`python3Packages.override { overrides = …; }`, two spellings of one GPU, a torch of its own inside a torchvision.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ci_compiler.hardware import tables

Files = Mapping[str, str]
"""The files of a branch below `.flox/pkgs`, by path."""

OLD_PIN, NEW_PIN = "6a030d535719c5190187c4cec156f335e95e3211", "2017d6d515f8a7b289fe06d3a880a7ec588c3900"
PINS = {"12_8": "fe5e41d7ffc0421f0913e8472ce6238ed0daf8e3", "13_1": NEW_PIN}
X86, ARM = ("avx", "avx2", "avx512"), ("armv8_2", "armv9")


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """A shape: its branches, and a defect: the recipe, a text in it, what replaces the text, and the finding's code."""

    branches: Mapping[str, Files]
    defect: tuple[str, str, str, str]

    def names(self, branch: str) -> set[str]:
        """The names of the recipes of a branch: Flox takes NAME.nix and NAME/default.nix."""
        paths = [Path(path) for path in self.branches[branch]]
        folders = {path.parent.name for path in paths if path.name == "default.nix" and len(path.parts) == 2} - {"lib"}
        return folders | {path.stem for path in paths if len(path.parts) == 1 and path.suffix == ".nix"}

    def write(self, root: Path, branch: str) -> Path:
        """A git repository below `root` with the branch checked out and committed."""
        folder = root / branch.replace("/", "-")
        for path, text in self.branches[branch].items():
            file = folder / ".flox/pkgs" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")
        git(folder, "init", "-q", "-b", branch)
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", "As it was")
        return folder


def git(folder: Path, *arguments: str) -> str:
    """The output of git in `folder`."""
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    return subprocess.run(["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout


def flags_of(isa: str) -> str:
    """The compiler flags of an ISA as recipes list them."""
    written = {"armv9": ("-march=armv9-a+sve+sve2",)}.get(isa) or tables().isas[isa].flags
    return " ".join(f'"{flag}"' for flag in written)


def system_of(isa: str) -> str:
    """The system of an ISA."""
    return tables().isas[isa].system


def head(cuda: str, pin: str = "", config: str = "") -> str:
    """The beginning of a recipe: a pinned nixpkgs with a toolkit ('' for none)."""
    about = "" if not cuda else " cudaSupport = true;"
    overlay = f"(final: prev: {{ cudaPackages = final.cudaPackages_{cuda}; }})" if cuda else ""
    return f"""{{ pkgs ? import <nixpkgs> {{}} }}:
let
  nixpkgs_pinned = import (builtins.fetchTarball {{
    url = "https://github.com/NixOS/nixpkgs/archive/{pin or PINS.get(cuda, OLD_PIN)}.tar.gz";
  }}) {{
    config = {{ allowUnfree = true;{about}{config} }};
    overlays = [ {overlay} ];
  }};
  inherit (nixpkgs_pinned) lib;
"""


def torch_body(name: str, python: str, sm: str, isa: str) -> str:
    """The expression of a torch with its own architecture and flags; `sm` is '' for a CPU build."""
    target = f"{sm[:-1]}.{sm[-1:]}"
    arguments = f'cudaSupport = true; gpuTargets = [ "{target}" ];' if sm else "cudaSupport = false;"
    return f"""(nixpkgs_pinned.{python}Packages.torch.override {{ {arguments} }}).overrideAttrs (oldAttrs: {{
    pname = "{name}";
    ninjaFlags = [ "-j32" ];
    requiredSystemFeatures = [ "big-parallel" ];
    passthru = oldAttrs.passthru // {{ gpuArch = "{f"sm{sm}" if isa == "avx2" else target}"; }};
    preConfigure = (oldAttrs.preConfigure or "") + ''
      export CXXFLAGS="${{lib.concatStringsSep " " cpuFlags}} $CXXFLAGS"
      export CFLAGS="${{lib.concatStringsSep " " cpuFlags}} $CFLAGS"
      export BLAS=OpenBLAS
      export MAX_JOBS=32
    '';
    meta = oldAttrs.meta // {{ platforms = [ "{system_of(isa)}" ]; }};
  }})"""


def torch(python: str, cuda: str, sm: str, isa: str) -> dict[str, str]:
    """A torch recipe."""
    name = f"pytorch-{python}-cuda{cuda}-sm{sm}-{isa}" if sm else f"pytorch-{python}-cpu-{isa}"
    text = f"{head(cuda)}  cpuFlags = [ {flags_of(isa)} ];\nin\n  {torch_body(name, python, sm, isa)}\n"
    return {f"{name}.nix": text}


def vision(python: str, cuda: str, sm: str, isa: str) -> dict[str, str]:
    """A torchvision recipe with a torch of its own inside, whose `out` it propagates."""
    name = f"torchvision-{python}-cuda{cuda}-sm{sm}-{isa}"
    text = f"""{head(cuda)}  cpuFlags = [ {flags_of(isa)} ];
  customPytorch = {torch_body(f"pytorch-for-torchvision-sm{sm}-{isa}", python, sm, isa)};
in
  (nixpkgs_pinned.{python}Packages.torchvision.override {{ torch = customPytorch; }}).overrideAttrs (oldAttrs: {{
    pname = "{name}";
    propagatedBuildInputs = (oldAttrs.propagatedBuildInputs or []) ++ [ customPytorch.out ];
    preConfigure = (oldAttrs.preConfigure or "") + "export TORCH_CUDA_ARCH_LIST={sm[:-1]}.{sm[-1:]}";
    meta = oldAttrs.meta // {{ platforms = [ "{system_of(isa)}" ]; }};
  }})
"""
    return {f"{name}.nix": text}


def mps(package: str, python: str) -> dict[str, str]:
    """A recipe for macOS."""
    name = f"{package}-{python}-darwin-mps"
    text = f"""{head("")}in
  nixpkgs_pinned.{python}Packages.torch.overrideAttrs (oldAttrs: {{
    pname = "{name}";
    meta = oldAttrs.meta // {{ platforms = [ "aarch64-darwin" ]; }};
  }})
"""
    return {f"{name}.nix": text}


def together(parts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Several files as one mapping."""
    return {path: text for part in parts for path, text in part.items()}


# The shapes.


def classic() -> Fleet:
    """Several toolkits on a branch, each with its own pin; CPU variants; one for macOS."""
    gpus = {"12_8": ("61", "80", "90"), "13_0": ("80", "90", "110"), "13_1": ("80", "90", "110")}
    main = together([
        *(torch("python313", "", "", isa) for isa in (*X86, *ARM)),
        *(
            torch("python313", cuda, sm, isa)
            for cuda, all_ in gpus.items()
            for sm in all_
            for isa in (X86[:2] if sm == "61" else ARM if sm == "110" else (*X86, *ARM))
        ),
        mps("pytorch", "python313"),
    ])  # fmt: skip
    defect = ("pytorch-python313-cuda13_1-sm90-avx2", 'gpuTargets = [ "9.0" ]', 'gpuTargets = [ "8.0" ]', "wrong-gpu")
    return Fleet(branches={"main": main}, defect=defect)


def versions() -> Fleet:
    """A branch per release of torch, whose torchvision recipes each make their own torch."""
    cells = [(sm, isa) for sm in ("80", "90") for isa in ("avx2", "armv9")]
    older = together(vision("python313", "12_8", sm, isa) for sm, isa in cells)
    newer = together(vision("python313", cuda, sm, isa) for cuda in ("12_8", "13_0") for sm, isa in cells)
    defect = ("torchvision-python313-cuda13_0-sm90-avx2", "cudaPackages_13_0", "cudaPackages_12_9", "cuda-in-name")
    return Fleet(branches={"pytorch-2.9": older, "pytorch-2.10": newer}, defect=defect)


_BUILDER = """{ version, sm, isa, cuda }:
let
  torch = import "${builtins.fetchTarball {
    url = "https://github.com/my-org/pytorch-nix/archive/0123456789abcdef0123456789abcdef01234567.tar.gz";
    sha256 = "0000000000000000000000000000000000000000000000000000";
  }}/.flox/pkgs/pytorch.nix" { inherit sm isa cuda; };
in torch.pythonPackages.torchvision
"""


def thin() -> Fleet:
    """Recipes of three lines that call a shared builder, which fetches another repository's archive."""
    files = {"lib/mkTorchVision.nix": _BUILDER, "lib/cpu-isa.nix": '{ avx2 = { flags = [ "-mavx2" "-mfma" ]; }; }\n'}
    for number in ("025", "026"):
        for cuda in ("12_8", "13_0"):
            for sm in ("80", "90"):
                for isa in ("avx2", "armv9"):
                    call = f'version = "0.{number[1:]}"; sm = "{sm}"; isa = "{isa}"; cuda = "{cuda}";'
                    text = f"{{ pkgs ? import <nixpkgs> {{}} }}:\nimport ./lib/mkTorchVision.nix {{ {call} }}\n"
                    files[f"torchvision{number}-python313-cuda{cuda}-sm{sm}-{isa}.nix"] = text
        files |= mps(f"torchvision{number}", "python313")
    name = "torchvision026-python313-cuda13_0-sm90-avx2"
    return Fleet(branches={"main": files}, defect=(name, 'sm = "90"', 'sm = "80"', "wrong-gpu"))


def baseline() -> Fleet:
    """Names without an ISA, and `-arm64` for the other system."""
    files: dict[str, str] = {}
    for sm in ("80", "90", "120"):
        for isa in ("", "arm64") if sm != "80" else ("",):
            name = f"vllm-python312-cuda12_9-sm{sm}{'-' * bool(isa)}{isa}"
            system = "aarch64-linux" if isa else "x86_64-linux"
            files[f"{name}.nix"] = f"""{head("12_9", config=f' cudaCapabilities = [ "{sm[:-1]}.{sm[-1]}" ];')}in
  nixpkgs_pinned.python312Packages.vllm.overrideAttrs (oldAttrs: {{
    pname = "{name}";
    NIX_BUILD_CORES = 16;
    meta = oldAttrs.meta // {{ platforms = [ "{system}" ]; }};
  }})
"""
    defect = (
        "vllm-python312-cuda12_9-sm90",
        'cudaCapabilities = [ "9.0" ]',
        'cudaCapabilities = [ "8.9" ]',
        "wrong-gpu",
    )
    return Fleet(branches={"vllm-0.13.0": files}, defect=defect)


def everything() -> Fleet:
    """One build for all GPUs beside builds for one, by a Python set with a torch of its own from a shared file."""
    shared = "{ base, capabilities }: (base.override { cudaSupport = true; gpuTargets = capabilities; })\n"
    files = {"lib/custom-torch.nix": shared}
    for sm, targets in {"all": ("8.0", "9.0", "12.0"), "sm90": ("9.0",), "sm120": ("12.0",)}.items():
        for isa in ("avx2", "avx512"):
            name = f"sglang-python312-cuda12_8-{sm}-{isa}"
            listed = " ".join(f'"{target}"' for target in targets)
            start = head("12_8", config=f" cudaCapabilities = [ {listed} ];")
            files[f"{name}.nix"] = f"""{start}  python = nixpkgs_pinned.python312.override {{
    packageOverrides = self: super: {{
      torch = import ./lib/custom-torch.nix {{ base = super.torch; capabilities = [ {listed} ]; }};
    }};
  }};
in
  python.pkgs.sglang.overrideAttrs (oldAttrs: {{
    pname = "{name}";
    meta = oldAttrs.meta // {{ platforms = [ "x86_64-linux" ]; }};
  }})
"""
    defect = ("sglang-python312-cuda12_8-sm90-avx2", '"x86_64-linux"', '"aarch64-linux"', "wrong-platforms")
    return Fleet(branches={"main": files}, defect=defect)


def consumers() -> Fleet:
    """A branch for a consumer: the names and the version of another branch, at another pin."""
    torches = together(torch("python312", "12_8", sm, isa) for sm in ("80", "90") for isa in ("avx2", "avx512"))
    some = {path: text.replace(PINS["12_8"], NEW_PIN) for path, text in torches.items() if "avx2" in path}
    name = "pytorch-python312-cuda12_8-sm90-avx2"
    defect = (name, "python312Packages.torch", "python311Packages.torch", "wrong-python")
    return Fleet(branches={"pytorch-2.9": torches, "pytorch-2.9-vllm-0.14.0": some}, defect=defect)


def singles() -> Fleet:
    """Packages without any variant beside one that has some; some are folders, and some import a shared file."""
    files = together(torch("python313", "12_8", sm, "avx2") for sm in ("80", "90"))
    plain = '{ stdenv }: stdenv.mkDerivation { pname = "@"; version = "1.2"; src = ./.; }\n'
    files |= {f"{name}.nix": plain.replace("@", name) for name in ("comfyui", "comfyui-plugins", "ffmpy")}
    files |= {"web-ui/default.nix": plain.replace("@", "web-ui"), "web-ui/patch.diff": ""}
    files |= {"shared/version.nix": '"1.0"\n'}
    files["tools.nix"] = '{ stdenv }: stdenv.mkDerivation { pname = "tools"; version = import ./shared/version.nix; }\n'
    defect = ("pytorch-python313-cuda12_8-sm90-avx2", '"-mavx2"', '"-mavx512f" "-mavx2"', "flags-exceed-isa")
    return Fleet(branches={"main": files}, defect=defect)


def odd() -> Fleet:
    """Names that fit no axis: a dot, a suffix, an unknown GPU, an impossible pair; and hardware nobody has seen."""
    regular = together(torch("python313", "12_8", sm, isa) for sm in ("80", "90") for isa in ("avx2", "avx512"))
    called = (
        "pytorch-python313-cuda12_8-sm90-avx2-no-nnpack", "pytorch-python313-rocm6_4-gfx942-avx2", "pytorch-nightly",
        "pytorch-python313-cuda13_99-sm990-avx2", "2fast-python313-cuda12_8-sm90-avx2", "pytorch-python27-cpu-avx2",
        "a-package-with-a-name-longer-than-forty-characters-python313-cpu-avx2", "UPPER_case-python313-cpu-avx2",
    )  # fmt: skip
    plain = '{ stdenv }: stdenv.mkDerivation { pname = "odd"; version = "1"; }\n'
    files = regular | {f"{name}.nix": plain for name in called}
    flags = '"-mavx512f" "-mavx512dq" "-mavx512vl" "-mavx512bw"'
    defect = ("pytorch-python313-cuda12_8-sm90-avx512", flags, '"-mavx2"', "wrong-cpu-flags")
    return Fleet(branches={"main": files}, defect=defect)


SHAPES: Mapping[str, Callable[[], Fleet]] = {
    "classic": classic,
    "versions": versions,
    "thin": thin,
    "baseline": baseline,
    "everything": everything,
    "consumers": consumers,
    "singles": singles,
    "odd": odd,
}
