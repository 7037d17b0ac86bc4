"""Adopting existing recipes: the short spec compiles to the same names, and everything else is reported."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_compiler.adoption.adopt import SHOWN, Adopted, adopt
from ci_compiler.adoption.axes import Ground, matrix_of
from ci_compiler.adoption.exclusions import VariantKey
from ci_compiler.adoption.spec_forms import sri
from ci_compiler.adoption.spec_yaml import flow, scalar
from ci_compiler.adoption.taking import differing
from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.hardware import CPU, tables
from ci_compiler.plan.limits import limit
from ci_compiler.plan.pipeline import plan
from ci_compiler.plan.rules import judge
from ci_compiler.recipes.render import recipes
from ci_compiler.reports.load import load_of
from ci_compiler.spec.build import BUNDLED, bundled_spec, parse_spec
from ci_compiler.spec.load import parse_document
from ci_compiler.spec.model import Spec
from ci_compiler.spec.packages import RecipeKind
from ci_compiler.spec.shorthand.keys import ShortMatrix
from ci_compiler.spec.shorthand.rows import short_matrices
from ci_compiler.sync.compiled import compile_files
from ci_compiler.variant import SHARED, recipe_names, recipe_path
from tests.adoption.fleets import git
from tests.adoption.helpers import PIN, needs_nix
from tests.loops import each
from tests.output import checked
from tests.specs import small, spec_of

STOOD = json.loads((Path(__file__).parents[1] / "data/recipes-2026-02-07.json").read_text("utf-8"))
"""The recipe files on the maintainers' branches in February 2026: repository -> branch -> names."""

NAME = re.compile(r"(?P<package>\w+)-python3(?P<python>\d+)-(?:cpu|cuda(?P<cuda>\d+_\d+)-(?P<gpu>sm\d+))-(?P<isa>\w+)")

OLD_TORCH = """
(@python@Packages.pytorch.override { @override@ }).overrideAttrs (oldAttrs: {
  @torch@
  preConfigure = (oldAttrs.preConfigure or "") + ''
    export CXXFLAGS="$CXXFLAGS ${lib.concatStringsSep " " cpuFlags}"
    export CFLAGS="$CFLAGS ${lib.concatStringsSep " " cpuFlags}"
    export MAX_JOBS=32
  '';
})"""
OLD_USER = """
(@python@Packages.@attribute@.override { torch = @made@; }).overrideAttrs (oldAttrs: {
  pname = "@name@";
  version = "@version@";
  meta = oldAttrs.meta // { platforms = [ "x86_64-linux" "aarch64-linux" ]; };
})"""


def old(name: str, version: str = "1.0", *, plain: bool = False, **changes: str) -> str:
    """The recipe of `name` as written by hand, called with the packages of an unpinned nixpkgs.

    plain: CUDA is what that nixpkgs has. changes: parts of the name that the recipe contradicts.
    """
    said = NAME.match(name)
    assert said is not None
    parts = {**said.groupdict(), **changes}
    hardware = tables()
    flags = " ".join(f'"{flag}"' for flag in reversed(hardware.isas[parts["isa"]].flags))
    override, cuda = "cudaSupport = false;", ""
    if parts["gpu"]:
        target = "sm_121" if parts["gpu"] == "sm121" else str(hardware.gpu(parts["gpu"]).capability)
        override = f'cudaSupport = true; gpuTargets = [ "{target}" ];'
        if not plain:
            cuda = hardware.toolkit(parts["cuda"].replace("_", ".")).attribute
            override += f" cudaPackages = {cuda};"
    is_torch = parts["package"] == "pytorch"
    body = OLD_TORCH if is_torch else OLD_USER.replace("@made@", OLD_TORCH)
    own = f'pname = "{name}"; version = "{version}";' if is_torch else ""
    python = "python3" if parts["python"] == "13" else f"python3{parts['python']}"
    values = {"python": python, "override": override, "torch": own, "attribute": parts["package"], "name": name}
    for key, value in {**values, "version": version}.items():
        body = body.replace(f"@{key}@", value)
    arguments = ", ".join(filter(None, [f"{python}Packages", "lib", "config", cuda, "addDriverRunpath"]))
    return f"{{ {arguments} }}:\nlet cpuFlags = [ {flags} ]; in{body}\n"


_SHARED_BY: dict[str, dict[str, str]] = {}
"""What compiled recipes share, by their texts."""


def folder_of(root: Path, texts: Mapping[str, str], branch: str = "") -> Path:
    """A checkout of `branch` at `root` (a folder without git, if '') with recipes by name."""
    pkgs = root / ".flox/pkgs"
    pkgs.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (pkgs / f"{name}.nix").write_text(text, "utf-8")
        for path, shared in _SHARED_BY.get(text, {}).items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(shared, "utf-8")
    if branch:
        (root / ".git").mkdir()
        (root / ".git/HEAD").write_text(f"ref: refs/heads/{branch}\n", "utf-8")
    return root


def compiled(spec: Spec, branch: str, *, self_contained: bool = False) -> dict[str, str]:
    """The recipes that `spec` compiles to on `branch`, by name."""
    made = recipes(spec, judge(spec), branch, self_contained=self_contained)
    shared = {path: text for path, text in made.items() if path.startswith(SHARED)}
    texts = {name: made[recipe_path(name)] for name in recipe_names(made)}
    _SHARED_BY.update(dict.fromkeys(texts.values(), shared))
    return texts


@cache
def stack_spec() -> Spec:
    """The bundled stack's spec, as the file of a repository."""
    return parse_spec(BUNDLED.read_bytes(), shown=SHOWN)


@cache
def bundled() -> dict[str, dict[str, str]]:
    spec = stack_spec()
    return {branch: compiled(spec, branch) for branch in spec.branches}


