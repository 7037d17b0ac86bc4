"""What recipes evaluate to, as facts of a spec: versions, pins, and what recipes need of one another.

Of a large fleet, one recipe of each kind (branch, package, toolkit, kind of GPU) is evaluated; the others are taken to
be like it. A recipe that cannot be evaluated here is opaque: its facts stay open, and it is adopted all the same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ci_compiler.adoption.checkouts import AdoptedCheckout, evaluate_all
from ci_compiler.adoption.evaluation import Evaluation
from ci_compiler.adoption.evaluator import text_of
from ci_compiler.adoption.names import Row
from ci_compiler.adoption.spec_forms import fits, sri
from ci_compiler.errors import Finding
from ci_compiler.files.drift import MARK
from ci_compiler.hardware import Hardware
from ci_compiler.recipes.shell_variables import PHASES
from ci_compiler.recipes.work_arounds import Piece, pieces
from ci_compiler.spec.model import Source
from ci_compiler.spec.packages import Pin
from ci_compiler.spec.releases import version_in
from ci_compiler.spec.schema import schema
from ci_compiler.spec.upstream import Upstream
from ci_compiler.units import grouped
from ci_compiler.variant import package_of

ALL_EVALUATED, MOST_EVALUATED = 150, 150
"""The most recipes of a fleet whose recipes are all evaluated, and the most that are evaluated of any other."""

_PIN = re.compile(r"[0-9a-f]{40}")
_VERSION = re.compile(r"([A-Za-z][A-Za-z -]*?)[ v]+(\d+\.\d+\.\d+)(?![\w.+])")
_HEADLINE = re.compile(rf"^# {MARK} .*\n# (.+?) [0-9][^ ]* for ")
_OF_PYTHON = re.compile(r"python3?\d*Packages\.([A-Za-z_][A-Za-z0-9_-]*)")
_BUILDERS = frozenset({"buildPythonPackage", "buildPythonApplication", "buildEnv", "withPackages"})
_MADE_UP = re.compile(r"0(?![.\d]).*")
_JOBS = re.compile(r"-j ?(\d+)")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFacts:
    """What is known of a fleet beyond its names.

    `evaluations` are the evaluated recipes, by branch and name; `kinds` the recipes of each kind; `opaque` says why a
    recipe could not be evaluated, by branch and name; `left` are the kinds not tried. `pins` are by branch and toolkit
    ('' for CPU variants), `versions` by branch and package; `guessed_versions` have them from texts for people.
    """

    kinds: Mapping[tuple[str, ...], Sequence[Row]]
    evaluations: Mapping[tuple[str, str], Evaluation]
    opaque: Mapping[tuple[str, str], Finding]
    left: Sequence[Sequence[Row]]
    pins: Mapping[tuple[str, str], Pin]
    versions: Mapping[tuple[str, str], str]
    guessed_versions: frozenset[tuple[str, str]]
    packages: Mapping[str, PackageFacts]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageFacts:
    """What is known of a package: its attribute in nixpkgs and title ('': unknown), its compile jobs (0: unknown).

    `upstream` is where its source is from (None: unknown).
    """

    attribute: str = ""
    title: str = ""
    jobs: int = 0
    upstream: Upstream | None = None


def learn(rows: Sequence[Row], checkouts: Sequence[AdoptedCheckout], hardware: Hardware) -> FleetFacts:
    """The facts about `rows`."""
    all_kinds = len(rows) <= ALL_EVALUATED
    kinds = grouped(rows, lambda row: (*row.kind, *[row.name] * all_kinds))
    several = list(kinds.values())
    sample = {alike[0].path: alike[0] for alike in several[:MOST_EVALUATED]}
    found, opaque = evaluate_all(checkouts, {path: row.package for path, row in sample.items()}, hardware)
    known = [(row, found[path]) for path, row in sample.items() if path in found]
    stated = {row: recipe.version for row, recipe in known if _states_version(recipe)}
    told = {row: version for row in sample.values() if row not in stated and (version := _told_version(row))}
    versions, guesses = _versions(stated), _versions(told)
    by_package = grouped(known, lambda pair: pair[0].package)
    by_toolkit = grouped(known, lambda pair: (pair[0].branch, pair[0].toolkit))
    return FleetFacts(
        kinds=kinds,
        evaluations={row.place: recipe for row, recipe in known},
        left=several[MOST_EVALUATED:],
        opaque={sample[path].place: finding for path, finding in opaque.items()},
        pins={place: _pin(pairs) for place, pairs in by_toolkit.items()},
        versions=guesses | versions,
        guessed_versions=frozenset(guesses.keys() - versions.keys()),
        packages={package: _package(pairs) for package, pairs in by_package.items()},
    )


def _versions(by_row: Mapping[Row, str]) -> dict[tuple[str, str], str]:
    """The most common version of each package, by branch and package."""
    places = grouped(by_row, lambda row: (row.branch, row.package))
    return {place: Counter(by_row[row] for row in rows).most_common(1)[0][0] for place, rows in places.items()}


def most_common(values: Iterable[Value]) -> Value | None:
    """The most common of `values`, the first of several; None if there are none."""
    return next((value for value, _ in Counter(values).most_common(1)), None)


def _states_version(recipe: Evaluation) -> bool:
    """Whether a version is the recipe's own, or that of a nixpkgs that is known, and a spec can hold it.

    The stand-in gives a package of which it knows nothing the version 0, from which a recipe may make its own.
    """
    known = "version" in recipe.sets or bool(version_in(recipe.pin, recipe.package))
    return known and not _MADE_UP.fullmatch(recipe.version) and fits("version", recipe.version)


def _told_version(row: Row) -> str:
    """The version that a recipe's text gives after the name of its package (`# PyTorch 2.9.1 for …`); '' for none."""
    wanted = _letters(row.package)
    stated = _VERSION.findall(text_of(row.path)) if wanted else ()
    versions = {version for title, version in stated if _letters(title).endswith(wanted)}
    return versions.pop() if len(versions) == 1 else ""


