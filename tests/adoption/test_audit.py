"""The audit: no finding on compiled recipes, and exactly one kind of finding for each planted error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ci_compiler.adoption.audit import Audited, audit
from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.errors import InputError
from ci_compiler.plan.rules import judge
from ci_compiler.recipes.render import recipes
from ci_compiler.spec.build import bundled_spec, parse_spec
from ci_compiler.spec.model import Spec
from tests.checkers import require
from tests.output import checked

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
    sm90: {isas: [avx2]}
    sm100: {isas: [avx2]}
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
    for path, text in recipes(spec, judge(spec), branch, self_contained=True).items():
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
    found = audit(tmp_path, bundled_spec(), branch)
    assert [str(cause.line) for cause in (*found.defects, *found.differences)] == []


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


FEATURES = 'requiredSystemFeatures = lib.unique ((old.requiredSystemFeatures or [ ]) ++ [ "big-parallel" ]);'
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
        lambda f: f.edit(X90, f'pname = "{X90}"', f'pname = "{X90.replace("sm90", "sm80")}"'),
    ),
    "1 a pname with an ending of its own": (
        "cuda-13_0",
        "pname-differs",
        lambda f: f.edit(N90, "-sm90-avx2", "-sm90-avx2-no-nnpack"),
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
        "cuda-in-name",
        lambda f: f.edit(N90, "(final: prev: { cudaPackages = final.cudaPackages_13; })", ""),
    ),
    "8 -mfma in an AVX-only build": ("main", "flags-exceed-isa", lambda f: f.edit(AVX, '"-mno-fma"', '"-mfma"')),
    "8 an AVX build without AVX": ("main", "wrong-cpu-flags", lambda f: f.edit(AVX, '"-mavx" ', "")),
    "9 no big-parallel on torch": (
        "main",
        "big-parallel-missing",
        lambda f: f.edit(X90, FEATURES, 'requiredSystemFeatures = [ "kvm" ];'),
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
        lambda f: f.edit(X90, "  preConfigure", "  # H100 and RTX 4090 need this\n  preConfigure"),
    ),
    "14 a title about another GPU": (
        "main",
        "text-names-another-gpu",
        lambda f: f.path(X90).write_text(f"# PyTorch for the L40S\n{f.path(X90).read_text('utf-8')}", "utf-8"),
    ),
    "14 a description of another GPU": (
        "main",
        "text-names-another-gpu",
        lambda f: f.edit(X90, "H100, H200, H20, GH200 (", "H100, L40S ("),
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
    audited = audit(tmp_path, spec, branch)
    found = audited.notes if planted.startswith("14 ") else audited.defects
    assert {cause.code for cause in (*audited.defects, *audited.notes)} == {code}, [str(cause.line) for cause in found]
    if code != "missing-recipe":
        assert all(finding.place.line > 0 for cause in found for finding in cause.findings)


def test_a_text_about_another_gpu_is_a_note_that_quotes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC, "utf-8")
    folder = write(tmp_path, parse_spec(SPEC.encode(), shown="spec.yaml"), "main")
    folder.edit(X90, "  preConfigure", "  # H100 and RTX 4090 need this\n  preConfigure")
    options = ["--branch", "main", "--spec", str(tmp_path / "spec.yaml"), "--root", str(tmp_path)]
    assert run(PROGRAM, ["audit", str(tmp_path), *options]) == 0
    line, tally = capsys.readouterr().err.splitlines()
    said = "its text (a comment) says 'H100 and RTX 4090 need this' (sm89), but the recipe builds for sm90"
    assert (line.split(":")[0], line.partition(" its ")[2]) == ("note", f"{said[4:]} [text-names-another-gpu]")
    assert tally == "1 note in 1 file"
    assert run(PROGRAM, ["audit", str(tmp_path), *options, "--json"]) == 0
    shown = checked("ci-compile audit", capsys.readouterr().out)
    assert (shown["defects"], [one["code"] for one in shown["notes"]]) == ([], ["text-names-another-gpu"])


ALSO: dict[str, tuple[str, str]] = {
    "a switch that is set in another way": ("export MAX_JOBS=32", "export MAX_JOBS=16"),
    "a switch that is missing": ("export MAX_JOBS=32", ""),
    "a phase of its own": ("preConfigure =", 'configurePhase = "rm setup.cfg";\n  preConfigure ='),
    "a pname that is nobody's": (f'pname = "{X90}"', 'pname = "torch"'),
}
"""Edits of a torch recipe that are no defect, and that the compiler would not write."""


@pytest.mark.parametrize("edit", ALSO)
def test_what_the_compiler_would_write_in_another_way_is_a_difference(tmp_path: Path, spec: Spec, edit: str) -> None:
    folder = write(tmp_path, spec, "main")
    folder.edit(X90, *ALSO[edit])
    found = audit(tmp_path, spec, "main")
    assert found.defects == ()
    assert {cause.code for cause in found.differences} == {"recipe-differs"}
    assert str(folder.path(X90)) in {file for cause in found.differences for file in cause.files}


def test_own_recipes_are_compared_on_demand(tmp_path: Path, spec: Spec) -> None:
    folder = write(tmp_path, spec, "main")
    folder.edit(X90, "export MAX_JOBS=32", "export MAX_JOBS=16")
    own = SPEC.replace("attribute: torch,", "attribute: torch, recipes: own,").replace("needs:", "recipes: own, needs:")
    spec = parse_spec(own.encode(), shown="ci-matrix.yaml")
    assert audit(tmp_path, spec, "main") == Audited(defects=(), differences=())
    found = audit(tmp_path, spec, "main", compares_own=True)
    assert found.defects == ()
    assert [cause.files for cause in found.differences if " of pytorch differs" in cause.message] == [
        (str(folder.path(X90)),)
    ]


ALIKE: dict[str, tuple[str, str]] = {
    "flags in another order": ('"-mavx2" "-mfma"', '"-mfma" "-mavx2"'),
    "the GPU in another notation": ('gpuArch = "sm90";', "gpuArch = gpuArchSM;"),
    "the default Python, which is the same": ("python313Packages.torch", "python3Packages.torch"),
    "a further export": ("export MAX_JOBS=32", "export MAX_JOBS=32\n    export BLAS=OpenBLAS\n    echo Building"),
    "further facts about it": ('cpuISA = "avx2";', 'cpuISA = "avx2"; note = "mine";'),
    "another form of overlay": (
        "overlays = [",
        "overlays = [ (final: prev: { python3Packages = prev.python3Packages.override { overrides = _: _: { }; }; })",
    ),
    "a description of its own": ('description = "PyTorch for', 'description = "A PyTorch for'),
    "big-parallel as nixpkgs has it": (FEATURES, ""),
}
"""Edits of a torch recipe that leave its meaning as it is."""


@pytest.mark.parametrize("edit", ALIKE)
def test_equal_meaning_is_no_difference(tmp_path: Path, spec: Spec, edit: str) -> None:
    folder = write(tmp_path, spec, "main")
    folder.edit(X90, *ALIKE[edit])
    found = audit(tmp_path, spec, "main")
    about = [one for cause in (*found.defects, *found.differences) for one in cause.findings]
    assert [str(one) for one in about if one.place.file == str(folder.path(X90))] == []


def test_one_cause_in_many_files_is_one_defect_with_its_count(tmp_path: Path, spec: Spec) -> None:
    folder = write(tmp_path, spec, "main")
    names = [path.stem for path in sorted(folder.path("x").parent.glob("torchvision-*.nix"))]
    for name in names:
        folder.edit(name, "++ [ torch.out ]", "++ [ ]")
    (cause,) = audit(tmp_path, spec, "main").defects
    assert [Path(file).stem for file in cause.files] == names
    assert cause.line.message.endswith(f"(also in {folder.path(names[1])} and {len(names) - 2} more files)")


def test_a_torch_inside_a_recipe_is_checked_too(tmp_path: Path, spec: Spec) -> None:
    inline_torch(write(tmp_path, spec, "main"))
    assert {cause.code for cause in audit(tmp_path, spec, "main").defects} == {"another-torch"}


def test_the_notation_of_a_torch_inside_a_recipe_is_checked(tmp_path: Path, spec: Spec) -> None:
    folder = write(tmp_path, spec, "main")
    inline_torch(folder)
    folder.edit(V90, "gpuTargets = [ gpuArchSM ]", 'gpuTargets = [ "sm_90" ]')
    found = {cause.code: cause for cause in audit(tmp_path, spec, "main").defects}
    assert found["gpu-target-notation"].files == (str(folder.path(V90)),)


def test_a_failed_evaluation_is_a_defect_and_the_rest_is_audited(tmp_path: Path, spec: Spec) -> None:
    folder = write(tmp_path, spec, "main")
    folder.path(CPU).write_text("{ ... }: {\n  broken", "utf-8")
    folder.edit(X90, '"9.0"', '"8.9"')
    found = {cause.code: cause.line for cause in audit(tmp_path, spec, "main").defects}
    assert "wrong-gpu" in found
    assert found["recipe-evaluation"].place.file == str(folder.path(CPU))
    assert "unexpected end of file" in found["recipe-evaluation"].message


@pytest.mark.parametrize("needs", ["", ", needs: [engine]"])
def test_a_recipe_that_imports_another_one_needs_it_by_the_spec_too(tmp_path: Path, needs: str) -> None:
    text = f"""\
