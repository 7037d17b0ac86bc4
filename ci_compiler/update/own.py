"""Own recipes that go to another release: their literals are edited, and the evaluation judges the result.

    evaluation -> literals -> evaluation        -> hashes -> evaluation
    old values    edited      sources that moved   fetched   differs in nothing else

Nothing is written here.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from pathlib import Path

from ci_compiler.adoption.checkouts import AdoptedCheckout, evaluate_all
from ci_compiler.adoption.comparison import short
from ci_compiler.adoption.evaluation import EvaluatedSource, Evaluation
from ci_compiler.adoption.evaluator import find_recipes, name_of
from ci_compiler.adoption.spec_forms import sri
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, Place, about, raise_any
from ci_compiler.hardware import Hardware
from ci_compiler.outside import bytes_of, decoded, reading
from ci_compiler.recipes.compiled import NIXPKGS
from ci_compiler.update.literals import edited, hashes, in_form, swapped
from ci_compiler.update.remote import Remote

Texts = Mapping[Path, str]
Evaluations = Mapping[Path, Evaluation]
Evaluate = Callable[[Texts], Mapping[Path, Evaluation | Finding]]
"""What recipes evaluate to when the files of their folder have these texts."""

Fetch = Callable[[EvaluatedSource], str]
"""The hash of a source, in the form sha256-BASE64. Raises InputError."""

_STORE = re.compile(r"/nix/store/[0-9a-z]{32}-")
_ADDRESS = re.compile(
    r"https://github\.com/(?P<owner>[\w.-]+)/(?P<repo>[\w.-]+)/(?:archive|tarball)/(?P<rev>.+?)(?:\.tar\.gz)?"
)
COMMIT = re.compile(r"[0-9a-f]{40}")
_REVISION = re.compile(r"[0-9a-f]{40}|.*\d[._]\d.*")
_DISTINCT = re.compile(r".{40,}|.*\d[._]\d+[._]\d.*")
"""What cannot be anything else: a GPU architecture is a number like the version 9.0."""

_STATES = re.compile(r"version|name|description|meta|url|rev|hash|fetched", re.IGNORECASE)
"""The names of values that a short version may stand in."""

_NOT_COMPARED = {"path", "places", "drv_path", "derivation", "torches", "propagated_torch", "imports", "reads", "place"}
_OF_THE_PIN = {"name", "version", "unknown"}


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The release that recipes go to: the version of `package`, and the revisions of its sources by OWNER/NAME.

    `commit`: what a source that names a commit goes to, where its revision here is a tag. `upstream`: the repository
    that the recipes need not have a source of.
    """

    package: str
    before: str = ""
    after: str = ""
    revisions: Mapping[str, str] = field(default_factory=dict)
    commit: str = ""
    upstream: str = ""


def rewritten(
    texts: Texts, before: Evaluations, wanted: Mapping[Path, Wanted], evaluate: Evaluate, fetch: Fetch
) -> dict[Path, str]:
    """The texts that change, with which the recipes of `wanted` go to the release, and all others of `before` stay.

    `texts` has every file that the recipes of `before` consist of. Raises InputError for what cannot be edited.
    """
    swaps = {path: _swaps(before[path], wanted[path]) for path in wanted}
    known = {f"{source.owner}/{source.repo}" for path in wanted for source in sources_of(before[path])}
    for path, one in wanted.items():
        if absent := one.revisions.keys() - known - {one.upstream}:
            raise InputError([refused(path, f"neither it nor the others have a source of {', '.join(sorted(absent))}")])
    made = _edited(texts, before, swaps)
    if any(one.before != one.after or one.revisions.keys() - {NIXPKGS} for one in wanted.values()):
        _check_hashes(texts, made, before.values())
    middle = _evaluated(made, evaluate)
    for path in wanted:
        swaps[path] |= dict(_moved(before[path], middle[path], wanted[path], fetch))
    made = _edited(texts, before, swaps)
    after, none = _evaluated(made, evaluate), Wanted(package="")
    raise_any(
        finding
        for path in before
        for finding in _judged(before[path], after[path], wanted.get(path, none), swaps.get(path, {}))
    )
    return {path: text for path, text in made.items() if text != texts[path]}


def refused(place: Place | Path, message: str) -> Finding:
    """The finding for what cannot be edited."""
    return about(place, Code.UPDATE_REFUSED, message)


