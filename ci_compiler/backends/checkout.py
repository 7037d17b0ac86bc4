"""The checkout that a stage works in: its contents, and checking out a branch, as `flox publish` requires."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from ci_compiler.checkout import head_branch
from ci_compiler.codes import Code
from ci_compiler.errors import failure
from ci_compiler.git import Git
from ci_compiler.process import ask

REMOTE = "origin"
"""What actions/checkout calls the repository that it clones."""

_SECONDS = 300.0


class JobCheckout:
    """The git checkout at `root`. Raises InputError if `root` is not a checkout, StageError with git's message."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._git = Git(root)

    def commit(self) -> str:
        """The commit that is checked out."""
        return self._git.resolve("HEAD")

    def tree_id(self) -> str:
        """The tree of the commit: the same for every commit with the same files."""
        return self._run("rev-parse", "HEAD^{tree}").strip()

    def changed(self, *paths: str) -> tuple[str, ...]:
        """The files below `paths` (default: all) that differ from the commit, including untracked files."""
        untracked = "--untracked-files=all" if paths else "--untracked-files=no"
        listed = self._run("status", "--porcelain", "--no-renames", "-z", untracked, "--", *paths)
        return tuple(entry[3:] for entry in listed.split("\0") if entry[2:3] == " ")

    def history(self, paths: Sequence[str], most: int) -> tuple[str, ...]:
        """At most `most` commits that changed what is at `paths`, the newest first. A shallow clone has few of them."""
        return tuple(self._run("rev-list", f"--max-count={most}", "HEAD", "--", *paths).split())

    def resolve(self, commit: str) -> str:
        """The whole hash of `commit`, which may be abbreviated, or the name of a branch or a tag."""
        return self._git.resolve(commit)

    def tip(self, branch: str) -> str:
        """The commit of the remote's `branch`, as it was last fetched."""
        return self._git.resolve(f"refs/remotes/{REMOTE}/{branch}")

    def require(self, branch: str, commit: str) -> None:
        """Raises if `commit` is not on the remote's `branch`, or if the clone is too shallow to tell."""
        if self._run("rev-parse", "--is-shallow-repository").strip() == "true":
            message = (
                "the clone is shallow; publishing needs the full history: fetch-depth: 0, or `git fetch --unshallow`"
            )
            raise failure(os.fspath(self._root), Code.SHALLOW_CLONE, message)
        tip = self.tip(branch)
        if not self._git.has_ancestor(self._git.resolve(commit), tip):
            message = f"{commit} is not on {REMOTE}/{branch} (which is at {tip}); push it first"
            raise failure(branch, Code.COMMIT_NOT_ON_BRANCH, message)

    @contextmanager
    def tree(self, commit: str) -> Iterator[Path]:
        """The files of `commit`, without what the checkout adds or changes, in a temporary folder.

        The folder has the name of the checkout's, which a recipe that copies it makes part of a store path.
        """
        with TemporaryDirectory(prefix="ci-runner-tree-", ignore_cleanup_errors=True) as temporary:
            folder = Path(temporary, self._root.resolve().name)
            add = ("-c", f"core.hooksPath={os.devnull}", "worktree", "add", "--quiet", "--detach")
            self._run(*add, os.fspath(folder), commit)
            try:
                yield folder
            finally:
                self._run("worktree", "remove", "--force", os.fspath(folder))

    def put_on(self, branch: str, commit: str) -> None:
        """Checks out `branch` at `commit`, with the remote's branch as its upstream, and discards nothing.

        Raises if tracked files are changed, if the local branch has commits that the remote's branch lacks, or if it is
        checked out in another worktree, whose files would stay behind.
        """
        self._require_clean("publishing")
        upstream = f"{REMOTE}/{branch}"
        own = self._git.heads().get(branch)
        if own and not self._git.has_ancestor(own, self._git.resolve(f"refs/remotes/{upstream}")):
            raise failure(branch, Code.BRANCH_AHEAD, f"has commits that {upstream} lacks; push them first")
        if head_branch(self._root) != branch and any(name == branch for _, name in self._git.worktrees()):
            message = "is checked out in another worktree, whose files would not change; see `git worktree list`"
            raise failure(branch, Code.CHECKOUT_BUSY, message)
        if head_branch(self._root) != branch or self.commit() != commit:
            self._run("checkout", "--quiet", "-B", branch, commit)
        self._run("branch", "--quiet", f"--set-upstream-to={upstream}", branch)

    def put_at(self, commit: str) -> None:
        """Checks out `commit`, without a branch, and discards nothing. Raises if tracked files are changed."""
        self._require_clean("checking out another commit")
        self._run("checkout", "--quiet", "--detach", commit)

    def _require_clean(self, what: str) -> None:
        if changed := self.changed():
            more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            raise failure(changed[0], Code.TREE_CHANGED, f"differs from the commit{more}; {what} needs a clean tree")

    def _run(self, *arguments: str) -> str:
        env = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
        ended = ask([self._git.program, *arguments], seconds=_SECONDS, env=env, folder=self._root)
        if ended.status != 0:
            raise failure(os.fspath(self._root), Code.GIT, f"git {_command(arguments)}: {ended.said}")
        return ended.out


def _command(arguments: Sequence[str]) -> str:
    """The name of git's command, which may follow options such as `-c NAME=VALUE`."""
    return arguments[2] if arguments[0] == "-c" else arguments[0]
