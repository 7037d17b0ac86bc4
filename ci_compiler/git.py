"""Git, through its plumbing.

Nothing here touches a checkout, an index or uncommitted work (`sync.checkouts` does): `cat-file` and `ls-tree` read
trees, and a tree is written as objects before a ref moves to it.

A repository may come from anybody. Its hooks and the programs that its configuration names are not run, objects that it
lacks are not fetched, and a bare repository inside a folder is not entered. Only `list_remote`, `fetch` and `push`
reach a remote.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ci_compiler.checkout import EntryKind
from ci_compiler.codes import Code
from ci_compiler.errors import InputError, wrong

_KINDS = {"120000": EntryKind.LINK, "160000": EntryKind.SUBMODULE, "040000": EntryKind.FOLDER}
"""The kind of an entry of a tree by its mode; the other modes are those of files."""

_ONLINE = frozenset({"ls-remote", "fetch", "push"})
"""The commands that reach a remote."""

_SAFE = {
    "core.fsmonitor": "false",  # may name a program
    "core.hooksPath": os.devnull,
    "log.showSignature": "false",  # would run `gpg.program`
    "safe.bareRepository": "explicit",
    "core.quotePath": "false",
}
"""The settings of every command: https://git-scm.com/docs/git-config."""

_OFFLINE = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
"""Keeps a partial clone from fetching missing objects; git before 2.45 knows only the second variable."""

_ELSEWHERE = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR"})
"""The variables that a hook of git has, and that would lead git to another repository than the one at `root`."""

_SECONDS = 3600.0
"""The time limit of a command; a push may transfer much."""


