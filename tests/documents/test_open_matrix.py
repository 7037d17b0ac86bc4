"""BUILD_MATRIX.md of open matrices: each variant is in it once, and nothing in it belongs to the short form."""

from __future__ import annotations

import re

import pytest

from ci_compiler.documents.build_matrix import text
from tests.documents.test_build_matrix import tables
from tests.plan.test_public_matrices import planned

OPEN = ("flash-attention", "llama-cpp", "hf-kernels")


@pytest.mark.parametrize("name", OPEN)
def test_every_variant_is_in_it_by_its_name(name: str) -> None:
    decided = planned(name)
    section = text(decided).split("## Variants")[1].split("## What is tested where")[0]
    assert tables(section)
    links = re.findall(r'\[([^]]+)\]\(\S*build\.sh(?: "([^"]+)")?\)', section)
    names = [one.name for cell in decided.judged.cells for one in cell.variants]
    assert sorted(hint or shown for shown, hint in links) == sorted(names)


@pytest.mark.parametrize("name", OPEN)
def test_it_says_nothing_about_nvidia_and_instruction_sets(name: str) -> None:
    document = text(planned(name))
    for word in ("sm80", "NVIDIA", "Tegra", "nvidia-smi", "driver", "cuDNN", "nixpkgs", "instruction set"):
        assert word not in document, word


def test_it_says_how_names_are_spelled_and_how_variants_are_installed() -> None:
    kernels, llama = text(planned("hf-kernels")), text(planned("llama-cpp"))
    assert "`PACKAGE-{torch}-{abi}-{accelerator}-{platform}`" in kernels
    assert "| torch | `2.12`, `2.13` | `torch212`, `torch213` |" in kernels
    assert "| `kernels download kernel-torch212-cpu-aarch64-darwin` |" in kernels
    assert "`curl -LO https://example.org/llama-12001-llama-ui-any.zip`" in llama
    assert "### OpenVINO 2026.0 on master" in llama
    assert "`universal-apple` (platform) serves `aarch64-ios`, `aarch64-darwin`." in llama


def test_it_says_what_is_untested_and_why() -> None:
    document = text(planned("llama-cpp"))
    assert "| `cudart` | `*` | CUDA's own libraries. |" in document
    assert "| ROCm 7.2 | – | 0 of 1 |" in document


def test_it_says_what_is_left_out_where() -> None:
    rows = [row for table in tables(text(planned("flash-attention"))) for row in table]
    (old,) = [row for row in rows if "no build for CUDA 13" in row[2]]
    assert "torch `2.6.0`, `2.7.1`, `2.8.0`" in old[1]
    assert "toolkit `13.0`" in old[1]
    assert "Python" not in old[1]
    assert old[3] == str(4 * 2 * 2 * 3)
