"""The audit: no finding on compiled recipes, and exactly one kind of finding for each planted error."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_compiler.adoption.audit import audit
from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.errors import InputError
from ci_compiler.plan.rules import judge
from ci_compiler.recipes.render import recipes
from ci_compiler.spec.build import bundled_spec, parse_spec
from ci_compiler.spec.model import Spec
from tests.checkers import require

SPEC = """\
version: 1
owner: my-org
branches:
  main:
    cuda: "12.8"
    nixpkgs: fe5e41d7ffc0421f0913e8472ce6238ed0daf8e3
    versions: {pytorch: 2.8.0, torchvision: 0.23.0}
  cuda-13_0:
    cuda: "13.0"
    nixpkgs: 6a030d535719c5190187c4cec156f335e95e3211
    allow-broken: true
    versions: {pytorch: 2.10.0, torchvision: 0.25.0}
    pnames: {pytorch: pytorch210}
    sources:
      pytorch: {repository: pytorch/pytorch, tag: v2.10.0, hash: sha256-RKiZLHBCneMtZKRgTEuW1K7+Jpi+tx11BMXuS1jC1xQ=}
      torchvision: {repository: pytorch/vision, tag: v0.25.0, hash: sha256-oktJHcT6T4f58pUO+HSBpbyS1ISH3zDlTsXQh6PcMy4=}
    work-arounds: [magma-cuda-13, torch-cccl, torch-find-cuda-toolkit]
packages:
  pytorch: {attribute: torch, title: PyTorch}
  torchvision: {title: TorchVision, needs: [pytorch]}
matrix:
  python: ["3.13"]
  isas: {x86_64-linux: [avx2], aarch64-linux: [armv8_2]}
  gpus:
    cpu:
    sm61: {isas: [avx]}
    sm90:
    sm100:
    sm121: {branches: [cuda-13_0]}
runners:
  x86: {runs-on: [self-hosted, linux, x64], cpu: [avx2]}
  arm: {runs-on: [self-hosted, linux, arm64], cpu: [armv9]}
publish: {on-shared-machines: true}
"""

X90, V90 = "pytorch-python313-cuda12_8-sm90-avx2", "torchvision-python313-cuda12_8-sm90-avx2"
N90, AVX, CPU = (
    "pytorch-python313-cuda13_0-sm90-avx2",
    "pytorch-python313-cuda12_8-sm61-avx",
    "pytorch-python313-cpu-avx2",
)


class Folder:
    """A checkout's recipes, to plant errors in."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, name: str) -> Path:
        return self.root / f".flox/pkgs/{name}.nix"

    def edit(self, name: str, old: str, new: str) -> None:
        text = self.path(name).read_text("utf-8")
        assert old in text, (name, old)
        self.path(name).write_text(text.replace(old, new), "utf-8")

    def copy(self, name: str, to: str, *replacements: tuple[str, str]) -> None:
        self.path(to).write_text(self.path(name).read_text("utf-8"), "utf-8")
        package = name.split("-", 1)[0]
        for old, new in ((name.removeprefix(package), to.removeprefix(package)), *replacements):
            self.edit(to, old, new)

    def rename(self, name: str, to: str) -> None:
        self.copy(name, to)
        self.path(name).unlink()


def write(root: Path, spec: Spec, branch: str) -> Folder:
    for path, text in recipes(spec, judge(spec), branch).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, "utf-8")
    return Folder(root)


@pytest.fixture(scope="module", autouse=True)
def nix() -> None:
    require("nix-instantiate")


@pytest.fixture(scope="module")
def spec() -> Spec:
    return parse_spec(SPEC.encode(), shown="ci-matrix.yaml")


@pytest.mark.parametrize("branch", ["main", "cuda-12_9", "cuda-13_0"])
def test_no_false_alarm_on_the_bundled_stack(tmp_path: Path, branch: str) -> None:
    write(tmp_path, bundled_spec(), branch)
    (tmp_path / "README.md").write_text(
        "44 variants, 59-variant branches, 153 variants per package; 459 variants.\n", "utf-8"
    )
    assert [str(finding) for finding in audit(tmp_path, bundled_spec(), branch)] == []


def two_platforms(folder: Folder) -> None:
    folder.edit(X90, 'platforms = [ "x86_64-linux" ]', 'platforms = [ "x86_64-linux" "aarch64-linux" ]')


