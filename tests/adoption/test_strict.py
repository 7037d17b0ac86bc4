"""The stand-in takes the arguments that nixpkgs' functions take, and names what it does not know."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from ci_compiler.adoption.audit import notes
from ci_compiler.adoption.evaluator import evaluate, find_recipes
from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.spec.releases import arguments_in, facts
from tests.adoption.helpers import NIXPKGS, PIN, needs_nix, one, problem
from tests.loops import each
from tests.processes import MINUTES
from tests.specs import small

OTHER = "0" * 40
RECIPE = 'with import (builtins.fetchTarball "%s") { }; python313Packages.%s.override { %s }'


@needs_nix
@pytest.mark.parametrize(
    ("attribute", "arguments", "refused"),
    [
        ("torch", 'gpuTarget = [ "9.0" ];', "gpuTarget"),
        ("torch", "cudaSuport = true;", "cudaSuport"),
        ("torchvision", "cudaSupport = true;", "cudaSupport"),
        ("torchaudio", "pytorch = null;", "pytorch"),
        ("torchWithCuda", "magmaSupport = false;", "magmaSupport"),
    ],
)
def test_an_argument_that_nixpkgs_lacks_fails_in_nix_own_words(
    tmp_path: Path, attribute: str, arguments: str, refused: str
) -> None:
    found = problem(tmp_path, RECIPE % (NIXPKGS, attribute, arguments))
    assert found.code == "recipe-evaluation"
    assert found.message.endswith(f"called with unexpected argument '{refused}'")
    assert "/" not in found.message  # no path of the stand-in


@needs_nix
def test_the_arguments_of_nixpkgs_are_taken(tmp_path: Path) -> None:
    arguments = "cudaSupport = true; gpuTargets = [ ]; MPISupport = false; vulkanSupport = false;"
    assert one(tmp_path, RECIPE % (NIXPKGS, "torch", arguments)).unknown == ()


@needs_nix
def test_what_the_stand_in_does_not_know_is_named_and_not_refused(tmp_path: Path) -> None:
    text = RECIPE % (NIXPKGS.replace(PIN, OTHER), "torch", "anything = 1;")
    assert one(tmp_path, text).unknown == ("release", "arguments")
    found, _ = evaluate(tmp_path, find_recipes(tmp_path), timeout=MINUTES)
    (line,) = notes(found)
    assert line.startswith(f"not checked in 1 recipe: the version and arguments of torch in nixpkgs {OTHER}, ")


@needs_nix
def test_a_package_beside_torch_is_not_known(tmp_path: Path) -> None:
    assert one(tmp_path, RECIPE % (NIXPKGS, "numpy", "blas = null;")).unknown == ("release", "arguments", "inputs")


def test_the_presets_give_no_argument_that_a_known_nixpkgs_lacks() -> None:
    for pin in each(facts()["pins"]):
        assert {"cudaSupport", "gpuTargets", "cudaPackages", "magma", "blas"} <= arguments_in(pin, "torch")
        assert "torch" in arguments_in(pin, "torchvision")
        assert "cudaSupport" not in arguments_in(pin, "torchvision")


@pytest.mark.parametrize(
    ("attribute", "accepted"),
    [
        ("torch", True),
        ("torch-bin", True),
        ("torchWithCuda", True),
        ("numpy", False),
        ("triton", False),
        ("jax", False),
    ],
)
def test_torch_attribute_changed_to_another_package_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], attribute: str, accepted: bool
) -> None:
    spec = copy.deepcopy(small(packages={"pytorch": {"attribute": attribute}}))
    spec["branches"]["main"]["versions"].pop("torchvision")
    (tmp_path / ".github").mkdir()
    (tmp_path / ".github/ci-matrix.yaml").write_text(json.dumps(spec), "utf-8")
    monkeypatch.chdir(tmp_path)
    assert run(PROGRAM, ["recipes", "--branch", "main"]) == (0 if accepted else 2)
    said = f"pytorch is torch in nixpkgs, and the attribute says {attribute}: "
    assert (said in capsys.readouterr().err) is not accepted
