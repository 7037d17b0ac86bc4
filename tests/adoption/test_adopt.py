"""Adopting existing recipes: the short spec compiles to the same names, and everything else is reported."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_compiler.adoption.adopt import Adopted, adopt
from ci_compiler.adoption.axes import entry_of, matrix_of
from ci_compiler.adoption.exclusions import Cover, Key
from ci_compiler.adoption.spec_forms import sri
from ci_compiler.adoption.spec_yaml import flow, scalar
from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.hardware import CPU, tables
from ci_compiler.plan.rules import judge
from ci_compiler.recipes.render import recipes
from ci_compiler.spec.build import bundled_spec, parse_spec
from ci_compiler.spec.load import parse_document
from ci_compiler.spec.model import Matrix, Repository, Spec
from tests.adoption.helpers import CASES, PIN, needs_nix
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


def folder_of(root: Path, texts: Mapping[str, str], branch: str = "") -> Path:
    """A checkout of `branch` at `root` (a folder without git, if '') with recipes by name."""
    pkgs = root / ".flox/pkgs"
    pkgs.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (pkgs / f"{name}.nix").write_text(text, "utf-8")
    if branch:
        (root / ".git").mkdir()
        (root / ".git/HEAD").write_text(f"ref: refs/heads/{branch}\n", "utf-8")
    return root


def compiled(spec: Spec, branch: str) -> dict[str, str]:
    """The recipes that `spec` compiles to on `branch`, by name."""
    made = recipes(spec, judge(spec), branch)
    return {Path(path).stem: text for path, text in made.items() if path.endswith(".nix")}


@cache
def bundled() -> dict[str, dict[str, str]]:
    spec = bundled_spec()
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
    assert (stack.findings, stack.complete, stack.read) == ((), True, 459)


@needs_nix
def test_the_recipes_of_the_bundled_stack_are_reproduced_exactly(stack: Adopted) -> None:
    for branch, texts in bundled().items():
        assert compiled(stack.plan.spec, branch) == {
            name: text.replace("torch.yaml (bundled)", "the adopted spec") for name, text in texts.items()
        }


@needs_nix
def test_the_adopted_matrix_is_shorter_than_the_hand_written_one(stack: Adopted) -> None:
    ours, theirs = stack.plan.spec.matrix, bundled_spec().matrix
    assert entries(ours) < entries(theirs)
    assert (ours.pythons, ours.isas) == (theirs.pythons, theirs.isas)
    assert {axis.name for axis in ours.gpus} == {axis.name for axis in theirs.gpus}
    assert ours.exclude == ()
    lines = stack.text.splitlines()
    assert "    cpu: {also: {cuda-13_0: [avx]}}" in lines
    assert "    sm110:  # Jetson Thor, DRIVE Thor" in lines
    assert max(map(len, lines[1:])) <= 120


def entries(matrix: Matrix) -> int:
    """The size of a matrix: the number of its axes' entries and of their values."""
    rows = [entry_of(axis) for axis in matrix.gpus]
    words = sum(str(row).count(",") + 1 for row in rows if row)
    return len(matrix.pythons) + sum(map(len, matrix.isas.values())) + len(rows) + words + len(matrix.exclude)


@needs_nix
def test_the_adopted_spec_reads_like_a_hand_written_one(stack: Adopted) -> None:
    head, *lines = stack.text.splitlines()
    assert head.startswith("# yaml-language-server: $schema=")
    assert "owner: my-org  # edit: the FloxHub organisation that the variants are published to" in lines
    assert "    versions: {pytorch: 2.8.0, torchvision: 0.23.0, torchaudio: 2.8.0}  # from the pin" in lines
    assert "    versions: {pytorch: 2.10.0, torchvision: 0.25.0, torchaudio: 2.10.0}" in lines
    assert "    pnames: {pytorch: pytorch210}" in lines
    assert "    work-arounds: [magma-cuda-13, torch-cccl, torch-find-cuda-toolkit]" in lines