def inline_torch(folder: Folder) -> None:
    """A torchvision that makes its own torch, as the old recipes did, and requires big-parallel only for itself."""
    own = "(pkgs.python313Packages.torch.override { cudaSupport = true; gpuTargets = [ gpuArchSM ]; })"
    folder.edit(V90, f"import ./{X90}.nix {{ }}", own)


def no_document_is_counted_by_hand(folder: Folder) -> None:
    (folder.root / "README.md").write_text("# Recipes\n\nThere are 43 variants on this branch.\n", "utf-8")


def dotted(folder: Folder) -> None:
    """The dotted name from the maintainers' documents, while the import still names the existing torch."""
    name, wrong = "torchvision-python313-cpu-armv8_2", "torchvision-python313-cpu-armv8.2"
    folder.rename(name, wrong)
    folder.edit(wrong, "import ./pytorch-python313-cpu-armv8.2.nix", "import ./pytorch-python313-cpu-armv8_2.nix")


def gb200(folder: Folder) -> None:
    names = (("B100, B200, GB200", "B300, GB300"), ("10.0", "10.3"), ("sm100", "sm103"), ("sm_100", "sm_103"))
    folder.copy("pytorch-python313-cuda12_8-sm100-avx2", "pytorch-python313-cuda12_8-sm103-avx2", *names)


def spark_on_x86(folder: Folder) -> None:
    folder.copy(
        "pytorch-python313-cuda13_0-sm121-armv8_2",
        "pytorch-python313-cuda13_0-sm121-avx2",
        ("aarch64-linux", "x86_64-linux"),
    )


