"""Thin recipes: the derivations of self-contained ones, in files that no other variant decides."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.adoption.evaluator import evaluate, find_recipes
from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.plan.rules import judge
from ci_compiler.recipes import thin
from ci_compiler.recipes.parameters import expanded, marked, quoted
from ci_compiler.recipes.render import recipes
from ci_compiler.recipes.subject import subject_of
from ci_compiler.spec.build import bundled_spec
from ci_compiler.spec.model import Spec
from ci_compiler.variant import RECIPES, SHARED, recipe_name
from tests.checkers import require
from tests.processes import MINUTES
from tests.recipes.test_affected import Repository, affected, repository  # noqa: F401
from tests.recipes.test_any_package import spec_with
from tests.recipes.test_seeds import spec_with as seeded_spec

GPUS = {"python": ["3.12", "3.13"], "isas": {"x86_64-linux": ["avx2", "avx"]}}
GPUS |= {"gpus": {"cpu": {}, "sm61": {}, "sm90": {}, "sm120": {}}}
VLLM = {"pytorch": {"attribute": "torch"}, "vllm": {"needs": ["pytorch"], "at": "set"}}
FLAGS: dict[str, Any] = {"arguments": {"gpu": {"gpuTargets": ["@capability@"]}}}
FLAGS |= {"attributes": {"names": ["@name@", "@gpu@ and ${@isa@}"]}}
FLAGS |= {
    "environment": {
        "ARCHS": "@sm@",
        "COST": "$@sm@ 'a b' @flags@",
        "NO": "$@gpu@",
        "OF": "@system@-@pname@",
        "FLAGS": "@flags@",
    }
}
FLAGS |= {"cmake-flags": ["-DCMAKE_CUDA_ARCHITECTURES=@sm@", "-DNAME=@gpu@ @isa@"]}
SPECS = {
    "one of each preset": lambda: spec_with(VLLM | {"llama-cpp": {}, "jaxlib": {}}, matrix=GPUS),
    "values everywhere": lambda: spec_with({"mine": {"attribute": "torch", **FLAGS}}, matrix=GPUS),
    "all GPUs": lambda: spec_with({"pytorch": {"attribute": "torch"}}, matrix=GPUS | {"gpus": {"all": {}}}),
    "seeds": lambda: seeded_spec(["sm80", "sm90"]),
}


def derivations(files: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The derivation of each recipe among `files`, by name."""
    require("nix-instantiate")
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")
    found, findings = evaluate(folder, find_recipes(folder), timeout=MINUTES)
    assert [str(finding) for finding in findings] == []
    return {one.path.stem: one.drv_path for one in found}


def same_derivations(spec: Spec, branch: str, folder: Path) -> int:
    """How many recipes of `branch` were compared, thin and self-contained."""
    judged = judge(spec)
    files = recipes(spec, judged, branch)
    assert any(path.startswith(SHARED) for path in files)
    whole = recipes(spec, judged, branch, self_contained=True)
    assert not any(path.startswith(SHARED) for path in whole)
    made = derivations(files, folder / "thin")
    assert made == derivations(whole, folder / "whole")
    assert len(set(made.values())) == len(made)
    return len(made)


def test_the_459_recipes_build_what_self_contained_ones_build(tmp_path: Path) -> None:
    assert sum(same_derivations(bundled_spec(), branch, tmp_path / branch) for branch in bundled_spec().branches) == 459


@pytest.mark.parametrize("name", SPECS)
def test_any_recipe_builds_what_a_self_contained_one_builds(name: str, tmp_path: Path) -> None:
    assert same_derivations(SPECS[name](), "main", tmp_path) >= 4


def test_what_variants_share_depends_on_none_of_them() -> None:
    shared: dict[str, thin.Shared] = {}
    for spec in (bundled_spec(), *(make() for make in SPECS.values())):
        for cell in judge(spec).cells:
            for variant in cell.variants:
                subject = subject_of(spec, cell, variant)
                known = shared.setdefault(f"{id(spec)} {cell.branch} {thin.shared_path(subject)}", thin.shared(subject))
                assert thin.shared(subject) == known
    assert len(shared) > 40


def test_a_recipe_has_at_most_twenty_lines_and_all_of_them_12_000() -> None:
    spec = bundled_spec()
    files = [text for branch in spec.branches for text in recipes(spec, judge(spec), branch).items()]
    lines = {path: text.count("\n") for path, text in files if path.endswith(".nix")}
    assert max(count for path, count in lines.items() if path.startswith(RECIPES)) <= 20
    assert sum(text.count("\n") for path, text in files if path.endswith(".nix")) <= 12_000


