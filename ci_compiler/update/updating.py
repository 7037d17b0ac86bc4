"""`ci-compile update`: from the spec and the upstreams to the edited spec, with what changed and why.

    upstreams -> releases -> moves -> edits -> text
    git, index   final       lines    nixpkgs, sources

Nothing is written here. Any failure is an InputError, so that the spec stays as it was.
"""

from __future__ import annotations

from typing import NamedTuple

from ci_compiler.errors import Finding, InputError
from ci_compiler.spec.build import parse_spec
from ci_compiler.spec.model import Spec
from ci_compiler.spec.upstream import Upstream
from ci_compiler.update.changes import Nixpkgs, edits, moved_tags
from ci_compiler.update.choice import Asked, Choice, Move, Offered, choose, leads, offered
from ci_compiler.update.editing import edited
from ci_compiler.update.new_branch import with_branch
from ci_compiler.update.remote import Remote


class Updated(NamedTuple):
    """The new text and the spec in it, the moves that lead there, and what kept other branches where they are."""

    text: str
    spec: Spec
    moves: tuple[Move, ...]
    findings: tuple[Finding, ...]


def updated(text: str, spec: Spec, asked: Asked, remote: Remote, *, new_branch: str = "") -> Updated:
    """`text` of `spec` with the releases that `asked` leads to. Raises InputError.

    With `new_branch`, the first branch of `asked` stays, and the new one, made from it, goes to the release; without a
    version in `asked`, to the newest.
    """
    shown, offers = spec.document.file, _Offers(remote)
    if new_branch:
        text = with_branch(text, spec, asked.branches[0], new_branch)
        spec = parse_spec(text.encode(), shown=shown)
        first = [one.name for one in leads(spec, spec.branches[new_branch], asked.packages)][:1]
        asked = asked._replace(branches=(new_branch,), packages=(*first,), leaves_line=not asked.to)
    if findings := list(moved_tags(spec, remote)):
        raise InputError(findings)
    choice: Choice = choose(spec, asked, offers.of)
    made = edited(text, edits(spec, choice.moves, remote, Nixpkgs(remote)), shown=shown)
    return Updated(made, parse_spec(made.encode(), shown=shown), choice.moves, choice.findings)


class _Offers:
    """What upstreams offer, each looked up once."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        self._found: dict[tuple[str, str, str], Offered] = {}

    def of(self, upstream: Upstream) -> Offered:
        key = (upstream.repository, upstream.tags, upstream.index)
        if key not in self._found:
            self._found[key] = offered(self._remote, upstream)
        return self._found[key]
