"""The guide to the differences from the maintainers' documents: what it says of this stack is so."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from ci_compiler.hardware import products
from ci_compiler.plan.pipeline import plan
from ci_compiler.spec.build import bundled_spec
from tests.loops import each

TESTS = Path(__file__).parents[1]
GUIDE = (TESTS.parent / ".github/docs/maintainers-documents.md").read_text("utf-8")
SPEC = bundled_spec()


def cells(start: str) -> list[str]:
    """The cells of the row of a table that begins with `start`."""
    [row] = [line for line in GUIDE.splitlines() if line.startswith(f"| {start}")]
    return [cell.strip() for cell in row.strip("|").split("|")]


def test_the_variants_are_counted() -> None:
    stood = json.loads((TESTS / "data/recipes-2026-02-07.json").read_text("utf-8"))
    built = Counter((cell.branch, one.package) for cell in plan(SPEC).judged.cells for one in cell.variants)
    for branch in each(SPEC.branches):
        for package in ("pytorch", "torchvision"):
            recipes = len(stood[f"build-{package}"][branch])
            assert cells(f"`{branch}` |")[1:] == [str(recipes), str(built[branch, package])]


@pytest.mark.parametrize(("start", "product"), [("L40S", "L40S"), ("SM110 is", "Orin"), ("SM110 is", "Thor")])
def test_gpus_are_what_the_guide_says(start: str, product: str) -> None:
    gpu = products.device(SPEC.hardware, product, "")
    assert gpu is not None
    assert f"`{gpu.sm}`" in cells(start)[1]


@pytest.mark.parametrize(
    ("start", "cpu", "isa", "lacks"),
    [
        ("Graviton3", "Graviton3", "armv8_2", "armv9"),
        ("Graviton3", "Graviton4", "armv9", "none"),
        ("VNNI", "Cascade Lake", "avx512vnni", "none"),
        ("VNNI", "Skylake-SP", "avx512", "avx512vnni"),
        ("an i9-12900K", "i9-12900K", "avx2", "avx512"),
    ],
)
def test_cpus_are_what_the_guide_says(start: str, cpu: str, isa: str, lacks: str) -> None:
    runs = products.cpu(SPEC.hardware, cpu).isas
    assert isa in runs
    assert lacks not in runs
    assert cpu in " ".join(cells(start))


def test_drivers_are_what_the_guide_says() -> None:
    hardware = SPEC.hardware
    for start, versions in (("550 or newer", ("12.8", "12.9")), ("570 or newer", ("13.0",))):
        lowest = {hardware.toolkit(version).lowest_driver for version in versions}
        assert [f"{one} or newer" for one in lowest] == [cells(start)[1]]
    blackwell = {hardware.gpu(name).driver for name in ("sm100", "sm103", "sm110", "sm120", "sm121")}
    assert [f"and {one} for Blackwell" in cells("a driver for each GPU")[1] for one in blackwell] == [True]
    last = {hardware.gpu(name).last_driver for name in ("sm61", "sm70")}
    assert [cells("no upper limit")[1].startswith(f"{one} is the last") for one in last] == [True]
    assert cells("SM100 needs")[1] == str(hardware.gpu("sm100").first_toolkit)
