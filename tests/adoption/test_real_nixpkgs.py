"""Recipes evaluated with the true nixpkgs: a folder in its place, and what the recipes fetch."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_compiler.adoption.evaluation_cache import EvaluationCache
from ci_compiler.adoption.real_nixpkgs import Evaluated, NixpkgsSource, evaluate
from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.spec.packages import Pin
from tests.adoption.helpers import edit, needs_nix
from tests.merges import merge_request
from tests.output import checked

pytestmark = needs_nix

NIXPKGS = Path(__file__).parent / "nixpkgs"
SPEC = """\
version: 1
owner: my-org
branches:
  main:
    cuda: "12.8"
    nixpkgs: fe5e41d7ffc0421f0913e8472ce6238ed0daf8e3
    versions: {pytorch: 2.8.0, torchvision: 0.23.0}
packages:
  pytorch: {attribute: torch, title: PyTorch}
  torchvision: {title: TorchVision, needs: [pytorch]}
matrix:
  python: ["3.13"]
  isas: {x86_64-linux: [avx2]}
  gpus: {cpu: {}, sm90: {}}
runners:
  x86: {runs-on: [self-hosted, linux, x64], cpu: [avx2]}
publish: {on-shared-machines: true}
"""
TORCH, CPU = "pytorch-python313-cuda12_8-sm90-avx2", "pytorch-python313-cpu-avx2"
VISION = TORCH.replace("pytorch", "torchvision")
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b.c")

Compile = Callable[..., tuple[int, str, str]]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of main with its recipes, as the current folder."""
    root = tmp_path / "repository"
    (root / ".github").mkdir(parents=True)
    (root / ".github/ci-matrix.yaml").write_text(SPEC, "utf-8")
    monkeypatch.chdir(root)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    subprocess.run([*GIT, "init", "-q", "-b", "main"], check=True)
    assert run(PROGRAM, ["recipes"]) == 0
    commit()
    return root


def commit() -> None:
    for words in (["add", "-A"], ["commit", "-q", "-m", "a change"]):
        subprocess.run([*GIT, *words], check=True)


@pytest.fixture
def nixpkgs(tmp_path: Path) -> Path:
    """A copy of the miniature nixpkgs, to change."""
    return Path(shutil.copytree(NIXPKGS, tmp_path / "nixpkgs"))


