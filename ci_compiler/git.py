"""Git, through its plumbing; the branch of a checkout is read without starting it.

Nothing here touches a checkout, an index or uncommitted work: `cat-file` and `ls-tree` read trees, and a tree is
written as objects before a ref moves to it.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ci_compiler.codes import Code
from ci_compiler.errors import InputError, wrong


def head_branch(root: Path) -> str:
    """The branch that the checkout at `root` is on; '' if it is on none. Does not start git."""
    try:
        text = (_git_folder(root) / "HEAD").read_text("utf-8").strip()
    except (OSError, ValueError):  # no checkout, or files that git did not write
        return ""
    return text.removeprefix("ref: refs/heads/") if text.startswith("ref: refs/heads/") else ""


def _git_folder(root: Path) -> Path:
    """`.git`, or the folder that the file of this name in a linked worktree points to."""
    entry = root / ".git"
    if entry.is_file():
        return root / entry.read_text("utf-8").strip().removeprefix("gitdir: ")
    return entry


_LINK = "120000"
"""The mode of a symbolic link in a tree."""

_SECONDS = 3600.0
"""The time limit of a command; a push may transfer much."""


class TreeEntry(NamedTuple):
    """An entry of a tree: its object's `name`, whether it is a `plain` file, the file's `size` in bytes."""

    name: str
    plain: bool
    size: int


class Git:
    """The repository at `root`. Every method raises InputError with git's own message."""

    def __init__(self, root: Path) -> None:
        """Raises InputError if `root` is no git repository or git is not installed."""
        from ci_compiler.process import find_program  # not at the top: `head_branch` alone must import little

        self.root = root
        self.program = find_program("git", install="on Debian: `apt-get install git`", code=Code.GIT_MISSING)
        self._run("rev-parse", "--git-dir")

    def _start(self, arguments: Sequence[str], stdin: str, extra: Mapping[str, str]) -> bytes:
        from ci_compiler.process import ask

        env = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C", **extra}
        command = [self.program, "-C", os.fspath(self.root), "-c", "core.quotePath=false", *arguments]
        with tempfile.TemporaryFile() as out:  # in the caller's group: ssh may ask for a passphrase
            ended = ask(command, seconds=_SECONDS, env=env, stdin=stdin, out=out, group=False)
            if ended.status:
                said = ended.err.strip().splitlines()
                reason = said[0].removeprefix("fatal: ") if said else f"git {arguments[0]} ended with {ended.status}"
                raise wrong(self.root, Code.GIT, reason + _remedy(reason))
            out.seek(0)
            return out.read()

    def _run(self, *arguments: str, stdin: str = "", **extra: str) -> str:
        return self._start(arguments, stdin, extra).decode(errors="replace")

    def resolve(self, revision: str) -> str:
        """The commit that `revision` names. The error for a commit that is missing says if the clone is shallow."""
        try:
            return self._run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}").strip()
        except InputError:
            message = f"no commit is called {revision!r} here{self.shallow_hint()}"
            raise wrong(self.root, Code.UNKNOWN_REVISION, message) from None

    def shallow_hint(self) -> str:
        """For the message about a missing commit: that the clone is shallow; '' if it is not."""
        shallow = self._run("rev-parse", "--is-shallow-repository").strip() == "true"
        return "; the clone is shallow: `git fetch --unshallow`, or fetch-depth: 0 in checkout" if shallow else ""

    def merge_base(self, one: str, other: str) -> str:
        """The nearest common ancestor of two commits; `one` if they have none."""
        try:
            return self._run("merge-base", one, other).strip()
        except InputError:
            return one

    def tree(self, commit: str, *folders: str) -> dict[str, str]:
        """The blobs of `commit` by path, in `folders` or, without any, in the whole tree."""
        listed = self._run("ls-tree", "-r", "-z", "--full-tree", commit, "--", *folders)
        entries = (entry.split("\t", 1) for entry in listed.split("\0") if entry)
        return {path: meta.split()[2] for meta, path in entries}

    def entry(self, commit: str, path: str) -> TreeEntry | None:
        """The entry of `commit` at `path`, relative to `root`; None if there is none."""
        listed = self._run("ls-tree", "-z", "--long", commit, "--", path)
        if not listed:
            return None
        mode, kind, name, size = listed.split("\t")[0].split()
        plain = kind == "blob" and mode != _LINK
        return TreeEntry(name=name, plain=plain, size=int(size) if kind == "blob" else 0)

    def changed(self, base: str, head: str) -> dict[str, str]:
        """The paths that differ between two commits, with git's status letters (A, M, D, T). A rename is two paths."""
        words = self._run("diff-tree", "-r", "-z", "--no-renames", "--name-status", base, head).split("\0")
        return dict(zip(words[1::2], words[0::2], strict=False))

    def blobs(self, names: Sequence[str]) -> list[bytes]:
        """The contents of objects (`COMMIT:PATH` or hashes), by one process. Raises InputError for a missing one."""
        if not names:
            return []
        answer = self._start(["cat-file", "--batch"], "\n".join(names) + "\n", {})
        contents, at = [], 0
        for name in names:
            end = answer.index(b"\n", at)
            header = answer[at:end].split()
            if len(header) != 3:
                raise wrong(self.root, Code.GIT, f"{name} is not in the repository")
            size = int(header[2])
            contents.append(answer[end + 1 : end + 1 + size])
            at = end + 2 + size
        return contents

    def heads(self) -> dict[str, str]:
        """The commit of each local branch."""
        listed = self._run("for-each-ref", "--format=%(refname:short)%00%(objectname)", "refs/heads")
        return dict(line.split("\0") for line in listed.splitlines())

    def has_ancestor(self, one: str, other: str) -> bool:
        """Whether the repository has the commit `one`, and it is `other` or an ancestor of it."""
        try:
            return self._run("merge-base", one, other).strip() == one
        except InputError:
            return False

    def commit_tree(self, parent: str, changes: Mapping[str, str | None], message: str, index: Path) -> str:
        """Makes a commit on `parent` with files changed (None: removed), in a temporary index at the path `index`."""
        environment = {"GIT_INDEX_FILE": os.fspath(index)}
        self._run("read-tree", parent, **environment)
        entries = ""
        for path, text in changes.items():
            written = "" if text is None else self._run("hash-object", "-w", "--stdin", stdin=text).strip()
            entries += f"100644 {written}\t{path}\0" if written else f"0 {'0' * 40}\t{path}\0"
        self._run("update-index", "-z", "--index-info", stdin=entries, **environment)
        tree = self._run("write-tree", **environment).strip()
        return self._run("commit-tree", tree, "-p", parent, "-m", message).strip()

    def move_refs(self, moves: Mapping[str, tuple[str, str]]) -> None:
        """Moves all branches or none: name -> (new commit, the commit that it must be at now)."""
        steps = "".join(f"update refs/heads/{name}\0{new}\0{old}\0" for name, (new, old) in moves.items())
        self._run("update-ref", "-z", "--stdin", stdin=f"start\0{steps}prepare\0commit\0")

    def list_remote(self, remote: str) -> dict[str, str]:
        """The commit of each branch that `remote` has now."""
        listed = self._run("ls-remote", "--heads", "--", remote)
        return {ref.removeprefix("refs/heads/"): commit for commit, ref in map(str.split, listed.splitlines())}

    def push(self, remote: str, commits: Mapping[str, str]) -> None:
        """Pushes commits to branches of `remote` (name -> commit), all of them or none; never by force."""
        refs = [f"{commit}:refs/heads/{name}" for name, commit in commits.items()]
        self._run("push", "--atomic", "--porcelain", "--", remote, *refs)

    def checked_out(self) -> dict[str, Path]:
        """The branches that are checked out in any worktree of the repository, with the folder of the worktree."""
        found, folder = {}, self.root
        for line in self._run("worktree", "list", "--porcelain").splitlines():
            word, _, rest = line.partition(" ")
            if word == "worktree":
                folder = Path(rest)
            elif word == "branch":
                found[rest.removeprefix("refs/heads/")] = folder
        return found


def _remedy(reason: str) -> str:
    """How to remove a lock that a killed git left behind; '' for other reasons."""
    found = re.search(r"Unable to create '(.+\.lock)': File exists", reason)
    return f" If no other git is running, delete {found[1]}" if found else ""