@needs_nix
def test_branches_are_in_the_order_of_the_folders(tmp_path: Path, stack: Adopted) -> None:
    folders = [folder_of(tmp_path / branch, texts) for branch, texts in reversed(bundled().items())]
    again = adopt(folders)
    assert list(again.names) == list(reversed(stack.names))
    assert again.plan.spec.matrix.isas == stack.plan.spec.matrix.isas
    assert adopt(folders).text == again.text


# The maintainers' fleet, as they wrote it.

VERSIONS = {"main": "2.8.0", "cuda-12_9": "2.9.1", "cuda-13_0": "2.10.0"}


@pytest.fixture(scope="module")
def stood(tmp_path_factory: pytest.TempPathFactory) -> Adopted:
    root = tmp_path_factory.mktemp("stood")
    folders = []
    for repository, branches in STOOD.items():
        for branch, there in branches.items():
            texts = {name: old(name, VERSIONS[branch], plain=branch == "main") for name in there}
            if (repository, branch) == ("build-torchvision", "main"):
                name = "torchvision-python313-cuda12_8-sm61-avx"
                texts[f"{name}-no-nnpack"] = texts.pop(name)
            folders.append(folder_of(root / branch / repository, texts, branch))
    return adopt(folders)


@needs_nix
def test_the_maintainers_fleet_is_adopted(stood: Adopted) -> None:
    expected = {branch: {n for there in STOOD.values() for n in there[branch]} for branch in VERSIONS}
    expected["main"].remove("torchvision-python313-cuda12_8-sm61-avx")
    assert names(stood) == expected
    assert [str(axis.name) for axis in stood.plan.spec.matrix.gpus][:3] == ["cpu", "sm61", "sm75"]
    lines = stood.text.splitlines()
    assert "    cpu: {also: {cuda-12_9: [avx], cuda-13_0: [avx]}}" in lines
    assert '    - {variants: "torchvision-*-cuda12_8-sm61-avx", because: no recipe}' in lines
    assert len(stood.plan.spec.matrix.exclude) == 1


@needs_nix
def test_the_findings_about_the_maintainers_fleet(stood: Adopted) -> None:
    assert not stood.complete
    left_out = [finding for finding in stood.findings if finding.severity == "error"]
    assert [finding.code for finding in left_out] == ["wrong-name"]
    assert "it builds torchvision-python313-cuda12_8-sm61-avx: call it that" in left_out[0].message
    assert left_out[0].place.file.endswith("sm61-avx-no-nnpack.nix")
    told = [finding for finding in stood.findings if finding.severity == "warning"]
    assert {finding.code for finding in told} == {"no-pin", "gpu-target-notation"}
    assert len([finding for finding in told if finding.code == "no-pin"]) == 3


@needs_nix
def test_values_that_no_recipe_states_are_marked(stood: Adopted) -> None:
    lines = stood.text.splitlines()
    assert '    cuda: "12.8"  # only the recipes\' names state it' in lines
    assert '    cuda: "12.9"' in lines
    guesses = [line for line in lines if line.endswith("# a guess: no recipe states it")]
    assert [line.split()[0] for line in guesses] == ["nixpkgs:"] * 3
    assert stood.plan.spec.branches["main"].nixpkgs != PIN  # the one that has PyTorch 2.8.0


# One recipe or a few.


def small_fleet(root: Path, **changed: str) -> Path:
    """A folder called main with six recipes on a pinned nixpkgs, some of them changed or removed ('')."""
    spec = spec_of(small())
    texts = {**compiled(spec, "main"), **changed}
    return folder_of(root / "main", {name: text for name, text in texts.items() if text})


SMALL_NAMES = {
    f"{package}-python313-{cell}"
    for package in ("pytorch", "torchvision")
    for cell in ("cpu-avx2", "cpu-avx512", "cuda12_8-sm90-avx2", "cuda12_8-sm90-avx512")
}


@needs_nix
def test_a_recipe_that_nix_cannot_evaluate_is_reported_and_the_rest_is_adopted(tmp_path: Path) -> None:
    name = "torchvision-python313-cpu-avx2"
    found = adopt([small_fleet(tmp_path, **{name: "{ ... }: 1 +"})])
    assert names(found) == {"main": SMALL_NAMES - {name}}
    assert [finding.code for finding in found.findings] == ["recipe-evaluation"]
    assert found.findings[0].place.line == 1
    assert (found.complete, found.read) == (False, 8)


