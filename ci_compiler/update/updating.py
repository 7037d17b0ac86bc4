"""`ci-compile update`: from the spec and the upstreams to the edited spec, with what changed and why.

    upstreams -> releases -> moves -> edits -> text
    git, index   final       lines    nixpkgs, sources

Nothing is written here. Any failure is an InputError, so that the spec stays as it was.

Where a tool decides the values of an axis, `update` runs the command that the spec declares, and writes what it lists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ci_compiler.adoption.audit import audit
from ci_compiler.adoption.audit_real import evaluate_branch
from ci_compiler.adoption.evaluator import written
from ci_compiler.backends.command_programs import shell
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, check_known, raise_any, wrong
from ci_compiler.outside import json_of, why
from ci_compiler.plan.lookup import built_variants
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.recipes.render import recipes
from ci_compiler.recipes.work_arounds import pieces
from ci_compiler.reports.diff_markdown import code
from ci_compiler.spec.axes import AxisRow
from ci_compiler.spec.build import parse_spec
from ci_compiler.spec.load import Path_
from ci_compiler.spec.model import Spec
from ci_compiler.spec.schema import schema
from ci_compiler.spec.shorthand.rows import short_pythons
from ci_compiler.spec.upstream import Upstream
from ci_compiler.units import counted, grouped
from ci_compiler.update.changes import Nixpkgs, edits, moved_tags
from ci_compiler.update.choice import Asked, Choice, Move, Offer, OfferedReleases, choose, is_written, leads, offered
from ci_compiler.update.editing import Edit, edited, repeated
from ci_compiler.update.own import Wanted, source_hash, tried
from ci_compiler.update.pins import StalePin, stale_actions, stale_images, stale_nixpkgs, stale_own, stale_programs
from ci_compiler.update.release_pins import FILE, json_edited, of_table, stale_release_pins
from ci_compiler.update.remote import Remote
from ci_compiler.variant import recipe_names

_MOST = 200
"""The most values that a command may list."""


def stale_values(spec: Spec, remote: Remote, _: Nixpkgs) -> Iterator[StalePin]:
    """The axes whose values are not those that their command lists.

    A matrix that has all values of the axis gets the new ones. A matrix that has some of them was chosen by a person.
    """
    for axis in spec.axes.values():
        if axis.values_from:
            listed = _listed(spec, axis, remote)
            edits = tuple(Edit(path, list(listed)) for path, now in _places(spec, axis) if now != listed)
            if edits:
                now = next(now for _, now in _places(spec, axis) if now != listed)
                why = f"{axis.values_from} lists other values"
                yield StalePin(f"values of {axis.name}", "", ", ".join(now), ", ".join(listed), why, edits)


def _places(spec: Spec, axis: AxisRow) -> Iterator[tuple[Path_, tuple[str, ...]]]:
    """Where the spec has all values of `axis`, and what it has there."""
    if axis.values:
        yield ("axes", axis.name, "values"), axis.values
    for path, matrix, _ in spec.matrices:
        if (now := matrix.values.get(axis.name)) and now == (axis.values or now):
            yield (*path, "values", axis.name), now
    if axis.name == "python":
        yield from short_pythons(spec.document)


def _listed(spec: Spec, axis: AxisRow, remote: Remote) -> tuple[str, ...]:
    """What the command of `axis` lists: JSON, or a value on each line. Raises InputError."""
    ended = remote.output(shell(axis.values_from))
    if ended.status:
        raise _wrong(spec, axis, f"ended with status {ended.status}: {ended.said or 'it printed nothing'}")
    text = ended.out.strip()
    try:
        values: Sequence[object] = json_of(text) if text.startswith("[") else text.split("\n")
    except OSError as error:
        raise _wrong(spec, axis, f"printed no list in JSON: it {why(error)}") from error
    if not text or not values:
        raise _wrong(spec, axis, "printed no value")
    words = tuple(value.strip() if isinstance(value, str) else "" for value in values)
    form = re.compile(schema()["$defs"]["axis-value"]["pattern"])
    if (bad := next((at for at, word in enumerate(words) if not form.search(word)), None)) is not None:
        raise _wrong(spec, axis, f"printed {str(values[bad])[:80]!r}, which is not a value of an axis")
    if len(words) > _MOST or len({*words}) < len(words):
        raise _wrong(spec, axis, f"must print at most {_MOST} values, each once")
    return words


def _wrong(spec: Spec, axis: AxisRow, problem: str) -> InputError:
    path = ("axes", axis.name, "values-from")
    return InputError([spec.finding(path, Code.WRONG_VALUE, f"the command {axis.values_from!r} {problem}")])


_COMMIT = re.compile(r"[0-9a-f]{40}")
_OVERLAID = re.compile(r"\b([\w-]+) = prev\.")


class TrueNixpkgs(NamedTuple):
    """The nixpkgs that a sample of the recipes is evaluated with; `folder` is None for the one that they fetch."""

    folder: Path | None


def judged(decided: Plan, done: Updated, templates: Mapping[str, str], true: TrueNixpkgs | None) -> list[str]:
    """A paragraph of Markdown for each branch of `decided` that `done` changes, on its compiled recipes.

    Without Nix, one says that nothing was evaluated. `true` also evaluates one variant per package and toolkit. Raises
    InputError if one has another version than the spec says.
    """
    if not decided.spec.backend.has_recipes:
        return []
    files = {branch: recipes(decided.spec, decided.judged, branch, templates) for branch in done.branches}
    count = len(done.files) + sum(map(len, done.elsewhere.values()))
    own = f"{counted(count, 'file')} edited; the recipes evaluate to what they did, but for the release."
    compiled = [_of_branch(decided, name, row, templates, true) for name, row in files.items() if row]
    return [*[own] * bool(count), *compiled]


def _of_branch(
    decided: Plan, branch: str, files: Mapping[str, str], templates: Mapping[str, str], true: TrueNixpkgs | None
) -> str:
    count = len(recipe_names(files))
    with written(files) as root:
        try:
            lines = [str(cause.line) for cause in audit(root, decided.spec, branch, templates=templates).defects]
            sample = list(_evaluated(root, decided, branch, true)) if true else []
        except InputError as error:
            return f"{code(branch)}: its {counted(count, 'recipe')} were not evaluated: {code(str(error.findings[0]))}"
    raise_any(line for line in sample if isinstance(line, Finding))
    head = f"{code(branch)}: {counted(count, 'recipe')} compiled and audited, {counted(len(lines), 'defect')}"
    return "\n".join([f"{head}.", "", *(f"- {code(str(line))}" for line in [*lines, *sample])]).rstrip()


def _evaluated(root: Path, decided: Plan, branch: str, true: TrueNixpkgs) -> Iterator[str | Finding]:
    """For each variant of the sample a line: its version with the true nixpkgs, or why it has none.

    A version that is not the declared one is an error instead.
    """
    first: dict[tuple[str, str], str] = {}
    for built in built_variants(decided):
        if built.cell.branch == branch:
            first.setdefault((built.variant.package, built.cell.toolkit), built.variant.name)
    done = evaluate_branch(root, decided, branch, true.folder, list(first.values())).done
    for (package, _), name in first.items():
        wanted, derivation = decided.spec.branches[branch].versions.get(package, ""), done.derivations.get(name)
        finding: Finding | None = done.findings.get(name)
        if finding:
            yield f"{name}: {finding.message} [{finding.code}]"
        elif derivation is None:
            yield f"{name}: not evaluated in time"
        elif derivation.version == wanted:
            yield f"{name}: nixpkgs evaluates to version {wanted}"
        else:
            path = ("branches", branch, "versions", package)
            message = f"{name} evaluates to version {derivation.version}; {branch} has {package} {wanted}"
            yield decided.spec.finding(path, Code.EVALUATION_DIFFERS, message)


def needless(decided: Plan, done: Updated, nixpkgs: Nixpkgs) -> list[str]:
    """A line for each work-around whose patch the nixpkgs of a changed branch has by itself. Raises InputError."""
    known = {piece.name: piece for piece in pieces()}
    lines = []
    for branch in done.branches:
        row = decided.spec.branches[branch]
        for name in row.work_arounds:
            overlay = known[name].overlay if name in known else decided.spec.work_arounds[name].overlay
            patches, attributes = _COMMIT.findall(overlay), _OVERLAID.findall(overlay)
            texts = [nixpkgs.text(row.nixpkgs, attribute) for attribute in attributes] if patches else []
            if any(patch in text for patch in patches for text in texts):
                lines.append(f"{code(branch)} no longer needs {code(name)}: its nixpkgs has the patch.")
    return lines


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

    `files` are the new texts of other files of the repository, by path, and `elsewhere` those of other branches.
    """

    text: str
    spec: Spec
    moves: tuple[Move, ...]
    pins: tuple[StalePin, ...]
    findings: tuple[Finding, ...]
    files: Mapping[str, str]
    elsewhere: Mapping[str, Mapping[str, str]]

    @property
    def branches(self) -> tuple[str, ...]:
        """The branches that change, each once."""
        named = [*(move.branch for move in self.moves), *(pin.branch for pin in self.pins)]
        return tuple(dict.fromkeys(filter(None, named)))


