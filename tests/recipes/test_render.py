"""Compiled recipes: the maintainers' own verification, Nix's parser and evaluator, hostile values."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.adoption.evaluator import Evaluation, evaluate, find_recipes, parse
from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.files.drift import FLOX, THIN
from ci_compiler.hardware import CPU
from ci_compiler.plan.rules import judge
from ci_compiler.recipes.nix_text import comment, lines, string, words
from ci_compiler.recipes.render import NO_TEMPLATES, pname, recipe, recipes, territories
from ci_compiler.spec.build import bundled_spec
from ci_compiler.spec.model import Spec
from ci_compiler.variant import RECIPES, SHARED
from tests.adoption.test_audit import SPEC
from tests.checkers import require
from tests.loops import each
from tests.processes import MINUTES
from tests.recipes.subjects import TORCH, cell_of, spec_for
from tests.specs import small, spec_of

NOT_DEFAULT = ("sm61", "sm110")
"""The GPUs of the bundled stack that nixpkgs does not build MAGMA and NCCL for unasked."""

BRANCHES = ["main", "cuda-12_9", "cuda-13_0"]


STACK: dict[str, Any] = {"pytorch": TORCH, "torchvision": {"needs": ["pytorch"]}}
CPU_CELL, GPU_CELL = "python313-cpu-avx2", "python313-cuda12_8-sm90-avx2"
LIST = f"{RECIPES}/.gitattributes"


def written(
    packages: dict[str, Any], templates: Mapping[str, str] = NO_TEMPLATES, *, whole: bool = True
) -> dict[str, str]:
    """The recipes of `packages` by the names of their files, and what else is written by its path."""
    spec = spec_for(packages)
    files = recipes(spec, judge(spec), "main", templates, self_contained=whole)
    return {path.removeprefix(f"{RECIPES}/") if path.endswith(".nix") else path: text for path, text in files.items()}


def test_each_variant_has_a_recipe_and_shares_what_is_not_self_contained() -> None:
    names = [f"{package}-{cell}.nix" for cell in (CPU_CELL, GPU_CELL) for package in STACK]
    whole, thin_ones = written(STACK), written(STACK, whole=False)
    assert list(whole) == [LIST, *names]
    shared = [f"{SHARED}/{package}-python313-{end}.nix" for end in ("cpu", "cuda12_8") for package in STACK]
    assert list(thin_ones) == [
        LIST,
        *names,
        *shared,
        *(f"{SHARED}/shell/{one}.nix" for one in ("arrived", "built-for")),
    ]
    for name in names:
        assert "import ../ci-compiler/" in thin_ones[name]
        assert "import ../ci-compiler/" not in whole[name]
    spec = spec_for(STACK | {"torchvision": {"needs": ["pytorch"], "self-contained": True}})
    mixed = recipes(spec, judge(spec), "main")
    assert [path for path in mixed if path.startswith(f"{SHARED}/torchvision")] == []
    assert mixed[f"{RECIPES}/torchvision-{CPU_CELL}.nix"] == whole[f"torchvision-{CPU_CELL}.nix"]


NOTE = "# Compiled by ci-compile from ci-matrix.yaml: GitHub folds these in its view of changes.\n"
FOLDED = "{} linguist-generated=true\n"


@pytest.mark.parametrize(
    ("kinds", "folded", "own"),
    [
        ("compiled", ["*.nix"], []),
        ({"*-cpu-*": "own"}, [f"torch-{GPU_CELL}.nix"], [f"torch-{CPU_CELL}"]),
        ("own", [], [f"torch-{CPU_CELL}", f"torch-{GPU_CELL}"]),
    ],
)
def test_recipes_of_the_repositorys_own_are_neither_written_nor_folded(
    kinds: Any, folded: list[str], own: list[str]
) -> None:
    packages = {"torch": {**TORCH, "recipes": kinds}}
    files = written(packages)
    assert files.get(LIST, "") == (NOTE + "".join(map(FOLDED.format, folded)) if folded else "")
    assert not {f"{name}.nix" for name in own} & files.keys()
    spec = spec_for(packages)
    assert territories(spec, judge(spec), "main") == (
        FLOX._replace(kept=frozenset(f"{RECIPES}/{name}.nix" for name in own)),
        THIN,
    )
    assert territories(spec, judge(spec), "other")[0].kept == frozenset()
    assert recipes(spec, judge(spec), "other") == {}


def test_a_template_is_filled_and_a_backend_without_recipes_has_none() -> None:
    packages = {"torch": {"recipes": {"*-cpu-*": "template"}, "template": "nix/t.nix"}}
    files = written(packages, {"nix/t.nix": '"@name@"'}, whole=False)
    assert files[f"torch-{CPU_CELL}.nix"].endswith(f'\n"torch-{CPU_CELL}"\n')
    assert "import ../ci-compiler" in files[f"torch-{GPU_CELL}.nix"]
    command = {
        "build": "ci/build.sh",
        "files": ["dist/*.whl"],
        "install": "pip install dist/*.whl",
        "publish": "ci/p.sh",
    }
    branches = {"main": {"cuda": "12.8", "versions": {"wheel": "1.0"}}}
    spec = spec_for({"wheel": {"command": command}}, backend="command", branches=branches)
    assert recipes(spec, judge(spec), "main") == {}


def test_the_recipe_of_one_variant_is_self_contained() -> None:
    spec = spec_for(STACK, main={"pnames": {"pytorch": "torch"}})
    cell = cell_of(spec, GPU_CELL)
    expected = recipes(spec, judge(spec), "main", self_contained=True)
    for variant in cell.variants:
        assert recipe(spec, cell, variant) == expected[f"{RECIPES}/{variant.name}.nix"]
    assert [pname(spec, cell, variant) for variant in cell.variants] == [f"torch-{GPU_CELL}", f"torchvision-{GPU_CELL}"]
    seeded = recipe(spec, cell, cell.variants[0], seeded_by=f"pytorch-{CPU_CELL}")
    assert f"import ./pytorch-{CPU_CELL}.nix {{ forSeed = true; }}" in seeded


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A checkout of each branch of the bundled stack, with its recipes."""
    require("nix-instantiate")
    spec = bundled_spec()
    judged = judge(spec)
    roots = {}
    for branch in BRANCHES:
        roots[branch] = tmp_path_factory.mktemp(branch)
        for path, text in recipes(spec, judged, branch).items():
            (roots[branch] / path).parent.mkdir(parents=True, exist_ok=True)
            (roots[branch] / path).write_text(text, "utf-8")
    return roots


