"""Thin recipes: the derivations of self-contained ones, in files that no other variant decides."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.adoption.evaluator import evaluate, find_recipes
from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.plan.rules import judge
from ci_compiler.recipes import compiled, proof, thin
from ci_compiler.recipes import nix_text as nix
from ci_compiler.recipes.parameters import expanded, marked, quoted
from ci_compiler.recipes.render import recipes
from ci_compiler.recipes.subject import Subject, subject_of
from ci_compiler.spec.build import bundled_spec
from ci_compiler.spec.model import Spec
from ci_compiler.variant import RECIPES, SHARED, recipe_name
from tests.checkers import require
from tests.processes import MINUTES
from tests.recipes.subjects import spec_for, subject_for
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


STACK: dict[str, Any] = {"pytorch": {"attribute": "torch"}, "torchvision": {"needs": ["pytorch"]}}
FIX = {"why": "its compiler", "overlay": "final: prev: { }"}


def thin_subject(name: str, packages: dict[str, Any] = STACK, seeded_by: str = "", **fix: str) -> Subject:
    main = {"cuda": "13.0" if "13_0" in name else "12.8", **({"work-arounds": ["fix"]} if fix else {})}
    more = {"work-arounds": {"fix": fix}} if fix else {}
    gpus = ["cpu", "sm75", "all"] if "13_0" in name else ["cpu", "sm61", "sm90", "all"]
    spec = spec_for(packages, gpus=gpus, isas=["avx", "avx2"], main=main, **more)
    return replace(subject_for(spec, name), seeded_by=seeded_by)


GPU, CPU = "torchvision-python313-cuda12_8-sm90-avx2", "torchvision-python313-cpu-avx2"
BY_CODE = {"inputs": {"buildInputs": ["lib_@isa@"]}}


@pytest.mark.parametrize(
    ("package", "fix", "is_thin"),
    [
        ({}, {}, True),
        ({}, FIX, True),
        ({"self-contained": True}, {}, False),
        (BY_CODE, {}, False),
        ({"inputs": {"buildInputs": ["zlib"]}}, {}, True),
        ({}, FIX | {"overlay": "final: prev: { x = @sm@; }"}, False),
        ({}, FIX | {"overlay": "final: prev: { x = @version@; }"}, True),
    ],
)
def test_a_recipe_is_thin_without_code_of_its_own(package: dict[str, Any], fix: dict[str, str], is_thin: bool) -> None:
    packages = STACK | {"torchvision": STACK["torchvision"] | package}
    assert thin.is_thin(thin_subject(GPU, packages, **fix)) is is_thin


@pytest.mark.parametrize(
    ("name", "seeded_by", "ending"),
    [
        ("torchvision-python313-cuda12_8-sm90-avx2", "", "torchvision-python313-cuda12_8"),
        ("torchvision-python313-cuda12_8-sm90-avx", "x", "torchvision-python313-cuda12_8-seed"),
        ("torchvision-python313-cpu-avx", "", "torchvision-python313-cpu"),
        ("torchvision-python313-cuda12_8-sm61-avx2", "", "torchvision-python313-cuda12_8-capability"),
        ("torchvision-python313-cuda13_0-all-avx2", "", "torchvision-python313-cuda13_0-all-x86_64-linux"),
        ("pytorch-python313-cuda12_8-sm61-avx2", "", "pytorch-python313-cuda12_8-no-cudnn-capability"),
        ("pytorch-python313-cuda12_8-sm90-avx", "", "pytorch-python313-cuda12_8-no-avx2"),
        ("pytorch-python313-cuda12_8-all-avx2", "", "pytorch-python313-cuda12_8-all-x86_64-linux-capability"),
        ("mine-python313-cuda12_8-sm90-avx2", "", "mine-python313-cuda12_8"),
        ("set-python313-cuda12_8-sm61-avx2", "", "set-python313-cuda12_8"),
    ],
)
def test_the_shared_file_is_named_after_what_tells_it_from_others(name: str, seeded_by: str, ending: str) -> None:
    packages = STACK | {"mine": {}, "set": {"attribute": "torch", "capabilities": True}}
    subject = thin_subject(
        name, packages, seeded_by, **({"why": "all", "overlay": "_: _: { }"} if "mine" in name else {})
    )
    expected = f"{SHARED}/{ending}{'-no-cudnn' * name.startswith('set')}.nix"
    assert thin.shared_path(subject) == expected


SEEDED = "forSeed ? false, seedFrom, seedName"
NUMBER = 'gpuArchNumber ? builtins.replaceStrings [ "." ] [ "" ] gpuArchSM'
FLAGS_TEXT = 'cpuFlagsText ? builtins.concatStringsSep " " cpuFlags'


@pytest.mark.parametrize(
    ("name", "package", "kind", "given", "rest"),
    [
        (CPU, {}, "Python 3.13 and CPUs", "pname cpuISA system", "needs, description, runsOn"),
        (
            GPU,
            {},
            "Python 3.13 and CUDA 12.8",
            "pname gpuArch gpuArchSM cpuISA system",
            f"needs, description, runsOn, {NUMBER}",
        ),
        (CPU, {"needs": []}, "Python 3.13 and CPUs", "pname cpuISA system", "description, runsOn"),
        (CPU, {"needs": [], "at": "set"}, "Python 3.13 and CPUs", "pname cpuISA system", "description, runsOn"),
        (CPU, {"at": "set"}, "Python 3.13 and CPUs", "pname cpuISA system", "needs, description, runsOn"),
        (CPU, {"set": "top", "needs": []}, "CPUs", "pname cpuISA system", "description, runsOn"),
        (
            CPU,
            {"environment": {"A": "@name@ @flags@"}, "needs": []},
            "Python 3.13 and CPUs",
            "variantName pname cpuISA system",
            f"description, runsOn, {FLAGS_TEXT}",
        ),
    ],
)
def test_what_is_shared_takes_the_values_that_it_names(
    name: str, package: dict[str, Any], kind: str, given: str, rest: str
) -> None:
    common = thin.shared(thin_subject(name, STACK | {"torchvision": STACK["torchvision"] | package}))
    lines = common.text.splitlines()
    assert lines[1] == f"# What recipes of torchvision 1.0 for {kind} share."
    assert common.given == tuple(given.split())
    assert lines[2:5] == ["", f"{{ {', '.join([*common.given, 'cpuFlags', rest])} }}:", ""]


def test_a_recipe_gives_its_own_values_to_what_it_shares() -> None:
    subject = thin_subject(GPU)
    common = thin.shared(subject)
    runs = "".join(f'    "{line}"\n' for line in compiled.runs_on_lines(subject))
    assert thin.recipe(subject, common) == (
        "\n".join(compiled.head(subject)) + "\n\n{ ... }: import ../ci-compiler/torchvision-python313-cuda12_8.nix {\n"
        f'  pname = "{GPU}";\n  gpuArch = "sm90";\n'
        '  gpuArchSM = "9.0"; # TORCH_CUDA_ARCH_LIST takes 9.0, never sm_90.\n'
        '  cpuISA = "avx2";\n  system = "x86_64-linux";\n  cpuFlags = [ "-mavx2" "-mfma" "-mf16c" ];\n'
        f"  needs.torch = import ./{GPU.replace('torchvision', 'pytorch')}.nix {{ }};\n"
        f'  description = "{compiled.description(subject)}";\n  runsOn = [\n{runs}  ];\n}}\n'
    )
    cpu = thin_subject(CPU)
    assert "#" not in thin.recipe(cpu, thin.shared(cpu)).partition("import")[2]
    seeded = thin_subject(GPU, seeded_by=GPU)
    text = thin.recipe(seeded, thin.shared(seeded))
    assert "{ forSeed ? false, ... }: import" in text
    assert "  inherit forSeed;\n" in text
    assert f"runsOn, {NUMBER}, {SEEDED} }}:" in thin.shared(seeded).text


def test_the_functions_that_shared_texts_import_are_files() -> None:
    spec = spec_for(STACK)
    texts = ["${import ./shell/built-for.nix}", "x ${import ./shell/arrived.nix} ${import ./shell/built-for.nix}"]
    files = dict(thin.functions(spec, texts))
    assert list(files) == [f"{SHARED}/shell/{name}.nix" for name in ("arrived", "built-for")]
    head = [compiled.origin(spec), "# Functions of the shell, which phases of builds define.", "", "''"]
    text = files[f"{SHARED}/shell/arrived.nix"]
    assert text == "\n".join([*head, nix.indent(proof.function("arrived"))]) + "''\n"
    assert list(thin.functions(spec, ["import ./other/a.nix"])) == []


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
    require("nix-instantiate")
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
