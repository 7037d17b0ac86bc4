"""The bundled stack: the fleet that really stood, and what one line of spec does to it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.pipeline import plan
from ci_compiler.spec.build import BUNDLED, BUNDLED_SHOWN, bundled_spec, parse_spec

RECIPES = json.loads((Path(__file__).parent / "data/recipes-2026-02-07.json").read_text("utf-8"))
"""The recipe files that stood on the maintainers' branches that day: repository -> branch -> names."""


def edited(*replacements: tuple[str, str]) -> tuple[Cell, ...]:
    """The cells of the bundled spec with each text replaced by another."""
    text = BUNDLED.read_text("utf-8")
    for old, new in replacements:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return plan(parse_spec(text.encode(), shown=BUNDLED_SHOWN)).judged.cells


def names(cells: tuple[Cell, ...], package: str, branch: str) -> set[str]:
    return {v.name for cell in cells if cell.branch == branch for v in cell.variants if v.package == package}


@pytest.fixture(scope="module")
def cells() -> tuple[Cell, ...]:
    return plan(bundled_spec()).judged.cells


def test_each_package_has_44_50_and_59_variants(cells: tuple[Cell, ...]) -> None:
    counts = Counter((cell.branch, variant.package) for cell in cells for variant in cell.variants)
    expected = {"main": 44, "cuda-12_9": 50, "cuda-13_0": 59}
    packages = ("pytorch", "torchvision", "torchaudio")
    assert counts == {(branch, package): count for branch, count in expected.items() for package in packages}


@pytest.mark.parametrize("package", ["pytorch", "torchvision"])
@pytest.mark.parametrize("branch", ["main", "cuda-13_0"])
def test_main_and_cuda_13_0_are_the_fleet_that_stood(cells: tuple[Cell, ...], package: str, branch: str) -> None:
    stood = {name.removesuffix("-no-nnpack") for name in RECIPES[f"build-{package}"][branch]}
    assert names(cells, package, branch) == stood


@pytest.mark.parametrize("package", ["pytorch", "torchvision"])
def test_cuda_12_9_is_a_part_of_it_and_two_lines_make_it_all(cells: tuple[Cell, ...], package: str) -> None:
    stood = set(RECIPES[f"build-{package}"]["cuda-12_9"])
    assert names(cells, package, "cuda-12_9") < stood
    changed = edited(
        ("cpu: {also: {cuda-13_0: [avx]}}", "cpu: {also: {cuda-12_9: [avx], cuda-13_0: [avx]}}"),
        ("sm75: {branches: [cuda-13_0]}", "sm75: {branches: [cuda-12_9, cuda-13_0]}"),
    )
    assert names(changed, package, "cuda-12_9") == stood
    assert names(changed, package, "main") == names(cells, package, "main")


def test_a_further_python_isa_gpu_package_or_branch_is_a_line_or_two(cells: tuple[Cell, ...]) -> None:
    count = sum(len(cell.variants) for cell in cells)

    def further(*replacements: tuple[str, str]) -> int:
        return sum(len(cell.variants) for cell in edited(*replacements)) - count

    assert further(('python: ["3.13"]', 'python: ["3.13", "3.12", "3.11"]')) == 2 * count
    assert further(("sm80:\n", "sm80: {also: {main: [avx]}}\n")) == 3
    assert further(("    sm80:\n", "    sm80:\n    sm87:\n")) == 3 * 2 * 3
    assert (
        further(
            ("  torchaudio: {title", "  torchtext: {needs: [pytorch], branches: [main]}\n  torchaudio: {title"),
            ("torchaudio: 2.8.0}", "torchaudio: 2.8.0, torchtext: 0.18.0}"),
        )
        == 44
    )
    branch = (
        '  nightly:\n    cuda: "13.0"\n    nixpkgs: 0123456789abcdef0123456789abcdef01234567\n'
        "    versions: {pytorch: 2.11.0, torchvision: 0.26.0, torchaudio: 2.11.0}\n"
    )
    assert further(("\npackages:\n", f"{branch}\npackages:\n")) == 3 * (6 + 7 * 6)