def updated(
    text: str, spec: Spec, asked: Asked, remote: Remote, *, new_branch: str = "", tables: Tables, now: float, here: str
) -> Updated:
    """`text` of `spec` with the releases that `asked` leads to. Raises InputError.

    `here` is the branch that is checked out. An own recipe that cannot be edited is an error if its package was named,
    and else a warning; then the package stays where it is, with those that follow it.

    The names of `KINDS` among the packages stand for these pins; values of axes are updated without a
    name as well. `now` is the time in seconds since 1970.

    With `new_branch`, the first branch of `asked` stays, and the new one, made from it, goes to the release; without a
    version in `asked`, to the newest.
    """
    shown = spec.document.file
    if new_branch:
        text = with_branch(text, spec, asked.branches[0], new_branch)
        spec = parse_spec(text.encode(), shown=shown)
        first = [package.name for package in leads(spec, spec.branches[new_branch], asked)][:1]
        asked = asked._replace(branches=(new_branch,), packages=(*first,), leaves_line=not asked.to)
    raise_any(moved_tags(spec, asked, remote))
    kinds = [name for name in asked.packages if name in KINDS and name not in spec.packages]
    asked = asked._replace(packages=tuple(name for name in asked.packages if name not in kinds))
    choice, nixpkgs = Choice((), ()), Nixpkgs(remote)
    if asked.packages or not kinds:
        choice = choose(spec, asked, _offers(remote))
    kinds += ["values"] * (not asked.packages and not kinds)
    moves, kept, own = _own(spec, choice.moves, asked, remote)
    text = edited(text, edits(spec, moves, remote, nixpkgs), shown=shown)
    after = parse_spec(text.encode(), shown=shown)
    pins = tuple(pin for kind in kinds for pin in KINDS[kind](after, remote, nixpkgs) if asked.covers(pin.branch))
    if "images" in kinds and FILE in tables:
        pins += tuple(stale_release_pins(tables[FILE], remote, now, fetch=True))
    pins = tuple(of_table(pin, tables) for pin in pins)
    text = edited(text, [edit for pin in pins if not pin.file for edit in pin.edits], shown=shown)
    by_file = {path: [edit for pin in pins if pin.file == path for edit in pin.edits] for path in tables}
    files = {path: json_edited(tables[path], edits_, shown=path) for path, edits_ in by_file.items() if edits_}
    files |= own.pop(here, {})
    elsewhere = {branch: texts for branch, texts in own.items() if texts}
    findings = (*choice.findings, *kept)
    return Updated(text, parse_spec(text.encode(), shown=shown), moves, pins, findings, files, elsewhere)