@pytest.fixture
def compiler(repository: Path, nixpkgs: Path, capsys: pytest.CaptureFixture[str]) -> Compile:  # noqa: ARG001
    """Runs a command of `ci-compile` with the miniature: its status, output and errors."""

    def call(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = run(PROGRAM, [*arguments, "--nixpkgs", str(nixpkgs)])
        return status, *capsys.readouterr()

    return call


def test_evaluate_gives_each_variant_its_derivation_and_outputs(compiler: Compile) -> None:
    status, out, err = compiler("evaluate", "--json")
    assert (status, err) == (0, "")
    rows = {row["name"]: row for row in checked("ci-compile evaluate", out)}
    assert rows.keys() == {TORCH, CPU, VISION, CPU.replace("pytorch", "torchvision")}
    torch = rows[TORCH]
    assert torch.keys() == {"name", "branch", "version", "system", "derivation", "outputs"}
    assert (torch["branch"], torch["version"], torch["system"]) == ("main", "2.8.0", "x86_64-linux")
    assert torch["derivation"].startswith("/nix/store/")
    assert torch["derivation"].endswith(f"-{TORCH}-2.8.0.drv")
    assert torch["outputs"].keys() == {"out", "dev"}
    assert len({row["derivation"] for row in rows.values()}) == len(rows)


def test_evaluate_lists_the_variants_that_a_pattern_chooses(compiler: Compile) -> None:
    status, out, _ = compiler("evaluate", "pytorch*sm90*")
    assert status == 0
    assert [line.split()[:2] for line in out.splitlines()] == [[TORCH, "2.8.0"]]
    assert compiler("evaluate", "nothing*")[0] == 1


def test_one_recipe_per_branch_and_toolkit_is_evaluated_without_a_checkout(compiler: Compile, repository: Path) -> None:
    shutil.rmtree(repository / ".flox")
    code, out, err = compiler("evaluate", "--pins", "--json")
    assert (code, err) == (0, "")
    assert [(row["branch"], row["name"], row["version"]) for row in json.loads(out)] == [
        ("main", CPU, "2.8.0"),
        ("main", TORCH, "2.8.0"),
    ]


def test_a_pin_that_does_not_evaluate_is_a_finding(compiler: Compile, nixpkgs: Path) -> None:
    (nixpkgs / "default.nix").write_text("throw ''not this one''", "utf-8")
    code, _, err = compiler("evaluate", "--pins")
    assert code == 1
    assert f"error: .flox/pkgs/{CPU}.nix: not this one [recipe-evaluation]" in err.splitlines()


def test_pins_and_another_choice_are_refused(compiler: Compile) -> None:
    code, _, err = compiler("evaluate", "--pins", "*torch*")
    assert (code, err.split(":")[1]) == (2, " --pins")


def test_audit_accepts_recipes_that_evaluate_to_their_variants(compiler: Compile) -> None:
    assert compiler("audit", ".") == (0, "", "evaluated with nixpkgs: 4 recipes\n")


def test_audit_finds_a_version_that_only_nixpkgs_tells(compiler: Compile, nixpkgs: Path) -> None:
    edit(nixpkgs / "torch.nix", "2.8.0", "2.9.1")
    status, _, err = compiler("audit", ".")
    assert status == 1
    assert "evaluates to version 2.9.1; main has pytorch 2.8.0" in err
    assert f"(also in .flox/pkgs/{TORCH}.nix)" in err


def test_audit_finds_an_architecture_that_a_package_of_nixpkgs_sets(compiler: Compile, nixpkgs: Path) -> None:
    edit(nixpkgs / "torch.nix", 'lib.concatStringsSep ";" gpuTargets', '"8.0;9.0"')
    _, _, err = compiler("audit", ".")
    assert f"builds for TORCH_CUDA_ARCH_LIST=8.0;9.0; {TORCH} is for 9.0" in err


def test_audit_repeats_what_nix_says_of_an_argument(compiler: Compile, nixpkgs: Path) -> None:
    edit(nixpkgs / "torch.nix", ", gpuTargets ? [ ]", ', gpuTarget ? [ "9.0" ]')
    edit(nixpkgs / "torch.nix", "gpuTargets}", "gpuTarget}")
    _, _, err = compiler("audit", ".")
    assert f"{TORCH}.nix" in err
    assert "called with unexpected argument 'gpuTargets'" in err
    assert f"{CPU}.nix" not in err


def test_audit_believes_nixpkgs_where_the_stand_in_fails(compiler: Compile, nixpkgs: Path, repository: Path) -> None:
    edit(nixpkgs / "lib.nix", "{ inherit", "{ newInNixpkgs = x: x; inherit")
    edit(repository / f".flox/pkgs/{CPU}.nix", "{ ... }:", "{ lib, ... }:")
    edit(repository / f".flox/pkgs/{CPU}.nix", "cpuFlags = [", "cpuFlags = lib.newInNixpkgs [")
    assert "newInNixpkgs" not in compiler("audit", ".")[2]


def test_audit_evaluates_what_changed_since_a_commit(compiler: Compile, repository: Path) -> None:
    assert "nothing to evaluate" in compiler("audit", ".", "--since", "HEAD")[2]
    shared = repository / ".flox/ci-compiler/pytorch-python313-cuda12_8.nix"
    edit(shared, "cudaSupport = true;\n  gpuTargets", "cudaSuport = true;\n  gpuTargets")
    commit()
    _, _, err = compiler("audit", ".", "--since", "HEAD~1")
    assert "evaluated with nixpkgs: 0 recipes" in err  # torch's, and torchvision's, which imports it
    assert "called with unexpected argument 'cudaSuport'" in err
    assert "1 defect in 2 files" in err


def test_audit_evaluates_what_a_pull_request_changes(
    compiler: Compile, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*words: str) -> str:
        return subprocess.run([*GIT, *words], check=True, capture_output=True, text=True).stdout.strip()

    git("checkout", "-q", "-b", "topic")
    edit(repository / f".flox/pkgs/{CPU}.nix", "{ ... }:", "# of the request\n{ ... }:")
    commit()
    git("checkout", "-q", "main")
    edit(repository / f".flox/pkgs/{TORCH}.nix", "{ ... }:", "# of others\n{ ... }:")
    commit()
    (tmp_path / "event.json").write_text(json.dumps(merge_request(git, git("rev-parse", "topic"))), "utf-8")
    monkeypatch.setenv("GITHUB_EVENT_NAME", "pull_request")
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(tmp_path / "event.json"))
    assert "evaluated with nixpkgs: 2 recipes" in compiler("audit", ".", "--pull-request", "--branch", "main")[2]