version: 1
owner: my-org
branches:
  main: {{cuda: "12.8", nixpkgs: {"a" * 40}, versions: {{engine: "1.0", vision: "1.0"}}}}
packages:
  engine: {{attribute: engine, recipes: own}}
  vision: {{attribute: vision, recipes: own{needs}}}
matrix:
  python: ["3.13"]
  isas: {{x86_64-linux: [avx2]}}
  gpus: {{cpu: {{}}}}
runners:
  builder: {{runs-on: [self-hosted, linux, x64], cpu: [avx2]}}
publish: {{on-shared-machines: true}}
"""
    folder = Folder(tmp_path)
    engine, vision = (f"{name}-python313-cpu-avx2" for name in ("engine", "vision"))
    shared = tmp_path / ".flox/shared.nix"
    folder.path(engine).parent.mkdir(parents=True)
    made = '{{ python313Packages }}: python313Packages.buildPythonPackage {{ pname = "{}"; version = "1.0"; {} }}\n'
    folder.path(engine).write_text(made.format(engine, ""), "utf-8")
    folder.path(vision).write_text(made.format(vision, "buildInputs = [ (import ../shared.nix) ];"), "utf-8")
    shared.write_text(f"import ./pkgs/{engine}.nix", "utf-8")
    audited = audit(tmp_path, parse_spec(text.encode(), shown="ci-matrix.yaml"), "main")
    found = [
        str(finding) for cause in audited.defects for finding in cause.findings if cause.code == "needs-undeclared"
    ]
    said = f"{shared}:1:8: is built with {engine}, and the spec does not say so; add engine to the `needs` of vision"
    assert [line.partition(", so that")[0].removeprefix("error: ") for line in found] == ([] if needs else [said])


def test_wrong_folders_are_wrong_input(tmp_path: Path, spec: Spec) -> None:
    with pytest.raises(InputError, match="recipes-missing"):
        audit(tmp_path, spec, "main")
    with pytest.raises(InputError, match="recipes-missing"):
        audit(tmp_path / "nowhere", spec, "main")


def test_only_defects_fail_and_differences_are_shown_on_demand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC, "utf-8")
    folder = write(tmp_path, parse_spec(SPEC.encode(), shown="spec.yaml"), "main")
    options = ["--branch", "main", "--spec", str(tmp_path / "spec.yaml"), "--root", str(tmp_path)]
    assert run(PROGRAM, ["audit", str(tmp_path), *options]) == 0
    assert capsys.readouterr() == ("", "")
    folder.edit(V90, "export MAX_JOBS=32", "export MAX_JOBS=16")
    counted = "1 difference in 1 file"
    assert run(PROGRAM, ["audit", str(tmp_path), *options]) == 0
    assert capsys.readouterr().err.startswith(f"{counted}; `--differences` shows ")
    assert run(PROGRAM, ["audit", str(tmp_path), *options, "--differences"]) == 0
    what = "1 recipe of torchvision differs in exports (MAX_JOBS): MAX_JOBS is 16; compiled, it is 32"
    lines = [f"difference: {folder.path(V90)}: {what} [recipe-differs]", counted]
    assert capsys.readouterr().err.splitlines() == lines
    folder.edit(X90, '"9.0"', '"sm_90"')
    assert run(PROGRAM, ["audit", str(tmp_path), *options]) == 1
    out, err = capsys.readouterr()
    line = f"error: {folder.path(X90)}:33:3: gpuTargets contains 'sm_90'; torch takes '9.0' [gpu-target-notation]"
    assert (out, err.splitlines()[0]) == ("", line)
    assert run(PROGRAM, ["audit", str(tmp_path), *options, "--json"]) == 1
    shown = checked("ci-compile audit", capsys.readouterr().out)
    (defect,) = shown["defects"]
    assert (defect["code"], defect["count"]) == ("gpu-target-notation", 1)
    assert defect["places"][0]["file"] == str(folder.path(X90))
    assert {cause["code"] for cause in shown["differences"]} == {"recipe-differs"}
    assert run(PROGRAM, ["audit", str(tmp_path), *options, "--branch", "mian"]) == 2
