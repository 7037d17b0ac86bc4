"""Whether a derivation is its variant's: what its attributes and its shell code state."""

from __future__ import annotations

from typing import Any

import pytest

from ci_compiler.plan.lookup import BuiltVariant, built_variants
from ci_compiler.plan.pipeline import plan
from ci_compiler.recipes.judged import another_version, differences
from tests.recipes.subjects import TORCH, spec_for
from tests.specs import UNKNOWN_PIN

GPU, ALL, CPU = (f"python313-{name}-avx2" for name in ("cuda12_8-sm90", "cuda12_8-all", "cpu"))
EVERY = "5.0 5.2 6.0 6.1 7.0 7.5 8.0 8.6 8.9 9.0 10.0 12.0"


def built(suffix: str, recipes: str = "compiled") -> BuiltVariant:
    package = {**TORCH, "recipes": recipes}
    spec = spec_for({"pytorch": package}, gpus=["cpu", "sm90", "all"], main={"nixpkgs": UNKNOWN_PIN})
    [one] = built_variants(plan(spec), f"pytorch-{suffix}")
    return one


def listed(value: str, name: str, wanted: str) -> str:
    return f"builds for TORCH_CUDA_ARCH_LIST={value}; {name} is for {wanted}"


@pytest.mark.parametrize(
    ("suffix", "value", "wanted"),
    [
        (GPU, "9.0", ""),
        (GPU, "9.0+PTX", ""),
        (GPU, "9.0a", ""),
        (GPU, "sm_90", ""),
        (GPU, "", ""),
        (GPU, " ;", ""),
        (GPU, "$ARCHS", ""),
        (GPU, "8.0;9.0", "9.0"),
        (GPU, "8.0", "9.0"),
        (ALL, EVERY, ""),
        (ALL, EVERY.replace(" ", ","), ""),
        (ALL, "9.0", EVERY.replace(" ", ", ")),
        (CPU, "9.0", "no GPU"),
        (CPU, "", ""),
    ],
)
@pytest.mark.parametrize("where", ["environment", "shell"])
def test_the_architectures_are_the_variants(suffix: str, value: str, wanted: str, where: str) -> None:
    attributes = {"TORCH_CUDA_ARCH_LIST": value}
    if where == "shell":
        attributes = {"TORCH_CUDA_ARCH_LIST": "3.5", "preBuild": f"export TORCH_CUDA_ARCH_LIST='{value}'"}
    one = built(suffix)
    found = list(differences(one.spec, one, attributes))
    if value == "$ARCHS":
        assert found == []
    else:
        assert found == ([listed(value, one.variant.name, wanted)] if wanted else [])


WANTS = f"pytorch-{CPU} is for avx2 (-mavx2 -mfma -mf16c)"


@pytest.mark.parametrize(
    ("recipes", "flags", "problems"),
    [
        ("compiled", "", []),
        ("compiled", "-O2 $CXXFLAGS", []),
        ("compiled", "-mavx2 -mfma -mf16c -O2", []),
        ("compiled", "-mavx2 -mfma", [f" does not turn on f16c; {WANTS}"]),
        ("own", "-mavx2 -mfma", []),
        ("compiled", "-mavx2 -mfma -mf16c -mavx512f", [f" turns on avx512f; {WANTS}"]),
        ("own", "-mavx512f", [f" turns on avx512f; {WANTS}"]),
        ("compiled", "-msomething", [f" does not turn on avx2, fma, f16c; {WANTS}"]),
        (
            "compiled",
            "-mavx2 -march=alderlak",
            [": -march=alderlak: unknown 'alderlak'; did you mean alderlake?"],
        ),
    ],
)
@pytest.mark.parametrize("name", ["CXXFLAGS", "CFLAGS"])
def test_the_flags_are_those_of_the_variants_isa(name: str, recipes: str, flags: str, problems: list[str]) -> None:
    one = built(CPU, recipes)
    found = list(differences(one.spec, one, {"preConfigure": f'export {name}="{flags}"'}))
    assert found == [f"{name}{problem}" for problem in problems]


def test_a_variable_of_the_derivation_is_the_environment_and_other_attributes_are_not() -> None:
    one = built(CPU)
    attributes = {"CFLAGS": "-mavx2 -mfma -mf16c -mavx512f", "cflags": "-mavx", "CflAGS": "-mavx"}
    [found] = differences(one.spec, one, attributes)
    assert found == f"CFLAGS turns on avx512f; {WANTS}"


@pytest.mark.parametrize(
    ("stated", "version", "problem"),
    [
        ("1.0", "1.0", ""),
        ("1.0", "2.0", "evaluates to version 2.0; main has pytorch 1.0"),
        ("", "2.0", ""),
        ("1.0", "", ""),
    ],
)
def test_the_version_is_that_of_the_branch(stated: str, version: str, problem: str) -> None:
    assert list(another_version("main", "pytorch", stated, version)) == [problem] * bool(problem)
    one: Any = built(CPU)
    if stated:
        assert list(differences(one.spec, one, {"version": version})) == [problem] * bool(problem)
    assert list(differences(one.spec, one, {})) == []
