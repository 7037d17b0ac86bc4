"""Every kind of checkout after a sync: clean at the new commit, or refused before anything moved."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_compiler.errors import InputError
from ci_compiler.git import Git
from ci_compiler.sync.branches import BranchPlan, commit_plans
from ci_compiler.sync.checkouts import checkouts, write
from tests.recipes.test_affected import Repository
from tests.repositories import copy_once

from .test_branches import PKGS, SPEC, X90

SPEC_PATH = ".github/ci-matrix.yaml"
OTHER = "cuda-13_0"
X100 = X90.replace("sm90", "sm100")
WITHOUT = SPEC.replace("    sm100: {isas: [avx2]}\n", "")
"""The spec without the recipe `X100`."""


Edits = dict[str, str | None]


@pytest.fixture
def small(tmp_path: Path) -> Repository:
    """A repository of four files, whose `main` is checked out, with the branch `next`."""
    copy_once(four_files, tmp_path)
    return Repository(tmp_path)


def four_files(folder: Path) -> None:
    made = Repository(folder)
    for name in "abcd":
        made.write(name, "1\n")
    made.commit()
    made.git("branch", "next")


def change(repository: Repository, branch: str = "main", **changes: str | None) -> BranchPlan:
    parent = repository.git("rev-parse", branch)
    return BranchPlan(branch, parent, changes or {"a": "2\n", "b": None, "new": "x\n"}, {}, {}, 0, 0)


@pytest.mark.parametrize(
    ("edits", "lost"),
    [
        ({}, ""),
        ({"a": "2\n"}, ""),
        ({"a": "2\n", "b": None, "new": "x\n"}, ""),
        ({"other": "mine\n"}, ""),
        ({"a": "3\n"}, "a"),
        ({"a": None}, "a"),
        ({"b": "2\n"}, "b"),
        ({"c": "2\n"}, "c"),
        ({"d": None}, "d"),
        ({"new": "y\n"}, "new"),
        ({"new/file": "x\n"}, "new"),
        ({"a": "3\n", "c": "2\n", "d": None}, "a, c, d"),
        ({"a": "3\n", "b": "2\n", "c": "2\n", "d": None}, "a, b, c …"),
    ],
)
@pytest.mark.parametrize("is_staged", [False, True])
def test_a_checkout_is_brought_to_the_new_commit_unless_a_change_would_be_lost(
    small: Repository, edits: Edits, lost: str, is_staged: bool
) -> None:
    git, plan = Git(small.root), change(small)
    for path, text in edits.items():
        small.write(path, text)
    if is_staged and "new" not in lost and "other" not in edits:
        small.git("add", "-A")
    found, findings = checkouts(git, [plan, change(small, "next")])
    assert [(one.root, one.plan) for one in found] == [(small.root, plan)]
    if lost:
        problem = f"files differ from the commit: {lost}; commit, discard or move them first [tree-changed]"
        assert [str(one) for one in findings] == [f"main: is checked out in {small.root}, where {problem}"]
        return
    assert findings == []
    [commit] = commit_plans(git, [plan], {"main": "x"}, {}).values()
    write(git, [plan], {"main": commit}, found)
    assert small.git("rev-parse", "main") == commit
    assert small.git("status", "--porcelain") == ("?? other" if edits.keys() == {"other"} else "")
    texts = {path.name: path.read_text("utf-8") for path in small.root.iterdir() if path.is_file()}
    others = {"other": "mine\n"} if "other" in edits else {}
    assert texts == {"a": "2\n", "c": "1\n", "d": "1\n", "new": "x\n", **others}


@pytest.mark.parametrize("name", ["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-apply", "index.lock"])
def test_a_command_of_git_that_is_not_done_stops_a_sync(small: Repository, name: str) -> None:
    small.append("c")
    plan = change(small)
    file = small.root / ".git" / name
    file.touch()
    [finding] = checkouts(Git(small.root), [plan])[1]
    rest = "`git status` says how to go on; a leftover lock can be deleted [checkout-busy]"
    assert str(finding) == f"main: is checked out in {small.root}, where git is not done, as {file} shows; {rest}"


def test_only_checkouts_of_branches_that_change_are_looked_at(small: Repository, tmp_path: Path) -> None:
    git, folder = Git(small.root), tmp_path / "of-next"
    small.git("worktree", "add", "-q", str(folder), "next")
    next_plan, nothing = change(small, "next"), change(small)._replace(changes={})
    assert checkouts(git, [nothing]) == ([], [])
    assert checkouts(git, [change(small)._replace(branch="remote-only")]) == ([], [])
    found, findings = checkouts(git, [nothing, next_plan])
    assert ([(one.root, one.plan) for one in found], findings) == ([(folder, next_plan)], [])
    folder.rename(tmp_path / "moved")
    found, [finding] = checkouts(git, [next_plan])
    assert found == []
    assert (
        str(finding) == f"next: is checked out in {folder}, where nothing is; run `git worktree prune` [checkout-busy]"
    )


def test_a_push_comes_before_any_branch_moves(small: Repository, tmp_path_factory: pytest.TempPathFactory) -> None:
    git, remote = Git(small.root), tmp_path_factory.mktemp("remote")
    small.git("init", "-q", "--bare", str(remote))
    small.git("remote", "add", "origin", str(remote))
    plans = [change(small), change(small, "next")._replace(changes={})]
    commits = commit_plans(git, plans, {"main": "x", "next": "x"}, {})
    found, _ = checkouts(git, plans)
    with pytest.raises(InputError):
        write(git, plans, commits, found, remote="missing")
    assert small.git("rev-parse", "main") == plans[0].parent
    assert small.git("status", "--porcelain") == ""
    write(git, plans, commits, found, remote="origin")
    assert git.list_remote("origin", {}) == git.heads() == {"main": commits["main"], "next": plans[1].parent}


def with_remote(folder: Path, algorithm: str = "sha1") -> None:
    """A checkout of `main` in `first`, with its remote beside it."""
    remote = folder / "remote.git"
    for words in (["--bare", str(remote)], [str(folder / "first")]):
        run("init", "-q", f"--object-format={algorithm}", "-b", "main", *words)
    made = configured(folder / "first")
    made.git("remote", "add", "origin", f"file://{remote}")
    for path, text in ((SPEC_PATH, SPEC), ("README.md", "# Recipes\n"), ("lib/a.nix", "{ }\n")):
        made.write(path, text)
    made.commit()
    for branch in (OTHER, "topic"):
        made.git("branch", branch)
    made.git("push", "-q", "origin", "--all")


def with_sha256(folder: Path) -> None:
    with_remote(folder, "sha256")


class Kind:
    """A repository with its remote, whose `main` is checked out, and the checkouts that a kind makes of it.

    The command runs in the first one of `made`; all of them are looked at afterwards.
    """

    def __init__(self, folder: Path, make: Callable[[Path], None] = with_remote) -> None:
        self.folder, self.remote = folder, folder / "remote.git"
        copy_once(make, folder)
        self.made = [Repository(folder / "first")]

    @property
    def main(self) -> Repository:
        return self.made[0]

    def clone(self, name: str, *options: str) -> Repository:
        who = ("-c", "user.email=a@example.org", "-c", "user.name=A")
        run("clone", "-q", *who, *options, f"file://{self.remote}", str(self.folder / name))
        return at(self.folder / name)

    def worktree(self, branch: str) -> Repository:
        self.main.git("worktree", "add", "-q", "--force", str(self.folder / f"of-{branch}"), branch)
        return at(self.folder / f"of-{branch}")

    def push(self) -> None:
        self.main.commit()
        self.main.git("push", "-q", "origin", "main")

    def state(self) -> list[object]:
        """All that a refused command must leave as it is."""
        seen: list[object] = [shown("--git-dir", str(self.remote), "for-each-ref")]
        for one in self.made:
            files = [path for path in one.root.rglob("*") if path.is_file() and ".git" not in path.parts]
            seen.append({path: path.read_bytes() for path in files})
            seen += [shown("-C", str(one.root), *words) for words in (["status", "--porcelain"], ["for-each-ref"])]
        return seen


def run(*words: str) -> None:
    subprocess.run(["git", *words], check=True, capture_output=True)


def shown(*words: str) -> str:
    """What git prints, also if it fails."""
    done = subprocess.run(["git", *words], check=False, capture_output=True, text=True)
    return done.stdout + done.stderr


def at(root: Path) -> Repository:
    """The repository that is at `root` already."""
    made = Repository.__new__(Repository)
    made.root = root
    return made


def configured(root: Path) -> Repository:
    made = at(root)
    made.git("config", "user.email", "a@example.org")
    made.git("config", "user.name", "A")
    return made


def clean(kind: Kind) -> None:
    """The plain one."""


def changed(kind: Kind) -> None:
    kind.main.append("README.md")


def staged(kind: Kind) -> None:
    kind.main.append("lib/a.nix")
    kind.main.git("add", "lib/a.nix")


def deleted(kind: Kind) -> None:
    (kind.main.root / "README.md").unlink()


def edited_spec(kind: Kind) -> None:
    kind.main.write(SPEC_PATH, SPEC.replace("my-org", "our-org"))


def edited_spec_with_another_one_staged(kind: Kind) -> None:
    kind.main.append(SPEC_PATH, "# staged\n")
    kind.main.git("add", "-A")
    edited_spec(kind)


def compiled(kind: Kind) -> None:
    assert kind.main.ci("--branch", "main") == 0
    assert kind.main.ci("recipes", "--branch", "main") == 0
    kind.main.git("add", PKGS)


def compiled_differently(kind: Kind) -> None:
    compiled(kind)
    kind.main.append(f"{PKGS}/{X90}.nix")


def untracked_elsewhere(kind: Kind) -> None:
    kind.main.write("scratch/notes.txt", "mine\n")


def untracked_in_the_way(kind: Kind) -> None:
    kind.main.write(f"{PKGS}/{X90}.nix", "mine\n")


def ignored_in_the_way(kind: Kind) -> None:
    kind.main.write(".gitignore", "/.flox/\n")
    kind.push()
    untracked_in_the_way(kind)


def folder_in_the_way(kind: Kind) -> None:
    kind.main.write(".github/BUILD_MATRIX.md/notes.txt", "mine\n")


def link_in_the_way(kind: Kind) -> None:
    kind.main.write("elsewhere/kept", "mine\n")
    (kind.main.root / ".flox").symlink_to("elsewhere")


def detached(kind: Kind) -> None:
    kind.main.git("checkout", "-q", "--detach")


def linked_worktree(kind: Kind) -> None:
    kind.made.append(kind.worktree(OTHER))


def changed_linked_worktree(kind: Kind) -> None:
    linked_worktree(kind)
    kind.made[1].append("README.md")


def in_a_linked_worktree(kind: Kind) -> None:
    linked_worktree(kind)
    kind.made.reverse()
    kind.main.write(SPEC_PATH, SPEC)


def missing_worktree(kind: Kind) -> None:
    kind.worktree(OTHER).root.rename(kind.folder / "moved")


def twice_checked_out(kind: Kind) -> None:
    kind.made.append(kind.worktree("main"))


def shallow(kind: Kind) -> None:
    kind.made = [kind.clone("shallow", "--depth=1", "--no-single-branch")]


def single_branch(kind: Kind) -> None:
    kind.made = [kind.clone("single")]


def sparse(kind: Kind) -> None:
    kind.main.git("sparse-checkout", "set", "--cone", ".github")


def bare(kind: Kind) -> None:
    kind.made = [kind.clone("bare", "--bare")]
    kind.main.write(SPEC_PATH, SPEC)


def worktree_of_a_bare_repository(kind: Kind) -> None:
    bare(kind)
    kind.main.git("remote", "set-url", "origin", f"file://{kind.remote}")
    kind.made = [kind.worktree("main")]


def separate_git_folder(kind: Kind) -> None:
    kind.made = [kind.clone("separate", f"--separate-git-dir={kind.folder / 'elsewhere'}")]


def submodule_of_another(kind: Kind) -> None:
    run("init", "-q", str(kind.folder / "super"))
    outer = configured(kind.folder / "super")
    outer.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", f"file://{kind.remote}", "inner")
    kind.made = [configured(outer.root / "inner")]


def with_a_submodule(kind: Kind) -> None:
    kind.main.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", f"file://{kind.remote}", "sub")
    kind.push()


def with_a_submodule_at_another_commit(kind: Kind) -> None:
    with_a_submodule(kind)
    inner = configured(kind.main.root / "sub")
    inner.git("commit", "-q", "--allow-empty", "-m", "x")


def merging(kind: Kind) -> None:
    kind.main.git("checkout", "-q", "topic")
    kind.main.git("commit", "-q", "--allow-empty", "-m", "x")
    kind.main.git("checkout", "-q", "main")
    kind.main.git("merge", "-q", "--no-ff", "--no-commit", "topic")


def rebasing(kind: Kind) -> None:
    kind.main.write("lib/a.nix", "{ }: { }\n")
    kind.push()
    kind.main.git("-c", "sequence.editor=sed -i 1ibreak", "rebase", "-q", "-i", "HEAD~1")
    assert (kind.main.root / ".git/rebase-merge").is_dir()


def locked_index(kind: Kind) -> None:
    kind.main.write(".git/index.lock", "")


def locked_branch(kind: Kind) -> None:
    kind.main.write(f".git/refs/heads/{OTHER}.lock", "")


def changed_but_assumed_unchanged(kind: Kind) -> None:
    assert kind.main.ci("sync", "--push") == 0
    kind.main.git("update-index", "--assume-unchanged", f"{PKGS}/{X100}.nix")
    kind.main.append(f"{PKGS}/{X100}.nix")
    kind.main.write(SPEC_PATH, WITHOUT)


def crlf(kind: Kind) -> None:
    kind.made = [kind.clone("crlf", "-c", "core.autocrlf=true")]
    assert b"\r\n" in (kind.main.root / "README.md").read_bytes()


def with_hooks(kind: Kind) -> None:
    for name in ("post-checkout", "post-index-change", "reference-transaction", "pre-push", "post-merge"):
        kind.main.write(f".git/hooks/{name}", '#!/bin/sh\necho ran >>"$0.ran"\n')
        (kind.main.root / f".git/hooks/{name}").chmod(0o755)


def alias(kind: Kind) -> None:
    kind.main.git("branch", "-m", "main", "trunk")
    kind.main.git("symbolic-ref", "refs/heads/main", "refs/heads/trunk")


def split_index(kind: Kind) -> None:
    kind.main.git("update-index", "--split-index")


def executable_spec(kind: Kind) -> None:
    (kind.main.root / SPEC_PATH).chmod(0o755)
    kind.push()
    kind.main.append(SPEC_PATH, "# more\n")


def touched(kind: Kind) -> None:
    """As a copy, an archive, a restored cache of a job or an editor leaves it."""
    assert kind.main.ci("sync", "--push") == 0
    kind.main.commit()
    kind.worktree(OTHER)
    for path in kind.folder.rglob("*"):
        if path.is_file() and ".git" not in path.parts:
            os.utime(path, (1, 1))
    kind.main.write(SPEC_PATH, WITHOUT)


def copied(kind: Kind) -> None:
    assert kind.main.ci("sync", "--push") == 0
    shutil.copytree(kind.main.root, kind.folder / "copy")
    kind.made = [at(kind.folder / "copy")]
    kind.main.write(SPEC_PATH, WITHOUT)


def touched_and_changed(kind: Kind) -> None:
    touched(kind)
    kind.main.append("README.md")


def filtered(kind: Kind, pattern: str = "*.yml", *, clean: str = "sed s/cell/CELL/", smudge: str = "cat") -> None:
    kind.main.git("config", "filter.a.clean", clean)
    kind.main.git("config", "filter.a.smudge", smudge)
    kind.main.write(".gitattributes", f"{pattern} filter=a\n")
    kind.push()


def filtered_recipes(kind: Kind) -> None:
    filtered(kind, ".flox/pkgs/*", clean="sed s/torch/TORCH/")


def filtered_documents(kind: Kind) -> None:
    filtered(kind, "*.md")


def filtered_there_and_back(kind: Kind) -> None:
    filtered(kind, clean="tr a-z b-za", smudge="tr b-za a-z")


def filter_that_fails(kind: Kind) -> None:
    kind.main.git("config", "filter.a.required", "true")
    filtered(kind, smudge="false")


def crlf_by_attributes(kind: Kind) -> None:
    kind.main.write(".gitattributes", "* text=auto eol=crlf\n")
    kind.push()


KINDS: dict[Callable[[Kind], None], str] = {
    clean: "",
    changed: "tree-changed",
    staged: "tree-changed",
    deleted: "tree-changed",
    edited_spec: "",
    edited_spec_with_another_one_staged: "tree-changed",
    compiled: "",
    compiled_differently: "tree-changed",
    untracked_elsewhere: "",
    untracked_in_the_way: "tree-changed",
    ignored_in_the_way: "tree-changed",
    folder_in_the_way: "tree-changed",
    link_in_the_way: "git",
    detached: "",
    linked_worktree: "",
    changed_linked_worktree: "tree-changed",
    in_a_linked_worktree: "",
    missing_worktree: "checkout-busy",
    twice_checked_out: "",
    shallow: "",
    single_branch: "",
    sparse: "",
    bare: "git",
    worktree_of_a_bare_repository: "",
    separate_git_folder: "",
    submodule_of_another: "",
    with_a_submodule: "",
    with_a_submodule_at_another_commit: "tree-changed",
    merging: "checkout-busy",
    rebasing: "checkout-busy",
    locked_index: "checkout-busy",
    locked_branch: "git",
    changed_but_assumed_unchanged: "git",
    crlf: "",
    with_hooks: "",
    alias: "",
    split_index: "",
    executable_spec: "git",
    touched: "",
    copied: "",
    touched_and_changed: "tree-changed",
    filtered: "tree-changed",
    filtered_recipes: "tree-changed",
    filtered_documents: "tree-changed",
    filtered_there_and_back: "",
    filter_that_fails: "git",
    crlf_by_attributes: "",
}
"""What each kind is refused with; '' if it is brought to the new commit."""


@pytest.mark.slow
@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
def test_a_checkout_is_clean_at_the_new_commit_or_the_command_refused(
    tmp_path: Path, make: Callable[[Kind], None], capsys: pytest.CaptureFixture[str]
) -> None:
    kind = Kind(tmp_path)
    make(kind)
    before, untracked = kind.state(), [others(one) for one in kind.made]
    for mark in tmp_path.rglob("*.ran"):
        mark.unlink()
    capsys.readouterr()
    code = kind.main.ci("sync", "--push")
    said = capsys.readouterr().err
    if why := KINDS[make]:
        assert (code, kind.state()) == (2, before)
        assert f"[{why}]" in said.splitlines()[-1]
        return
    assert code == 0, said
    assert not list(tmp_path.rglob("*.ran"))
    for one, there in zip(kind.made, untracked, strict=True):
        follows_on(one)
        assert set(others(one)) <= set(there)
    for branch in ("main", OTHER):
        assert "name: cell" in shown("--git-dir", str(kind.remote), "show", f"{branch}:.github/workflows/cell.yml")


def follows_on(one: Repository) -> None:
    """The checkout is clean, and the next ordinary commit removes nothing."""
    assert one.git("status", "--porcelain", "--untracked-files=no") == ""
    one.git("commit", "-q", "--allow-empty", "-am", "the next ordinary commit")
    assert one.git("diff", "--name-only", "HEAD~1", "HEAD") == ""


def others(one: Repository) -> list[str]:
    """The untracked files."""
    return shown("-C", str(one.root), "ls-files", "--others").splitlines()


def test_files_are_added_and_removed_in_a_repository_with_sha256(tmp_path: Path) -> None:
    kind = Kind(tmp_path, with_sha256)
    recipe = f"{PKGS}/{X100}.nix"
    for spec, there in ((SPEC, True), (WITHOUT, False)):
        kind.main.write(SPEC_PATH, spec)
        assert kind.main.ci("sync", "--push") == 0
        assert (kind.main.root / recipe).exists() is there
        follows_on(kind.main)


def test_the_variables_of_a_hook_lead_to_no_other_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = Kind(tmp_path)
    linked_worktree(kind)
    with monkeypatch.context() as hook:
        hook.setenv("GIT_DIR", str(kind.main.root / ".git"))
        hook.setenv("GIT_INDEX_FILE", str(kind.main.root / ".git/index"))
        assert kind.main.ci("sync") == 0
    for one in kind.made:
        follows_on(one)


def test_a_dry_run_says_what_the_run_would_refuse_and_prints_the_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = Kind(tmp_path)
    changed(kind)
    assert kind.main.ci("sync", "--dry-run") == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 2
    folder = kind.main.root
    assert f"warning: main: is checked out in {folder}, where files differ from the commit: README.md; commit," in err


def test_a_change_made_during_the_push_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kind = Kind(tmp_path)
    hook = kind.remote / "hooks/pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\necho '# meanwhile' >>'{kind.main.root / SPEC_PATH}'\n", "utf-8")
    hook.chmod(0o755)
    kind.main.write(SPEC_PATH, SPEC.replace("my-org", "our-org"))
    before = kind.main.git("rev-parse", "main")
    assert kind.main.ci("sync", "--push") == 2
    assert "error: " in capsys.readouterr().err
    assert kind.main.git("rev-parse", "main") == before
    assert (kind.main.root / SPEC_PATH).read_text("utf-8").endswith("# meanwhile\n")


# Branches of the remote.


def synced(tmp_path: Path) -> Kind:
    """All branches are pushed, and the spec here says something else now."""
    kind = Kind(tmp_path)
    assert kind.main.ci("sync", "--push") == 0
    kind.main.write(SPEC_PATH, WITHOUT)
    return kind


def on_remote(kind: Kind, *words: str) -> str:
    return kind.main.git("--git-dir", str(kind.remote), *words)


def refused(kind: Kind, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a sync says that moves nothing."""
    before = kind.state()
    capsys.readouterr()
    assert (kind.main.ci("sync", *words), kind.state()) == (2, before)
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    return line