def test_a_folder_without_nixpkgs_is_refused(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(PROGRAM, ["audit", ".", "--nixpkgs", str(repository)]) == 2
    assert "there is no nixpkgs here" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--since", "HEAD"], ["--pull-request"]])
def test_since_alone_is_refused(repository: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:  # noqa: ARG001
    assert run(PROGRAM, ["audit", ".", *words]) == 2
    assert capsys.readouterr().err.startswith(f"error: {words[0]}: ")


def evaluated(folder: Path, text: str, **more: object) -> Evaluated:
    """What one recipe evaluates to with the miniature."""
    (folder / "a.nix").write_text(text, "utf-8")
    source = NixpkgsSource(folder=NIXPKGS, pin=Pin(), system="x86_64-linux")
    return evaluate(folder, {"a": folder / "a.nix"}, source, **more)  # type: ignore[arg-type]


def test_a_recipe_with_arguments_gets_them_from_nixpkgs(tmp_path: Path) -> None:
    done = evaluated(tmp_path, "{ python313Packages }: python313Packages.torch")
    assert done.derivations["a"].version == "2.8.0"


def test_the_search_path_has_nixpkgs(tmp_path: Path) -> None:
    assert evaluated(tmp_path, "(import <nixpkgs> { }).python313Packages.torch").derivations["a"].version == "2.8.0"


def test_import_from_derivation_is_refused(tmp_path: Path) -> None:
    done = evaluated(tmp_path, "{ python313Packages }: import python313Packages.torch")
    assert not done.derivations
    assert done.findings["a"].code == "recipe-evaluation"


ENDLESS = "let sum = f: builtins.foldl' (a: b: a + f b) 0 (builtins.genList (n: n) 1000000); in sum (n: sum (m: m))"


def test_an_evaluation_without_an_end_is_given_up(tmp_path: Path) -> None:
    done = evaluated(tmp_path, ENDLESS, seconds=2.0)
    assert done.late == ("a",)


def test_what_is_no_package_is_a_finding(tmp_path: Path) -> None:
    assert "the recipe gives a value of type int" in evaluated(tmp_path, "1").findings["a"].message


DERIVATION = 'derivation { name = "%s"; system = "x86_64-linux"; builder = "b"; }'
SMALL = """#!/bin/sh
# nix-instantiate on a machine with memory for two recipes: it dies as it begins the third, after five lines.
%s "$@" 2>errors.txt
code=$?
head -n 5 errors.txt >&2
test "$(grep -c '^trace: ' errors.txt)" -lt 5 || { echo 'error: out of memory' >&2; exit 1; }
exit $code
"""


def several(folder: Path, texts: dict[str, str], **more: object) -> Evaluated:
    """What recipes evaluate to with the miniature, as many of them as possible in one process."""
    for name, text in texts.items():
        (folder / f"{name}.nix").write_text(text, "utf-8")
    source = NixpkgsSource(folder=NIXPKGS, pin=Pin(), system="x86_64-linux")
    return evaluate(folder, {name: folder / f"{name}.nix" for name in texts}, source, **more)  # type: ignore[arg-type]


@pytest.fixture
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that evaluates in one process at a time."""
    monkeypatch.setattr("ci_compiler.adoption.real_nixpkgs._workers", lambda: 1)


@pytest.mark.usefixtures("one_process")
def test_a_wrong_recipe_leaves_the_others_of_its_process(tmp_path: Path) -> None:
    counts: list[int] = []
    texts = {name: DERIVATION % name for name in "abcd"} | {"b": "throw ''boom of b''", "d": "1"}
    done = several(tmp_path, texts, on_outcomes=counts.append)
    assert set(done.derivations) == {"a", "c"}
    assert {name: finding.message for name, finding in done.findings.items()} == {
        "b": "boom of b",
        "d": "the recipe gives a value of type int, not a package",
    }
    assert sum(counts) == len(texts)


@pytest.mark.usefixtures("one_process")
def test_an_endless_recipe_is_given_up_and_the_others_are_evaluated(tmp_path: Path) -> None:
    done = several(tmp_path, {"a": ENDLESS, "b": DERIVATION % "b", "c": DERIVATION % "c"}, seconds=40.0)
    assert set(done.derivations) == {"b", "c"}
    assert done.late == ("a",)


@pytest.mark.usefixtures("one_process")
def test_recipes_that_one_process_cannot_hold_have_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin/nix-instantiate"
    program.parent.mkdir()
    program.write_text(SMALL % shutil.which("nix-instantiate"), "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.chdir(tmp_path)
    counts: list[int] = []
    done = several(tmp_path, {name: DERIVATION % name for name in "abcdefg"}, on_outcomes=counts.append)
    assert set(done.derivations) == set("abcdefg")
    assert counts == [0, 2, 2, 2, 1]


PINNED = """
let nixpkgs = builtins.fetchTarball { url = "https://github.com/NixOS/nixpkgs/archive/%s.tar.gz"; };
in (import nixpkgs { }).python313Packages.torch // import ./shared.nix
"""


def test_the_key_of_a_pinned_recipe_changes_with_the_files_that_it_reads(tmp_path: Path) -> None:
    cache, recipe, shared = EvaluationCache(folder=tmp_path / "c"), tmp_path / "a.nix", tmp_path / "shared.nix"
    recipe.write_text(PINNED % ("a" * 40), "utf-8")
    shared.write_text("{ }", "utf-8")
    key = cache.key(tmp_path, recipe, None)
    assert key
    assert key == cache.key(tmp_path, recipe, None)
    shared.write_text("{ x = 1; }", "utf-8")
    assert key != cache.key(tmp_path, recipe, None)


@pytest.mark.parametrize("text", [PINNED % "nixos-unstable", "import <nixpkgs> { }", 'builtins.getEnv "HOME"'])
def test_what_may_change_is_not_in_the_cache(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.nix").write_text(text, "utf-8")
    assert EvaluationCache(folder=tmp_path).key(tmp_path, tmp_path / "a.nix", None) == ""


def test_a_folder_that_may_change_is_not_in_the_cache(tmp_path: Path) -> None:
    (tmp_path / "a.nix").write_text("1", "utf-8")
    assert EvaluationCache(folder=tmp_path).key(tmp_path, tmp_path / "a.nix", NIXPKGS) == ""


# What recipes fetch: an archive at an address of this machine, and a store of the test's own.

JOBS = """#!/bin/sh
# nix-eval-jobs, as far as it matters here: a line of JSON for each attribute.
for file; do :; done
for name in good bad; do
  if drv=$(nix-instantiate "$file" -A $name 2>error.txt); then
    drv=${drv%%!*}
    out=$(nix-store -q --outputs "$drv" | tail -n 1)
    printf '{"attr":"%s","attrPath":["%s"],"drvPath":"%s","outputs":{"out":"%s"},"system":"x86_64-linux"}\\n' \\
      $name $name "$drv" "$out"
  else
    printf '{"attr":"%s","attrPath":["%s"],"error":"error: boom"}\\n' $name $name
  fi
done
echo "$@" >arguments.txt
"""


@pytest.fixture
def fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Two recipes that fetch the miniature; the second calls torch with an argument that it does not take."""
    monkeypatch.chdir(tmp_path)
    for name in ("store", "state", "log", "home"):
        (tmp_path / name).mkdir()
    for name, value in {"STORE": "store", "STATE": "state", "LOG": "log", "LOCALSTATE": "state"}.items():
        monkeypatch.setenv(f"NIX_{name}_DIR", str(tmp_path / value))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("NIX_REMOTE", raising=False)
    archive = shutil.make_archive(str(tmp_path / "nixpkgs"), "gztar", NIXPKGS.parent, "nixpkgs")
    recipe = 'let n = builtins.fetchTarball "file://%s"; in (import n { }).python313Packages.torch%s'
    (tmp_path / "good.nix").write_text(recipe % (archive, ""), "utf-8")
    (tmp_path / "bad.nix").write_text(recipe % (archive, ".override { gpus = [ ]; }"), "utf-8")
    return {name: tmp_path / f"{name}.nix" for name in ("good", "bad")}


REAL = NixpkgsSource(folder=None, pin=Pin(), system="x86_64-linux")


def test_recipes_evaluate_with_the_nixpkgs_that_they_fetch(tmp_path: Path, fetched: dict[str, Path]) -> None:
    done = evaluate(tmp_path, fetched, REAL)
    assert done.derivations["good"].version == "2.8.0"
    assert "called with unexpected argument 'gpus'" in done.findings["bad"].message


def test_nix_eval_jobs_evaluates_where_it_is_installed(
    tmp_path: Path, fetched: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin/nix-eval-jobs"
    program.parent.mkdir()
    program.write_text(JOBS, "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    by_process = evaluate(tmp_path, fetched, REAL)
    arguments = (tmp_path / "arguments.txt").read_text("utf-8")
    assert "--max-memory-size 4096" in arguments
    assert "allow-import-from-derivation false" in arguments
    assert by_process.derivations["good"].version == "2.8.0"
    assert by_process.findings["bad"].message == "boom"
    program.unlink()
    assert evaluate(tmp_path, fetched, REAL).derivations["good"].path == by_process.derivations["good"].path


def test_the_cache_answers_for_what_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, recipe = EvaluationCache(folder=tmp_path / "cache"), tmp_path / "a.nix"
    recipe.write_text('derivation { name = "a"; system = "x86_64-linux"; builder = "b"; version = "1"; }', "utf-8")
    first = evaluate(tmp_path, {"a": recipe}, REAL, cache=cache)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert evaluate(tmp_path, {"a": recipe}, REAL, cache=cache) == first
    assert first.derivations["a"].version == "1"


@pytest.mark.usefixtures("one_process")
def test_each_process_adds_what_it_evaluated_to_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ci_compiler.adoption.real_nixpkgs.TOGETHER", 1)
    cache, entries = tmp_path / "cache", list[int]()
    recipes = {name: tmp_path / f"{name}.nix" for name in "abc"}
    for name, path in recipes.items():
        path.write_text(DERIVATION % name, "utf-8")
    count = lambda _: entries.append(len(list(cache.glob("*"))))  # noqa: E731
    evaluate(tmp_path, recipes, REAL, cache=EvaluationCache(folder=cache), on_outcomes=count)
    assert entries == [0, 1, 2, 3]