@pytest.fixture(scope="module")
def evaluated(folders: dict[str, Path]) -> dict[str, dict[str, Evaluation]]:
    """The evaluations of the bundled stack: branch -> name -> evaluation."""
    found = {}
    for branch, root in folders.items():
        evaluations, findings = evaluate(root, find_recipes(root), timeout=MINUTES)
        assert [str(finding) for finding in findings] == []
        found[branch] = {evaluation.path.stem: evaluation for evaluation in evaluations}
    return found


def test_all_459_recipes_parse(folders: dict[str, Path]) -> None:
    paths = [path for root in folders.values() for path in find_recipes(root)]
    assert len(paths) == 459
    assert parse(paths, timeout=MINUTES) == ()


def test_each_recipe_evaluates_to_what_the_matrix_says(evaluated: dict[str, dict[str, Evaluation]]) -> None:
    spec = bundled_spec()
    for cell in each(judge(spec).cells):
        branch, isa = spec.branches[cell.branch], spec.hardware.isa(cell.isa)
        for variant in each(cell.variants):
            one = evaluated[cell.branch][variant.name]
            package = spec.packages[variant.package]
            prefix = branch.pnames.get(package.name, package.name)
            assert one.pname == prefix + variant.name.removeprefix(package.name)
            assert (one.package, one.python, one.pin) == (package.attribute, cell.python, branch.nixpkgs)
            assert (one.system, one.platforms) == (cell.system, (cell.system,))
            assert set(isa.flags) <= set(one.flags["CXXFLAGS"])
            assert set(isa.flags) <= set(one.flags["CFLAGS"])
            assert one.required_system_features == ("big-parallel",)
            assert one.ninja_flags == ()
            assert one.max_jobs == "32"
            assert one.passthru["cpuISA"] == cell.isa
            assert "allowBroken" not in one.config
            assert one.config["allowUnfree"] is True
            assert ("Without cuDNN" in one.long_description) == (cell.target == "sm61")
            assert ("Without FBGEMM, oneDNN and NNPACK" in one.long_description) == (cell.isa == "avx")
            if variant.package in branch.sources:
                assert one.version == branch.versions[variant.package]
            if cell.target == CPU:
                assert not one.toolkit_support
                assert "cudaSupport" not in one.config
                assert "cudaPackages" not in one.overlaid
                assert "NVCC_APPEND_FLAGS" not in one.exports
                assert "cudaCapabilities" not in one.config
            else:
                check_gpu(spec, one, cell.target, cell.toolkit, isa.flags)