@pytest.mark.parametrize("knows", ["", "fetched", "pruned"])
def test_a_branch_that_was_deleted_on_the_remote_is_not_pushed_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], knows: str
) -> None:
    kind = synced(tmp_path)
    kind.main.git("branch", "-q", "--set-upstream-to", f"origin/{OTHER}", OTHER)
    on_remote(kind, "update-ref", "-d", f"refs/heads/{OTHER}")
    if knows:
        kind.main.git("fetch", "-q", "origin", *(["--prune"] if knows == "pruned" else []))
    assert refused(kind, capsys, "--push") == (
        f"error: {OTHER}: origin no longer has {OTHER}; delete it here, or `git push origin {OTHER}` if it is to be "
        "there again [not-a-fast-forward]"
    )
    kind.main.git("push", "-q", "origin", OTHER)
    assert kind.main.ci("sync", "--push") == 0


def test_a_branch_that_the_remote_never_had_is_pushed(tmp_path: Path) -> None:
    kind = Kind(tmp_path)
    on_remote(kind, "update-ref", "-d", f"refs/heads/{OTHER}")
    kind.main.git("branch", "-q", "-D", OTHER)
    kind.main.git("update-ref", "-d", f"refs/remotes/origin/{OTHER}")
    kind.main.git("branch", "-q", "--track", OTHER, "origin/main")
    assert kind.main.ci("sync", "--push") == 0
    assert on_remote(kind, "rev-parse", OTHER) == kind.main.git("rev-parse", OTHER)


