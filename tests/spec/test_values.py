"""The values of a variant by name, which commands and recipes get."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ci_compiler.spec.values import NAMES, names_of, variant_values
from tests.specs import small, spec_of

PACKAGES = {"pytorch": {"attribute": "torch", "jobs": 7}, "torchvision": {}}
SPEC = spec_of(small(packages=PACKAGES))
BARE = {"name": "n", "package": "pytorch", "version": "2.8.0", "branch": "main", "python": "3.13", "jobs": "7"}


@pytest.mark.parametrize(
    ("axes", "expected"),
    [
        (
            {"family": "cuda", "toolkit": "12.8", "target": "sm90", "isa": "avx2"},
            {"cuda": "12.8", "gpu": "sm90", "capability": "9.0", "isa": "avx2", "system": "x86_64-linux"}
            | {"accelerator-tag": "cu128"},
        ),
        (
            {"family": "cpu", "toolkit": "", "target": "cpu", "isa": "armv9"},
            {"cuda": "", "gpu": "cpu", "capability": "", "isa": "armv9", "system": "aarch64-linux"}
            | {"accelerator-tag": "cpu"},
        ),
        (
            {"family": "cuda", "toolkit": "12.8", "target": "all", "isa": ""},
            {"cuda": "12.8", "gpu": "all", "capability": "", "isa": "", "system": "", "flags": ""}
            | {"accelerator-tag": "cu128"},
        ),
    ],
)
def test_a_variant_has_these_values(axes: dict[str, str], expected: dict[str, str]) -> None:
    values = variant_values(SPEC, "main", "pytorch", "n", SimpleNamespace(python="3.13", **axes))
    assert tuple(values) == NAMES
    flags = values["flags"] if axes["isa"] else ""
    assert values == BARE | {"flags": flags} | expected
    assert bool(flags) is bool(axes["isa"])


def test_flags_are_those_of_the_instruction_set() -> None:
    axes = SimpleNamespace(python="3.13", family="cpu", toolkit="", target="cpu", isa="avx2")
    assert variant_values(SPEC, "main", "pytorch", "n", axes)["flags"].split()[:1] == ["-mavx2"]


def test_a_package_without_a_version_has_an_empty_one() -> None:
    axes = SimpleNamespace(python="3.13", family="cpu", toolkit="", target="cpu", isa="avx2")
    spec = spec_of(small(packages={"pytorch": {"recipes": "own"}}, branches={"main": {"cuda": "12.8"}}))
    assert variant_values(spec, "main", "pytorch", "n", axes)["version"] == ""


def test_axes_and_settings_are_further_names() -> None:
    assert names_of(SPEC) == (*NAMES, "family", "toolkit", "target", "platform")
    command = {"build": "b", "files": ["f"], "publish": "p", "install": "i"}
    spec = spec_of(
        small(
            backend="command",
            branches={"main": {"versions": {"p": "1"}}},
            packages={"p": {"command": command}},
            axes={"abi": {"values": ["old", "cxx11"]}, "torch_line": {"values": ["2.8"]}},
            matrix={"values": {"accelerator": "cpu", "platform": "x86_64-linux", "abi": "old", "torch_line": "2.8"}},
        )
    )
    assert names_of(spec) == (*NAMES, "family", "toolkit", "target", "platform", "abi", "torch-line")