def check_gpu(spec: Spec, one: Evaluation, gpu: str, cuda: str, flags: Sequence[str]) -> None:
    capability = str(spec.hardware.gpu(gpu).capability)
    assert one.toolkit_support
    assert one.config["cudaSupport"] is True
    assert one.overlaid["cudaPackages"].toolkit == spec.hardware.toolkit(cuda).attribute
    assert one.toolkit_version == cuda
    assert one.passthru["gpuArch"] == gpu
    assert one.config.get("cudaCapabilities", []) == ([capability] if gpu in NOT_DEFAULT else [])
    assert one.exports["NVCC_APPEND_FLAGS"].split()[1:] == [f"-Xcompiler={flag}" for flag in flags]
    if one.package == "torch":
        assert one.gpu_targets == (capability,)
    else:
        assert one.exports["TORCH_CUDA_ARCH_LIST"] == capability
        assert one.exports["FORCE_CUDA"] == "1"


def test_all_packages_of_a_cell_use_one_torch_derivation(evaluated: dict[str, dict[str, Evaluation]]) -> None:
    count = 0
    for names in evaluated.values():
        for name, one in names.items():
            if one.package in {"torchvision", "torchaudio"}:
                torch = names[name.replace(one.package, "pytorch", 1)]
                assert one.torch is not None
                assert one.torch.drv_path == torch.drv_path
                assert one.propagated_torch == (torch.drv_path,) * 2
                assert one.propagated_outputs == ("dev", "out")
                count += 1
    assert count == 306
    derivations = {one.drv_path for names in evaluated.values() for one in names.values()}
    assert len(derivations) == 459


