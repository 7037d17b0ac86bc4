"""The files that `sync` carries as they are: the spec, its schema, templates and overlays.

They are edited on the default branch, which is the first branch of the spec. A version that another branch has and that
is in no commit of the default branch's history is a change that was made elsewhere. Carrying the files would lose it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from ci_compiler.checkout import EntryKind
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, about, raise_any
from ci_compiler.git import Git
from ci_compiler.spec.carried import carried_paths, default_branch
from ci_compiler.spec.load import parse_document
from ci_compiler.spec.model import Spec
from ci_compiler.units import counted

_SHOWN = 3
"""The most changed settings that a finding lists."""


class OtherEdit(NamedTuple):
    """A version of the file at `path` that only `branch` has, with the version that it was made from ('': none)."""

    branch: str
    path: str
    base: bytes
    text: bytes


def other_edits(
    git: Git, tips: Mapping[str, str], known: Mapping[str, str], files: Mapping[str, str]
) -> Iterator[OtherEdit]:
    """The versions of `files` at the tip of each branch that the history of the commit `known[branch]` does not have.

    `tips` has the commit of each branch. A version that is the same as in `files` is no edit.
    """
    for path, text in files.items():
        histories = {commit: git.versions(commit, path) for commit in set(known.values())}
        for branch, tip in tips.items():
            entry = git.entries(tip, path).get(path)
            theirs = histories[known[branch]]
            if entry is None or entry.kind is not EntryKind.FILE or entry.name in theirs:
                continue
            (there,) = git.blobs([entry.name])
            if there == text.encode():
                continue
            base = next((one for one in git.versions(tip, path) if one in set(theirs)), "")
            yield OtherEdit(branch=branch, path=path, base=git.blobs([base])[0] if base else b"", text=there)


def edits_of_request(git: Git, spec: Spec, branch: str, default: str) -> list[Finding]:
    """The findings about carried files that the checked-out commit, which is for `branch`, edits itself.

    `default` is the commit of the default branch.
    """
    head, name = git.resolve("HEAD"), default_branch(spec)
    files = dict.fromkeys(carried_paths(spec), "")
    rest = f"; edit it on {name}, from which `ci-compile sync` carries it to {branch}"
    edits = other_edits(git, {branch: head}, {branch: default}, files)
    return [about(edit.path, Code.EDITED_ELSEWHERE, f"changes {changes(edit)}{rest}") for edit in edits]


def take(git: Git, files: Mapping[str, str], edits: Iterable[OtherEdit]) -> dict[str, str]:
    """`files` with `edits` merged into them, line by line. Raises InputError for those that conflict."""
    taken, findings = dict(files), []
    for edit in edits:
        merged = git.merged(edit.base, taken[edit.path].encode(), edit.text)
        if merged is None:
            message = "conflicts with the version here; make the change here by hand, then give --drop"
            findings.append(_finding(edit, f"{message} {edit.branch}"))
        else:
            taken[edit.path] = merged.decode(errors="replace")
    raise_any(findings)
    return taken


def refuse(edits: Iterable[OtherEdit], default: str) -> None:
    """Raises InputError with each of `edits`, what it changes, and the options that resolve it."""
    raise_any(
        _finding(
            edit,
            f"changes {changes(edit)}, which {'this checkout' if edit.branch == default else default} does not have; "
            f"--take {edit.branch} takes it over, --drop {edit.branch} drops it",
        )
        for edit in edits
    )


def changes(edit: OtherEdit) -> str:
    """What `edit` changes: the settings of a spec by their dotted paths, or else lines."""
    from ci_compiler.reports.diff import settings  # most commands do not need it

    try:
        before, after = (parse_document(text, shown=edit.path).value for text in (edit.base, edit.text))
        found: Collection[str] = [name for name, _, _ in settings(before, after)]
    except InputError:
        found = []
    if not found:
        old, new = (set(text.splitlines()) for text in (edit.base, edit.text))
        return counted(len(old ^ new), "line")
    more = len(found) - _SHOWN
    return ", ".join(list(found)[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _finding(edit: OtherEdit, message: str) -> Finding:
    return about(f"{edit.branch}:{edit.path}", Code.EDITED_ELSEWHERE, message)
