"""Sync: one commit per branch, none where nothing changed, none at all if anything is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.errors import InputError
from ci_compiler.files.drift import FLOX, THIN
from ci_compiler.git import Git
from ci_compiler.sync.branches import BranchPlan, check_push, commit_plans, heads_of, makes, plan_branch, summary
from tests.adoption.test_audit import CPU, N90, SPEC, X90
from tests.checkers import require
from tests.output import checked
from tests.recipes.test_affected import PKGS, Repository
from tests.repositories import copy_once
from tests.specs import MAIN, small, spec_of

BRANCHES = ["cuda-13_0", "main"]
MINE = "{ }: { mine = true; }\n"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository with two branches of the spec and another branch, which is checked out."""
    copy_once(two_branches, tmp_path / "work")
    return Repository(tmp_path / "work")


def two_branches(folder: Path) -> None:
    made = Repository(folder)
    made.write(".github/ci-matrix.yaml", SPEC)
    made.write("README.md", "# Recipes\n")
    made.write(".github/workflows/mine.yml", "name: mine\n")
    made.commit()
    for branch in ("cuda-13_0", "topic"):
        made.git("branch", branch)
    made.git("checkout", "-q", "topic")


def heads(repository: Repository) -> dict[str, str]:
    return Git(repository.root).heads()


def checkout_bytes(repository: Repository) -> dict[str, bytes]:
    """Every file of the checkout, and its index, but not the rest of .git."""
    files = (path for path in repository.root.rglob("*") if path.is_file() and ".git/" not in path.as_posix() + "/")
    found = {path.relative_to(repository.root).as_posix(): path.read_bytes() for path in files}
    return found | {".git/index": (repository.root / ".git/index").read_bytes()}


def shown(repository: Repository, revision: str, path: str) -> str:
    return repository.git("show", f"{revision}:{path}")


OURS = "# Compiled by ci-compile from spec.\n"
FOREIGN = "was not written by ci-compile and is in the way"
GONE = f"{PKGS}/gone.nix"


@pytest.fixture
def plain(tmp_path: Path) -> Repository:
    """A repository without a spec, with files that were compiled, others, and a link."""
    copy_once(without_spec, tmp_path)
    return Repository(tmp_path)


def without_spec(folder: Path) -> None:
    made = Repository(folder)
    for path, text in {
        ".github/workflows/same.yml": OURS,
        ".github/workflows/old.yml": OURS + "old: 1\n",
        ".github/workflows/gone.yml": OURS,
        ".github/workflows/mine.yml": "mine\n",
        GONE: OURS,
        f"{PKGS}/mine.nix": "mine\n",
        "docs/ours.md": OURS,
    }.items():
        made.write(path, text)
    (folder / PKGS / "link.nix").symlink_to(OURS)
    made.commit()


WANTED = {
    ".github/workflows/same.yml": OURS,
    ".github/workflows/old.yml": OURS + "old: 2\n",
    f"{PKGS}/new.nix": OURS,
    "spec.yaml": "version: 1\n",
}


def planned(plain: Repository, files: dict[str, str], *, adopt: bool = False) -> BranchPlan:
    git = Git(plain.root)
    return plan_branch(git, "main", git.heads()["main"], WANTED | files, [FLOX, THIN], adopt=adopt)


def test_a_plan_has_what_is_new_changed_and_no_longer_compiled(plain: Repository) -> None:
    plan = planned(plain, {})
    changed = {path: WANTED[path] for path in (".github/workflows/old.yml", f"{PKGS}/new.nix", "spec.yaml")}
    gone = dict.fromkeys([".github/workflows/gone.yml", GONE])
    assert plan == BranchPlan("main", plain.git("rev-parse", "main"), changed | gone, WANTED, {}, 2, 2)
    assert list(summary((plan,))) == [("main", 2, 1, 2)]


