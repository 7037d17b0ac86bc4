"""Facts about releases: what belongs together, what a release of torch knows, what known nixpkgs commits have."""

from __future__ import annotations

import pytest

from ci_compiler.spec import releases

MAIN, NEWER = "fe5e41d7ffc0421f0913e8472ce6238ed0daf8e3", "6a030d535719c5190187c4cec156f335e95e3211"


@pytest.mark.parametrize(
    ("version", "own", "expected"),
    [
        ("2.9.1", {}, {"torchvision": "0.24.1", "torchaudio": "2.9.1"}),
        ("2.8.0", {}, {"torchvision": "0.23.0", "torchaudio": "2.8.0"}),
        ("2.9.1", {"2.9.1": {"torchvision": "9.9"}}, {"torchvision": "9.9"}),
        ("7.1.2", {"7.1": {"torchvision": "0.99"}}, {"torchvision": "0.99"}),
        ("99.0.0", {}, {}),
    ],
)
def test_releases_that_belong_to_one_of_torch(
    version: str, own: dict[str, dict[str, str]], expected: dict[str, str]
) -> None:
    assert releases.companions(version, own) == expected


def test_the_packages_whose_releases_belong_to_torch() -> None:
    assert releases.companions_of_torch() == {"torchvision", "torchaudio"}


@pytest.mark.parametrize(
    ("version", "release", "expected"),
    [("2.9.1", "2.9.1", True), ("2.9.1", "2.9", True), ("2.9.1", "2.9.0", False), ("2.91.0", "2.9", False)],
)
def test_a_version_is_of_its_release_or_series(version: str, release: str, *, expected: bool) -> None:
    assert releases.is_of(version, release) is expected


def test_the_series_of_a_version() -> None:
    assert [releases.series(version) for version in ("2.9.1", "2.10", "3")] == ["2.9", "2.10", "3"]


@pytest.mark.parametrize(
    ("version", "gpu", "expected"),
    [
        ("2.6.0", "sm100", "2.7"),
        ("2.7.0", "sm100", ""),
        ("2.10.0", "sm100", ""),
        ("2.6.0", "sm90", ""),
        ("2.6.0", "x", ""),
    ],
)
def test_the_first_series_that_knows_a_gpu(version: str, gpu: str, expected: str) -> None:
    assert releases.first_series(version, gpu) == expected


def test_the_toolkits_of_a_release() -> None:
    assert releases.toolkits("2.9.1") == ("12.6", "12.8", "13.0")
    assert releases.toolkits("99.0") == ()


@pytest.mark.parametrize(
    ("version", "toolkit", "expected"),
    [
        ("2.9.1", "12.9", ""),
        ("2.9.1", "13.1", ""),
        ("99.0", "11.8", ""),
        ("2.9.1", "11.8", "does not support CUDA 11.8: PyTorch builds it with 12.6, 12.8, 13.0"),
    ],
)
def test_a_toolkit_of_another_major_version_is_refused(version: str, toolkit: str, expected: str) -> None:
    assert releases.toolkit_refusal(version, toolkit) == expected


@pytest.mark.parametrize(
    ("version", "python", "expected"),
    [
        ("2.9.1", "3.10", ""),
        ("2.9.1", "3.14", ""),
        ("99.0", "2.7", ""),
        ("2.9.1", "3.9", "does not support Python 3.9: PyTorch builds it for 3.10 to 3.14"),
        ("2.9.1", "3.15", "does not support Python 3.15: PyTorch builds it for 3.10 to 3.14"),
    ],
)
def test_a_python_beyond_those_of_a_release_is_refused(version: str, python: str, expected: str) -> None:
    assert releases.python_refusal(version, python) == expected


def test_what_known_commits_have() -> None:
    assert [releases.version_in(pin, "torch") for pin in (MAIN, NEWER, "0" * 40)] == ["2.8.0", "2.9.1", ""]
    assert releases.version_in(MAIN, "nothing") == ""
    assert releases.pins_with("torch", "2.8.0") == (MAIN,)
    assert releases.pins_with("torch", "99") == ()
    assert {"cudaSupport", "rocmSupport", "gpuTargets"} <= releases.arguments_in(NEWER, "torch")
    assert releases.arguments_in(NEWER, "nothing") == releases.arguments_in("0" * 40, "torch") == frozenset()
    assert releases.dnn_in("0" * 40, "12.8") == releases.dnn_in(NEWER, "1.0") == ""


def test_a_commit_has_what_is_common_and_what_the_family_adds() -> None:
    torch = releases.facts()["pins"][NEWER]["derivations"]["torch"]
    assert "outputs" in torch
    assert "cudaMajors" in torch


@pytest.mark.parametrize(("name", "attribute"), [("pytorch", "torch"), ("torchvision", "torchvision"), ("vllm", "")])
def test_the_attribute_of_a_package_by_its_name(name: str, attribute: str) -> None:
    assert releases.attribute_of(name) == attribute


@pytest.mark.parametrize(
    ("attribute", "right", "expected"),
    [
        ("torch", "torch", True),
        ("pytorch", "torch", True),
        ("torch-bin", "torch", True),
        ("pytorchWithCuda", "torch", True),
        ("torchvision", "torch", False),
        ("numpy", "torch", False),
    ],
)
def test_aliases_and_variations_of_an_attribute(attribute: str, right: str, *, expected: bool) -> None:
    assert releases.is_called(attribute, right) is expected