def _letters(text: str) -> str:
    return re.sub(r"[^a-z]", "", text.lower())


def _package(group: Sequence[tuple[Row, Evaluation]]) -> PackageFacts:
    attributes = (recipe.package if recipe.package != "other" else _attribute(recipe) for _, recipe in group)
    titles = (match[1] for row, _ in group if (match := _HEADLINE.search(text_of(row.path))))
    return PackageFacts(
        attribute=most_common(filter(None, attributes)) or "",
        title=most_common(titles) or "",
        jobs=most_common(filter(None, (_jobs(recipe) for _, recipe in group))) or 0,
        upstream=most_common(filter(None, (_upstream(row, recipe) for row, recipe in group))),
    )


def _upstream(row: Row, recipe: Evaluation) -> Upstream | None:
    """The repository whose tag the package's source is; None for none, and for packages whose releases are known."""
    for node in recipe.nodes if recipe.package == "other" else ():
        for source in node.sources[:1] if node is recipe or node.pname == row.package else ():
            repository, tags = f"{source.owner}/{source.repo}", source.rev.replace(node.version, "@version@")
            is_known = source.fetcher == "fetchFromGitHub" and fits("repository-name", repository)
            if is_known and node.version in source.rev and fits("upstream", tags, "tags"):
                return Upstream(repository=repository, tags=tags, submodules=source.submodules)
    return None


def _attribute(recipe: Evaluation) -> str:
    match = _OF_PYTHON.fullmatch(recipe.attribute)
    return match[1] if match and match[1] not in _BUILDERS else ""


def _jobs(recipe: Evaluation) -> int:
    """The compile jobs of a recipe; 0 if it does not state them, or states more than a spec can."""
    match = _JOBS.search(" ".join(recipe.ninja_flags))
    text = match[1] if match else recipe.max_jobs
    jobs = int(text) if text.isascii() and text.isdigit() else 0
    return jobs if jobs <= schema()["$defs"]["package"]["properties"]["jobs"]["maximum"] else 0


# Pins.