@needs_nix
def test_a_recipe_whose_need_is_left_out_is_left_out(tmp_path: Path) -> None:
    missing = "pytorch-python313-cpu-avx2"
    text = old(missing).replace("-mfma", "-mfma4")
    vision = "torchvision-python313-cpu-avx2"
    found = adopt([small_fleet(tmp_path, **{missing: text, vision: old(vision)})])
    assert names(found) == {"main": SMALL_NAMES - {missing, vision}}
    told = codes(found)
    assert "the nearest is avx2, which lacks fma4: declare it so" in told[f"{missing} unknown-isa"]
    assert told[f"{vision} needs-missing-variant"] == f"it needs {missing}, which main does not build"


VNNI, ARM = "pytorch-python313-cpu-avx512vnni", "pytorch-python313-cpu-armv9"
SM80, VISION = "pytorch-python313-cuda12_8-sm80-avx2", "torchvision-python313-cpu-avx512vnni"


def other(name: str, before: str, after: str, **changes: str) -> str:
    """The recipe of `name` with one text replaced once."""
    text = old(name, **changes)
    assert before in text
    return text.replace(before, after, 1)


@needs_nix
@pytest.mark.parametrize(
    ("name", "text", "code", "message"),
    [
        # The name does not match what the recipe builds.
        ("pytorch-python313-cpu-armv8.2", old("pytorch-python313-cpu-armv8_2"), "wrong-name", "contains no dot"),
        ("pytorch-python313-cpu-avx512bf16", old(VNNI), "wrong-name", f"it builds {VNNI}; call it that"),
        (SM80, old(SM80, gpu="sm86"), "wrong-name", "it builds pytorch-python313-cuda12_8-sm86-avx2"),
        (SM80, old(SM80, cuda="13_0"), "wrong-name", "it builds pytorch-python313-cuda13_0-sm80-avx2"),
        (VNNI.replace("313", "312"), old(VNNI.replace("313", "311")), "wrong-name", "it builds pytorch-python311-"),
        (f"{ARM}-wrapped", old(ARM), "wrong-name", f"it builds {ARM}: call it that"),
        (VISION, old(VNNI), "package-attribute", "the other recipes of torchvision override torchvision"),
        # The rules forbid it.
        (SM80.replace("12_8", "13_0"), old(SM80.replace("12_8", "13_0")), "branch-cuda", "13.0; main has 12.8"),
        (SM80.replace("80", "103"), old(SM80.replace("80", "103")), "gpu-needs-newer-cuda", "12.9 or newer"),
        (SM80.replace("80", "87"), old(SM80.replace("80", "87")), "gpu-host", "aarch64-linux hosts alone"),
        # The recipe is not a variant.
        ("a", '{ symlinkJoin }: symlinkJoin { name = "a"; paths = [ ]; }', "one-off", "made with symlinkJoin"),
        ("a", '{ python3Packages }: python3Packages.buildPythonPackage { pname = "a"; version = ""; }', "one-off", ""),
        (VNNI, "{ python3Packages }: python3Packages.torch", "unknown-isa", "no compiler flag says"),
        (VNNI, other(VNNI, "= false", "= true"), "gpu-targets", "builds for whatever GPUs nixpkgs chooses"),
        (SM80, other(SM80, '"8.0"', '"8.0" "8.6"'), "gpu-targets", "builds for 2 GPUs (8.0, 8.6)"),
        (SM80, other(SM80, '"8.0"', '"3.7"'), "unknown-gpu", "compute capability 3.7; known are 5.0, "),
        (SM80, other(SM80, "12_8;", "12_3;").replace("12_8,", "12_3,"), "unknown-cuda", "CUDA 12.3; known are 12.4"),
        (VNNI, other(VNNI, "CFLAGS=", "CFLAGS='-mavx512fp16 '"), "unknown-isa", "CXXFLAGS and CFLAGS choose different"),
        # The recipe contradicts itself.
        (ARM, other(ARM, "preC", 'meta.platforms = [ "x86_64-linux" ]; preC'), "isa-system", "armv9's, of aarch64"),
        (
            VISION,
            other(VISION, "meta =", 'preConfigure = "export CFLAGS=-mavx"; meta ='),
            "torch-differs",
            "it is for avx, but",
        ),
        (
            SM80.replace("pytorch", "torchvision"),
            other(SM80.replace("pytorch", "torchvision"), "meta =", "TORCH_CUDA_ARCH_LIST = \"9.0\"; meta ="),
            "torch-differs", "its own kernels are for 9.0, but its torch is for 8.0",
        ),
    ],
)  # fmt: skip
def test_recipes_that_no_spec_can_express_are_left_out(
    tmp_path: Path, name: str, text: str, code: str, message: str
) -> None:
    found = adopt([small_fleet(tmp_path, **{name: text})])
    assert names(found) == {"main": SMALL_NAMES}
    ((told, said),) = codes(found).items()
    assert told == f"{name} {code}"
    assert message in said
    assert not found.complete


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
def test_a_further_python(tmp_path: Path) -> None:
    further = {n.replace("313", "312") for n in SMALL_NAMES if "cuda" in n}
    texts = {name: old(name, {"pytorch": "2.8.0"}.get(name.split("-")[0], "0.23.0")) for name in further}
    found = adopt([small_fleet(tmp_path, **texts)])
    assert names(found) == {"main": SMALL_NAMES | further}
    assert found.plan.spec.matrix.pythons == ("3.12", "3.13")
    assert [one.pattern for one in found.plan.spec.matrix.exclude] == ["*-python312-cpu-*"]
    assert found.complete


