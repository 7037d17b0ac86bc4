"""The shell code by which a build proves that its switches and architectures have arrived."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.recipes import proof
from ci_compiler.recipes.subject import Subject
from tests.recipes.subjects import TORCH, spec_for, subject_for

GPU, OLD, ALL, CPU = (
    f"python313-{name}" for name in ("cuda13_0-sm90-avx2", "cuda12_8-sm61-avx", "cuda13_0-all-avx2", "cpu-avx2")
)
FLAGS = '"${lib.concatStringsSep " " cpuFlags}"'
ARRIVED = [f"arrived CMAKE_C_FLAGS {FLAGS}", f"arrived CMAKE_CXX_FLAGS {FLAGS}"]
OPTIONAL = [f"{line} optional" for line in ARRIVED]
VISION = {"attribute": "torchvision"}
FIX = {"why": "its switches", "exports": {"USE_X": "1", "OWN": "2", "USE_Y": '"$USE_Y -y"'}, "cmake": ["-DQ=a b"]}


def subject(package: dict[str, Any], suffix: str, **fix: Any) -> Subject:
    main = {"cuda": "12.8" if "12_8" in suffix else "13.0", **({"work-arounds": ["fix"]} if fix else {})}
    gpus, isas = (["cpu", "sm61"], ["avx"]) if suffix == OLD else (["cpu", "sm90", "all"], ["avx2"])
    spec = spec_for(
        {"mine": package}, gpus=gpus, isas=isas, main=main, **({"work-arounds": {"fix": fix}} if fix else {})
    )
    return subject_for(spec, f"mine-{suffix}")


def calls(text: str) -> list[str]:
    """The lines after the functions that a text defines."""
    return text.rpartition("\n}\n")[2].splitlines()


def defined(text: str) -> list[str]:
    return [line.removesuffix("() {") for line in text.splitlines() if line.endswith("() {")]


@pytest.mark.parametrize(
    ("package", "suffix", "fix", "expected"),
    [
        ({}, CPU, {}, []),
        (VISION, GPU, {}, []),
        ({"cmake-flags": ["-Wno-dev", "D=1"]}, CPU, {}, []),
        (
            {"cmake-flags": ["-DA:BOOL=OFF", "-DB.c+d=@isa@ x"]},
            CPU,
            {},
            [*OPTIONAL, "arrived A OFF", "arrived B.c+d 'avx2 x'"],
        ),
        ({"environment": {"USE_X": "1"}}, CPU, {}, []),
        ({}, CPU, FIX, [*OPTIONAL, "arrived Q 'a b'"]),
        (TORCH, CPU, {}, ARRIVED),
        (TORCH, CPU, FIX, [*ARRIVED, "arrived USE_X 1", 'arrived USE_Y "$USE_Y"']),
        (
            TORCH | {"environment": {"BUILD_A": "a b", "CMAKE_B": 1, "USE_C": "@isa@", "MINE": "1"}},
            CPU,
            {},
            [*ARRIVED, "arrived BUILD_A 'a b'", "arrived CMAKE_B 1", "arrived USE_C avx2"],
        ),
        (TORCH, GPU, {}, [*ARRIVED, "grep '^ *FLAGS = ' build/build.ninja | built_for 0.5 90"]),
        (
            TORCH,
            OLD,
            {},
            [
                *ARRIVED,
                "arrived USE_CUDNN 0",
                *(f"arrived USE_{name} 0" for name in ("FBGEMM", "MKLDNN", "MKLDNN_CBLAS", "NNPACK")),
                *(f"arrived {name}_FOUND FALSE" for name in ("C_AVX2", "CXX_AVX2", "C_AVX512", "CXX_AVX512")),
                "grep '^ *FLAGS = ' build/build.ninja | built_for 0.5 61",
            ],
        ),
    ],
)
def test_each_switch_is_looked_for_in_the_cache_of_cmake(
    package: dict[str, Any], suffix: str, fix: dict[str, Any], expected: list[str]
) -> None:
    text = proof.of_configuration(subject(package, suffix, **fix))
    assert calls(text) == expected
    is_planned = any("built_for" in line for line in expected)
    assert defined(text) == ["arrived"] * bool(expected) + ["built_for"] * is_planned


CUOBJDUMP = "${lib.getBin pkgs.cudaPackages.cuda_cuobjdump}/bin/cuobjdump --list-elf {} \\;"


@pytest.mark.parametrize(
    ("package", "suffix", "end", "is_defined"),
    [
        ({}, GPU, "", False),
        (TORCH, CPU, "", False),
        (VISION, CPU, "", False),
        (VISION, GPU, "done | built_for 0 90", True),
        (TORCH, GPU, "done | built_for 1000000 90", False),
        (VISION, ALL, "done | built_for 0 75 80 86 89 90 100 103 120", True),
    ],
)
def test_the_machine_code_of_the_libraries_is_read(
    package: dict[str, Any], suffix: str, end: str, is_defined: bool
) -> None:
    """What `preBuild` of torch defined is still there."""
    text = proof.of_libraries(subject(package, suffix))
    assert defined(text) == ["built_for"] * is_defined
    assert calls(text) == (
        [
            "for output in $(getAllOutputNames); do",
            "  [ ! -e \"''${!output}\" ] ||",
            f'    find "\'\'${{!output}}" -name "*.so*" -type f -exec {CUOBJDUMP}',
            end,
        ]
        if end
        else []
    )


def test_functions_are_those_of_the_files_or_imported_by_shared_texts() -> None:
    one = subject(TORCH, GPU)
    script = (Path(proof.__file__).parent / "shell/arrived.sh").read_text("utf-8")
    [text] = proof.functions(one, "arrived")
    assert text == proof.function("arrived")
    assert text.replace("''${", "${") == script.rstrip("\n")
    shared = replace(one, is_shared=True)
    assert proof.functions(shared, "arrived", "built-for") == (
        "${import ./shell/arrived.nix}",
        "${import ./shell/built-for.nix}",
    )
    assert calls(proof.of_configuration(shared))[:2] == [
        "${import ./shell/arrived.nix}",
        "${import ./shell/built-for.nix}",
    ]