OwnTexts = dict[str, Mapping[str, str]]
"""The new texts of the files of own recipes, by branch and path."""


def _own(
    spec: Spec, moves: Sequence[Move], asked: Asked, remote: Remote
) -> tuple[tuple[Move, ...], list[Finding], OwnTexts]:
    """The moves that can be made, what keeps own recipes where they are, and the files of those that move.

    Raises InputError for a named package that cannot move.
    """
    files: OwnTexts = {}
    findings: list[Finding] = []
    stays: set[tuple[str, str]] = set()
    for branch in asked.checkouts:
        own = [move for move in moves if move.branch == branch and not is_written(spec.packages[move.package])]
        try:
            files[branch] = _edited(spec, branch, own, asked, remote)
        except InputError:
            if asked.packages:
                raise
            going: list[Move] = []
            for lead, group in grouped(own, lambda move: move.lead).items():
                try:
                    files[branch] = _edited(spec, branch, [*going, *group], asked, remote)
                    going += group
                except InputError as error:
                    findings.append(_kept(branch, lead, error.findings))
                    stays.add((branch, lead))
    return tuple(move for move in moves if (move.branch, move.lead) not in stays), findings, files


def _kept(branch: str, lead: str, findings: Sequence[Finding]) -> Finding:
    """A warning that `lead` stays on `branch`, for the first of several reasons."""
    more = f" ({counted(len(findings) - 1, 'more reason')})" if findings[1:] else ""
    message = f"{lead} stays on {branch}: {findings[0].message}{more}; see `ci-compile update {lead}` on {branch}"
    return replace(findings[0], message=message, tolerated=True)