def codes(adopted: Adopted) -> dict[str, str]:
    """The findings' messages by recipe and code."""
    return {f"{Path(finding.place.file).stem} {finding.code}": finding.message for finding in adopted.findings}


def names(adopted: Adopted) -> dict[str, set[str]]:
    return {branch: set(found) for branch, found in adopted.names.items()}


# The bundled stack.


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Adopted:
    root = tmp_path_factory.mktemp("stack")
    return adopt([folder_of(root / branch, texts) for branch, texts in bundled().items()])


@needs_nix
def test_the_bundled_stack_is_reproduced(stack: Adopted) -> None:
    assert names(stack) == {branch: set(texts) for branch, texts in bundled().items()}
    assert (stack.findings, stack.complete, sum(map(len, stack.read.values()))) == ((), True, 459)


@needs_nix
def test_the_recipes_of_the_bundled_stack_are_reproduced_exactly(stack: Adopted) -> None:
    for branch, texts in each(bundled().items()):
        assert compiled(stack.spec, branch) == texts


@needs_nix
def test_the_adopted_matrix_is_shorter_than_the_hand_written_one(stack: Adopted) -> None:
    ours, theirs = short(stack.spec), short(bundled_spec())
    assert entries(ours) < entries(theirs)
    assert (ours.pythons, ours.isas) == (theirs.pythons, theirs.isas)
    assert {axis.name for axis in ours.gpus} == {axis.name for axis in theirs.gpus}
    assert stack.spec.matrix is not None
    assert stack.spec.matrix.exclude == ()


def short(spec: Spec) -> ShortMatrix:
    """The matrix as the spec has it."""
    ((_, matrix),) = short_matrices(spec.document)
    return matrix


def entries(matrix: ShortMatrix) -> int:
    """The size of a matrix: the number of its axes' entries and of their values."""
    keys = ("branches", "toolkits", "isas", "also")
    rows = [{key: value for key in keys if (value := getattr(axis, key))} for axis in matrix.gpus]
    words = sum(str(row).count(",") + 1 for row in rows if row)
    return len(matrix.pythons) + sum(map(len, matrix.isas.values())) + len(rows) + words


@needs_nix
def test_the_adopted_spec_reads_like_a_hand_written_one(stack: Adopted) -> None:
    head, *lines = stack.text.splitlines()
    assert head.startswith("# yaml-language-server: $schema=")
    assert "owner: my-org  # guessed: the FloxHub organisation that the variants are published to" in lines
    assert "    versions: {pytorch: 2.8.0, torchvision: 0.23.0, torchaudio: 2.8.0}" in lines
    assert "    cpu: {also: {cuda-13_0: [avx]}}" in lines
    assert "    sm110:  # Jetson Thor, DRIVE Thor" in lines
    assert max(map(len, lines)) <= 120


@needs_nix
def test_branches_are_in_the_order_of_the_folders(tmp_path: Path, stack: Adopted) -> None:
    folders = [folder_of(tmp_path / branch, texts) for branch, texts in reversed(bundled().items())]
    again = adopt(folders)
    assert list(again.names) == list(reversed(stack.names))
    assert short(again.spec).isas == short(stack.spec).isas


# The maintainers' fleet, as they wrote it.

VERSIONS = {"main": "2.8.0", "cuda-12_9": "2.9.1", "cuda-13_0": "2.10.0"}


@pytest.fixture(scope="module")
def stood(tmp_path_factory: pytest.TempPathFactory) -> Adopted:
    root = tmp_path_factory.mktemp("stood")
    folders = []
    for repository, branches in STOOD.items():
        for branch, there in branches.items():
            texts = {name: old(name, VERSIONS[branch], plain=branch == "main") for name in there}
            folders.append(folder_of(root / branch / repository, texts, branch))
    return adopt(folders)


@needs_nix
def test_the_maintainers_fleet_is_adopted(stood: Adopted) -> None:
    assert names(stood) == {branch: {n for there in STOOD.values() for n in there[branch]} for branch in VERSIONS}
    assert stood.complete
    assert stood.spec.matrix is not None
    assert [str(axis.name) for axis in short(stood.spec).gpus][:3] == ["cpu", "sm61", "sm75"]
    assert "    cpu: {also: {cuda-12_9: [avx], cuda-13_0: [avx]}}" in stood.text.splitlines()
    assert stood.spec.matrix.exclude == ()


@needs_nix
def test_recipes_stay_own_and_what_differs_is_said_once_for_a_cause(stood: Adopted) -> None:
    assert {package.recipes for package in stood.spec.packages.values()} == {(("*", RecipeKind.OWN),)}
    assert {finding.code for finding in stood.findings} == {"recipe-differs"}
    told = [finding.message for finding in stood.findings]
    assert len(told) <= 2 * 6  # packages, groups
    assert next(line for line in told if " of pytorch differ in pin " in line).startswith("160 recipes of pytorch")
    assert stood.equal == 0


# One recipe or a few.


def small_fleet(root: Path, **changed: str) -> Path:
    """A folder called main with eight recipes on a pinned nixpkgs, some of them changed or removed ('')."""
    spec = spec_of(small())
    texts = {**compiled(spec, "main"), **changed}
    return folder_of(root / "main", {name: text for name, text in texts.items() if text})


SMALL_NAMES = {
    f"{package}-python313-{cell}"
    for package in ("pytorch", "torchvision")
    for cell in ("cpu-avx2", "cpu-avx512", "cuda12_8-sm90-avx2", "cuda12_8-sm90-avx512")
}
SM90 = "pytorch-python313-cuda12_8-sm90-avx2"