class TreeEntry(NamedTuple):
    """An entry of a tree: its object's `name`, its kind, and the size of a file in bytes (0 if not asked for)."""

    name: str
    kind: EntryKind
    size: int = 0


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

        env = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
        env |= {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
        env |= {} if arguments[0] in _ONLINE else _OFFLINE
        env |= extra
        settings = [word for key, value in _SAFE.items() for word in ("-c", f"{key}={value}")]
        command = [self.program, "-C", os.fspath(self.root), *settings, *arguments]
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

    def _answer(self, *arguments: str) -> str:
        """What git prints; '' if it fails."""
        try:
            return self._run(*arguments).strip()
        except InputError:
            return ""

    def resolve(self, revision: str) -> str:
        """The commit that `revision` names. The error for a commit that is missing says if the clone is shallow."""
        try:
            return self._run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}").strip()
        except InputError:
            message = f"no commit is called {revision!r} here{self.shallow_hint()}"
            raise wrong(self.root, Code.UNKNOWN_REVISION, message) from None

    def nearest_tag(self, pattern: str) -> str:
        """The tag that matches `pattern` and is the nearest ancestor of what is checked out. Raises InputError."""
        return self._run("describe", "--tags", "--abbrev=0", f"--match={pattern}").strip()

    def tags_at(self, revision: str) -> list[str]:
        """The tags of a commit. Raises InputError for an unknown revision."""
        return self._run("tag", "--points-at", self.resolve(revision)).splitlines()

    def shallow_hint(self) -> str:
        """For the message about a missing commit: that the clone is shallow; '' if it is not."""
        shallow = self._run("rev-parse", "--is-shallow-repository").strip() == "true"
        return "; the clone is shallow: `git fetch --unshallow`, or fetch-depth: 0 in checkout" if shallow else ""

    def merge_base(self, one: str, other: str) -> str:
        """The nearest common ancestor of two commits; `one` if they have none."""
        return self._answer("merge-base", one, other) or one

    def tree_of(self, commit: str) -> str:
        """The name of the tree of `commit`."""
        return self._run("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}").strip()

    def tree(self, commit: str, *folders: str) -> dict[str, str]:
        """The blobs of `commit` by path, in `folders` or, without any, in the whole tree."""
        blobs = {EntryKind.FILE, EntryKind.LINK}
        return {path: one.name for path, one in self.entries(commit, *folders).items() if one.kind in blobs}

    def entries(self, commit: str, *paths: str) -> dict[str, TreeEntry]:
        """Everything in `commit` by path, folders included: at `paths` and below or, without any, the whole tree."""
        listed = self._run("ls-tree", "-r", "-t", "-z", "--full-tree", commit, "--", *paths)
        split = (entry.split("\t", 1) for entry in listed.split("\0") if entry)
        return {path: _tree_entry(meta) for meta, path in split}

    def entry(self, commit: str, path: str) -> TreeEntry | None:
        """The entry of `commit` at `path`, relative to `root`; None if there is none."""
        listed = self._run("ls-tree", "-z", "--long", commit, "--", path)
        return _tree_entry(listed.split("\t")[0]) if listed else None

    def versions(self, commit: str, path: str) -> list[str]:
        """The blobs that `path` has had in the history of `commit`, the newest first."""
        listed = self._run("rev-list", "--objects", "--full-history", commit, "--", path)
        return [line.split(" ", 1)[0] for line in listed.splitlines() if line.endswith(f" {path}")]

    def merged(self, base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
        """The file that has both changes of `base`; None if they conflict."""
        with tempfile.TemporaryDirectory(prefix="ci-compile-", ignore_cleanup_errors=True) as scratch:
            files = [Path(scratch) / name for name in ("ours", "base", "theirs")]
            for file, content in zip(files, (ours, base, theirs), strict=True):
                file.write_bytes(content)
            try:
                return self._start(["merge-file", "-p", "-q", *map(os.fspath, files)], "", {})
            except InputError:
                return None

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

    def heads(self, of: str = "heads") -> dict[str, str]:
        """The commit of each local branch, or of each branch of a remote as it was last fetched (`remotes/origin`)."""
        folder = f"refs/{of}/"
        listed = self._run("for-each-ref", "--format=%(refname)%00%(objectname)", folder)
        return dict(line.removeprefix(folder).split("\0") for line in listed.splitlines())

    def parents(self, commit: str) -> list[str]:
        """The parents of `commit`; none if the repository does not have it."""
        return self._answer("rev-parse", f"{commit}^@").split()

    def has_ancestor(self, one: str, other: str) -> bool:
        """Whether the repository has the commit `one`, and it is `other` or an ancestor of it."""
        return self._answer("merge-base", one, other) == one

    def write_tree(self, parent: str, changes: Mapping[str, str | None]) -> str:
        """Writes the tree of the commit `parent`, a whole hash, with files changed (None: removed)."""
        gone = "0" * len(parent)
        blobs = self._write_blobs(changes).items()
        lines = (f"100644 {blob}\t{path}\0" if blob else f"0 {gone}\t{path}\0" for path, blob in blobs)
        with tempfile.TemporaryDirectory(prefix="ci-compile-", ignore_cleanup_errors=True) as scratch:
            environment = {"GIT_INDEX_FILE": os.fspath(Path(scratch, "index"))}
            self._run("read-tree", parent, **environment)
            self._run("update-index", "-z", "--index-info", stdin="".join(lines), **environment)
            return self._run("write-tree", **environment).strip()

    def _write_blobs(self, texts: Mapping[str, str | None]) -> dict[str, str]:
        """The blobs of `texts` by path, written to the repository by one process; None has the blob ''."""
        with tempfile.TemporaryDirectory(prefix="ci-compile-", ignore_cleanup_errors=True) as scratch:
            files = {path: Path(scratch, str(number)) for number, path in enumerate(texts) if texts[path] is not None}
            for path, file in files.items():
                file.write_bytes((texts[path] or "").encode())
            names = "".join(f"{file}\n" for file in files.values())
            blobs = self._run("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=names) if names else ""
        return dict.fromkeys(texts, "") | dict(zip(files, blobs.split(), strict=True))

    def commit_tree(self, tree: str, parent: str, message: str, identity: Mapping[str, str] | None = None) -> str:
        """Makes a commit of `tree` on `parent`; `identity` has variables for git, such as the author."""
        return self._run("commit-tree", tree, "-p", parent, "-m", message, **(identity or {})).strip()

    def date(self, commit: str) -> str:
        """When `commit` was made, as seconds and a time zone."""
        return self._run("log", "-1", "--format=%cd", "--date=raw", commit).strip()

    def lacking(self, without: str, commit: str) -> list[str]:
        """The commits in the history of `commit` that the history of `without` lacks."""
        return self._run("rev-list", commit, f"^{without}").split()

    def was_at(self, remote: str, branch: str) -> list[str]:
        """The commits at which this repository saw the `branch` of `remote`, as far as it knows."""
        ref = f"refs/remotes/{remote}/{branch}"
        return [
            *self._answer("rev-parse", ref, "--").split()[:1],
            *self._answer("log", "-g", "--format=%H", ref).split(),
        ]

    def follows(self, remote: str, branch: str) -> bool:
        """Whether the local `branch` was made from the one of this name of `remote`, or pushed as it."""
        there = [self._answer("config", "--get", f"branch.{branch}.{key}") for key in ("remote", "merge")]
        return there == [remote, f"refs/heads/{branch}"]

    def move_refs(self, moves: Mapping[str, tuple[str, str]], *, trial: bool = False) -> None:
        """Moves all branches or none: name -> (new commit, the commit that it must be at now). `trial`: moves none."""
        steps = "".join(f"update refs/heads/{name}\0{new}\0{old}\0" for name, (new, old) in moves.items())
        self._run("update-ref", "-z", "--stdin", stdin=f"start\0{steps}prepare\0{'abort' if trial else 'commit'}\0")

    def target(self, branch: str) -> str:
        """The branch that moves with `branch`: itself, unless it is a symbolic ref to another one."""
        found = self._run("for-each-ref", "--format=%(symref)", f"refs/heads/{branch}").partition("\n")[0]
        return found.removeprefix("refs/heads/") or branch

    def address(self, remote: str) -> str:
        """The URL of a remote. Raises InputError if there is no such remote."""
        return self._run("config", "--get", f"remote.{remote}.url").strip()

    def list_remote(self, remote: str, environment: Mapping[str, str]) -> dict[str, str]:
        """The commit of each branch that `remote` has now.

        `environment` has further variables for git, such as a credential.
        """
        listed = self._run("ls-remote", "--heads", "--", remote, **environment)
        return {ref.removeprefix("refs/heads/"): commit for commit, ref in map(str.split, listed.splitlines())}

    def fetch(self, remote: str, branches: Collection[str], *, environment: Mapping[str, str]) -> None:
        """Fetches the commits of `branches` of `remote`, and moves no ref; `environment` as in `list_remote`."""
        if branches:
            refs = [f"refs/heads/{name}" for name in branches]
            self._run("fetch", "--quiet", "--no-write-fetch-head", "--no-tags", "--", remote, *refs, **environment)

    def message(self, commit: str) -> str:
        """The message of a commit."""
        return self._run("log", "-1", "--format=%B", commit)

    def push(
        self,
        remote: str,
        commits: Mapping[str, str],
        *,
        environment: Mapping[str, str],
        replaced: Mapping[str, str] | None = None,
    ) -> None:
        """Pushes commits to branches of `remote` (name -> commit), all of them or none.

        Never by force, except to branches in `replaced`, which must be at the commit given there ('': be new).
        `environment` as in `list_remote`.
        """
        leases = [f"--force-with-lease=refs/heads/{name}:{commit}" for name, commit in (replaced or {}).items()]
        refs = [f"{'+' * (name in (replaced or {}))}{commit}:refs/heads/{name}" for name, commit in commits.items()]
        self._run("push", "--atomic", "--porcelain", *leases, "--", remote, *refs, **environment)

    def worktrees(self) -> list[tuple[Path, str]]:
        """The folder of each worktree of the repository, with the branch that is checked out there ('': none)."""
        found: list[tuple[Path, str]] = []
        for line in self._run("worktree", "list", "--porcelain").splitlines():
            word, _, rest = line.partition(" ")
            if word == "worktree":
                found.append((Path(rest), ""))
            elif word == "branch":
                found[-1] = (found[-1][0], rest.removeprefix("refs/heads/"))
        return found


def _tree_entry(meta: str) -> TreeEntry:
    """The entry that a line of `ls-tree`, with or without `--long`, describes before its tab."""
    mode, _, name, *size = meta.split()
    kind = _KINDS.get(mode, EntryKind.FILE)
    return TreeEntry(name=name, kind=kind, size=int(size[0]) if size and size[0].isdigit() else 0)


def _remedy(reason: str) -> str:
    """How to remove a lock that a killed git left behind; '' for other reasons."""
    match = re.search(r"Unable to create '(.+\.lock)': File exists", reason)
    return f" If no other git is running, delete {match[1]}" if match else ""
