"""What the recipes of a branch have in common, which is what a spec says of the branch; and which of them differ.

Most recipes win. A recipe that differs keeps its name, and is told of.
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

FROM_PIN = "from the pin"
GUESSED = "a guess, no recipe says it"
NAMED = "by the recipes' names alone"
NO_GPU = "no recipe is for a GPU"
NO_VERSION = "0"
"""The version of a package of which nothing tells one."""

_PIN = re.compile(r"[0-9a-f]{40}")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchFacts:
    """A branch as the spec says it, and remarks where recipes do not: on `cuda`, `nixpkgs`, a version (by package)."""

    branch: Branch
    remarks: Mapping[str, str]
    version_remarks: Mapping[str, str]


def branch_cuda(recipes: Sequence[Recipe], hardware: Hardware) -> str:
    """The CUDA version of a branch: of most of its GPU recipes; of the nixpkgs of most, where it has none."""
    told = [recipe.identity.cuda for recipe in recipes if recipe.identity.gpu != CPU]
    others = [e.cuda_version for e in (recipe.evaluation for recipe in recipes) if e.cuda_version in hardware.toolkits]
    return most_common(told or others) or min(hardware.toolkits, key=lambda name: hardware.toolkit(name).version)


def branch_facts(name: str, recipes: Sequence[Recipe], cuda: str, pins: KnownPins) -> tuple[BranchFacts, list[Finding]]:
    """What a spec says of the branch `name`, and the recipes that differ."""
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
        cuda=cuda,
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
    """The most common of `values`; among equals one that says something, and the first of those. None for none."""
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
    """What most recipes have; a finding is added for each that has something else."""
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
        message = f"no recipe of {name} says which nixpkgs it is of; {guess} stands in the spec for now"
        findings.append(at(recipes[0].evaluation, Code.NO_PIN, message))
        return guess
    for recipe in recipes:
        pin = recipe.evaluation.pin
        if pin != most:
            taken = f"takes nixpkgs {pin}" if pin else "takes whatever nixpkgs it is handed"
            findings.append(
                at(recipe.evaluation, Code.WRONG_PIN, f"{taken}; most of {name} takes {most}", tolerated=True)
            )
    return most


def _pin_hash(recipes: Sequence[Recipe], pin: str) -> str:
    """The hash of the pin's archive, where most recipes give it."""
    given = [
        next((sri(fetch.hash) for fetch in recipe.evaluation.fetched if fetch.revision == pin), "")
        for recipe in recipes
    ]
    return most_common(given) or ""


def _allows_broken(recipe: Recipe) -> str:
    return "allows" if recipe.evaluation.config.get("allowBroken") is True else "does not allow"


def _broken_differs(recipe: Recipe, value: str, most: str) -> Finding:
    message = f"it {value} broken packages, and most of {recipe.branch} {most} them"
    return at(recipe.evaluation, Code.ALLOW_BROKEN_DIFFERS, message, "config.allowBroken")


# Packages on the branch.


def _versions(
    name: str, recipes: Sequence[Recipe], pins: KnownPins, findings: list[Finding]
) -> tuple[dict[str, str], dict[str, str]]:
    """The version of each package, and a remark on those that no recipe sets."""
    versions: dict[str, str] = {}
    remarks: dict[str, str] = {}
    for package, mine in by_package(recipes).items():
        valid = [recipe for recipe in mine if fits("version", recipe.evaluation.version)]
        versions[package] = _agreed(valid, _version, findings, _version_differs) or NO_VERSION
        told = [recipe for recipe in valid if _version(recipe) == versions[package]]
        if not any("version" in recipe.evaluation.sets for recipe in told):
            known = any(recipe.evaluation.pin in pins.versions for recipe in told)
            remarks[package] = FROM_PIN if known else GUESSED
            if not known:
                message = f"no recipe of {name} says the version of {package}; {versions[package]} stands in the spec"
                findings.append(at(mine[0].evaluation, Code.NO_VERSION, message))
    return versions, remarks


def _version(recipe: Recipe) -> str:
    return recipe.evaluation.version


def _version_differs(recipe: Recipe, value: str, most: str) -> Finding:
    message = f"its version is {value}, and {recipe.package} is {most} on {recipe.branch}"
    return at(recipe.evaluation, Code.VERSION_DIFFERS, message, "version")


def _sources(recipes: Sequence[Recipe], findings: list[Finding]) -> dict[str, Source]:
    """The sources that recipes take in place of nixpkgs' own."""
    found: dict[str, Source] = {}
    for package, mine in by_package(recipes).items():
        source = _agreed(mine, lambda recipe: _source(recipe, findings), findings, _source_differs)
        if source:
            found[package] = source[0]
    return found


def _source(recipe: Recipe, findings: list[Finding]) -> tuple[Source, ...]:
    """The recipe's own source, as a spec says it; nothing where it has none, or none that a spec can say."""
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
    message = f"its source is {shown}, and most of {recipe.package} on {recipe.branch} have {other}"
    return at(recipe.evaluation, Code.SOURCE_DIFFERS, message, "src")


def _pnames(recipes: Sequence[Recipe], findings: list[Finding]) -> dict[str, str]:
    """What `pname` begins with, where that is not the package's name."""
    found: dict[str, str] = {}
    for package, mine in by_package(recipes).items():
        most = most_common([start for recipe in mine if fits("package-name", start := _pname(recipe))])
        for recipe in mine:
            if _pname(recipe) != (most or package):
                message = (
                    f"pname is {recipe.evaluation.pname!r}, and {most or package}-{recipe.identity.suffix} of most"
                )
                findings.append(at(recipe.evaluation, Code.PNAME_DIFFERS, message, "pname", tolerated=True))
        if most not in {None, package}:
            found[package] = most
    return found


def _pname(recipe: Recipe) -> str:
    """What stands in the `pname` before the cell; '' where the cell is not in it."""
    pname, tail = recipe.evaluation.pname, f"-{recipe.identity.suffix}"
    return pname.removesuffix(tail) if pname.endswith(tail) else ""