@needs_nix
def test_a_recipe_that_nix_cannot_evaluate_is_adopted_by_its_name(tmp_path: Path) -> None:
    name = "torchvision-python313-cpu-avx2"
    found = adopt([small_fleet(tmp_path, **{name: "{ ... }: 1 +"})])
    assert names(found) == {"main": SMALL_NAMES}
    opaque = [finding for finding in found.findings if finding.code == "recipe-opaque"]
    assert [finding.message.split(":")[0] for finding in opaque] == ["1 recipe cannot be evaluated here"]
    assert (opaque[0].place.line, found.complete) == (1, True)


@needs_nix
def test_recipes_as_compiled_become_compiled_package_by_package(tmp_path: Path) -> None:
    spec = parse_spec(json.dumps(small()).encode(), shown=SHOWN)
    texts = compiled(spec, "main")
    texts["torchvision-python313-cpu-avx2"] += "# mine\n"
    found = adopt([folder_of(tmp_path / "main", texts)])
    packages = found.spec.packages
    assert packages["pytorch"].recipes == (("*", RecipeKind.COMPILED),)
    assert packages["torchvision"].recipes == (("*", RecipeKind.OWN),)
    made = compiled(found.spec, "main")
    assert made == {name: text for name, text in texts.items() if name.startswith("pytorch-")}


@needs_nix
def test_equal_recipes_with_another_header_stay_own_and_are_counted(tmp_path: Path) -> None:
    found = adopt([small_fleet(tmp_path)])
    assert {package.recipes for package in found.spec.packages.values()} == {(("*", RecipeKind.OWN),)}
    assert (found.equal, found.findings) == (8, ())


@needs_nix
def test_a_recipe_as_a_file_and_as_a_folder_counts_once(tmp_path: Path) -> None:
    root = small_fleet(tmp_path)
    name = "pytorch-python313-cpu-avx2"
    (root / f".flox/pkgs/{name}").mkdir()
    (root / f".flox/pkgs/{name}/default.nix").write_text(old(name), "utf-8")
    found = adopt([root])
    assert names(found) == {"main": SMALL_NAMES}
    assert "main has pytorch-python313-cpu-avx2 twice" in codes(found)[f"{name} duplicate-recipe"]


@needs_nix
def test_a_name_that_no_spec_can_hold_is_an_error_and_the_rest_is_adopted(tmp_path: Path) -> None:
    found = adopt([small_fleet(tmp_path, **{"gtk+": "{ stdenv }: stdenv"})])
    assert names(found) == {"main": SMALL_NAMES}
    assert "'gtk+' is not a name that a spec can hold" in codes(found)["gtk+ wrong-name"]
    assert not found.complete


@needs_nix
def test_a_further_python(tmp_path: Path) -> None:
    further = {n.replace("313", "312") for n in SMALL_NAMES if "cuda" in n}
    found = adopt([small_fleet(tmp_path, **{name: old(name) for name in further})])
    assert names(found) == {"main": SMALL_NAMES | further}
    assert found.spec.pythons == ("3.12", "3.13")
    assert found.spec.matrix is not None
    assert [one.pattern for one in found.spec.matrix.exclude] == ["*-python312-cpu-*"]


@needs_nix
def test_each_toolkit_has_its_own_pin(tmp_path: Path) -> None:
    cells = {"12_9": "f" * 40, "13_0": PIN}
    texts = {}
    for cuda, pin in cells.items():
        name = f"pytorch-python313-cuda{cuda}-sm90-avx2"
        texts[name] = old(name, "2.9.1").replace("@", "").replace("{ python3Packages", "{ pkgs, python3Packages", 1)
        nixpkgs = f"https://github.com/NixOS/nixpkgs/archive/{pin}.tar.gz"
        texts[name] = (
            f'{{ ... }}: let pkgs = import (fetchTarball "{nixpkgs}") {{ }}; in pkgs.callPackage ({texts[name]}) {{ }}'
        )
    found = adopt([folder_of(tmp_path / "main", texts)])
    branch = found.spec.branches["main"]
    assert {cuda: branch.pin(cuda).nixpkgs for cuda in branch.toolkits} == {"12.9": "f" * 40, "13.0": PIN}


@needs_nix
def test_unknown_hardware_is_declared_and_marked_as_a_guess(tmp_path: Path) -> None:
    name = "pytorch-python313-cuda13_99-sm990-avx10_2"
    flags = 'export CXXFLAGS="-mavx512f -mavx512vl -mfma"; export CFLAGS="-mavx512f -mavx512vl -mfma";'
    text = f"{{ python313Packages }}: python313Packages.torch.overrideAttrs {{ preConfigure = ''{flags}''; }}"
    found = adopt([small_fleet(tmp_path, **{name: text})])
    assert names(found) == {"main": SMALL_NAMES | {name}}
    assert {cell.target for cell in found.judged.cells} == {"cpu", "sm90", "sm990"}
    hardware = found.spec.hardware
    assert hardware.gpus["sm990"].capability == (99, 0)
    assert hardware.toolkits["13.99"].attribute == "cudaPackages_13_99"
    assert hardware.isas["avx10_2"].flags == ("-mavx512f", "-mavx512vl", "-mfma")
    assert "hardware:  # guessed" in found.text


@needs_nix
def test_an_isa_is_declared_as_most_recipes_turn_it_on(tmp_path: Path) -> None:
    texts = compiled(spec_of(small()), "main")
    more = {name: text.replace('"-mfma"', '"-mfma" "-mbmi2"') for name, text in texts.items() if "avx2" in name}
    found = adopt([small_fleet(tmp_path, **more)])
    assert "-mbmi2" in found.spec.hardware.isas["avx2"].flags
    assert "bmi2" in found.spec.hardware.isas["avx2"].cpuinfo
    one = next(iter(more))
    found = adopt([small_fleet(tmp_path / "one", **{one: more[one]})])
    assert "-mbmi2" not in found.spec.hardware.isas["avx2"].flags