@needs_nix
def test_a_single_package(tmp_path: Path) -> None:
    texts = {name: text for name, text in bundled()["main"].items() if name.startswith("pytorch-")}
    found = adopt([folder_of(tmp_path / "main", texts)])
    assert names(found) == {"main": set(texts)}
    assert list(found.plan.spec.packages) == ["pytorch"]
    assert found.findings == ()


@needs_nix
def test_packages_that_the_stand_in_does_not_know(tmp_path: Path) -> None:
    document = small()
    document["packages"]["torchtext"] = {"needs": ["pytorch"], "jobs": 16}
    document["packages"]["xformers"] = {"attribute": "xformers-cuda", "needs": ["torchtext", "pytorch"]}
    document["branches"]["main"]["versions"] |= {"torchtext": "0.18.0", "xformers": "0.0.30"}
    document["branches"]["main"]["sources"] = {
        "torchtext": {"repository": "pytorch/text", "tag": "v0.18.0", "hash": f"sha256-{'B' * 43}="}
    }
    texts = compiled(spec_of(document), "main")
    found = adopt([folder_of(tmp_path / "main", texts)])
    assert names(found) == {"main": set(texts)}
    packages = found.plan.spec.packages
    assert {name: (package.attribute, package.needs, package.jobs) for name, package in packages.items()} == {
        "pytorch": ("torch", (), 32),
        "torchvision": ("torchvision", ("pytorch",), 32),
        "torchtext": ("torchtext", ("pytorch",), 16),
        "xformers": ("xformers-cuda", ("pytorch", "torchtext"), 32),
    }
    assert '    versions: {pytorch: 2.8.0, torchvision: 0.23.0, torchtext: 0.18.0, xformers: "0"}' in found.text


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
    assert found.plan.spec.packages["torchaudio"].branches == ("main",)
    assert found.plan.spec.matrix.exclude == ()
    assert found.complete
    assert "torchaudio" not in found.plan.spec.branches["cuda-13_0"].versions


@needs_nix
def test_the_branch_is_the_checked_out_one(tmp_path: Path) -> None:
    texts = {name: old(name) for name in ("pytorch-python313-cpu-avx2", "pytorch-python313-cpu-avx")}
    checkout = folder_of(tmp_path / "build-pytorch", texts, "release/1.x")
    assert list(adopt([checkout]).names) == ["release/1.x"]
    assert list(adopt([checkout / ".flox/pkgs"]).names) == ["release/1.x"]
    assert adopt([checkout, checkout]).read == 2
    bare = tmp_path / "recipes"
    bare.mkdir()
    (bare / "pytorch-python313-cpu-avx2.nix").write_text(old("pytorch-python313-cpu-avx2"), "utf-8")
    assert list(adopt([bare]).names) == ["recipes"]


