"""Which capabilities a cell is built for, and which recipes set them for all packages of nixpkgs."""

from __future__ import annotations

from typing import Any

import pytest

from ci_compiler.recipes.capabilities import (
    capabilities_of,
    linked_libraries,
    sets_capabilities,
    variants_with_capabilities,
)
from tests.recipes.subjects import TORCH, cell_of, spec_for

X86, ARM = ("x86_64-linux", "avx2"), ("aarch64-linux", "armv9")
PASCAL = "5.0 5.2 6.0 6.1"
"""The capabilities before 7.0 that CUDA 12.8 still supports, on x86-64 alone."""


def cell(gpu: str, cuda: str, where: tuple[str, str] = X86, **package: Any) -> Any:
    """The spec and the cell of a package like torch for `gpu`."""
    system, isa = where
    spec = spec_for(
        {"pytorch": {**TORCH, **package}}, gpus=["cpu", gpu], isas=[isa], system=system, main={"cuda": cuda}
    )
    accelerator = "cpu" if gpu == "cpu" else f"cuda{cuda.replace('.', '_')}-{gpu}"
    return spec, cell_of(spec, f"python313-{accelerator}-{isa}")


@pytest.mark.parametrize(
    ("gpu", "cuda", "where", "capabilities"),
    [
        ("cpu", "12.8", X86, ""),
        ("sm90", "12.8", X86, "9.0"),
        ("sm87", "12.8", ARM, "8.7"),
        ("all", "12.6", X86, f"{PASCAL} 7.0 7.5 8.0 8.6 8.9 9.0"),
        ("all", "12.8", X86, f"{PASCAL} 7.0 7.5 8.0 8.6 8.9 9.0 10.0 12.0"),
        ("all", "12.8", ARM, "7.0 7.5 8.0 8.6 8.9 9.0 10.0 12.0"),
        ("all", "12.9", ARM, "7.0 7.5 8.0 8.6 8.9 9.0 10.0 10.3 12.0 12.1"),
        ("all", "13.0", ARM, "7.5 8.0 8.6 8.9 9.0 10.0 10.3 12.0 12.1"),
    ],
)
def test_a_cell_is_built_for_what_its_toolkit_and_system_support(
    gpu: str, cuda: str, where: tuple[str, str], capabilities: str
) -> None:
    """The first toolkits: 10.0 and 12.0 12.8, 10.3 and 12.1 12.9; the last one before 7.5: 12.9."""
    spec, one = cell(gpu, cuda, where)
    assert capabilities_of(spec.hardware, one) == tuple(capabilities.split())


@pytest.mark.parametrize(
    ("gpu", "cuda", "package", "is_set"),
    [
        ("cpu", "12.8", {"capabilities": True}, False),
        ("sm90", "12.8", {}, False),
        ("sm90", "12.8", {"capabilities": True}, True),
        ("sm90", "12.8", {"preset": "package"}, True),
        ("sm90", "12.8", {"preset": "package", "environment": {"ARCHS": "@sm@"}}, False),
        ("sm61", "12.8", {}, True),
        ("sm61", "12.8", {"capabilities": False}, False),
        ("sm70", "12.5", {}, False),
        ("sm70", "12.6", {}, True),
        ("all", "12.8", {}, True),
        ("all", "13.0", {}, False),
    ],
)
def test_the_switch_is_set_where_the_packages_own_argument_does_not_reach(
    gpu: str, cuda: str, package: dict[str, Any], is_set: bool
) -> None:
    """nixpkgs builds for 7.0 unasked up to CUDA 12.5, and for 6.1 up to 12.3."""
    spec, one = cell(gpu, cuda, **package)
    assert sets_capabilities(spec, spec.packages["pytorch"], one) is is_set
    names = [variant.name for variant in variants_with_capabilities(spec, one)]
    assert names == [f"pytorch-{one.suffix}"] * is_set


def test_only_compiled_recipes_set_it() -> None:
    packages = {"mine": {}, "own": {"recipes": "own"}, "theirs": {"recipes": "template", "template": "nix/t.nix"}}
    spec = spec_for(packages)
    one = cell_of(spec, "python313-cuda12_8-sm90-avx2")
    assert [variant.package for variant in variants_with_capabilities(spec, one)] == ["mine"]


USUAL = "7.5, 8.0, 8.6, 8.9, 9.0, 10.0"


@pytest.mark.parametrize(
    ("gpu", "cuda", "where", "package", "said"),
    [
        ("cpu", "12.8", X86, {}, ""),
        ("sm90", "12.8", X86, {"preset": "package"}, ""),
        ("sm90", "12.8", X86, {"attribute": "torchvision"}, ""),
        ("sm61", "12.8", X86, {}, "NCCL and MAGMA are built for 6.1 alone"),
        (
            "sm90",
            "12.8",
            X86,
            {},
            (
                f"NCCL and MAGMA have code for nixpkgs' 7 architectures, {USUAL}, 12.0; "
                "`capabilities: true` builds them for 9.0 alone, without a cache"
            ),
        ),
        (
            "sm90",
            "12.5",
            X86,
            {},
            (
                "NCCL and MAGMA have code for nixpkgs' 6 architectures, 7.0, 7.5, 8.0, 8.6, 8.9, 9.0; "
                "`capabilities: true` builds them for 9.0 alone, without a cache"
            ),
        ),
        (
            "all",
            "13.0",
            X86,
            {},
            (
                f"NCCL and MAGMA have code for nixpkgs' 9 architectures, {USUAL}, 10.3, 12.0, 12.1; "
                f"`capabilities: true` builds them for {USUAL}, 10.3, 12.0 alone, without a cache"
            ),
        ),
        (
            "sm87",
            "12.8",
            ARM,
            {},
            (
                "NCCL and MAGMA are built for 8.7 alone; nixpkgs takes it for a Jetson: its hook for cuda_compat is "
                "among the inputs, and does nothing where the toolkit has none, as CUDA 13.0"
            ),
        ),
    ],
)
def test_what_the_linked_libraries_are_built_for(
    gpu: str, cuda: str, where: tuple[str, str], package: dict[str, Any], said: str
) -> None:
    spec, one = cell(gpu, cuda, where, **package)
    assert linked_libraries(spec, spec.packages["pytorch"], one) == said