def files_of(recipe: Evaluation) -> tuple[Path, ...]:
    """The files that state the versions, revisions and hashes of a recipe."""
    return (recipe.path, *recipe.imports, *(path for path in recipe.reads if path.suffix == ".json"))


def sources_of(recipe: Evaluation) -> list[EvaluatedSource]:
    """The sources, patches and archives that a recipe uses."""
    archives = (EvaluatedSource(name="", fetcher="fetchTarball", url=one.url, hash=one.hash) for one in recipe.fetched)
    return [_named(source) for source in (*recipe.used, *archives)]


def _named(source: EvaluatedSource) -> EvaluatedSource:
    """The source with the owner, name and revision that its address has."""
    match = _ADDRESS.fullmatch(source.url)
    if source.owner or not match:
        return source
    return replace(source, owner=match["owner"], repo=match["repo"], rev=match["rev"])


def _swaps(recipe: Evaluation, wanted: Wanted) -> dict[str, str]:
    """The new values of the version and of the revisions."""
    found = {wanted.before: wanted.after}
    for source in sources_of(recipe):
        revision = wanted.revisions.get(f"{source.owner}/{source.repo}", source.rev)
        if wanted.commit and COMMIT.fullmatch(source.rev) and not COMMIT.fullmatch(revision):
            revision = wanted.commit
        if revision != source.rev and _REVISION.fullmatch(source.rev):
            found[source.rev] = revision
    return found


def _edited(texts: Texts, before: Evaluations, swaps: Mapping[Path, Mapping[str, str]]) -> dict[Path, str]:
    """The texts with the swaps of every recipe that they belong to. Raises InputError where two recipes disagree."""
    of_file: dict[Path, dict[str, str]] = {}
    for path, own in swaps.items():
        for file in files_of(before[path]):
            known = of_file.setdefault(file, {})
            if any(known.get(old, new) != new for old, new in own.items()):
                raise InputError([refused(file, "the recipes that share it do not go to the same release")])
            known.update(own)
    return {**texts, **{file: edited(file, texts[file], own) for file, own in of_file.items()}}


def _evaluated(texts: Texts, evaluate: Evaluate) -> dict[Path, Evaluation]:
    found = evaluate(texts)
    if failed := {one for one in found.values() if isinstance(one, Finding)}:
        raise InputError(sorted(failed, key=lambda one: one.place))
    return {path: one for path, one in found.items() if isinstance(one, Evaluation)}


# Hashes.


def _moved(before: Evaluation, after: Evaluation, wanted: Wanted, fetch: Fetch) -> Iterator[tuple[str, str]]:
    """The new hash of each source that moved, by the old one. Raises InputError for one that cannot be fetched."""
    for old, new in zip(sources_of(before), sources_of(after), strict=False):
        if (old.rev, old.url) != (new.rev, new.url) and old.hash:
            if old.hash != new.hash:
                continue  # chosen by the version, as from a table: the judgement refuses it
            if new.owner and f"{new.owner}/{new.repo}" not in wanted.revisions:
                message = f"{new.owner}/{new.repo} would go to {new.rev}; name its revision with --revision"
                raise InputError([refused(new.place or before.path, message)])
            if new.others:
                where = new.place or before.path
                message = (
                    f"`{'`, `'.join(new.others)}` of {new.fetcher} decide its hash; build it to learn the new hash"
                )
                raise InputError([refused(where, message)])
            yield old.hash, in_form(old.hash, fetch(new))


def _check_hashes(texts: Texts, made: Texts, evaluations: Iterable[Evaluation]) -> None:
    """Raises InputError for each hash in a file that changes if no recipe has a source with it: what a build downloads.

    Sources for another system are among them: they are not evaluated.
    """
    known = {source.hash for recipe in evaluations for source in sources_of(recipe)}
    changed = [path for path, text in made.items() if text != texts[path]]
    unknown = [place for path in changed for found, place in hashes(path, texts[path]) if found not in known]
    if unknown:
        message = (
            "no source that is evaluated has this hash; build the new release to learn its hash, and edit it by hand"
        )
        raise InputError([refused(place, message) for place in unknown])