@needs_nix
def test_one_name_and_version_on_two_branches_stays_on_the_first(tmp_path: Path) -> None:
    gpu, cpu = "pytorch-python313-cuda{}-sm90-avx2", "pytorch-python313-cpu-avx2"
    folders = [
        folder_of(tmp_path / branch, {name: old(name, "2.9.1") for name in (gpu.format(cuda), cpu)})
        for branch, cuda in (("one", "12_9"), ("two", "13_0"))
    ]
    found = adopt(folders)
    assert names(found) == {"one": {gpu.format("12_9"), cpu}, "two": {gpu.format("13_0")}}
    left_out = [finding for finding in found.findings if finding.severity == "error"]
    assert [(finding.code, Path(finding.place.file).stem) for finding in left_out] == [("same-name-same-version", cpu)]


@needs_nix
def test_recipes_that_differ_from_most_are_reported_and_adopted(tmp_path: Path) -> None:
    texts = dict(bundled()["cuda-13_0"])
    name = "pytorch-python313-cuda13_0-sm90-avx2"
    for old_text, new_text in (
        ('"pytorch210-python313-cuda13_0-sm90-avx2"', '"pytorch-nightly"'),
        ('ninjaFlags = [ "-j32" ]', 'ninjaFlags = [ "-j8" ]'),
        (PIN, "f" * 40),
        ("allowBroken = true;", ""),
        ('"2.10.0"', '"2.10.1"'),
        ("magma = prev.magma", "magma2 = prev.magma"),
    ):
        assert old_text in texts[name]
        texts[name] = texts[name].replace(old_text, new_text, 1)
    found = adopt([folder_of(tmp_path / "cuda-13_0", texts)])
    assert names(found) == {"cuda-13_0": set(texts)}
    assert found.complete
    told = {key: message for key, message in codes(found).items() if key.startswith(name)}
    assert {key.split()[1] for key in told} == {
        "pname-differs", "jobs-differ", "wrong-pin", "allow-broken-differs", "version-differs", "source-differs",
        "work-around-differs", "overlay-left-out",
    }  # fmt: skip
    assert told[f"{name} wrong-pin"] == f"takes nixpkgs {'f' * 40}; most recipes of cuda-13_0 take {PIN}"
    assert found.plan.spec.branches["cuda-13_0"] == bundled_spec().branches["cuda-13_0"]


@needs_nix
def test_work_arounds_are_recognised_by_their_effect(tmp_path: Path) -> None:
    text = (CASES / "cuda-13_0/.flox/pkgs/pytorch-python313-cuda13_0-sm90-avx512.nix").read_text("utf-8")
    found = adopt([folder_of(tmp_path / "x", {"pytorch-python313-cuda13_0-sm90-avx512": text})])
    branch = found.plan.spec.branches["x"]
    assert branch.work_arounds == ("magma-cuda-13", "torch-cccl", "torch-find-cuda-toolkit")
    assert branch.sources == {"pytorch": bundled_spec().branches["cuda-13_0"].sources["pytorch"]}
    assert (branch.pnames, branch.allow_broken) == ({"pytorch": "pytorch210"}, True)
    assert found.findings == ()


@needs_nix
def test_a_source_that_no_spec_can_express_is_left_out(tmp_path: Path) -> None:
    name = "pytorch-python313-cpu-avx2"
    source = 'src = pkgs.fetchgit { url = "https://example.org/torch"; rev = "v1"; hash = ""; }; pname'
    text = old(name).replace("pname", source, 1).replace("{ python3Packages", "{ pkgs, python3Packages")
    found = adopt([folder_of(tmp_path / "main", {name: text})])
    assert found.complete
    assert "source-left-out" in {finding.code for finding in found.findings}
    assert found.plan.spec.branches["main"].sources == {}


# Torch from another repository.

REV = "0123456789abcdef0123456789abcdef01234567"


