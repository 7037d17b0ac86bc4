"""What the recipes of a branch have in common, which the spec states for the branch, and which of them differ.

The majority decides. A recipe that differs is adopted too, with a warning.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ci_compiler.adoption.identity import at
from ci_compiler.adoption.known_pins import KnownPins
from ci_compiler.adoption.named_recipes import Recipe
from ci_compiler.adoption.spec_forms import fits, sri
from ci_compiler.adoption.work_arounds import work_arounds_of
from ci_compiler.codes import Code
from ci_compiler.errors import Finding
from ci_compiler.hardware import CPU, Hardware
from ci_compiler.spec.model import Branch, Source
from ci_compiler.spec.packages import Pin
from ci_compiler.variant import package_of, variant_name

FROM_PIN = "from the pin"
GUESSED = "a guess: no recipe states it"
NAMED = "only the recipes' names state it"
NO_GPU = "no recipe is for a GPU"
NO_VERSION = "0"
"""The version of a package whose version nothing states."""

_PIN = re.compile(r"[0-9a-f]{40}")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchFacts:
    """A branch of the spec, with remarks on what no recipe states: `cuda`, `nixpkgs`, versions (by package)."""

    branch: Branch
    remarks: Mapping[str, str]
    version_remarks: Mapping[str, str]


def branch_cuda(recipes: Sequence[Recipe], hardware: Hardware) -> str:
    """The CUDA version of most GPU recipes of a branch; without GPU recipes, that of most recipes' nixpkgs."""
    gpus = [recipe.identity.cuda for recipe in recipes if recipe.identity.gpu != CPU]
    others = [e.cuda_version for e in (recipe.evaluation for recipe in recipes) if e.cuda_version in hardware.toolkits]
    return most_common(gpus or others) or min(hardware.toolkits, key=lambda name: hardware.toolkit(name).version)


def branch_facts(name: str, recipes: Sequence[Recipe], cuda: str, pins: KnownPins) -> tuple[BranchFacts, list[Finding]]:
    """What a spec states about the branch `name`, and a warning for each recipe that differs."""
    findings: list[Finding] = []
    remarks: dict[str, str] = {}
    versions, version_remarks = _versions(name, recipes, pins, findings)
    pin = _pin(name, recipes, pins, versions, findings)
    broken = _agreed(recipes, _allows_broken, findings, _broken_differs)
    if not any(_PIN.fullmatch(recipe.evaluation.pin) for recipe in recipes):
        remarks["nixpkgs"] = GUESSED
    gpus = [recipe for recipe in recipes if recipe.identity.gpu != CPU]
    if all("cuda" in recipe.identity.by_name for recipe in gpus):
        remarks["cuda"] = NAMED if gpus else NO_GPU
    named, more = work_arounds_of(recipes)
    findings += more
    branch = Branch(
        name=name,
        toolkits={cuda: Pin()},
        nixpkgs=pin,
        nixpkgs_hash=_pin_hash(recipes, pin),
        allow_broken=broken == "allows",
        versions=versions,
        sources=_sources(recipes, findings),
        pnames=_pnames(recipes, findings),
        work_arounds=named,
    )
    return BranchFacts(branch=branch, remarks=remarks, version_remarks=version_remarks), findings


def most_common(values: Sequence[Value]) -> Value | None:
    """The most common of `values`; among equals, the first that is not empty. None if there are no values."""
    counts = Counter(values)
    return max(counts, key=lambda value: (counts[value], bool(value)), default=None)


def by_package(recipes: Sequence[Recipe]) -> dict[str, list[Recipe]]:
    """The recipes of each package, in the order of `recipes`."""
    found: dict[str, list[Recipe]] = {}
    for recipe in recipes:
        found.setdefault(recipe.package, []).append(recipe)
    return found


def _agreed(
    recipes: Sequence[Recipe],
    value_of: Callable[[Recipe], Value],
    findings: list[Finding],
    differs: Callable[[Recipe, Value, Value], Finding],
) -> Value | None:
    """The value that most recipes have; a finding is added for each that has another."""
    values = [value_of(recipe) for recipe in recipes]
    most = most_common(values)
    if most is not None:
        pairs = zip(recipes, values, strict=True)
        findings += [differs(recipe, value, most) for recipe, value in pairs if value != most]
    return most


# nixpkgs.


def _pin(
    name: str, recipes: Sequence[Recipe], pins: KnownPins, versions: Mapping[str, str], findings: list[Finding]
) -> str:
    pinned = [recipe.evaluation.pin for recipe in recipes if _PIN.fullmatch(recipe.evaluation.pin)]
    most = most_common(pinned)
    if most is None:
        by_attribute = {one.identity.attribute: versions[one.package] for one in recipes if one.package in versions}
        guess = pins.like(by_attribute)
        message = f"no recipe of {name} pins nixpkgs; the spec has {guess} for now"
        findings.append(at(recipes[0].evaluation, Code.NO_PIN, message))
        return guess
    for recipe in recipes:
        pin = recipe.evaluation.pin
        if pin != most:
            taken = f"takes nixpkgs {pin}" if pin else "takes the nixpkgs that it is called with"
            findings.append(
                at(recipe.evaluation, Code.WRONG_PIN, f"{taken}; most recipes of {name} take {most}", tolerated=True)
            )
    return most


