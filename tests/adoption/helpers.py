"""Helpers of the tests that evaluate recipes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from textwrap import dedent

import pytest

from ci_compiler.adoption import nix_instantiate as nix
from ci_compiler.adoption.evaluator import Evaluation, evaluate, find_recipes
from ci_compiler.errors import Finding
from tests.checkers.tools import missing
from tests.processes import MINUTES

CASES = Path(__file__).parent / "evaluate"
STANDIN = Path(nix.__file__).parent / "standin"
PIN = "6a030d535719c5190187c4cec156f335e95e3211"
NIXPKGS = f"https://github.com/NixOS/nixpkgs/archive/{PIN}.tar.gz"
TORCH_ARCHIVE = "https://github.com/my-org/build-pytorch/archive/0123456789abcdef0123456789abcdef01234567.tar.gz"
AVX512 = ("-mavx512f", "-mavx512dq", "-mavx512vl", "-mavx512bw", "-mfma")
GOOD = '{ python3Packages }: python3Packages.torch.overrideAttrs { pname = "good"; }'


TIME: dict[str, object] = {"timeout": MINUTES}
_MISSING = missing(nix.PROGRAM)
# Skips where Nix is missing, unless CI_COMPILER_TOOLS=required: then the test runs, and fails.
needs_nix = pytest.mark.skipif(
    shutil.which(nix.PROGRAM) is None and os.environ.get("CI_COMPILER_TOOLS") != "required", reason=_MISSING
)


def the_case(name: str, **options: object) -> dict[str, Evaluation]:
    """The evaluations of a case's recipes, by name. There must be no findings."""
    root = CASES / name
    evaluations, findings = evaluate(root, find_recipes(root), **TIME | options)  # type: ignore[arg-type]
    assert findings == ()
    return {evaluation.path.stem: evaluation for evaluation in evaluations}


def write(folder: Path, **recipes: str) -> Path:
    """A folder of recipes by name, each dedented; two underscores stand for a folder."""
    for name, text in recipes.items():
        path = folder / f"{name.replace('__', '/')}.nix"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
    return folder


def one(folder: Path, text: str, **options: object) -> Evaluation:
    """The evaluation of one recipe, which must succeed."""
    evaluations, findings = evaluate(folder, [write(folder, recipe=text) / "recipe.nix"], **TIME | options)  # type: ignore[arg-type]
    assert findings == ()
    return evaluations[0]


def problem(folder: Path, text: str, **options: object) -> Finding:
    """The finding of one recipe, which must fail; another one next to it must succeed."""
    write(folder, good=GOOD, recipe=text)
    evaluations, findings = evaluate(folder, find_recipes(folder), **TIME | options)  # type: ignore[arg-type]
    assert [evaluation.pname for evaluation in evaluations] == ["good"]
    assert len(findings) == 1
    return findings[0]


def edit(path: Path, old: str, new: str) -> None:
    """Replaces a text, which must be there, in a file."""
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")