def _pin(group: Sequence[tuple[Row, Evaluation]]) -> Pin:
    """The pin of most of `group`, recipes for one toolkit."""
    all_ = [recipe for _, recipe in group]
    revision = most_common(recipe.pin for recipe in all_ if _PIN.fullmatch(recipe.pin)) or ""
    hashes = [
        sri(fetch.hash) for recipe in all_ for fetch in recipe.fetched if fetch.revision == revision and fetch.hash
    ]
    sources = {row.package: source for row, recipe in group if (source := _source(recipe))}
    starts = {row.package: package_of(recipe.pname, row.name.removeprefix(f"{row.package}-")) for row, recipe in group}
    return Pin(
        nixpkgs=revision,
        nixpkgs_hash=(most_common(hashes) or "") if revision else "",
        allow_broken=most_common(map(_allows_broken, all_)) or False,
        work_arounds=work_arounds_of([recipe for row, recipe in group if row.toolkit]),
        sources=sources,
        pnames={
            package: start for package, start in starts.items() if start != package and fits("package-name", start)
        },
    )


def _allows_broken(recipe: Evaluation) -> bool:
    """Whether the recipe builds its package though nixpkgs marks it as broken."""
    own = "meta.broken" in recipe.places and recipe.meta.get("broken") is False
    return recipe.config.get("allowBroken") is True or own


def _source(recipe: Evaluation) -> Source | None:
    """The recipe's own source as a spec states it; None if it has none, or one that no spec can express."""
    for given in recipe.sources[:1]:
        repository, digest = f"{given.owner}/{given.repo}", sri(given.hash)
        is_tag = fits("source", given.rev, "tag") and not _PIN.fullmatch(given.rev)
        if is_tag and given.fetcher == "fetchFromGitHub" and fits("repository-name", repository) and digest:
            return Source(repository=repository, tag=given.rev, hash=digest, submodules=given.submodules)
    return None


# The named work-arounds that recipes have.


_NAME = re.compile(r'\bname = "([^"]+)"')
_OVERLAID = re.compile(r"\b([\w-]+) = prev\.")
_WRITTEN = re.compile(r">\s*['\"]?([^\s'\"<>;&|]+)")
_PREPENDED = re.compile(r'^export (\w+)="(\S+) \$\1"$', re.MULTILINE)
_WORD = re.compile(r"@[a-z\\-]+@")


def work_arounds_of(recipes: Sequence[Evaluation]) -> tuple[str, ...]:
    """The work-arounds that most torches of `recipes`, which are for GPUs, have.

    A work-around is recognised by the patches of its overlay, else by its CMake flags, else by the compiler flags that
    its shell code adds, else by the files that the code writes: the parts that any recipe with the same effect must
    share.
    """
    torches = [
        evaluation.torch or evaluation for evaluation in recipes if evaluation.torch or evaluation.package == "torch"
    ]
    return tuple(
        piece.name
        for piece in pieces()
        if piece.is_work_around and 2 * sum(_has(torch, piece) for torch in torches) > len(torches)
    )


def _has(torch: Evaluation, piece: Piece) -> bool:
    """Whether a torch has a work-around."""
    if patches := _NAME.findall(piece.overlay):
        overlaid = (torch.overlaid.get(attribute) for attribute in _OVERLAID.findall(piece.overlay))
        there = {patch.name for other in overlaid if other for patch in other.patches}
        return there.issuperset(patches)
    if piece.cmake:
        wanted = [re.compile(_WORD.sub(".+", re.escape(flag))) for flag in piece.cmake]
        return all(any(map(pattern.fullmatch, torch.cmake_flags)) for pattern in wanted)
    if prepended := _PREPENDED.findall(piece.pre_configure):
        return all(word in torch.flags.get(name, ()) for name, word in prepended)
    hooks = "\n".join(str(torch.attributes.get(phase, "")) for phase in PHASES) + torch.pre_configure
    there = {path.rsplit("/", 1)[-1] for path in _WRITTEN.findall(hooks)}
    written = _WRITTEN.findall(piece.post_patch + "\n" + piece.pre_configure)
    return bool(written) and there.issuperset(path.rsplit("/", 1)[-1] for path in written)