def _edited(spec: Spec, branch: str, moves: Iterable[Move], asked: Asked, remote: Remote) -> dict[str, str]:
    """The new texts of the files of the own recipes of `branch`. Raises InputError for what cannot be edited."""
    own = {move.package: move for move in moves}
    wanted: dict[str, Wanted] = {}
    for built in built_variants(plan(spec)) if own else ():
        if built.cell.branch == branch and (move := own.get(built.variant.package)):
            wanted[built.variant.name] = Wanted(
                package=spec.packages[move.package].attribute,
                before=move.before,
                after=move.release.version,
                revisions={move.upstream.repository: move.release.tag, **asked.revisions},
                commit=move.release.commit,
                upstream=move.upstream.repository,
            )
    fetch = partial(source_hash, remote)
    return tried(asked.checkouts[branch], wanted, spec.hardware, fetch) if wanted else {}


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
    findings: list[Finding] = []
    if named or not asked.packages:
        choice = choose(spec, asked._replace(packages=named), offers)
        findings = [*moved_tags(spec, asked, remote), *choice.findings]
    if not asked.packages:
        pins += stale_own(spec, remote, offers)
    for kind in kinds:
        with remote.lookup():
            pins += KINDS[kind](spec, remote, nixpkgs)
    if "images" in kinds:
        own = stale_release_pins(tables[FILE], remote, 0, fetch=False) if FILE in tables else None
        pins += stale_programs(remote, programs) if own is None else own
    pins = [pin for pin in pins if asked.covers(pin.branch)]
    return Checked(choice.moves, tuple(pins), (*findings, *remote.unreachable))


def _offers(remote: Remote) -> Offer:
    """What upstreams offer, each looked up once. One that `remote` keeps as unreachable raises an empty InputError."""
    known: dict[tuple[str, str, str], OfferedReleases | None] = {}

    def offer(upstream: Upstream) -> OfferedReleases:
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
    check_known("--branch", Code.UNKNOWN_BRANCH, source, spec.branches)
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