def _pin_hash(recipes: Sequence[Recipe], pin: str) -> str:
    """The hash of the pin's archive, if most recipes give it."""
    given = [
        next((sri(fetch.hash) for fetch in recipe.evaluation.fetched if fetch.revision == pin), "")
        for recipe in recipes
    ]
    return most_common(given) or ""


def _allows_broken(recipe: Recipe) -> str:
    return "allows" if recipe.evaluation.config.get("allowBroken") is True else "does not allow"


def _broken_differs(recipe: Recipe, value: str, most: str) -> Finding:
    message = f"it {value} broken packages; the majority of {recipe.branch} {most} them"
    return at(recipe.evaluation, Code.ALLOW_BROKEN_DIFFERS, message, "config.allowBroken")


# Packages on the branch.


def _versions(
    name: str, recipes: Sequence[Recipe], pins: KnownPins, findings: list[Finding]
) -> tuple[dict[str, str], dict[str, str]]:
    """The version of each package, and a remark on each that no recipe sets."""
    versions: dict[str, str] = {}
    remarks: dict[str, str] = {}
    for package, mine in by_package(recipes).items():
        valid = [recipe for recipe in mine if fits("version", recipe.evaluation.version)]
        versions[package] = _agreed(valid, _version, findings, _version_differs) or NO_VERSION
        usual = [recipe for recipe in valid if _version(recipe) == versions[package]]
        if not any("version" in recipe.evaluation.sets for recipe in usual):
            known = any(recipe.evaluation.pin in pins.versions for recipe in usual)
            remarks[package] = FROM_PIN if known else GUESSED
            if not known:
                message = f"no recipe of {name} states the version of {package}; the spec has {versions[package]}"
                findings.append(at(mine[0].evaluation, Code.NO_VERSION, message))
    return versions, remarks


def _version(recipe: Recipe) -> str:
    return recipe.evaluation.version


def _version_differs(recipe: Recipe, value: str, most: str) -> Finding:
    message = f"its version is {value}; most recipes of {recipe.package} on {recipe.branch} have {most}"
    return at(recipe.evaluation, Code.VERSION_DIFFERS, message, "version")


def _sources(recipes: Sequence[Recipe], findings: list[Finding]) -> dict[str, Source]:
    """The sources that replace nixpkgs' own, by package."""
    found: dict[str, Source] = {}
    for package, mine in by_package(recipes).items():
        source = _agreed(mine, lambda recipe: _source(recipe, findings), findings, _source_differs)
        if source:
            found[package] = source[0]
    return found


def _source(recipe: Recipe, findings: list[Finding]) -> tuple[Source, ...]:
    """The recipe's own source as a spec states it; () if it has none, or one that no spec can express."""
    for given in recipe.evaluation.sources[:1]:
        repository, digest = f"{given.owner}/{given.repo}", sri(given.hash)
        is_tag = fits("source", given.rev, "tag") and not _PIN.fullmatch(given.rev)
        if is_tag and given.fetcher == "fetchFromGitHub" and fits("repository-name", repository) and digest:
            return (Source(repository=repository, tag=given.rev, hash=digest, submodules=given.submodules),)
        shown = f"{given.fetcher} of {given.url or given.name} at {given.rev or 'no tag'}"
        message = f"its source ({shown}) is not a tag of a GitHub repository with its SHA-256; left out"
        findings.append(at(recipe.evaluation, Code.SOURCE_LEFT_OUT, message, "src"))
    return ()


def _source_differs(recipe: Recipe, value: tuple[Source, ...], most: tuple[Source, ...]) -> Finding:
    shown, other = (f"{one[0].repository} {one[0].tag}" if one else "nixpkgs' own" for one in (value, most))
    message = f"its source is {shown}; most recipes of {recipe.package} on {recipe.branch} have {other}"
    return at(recipe.evaluation, Code.SOURCE_DIFFERS, message, "src")


def _pnames(recipes: Sequence[Recipe], findings: list[Finding]) -> dict[str, str]:
    """What `pname` starts with, for each package where that is not the package's name."""
    found: dict[str, str] = {}
    for package, mine in by_package(recipes).items():
        most = most_common([start for recipe in mine if fits("package-name", start := _pname(recipe))])
        for recipe in mine:
            if _pname(recipe) != (most or package):
                usual = variant_name(most or package, recipe.identity.suffix)
                message = f"pname is {recipe.evaluation.pname!r}; most recipes of {package} have {usual}"
                findings.append(at(recipe.evaluation, Code.PNAME_DIFFERS, message, "pname", tolerated=True))
        if most not in {None, package}:
            found[package] = most
    return found


def _pname(recipe: Recipe) -> str:
    """What the `pname` has before the cell; '' if it does not end with the cell."""
    return package_of(recipe.evaluation.pname, recipe.identity.suffix)
