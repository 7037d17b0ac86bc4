"""The audit of recipes for ROCm: no finding on compiled ones, and the right one for each slip."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_compiler.adoption.adopt import adopt
from ci_compiler.adoption.audit import audit
from ci_compiler.adoption.self_test import self_test
from ci_compiler.plan.rules import judge
from ci_compiler.recipes.render import recipes
from ci_compiler.spec.model import Spec
from tests.adoption.helpers import edit, needs_nix
from tests.adoption.test_adopt import folder_of
from tests.processes import MINUTES
from tests.recipes.test_rocm import CELL, spec_with

PACKAGES = {"pytorch": {"attribute": "torch"}, "torchvision": {"needs": ["pytorch"]}}
SPEC = spec_with("cpu", "rocm 6.4 gfx942", "rocm 6.4 gfx1100", **PACKAGES)
TORCH, VISION, CPU = f"pytorch-{CELL}", f"torchvision-{CELL}", "pytorch-python313-cpu-avx2"


def written(root: Path, spec: Spec = SPEC, *, self_contained: bool = True) -> Path:
    """A checkout with the recipes of `spec`."""
    for path, text in recipes(spec, judge(spec), "main", self_contained=self_contained).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, "utf-8")
    return root


def found_in(root: Path) -> list[tuple[str, str]]:
    """The code and the message of each finding, without those that the text differs from the compiler's."""
    causes = audit(root, SPEC, "main", timeout=MINUTES).defects
    return [(str(one.code), one.message) for cause in causes for one in cause.findings if one.code != "recipe-differs"]


@needs_nix
def test_compiled_recipes_have_no_defect(tmp_path: Path) -> None:
    assert found_in(written(tmp_path)) == []


@needs_nix
@pytest.mark.parametrize(
    ("name", "old", "new", "code", "said"),
    [
        (TORCH, 'SM = "gfx942"', 'SM = "gfx1100"', "wrong-gpu", "gpuTargets is gfx1100, and its name says gfx942"),
        (TORCH, "gpuTargets = [ gpuArchSM ];", "", "wrong-gpu", "PYTORCH_ROCM_ARCH is gfx900, gfx906, gfx908"),
        (TORCH, "  rocmSupport = true;\n  gpu", "  rocmSupport = false;\n  gpu", "cuda-off", "ROCm is turned off"),
        (VISION, 'ARCH="${gpuArchSM}"', 'ARCH="gfx942;gfx90a"', "wrong-gpu", "PYTORCH_ROCM_ARCH is gfx942, gfx90a"),
        (
            CPU,
            "Support = false;",
            "Support = false; rocmSupport = true;",
            "cuda-in-cpu-recipe",
            "ROCm is turned on, but",
        ),
        (TORCH, "-mfma", "-mavx512f", "flags-exceed-isa", "which avx2 does not have"),
        (TORCH, "pname = ", 'ROCM_VERSION = "7.1"; pname = ', "cuda-in-name", "says ROCm 6.4; ROCM_VERSION says 7.1"),
    ],
)
def test_a_slip_is_found(name: str, old: str, new: str, code: str, said: str, tmp_path: Path) -> None:
    edit(written(tmp_path) / f".flox/pkgs/{name}.nix", old, new)
    found = found_in(tmp_path)
    assert any(one == code and said in message for one, message in found), found


@needs_nix
def test_the_self_test_plants_what_recipes_for_rocm_can_have(tmp_path: Path) -> None:
    made = self_test(written(tmp_path, self_contained=False), SPEC, "main", timeout=MINUTES)
    seen = {one.kind: set(one.seen) - {"recipe-differs"} for one in made if one.recipe}
    assert seen["another target in the list"] == {"wrong-gpu"}
    assert seen["a target too many"] == {"wrong-gpu"}
    assert seen["ROCm turned off"] == {"cuda-off"}
    assert seen["a CPU build with ROCm"] == {"cuda-in-cpu-recipe"}
    assert seen["an ISA flag too many"] == {"flags-exceed-isa"}
    assert all(one.seen for one in made if one.recipe)
    assert "CUDA turned off" not in seen


OWN = """\
{ pkgs ? import <nixpkgs> { } }:
let
  pinned = import (builtins.fetchTarball {
    url = "https://github.com/NixOS/nixpkgs/archive/6a030d535719c5190187c4cec156f335e95e3211.tar.gz";
  }) { config.rocmSupport = true; };
in
(pinned.python313Packages.torch.override { rocmSupport = true; gpuTargets = [ "@target@" ]; }).overrideAttrs (old: {
  pname = "@name@";
  meta = old.meta // { platforms = [ "x86_64-linux" ]; };
  preConfigure = old.preConfigure + ''
    export CXXFLAGS="-mavx2 -mfma -mf16c $CXXFLAGS"
  '';
})
"""


@needs_nix
def test_an_adopted_fleet_is_audited_by_its_targets(tmp_path: Path) -> None:
    def recipe(target: str, built: str) -> str:
        return OWN.replace("@target@", built).replace("@name@", f"pytorch-python313-rocm6_4-{target}-avx2")

    targets = ("gfx90a", "gfx942", "gfx1100")
    folder_of(tmp_path, {f"pytorch-python313-rocm6_4-{one}-avx2": recipe(one, one) for one in targets})
    adopted = adopt([tmp_path])
    assert {cell.axes["target"] for cell in adopted.judged.cells} == {*targets}
    spec, branch = adopted.spec, next(iter(adopted.spec.branches))
    assert audit(tmp_path, spec, branch, timeout=MINUTES).defects == ()
    wrong = next(tmp_path.rglob("*gfx1100*.nix"))
    wrong.write_text(recipe("gfx1100", "gfx942"), "utf-8")
    (cause,) = audit(tmp_path, spec, branch, timeout=MINUTES).defects
    assert [one.message for one in cause.findings] == ["gpuTargets is gfx942, and its name says gfx1100"]