@pytest.mark.parametrize("branch", ["main", OTHER])
@pytest.mark.parametrize("fetched", [False, True])
def test_what_a_force_push_removed_is_not_pushed_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], branch: str, fetched: bool
) -> None:
    kind = synced(tmp_path)
    on_remote(kind, "update-ref", f"refs/heads/{branch}", f"{branch}~1")
    if fetched:
        kind.main.git("fetch", "-q", "origin")
    assert refused(kind, capsys, "--push") == (
        f"error: {branch}: origin no longer has commits of {branch} that are here; reset it, or `git push origin "
        f"{branch}` if they are to be there again [not-a-fast-forward]"
    )
    kind.main.git("push", "-q", "origin", branch)
    assert kind.main.ci("sync", "--push") == 0


def test_commits_that_the_remote_never_had_are_pushed(tmp_path: Path) -> None:
    kind = synced(tmp_path)
    kind.main.git("commit", "-q", "--allow-empty", "-m", "mine")
    assert kind.main.ci("sync", "--push") == 0


@pytest.mark.parametrize("branch", ["main", OTHER])
@pytest.mark.parametrize("own", [False, True])
def test_a_branch_that_lacks_commits_of_its_remote_is_not_moved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], branch: str, own: bool
) -> None:
    kind = synced(tmp_path)
    another = kind.clone("another", f"--branch={branch}")
    for _ in range(2):
        another.git("commit", "-q", "--allow-empty", "-m", "of others")
    another.git("push", "-q", "origin", branch)
    kind.main.git("fetch", "-q", "origin")
    if own:
        tree = kind.main.git("rev-parse", f"{branch}^{{tree}}")
        commit = kind.main.git("commit-tree", tree, "-p", branch, "-m", "mine")
        kind.main.git("update-ref", f"refs/heads/{branch}", commit)
    said = f"{branch}: lacks 2 commits of origin/{branch}; pull them first [not-a-fast-forward]"
    assert refused(kind, capsys) == f"error: {said}"
    assert kind.main.ci("sync", "--dry-run") == 0
    assert f"warning: {said}" in capsys.readouterr().err.splitlines()
