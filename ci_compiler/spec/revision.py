"""The spec as it was: at a git revision, or in a file."""

from __future__ import annotations

from pathlib import Path

from ci_compiler.checkout import EntryKind
from ci_compiler.codes import Code
from ci_compiler.errors import InputError, wrong
from ci_compiler.git import Git
from ci_compiler.spec.build import bundled_spec, load_spec, parse_spec
from ci_compiler.spec.carried import SPEC
from ci_compiler.spec.load import LARGEST_FILE
from ci_compiler.spec.model import Spec


def base_spec(root: Path, base: str, path: str = SPEC, *, required: bool = False) -> Spec:
    """The spec of `base`: of that revision of the repository at `root`, else, where it is none, of the file `base`.

    `path` is the spec's, from `root`. A revision that lacks it had the bundled spec, unless it is `required`. Findings
    about a revision's spec call the file `BASE:path`. Raises InputError.
    """
    file = _file(base)
    try:
        git = Git(root)
    except InputError as error:
        if file is not None:
            return load_spec(file, shown=base)
        why = f"{error.findings[0].message}; give a spec file, or a revision where there is a repository"
        raise wrong(base, Code.NO_REPOSITORY, why) from None
    try:
        commit = git.resolve(base)
    except InputError:
        if file is not None:
            return load_spec(file, shown=base)
        message = f"is no revision of this repository, and no spec file{git.shallow_hint()}"
        raise wrong(base or "BASE", Code.UNKNOWN_BASE, message) from None
    return _spec_at(git, commit, path, shown=f"{base}:{path}", required=required)


def _file(name: str) -> Path | None:
    """The file called `name`; None where there is none, and for what no file can be called."""
    try:
        return path if (path := Path(name)).is_file() else None
    except OSError:
        return None


def _spec_at(git: Git, commit: str, path: str = SPEC, *, shown: str, required: bool) -> Spec:
    """The spec in `commit`, which exists."""
    entry = git.entry(commit, path)
    if entry is None:
        if required:
            raise wrong(shown, Code.SPEC_MISSING, "no such file at that revision")
        return bundled_spec()
    if entry.kind is not EntryKind.FILE:
        raise wrong(shown, Code.SPEC_UNREADABLE, "is no plain file at that revision; a spec is a YAML file")
    if entry.size > LARGEST_FILE:
        raise wrong(shown, Code.SPEC_TOO_LARGE, f"is larger than {LARGEST_FILE:,} bytes, the limit for a spec")
    (content,) = git.blobs([entry.name])
    return parse_spec(content, shown=shown)
