"""`ci-compile update`: from the spec and the upstreams to the edited spec, with what changed and why.

    upstreams -> releases -> moves -> edits -> text
    git, index   final       lines    nixpkgs, sources

Nothing is written here. Any failure is an InputError, so that the spec stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, nearest, raise_any, wrong
from ci_compiler.spec.build import parse_spec
from ci_compiler.spec.load import Path_
from ci_compiler.spec.model import Spec
from ci_compiler.spec.upstream import Upstream
from ci_compiler.update.changes import Nixpkgs, edits, moved_tags
from ci_compiler.update.choice import Asked, Choice, Move, Offer, Offered, choose, leads, offered
from ci_compiler.update.editing import Edit, edited, repeated
from ci_compiler.update.pins import StalePin, stale_actions, stale_images, stale_nixpkgs, stale_own, stale_programs
from ci_compiler.update.release_pins import FILE, json_edited, of_table, stale_release_pins
from ci_compiler.update.remote import Remote
from ci_compiler.update.tool_values import stale_values

KINDS: Mapping[str, Callable[[Spec, Remote, Nixpkgs], Iterator[StalePin]]] = {
    "nixpkgs": stale_nixpkgs,
    "actions": stale_actions,
    "images": stale_images,
    "values": stale_values,
}
"""The pins that a spec can state, by the word that `ci-compile update` knows them by."""

Tables = Mapping[str, str]
"""The texts of the compiler's own tables of pins by path, in a checkout of the compiler."""


class Updated(NamedTuple):
    """The new text and the spec in it, the moves and pins that lead there, what kept other branches where they are.

    `files` are the new texts of other files of the repository, by path.
    """

    text: str
    spec: Spec
    moves: tuple[Move, ...]
    pins: tuple[StalePin, ...]
    findings: tuple[Finding, ...]
    files: Mapping[str, str]

    @property
    def branches(self) -> tuple[str, ...]:
        """The branches that change, each once."""
        named = [*(one.branch for one in self.moves), *(one.branch for one in self.pins)]
        return tuple(dict.fromkeys(filter(None, named)))


def updated(
    text: str, spec: Spec, asked: Asked, remote: Remote, *, new_branch: str = "", tables: Tables, now: float
) -> Updated:
    """`text` of `spec` with the releases that `asked` leads to. Raises InputError.

    The names of `KINDS` among the packages stand for these pins; values of axes are updated without a
    name as well. `now` is the time in seconds since 1970.

    With `new_branch`, the first branch of `asked` stays, and the new one, made from it, goes to the release; without a
    version in `asked`, to the newest.
    """
    shown = spec.document.file
    if new_branch:
        text = with_branch(text, spec, asked.branches[0], new_branch)
        spec = parse_spec(text.encode(), shown=shown)
        first = [one.name for one in leads(spec, spec.branches[new_branch], asked.packages)][:1]
        asked = asked._replace(branches=(new_branch,), packages=(*first,), leaves_line=not asked.to)
    raise_any(moved_tags(spec, asked, remote))
    kinds = [name for name in asked.packages if name in KINDS and name not in spec.packages]
    asked = asked._replace(packages=tuple(name for name in asked.packages if name not in kinds))
    choice, nixpkgs = Choice((), ()), Nixpkgs(remote)
    if asked.packages or not kinds:
        choice = choose(spec, asked, _offers(remote))
    kinds += ["values"] * (not asked.packages and not kinds)
    text = edited(text, edits(spec, choice.moves, remote, nixpkgs), shown=shown)
    after = parse_spec(text.encode(), shown=shown)
    pins = tuple(pin for kind in kinds for pin in KINDS[kind](after, remote, nixpkgs) if asked.covers(pin.branch))
    if "images" in kinds and FILE in tables:
        pins += tuple(stale_release_pins(tables[FILE], remote, now, fetch=True))
    pins = tuple(of_table(pin, tables) for pin in pins)
    text = edited(text, [edit for pin in pins if not pin.file for edit in pin.edits], shown=shown)
    by_file = {path: [edit for pin in pins if pin.file == path for edit in pin.edits] for path in tables}
    files = {path: json_edited(tables[path], edits_, shown=path) for path, edits_ in by_file.items() if edits_}
    return Updated(text, parse_spec(text.encode(), shown=shown), choice.moves, pins, choice.findings, files)


