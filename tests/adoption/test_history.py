"""Defects that maintainers of public fleets fixed, in miniature: adopt takes over the recipes, and audit finds each.

The labels are commits that fixed such a defect, in build-pytorch, build-torchvision, build-ollama-cuda,
gpu-specific-pytorch and torchvision-nix. The recipes are those of `fleets`, with the defect planted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from ci_compiler.adoption.adopt import adopt
from ci_compiler.adoption.audit import audit
from tests.adoption.fleets import ARM, X86, Fleet, together, torch, vision
from tests.adoption.helpers import needs_nix

PYTHON = "python313"
TORCH, VISION = "build-pytorch", "build-torchvision"
HEALTHY = [(sm, isa) for sm in ("80", "90") for isa in (*X86, *ARM)]


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A defect: the repository, the recipe's toolkit ('' for CPUs), GPU and ISA, what is replaced, the code.

    `called` is the recipe's name, where it is part of the defect.
    """

    repository: str
    recipe: tuple[str, str, str]
    code: str
    edits: tuple[tuple[str, str], ...] = ()
    called: str = ""

    def files(self) -> dict[str, str]:
        """The recipe, with the defect."""
        ((name, text),) = (torch if self.repository == TORCH else vision)(PYTHON, *self.recipe).items()
        for old, new in self.edits:
            assert old in text, (self, old)
            text = text.replace(old, new)
        return {f"{self.called}.nix" if self.called else name: text}


def in_torch(code: str, recipe: tuple[str, str, str], *edits: tuple[str, str], called: str = "") -> Planted:
    return Planted(repository=TORCH, recipe=recipe, code=code, edits=edits, called=called)


def in_vision(code: str, recipe: tuple[str, str, str], *edits: tuple[str, str], called: str = "") -> Planted:
    return Planted(repository=VISION, recipe=recipe, code=code, edits=edits, called=called)


ALIAS = (f"{PYTHON}Packages.torch.", f"{PYTHON}Packages.pytorch.")
OVERLAY = ("(final: prev: { cudaPackages = final.cudaPackages_13_0; })", "")
BOTH = '"x86_64-linux" "aarch64-linux"'
FMA = ('"-mavx" "-mno-fma"', '"-mavx" "-mfma"')


def notation(sm: str) -> tuple[str, str]:
    return f'gpuTargets = [ "{sm[:-1]}.{sm[-1]}" ]', f'gpuTargets = [ "sm_{sm}" ]'