def test_the_maintainers_own_verification_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The "Verification" section of the maintainers' plan for PyTorch on cuda-13_0, updated to 59 recipes.

    It reads the text of each recipe, so they are written self-contained.
    """
    monkeypatch.chdir(tmp_path)
    assert run(PROGRAM, ["recipes", "--bundled", "--branch", "cuda-13_0", "-o", str(tmp_path / "pkgs")]) == 0
    pkgs = tmp_path / "pkgs"

    def sh(script: str) -> str:
        done = subprocess.run(["bash", "-c", script], cwd=pkgs, capture_output=True, text=True, check=False)
        assert done.stderr == ""
        return done.stdout

    assert sh("ls pytorch-python313-cuda13_0-*.nix | wc -l").strip() == "52"
    assert sh("ls pytorch-python313-cpu-*.nix | wc -l").strip() == "7"
    for ending in ("-magma", "-nightly", "-avx"):
        assert not list(pkgs.glob(f"pytorch-python313-cuda13_0-*{ending}.nix"))
    pattern = r'cudaPackages_13\|cuda-13.0-clockrate-fix.patch\|version = "2.10.0"'
    counts = sh(f"for f in pytorch-python313-cuda13_0-*.nix; do grep -c '{pattern}' $f; done").split()
    assert counts == ["3"] * 52
    cpu = sh(
        "for f in pytorch-python313-cpu-*.nix; do"
        """ echo $(grep -c 'version = "2.10.0"' $f) $(grep -c 'cudaPackages_13' $f); done"""
    )
    assert cpu.splitlines() == ["1 0"] * 7
    assert sh("grep -l 'fe5e41d7ffc0421f0913e8472ce6238ed0daf8e3' pytorch-python313-*.nix") == ""
    for sm, capability, variants in (("sm90", "9.0", 6), ("sm86", "8.6", 6), ("sm121", "12.1", 2)):
        found = sh(f"grep -l 'gpuArchSM = \"{capability}\"' pytorch-python313-cuda13_0-{sm}-*.nix")
        assert len(found.splitlines()) == variants


@pytest.mark.parametrize(
    ("branch", "name", "exports"),
    [
        ("main", "pytorch-python313-cuda12_8-sm61-avx2", {"USE_CUDNN": "0"}),
        (
            "main",
            "pytorch-python313-cuda12_8-sm61-avx",
            {"USE_CUDNN": "0", "USE_FBGEMM": "0", "USE_MKLDNN": "0", "USE_MKLDNN_CBLAS": "0", "USE_NNPACK": "0"},
        ),
        ("cuda-13_0", "pytorch-python313-cpu-avx", {"USE_FBGEMM": "0", "USE_MKLDNN": "0", "USE_NNPACK": "0"}),
        (
            "cuda-13_0",
            "pytorch-python313-cuda13_0-sm75-avx2",
            {"PYTORCH_BUILD_VERSION": "2.10.0", "CMAKE_CUDA_FLAGS": "-I/build/cccl-compat"},
        ),
    ],
)
def test_old_hardware_gets_its_build_switches(
    evaluated: dict[str, dict[str, Evaluation]], branch: str, name: str, exports: dict[str, str]
) -> None:
    one = evaluated[branch][name]
    assert exports.items() <= one.exports.items()
    assert ("USE_CUDNN" in one.exports) == ("USE_CUDNN" in exports)
    assert ("CXX_${set}_FOUND" in str(one.attributes.get("postPatch"))) == name.endswith("-avx")
    assert one.cmake_flags == ()  # torch's build does not read them
    gpu = name.split("-")[2 if "cpu" in name else 3]
    assert one.passthru.get("cudaCapabilities", []) == {"sm61": ["6.1"], "sm75": ["7.5"]}.get(gpu, [])


def test_a_torch_from_another_repository_is_the_derivation_that_is_built_there(tmp_path: Path) -> None:
    """A torchvision repository alone: its recipes import torch from the pinned archive, and nothing builds torch."""
    require("nix-instantiate")
    rev = "0123456789abcdef0123456789abcdef01234567"
    both = spec_of(small())
    elsewhere = {"name": "my-org/build-pytorch", "rev": {"main": rev}, "hash": {"main": f"sha256-{'A' * 43}="}}
    packages = {"pytorch": {"attribute": "torch", "repository": elsewhere}, "torchvision": {"needs": ["pytorch"]}}
    alone = spec_of(small(packages=packages))
    for root, spec in ((tmp_path / "torch", both), (tmp_path / "vision", alone)):
        for path, text in recipes(spec, judge(spec), "main").items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, "utf-8")
    assert {path.name.split("-")[0] for path in find_recipes(tmp_path / "vision")} == {"torchvision"}
    archive = f"https://github.com/my-org/build-pytorch/archive/{rev}.tar.gz"
    torch, _ = evaluate(tmp_path / "torch", find_recipes(tmp_path / "torch"))
    vision, findings = evaluate(
        tmp_path / "vision", find_recipes(tmp_path / "vision"), tarballs={archive: tmp_path / "torch"}
    )
    assert findings == ()
    drv = {one.path.stem: one.drv_path for one in torch}
    assert len(vision) == 4
    for one in vision:
        assert one.torch is not None
        assert one.torch.drv_path == drv[one.path.stem.replace("torchvision", "pytorch")]


def test_hostile_titles_are_only_text(tmp_path: Path) -> None:
    """Nix, shell and comment syntax in a title stays text."""
    require("nix-instantiate")
    title = """a"b''c${builtins.abort "x"}''${d}\\n`e`$(f) */ # g"""
    packages = {"pytorch": {"attribute": "torch", "title": title}}
    versions = {"main": {"cuda": "13.0", "nixpkgs": "6" * 40, "versions": {"pytorch": "2.10.0"}}}
    versions["main"]["nixpkgs"] = "6a030d535719c5190187c4cec156f335e95e3211"
    source = {"repository": "pytorch/pytorch", "tag": "v2.10.0", "hash": f"sha256-{'A' * 43}="}
    branches = {"main": versions["main"] | {"sources": {"pytorch": source}}}
    spec = spec_of(small(packages=packages, branches=branches))
    cell = judge(spec).cells[-1]
    path = tmp_path / "pytorch.nix"
    path.write_text(recipe(spec, cell, cell.variants[0]), "utf-8")
    (one,), findings = evaluate(tmp_path, [path])
    assert findings == ()
    assert title in one.description
    assert one.long_description.startswith(f"{title} 2.10.0 for Python 3.13")
    assert one.exports["MAX_JOBS"] == "32"