class Checked(NamedTuple):
    """What is stale: releases, pins, and what is wrong with what the spec has."""

    moves: tuple[Move, ...]
    pins: tuple[StalePin, ...]
    findings: tuple[Finding, ...]


def checked(spec: Spec, asked: Asked, remote: Remote, tables: Tables, programs: Mapping[str, str]) -> Checked:
    """What of the spec is stale, and of `tables` or else the versions of `programs` by name. Raises InputError.

    The packages of `asked` restrict it to themselves, and the names of `KINDS` among them to these pins.
    """
    named = tuple(name for name in asked.packages if name in spec.packages or name not in KINDS)
    kinds = [name for name in KINDS if not asked.packages or (name in asked.packages and name not in named)]
    offers, nixpkgs = _offers(remote), Nixpkgs(remote)
    choice = Choice((), ())
    pins: list[StalePin] = []
    found: list[Finding] = []
    if named or not asked.packages:
        choice = choose(spec, asked._replace(packages=named), offers)
        found = [*moved_tags(spec, asked, remote), *choice.findings]
    if not asked.packages:
        pins += stale_own(spec, remote, offers)
    for kind in kinds:
        with remote.lookup():
            pins += KINDS[kind](spec, remote, nixpkgs)
    if "images" in kinds:
        own = stale_release_pins(tables[FILE], remote, 0, fetch=False) if FILE in tables else None
        pins += stale_programs(remote, programs) if own is None else own
    pins = [pin for pin in pins if asked.covers(pin.branch)]
    return Checked(choice.moves, tuple(pins), (*found, *remote.unreachable))


def _offers(remote: Remote) -> Offer:
    """What upstreams offer, each looked up once. One that `remote` keeps as unreachable raises an empty InputError."""
    known: dict[tuple[str, str, str], Offered | None] = {}

    def offer(upstream: Upstream) -> Offered:
        key = (upstream.repository, upstream.tags, upstream.index)
        if key not in known:
            known[key] = None
            with remote.lookup():
                known[key] = offered(remote, upstream)
        if (found := known[key]) is None:
            raise InputError([])
        return found

    return offer


# A new branch, made from an existing one.


_LISTS = "branches"
"""The key of the lists of branches, wherever they are."""

_TABLES = {"also", "branches", "hash", "rev"}
"""The keys of tables by branch, outside the section `branches` itself."""


def with_branch(text: str, spec: Spec, source: str, name: str) -> str:
    """`text` of `spec` with the branch `name`, which has all that `source` has. Raises InputError."""
    if source not in spec.branches:
        message = f"unknown branch {source!r}{nearest(source, spec.branches)}"
        raise wrong("--branch", Code.UNKNOWN_BRANCH, message)
    if name in spec.branches:
        raise wrong("--new-branch", Code.DUPLICATE_NAME, f"the spec has the branch {name!r} already")
    shown = spec.document.file
    made = repeated(text, ("branches", source), name)
    made = edited(made, _references((), spec.document.value, source, name), shown=shown)
    parse_spec(made.encode(), shown=shown)
    return made


def _references(path: Path_, value: Any, source: str, name: str) -> Iterator[Edit]:
    """An edit for each list that has `source`, and each table that has a row for it, outside `branches` itself."""
    if isinstance(value, list) and path and path[-1] == _LISTS and source in value:
        yield Edit(path, [*value, name])
    if isinstance(value, dict):
        if path and path != ("branches",) and path[-1] in _TABLES and source in value:
            yield Edit((*path, name), value[source])
        for key, item in value.items():
            if path or key != "branches":
                yield from _references((*path, key), item, source, name)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _references((*path, index), item, source, name)
