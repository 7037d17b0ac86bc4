"""`ci-compile update`: from the spec and the upstreams to the edited spec, with what changed and why.

    upstreams -> releases -> moves -> edits -> text
    git, index   final       lines    nixpkgs, sources

Nothing is written here. Any failure is an InputError, so that the spec stays as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ci_compiler.errors import Finding, InputError
from ci_compiler.spec.build import parse_spec
from ci_compiler.spec.model import Spec
from ci_compiler.spec.upstream import Upstream
from ci_compiler.update.changes import Nixpkgs, edits, moved_tags
from ci_compiler.update.choice import Asked, Choice, Move, Offered, choose, leads, offered
from ci_compiler.update.editing import edited
from ci_compiler.update.new_branch import with_branch
from ci_compiler.update.pins import KINDS, StalePin, stale_programs
from ci_compiler.update.remote import Remote


class Updated(NamedTuple):
    """The new text and the spec in it, the moves and pins that lead there, what kept other branches where they are."""

    text: str
    spec: Spec
    moves: tuple[Move, ...]
    pins: tuple[StalePin, ...]
    findings: tuple[Finding, ...]

    @property
    def branches(self) -> tuple[str, ...]:
        """The branches that change, each once."""
        named = [*(one.branch for one in self.moves), *(one.branch for one in self.pins)]
        return tuple(dict.fromkeys(filter(None, named)))


def updated(text: str, spec: Spec, asked: Asked, remote: Remote, *, new_branch: str = "") -> Updated:
    """`text` of `spec` with the releases that `asked` leads to. Raises InputError.

    The names `nixpkgs` and `actions` among the packages stand for these pins. With `new_branch`, the first branch of
    `asked` stays, and the new one, made from it, goes to the release; without a version in `asked`, to the newest.
    """
    shown = spec.document.file
    if new_branch:
        text = with_branch(text, spec, asked.branches[0], new_branch)
        spec = parse_spec(text.encode(), shown=shown)
        first = [one.name for one in leads(spec, spec.branches[new_branch], asked.packages)][:1]
        asked = asked._replace(branches=(new_branch,), packages=(*first,), leaves_line=not asked.to)
    if findings := list(moved_tags(spec, remote)):
        raise InputError(findings)
    kinds = [name for name in asked.packages if name in KINDS and name not in spec.packages]
    asked = asked._replace(packages=tuple(name for name in asked.packages if name not in kinds))
    choice, nixpkgs = Choice((), ()), Nixpkgs(remote)
    if asked.packages or not kinds:
        choice = choose(spec, asked, _Offers(remote).of)
    text = edited(text, edits(spec, choice.moves, remote, nixpkgs), shown=shown)
    after = parse_spec(text.encode(), shown=shown)
    pins = tuple(pin for kind in kinds for pin in KINDS[kind](after, remote, nixpkgs) if asked.covers(pin.branch))
    text = edited(text, [edit for pin in pins for edit in pin.edits], shown=shown)
    return Updated(text, parse_spec(text.encode(), shown=shown), choice.moves, pins, choice.findings)


class Checked(NamedTuple):
    """What is stale: releases, pins, and what is wrong with what the spec has."""

    moves: tuple[Move, ...]
    pins: tuple[StalePin, ...]
    findings: tuple[Finding, ...]


def checked(spec: Spec, asked: Asked, remote: Remote, programs: Mapping[str, str]) -> Checked:
    """What of the spec, and of the versions of `programs` by name, is stale. Raises InputError."""
    named = tuple(name for name in asked.packages if name in spec.packages or name not in KINDS)
    choice, nixpkgs = choose(spec, asked._replace(packages=named), _Offers(remote).of), Nixpkgs(remote)
    pins = [pin for find in KINDS.values() for pin in find(spec, remote, nixpkgs) if asked.covers(pin.branch)]
    found = (*moved_tags(spec, remote), *choice.findings)
    return Checked(choice.moves, (*pins, *stale_programs(remote, programs)), found)


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