@pytest.mark.parametrize(
    ("path", "adopt", "problem"),
    [
        (f"{PKGS}/mine.nix", True, ""),
        (f"{PKGS}/mine.nix", False, f"{FOREIGN}; `--adopt` takes it over"),
        (".github/workflows/mine.yml", True, FOREIGN),
        (".github/workflows", True, "is a directory"),
        (f"{PKGS}/mine.nix/default.nix", True, "is a file"),
    ],
)
def test_what_was_not_compiled_is_in_the_way_unless_recipes_are_adopted(
    plain: Repository, path: str, adopt: bool, problem: str
) -> None:
    if not problem:
        plan = planned(plain, {path: OURS}, adopt=adopt)
        assert (plan.taken, plan.changes[path], plan.added) == ({path: OURS}, OURS, 2)
        return
    with pytest.raises(InputError) as raised:
        planned(plain, {path: OURS}, adopt=adopt)
    [finding] = raised.value.findings
    assert finding.place.file.startswith("main:")
    assert problem in finding.message
    assert ("--adopt" in finding.message) == (not adopt)


def test_a_commit_makes_its_plan_and_no_other_one(plain: Repository) -> None:
    git, plan = Git(plain.root), planned(plain, {})
    nothing = plan._replace(branch="same", changes={})
    commits = commit_plans(git, [plan, nothing], {"main": "Compile\n"}, {})
    assert commits.keys() == {"main"}
    [commit] = commits.values()
    assert git.message(commit).strip() == "Compile"
    assert git.heads()["main"] == plan.parent
    assert makes(git, commit, plan) is True
    assert commit_plans(git, [plan], {}, {"main": "made"}) == {"main": "made"}
    for other in (
        plan._replace(parent=commit),
        plan._replace(changes={**plan.changes, "spec.yaml": "version: 2\n"}),
        plan._replace(changes={**plan.changes, "spec.yaml": None}),
        plan._replace(changes={**plan.changes, GONE: OURS}),
        plan._replace(changes={**plan.changes, "more": "x"}),
        plan._replace(changes={path: text for path, text in plan.changes.items() if path != GONE}),
    ):
        assert makes(git, commit, other) is False


def test_a_push_continues_what_the_remote_has(plain: Repository, tmp_path_factory: pytest.TempPathFactory) -> None:
    git, plan = Git(plain.root), planned(plain, {})
    folder = tmp_path_factory.mktemp("remote")
    plain.git("init", "-q", "--bare", str(folder))
    plain.git("remote", "add", "origin", str(folder))
    [commit] = commit_plans(git, [plan], {"main": "x"}, {}).values()
    assert check_push(git, "origin", (plan,), {}) == {}
    plain.git("push", "-q", "origin", "main")
    assert check_push(git, "origin", (plan,), {}) == {}
    plain.git("push", "-q", "origin", f"{commit}:refs/heads/main")
    assert check_push(git, "origin", (plan,), {}) == {"main": commit}
    other = plan._replace(changes={"more": "x"})
    with pytest.raises(InputError) as raised:
        check_push(git, "origin", (other,), {})
    message = "origin has commits of main that are not in this repository; pull them first"
    assert str(raised.value) == f"main: {message} [not-a-fast-forward]"


def test_each_branch_of_the_spec_has_a_commit(plain: Repository) -> None:
    spec = spec_of(small(branches={"main": MAIN, "next": MAIN | {"publish": False}}))
    git, head = Git(plain.root), plain.git("rev-parse", "main")
    with pytest.raises(InputError) as raised:
        heads_of(git, spec)
    assert "the repository has no branch 'next'; known are main" in str(raised.value)
    text = json.dumps(spec.document.value)
    assert text[raised.value.findings[0].place.column - 1 :].startswith('"next"')
    plain.commit()
    plain.git("update-ref", "refs/remotes/origin/next", head)
    plain.git("update-ref", "refs/remotes/origin/main", head)
    assert heads_of(git, spec, "origin") == {"main": plain.git("rev-parse", "main"), "next": head}
    with pytest.raises(InputError, match="no branch 'next'"):
        heads_of(git, spec)


