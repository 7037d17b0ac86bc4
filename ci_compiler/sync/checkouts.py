"""The checkouts of the branches that sync moves: clean at the new commit, or refused before anything moves.

A change that is not committed stops the sync, unless it is the very change that the new commit makes, as where the spec
was edited for this sync. Untracked files stay, and so do ignored ones; one at the path of a new file stops the sync.

Files are updated before the branch moves. A process that is killed in between leaves staged what the new commit has,
which is no obstacle to the next run. Git applies the repository's filters to the files, and runs no hook.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ci_compiler.checkout import git_folder, head_branch, rebased_branch
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, about
from ci_compiler.files.drift import plain
from ci_compiler.git import Git
from ci_compiler.sync.branches import BranchPlan

_IN_PROGRESS = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "index.lock")
"""The files and folders of git that show that a command is not done."""


class Checkout(Git):
    """The checkout at `root` of the branch that `plan` changes. Every method raises InputError with git's message."""

    def __init__(self, root: Path, plan: BranchPlan) -> None:
        super().__init__(root)
        self.plan = plan
        self._done: set[str] = set()

    def refusals(self) -> Iterator[Finding]:
        """Why the branch must not move: a command of git that is not done, or a change that would be lost."""
        for file in (Path(git_folder(self.root), name) for name in _IN_PROGRESS):
            if file.exists():
                rest = "`git status` says how to go on; a leftover lock can be deleted"
                yield _finding(self.plan, self.root, Code.CHECKOUT_BUSY, f"git is not done, as {file} shows; {rest}")
                return
        options = ("--porcelain", "-z", "--no-renames", "--untracked-files=no", "--ignore-submodules=dirty")
        states = {entry[3:]: entry[:2] for entry in self._run("status", *options).split("\0") if entry}
        tracked = {path.casefold() for path in self._run("ls-files", "-z").split("\0")}
        untracked = [path for path in self.plan.changes if path not in states and path.casefold() not in tracked]
        self._done = {path for path in (*states, *untracked) if self._has(path)}
        lost = [path for path, state in states.items() if " " not in state or path not in self._done]
        lost += [path for path in untracked if os.path.lexists(self.root / path) and path not in self._done]
        if lost:
            shown = ", ".join(lost[:3]) + " …" * (len(lost) > 3)
            problem = f"files differ from the commit: {shown}; commit, discard or move them first"
            yield _finding(self.plan, self.root, Code.TREE_CHANGED, problem)

    def update(self, commit: str, *, trial: bool) -> None:
        """Brings files and index to `commit`, whose parent is that of the plan; a `trial` only finds out if git can."""
        with tempfile.TemporaryDirectory(prefix="ci-compile-", ignore_cleanup_errors=True) as scratch:
            # A copy with its time, which says what git must compare.
            extra = {"GIT_INDEX_FILE": shutil.copy2(Path(git_folder(self.root), "index"), scratch)} if trial else {}
            self._run("update-index", "-q", "--refresh", **extra)  # files that were only touched have not changed
            self._run("update-index", "--add", "--remove", "-z", "--stdin", stdin="\0".join(self._done), **extra)
            self._run("read-tree", "-m", "-u", *["--dry-run"] * trial, self.plan.parent, commit, **extra)
        if trial and (filtered := self._filtered(commit)):
            shown = ", ".join(filtered[:3]) + " …" * (len(filtered) > 3)
            problem = f"filters of git change compiled files: {shown}; exclude them in .gitattributes"
            raise InputError([_finding(self.plan, self.root, Code.TREE_CHANGED, problem)])

    def _filtered(self, commit: str) -> list[str]:
        """The new files of `commit` that would differ from it once they are checked out: a filter makes them others."""
        with tempfile.TemporaryDirectory(prefix="ci-compile-", ignore_cleanup_errors=True) as scratch:
            extra = {"GIT_INDEX_FILE": f"{scratch}/.index", "GIT_WORK_TREE": scratch}
            paths = [path for path, text in self.plan.changes.items() if text is not None]
            self._run("read-tree", commit, **extra)
            self._run("checkout-index", "-z", "--stdin", stdin="\0".join(paths), **extra)
            self._run("update-index", "-q", "--refresh", **extra)
            return self._run("diff-files", "-z", "--name-only", "--diff-filter=M", **extra).split("\0")[:-1]

    def _has(self, path: str) -> bool:
        """Whether the file at `path` is what the plan makes it."""
        text, file = self.plan.changes.get(path), self.root / path
        if text is None:
            return path in self.plan.changes and not os.path.lexists(file)
        return file.is_file() and plain(file.read_bytes()) == text.encode()


def checkouts(git: Git, plans: Iterable[BranchPlan]) -> tuple[list[Checkout], list[Finding]]:
    """The checkouts of local branches that `plans` change, and why they must not move."""
    local = git.heads()
    moving = [plan for plan in plans if plan.changes and plan.branch in local]
    names = {name: plan for plan in moving for name in (plan.branch, git.target(plan.branch))}
    own = head_branch(git.root)
    found: dict[Path, Checkout] = {}
    findings = []
    for folder, branch in [(git.root, own), *git.worktrees()]:
        plan = names.get(branch or rebased_branch(folder))
        if plan is None or folder.resolve() in found:
            continue
        if (folder / ".git").exists():
            found[folder.resolve()] = Checkout(folder, plan)
        elif branch != own:  # what git lists as the folder of this checkout may be where its git folder is
            findings.append(_finding(plan, folder, Code.CHECKOUT_BUSY, "nothing is; run `git worktree prune`"))
    return [*found.values()], [*findings, *(finding for checkout in found.values() for finding in checkout.refusals())]


def write(
    git: Git,
    plans: Iterable[BranchPlan],
    commits: Mapping[str, str],
    updated: Sequence[Checkout],
    *,
    remote: str = "",
    environment: Mapping[str, str] | None = None,
) -> None:
    """Pushes `commits` to `remote` if given, and brings the checkouts `updated` and the local branches to them.

    `environment` has further variables for the push. A branch that only the remote has gets no local branch. Raises
    InputError, before anything moves, if a checkout or a branch cannot.
    """
    local, parents = git.heads(), {plan.branch: plan.parent for plan in plans}
    moves = {branch: (commits[branch], parents[branch]) for branch in commits.keys() & local}
    _move(git, moves, updated, trial=True)
    if remote:
        git.push(remote, {**parents, **commits}, environment=environment or {})
        _move(git, moves, updated, trial=True)  # a push takes its time
    _move(git, moves, updated, trial=False)


def _move(git: Git, moves: Mapping[str, tuple[str, str]], updated: Iterable[Checkout], *, trial: bool) -> None:
    """Brings the checkouts, then the branches to their new commits; a `trial` only finds out if git can."""
    for checkout in updated:
        checkout.update(moves[checkout.plan.branch][0], trial=trial)
    git.move_refs(moves, trial=trial)


def _finding(plan: BranchPlan, folder: Path, code: Code, problem: str) -> Finding:
    return about(plan.branch, code, f"is checked out in {folder}, where {problem}")