def source_hash(remote: Remote, source: EvaluatedSource) -> str:
    """The hash of a source as it is fetched now. Raises InputError, also where its hash is of something else."""
    repository = f"{source.owner}/{source.repo}"
    if source.fetcher in {"fetchFromGitHub", "fetchTarball"} and source.owner:
        commit = source.rev if COMMIT.fullmatch(source.rev) else remote.tags(repository).get(source.rev, "")
        if commit:
            return remote.hash(repository, commit, submodules=source.submodules)
    elif source.fetcher in {"fetchurl", "fetchPypi"} and source.url.startswith("http"):
        return sri(remote.checksum(source.url))
    message = f"the hash of {source.rev or source.url} by {source.fetcher} is not known here; edit it by hand"
    raise InputError([refused(source.place or Place(repository), message)])


# The judgement.


def _judged(before: Evaluation, after: Evaluation, wanted: Wanted, swaps: Mapping[str, str]) -> Iterator[Finding]:
    """A finding for each value that differs otherwise than wanted, and for what stays at the old release."""
    if len(before.nodes) != len(after.nodes):
        yield refused(before.path, "with the new release, it changes other packages than before")
    for old, new in zip(before.nodes, after.nodes, strict=False):
        own = swaps if old is before or _is_of(old, wanted) else {**swaps, wanted.before: wanted.before}
        values, made = _values(old), _values(new)
        for name in dict.fromkeys([*values, *made]):
            was, now = values.get(name, ""), made.get(name, "")
            if not _is_right(name, was, now, own) and not _by_pin(old, new, name, now, wanted):
                place = old.places.get(name.partition(".")[0], Place(str(before.path)))
                change = f"stay {short(was)}" if now == was else f"be {short(now)}; it is {short(was)}"
                yield refused(place, f"{old.pname}: {name} would {change}")
    yield from _stays(before, after, wanted)


def _is_right(name: str, was: str, now: str, swaps: Mapping[str, str]) -> bool:
    """Whether a value is the old one with `swaps`. Other packages and sources may stay."""
    of_another = "." in name and name.rpartition(".")[2] in {"name", "url", "rev"}
    if now == was:
        return of_another or now in {swapped(was, swaps), swapped(was, swaps, requirements=False)}
    changed = {old: new for old, new in swaps.items() if _STATES.search(name) or _DISTINCT.fullmatch(old)}
    return now in {swapped(was, changed), swapped(was, changed, requirements=False)}


def _by_pin(old: Evaluation, new: Evaluation, name: str, now: str, wanted: Wanted) -> bool:
    """Whether the nixpkgs that the recipe goes to decides a value: the versions of what it has from there."""
    if NIXPKGS not in wanted.revisions or "version" in old.sets:
        return False
    of_another = "." in name and name.rpartition(".")[2] == "name"
    known = _is_of(old, wanted) and "release" not in new.unknown
    return of_another or (name.partition(".")[0] in _OF_THE_PIN and (not known or wanted.after in now))


def _stays(before: Evaluation, after: Evaluation, wanted: Wanted) -> Iterator[Finding]:
    """A finding for each source that should go to the release and does not, and if no version moves."""
    old, new = sources_of(before), sources_of(after)
    for repository, revision in wanted.revisions.items():
        for rev in {one.rev for one in new if f"{one.owner}/{one.repo}" == repository} - {revision, wanted.commit}:
            yield refused(before.path, f"{repository} would stay at {rev}")
    for a, b in zip(old, new, strict=False):
        if (a.rev, a.url) == (b.rev, b.url) and a.hash != b.hash:
            yield refused(a.place or before.path, f"{a.url} stays, and has the hash of a source that does not")
    pairs = zip(before.nodes, after.nodes, strict=False)
    moves = any(a.version != b.version for a, b in pairs if a is before or _is_of(a, wanted))
    if wanted.before != wanted.after and not (moves or NIXPKGS in wanted.revisions or {*new} - {*old}):
        yield refused(before.path, f"nothing that it evaluates to has the version {wanted.before}")
    for source in before.sources if moves else ():
        if source in after.sources and not (source.owner and wanted.revisions):
            yield refused(before.path, f"its source would stay at {source.rev or source.url}")


def _is_of(node: Evaluation, wanted: Wanted) -> bool:
    """Whether a package inside a recipe has the version of the release."""
    return bool(wanted.package) and (
        wanted.package in {node.package, node.pname} or node.pname.startswith(f"{wanted.package}-")
    )


