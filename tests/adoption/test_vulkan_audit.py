"""The audit of recipes for Vulkan: no finding on compiled ones, and the right one for each slip."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_compiler.adoption.audit import audit
from ci_compiler.adoption.self_test import self_test
from tests.adoption.helpers import edit, needs_nix
from tests.adoption.test_rocm_audit import written
from tests.processes import MINUTES
from tests.recipes.test_rocm import spec_with

PACKAGES = {"pytorch": {"attribute": "torch"}, "torchvision": {"needs": ["pytorch"]}, "llama-cpp": {"set": "top"}}
SPEC = spec_with("cpu", "vulkan", **PACKAGES)
CELL, CPU = "python313-vulkan-avx2", "python313-cpu-avx2"


def found_in(root: Path) -> list[tuple[str, str]]:
    """The code and the message of each finding, without those that the text differs from the compiler's."""
    causes = audit(root, SPEC, "main", timeout=MINUTES).defects
    return [(str(one.code), one.message) for cause in causes for one in cause.findings if one.code != "recipe-differs"]


@needs_nix
def test_compiled_recipes_have_no_defect(tmp_path: Path) -> None:
    assert found_in(written(tmp_path, SPEC)) == []


@needs_nix
@pytest.mark.parametrize(
    ("name", "old", "new", "code", "said"),
    [
        (f"pytorch-{CELL}", "Support = true", "Support = false", "cuda-off", "Vulkan is turned off, but the recipe"),
        (f"llama-cpp-{CELL}", "Support = true", "Support = false", "cuda-off", "Vulkan is turned off, but the recipe"),
        (
            f"pytorch-{CPU}",
            "Support = false;",
            "Support = false; vulkanSupport = true;",
            "cuda-in-cpu-recipe",
            "Vulkan is turned on, but the recipe is for CPUs only",
        ),
        (f"pytorch-{CELL}", "-mfma", "-mavx512f", "flags-exceed-isa", "which avx2 does not have"),
    ],
)
def test_a_slip_is_found(name: str, old: str, new: str, code: str, said: str, tmp_path: Path) -> None:
    edit(written(tmp_path, SPEC) / f".flox/pkgs/{name}.nix", old, new)
    found = found_in(tmp_path)
    assert any(one == code and said in message for one, message in found), found


@needs_nix
def test_the_self_test_plants_what_recipes_for_vulkan_can_have(tmp_path: Path) -> None:
    made = self_test(written(tmp_path, SPEC, self_contained=False), SPEC, "main", timeout=MINUTES)
    seen = {one.kind: set(one.seen) - {"recipe-differs"} for one in made if one.recipe}
    assert seen["Vulkan turned off"] == {"cuda-off"}
    assert seen["a CPU build with Vulkan"] == {"cuda-in-cpu-recipe"}
    assert all(one.seen for one in made if one.recipe)
    assert "ROCm turned off" not in seen