def importing(document: dict[str, object], **repository: object) -> dict[str, str]:
    """The torchvision recipes of the small spec whose torch is another repository's."""
    row = {"name": "my-org/build-pytorch", "rev": {"main": REV}, "hash": {"main": f"sha256-{'A' * 43}="}}
    packages = document["packages"]
    assert isinstance(packages, dict)
    packages["pytorch"]["repository"] = row | repository
    return compiled(spec_of(document), "main")


@needs_nix
def test_only_torchvision_keeps_the_repository_of_its_torch(tmp_path: Path) -> None:
    texts = importing(small())
    found = adopt([folder_of(tmp_path / "main", texts)])
    assert names(found) == {"main": set(texts)}
    torch = found.plan.spec.packages["pytorch"]
    assert torch.repository is not None
    assert (torch.attribute, torch.repository.name, torch.repository.rev) == (
        "torch", "my-org/build-pytorch", {"main": REV},
    )  # fmt: skip
    assert found.plan.spec.packages["torchvision"].needs == ("pytorch",)
    assert compiled(found.plan.spec, "main").keys() == texts.keys()
    assert "# pytorch: a guess: no recipe states it; torchvision: from the pin" in found.text


@needs_nix
@pytest.mark.parametrize("name", ["build-pytorch", "elsewhere"])
def test_with_the_torch_checkout_everything_is_built_in_one_repository(tmp_path: Path, name: str) -> None:
    torch = {stem: text for stem, text in compiled(spec_of(small()), "main").items() if stem.startswith("pytorch-")}
    folders = [
        folder_of(tmp_path / "build-torchvision", importing(small()), "main"),
        folder_of(tmp_path / name, torch, "main"),
    ]
    found = adopt(folders)
    assert names(found) == {"main": SMALL_NAMES}
    assert found.plan.spec.packages["pytorch"].repository is None
    assert found.complete


@needs_nix
def test_with_the_torch_checkout_no_hash_is_needed(tmp_path: Path) -> None:
    everything = compiled(spec_of(small()), "main")
    texts = {
        name: "\n".join(line for line in text.splitlines() if "sha256 =" not in line)
        for name, text in importing(small()).items()
    }
    torch = {name: text for name, text in everything.items() if name.startswith("pytorch-")}
    found = adopt([folder_of(tmp_path / "a", texts, "main"), folder_of(tmp_path / "b", torch, "main")])
    assert names(found) == {"main": SMALL_NAMES}
    assert found.complete


@needs_nix
def test_the_commit_of_the_torch_is_that_of_most_recipes_of_a_branch(tmp_path: Path) -> None:
    texts = importing(small())
    name = "torchvision-python313-cpu-avx2"
    texts[name] = texts[name].replace(REV, "f" * 40)
    found = adopt([folder_of(tmp_path / "main", texts)])
    assert names(found) == {"main": set(texts)}
    assert found.plan.spec.packages["pytorch"].repository == Repository(
        name="my-org/build-pytorch", rev={"main": REV}, hash={"main": f"sha256-{'A' * 43}="}
    )
    assert f"{name} foreign-torch-differs" in codes(found)


@needs_nix
def test_a_recipe_whose_torch_has_no_hash_is_left_out(tmp_path: Path) -> None:
    texts = importing(small())
    name = "torchvision-python313-cpu-avx2"
    texts[name] = "\n".join(line for line in texts[name].splitlines() if "sha256 =" not in line)
    other = "torchvision-python313-cpu-avx512"
    texts[other] = texts[other].replace("pytorch-python313-cpu-avx512.nix", "pytorch-python313-cpu-avx2.nix")
    found = adopt([folder_of(tmp_path / "main", texts)])
    assert names(found) == {"main": set(texts) - {name, other}}
    told = codes(found)
    assert "without a SHA-256" in told[f"{name} foreign-torch"]
    assert "its torch is for" in told[f"{other} torch-differs"]


@needs_nix
def test_torchvision_that_makes_its_own_torch(tmp_path: Path) -> None:
    name = "torchvision-python313-cpu-avx2"
    found = adopt([folder_of(tmp_path / "main", {name: old(name)})])
    assert names(found) == {"main": {name}}
    assert "needs-torch" in {finding.code for finding in found.findings}