def _values(node: Evaluation) -> dict[str, str]:
    """What a package evaluates to, by name, without what is inside it."""
    found: dict[str, str] = {}
    for own in fields(node):
        if own.name not in {*_NOT_COMPARED, "torch", "inner", "sources"}:
            _flatten(own.name, getattr(node, own.name), found)
    return found


def _flatten(name: str, value: object, found: dict[str, str]) -> None:
    if is_dataclass(value) and not isinstance(value, type):
        value = {one.name: getattr(value, one.name) for one in fields(value)}
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key not in _NOT_COMPARED:
                _flatten(f"{name}.{key}", item, found)
    elif isinstance(value, list | tuple):
        for at, item in enumerate(value):
            _flatten(f"{name}.{at}", item, found)
    else:
        found[name] = _STORE.sub("/nix/store/", str(value))


# Trying it.


def tried(root: Path, wanted: Mapping[str, Wanted], hardware: Hardware, fetch: Fetch) -> dict[str, str]:
    """The new texts of the files of `root`, by their paths in it, with which the recipes `wanted` by name move.

    A copy of the folder is evaluated; `root` is not written to. Raises InputError for what cannot be edited.
    """
    with tempfile.TemporaryDirectory(prefix="ci-compile-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch).resolve() / root.resolve().name
        shutil.copytree(root, folder, ignore=_unread, symlinks=True)
        try:
            done = _tried(folder, wanted, hardware, fetch)
        except InputError as error:
            raise InputError(_as_in(root, folder, finding) for finding in error.findings) from None
    return {path.relative_to(folder).as_posix(): text for path, text in done.items()}


def _as_in(root: Path, folder: Path, finding: Finding) -> Finding:
    """A finding about a file of `folder`, about that of `root`."""

    def named(text: str) -> str:
        return text.replace(f"{folder}/", "").replace(str(folder), str(root))

    return replace(
        finding, place=finding.place._replace(file=named(finding.place.file)), message=named(finding.message)
    )


def _unread(_: str, names: list[str]) -> set[str]:
    """What recipes do not read: hidden files and folders, and what programs install."""
    return {name for name in names if (name[0] == "." and name != ".flox") or name == "node_modules"}


def _tried(folder: Path, wanted: Mapping[str, Wanted], hardware: Hardware, fetch: Fetch) -> dict[Path, str]:
    def evaluate(paths: Iterable[Path], texts: Texts) -> dict[Path, Evaluation | Finding]:
        for path, text in texts.items():
            path.write_text(text, "utf-8", newline="")
        checkout = AdoptedCheckout(folder=folder, branch="", recipes=tuple(paths))
        found, failed = evaluate_all([checkout], {path: path.name for path in checkout.recipes}, hardware)
        return {**found, **failed}

    every = {path: wanted.get(name_of(path)) for path in find_recipes(folder)}
    recipes = {path: one for path, one in every.items() if one}
    before = _evaluated({}, partial(evaluate, recipes))
    before = {path: _alone(one, every) for path, one in before.items()}
    if shared := {file for one in before.values() for file in files_of(one)} - {*recipes}:
        before |= dict(_sharing(evaluate(every.keys() - recipes.keys(), {}), every, shared))
    texts = {file: _read(file) for one in before.values() for file in files_of(one)}
    return rewritten(texts, before, recipes, partial(evaluate, before), fetch)


def _alone(recipe: Evaluation, every: Container[Path]) -> Evaluation:
    """A recipe without the other recipes that it imports."""
    return replace(recipe, imports=tuple(path for path in recipe.imports if path not in every))


def _sharing(
    others: Mapping[Path, Evaluation | Finding], every: Container[Path], shared: Collection[Path]
) -> Iterator[tuple[Path, Evaluation]]:
    """Those of `others` that have one of the `shared` files. Raises InputError for one that cannot be evaluated."""
    for path, one in others.items():
        if isinstance(one, Evaluation) and not {*files_of(one)}.isdisjoint(shared):
            yield path, _alone(one, every)
        elif isinstance(one, Finding) and any(file.name in _read(path) for file in shared):
            raise InputError([one])


def _read(file: Path) -> str:
    with reading(file, Code.UPDATE_REFUSED):
        return decoded(bytes_of(file))