PLANTED: dict[str, tuple[str, str, Callable[[Folder], None]]] = {
    "torch.out is not handed on": (
        "main",
        "torch-not-propagated",
        lambda folder: folder.edit(V90, "++ [ torch.out ]", "++ [ ]"),
    ),
    "torch is handed on without its output": (
        "main",
        "torch-not-propagated",
        lambda folder: folder.edit(V90, "++ [ torch.out ]", "++ [ torch ]"),
    ),
    "1 file name and pname differ": (
        "main",
        "pname-differs",
        lambda f: f.edit(X90, f'pname = "{X90}"', 'pname = "torch"'),
    ),
    "1 on cuda-13_0, whose pname begins otherwise": (
        "cuda-13_0",
        "pname-differs",
        lambda f: f.edit(N90, "pytorch210-", "pytorch-"),
    ),
    "2 a dot in a name": ("main", "dotted-name", dotted),
    "3 sm_86 in gpuTargets": ("main", "gpu-target-notation", lambda f: f.edit(X90, '"9.0"', '"sm_90"')),
    "4 sm103 with CUDA 12.8": ("main", "gpu-needs-newer-cuda", gb200),
    "5 sm121 with an x86 ISA": ("cuda-13_0", "gpu-host", spark_on_x86),
    "6 the old pin": (
        "cuda-13_0",
        "wrong-pin",
        lambda f: f.edit(N90, "6a030d535719c5190187c4cec156f335e95e3211", "fe5e41d7ffc0421f0913e8472ce6238ed0daf8e3"),
    ),
    "7 an overlay is missing": (
        "cuda-13_0",
        "overlay-missing",
        lambda f: f.edit(N90, "(final: prev: { cudaPackages = final.cudaPackages_13; })", ""),
    ),
    "8 -mfma in an AVX-only build": ("main", "flags-exceed-isa", lambda f: f.edit(AVX, '"-mno-fma"', '"-mfma"')),
    "8 an AVX build without AVX": ("main", "wrong-cpu-flags", lambda f: f.edit(AVX, '"-mavx" ', "")),
    "9 no big-parallel on torch": (
        "main",
        "big-parallel-missing",
        lambda f: f.edit(X90, 'requiredSystemFeatures = [ "big-parallel" ];', ""),
    ),
    "9 no big-parallel on what uses it": (
        "main",
        "big-parallel-missing",
        lambda f: f.edit(V90, 'requiredSystemFeatures = [ "big-parallel" ];', ""),
    ),
    "10 both systems": ("main", "wrong-platforms", two_platforms),
    "11 python3Packages.pytorch": (
        "main",
        "pytorch-alias",
        lambda f: f.edit(X90, "python313Packages.torch.override", "python313Packages.pytorch.override"),
    ),
    "12 a one-off": ("main", "unknown-recipe", lambda f: f.copy(X90, f"{X90}-magma")),
    "13 CUDA in a CPU recipe": (
        "main",
        "cuda-in-cpu-recipe",
        lambda f: f.edit(CPU, "cudaSupport = false", "cudaSupport = true"),
    ),
    "14 a comment about another GPU": (
        "main",
        "text-names-another-gpu",
        lambda f: f.edit(X90, "  preConfigure", "  # the RTX 4090 needs this\n  preConfigure"),
    ),
    "14 a description of another GPU": (
        "main",
        "text-names-another-gpu",
        lambda f: f.edit(X90, "H100, H200, H20, GH200 (", "H100, L40S ("),
    ),
    "15 an edit that was missed": (
        "main",
        "differs-from-spec",
        lambda f: f.edit(X90, "MAX_JOBS=32", "MAX_JOBS=16"),
    ),
    "15 a variable that only one has": (
        "main",
        "differs-from-spec",
        lambda f: f.edit(V90, "export MAX_JOBS=32", "export MAX_JOBS=32\n    export USE_ROCM=0"),
    ),
    "16 a count by hand": ("main", "wrong-count", no_document_is_counted_by_hand),
    "17 an old CUDA version in the name": ("cuda-13_0", "cuda-in-name", lambda f: f.copy(N90, X90)),
    "a recipe is missing": ("main", "missing-recipe", lambda f: f.path(V90).unlink()),
    "another GPU": ("main", "wrong-gpu", lambda f: f.edit(X90, '"9.0"', '"8.9"')),
    "CUDA off": (
        "main",
        "cuda-off",
        lambda f: f.edit(X90, "cudaSupport = true;\n  gpuTargets", "cudaSupport = false;\n  gpuTargets"),
    ),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_each_planted_error_is_found_and_nothing_else(tmp_path: Path, spec: Spec, planted: str) -> None:
    branch, code, plant = PLANTED[planted]
    plant(write(tmp_path, spec, branch))
    found = audit(tmp_path, spec, branch)
    assert {finding.code for finding in found} == {code}, [str(finding) for finding in found]
    if code != "missing-recipe":
        assert all(finding.place.line > 0 for finding in found)


def test_a_recipes_own_torch_is_checked_too(tmp_path: Path, spec: Spec) -> None:
    inline_torch(write(tmp_path, spec, "main"))
    codes = {finding.code for finding in audit(tmp_path, spec, "main")}
    assert codes == {"another-torch", "big-parallel-missing"}


def test_a_failed_evaluation_is_a_finding_and_the_rest_is_audited(tmp_path: Path, spec: Spec) -> None:
    folder = write(tmp_path, spec, "main")
    folder.path(CPU).write_text("{ ... }: {\n  broken", "utf-8")
    folder.edit(V90, "MAX_JOBS=32", "MAX_JOBS=16")
    found = audit(tmp_path, spec, "main")
    assert {"differs-from-spec", "recipe-evaluation"} <= {finding.code for finding in found}
    assert any(
        finding.place.file.endswith(f"{CPU}.nix") and "unexpected end of file" in finding.message for finding in found
    )


def test_wrong_folders_are_wrong_input(tmp_path: Path, spec: Spec) -> None:
    with pytest.raises(InputError, match="recipes-missing"):
        audit(tmp_path, spec, "main")
    with pytest.raises(InputError, match="recipes-missing"):
        audit(tmp_path / "nowhere", spec, "main")


def test_the_command_prints_one_line_per_finding_or_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC, "utf-8")
    folder = write(tmp_path, parse_spec(SPEC.encode(), shown="spec.yaml"), "main")
    options = ["--branch", "main", "--spec", str(tmp_path / "spec.yaml"), "--root", str(tmp_path)]
    assert run(PROGRAM, ["audit", str(tmp_path), *options]) == 0
    folder.edit(X90, '"9.0"', '"sm_90"')
    assert run(PROGRAM, ["audit", str(tmp_path), *options]) == 1
    out, err = capsys.readouterr()
    line = f"{folder.path(X90)}:33:3: gpu-target-notation gpuTargets contains 'sm_90'; torch takes '9.0'"
    assert (out, err.splitlines()) == ("", [line, "1 finding"])
    assert run(PROGRAM, ["audit", str(tmp_path), *options, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)[0]["code"] == "gpu-target-notation"
    assert run(PROGRAM, ["audit", str(tmp_path), *options, "--branch", "mian"]) == 2