@needs_nix
def test_a_guessed_version_is_marked(tmp_path: Path) -> None:
    name = "vllm-python312-cuda12_8-sm90"
    text = "# vLLM 0.14.1 for Hopper\n{ python312Packages }: python312Packages.vllm"
    found = adopt([folder_of(tmp_path / "main", {name: text})])
    assert "    versions: {vllm: 0.14.1}  # guessed from texts: vllm" in found.text.splitlines()


@needs_nix
@pytest.mark.parametrize("layer", ["", 'version = "${old.version}-mine"; '])
def test_a_version_that_only_the_stand_in_has_is_not_written(tmp_path: Path, layer: str) -> None:
    pinned = f'(import (fetchTarball "https://github.com/NixOS/nixpkgs/archive/{PIN}.tar.gz") {{ }})'
    name = "vllm-python313-cuda12_8-sm90-avx2"
    text = f'{{ ... }}: {pinned}.python313Packages.vllm.overrideAttrs (old: {{ {layer}pname = "{name}"; }})'
    found = adopt([folder_of(tmp_path / "main", {name: text})])
    assert found.findings == ()
    assert (found.spec.branches["main"].nixpkgs, dict(found.spec.branches["main"].versions)) == (PIN, {})


@needs_nix
def test_guessed_minutes_are_marked_in_every_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "vllm-python313-cuda12_8-sm90-avx2"
    root = folder_of(tmp_path / "main", {name: "{ python313Packages }: python313Packages.vllm"})
    git(root, "init", "-q", "-b", "main")
    monkeypatch.chdir(root)
    assert ci(".", "-o", SHOWN) == 0
    spec = root / SHOWN
    text = spec.read_text("utf-8")
    assert "  vllm: {recipes: own, minutes: {gpu: 60, cpu: 30}}  # guessed: the minutes" in text.splitlines()
    git(root, "add", "-A")
    git(root, "commit", "-qm", "Adopted")
    spec.write_text(text.replace("gpus:", "gpus:\n    sm80:"), "utf-8")
    capsys.readouterr()
    figures = (["forecast"], ["forecast", "--without", "sm80"], ["diff", "HEAD"])
    shown = [(run(PROGRAM, words), capsys.readouterr()) for words in figures]
    assert [status for status, _ in shown] == [0] * len(figures)
    assert run(PROGRAM, ["forecast", "--json"]) == 0
    assert checked("ci-compile forecast", capsys.readouterr().out)["guessed"] == ["vllm"]
    mark = "(guessed minutes: vllm)"
    assert all(mark in f"{out.out}{out.err}" for _, out in shown)
    decided = plan(parse_spec(spec.read_bytes(), shown=SHOWN))
    assert mark in str(load_of(decided, {("main", name)}, publish=False))
    spec.write_text(spec.read_text("utf-8").replace("  # guessed: the minutes", ""), "utf-8")
    assert all("guessed minutes" not in capsys.readouterr().out for words in figures if run(PROGRAM, words) == 0)


@needs_nix
def test_many_packages_of_one_cell_take_one_matrix(tmp_path: Path) -> None:
    texts = {f"p{number}-python313-cuda12_8-sm90-avx2": "{ ... }: 1 +" for number in range(30)}
    found = adopt([folder_of(tmp_path / "main", texts)])
    assert names(found) == {"main": set(texts)}
    assert found.spec.matrix is not None
    assert len(found.text.splitlines()) < 30 + 30


# Several folders.


@needs_nix
def test_a_package_on_only_one_branch(tmp_path: Path) -> None:
    folders = [
        folder_of(
            tmp_path / branch,
            {name: text for name, text in texts.items() if branch == "main" or not name.startswith("torchaudio")},
        )
        for branch, texts in bundled().items()
    ]
    found = adopt(folders)
    assert found.spec.packages["torchaudio"].branches == ("main",)
    assert found.spec.matrix is not None
    assert found.spec.matrix.exclude == ()
    assert found.complete
    assert "torchaudio" not in found.spec.branches["cuda-13_0"].versions


@needs_nix
def test_the_branch_is_the_checked_out_one(tmp_path: Path) -> None:
    texts = {name: old(name) for name in ("pytorch-python313-cpu-avx2", "pytorch-python313-cpu-avx")}
    checkout = folder_of(tmp_path / "build-pytorch", texts, "release/1.x")
    assert list(adopt([checkout]).names) == ["release/1.x"]
    assert list(adopt([checkout / ".flox/pkgs"]).names) == ["release/1.x"]
    assert len(adopt([checkout, checkout]).read["release/1.x"]) == 2
    bare = tmp_path / "recipes"
    bare.mkdir()
    (bare / "pytorch-python313-cpu-avx2.nix").write_text(old("pytorch-python313-cpu-avx2"), "utf-8")
    assert list(adopt([bare]).names) == ["recipes"]


@needs_nix
def test_a_branch_that_repeats_names_and_versions_is_not_published(tmp_path: Path) -> None:
    texts = {name: old(name, "2.9.1") for name in (SM90, SM90.replace("sm90", "sm80"))}
    folders = [folder_of(tmp_path / "for-vllm", {SM90: texts[SM90]}), folder_of(tmp_path / "pytorch-2.9", texts)]
    found = adopt(folders)
    assert {name: branch.publish for name, branch in found.spec.branches.items()} == {
        "for-vllm": False,
        "pytorch-2.9": True,
    }
    why = "guessed: pytorch-2.9 has the same names and versions, which one would overwrite"
    assert f"    publish: false  # {why}" in found.text.splitlines()