def test_each_branch_gets_its_recipes_the_workflows_and_the_spec_in_one_commit(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    before = heads(repository)
    assert repository.ci("sync") == 0
    after = heads(repository)
    assert after["topic"] == before["topic"]
    for branch in BRANCHES:
        assert repository.git("rev-list", "--count", f"{before[branch]}..{after[branch]}") == "1"
        assert "name: cell" in shown(repository, branch, ".github/workflows/cell.yml")
        assert shown(repository, branch, ".github/ci-matrix.yaml") == SPEC.strip()
        assert shown(repository, branch, ".github/workflows/mine.yml") == "name: mine"
    assert X90 in shown(repository, "main", f"{PKGS}/{X90}.nix")
    assert N90.removeprefix("pytorch") in shown(repository, "cuda-13_0", f"{PKGS}/{N90}.nix")
    listed = repository.git("ls-tree", "--name-only", "-r", "main", PKGS).splitlines()
    assert len([name for name in listed if name.endswith(".nix")]) == 10
    capsys.readouterr()
    assert repository.ci("sync") == 0
    assert heads(repository) == after
    assert "every branch is up to date" in capsys.readouterr().out


def test_a_template_and_an_overlay_are_carried_with_the_recipes(repository: Repository) -> None:
    template, overlay = "nix/torch.nix", "nix/overlay.nix"
    torch = "{attribute: torch, recipes: {'*-cpu-*': template}, template: nix/torch.nix, overlays: [nix/overlay.nix]}"
    spec = yaml.safe_dump(yaml.safe_load(SPEC) | {"packages": {"pytorch": yaml.safe_load(torch), "torchvision": {}}})
    repository.write(".github/ci-matrix.yaml", spec)
    repository.write(template, '{ }: import ./lib/torch.nix "@version@"\n')
    repository.write(overlay, "final: prev: { }\n")
    assert repository.ci("sync") == 0
    for branch, version in (("main", "2.8.0"), ("cuda-13_0", "2.10.0")):
        assert shown(repository, branch, template).endswith('"@version@"')
        assert shown(repository, branch, overlay) == "final: prev: { }"
        assert f'import ./lib/torch.nix "{version}"' in shown(repository, branch, f"{PKGS}/{CPU}.nix")
    after = heads(repository)
    assert repository.ci("sync") == 0
    assert heads(repository) == after
    repository.git("checkout", "-qf", "main")
    assert repository.ci("--check") == 0


def test_a_check_on_a_synced_branch_finds_no_drift(repository: Repository) -> None:
    assert repository.ci("sync") == 0
    for branch in BRANCHES:
        repository.git("checkout", "-q", branch)
        assert repository.ci("--check") == 0
        assert repository.ci("recipes", "--check") == 0


def test_a_changed_spec_changes_and_removes_files(repository: Repository) -> None:
    assert repository.ci("sync") == 0
    repository.write(".github/ci-matrix.yaml", SPEC.replace("    sm100: {isas: [avx2]}\n", ""))
    before = heads(repository)
    assert repository.ci("sync") == 0
    changed = repository.git("diff", "--name-status", before["main"], "main").splitlines()
    removed = [line.split("\t")[1] for line in changed if line.startswith("D")]
    gone = [f"{PKGS}/{package}-python313-cuda12_8-sm100-avx2.nix" for package in ("pytorch", "torchvision")]
    workflows = [".github/workflows/build-cuda-13_0-sm100.yml", ".github/workflows/build-main-sm100.yml"]
    assert sorted(removed) == sorted([*gone, *workflows])
    assert [line for line in changed if line.startswith("M")] == [
        "M\t.github/BUILD_MATRIX.md",
        "M\t.github/ci-matrix.yaml",
    ]


def test_a_dry_run_prints_the_plan_and_writes_nothing(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    before = heads(repository), checkout_bytes(repository)
    objects = sum(1 for _ in (repository.root / ".git/objects").rglob("*"))
    assert repository.ci("sync", "--dry-run") == 0
    assert (heads(repository), checkout_bytes(repository)) == before
    assert sum(1 for _ in (repository.root / ".git/objects").rglob("*")) == objects
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == ["main", "cuda-13_0"]
    assert repository.ci("sync", "--dry-run", "--json") == 0
    found = checked("ci-compile sync", capsys.readouterr().out)
    assert [[one["branch"], *(str(one[key]) for key in ("added", "changed", "removed"))] for one in found] == rows
    assert repository.ci("sync", "--json") == 2
    assert "--json: needs --dry-run" in capsys.readouterr().err


def test_a_foreign_recipe_stops_everything_until_it_is_adopted(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    require("nix-instantiate")
    repository.git("checkout", "-q", "cuda-13_0")
    repository.write(f"{PKGS}/{CPU}.nix", "{ python313Packages }: python313Packages.torch\n")
    repository.write(f"{PKGS}/mine.nix", MINE)
    repository.commit()
    repository.git("checkout", "-q", "topic")
    before = heads(repository)
    assert repository.ci("sync") == 2
    said = capsys.readouterr().err
    assert "[in-the-way]" in said
    assert "--adopt" in said
    assert heads(repository) == before
    assert repository.ci("sync", "--adopt") == 0
    assert "Compiled by ci-compile" in shown(repository, "cuda-13_0", f"{PKGS}/{CPU}.nix")
    assert shown(repository, "cuda-13_0", f"{PKGS}/mine.nix") == MINE.strip()


def test_a_foreign_workflow_is_never_taken_over(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    repository.git("checkout", "-q", "main")
    repository.write(".github/workflows/cell.yml", "name: mine\n")
    repository.commit()
    repository.git("checkout", "-q", "topic")
    assert repository.ci("sync", "--adopt") == 2
    assert "main:.github/workflows/cell.yml: was not written by ci-compile" in capsys.readouterr().err


def test_a_missing_branch_stops_everything(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    repository.git("branch", "-m", "cuda-13_0", "cuda-13-0")
    before = heads(repository)
    assert repository.ci("sync") == 2
    said = capsys.readouterr().err
    assert "the repository has no branch 'cuda-13_0'; did you mean cuda-13-0?" in said
    assert heads(repository) == before


def test_no_git_no_identity_and_no_remote_are_one_line_errors(
    repository: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plain").mkdir()
    assert run(PROGRAM, ["sync", "--root", str(tmp_path / "plain")]) == 2
    assert len([line for line in capsys.readouterr().err.splitlines() if not line.startswith("warning: ")]) == 1
    before = heads(repository)
    assert repository.ci("sync", "--push") == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    repository.git("config", "user.useConfigOnly", "true")
    repository.git("config", "--unset", "user.email")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.delenv("EMAIL", raising=False)
    assert repository.ci("sync") == 2
    assert heads(repository) == before


@pytest.fixture
def remote(repository: Repository, tmp_path: Path) -> Path:
    bare = tmp_path / "remote.git"
    subprocess.run(["git", "init", "-q", "-b", "elsewhere", str(bare)], check=True)
    repository.git("remote", "add", "origin", str(bare))
    repository.git("push", "-q", "origin", "--all")
    return bare


def test_a_push_updates_every_branch(repository: Repository, remote: Path) -> None:
    assert repository.ci("sync", "--push") == 0
    theirs = Git(remote).heads()
    assert {branch: theirs[branch] for branch in BRANCHES} == {b: heads(repository)[b] for b in BRANCHES}


def test_a_push_that_is_not_a_fast_forward_stops_everything(
    repository: Repository, remote: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    subprocess.run(["git", "clone", "-q", "-b", "main", str(remote), str(other)], check=True)
    theirs = Repository.__new__(Repository)
    theirs.root = other
    theirs.git("config", "user.email", "b@example.org")
    theirs.git("config", "user.name", "B")
    theirs.write("README.md", "# newer\n")
    theirs.commit()
    theirs.git("push", "-q", "origin", "main")
    before = heads(repository), Git(remote).heads()
    assert repository.ci("sync", "--push") == 2
    assert "[not-a-fast-forward]" in capsys.readouterr().err
    assert (heads(repository), Git(remote).heads()) == before


@pytest.mark.parametrize("step", ["commit_tree", "move_refs"])
def test_a_run_that_is_killed_leaves_every_branch_where_it_was(repository: Repository, step: str) -> None:
    before = heads(repository), checkout_bytes(repository)
    script = (
        "import os, sys\nfrom ci_compiler.git import Git\nfrom ci_compiler.cli.compile import main\n"
        f"real, calls = Git.{step}, []\n"
        "def dying(self, *rest, **more):\n"
        "    calls.append(1)\n"
        f"    if len(calls) == 2:\n"
        "        os._exit(9)\n"
        "    return real(self, *rest, **more)\n"
        f"Git.{step} = dying\n"
        f"sys.argv = ['ci-compile', 'sync', '--root', {str(repository.root)!r}]\nmain()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True)
    assert done.returncode == 9
    assert (heads(repository), checkout_bytes(repository)) == before
    assert repository.ci("sync") == 0
    assert heads(repository)["main"] != before[0]["main"]


def test_a_run_that_is_killed_after_its_push_is_finished_by_the_next(repository: Repository, remote: Path) -> None:
    before = heads(repository)
    script = (
        "import os, sys\nfrom ci_compiler.git import Git\nfrom ci_compiler.cli.compile import main\n"
        "Git.move_refs = lambda *_, trial: trial or os._exit(9)\n"
        f"sys.argv = ['ci-compile', 'sync', '--push', '--root', {str(repository.root)!r}]\nmain()\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False, capture_output=True).returncode == 9
    pushed = Git(remote).heads()
    assert heads(repository) == before != pushed
    assert repository.ci("sync", "--push") == 0
    assert {branch: heads(repository)[branch] for branch in BRANCHES} == {one: pushed[one] for one in BRANCHES}
    assert Git(remote).heads() == pushed


@pytest.mark.usefixtures("remote")
def test_another_commit_on_the_same_parent_is_not_taken_for_an_earlier_run(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    before = heads(repository)["main"]
    assert repository.ci("sync") == 0
    repository.git("checkout", "-q", "main")
    repository.write(".github/BUILD_MATRIX.md", "# mine\n")
    repository.git("commit", "-qam", "x", "--amend")
    repository.git("push", "-q", "origin", "main")
    repository.git("checkout", "-qf", "topic")
    repository.git("update-ref", "refs/heads/main", before)
    assert repository.ci("sync", "--push") == 2
    assert "[not-a-fast-forward]" in capsys.readouterr().err


def test_a_tag_with_the_name_of_a_branch_changes_nothing(repository: Repository, remote: Path) -> None:
    for branch in BRANCHES:
        repository.git("tag", branch, "topic")
        repository.git("tag", f"origin/{branch}", "topic")
    assert repository.ci("sync", "--push") == 0
    theirs = Git(remote).heads()
    assert "name: cell" in shown(repository, theirs["cuda-13_0"], ".github/workflows/cell.yml")
    assert {branch: theirs[branch] for branch in BRANCHES} == {b: heads(repository)[b] for b in BRANCHES}


@pytest.mark.usefixtures("remote")
def test_a_branch_that_only_the_remote_has_is_pushed_and_gets_no_local_branch(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.git("branch", "-D", "cuda-13_0")
    assert repository.ci("sync") == 2
    assert "missing-branch" in capsys.readouterr().err
    assert repository.ci("sync", "--push") == 0
    assert "cuda-13_0" not in heads(repository)
    assert "name: cell" in shown(repository, "refs/remotes/origin/cuda-13_0", ".github/workflows/cell.yml")


def link(target: str) -> dict[str, tuple[str, str]]:
    return {target: ("120000", "elsewhere")}


ODD = {
    "a folder that is a link": (
        {".github": ("120000", "elsewhere")},
        ".github",
        "its folder .github is a symbolic link",
    ),
    "a folder that is a file": ({".flox": ("100644", "mine")}, ".flox", "its folder .flox is a file"),
    "a submodule": ({".flox/pkgs": ("160000", "")}, ".flox", "its folder .flox/pkgs is a submodule"),
    "a link among the recipes": ({".flox/pkgs": ("120000", "..")}, ".flox", "its folder .flox/pkgs is a symbolic link"),
    "a document that is a folder": ({".github/BUILD_MATRIX.md/mine": ("100644", "mine")}, "", "is a directory"),
    "a workflow that is a link": ({".github/workflows/cell.yml": ("120000", "mine.yml")}, "", "is a symbolic link"),
}


@pytest.mark.parametrize(("entries", "instead", "says"), ODD.values(), ids=ODD)
def test_what_is_no_plain_file_or_folder_is_never_replaced(
    repository: Repository,
    entries: dict[str, tuple[str, str]],
    instead: str,
    says: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    repository.git("checkout", "-q", "cuda-13_0")
    if instead:
        repository.git("rm", "-rq", "--cached", "--ignore-unmatch", instead)
    for path, (mode, text) in entries.items():
        repository.write("scratch", text)
        name = heads(repository)["topic"] if mode == "160000" else repository.git("hash-object", "-w", "scratch")
        repository.git("update-index", "--add", "--cacheinfo", f"{mode},{name},{path}")
    repository.git("commit", "-qm", "odd")
    repository.git("checkout", "-qf", "topic")
    before = heads(repository)
    assert repository.ci("sync", "--adopt") == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if "in-the-way" in line]
    assert lines
    assert all(line.startswith("error: cuda-13_0:") for line in lines)
    assert says in lines[0]
    assert heads(repository) == before
