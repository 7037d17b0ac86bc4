"""Recipes rendered from a template, and recipes of the maintainer's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.adoption.audit import Audited, audit
from ci_compiler.adoption.evaluator import evaluate, find_recipes
from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.errors import InputError
from ci_compiler.files.drift import is_ours
from ci_compiler.plan.pipeline import plan
from ci_compiler.plan.rules import judge
from ci_compiler.recipes.render import recipes
from ci_compiler.recipes.template import check
from ci_compiler.spec.carried import template_paths
from ci_compiler.spec.placeholders import PLACEHOLDERS
from ci_compiler.workflows.render import render
from tests.checkers import require
from tests.loops import each
from tests.processes import MINUTES
from tests.recipes.test_any_package import CPU, GPU, TORCH, spec_with
from tests.specs import PIN

PATH = "nix/vision.nix"
THIN = """\
{ ... }:
import ./lib/mkTorchVision.nix {
  name = "@name@"; version = "@version@"; python = "@python-tag@"; sm = "@gpu@"; isa = "@isa@"; cuda = "@cuda-tag@";
}
"""
BUILDER = """\
{ name, version, python, sm, isa, cuda }:
let packages = (import (builtins.fetchTarball "https://github.com/NixOS/nixpkgs/archive/PIN.tar.gz") {
  system = "x86_64-linux";
  config.cudaSupport = sm != "cpu";
}).${python + "Packages"};
  torch = if sm == "cpu" then packages.torch else packages.torch.override { gpuTargets = [ "9.0" ]; };
