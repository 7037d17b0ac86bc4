"""Git: the little that is read without starting it, and its plumbing for all else.

Nothing here touches a checkout, an index or uncommitted work: trees are read by `cat-file` and `ls-tree`, and written
as objects that a ref is moved to when all is well.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci_compiler.errors import InputError, wrong


def head_branch(root: Path) -> str:
    """The branch that the checkout at `root` is on, '' where it is on none; git is not started for it."""
    try:
        text = (_git_folder(root) / "HEAD").read_text("utf-8").strip()
    except (OSError, ValueError):  # no checkout, or files that git did not write
        return ""
    return text.removeprefix("ref: refs/heads/") if text.startswith("ref: refs/heads/") else ""


def _git_folder(root: Path) -> Path:
    """`.git`, or where a linked worktree's file of that name points."""
    entry = root / ".git"
    if entry.is_file():
        return root / entry.read_text("utf-8").strip().removeprefix("gitdir: ")
    return entry


_LINK = "120000"
"""The mode of a symbolic link in a tree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeEntry:
    """An entry of a tree: its object's `name`, whether it is a `plain` file, the file's `size` in bytes."""

    name: str
    plain: bool
    size: int


class Git:
    """The repository at `root`, through git's plumbing. Every method raises InputError with git's own words."""

    def __init__(self, root: Path) -> None:
        """Raises InputError where `root` is no git repository, or git is not installed."""
        self.root = root
        self._run("rev-parse", "--git-dir")

    def _start(self, arguments: Sequence[str], stdin: bytes | None, extra: Mapping[str, str]) -> bytes:
        import subprocess

        quiet = {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
        command = ["git", "-C", os.fspath(self.root), "-c", "core.quotePath=false", *arguments]
        try:
            done = subprocess.run(
                command, input=stdin, capture_output=True, check=False, env={**os.environ, **quiet, **extra}
            )
        except FileNotFoundError:
            raise wrong(self.root, "git-missing", "git is not installed; on Debian: apt-get install git") from None
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            reason = said[0].removeprefix("fatal: ") if said else f"git {arguments[0]} ended with {done.returncode}"
            raise wrong(self.root, "git", reason + _remedy(reason))
        return done.stdout

    def _run(self, *arguments: str, stdin: str | None = None, **extra: str) -> str:
        return self._start(arguments, None if stdin is None else stdin.encode(), extra).decode(errors="replace")

    def resolve(self, revision: str) -> str:
        """The commit that `revision` names; a shallow clone that lacks it says so."""
        try:
            return self._run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}").strip()
        except InputError:
            message = f"no commit is called {revision!r} here{self.shallow_hint()}"
            raise wrong(self.root, "unknown-revision", message) from None

    def shallow_hint(self) -> str:
        """The clause that a missing commit may be one that a shallow clone lacks; '' where this is none."""
        shallow = self._run("rev-parse", "--is-shallow-repository").strip() == "true"
        return "; the clone is shallow: `git fetch --unshallow`, or fetch-depth: 0 in checkout" if shallow else ""

    def merge_base(self, one: str, other: str) -> str:
        """The nearest common ancestor of two commits; `one` where they have none."""
        try:
            return self._run("merge-base", one, other).strip()
        except InputError:
            return one

    def tree(self, commit: str, *folders: str) -> dict[str, str]:
        """The blobs of `commit` below `folders` (everything, if none) by path."""
        listed = self._run("ls-tree", "-r", "-z", "--full-tree", commit, "--", *folders)
        entries = (entry.split("\t", 1) for entry in listed.split("\0") if entry)
        return {path: meta.split()[2] for meta, path in entries}

    def entry(self, commit: str, path: str) -> TreeEntry | None:
        """What `commit` has at `path`, from the folder that the repository was opened at; None for nothing."""
        listed = self._run("ls-tree", "-z", "--long", commit, "--", path)
        if not listed:
            return None
        mode, kind, name, size = listed.split("\t")[0].split()
        plain = kind == "blob" and mode != _LINK
        return TreeEntry(name=name, plain=plain, size=int(size) if kind == "blob" else 0)

    def changed(self, base: str, head: str) -> dict[str, str]:
        """The paths that differ between two commits, with git's status letter (A, M, D, T); renames are two paths."""
        words = self._run("diff-tree", "-r", "-z", "--no-renames", "--name-status", base, head).split("\0")
        return dict(zip(words[1::2], words[0::2], strict=False))

    def blobs(self, names: Sequence[str]) -> list[bytes]:
        """The contents of objects (`COMMIT:PATH` or hashes), in one process. Raises InputError for a missing one."""
        if not names:
            return []
        answer = self._start(["cat-file", "--batch"], ("\n".join(names) + "\n").encode(), {})
        contents, at = [], 0
        for name in names:
            end = answer.index(b"\n", at)
            header = answer[at:end].split()
            if len(header) != 3:
                raise wrong(self.root, "git", f"{name} is not in the repository")
            size = int(header[2])
            contents.append(answer[end + 1 : end + 1 + size])
            at = end + 2 + size
        return contents

    def heads(self) -> dict[str, str]:
        """The commit of each local branch."""
        listed = self._run("for-each-ref", "--format=%(refname:short)%00%(objectname)", "refs/heads")
        return dict(line.split("\0") for line in listed.splitlines())

    def has_ancestor(self, one: str, other: str) -> bool:
        """Whether the commit `one` is here, and is `other` or came before it."""
        try:
            return self._run("merge-base", one, other).strip() == one
        except InputError:
            return False

    def commit_tree(self, parent: str, changes: Mapping[str, str | None], message: str, index: Path) -> str:
        """A commit on `parent` with files changed (None: removed), made in an index of its own at the path `index`."""
        environment = {"GIT_INDEX_FILE": os.fspath(index)}
        self._run("read-tree", parent, **environment)
        written = [path for path, text in changes.items() if text is not None]
        entries = [f"100644 {self._write(changes[path] or '')}\t{path}\0" for path in written]
        entries += [f"0 {'0' * 40}\t{path}\0" for path, text in changes.items() if text is None]
        self._run("update-index", "-z", "--index-info", stdin="".join(entries), **environment)
        tree = self._run("write-tree", **environment).strip()
        return self._run("commit-tree", tree, "-p", parent, "-m", message).strip()

    def _write(self, text: str) -> str:
        return self._run("hash-object", "-w", "--stdin", stdin=text).strip()

    def move_refs(self, moves: Mapping[str, tuple[str, str]]) -> None:
        """Moves branches, all of them or none: name -> (new commit, the commit it must be at now)."""
        steps = "".join(f"update refs/heads/{name}\0{new}\0{old}\0" for name, (new, old) in moves.items())
        self._run("update-ref", "-z", "--stdin", stdin=f"start\0{steps}prepare\0commit\0")

    def list_remote(self, remote: str) -> dict[str, str]:
        """The commit of each branch that `remote` has now."""
        listed = self._run("ls-remote", "--heads", "--", remote)
        return {ref.removeprefix("refs/heads/"): commit for commit, ref in map(str.split, listed.splitlines())}

    def push(self, remote: str, commits: Mapping[str, str]) -> None:
        """Makes `remote`'s branches (name -> commit) point there, all of them or none; never by force."""
        refs = [f"{commit}:refs/heads/{name}" for name, commit in commits.items()]
        self._run("push", "--atomic", "--porcelain", "--", remote, *refs)

    def checked_out(self) -> dict[str, Path]:
        """The branches that this or another worktree of the repository has checked out, with the worktree's folder."""
        found, folder = {}, self.root
        for line in self._run("worktree", "list", "--porcelain").splitlines():
            word, _, rest = line.partition(" ")
            if word == "worktree":
                folder = Path(rest)
            elif word == "branch":
                found[rest.removeprefix("refs/heads/")] = folder
        return found


def _remedy(reason: str) -> str:
    """What mends a lock that a git which was killed has left."""
    found = re.search(r"Unable to create '(.+\.lock)': File exists", reason)
    return f" where no other git is at work, delete {found[1]}" if found else ""