HISTORY: Mapping[str, Planted] = {
    # torch's `out` does not reach users of torchvision.
    "845c4ec": in_vision("torch-not-propagated", ("12_8", "86", "avx2"), ("++ [ customPytorch.out ]", "")),
    "374717c": in_vision("torch-not-propagated", ("12_8", "86", "armv9"), ("customPytorch.out", "customPytorch")),
    "cd45e28": in_vision("torch-not-propagated", ("13_0", "86", "avx2"), ("customPytorch.out", "customPytorch.dev")),
    # GPUs whose hosts have another CPU, and GPUs that the toolkit does not know.
    "a77ba99": in_vision("gpu-host", ("13_0", "110", "avx2")),
    "0dc7b50": in_vision("gpu-host", ("13_0", "121", "avx512")),
    "2632912": in_torch("gpu-host", ("13_0", "121", "avx2")),
    "563c355": in_torch("gpu-host", ("13_0", "110", "avx512")),
    "b27f298": in_torch("gpu-needs-newer-cuda", ("12_8", "103", "avx2")),
    "d2738b2": in_vision("gpu-needs-newer-cuda", ("12_8", "121", "armv9")),
    "57c4350": in_vision("gpu-needs-newer-cuda", ("12_8", "110", "armv8_2")),
    # Another notation in gpuTargets, and no gpuTargets at all.
    "2a7de84": in_torch("gpu-target-notation", ("12_8", "89", "avx2"), notation("89")),
    "b8d708d": in_torch("gpu-target-notation", ("13_0", "110", "armv9"), notation("110")),
    "d052e0b": in_torch("gpu-target-notation", ("13_0", "86", "avx512"), notation("86")),
    "04329f6": in_vision("gpu-target-notation", ("12_8", "89", "avx2"), notation("89")),
    "82cd945": in_vision("gpu-target-notation", ("13_0", "110", "armv9"), notation("110")),
    "81477bc": in_vision("gpu-target-notation", ("13_0", "120", "avx2"), notation("120")),
    "1b4a603": in_torch("gpu-target-notation", ("13_0", "120", "avx2"), ('"12.0"', '"120"')),
    "66f78f0": in_torch("wrong-gpu", ("13_0", "75", "avx2"), ('gpuTargets = [ "7.5" ];', "")),
    # The CUDA of nixpkgs in place of that of the name.
    "19a5b84": in_torch("cuda-in-name", ("13_0", "89", "avx2"), OVERLAY),
    "c4b6f90": in_vision("cuda-in-name", ("13_0", "89", "avx2"), OVERLAY),
    "17312f6": in_torch("cuda-in-cpu-recipe", ("", "", "avx2"), ("allowUnfree = true;", "cudaSupport = true;")),
    # An alias in place of the attribute.
    "c67bc52": in_torch("pytorch-alias", ("12_8", "75", "avx2"), ALIAS),
    "b72aac8": in_vision("pytorch-alias", ("12_8", "75", "avx2"), ALIAS),
    "0e1f1e5": in_torch("pytorch-alias", ("12_8", "75", "avx512"), (ALIAS[0], "python3Packages.pytorch.")),
    # Instructions that the CPUs of the name do not have, and systems that do not have the instructions.
    "f3e1d8b": in_torch("flags-exceed-isa", ("12_8", "61", "avx"), FMA),
    "16c1a57": in_vision("flags-exceed-isa", ("12_8", "61", "avx"), FMA),
    "db00271": in_vision("wrong-platforms", ("12_8", "61", "avx2"), ('"x86_64-linux"', BOTH)),
    # Names.
    "c04c8d5": in_torch("dotted-name", ("12_8", "100", "armv8_2"), called=f"pytorch-{PYTHON}-cuda12_8-sm100-armv8.2"),
    "73864ec": in_torch("dotted-name", ("", "", "avx512"), called=f"{PYTHON}Packages.pytorch-cpu-avx512"),
    "c7d89d5": in_vision("pname-differs", ("12_8", "75", "avx"), ('sm75-avx";', 'sm75-avx-no-nnpack";')),
    # Files that are not valid Nix, or not in the repository.
    "8574696": in_torch("recipe-syntax", ("12_8", "100", "avx2"), ("cudaSupport = true;", "cudaSupport = true; " * 2)),
    "0b75703": in_torch("recipe-evaluation", ("12_8", "120", "avx2"), ("(nixpkgs_pinned)", "(import ./lib/x.nix)")),
}  # fmt: skip


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> set[tuple[str, str, str]]:
    """The repository, the recipe and the code of each defect that audit finds."""
    defects = set()
    for repository, of in ((TORCH, torch), (VISION, vision)):
        healthy = [of(PYTHON, cuda, sm, isa) for cuda in ("12_8", "13_0") for sm, isa in HEALTHY]
        planted = [one.files() for one in HISTORY.values() if one.repository == repository]
        fleet = Fleet(branches={"main": together([*healthy, *planted])}, defect=("", "", "", ""))
        root = fleet.write(tmp_path_factory.mktemp(repository), "main")
        causes = audit(root, adopt([root]).spec, "main").defects
        defects |= {(repository, Path(one.place.file).stem, one.code) for cause in causes for one in cause.findings}
    return defects


@needs_nix
@pytest.mark.parametrize("commit", HISTORY)
def test_a_defect_that_maintainers_fixed_is_found(found: set[tuple[str, str, str]], commit: str) -> None:
    planted = HISTORY[commit]
    (path,) = planted.files()
    assert (planted.repository, path.removesuffix(".nix"), planted.code) in found


@needs_nix
def test_nothing_is_found_in_the_other_recipes(found: set[tuple[str, str, str]]) -> None:
    planted = {(one.repository, path.removesuffix(".nix")) for one in HISTORY.values() for path in one.files()}
    assert {(repository, name) for repository, name, _ in found} == planted