# Random fleets.


ALL = [(cell, variant) for cell in judge(bundled_spec()).cells for variant in cell.variants]


def check_matrix(keys: Iterable[Key]) -> None:
    """Asserts that the matrix of `keys` compiles to exactly them and that no entry is superfluous."""
    keys = list(keys)
    spec = bundled_spec()
    branches = [branch for branch in spec.branches if any(key.branch == branch for key in keys)]
    packages = {
        package: tuple(branch for branch in branches if any(k[:2] == (branch, package) for k in keys))
        for package in spec.packages
    }
    packages = {package: on for package, on in packages.items() if on}
    matrix = matrix_of(keys, {branch: spec.branches[branch].cuda for branch in branches}, packages, spec.hardware)
    pool = {"memory": 128, "disk": 400}
    document = small(
        branches={
            branch: {"cuda": spec.branches[branch].cuda, "nixpkgs": PIN, "versions": dict.fromkeys(packages, f"{n}.0")}
            for n, branch in enumerate(branches)
        },
        packages={package: {"branches": list(on)} for package, on in packages.items()},
        matrix={
            "python": list(matrix.pythons),
            "isas": {system: list(isas) for system, isas in matrix.isas.items()},
            "gpus": {axis.name: json.loads(json.dumps(entry_of(axis))) for axis in matrix.gpus},
            "exclude": [
                {"variants": one.pattern, "because": one.because}
                | ({"branches": list(one.branches)} if one.branches else {})
                for one in matrix.exclude
            ],
        },
        runners={label: pool | {"runs-on": ["self-hosted", label]} for label in ("x64", "arm64")},
    )
    judged = judge(spec_of(document))
    made = {
        Key(branch=cell.branch, package=v.package, python=cell.python, gpu=cell.gpu, isa=cell.isa)
        for cell in judged.cells
        for v in cell.variants
    }
    assert made == set(keys)
    assert judged.findings == ()


KEYS = [Key(branch=c.branch, package=v.package, python=c.python, gpu=c.gpu, isa=c.isa) for c, v in ALL]


@given(st.sets(st.integers(0, len(KEYS) - 1), max_size=12))
@settings(max_examples=40, deadline=None)
def test_the_matrix_is_exact_with_a_few_recipes_missing(missing: set[int]) -> None:
    check_matrix(key for index, key in enumerate(KEYS) if index not in missing)


@given(st.sets(st.sampled_from(KEYS), min_size=1, max_size=8), st.sampled_from([("3.13",), ("3.11", "3.12", "3.13")]))
@settings(max_examples=20, deadline=None)
def test_the_matrix_is_exact_with_only_a_few_recipes(keys: set[Key], pythons: tuple[str, ...]) -> None:
    check_matrix(sorted(key._replace(python=pythons[sum(map(ord, key.isa)) % len(pythons)]) for key in keys))


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_the_matrix_is_exact_with_whole_rows_missing(data: st.DataObject) -> None:
    rows = st.tuples(st.integers(0, 4), st.integers(0, 4), st.sampled_from(KEYS))
    lost = data.draw(st.lists(rows, min_size=1, max_size=3))
    kept = [key for key in KEYS if not any(key[a] == row[a] and key[b] == row[b] for a, b, row in lost)]
    if kept:
        check_matrix(kept)


@needs_nix
@given(st.sets(st.sampled_from([variant.name for cell, variant in ALL if cell.branch == "main"]), max_size=6))
@settings(max_examples=5, deadline=None)
def test_a_spec_with_random_recipes_missing_is_exact(
    tmp_path_factory: pytest.TempPathFactory, missing: set[str]
) -> None:
    texts = {name: text for name, text in bundled()["main"].items() if name not in missing}
    found = adopt([folder_of(tmp_path_factory.mktemp("less") / "main", texts)])
    lost = {name.replace("pytorch", "torchvision") for name in missing if name.startswith("pytorch-")}
    lost |= {name.replace("pytorch", "torchaudio") for name in missing if name.startswith("pytorch-")}
    assert names(found) == {"main": set(texts) - lost}
    assert all(finding.code == "recipe-evaluation" for finding in found.findings)


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
    cudas = {name: branch.cuda for name, branch in spec.branches.items()}
    matrix = matrix_of(keys, cudas, dict.fromkeys(spec.packages, on), spec.hardware)
    assert [" ".join([one.pattern, *one.branches]) for one in matrix.exclude] == expected


