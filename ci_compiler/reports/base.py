"""The spec as it was: at a git revision, or in a file."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from ci_compiler.errors import Finding, InputError, Place
from ci_compiler.spec.build import bundled_spec, load_spec, parse_spec
from ci_compiler.spec.load import LARGEST_FILE
from ci_compiler.spec.model import Spec

_NO_GIT = 127
_LINK = b"120000"


def base_spec(root: Path, base: str, path: str, *, required: bool = False) -> Spec:
    """The spec of `base`: of that revision of the repository at `root`, else, where it is none, of the file `base`.

    `path` is the spec's, from `root`. A revision that lacks it had the bundled spec, unless it is `required`. Findings
    about a revision's spec call the file `BASE:path`. Raises InputError.
    """
    file = _file(base)
    told = _git(root, "rev-parse", "--is-shallow-repository")
    if told.returncode:
        if file is not None:
            return load_spec(file, shown=base)
        what = "git is not installed" if told.returncode == _NO_GIT else _last_words(told)
        raise _wrong(base, "no-repository", f"{what}; give a spec file, or a revision where there is a repository")
    found = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{base}^{{commit}}")
    if found.returncode == 0:
        return _spec_at(root, found.stdout.decode().strip(), path, shown=f"{base}:{path}", required=required)
    if file is not None:
        return load_spec(file, shown=base)
    message = "is no revision of this repository, and no spec file"
    if told.stdout.strip() == b"true":
        message += "; this clone is shallow, so `git fetch --unshallow` may bring it (actions/checkout: fetch-depth: 0)"
    raise _wrong(base or "BASE", "unknown-base", message)


def _file(name: str) -> Path | None:
    """The file called `name`; None where there is none, and for what no file can be called."""
    try:
        return path if (path := Path(name)).is_file() else None
    except OSError:
        return None


def _spec_at(root: Path, commit: str, path: str, *, shown: str, required: bool) -> Spec:
    """The spec in `commit`, which exists."""
    listed = _git(root, "ls-tree", "-z", "--long", commit, "--", path)
    if listed.returncode:
        raise _wrong(shown, "spec-unreadable", _last_words(listed))
    if not listed.stdout:
        if required:
            raise _wrong(shown, "spec-missing", "no such file at that revision")
        return bundled_spec()
    mode, kind, blob, size = listed.stdout.split(b"\t")[0].split()
    if kind != b"blob" or mode == _LINK:
        raise _wrong(shown, "spec-unreadable", "is no plain file at that revision; a spec is a YAML file")
    if int(size) > LARGEST_FILE:
        raise _wrong(shown, "spec-too-large", f"larger than {LARGEST_FILE:,} bytes, which no spec is")
    content = _git(root, "cat-file", "blob", blob.decode())
    if content.returncode:
        raise _wrong(shown, "spec-unreadable", _last_words(content))
    return parse_spec(content.stdout, shown=shown)


def _git(root: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Runs git in `root`, speaking English; the shell's 127 where there is none."""
    command = ["git", "-C", str(root), *arguments]
    try:
        return subprocess.run(command, capture_output=True, check=False, env={**os.environ, "LC_ALL": "C"})
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, _NO_GIT, b"", b"")


def _last_words(done: subprocess.CompletedProcess[bytes]) -> str:
    """What git said of its failure, on one line."""
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return next((line.removeprefix("fatal: ") for line in lines if line.startswith("fatal: ")), "git failed")


def _wrong(file: str, code: str, message: str) -> InputError:
    return InputError([Finding(place=Place(file=file), code=code, message=message)])