@needs_nix
def test_the_repository_of_a_torch_that_is_imported_is_declared(tmp_path: Path) -> None:
    document = small()
    rev = "0123456789abcdef0123456789abcdef01234567"
    row = {"name": "my-org/build-pytorch", "rev": {"main": rev}, "hash": {"main": f"sha256-{'A' * 43}="}}
    document["packages"]["pytorch"]["repository"] = row
    texts = compiled(spec_of(document), "main")
    found = adopt([folder_of(tmp_path / "main", texts)])
    assert names(found) == {"main": set(texts)}
    torch = found.spec.packages["pytorch"]
    assert torch.repository is not None
    assert (torch.repository.name, torch.repository.rev) == ("my-org/build-pytorch", {"main": rev})
    assert found.spec.packages["torchvision"].needs == ("pytorch",)


# Own recipes become compiled.


def repository(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git repository with an adopted spec, in which it is committed."""
    texts = {
        name: text.replace("# Compiled by ci-compile", "# Written")
        for name, text in compiled(spec_of(small()), "main", self_contained=True).items()
    }
    texts[SM90] = texts[SM90].replace('"-mfma"', '"-mfma" "-mbmi2"')
    folder = folder_of(root / "repository", texts)
    git(folder, "init", "-q", "-b", "main")
    monkeypatch.chdir(folder)
    assert ci(".", "-o", SHOWN) == 0
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "Adopted")
    return folder


@needs_nix
def test_own_recipes_are_compiled_from_now_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = repository(tmp_path, monkeypatch)
    capsys.readouterr()
    assert run(PROGRAM, ["recipes", "--adopt", "pytorch-*-sm90-*"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "1 of the 2 recipes that were compared stay the same derivations"
    assert out[1].startswith("1 recipe of pytorch differs in flags (CFLAGS, CXXFLAGS, NVCC_APPEND_FLAGS): ")
    assert 'recipes: {"pytorch-*-sm90-*": compiled, "*": own}' in (folder / SHOWN).read_text("utf-8")
    changed = {line[3:] for line in git(folder, "status", "--porcelain", "--", ".flox/pkgs").splitlines()}
    assert changed == {f".flox/pkgs/{name}" for name in (f"{SM90}.nix", f"{SM90[:-1]}512.nix", ".gitattributes")}
    assert run(PROGRAM, ["recipes", "--check"]) == 0
    assert run(PROGRAM, ["audit", "."]) == 0
    assert run(PROGRAM, ["recipes", "--adopt", "pytorch-*-sm90-*"]) == 2
    assert "matches no recipe" in capsys.readouterr().err


SIBLING = f"""{{ ... }}:
let pkgs = import (fetchTarball "https://github.com/NixOS/nixpkgs/archive/{PIN}.tar.gz") {{ }};
in (pkgs.python313Packages.torch.override {{ }}).overrideAttrs {{ pname = "pytorch-python313-cpu-avx2"; }}
"""
WRAPPED = f"""{{ ... }}:
let pkgs = import (fetchTarball "https://github.com/NixOS/nixpkgs/archive/{PIN}.tar.gz") {{ }};
in (pkgs.python313Packages.torchvision.override {{
  torch = import ./pytorch-python313-cpu-avx2.nix {{ }};
}}).overrideAttrs (old: {{
  pname = "torchvision-python313-cpu-avx2";
}})
"""
LOST = {
    "inputs (version)": ('version = "0.99.0";', "version is 0.99.0"),
    "inputs (source)": (
        'src = pkgs.fetchFromGitHub { owner = "pytorch"; repo = "vision"; rev = "v1"; hash = "sha256-B"; };',
        "sha256-B",
    ),
    "inputs (patches)": (
        'patches = [ (pkgs.fetchpatch { name = "a.patch"; url = "https://example.org/a"; hash = "sha256-A"; }) ];',
        "patches is a.patch sha256-A",
    ),
    "phases (postInstall)": ('postInstall = "rm -r $out/tests";', "postInstall is rm -r $out/tests"),
    "phases (preConfigure)": ('preConfigure = "rm -r third_party";', "preConfigure is rm -r third_party"),
    "attributes (doCheck)": ("doCheck = true;", "doCheck is True"),
    "attributes (torch: override.MPISupport)": ("", "torch: override.MPISupport is True"),
}
"""What a recipe that imports its sibling sets, and what is reported."""


@needs_nix
@pytest.mark.parametrize("where", LOST)
def test_what_a_recipe_that_imports_a_sibling_sets_is_listed(where: str) -> None:
    extra, told = LOST[where]
    vision, torch = ".flox/pkgs/torchvision-python313-cpu-avx2.nix", ".flox/pkgs/pytorch-python313-cpu-avx2.nix"
    own = {
        vision: WRAPPED.replace("  pname", f"  {extra} pname"),
        torch: SIBLING if extra else SIBLING.replace("override { }", "override { MPISupport = true; }"),
    }
    lines = differing(
        own, {vision: WRAPPED, torch: SIBLING}, {Path(vision).stem: "torchvision", Path(torch).stem: "pytorch"}
    )
    listed = [line for line in lines if line.startswith("1 recipe of torchvision")]
    assert len(listed) == 1
    assert f"differs in {where}: " in listed[0]
    assert told in listed[0]


@needs_nix
def test_a_recipe_that_reads_a_file_outside_its_folder_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = repository(tmp_path, monkeypatch)
    own = folder / ".flox/pkgs" / f"{SM90}.nix"
    (folder / "shared.nix").write_text(own.read_text("utf-8"), "utf-8")
    own.write_text("{ ... }: import ../../shared.nix { }\n", "utf-8")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "Shared")
    assert run(PROGRAM, ["recipes", "--adopt", f"{SM90}", "--check"]) == 1
    assert "1 recipe of pytorch differs in flags" in capsys.readouterr().out


MORE = {
    "magma": ("gpuTargets =", "magma = pkgs.magma.overrideAttrs { cmakeFlags = [ ]; }; gpuTargets ="),
    "libpng": (
        "preConfigure =",
        "buildInputs = old.buildInputs ++ [ (pkgs.libpng.override { apng = true; }) ]; preConfigure =",
    ),
    "nccl": ("overlays = [", "overlays = [ (final: prev: { nccl = prev.nccl.overrideAttrs { patches = [ ]; }; })"),
    "triton": (
        "pkgs.python313Packages.torch",
        "(pkgs.python313.override { packageOverrides = _: old: { triton = old.triton.override { }; }; }).pkgs.torch",
    ),
}
"""Ways in which a recipe changes a package with which its own is built."""


@needs_nix
@pytest.mark.parametrize("package", MORE)
def test_a_recipe_that_changes_an_inner_package_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], package: str
) -> None:
    folder = repository(tmp_path, monkeypatch)
    file = folder / ".flox/pkgs" / f"{SM90}.nix"
    assert MORE[package][0] in file.read_text("utf-8")
    file.write_text(file.read_text("utf-8").replace(*MORE[package]), "utf-8")
    git(folder, "commit", "-qam", f"Another {package}")
    assert run(PROGRAM, ["recipes", "--adopt", "pytorch-*"]) == 2
    assert f"{SM90}.nix: it changes {package}, " in capsys.readouterr().err
    assert git(folder, "status", "--porcelain") == ""
    assert run(PROGRAM, ["recipes", "--adopt", "torchvision-*-cpu-*"]) == 0  # a torch of the fleet is no such change


@needs_nix
def test_a_recipe_of_which_nothing_is_known_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = repository(tmp_path, monkeypatch)
    (folder / ".flox/pkgs" / f"{SM90}.nix").write_text('{ ... }: throw "elsewhere"\n', "utf-8")
    git(folder, "commit", "-qam", "Opaque")
    assert run(PROGRAM, ["recipes", "--adopt", "*"]) == 2
    assert "nothing is known of what it does" in capsys.readouterr().err
    (folder / SHOWN).write_text(
        (folder / SHOWN).read_text("utf-8").replace("recipes: own", "recipes: compiled"), "utf-8"
    )
    git(folder, "commit", "-qam", "Compiled")
    assert run(PROGRAM, ["sync", "--adopt"]) == 2
    assert git(folder, "log", "-1", "--format=%s").strip() == "Compiled"


@needs_nix
def test_recipes_are_compiled_in_one_step_with_the_spec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = repository(tmp_path, monkeypatch)
    allowed, adopt = os.access, ["recipes", "--adopt", "pytorch-*-sm90-*"]
    with monkeypatch.context() as patch:
        patch.setattr("os.access", lambda path, mode: Path(path).name != ".github" and allowed(path, mode))
        assert run(PROGRAM, adopt) == 2
    assert "cannot be written: Permission denied" in capsys.readouterr().err
    assert not git(folder, "status", "--porcelain")
    handle = os.open(folder / ".flox", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(run, PROGRAM, adopt)
        time.sleep(2)
        early = git(folder, "status", "--porcelain")
        os.close(handle)
        assert (early, done.result()) == ("", 0)


@needs_nix
def test_sync_puts_what_differs_into_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = repository(tmp_path, monkeypatch)
    spec = folder / SHOWN
    spec.write_text(spec.read_text("utf-8").replace("recipes: own", "recipes: compiled"), "utf-8")
    assert run(PROGRAM, ["sync"]) == 2
    assert run(PROGRAM, ["sync", "--adopt"]) == 0
    message = git(folder, "log", "-1", "--format=%B")
    assert "1 recipe of pytorch differs in flags" in message


# Random fleets.


CELLS = [(cell, variant) for cell in judge(bundled_spec()).cells for variant in cell.variants]


def ground(branches: Iterable[str], packages: Mapping[str, tuple[str, ...]], pythons: Iterable[str]) -> Ground:
    """What matrices of the bundled stack are multiplied by."""
    spec = bundled_spec()
    return Ground(
        kits={branch: tuple(spec.branches[branch].toolkits) for branch in branches},
        pythons=dict.fromkeys(branches, tuple(pythons)),
        packages=packages,
        hardware=spec.hardware,
    )


def check_matrix(keys: Iterable[VariantKey]) -> None:
    """Asserts that the matrix of `keys` compiles to exactly them and that no entry is superfluous."""
    keys = list(keys)
    spec = bundled_spec()
    branches = [branch for branch in spec.branches if any(key.branch == branch for key in keys)]
    packages = {
        package: tuple(branch for branch in branches if any(k[:2] == (branch, package) for k in keys))
        for package in spec.packages
    }
    packages = {package: on for package, on in packages.items() if on}
    pythons = sorted({key.python for key in keys})
    matrix = matrix_of(keys, ground(branches, packages, pythons))
    pool = {"memory": 128, "disk": 400}
    document = small(
        branches={
            branch: {
                "cuda": [*spec.branches[branch].toolkits],
                "nixpkgs": "f" * 40,  # an unknown one, which has every version
                "versions": dict.fromkeys(packages, f"{n}.0"),
            }
            for n, branch in enumerate(branches)
        },
        packages={package: {"branches": list(on)} for package, on in packages.items()},
        matrix={
            "python": pythons,
            **json.loads(json.dumps(matrix)),
        },
        runners={label: pool | {"runs-on": ["self-hosted", label]} for label in ("x64", "arm64")},
    )
    judged = judge(spec_of(document))
    made = {
        VariantKey(
            branch=cell.branch,
            package=v.package,
            python=cell.python,
            toolkit=cell.toolkit,
            gpu=cell.target,
            isa=cell.isa,
        )
        for cell in judged.cells
        for v in cell.variants
    }
    assert made == set(keys)
    assert judged.findings == ()


KEYS = [
    VariantKey(branch=c.branch, package=v.package, python=c.python, toolkit=c.toolkit, gpu=c.target, isa=c.isa)
    for c, v in CELLS
]


@given(st.sets(st.integers(0, len(KEYS) - 1), max_size=12))
@settings(max_examples=20, deadline=None)
def test_the_matrix_is_exact_with_a_few_recipes_missing(missing: set[int]) -> None:
    check_matrix(key for index, key in enumerate(KEYS) if index not in missing)


@given(st.sets(st.sampled_from(KEYS), min_size=1, max_size=8), st.sampled_from([("3.13",), ("3.11", "3.12", "3.13")]))
@settings(max_examples=20, deadline=None)
def test_the_matrix_is_exact_with_only_a_few_recipes(keys: set[VariantKey], pythons: tuple[str, ...]) -> None:
    check_matrix(sorted(key._replace(python=pythons[sum(map(ord, key.isa)) % len(pythons)]) for key in keys))


@given(st.data())
@settings(max_examples=20, deadline=None)
def test_the_matrix_is_exact_with_whole_rows_missing(data: st.DataObject) -> None:
    rows = st.tuples(st.integers(0, 4), st.integers(0, 4), st.sampled_from(KEYS))
    lost = data.draw(st.lists(rows, min_size=1, max_size=3))
    kept = [key for key in KEYS if not any(key[a] == row[a] and key[b] == row[b] for a, b, row in lost)]
    if kept:
        check_matrix(kept)


@pytest.mark.parametrize(
    ("lost", "expected"),
    [
        (lambda key: key.package == "torchaudio" and key.gpu == "sm61", ["torchaudio-*-sm61-*"]),
        (lambda key: key.branch == "main" and key.isa == "avx512bf16", ["*-avx512bf16 main"]),
        (lambda key: key.isa == "armv9" and key.gpu in {CPU, "sm80"}, ["*-{cpu,sm80}-armv9"]),
        (lambda key: key.branch == "cuda-13_0" and key.gpu in {"sm80", "sm86", "sm89"}, ["*-cuda13_0-sm{80,86,89}-*"]),
        (lambda key: key.gpu != CPU and key.isa.startswith("armv"), []),
        (lambda key: key.package == "pytorch" and key.gpu != CPU and key.isa == "avx2", ["pytorch-*-cuda*-avx2"]),
        (lambda key: key.gpu != CPU, []),
    ],
)
def test_exclusions_are_as_a_person_would_write_them(lost: object, expected: list[str]) -> None:
    assert callable(lost)
    keys = [key for key in KEYS if not lost(key)]
    check_matrix(keys)
    spec = bundled_spec()
    on = tuple(spec.branches)
    matrix = matrix_of(keys, ground(on, dict.fromkeys(spec.packages, on), ["3.13"]))
    assert [" ".join([row["variants"], *row.get("branches", ())]) for row in matrix["exclude"]] == expected


def test_toolkits_are_told_apart_by_name() -> None:
    branches, gpus, isas = ("one", "two"), ("sm80", "sm90"), ("avx2", "avx512")
    keys = [
        VariantKey(branch, "p", "3.13", cuda, gpu, isa)
        for branch in branches
        for cuda in ("12.8", "12.9", "13.0")
        for gpu in gpus
        for isa in isas
        if (cuda, isa) != ("12.9", "avx512")
    ]
    made = Ground(
        kits=dict.fromkeys(branches, ("12.8", "12.9", "13.0")),
        pythons=dict.fromkeys(branches, ("3.13",)),
        packages={"p": branches},
        hardware=tables(),
    )
    matrix = matrix_of(keys, made)
    assert matrix["gpus"] == {"sm80": {}, "sm90": {}}
    assert [(row["variants"], row.get("branches")) for row in matrix["exclude"]] == [("*-cuda12_9-*-avx512", None)]


def test_variants_are_excluded_by_name_where_patterns_would_be_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ci_compiler.adoption.axes.MOST_LINES", 0)
    keys = [VariantKey("main", "p", "3.13", "12.8", gpu, isa) for gpu in ("sm80", "sm90") for isa in ("avx2", "avx512")]
    made = Ground(kits={"main": ("12.8",)}, pythons={"main": ("3.13",)}, packages={"p": ("main",)}, hardware=tables())
    lost = keys.pop()
    matrix = matrix_of(
        [*keys, *(key._replace(package="q") for key in [*keys, lost])],
        replace(made, packages={"p": ("main",), "q": ("main",)}),
    )
    excluded = [(row["variants"], row["branches"]) for row in matrix["exclude"]]
    assert excluded == [("p-python313-cuda12_8-sm90-avx512", ("main",))]


# How values are written.


@needs_nix
def test_the_same_recipes_give_the_same_bytes(tmp_path: Path) -> None:
    root = small_fleet(
        tmp_path,
        **{"torchvision-python313-cpu-avx2": "", SM90.replace("sm90", "sm80"): old(SM90.replace("sm90", "sm80"))},
    )
    command = [sys.executable, "-m", "ci_compiler", "adopt", str(root)]
    texts = {
        subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=8) | st.from_regex(r"\A[0-9a-f]{6}\Z"))
@settings(max_examples=50)
def test_every_text_survives_a_round_trip(text: str) -> None:
    line = f"{scalar('key')}: {flow([text, {'a': text}])}\n"
    assert parse_document(line.encode(), shown="y").value == {"key": [text, {"a": text}]}
    assert yaml.safe_load(line) == {"key": [text, {"a": text}]}


# Hashes.


@pytest.mark.parametrize(
    "text",
    [
        "sha256-RKiZLHBCneMtZKRgTEuW1K7+Jpi+tx11BMXuS1jC1xQ=",
        "sha256:056pq9c4pvn50isivdxyk0kgxbnljr5lqq54chny77a2f0n9ka24",
        "056pq9c4pvn50isivdxyk0kgxbnljr5lqq54chny77a2f0n9ka24",
        "44a8992c70429de32d64a4604c4b96d4aefe2698beb71d7504c5ee4b58c2d714",
    ],
)
def test_hashes_are_read_in_every_notation(text: str) -> None:
    assert sri(text) == "sha256-RKiZLHBCneMtZKRgTEuW1K7+Jpi+tx11BMXuS1jC1xQ="


@pytest.mark.parametrize("text", ["", "sha512-AAAA", "sha256-AAAA=", "z" * 52, "e" * 52, "AAAA", "ü" * 52])
def test_other_texts_are_not_hashes(text: str) -> None:
    assert sri(text) == ""


# The command.


def ci(*argv: str) -> int:
    return run(PROGRAM, ["adopt", *argv])


@needs_nix
def test_the_spec_goes_to_standard_output_or_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = small_fleet(tmp_path)
    assert ci(str(root)) == 0
    out, err = capsys.readouterr()
    assert {v.name for cell in judge(parse_spec(out.encode(), shown="o")).cells for v in cell.variants} == SMALL_NAMES
    assert err.splitlines()[-3:] == [
        "main: 8 of 8 recipes",
        f"8 recipes in {len(out.splitlines())} lines; equal to what the spec would compile: 8",
        "untested: 8 variants, since no pool states its CPU (`cpu`); state what your machines have",
    ]
    assert "  # Variants with an ISA are untested: no pool states its CPU (`cpu`)." in out.splitlines()
    spec = tmp_path / "new/ci-matrix.yaml"
    assert ci(str(root), "-o", str(spec)) == 0
    assert spec.read_text("utf-8") == out
    assert capsys.readouterr().out == ""
    assert ci(str(root), "-o", str(spec)) == 2
    assert "in-the-way" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["missing", "empty", "file"])
def test_a_folder_without_recipes_is_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    folder = tmp_path / "there"
    if kind == "empty":
        folder.mkdir()
    elif kind == "file":
        folder.write_text("", "utf-8")
    assert ci(str(folder), str(tmp_path / "other")) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.split()[-1] for line in err.splitlines()] == ["[recipes-missing]"] * 2


@pytest.mark.parametrize("what", [".git", "flake.nix"])
def test_a_repository_without_the_folder_of_recipes_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    (tmp_path / what).mkdir() if what == ".git" else (tmp_path / what).write_text("{ outputs = _: { }; }", "utf-8")
    (tmp_path / "overlay.nix").write_text("final: prev: { }", "utf-8")
    assert ci(str(tmp_path)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "is a repository without recipes in .flox/pkgs; its other Nix files are no packages" in err


@needs_nix
def test_kinds_that_are_not_evaluated_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ci_compiler.adoption.facts.ALL_EVALUATED", 2)
    monkeypatch.setattr("ci_compiler.adoption.facts.MOST_EVALUATED", 2)
    monkeypatch.setattr("ci_compiler.adoption.comparison.MOST_EVALUATED", 2)
    texts = {f"tool{number}-python313-cpu-{isa}": "{ hello }: hello" for number in range(4) for isa in ("avx", "avx2")}
    found = adopt([folder_of(tmp_path / "main", texts)])
    assert names(found) == {"main": set(texts)}
    (said,) = [one.message for one in found.findings if one.code == "recipe-opaque"]
    assert said.startswith(
        "4 recipes of 2 kinds (branch, package, toolkit, GPU or CPU) were not evaluated, after 2 others"
    )


@needs_nix
def test_a_busy_machine_writes_the_same_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {name: old(name, "2.9.1") for name in (SM90, SM90.replace("sm90", "sm80"))}
    root = folder_of(tmp_path / "main", texts)
    text = adopt([root]).text
    slow = tmp_path / "bin/nix-instantiate"
    slow.parent.mkdir()
    slow.write_text(f'#!/bin/sh\nsleep 4\nexec {shutil.which("nix-instantiate")} "$@"\n', "utf-8")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", str(slow.parent), prepend=os.pathsep)
    assert adopt([root]).text == text
    assert "versions: {pytorch: 2.9.1}" in text


@needs_nix
def test_a_folder_whose_name_is_not_a_branch_name_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = folder_of(tmp_path / "my recipes", {"a": "1"})
    assert ci(str(root)) == 2
    assert "'my recipes' is not a branch name" in capsys.readouterr().err


@needs_nix
def test_a_cell_of_more_packages_than_a_workflow_has_jobs_is_listed_by_name(tmp_path: Path) -> None:
    texts = {f"tool{index}-python313-cpu-avx2": "{ hello }: hello\n" for index in range(100)}
    found = adopt([folder_of(tmp_path, texts, "main")])
    assert found.complete
    assert all(cell.listed for cell in found.judged.cells)
    assert max(shard.jobs for shard in plan(found.spec).shards) <= limit("jobs").gate


@needs_nix
def test_packages_beyond_what_the_workflow_of_a_cell_holds_are_listed_by_name(tmp_path: Path) -> None:
    gpus = ("sm80", "sm90")
    texts = {f"tool{index}-python313-cuda12_8-{gpus[index % 2]}-avx2": "{ hello }: hello\n" for index in range(100)}
    texts |= {f"tool{index}-python313-cpu-avx2": "{ hello }: hello\n" for index in range(40)}
    found = adopt([folder_of(tmp_path, texts, "main")])
    assert found.complete
    decided = plan(found.spec)
    matrix = {one.package for cell in decided.judged.cells for one in cell.variants if not cell.listed}
    assert {f"tool{index}" for index in range(40)} <= matrix
    assert len(compile_files(decided)[".github/workflows/cell.yml"]) <= limit("file-bytes").gate