def test_branches_with_one_cuda_version_are_distinguished_by_name() -> None:
    keys = [Key("one", "p", "3.13", "sm90", "avx2"), Key("two", "p", "3.13", "sm90", "avx512")]
    keys += [
        Key(branch, "p", "3.13", gpu, isa)
        for branch in ("one", "two")
        for gpu in ("sm80", "sm86", "sm89")
        for isa in ("avx2", "avx512")
    ]
    both = {"one": "12.9", "two": "12.9"}
    matrix = matrix_of(keys, both, {"p": ("one", "two")}, tables())
    said = {axis.name: entry_of(axis) for axis in matrix.gpus}
    assert said == {"sm80": {}, "sm86": {}, "sm89": {}, "sm90": {"isas": ("avx2",), "also": {"two": ("avx512",)}}}
    assert [(one.pattern, one.branches) for one in matrix.exclude] == [("*-sm90-avx2", ("two",))]


# Inexact exclusions, and how values are written.


@needs_nix
def test_if_short_exclusions_are_not_exact_variants_are_excluded_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cover, "lines", lambda *_: ())
    name = "torchvision-python313-cpu-avx2"
    found = adopt([small_fleet(tmp_path, **{name: ""})])
    assert names(found) == {"main": SMALL_NAMES - {name}}
    assert [finding.code for finding in found.findings] == ["long-exclusions"]
    assert [(one.pattern, one.branches) for one in found.plan.spec.matrix.exclude] == [(name, ("main",))]


@needs_nix
def test_the_same_recipes_give_the_same_bytes(tmp_path: Path) -> None:
    root = small_fleet(tmp_path, **{"torchvision-python313-cpu-avx2": "", SM80: old(SM80)})
    command = [sys.executable, "-m", "ci_compiler", "adopt", str(root)]
    texts = {
        subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True).stdout
        for seed in ("1", "2", "3")
    }
    assert len(texts) == 1


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=8) | st.from_regex(r"\A[0-9a-f]{6}\Z"))
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
    assert err == f"8 of 8 recipes in {len(out.splitlines())} lines, for main\n"
    spec = tmp_path / "new/ci-matrix.yaml"
    assert ci(str(root), "-o", str(spec)) == 0
    assert spec.read_text("utf-8") == out
    assert capsys.readouterr().out == ""
    assert ci(str(root), "-o", str(spec)) == 2
    assert "in-the-way" in capsys.readouterr().err


@needs_nix
def test_something_left_out_is_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "pytorch-python313-cpu-avx2-simple"
    root = small_fleet(tmp_path, **{name: old("pytorch-python313-cpu-avx2")})
    assert ci(str(root)) == 1
    err = capsys.readouterr().err.splitlines()
    assert err[0] == (
        f"{root}/.flox/pkgs/{name}.nix: wrong-name a variant's name ends with its ISA; it builds "
        "pytorch-python313-cpu-avx2: call it that, or keep it out of the fleet"
    )
    assert err[1].startswith("8 of 9 recipes in ")


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
    assert [line.split()[1] for line in err.splitlines()] == ["recipes-missing"] * 2


@needs_nix
def test_nothing_to_adopt_is_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = folder_of(tmp_path / "main", {"a": "{ python3Packages }: python3Packages.torch", "b": "1 +"})
    assert ci(str(root), "-o", str(tmp_path / "spec.yaml")) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.split()[1] for line in err.splitlines()] == ["unknown-isa", "recipe-evaluation", "nothing-to-adopt"]
    assert not (tmp_path / "spec.yaml").exists()


@needs_nix
def test_a_folder_whose_name_is_not_a_branch_name_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = folder_of(tmp_path / "my recipes", {"a": "1"})
    assert ci(str(root)) == 2
    assert "'my recipes' is not a branch name" in capsys.readouterr().err
