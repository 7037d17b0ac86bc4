"""What the pinned nixpkgs and the release of torch cannot give, package by package."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ci_compiler.codes import Severity
from ci_compiler.plan.releases import dnn_of, release_findings, uses_dnn
from ci_compiler.plan.rules import judge
from tests.specs import MAIN, PIN, SOURCE, UNKNOWN_PIN, matrix, small, spec_of

NEWER = "6a030d535719c5190187c4cec156f335e95e3211"
"""A commit of nixpkgs that has torch 2.9.1 and torchvision 0.24.1."""

Found = list[tuple[str, str, str]]


def found(
    packages: dict[str, Any] | None = None, branch: dict[str, Any] | None = None, gpu: str = "sm90", **changes: Any
) -> Found:
    """The findings on the small spec with one cell: the code, the place and the message of each."""
    given = small(**{**matrix(gpus={gpu: {"isas": ["avx2"]}}), **changes})
    given["packages"] = packages or given["packages"]
    given["branches"]["main"] |= branch or {}
    spec = spec_of(given)
    findings = list(release_findings(spec, judge(spec).cells))
    return [(one.code, json.dumps(given)[one.place.column - 1 :], one.message) for one in findings]


def assert_found(findings: Found, *expected: tuple[str, str, str]) -> None:
    assert [code for code, _, _ in findings] == [code for code, _, _ in expected]
    for (_, place, message), (_, there, said) in zip(findings, expected, strict=True):
        assert place.startswith(there)
        assert message.startswith(said)


VISION = {"needs": ["pytorch"]}
TORCH = {"attribute": "torch"}


def test_packages_that_belong_together_have_no_finding() -> None:
    assert found() == found(gpu="cpu") == []


@pytest.mark.parametrize(
    ("packages", "expected"),
    [
        (
            {"pytorch": {"attribute": "numpy"}},
            [
                (
                    '"numpy"',
                    "pytorch is torch in nixpkgs, and the attribute says numpy: each recipe of pytorch would override",
                )
            ],
        ),
        ({"pytorch": {"attribute": "torch-bin"}}, []),
        ({"pytorch": {"attribute": "numpy", "recipes": "own"}}, []),
        ({"pytorch": {"attribute": "numpy", "recipes": {"*-avx2": "own"}}}, [('"numpy"', "pytorch is torch in")]),
        (
            {"lib": {"attribute": "numpy"}, "torchvision": {"needs": ["lib"]}},
            [
                (
                    '["lib"]',
                    "torchvision is built with torch, and nothing that it needs has that attribute (lib is numpy): ",
                )
            ],
        ),
        ({"lib": {"attribute": "torch"}, "torchvision": {"needs": ["lib"]}}, []),
        ({"lib": {"attribute": "numpy"}, "torchvision": {}}, []),
        ({"lib": {"attribute": "numpy"}, "other": {"needs": ["lib"]}}, []),
    ],
)
def test_a_package_is_what_its_attribute_says(packages: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    versions = {"versions": dict.fromkeys(packages, "1.0"), "nixpkgs": UNKNOWN_PIN}
    assert_found(found(packages, versions, gpu="cpu"), *(("wrong-attribute", *one) for one in expected))


def versions(**changes: str) -> dict[str, Any]:
    return {"versions": {"pytorch": "2.8.0", "torchvision": "0.23.0"} | changes, "nixpkgs": UNKNOWN_PIN}


TWO = {"pytorch": TORCH, "old": TORCH, "torchvision": {"needs": ["old"]}}


@pytest.mark.parametrize(
    ("packages", "branch", "said"),
    [
        (None, versions(torchvision="0.24.1"), "pytorch 2.8.0 on main, which goes with 0.23.0"),
        (None, versions(pytorch="2.8.9", torchvision="0.24.0"), "pytorch 2.8.9 on main, which goes with 0.23.x"),
        (None, versions(pytorch="2.8.9", torchvision="0.23.7"), ""),
        ({"pytorch": TORCH, "torchvision": {}}, versions(torchvision="0.24.1"), "pytorch 2.8.0 on main, which goes"),
        ({"pytorch": {"attribute": "numpy"}, "torchvision": {}}, versions(torchvision="0.24.1"), ""),
        (TWO, versions(old="2.7.0"), "old 2.7.0 on main, which goes with 0.22.0"),
        (TWO, versions(old="2.7.0", torchvision="0.22.0"), ""),
        ({"pytorch": TORCH | {"recipes": "own"}, "torchvision": VISION}, versions(pytorch="99.0"), ""),
    ],
)
def test_a_release_belongs_to_the_torch_that_it_needs(
    packages: dict[str, Any] | None, branch: dict[str, Any], said: str
) -> None:
    findings = [one for one in found(packages, branch, gpu="cpu") if one[0] != "wrong-attribute"]
    version = branch["versions"]["torchvision"]
    message = f"torchvision {version} does not belong to {said}"
    assert_found(findings, *([("release-mismatch", f'"{version}"', message)] if said else []))


@pytest.mark.parametrize(("recipes", "severity"), [("compiled", Severity.ERROR), ("own", Severity.WARNING)])
def test_releases_that_do_not_belong_together_are_tolerated_in_own_recipes(recipes: str, severity: Severity) -> None:
    given = small(packages={"pytorch": TORCH, "torchvision": VISION | {"recipes": recipes}})
    given["branches"]["main"] |= versions(torchvision="0.24.1")
    spec = spec_of(given)
    assert [one.severity for one in release_findings(spec, ())] == [severity]


def test_a_package_that_a_branch_lacks_is_not_compared() -> None:
    packages = {"pytorch": TORCH, "torchvision": {"branches": ["other"]}}
    branches = {"main": MAIN | versions(torchvision="0.24.1"), "other": MAIN | {"nixpkgs": UNKNOWN_PIN}}
    spec = spec_of(small(packages=packages, branches=branches))
    assert list(release_findings(spec, ())) == []


@pytest.mark.parametrize(
    ("branch", "gpu", "python", "code", "said"),
    [
        ({}, "sm90", "3.13", "", ""),
        (
            {},
            "sm90",
            "3.14",
            "python-not-of-torch",
            "pytorch 2.8.0 does not support Python 3.14: PyTorch builds it for 3.9 to 3.13",
        ),
        (
            {"cuda": "13.0"},
            "sm90",
            "3.13",
            "toolkit-not-of-torch",
            "pytorch 2.8.0 does not support CUDA 13.0: PyTorch builds it with 12.6, 12.8, 12.9",
        ),
        ({"cuda": "13.0"}, "cpu", "3.13", "", ""),
        (
            {"versions": {"pytorch": "2.6.0", "torchvision": "0.21.0"}},
            "sm100",
            "3.13",
            "gpu-needs-newer-torch",
            "sm100 needs pytorch 2.7 or newer, and main has 2.6.0, whose build refuses the architecture",
        ),
    ],
)
def test_a_torch_knows_its_gpus_toolkits_and_pythons(
    branch: dict[str, Any], gpu: str, python: str, code: str, said: str
) -> None:
    axes = matrix(python=[python], gpus={gpu: {"isas": ["avx2"]}})
    findings = found(branch={"nixpkgs": UNKNOWN_PIN, **branch}, **axes)
    shown = f'"{({**MAIN, **branch})["versions"]["pytorch"]}"'
    assert_found(findings, *([(code, shown, said)] if code else []))


@pytest.mark.parametrize(
    ("changes", "backend"), [({"recipes": "own"}, "flox"), ({"recipes": {"*-sm90-*": "own"}}, "flox")]
)
def test_only_compiled_recipes_are_judged(changes: dict[str, Any], backend: str) -> None:
    packages = {"pytorch": TORCH | changes, "torchvision": {"recipes": "own"}}
    wrong = {"versions": {"pytorch": "2.8.1", "torchvision": "0.23.0"}, "cuda": "13.0"}
    assert found(packages, wrong, backend=backend) == []
    assert [code for code, _, _ in found({**packages, "pytorch": TORCH}, wrong)] == [
        "toolkit-not-of-torch",
        "version-not-of-pin",
    ]


NOT_OF_PIN = f"main says pytorch 2.9.1, and its nixpkgs {PIN} has 2.8.0; {NEWER} has it: take that version or another"
OVERLAY = {"work-arounds": {"mine": {"why": "It replaces torch.", "overlay": "final: prev: {}"}}}
FLAG = {"work-arounds": {"mine": {"why": "It replaces torch.", "cmake": ["-DA=1"]}}}


@pytest.mark.parametrize(
    ("package", "branch", "changes", "said"),
    [
        ({}, {}, {}, NOT_OF_PIN),
        ({}, {"versions": {"pytorch": "2.8.1"}}, {}, f"main says pytorch 2.8.1, and its nixpkgs {PIN} has 2.8.0: take"),
        ({}, {"nixpkgs": UNKNOWN_PIN}, {}, ""),
        ({}, {"nixpkgs": NEWER}, {}, ""),
        ({}, {"sources": {"pytorch": SOURCE}}, {}, ""),
        ({"attributes": {"doCheck": False}}, {}, {}, NOT_OF_PIN),
        ({"overlays": ["nix/overlay.nix"]}, {}, {}, ""),
        ({}, {"work-arounds": ["mine"]}, OVERLAY, ""),
        ({}, {}, OVERLAY, NOT_OF_PIN),
        ({}, {"work-arounds": ["mine"]}, FLAG, NOT_OF_PIN),
    ],
)
def test_a_version_is_that_of_the_pin_unless_something_else_sets_it(
    package: dict[str, Any], branch: dict[str, Any], changes: dict[str, Any], said: str
) -> None:
    findings = found({"pytorch": TORCH | package}, {"versions": {"pytorch": "2.9.1"}} | branch, **changes)
    version = ({"versions": {"pytorch": "2.9.1"}} | branch)["versions"]["pytorch"]
    assert_found(findings, *([("version-not-of-pin", f'"{version}"', said)] if said else []))


def test_the_pin_of_a_toolkit_counts_and_one_pin_is_judged_once() -> None:
    pins = {"cuda": {"12.8": {}, "12.9": {"nixpkgs": NEWER}}, "versions": {"pytorch": "2.9.1"}}
    axes = matrix(gpus={"cpu": {"isas": ["avx2"]}, "sm90": {"isas": ["avx2", "avx512"]}})
    assert_found(found({"pytorch": TORCH}, pins, **axes), ("version-not-of-pin", '"2.9.1"', NOT_OF_PIN))


AT_SET = {"needs": ["pytorch", "lib"], "at": "set"}


@pytest.mark.parametrize(
    ("packages", "gpu", "expected"),
    [
        (
            {"pytorch": TORCH | {"arguments": {"gpuTarget": 1, "cudaSupport": True}}},
            "sm90",
            [('1, "cuda', f"torch takes no argument 'gpuTarget' in nixpkgs {PIN}; did you mean gpuTargets?")],
        ),
        ({"pytorch": TORCH | {"arguments": {"gpu": {"zzz": 1}}}}, "cpu", []),
        ({"pytorch": TORCH | {"arguments": {"cpu": {"zzz": 1}}}}, "cpu", [("", "torch takes no argument 'zzz' in")]),
        ({"pytorch": TORCH | {"arguments": {"zzz": 1}, "overlays": ["nix/x.nix"]}}, "cpu", []),
        ({"lib": {"attribute": "unheard-of", "arguments": {"zzz": 1}}}, "cpu", []),
        (
            {"pytorch": TORCH, "lib": {"attribute": "lib2"}, "torchvision": {"needs": ["pytorch", "lib"]}},
            "cpu",
            [('["pytorch", "lib"]', f"torchvision takes no argument 'lib2' in nixpkgs {PIN}")],
        ),
        ({"pytorch": TORCH, "lib": {"attribute": "lib2"}, "torchvision": AT_SET}, "cpu", []),
    ],
)
def test_the_function_in_nixpkgs_takes_the_arguments_of_a_recipe(
    packages: dict[str, Any], gpu: str, expected: list[tuple[str, str]]
) -> None:
    known = {"pytorch": "2.8.0", "torchvision": "0.23.0", "lib": "1.0"}
    branch = {"versions": {name: known[name] for name in packages}}
    assert_found(found(packages, branch, gpu), *(("unexpected-argument", *one) for one in expected))


@pytest.mark.parametrize(
    ("gpu", "package", "uses", "version"),
    [
        ("sm90", "pytorch", True, "9.x"),
        ("sm90", "torchvision", True, "9.x"),
        ("sm90", "other", False, ""),
        ("cpu", "pytorch", False, ""),
        ("sm61", "pytorch", False, ""),
    ],
)
def test_the_library_for_neural_networks_comes_with_torch(gpu: str, package: str, uses: bool, version: str) -> None:
    given = small(
        packages={"pytorch": TORCH, "torchvision": VISION, "other": {}}, **matrix(gpus={gpu: {"isas": ["avx2"]}})
    )
    given["branches"]["main"]["versions"]["other"] = "1.0"
    spec = spec_of(given)
    (cell,) = judge(spec).cells
    assert uses_dnn(spec, cell, package) is uses
    assert dnn_of(spec, cell, package) == version


def test_the_library_in_the_torch_of_another_repository_is_not_known() -> None:
    repository = {"name": "o/r", "rev": {"main": "1" * 40}, "hash": {"main": SOURCE["hash"]}}
    given = small(**matrix(gpus={"sm90": {"isas": ["avx2"]}}))
    given["packages"]["pytorch"]["repository"] = repository
    spec = spec_of(given)
    (cell,) = judge(spec).cells
    assert uses_dnn(spec, cell, "torchvision")
    assert dnn_of(spec, cell, "torchvision") == ""