@pytest.mark.parametrize("text", ["", "a", '"', "\\", "${x}", "a\nb\t\r", "''", "$${x}", "\\${", "é\u202e"])
def test_nix_reads_strings_as_they_were(text: str, tmp_path: Path) -> None:
    nix = require("nix-instantiate")
    (tmp_path / "x.nix").write_text(f"{{ a = {string(text)}; b = {words([text])}; }}", "utf-8")
    command = [nix, "--eval", "--strict", "--json", "--store", "dummy://", str(tmp_path / "x.nix")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert json.loads(said) == {"a": text, "b": [text]}


def test_comments_stay_on_one_line() -> None:
    assert comment("a\n b") == "# a b"
    assert lines(["a\n  b", "", "c"]) == "''\n  a\n    b\n\n  c\n''"


def test_the_command_writes_checks_and_repairs_recipes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC, "utf-8")
    options = ["--root", str(tmp_path), "--spec", str(tmp_path / "spec.yaml")]
    assert run(PROGRAM, ["recipes", *options]) == 2
    assert "[unknown-branch]" in capsys.readouterr().err
    assert run(PROGRAM, ["recipes", *options, "--branch", "main"]) == 0
    assert run(PROGRAM, ["recipes", *options, "--branch", "main", "--check"]) == 0
    assert capsys.readouterr().out.startswith("10 recipes of main and their .gitattributes from spec.yaml: 19 added")
    mine = tmp_path / ".flox/pkgs/mine.nix"
    mine.write_text("{ }: { }\n", "utf-8")
    (tmp_path / ".flox/pkgs/pytorch-python313-cpu-avx2.nix").unlink()
    assert run(PROGRAM, ["recipes", *options, "--branch", "main", "--check"]) == 1
    assert run(PROGRAM, ["recipes", *options, "--branch", "cuda-13_0"]) == 0
    names = {path.name for path in (tmp_path / ".flox/pkgs").glob("*.nix")}
    assert "mine.nix" in names
    assert not {name for name in names if "cuda12_8" in name}
    assert run(PROGRAM, ["recipes", *options, "--branch", "main", "-o", str(tmp_path / "out")]) == 0
    assert len(list((tmp_path / "out").glob("*.nix"))) == 10
    assert run(PROGRAM, ["recipes", *options, "--branch", "main", "-o", "/"]) == 2
    assert "--output: / cannot be replaced in one step" in capsys.readouterr().err


def test_recipes_are_written_to_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC, "utf-8")
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    assert run(PROGRAM, ["recipes", "--spec", str(tmp_path / "spec.yaml"), "--branch", "main", "-o", "."]) == 0
    assert len(list((tmp_path / "out").glob("*.nix"))) == 10


def test_ci_compile_updates_the_recipes_of_the_current_branch(tmp_path: Path) -> None:
    git = require("git")
    (tmp_path / ".github").mkdir()
    (tmp_path / ".github/ci-matrix.yaml").write_text(SPEC, "utf-8")
    subprocess.run([git, "init", "-q", "-b", "main", str(tmp_path)], check=True)
    root = ["--root", str(tmp_path)]
    assert run(PROGRAM, root) == 0
    assert not (tmp_path / ".flox").exists()
    assert run(PROGRAM, ["recipes", *root]) == 0
    recipe_file = tmp_path / ".flox/pkgs/pytorch-python313-cpu-avx2.nix"
    recipe_file.write_text(recipe_file.read_text("utf-8") + "\n", "utf-8")
    assert run(PROGRAM, [*root, "--check"]) == 1
    assert run(PROGRAM, root) == 0
    assert run(PROGRAM, [*root, "--check"]) == 0


@pytest.mark.parametrize("words", [(), ("recipes",)])
def test_an_own_recipe_that_is_deleted_fails_the_check(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether the recipe is a file or a folder. A recipe of another branch is not looked for."""
    own = {"pytorch": {"attribute": "torch", "recipes": "own"}}
    main = {"cuda": "12.8"}
    spec = small(branches={"main": main, "next": {**main, "publish": False}}, packages=own)
    names = sorted({variant.name for cell in judge(spec_of(spec)).cells for variant in cell.variants})
    paths = [tmp_path / RECIPES / (f"{one}/default.nix" if "avx512" in one else f"{one}.nix") for one in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{ pkgs }: pkgs.hello\n", "utf-8")
    (tmp_path / ".github").mkdir()
    (tmp_path / ".github/ci-matrix.yaml").write_text(json.dumps(spec), "utf-8")
    root = ["--root", str(tmp_path), "--branch", "main"]
    assert run(PROGRAM, root) == 0
    assert run(PROGRAM, [*words, *root, "--check"]) == 0
    for name, path in zip(names, paths, strict=True):
        path.rename(tmp_path / "moved")
        capsys.readouterr()
        assert run(PROGRAM, [*words, *root, "--check"]) == 1
        said = [line for line in capsys.readouterr().err.splitlines() if "[missing-recipe]" in line]
        (line,) = said
        assert line.startswith(f"error: {RECIPES}/{name}.nix: is missing: the recipe of {name} is the repository's own")
        (tmp_path / "moved").rename(path)