def test_a_further_variant_changes_no_file_of_another_one() -> None:
    def files(gpus: list[str]) -> dict[str, str]:
        spec = spec_with({"pytorch": {"attribute": "torch"}}, matrix=GPUS | {"gpus": {gpu: {} for gpu in gpus}})
        return recipes(spec, judge(spec), "main")

    few, more = files(["cpu", "sm90"]), files(["cpu", "sm90", "sm120", "sm61"])
    assert {path: more[path] for path in few} == few
    added = more.keys() - few.keys()
    assert {path for path in added if path.startswith(SHARED)} == {
        f"{SHARED}/pytorch-python3{minor}-cuda12_8-no-cudnn{avx}-capability.nix"
        for minor in (12, 13)
        for avx in ("", "-no-avx2")
    }
    assert {recipe_name(path).split("-")[3] for path in added if path.startswith(RECIPES)} == {"sm61", "sm120"}


def test_a_spec_may_ask_for_self_contained_recipes() -> None:
    packages: dict[str, Any] = {"pytorch": {"attribute": "torch", "self-contained": True}, "torchaudio": {}}
    spec = spec_with(packages)
    files = recipes(spec, judge(spec), "main")
    assert {path.split("/")[2].split("-")[0] for path in files if path.startswith(SHARED)} == {"torchaudio", "shell"}
    for path, text in recipes(spec, judge(spec), "main", self_contained=True).items():
        assert ("/pytorch-" not in path) or files[path] == text


def test_nix_code_with_a_value_of_the_variant_is_in_its_own_recipe(tmp_path: Path) -> None:
    inputs = {"inputs": {"gpu": {"buildInputs": ["cudaPackages.lib_@sm@"]}}}
    spec = spec_with({"pytorch": {"attribute": "torch", **inputs}})
    files = recipes(spec, judge(spec), "main")
    assert "pkgs.cudaPackages.lib_90" in files[f"{RECIPES}/pytorch-python313-cuda12_8-sm90-avx2.nix"]
    assert len(derivations(files, tmp_path)) == 2


@pytest.mark.parametrize("text", ["plain", "a b", "it's", "$HOME", "-DX=@", "a;b"])
def test_marks_are_quoted_as_the_values_that_they_stand_for(text: str) -> None:
    mark = marked({}, ["sm"])["sm"]
    assert expanded(quoted(f"{text}{mark}")) == shlex.quote(f"{text}90").replace("90", "${gpuArchNumber}")


def test_a_dollar_before_a_mark_stays_a_dollar() -> None:
    assert expanded(f"'' a ${marked({}, ['sm'])['sm']} ''") == "'' a ${\"$\"}${gpuArchNumber} ''"


@pytest.mark.parametrize(
    "file", ["torchvision-python313-cuda12_8.nix", "pytorch-python313-cpu.nix", "shell/built-for.nix"]
)
def test_a_changed_shared_file_affects_those_whose_derivation_changes(
    file: str,
    repository: Repository,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The graph of imports against what Nix evaluates."""
    root = repository.root

    def now() -> dict[str, str]:
        found, _ = evaluate(root, find_recipes(root), timeout=MINUTES)
        return {one.path.stem: one.drv_path for one in found}

    before, path = now(), root / SHARED / file
    for old, new in (("MAX_JOBS=32", "MAX_JOBS=31"), ("exit 1", "exit 2")):
        path.write_text(path.read_text("utf-8").replace(old, new), "utf-8")
    repository.commit()
    after = now()
    changed = {name for name in before if before[name] != after[name]}
    assert changed
    assert affected(repository, capsys) == dict.fromkeys(changed, f"{SHARED}/{file}")


def test_self_contained_recipes_become_thin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = ["--root", str(tmp_path), "--bundled", "--branch", "main"]
    spec = bundled_spec()
    for path, text in recipes(spec, judge(spec), "main", self_contained=True).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, "utf-8")
    assert run(PROGRAM, ["recipes", *root]) == 0
    assert "132 changed" in capsys.readouterr().out
    (tmp_path / SHARED / "gone.nix").write_text("# Compiled by ci-compile from torch.yaml.\n{ }\n", "utf-8")
    (tmp_path / SHARED / "mine.nix").write_text("{ }\n", "utf-8")
    assert run(PROGRAM, ["recipes", *root, "--check"]) == 1
    assert run(PROGRAM, ["recipes", *root]) == 0
    assert not (tmp_path / SHARED / "gone.nix").exists()
    assert (tmp_path / SHARED / "mine.nix").exists()