in (packages.torchvision.override { inherit torch; }).overrideAttrs (old: {
  pname = name;
  inherit version;
  propagatedBuildInputs = old.propagatedBuildInputs ++ [ torch.out ];
  preConfigure = old.preConfigure + (if sm == "cpu" then "" else "export TORCH_CUDA_ARCH_LIST=9.0");
})
""".replace("PIN", PIN)


def of_template(text: str, name: str) -> str:
    spec = spec_with({"torchvision": {"recipes": "template", "template": PATH}})
    assert template_paths(spec) == (PATH,)
    return recipes(spec, judge(spec), "main", {PATH: text})[f".flox/pkgs/torchvision-{name}.nix"]


@pytest.mark.parametrize(
    ("packages", "templates", "problems"),
    [
        ({"torchvision": {"recipes": "template", "template": PATH}}, {PATH: THIN}, []),
        ({"torchvision": {"recipes": "own", "template": PATH}, "mine": {}}, {}, []),
        (
            {
                "torchvision": {"recipes": "template", "template": PATH},
                "mine": {"recipes": "template", "template": "b"},
            },
            {"b": "@nme@\n\n  x @@y@@ @gpu@ @nme@"},
            [
                ("ci-matrix.yaml", f"no file {PATH} here; it is the template of torchvision's recipes"),
                ("b:1:1", "nme"),
                ("b:3:17", "nme"),
            ],
        ),
    ],
)
def test_missing_templates_and_unknown_placeholders_are_found_together(
    packages: dict[str, Any], templates: dict[str, str], problems: list[tuple[str, str]]
) -> None:
    spec = spec_with(packages)
    if not problems:
        check(spec, templates)
        return
    with pytest.raises(InputError) as raised:
        check(spec, templates)
    found = raised.value.findings
    assert len(found) == len(problems)
    for finding, (place, message) in zip(found, problems, strict=True):
        assert str(finding.place).startswith(place)
        assert message in finding.message
    text = json.dumps(spec.document.value)
    assert text[found[0].place.column - 1 :].startswith(f'"{PATH}"')


def test_each_variant_has_its_own_values() -> None:
    assert of_template(THIN, GPU).splitlines() == [
        (
            f"# Compiled by ci-compile from ci-matrix.yaml and {PATH}. Do not edit: change them, then run "
            "`ci-compile recipes`."
        ),
        "{ ... }:",
        "import ./lib/mkTorchVision.nix {",
        (
            f'  name = "torchvision-{GPU}"; version = "1.0"; python = "python313"; sm = "sm90"; isa = "avx2"; '
            'cuda = "cuda12_8";'
        ),
        "}",
    ]
    assert 'sm = "cpu"; isa = "avx2"; cuda = "";' in of_template(THIN, CPU)


def test_every_placeholder_has_a_value_and_doubled_signs_stay() -> None:
    every = "".join(f"{word}=@{word}@\n" for word in PLACEHOLDERS)
    lines = of_template(every + "args@{ x }: @@out@@ a@b", GPU).splitlines()
    values = dict(line.split("=", 1) for line in lines[1:-1])
    assert list(values) == list(PLACEHOLDERS)
    assert values | {"capability": "9.0", "sm": "90", "flags": "-mavx2 -mfma -mf16c", "nixpkgs": PIN} == values
    assert lines[-1] == "args@{ x }: @out@ a@b"


def test_an_unknown_placeholder_has_its_place() -> None:
    with pytest.raises(InputError) as refused:
        of_template("{ }:\n  @name@ @capabilty@", GPU)
    (finding,) = refused.value.findings
    assert str(finding.place) == f"{PATH}:2:10"
    assert "did you mean capability?" in finding.message


def test_a_thin_recipe_evaluates_through_its_shared_builder(tmp_path: Path) -> None:
    require("nix-instantiate")
    spec = spec_with({"torchvision": {"recipes": "template", "template": PATH, "shared": [".flox/pkgs/lib"]}})
    (tmp_path / ".flox/pkgs/lib").mkdir(parents=True)
    (tmp_path / ".flox/pkgs/lib/mkTorchVision.nix").write_text(BUILDER, "utf-8")
    for path, text in recipes(spec, judge(spec), "main", {PATH: THIN}).items():
        (tmp_path / path).write_text(text, "utf-8")
        assert is_ours(tmp_path / path)
    found, findings = evaluate(tmp_path, find_recipes(tmp_path), timeout=MINUTES)
    assert findings == ()
    assert {one.pname for one in found} == {f"torchvision-{CPU}", f"torchvision-{GPU}"}


def test_kinds_go_by_pattern_and_own_recipes_are_not_written() -> None:
    kinds = {"*-cpu-*": "own", "pytorch-*-sm90-*": "template"}
    spec = spec_with({"pytorch": TORCH | {"recipes": kinds, "template": PATH}, "torchvision": {"needs": ["pytorch"]}})
    files = recipes(spec, judge(spec), "main", {PATH: "{ }: @gpu@\n"})
    names = {f".flox/pkgs/{name}.nix" for name in (f"pytorch-{GPU}", f"torchvision-{GPU}", f"torchvision-{CPU}")}
    assert {path for path in files if path.startswith(".flox/pkgs/")} == names | {".flox/pkgs/.gitattributes"}
    assert files[f".flox/pkgs/pytorch-{GPU}.nix"].endswith("\n{ }: sm90\n")


def test_what_recipes_read_is_in_the_filters_of_pushes() -> None:
    packages = {"pytorch": TORCH | {"shared": [".flox/pkgs/lib", "flags.txt"], "overlays": ["nix/overlay.nix"]}}
    decided = plan(spec_with(packages))
    for shard in each(decided.shards):
        text = render(decided.spec, decided.shards)[shard.path]
        for pattern in (".flox/pkgs/lib/**", "flags.txt", "nix/overlay.nix"):
            assert f"- {pattern}\n" in text or f"- '{pattern}'\n" in text or f'- "{pattern}"\n' in text
        assert "nix/overlay.nix/**" not in text


def test_the_command_reads_the_template_of_the_repository(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = spec_with({"torchvision": {"recipes": "template", "template": PATH}})
    (tmp_path / ".github").mkdir()
    (tmp_path / ".github/ci-matrix.yaml").write_text(json.dumps(spec.document.value), "utf-8")
    options = ["--root", str(tmp_path), "--branch", "main"]
    assert run(PROGRAM, ["recipes", *options]) == 2
    assert "no file nix/vision.nix here" in capsys.readouterr().err
    (tmp_path / "nix").mkdir()
    (tmp_path / PATH).write_text(THIN, "utf-8")
    assert run(PROGRAM, ["recipes", *options]) == 0
    assert run(PROGRAM, ["recipes", *options, "--check"]) == 0
    (tmp_path / PATH).write_text(THIN.replace("avx", "x") + "# changed\n", "utf-8")
    assert run(PROGRAM, ["recipes", *options, "--check"]) == 1
    (tmp_path / PATH).write_bytes(b"\xff")
    assert run(PROGRAM, ["recipes", *options]) == 2
    assert "nix/vision.nix:1:1: is not UTF-8 text" in capsys.readouterr().err


def test_audit_compares_rendered_recipes_with_what_the_template_gives(tmp_path: Path) -> None:
    require("nix-instantiate")
    spec = spec_with({"torchvision": {"recipes": "template", "template": PATH, "shared": [".flox/pkgs/lib"]}})
    (tmp_path / ".flox/pkgs/lib").mkdir(parents=True)
    (tmp_path / ".flox/pkgs/lib/mkTorchVision.nix").write_text(BUILDER, "utf-8")
    for path, text in recipes(spec, judge(spec), "main", {PATH: THIN}).items():
        (tmp_path / path).write_text(text, "utf-8")
    assert audit(tmp_path, spec, "main", templates={PATH: THIN}) == Audited(defects=(), differences=())
    planted = tmp_path / f".flox/pkgs/torchvision-{CPU}.nix"
    planted.write_text(planted.read_text("utf-8").replace('version = "1.0"', 'name2 = ""; version = "1.0"'), "utf-8")
    (cause,) = audit(tmp_path, spec, "main", templates={PATH: THIN}).defects
    assert cause.code == "recipe-evaluation"
