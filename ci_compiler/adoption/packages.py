"""What a spec states about packages: attribute, needs, compile jobs, and the repository of those built elsewhere.

What recipes do not state (title, minutes, disk) is taken from the bundled stack, for a package that it has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ci_compiler.adoption.branches import by_package, most_common
from ci_compiler.adoption.evaluator import name_of
from ci_compiler.adoption.identity import TORCH, at
from ci_compiler.adoption.named_recipes import Recipe
from ci_compiler.adoption.spec_forms import fits, sri
from ci_compiler.codes import Code
from ci_compiler.errors import Finding
from ci_compiler.spec.build import bundled_spec
from ci_compiler.spec.model import Package, Repository, in_build_order
from ci_compiler.spec.schema import schema, with_defaults
from ci_compiler.variant import RECIPES, package_of

_IMPORTED = re.compile(
    r"https://github\.com/(?P<repository>[^/]+/[^/]+)/(?:archive|tarball)/(?P<rev>[0-9a-f]{40})(?:\.\w+)*/"
    + re.escape(RECIPES)
    + r"/[^/]+?(?:/default)?\.nix"
)
_JOBS = re.compile(r"-j ?(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """A torch that a recipe takes from another repository: its package, the repository, commit and hash."""

    package: str
    repository: str
    rev: str
    hash: str


Imports = Mapping[tuple[str, str], Import]
"""What recipes import from other repositories, by branch and recipe name."""


def foreign(recipes: Sequence[Recipe]) -> tuple[Imports, list[Recipe], list[Finding]]:
    """What recipes import from repositories that are not given, the recipes that a spec can express, and findings.

    A spec needs the commit and its hash, and the torch of the same cell.
    """
    here = {recipe.package for recipe in recipes}
    imports: dict[tuple[str, str], Import] = {}
    kept: list[Recipe] = []
    findings: list[Finding] = []
    for recipe in recipes:
        address = next(iter(recipe.evaluation.foreign_imports), "")
        package = package_of(name_of(Path(address)), recipe.identity.suffix)
        made = _import(recipe, address, package) if address and package not in here else None
        if isinstance(made, str):
            findings.append(at(recipe.evaluation, Code.FOREIGN_TORCH, made, "override.torch"))
            continue
        if made is not None:
            imports[recipe.branch, recipe.name] = made
        kept.append(recipe)
    return imports, kept, findings


def _import(recipe: Recipe, address: str, package: str) -> Import | str:
    """What `recipe` imports from `address`, another repository's recipe; or why no spec can express it."""
    found = _IMPORTED.fullmatch(address)
    if found is None or not fits("repository-name", found["repository"]):
        return f"it imports {address}, which is not a recipe in a GitHub repository at a commit"
    if not fits("package-name", package):
        return f"it imports {name_of(Path(address))}, which is not its cell's torch (…-{recipe.identity.suffix})"
    given = (fetch.hash for fetch in recipe.evaluation.fetched if address.startswith(f"{fetch.url}/"))
    digest = next(filter(None, map(sri, given)), "")
    if not digest:
        return f"it fetches {found['repository']} without a SHA-256; add it, or pass its checkout as another DIR"
    return Import(package=package, repository=found["repository"], rev=found["rev"], hash=digest)


def packages_of(recipes: Sequence[Recipe], imports: Imports) -> tuple[dict[str, Package], list[Finding]]:
    """The packages in build order, without their branches (see `on_branches`), and what is odd about them."""
    findings: list[Finding] = []
    found: dict[str, Package] = {}
    for package in sorted({one.package for one in imports.values()}):
        taken = [(branch, one) for (branch, _), one in imports.items() if one.package == package]
        there = _repository(taken)
        found[package] = replace(_usual(package, TORCH), repository=there)
        findings += _imports_differ(recipes, imports, package, there)
    grouped = by_package(recipes)
    attributes = {package: mine[0].identity.attribute for package, mine in grouped.items()}
    for package, mine in grouped.items():
        needs = tuple(sorted(_needs(package, recipes, attributes, imports)))
        if not needs and any(recipe.evaluation.torch for recipe in mine):
            message = (
                f"no recipe builds the torch that {package} is built with; pass a checkout that does as another DIR, "
                "or set `repository` in the spec"
            )
            findings.append(at(mine[0].evaluation, Code.NEEDS_TORCH, message, "override.torch"))
        made = replace(_usual(package, attributes[package]), needs=needs)
        found[package] = replace(made, jobs=_jobs(mine, made.jobs, findings))
    return {one.name: one for one in in_build_order(dict(sorted(found.items(), key=_order)))}, findings


def on_branches(package: Package, recipes: Sequence[Recipe], branches: Sequence[str]) -> Package:
    """`package` on those of `branches` that have a recipe for it; none are named if all have one."""
    there = package.repository
    has = set(there.rev) if there else {one.branch for one in recipes if one.package == package.name}
    on = [branch for branch in branches if branch in has]
    if there is not None:
        there = replace(there, rev={one: there.rev[one] for one in on}, hash={one: there.hash[one] for one in on})
    return replace(package, branches=() if on == list(branches) else tuple(on), repository=there)


def _usual(package: str, attribute: str) -> Package:
    """The bundled stack's package of the same attribute; if there is none, one with the schema's defaults."""
    for bundled in bundled_spec().packages.values():
        if bundled.attribute == attribute:
            return replace(bundled, name=package, needs=(), branches=(), repository=None)
    row = package_defaults()
    return Package(
        name=package,
        title=package,
        attribute=attribute,
        needs=(),
        branches=(),
        minutes=row["minutes"],
        disk=row["disk"],
        memory=row["memory"],
        jobs=row["jobs"],
        repository=None,
    )


def package_defaults() -> Mapping[str, Any]:
    """The schema's defaults for a package."""
    defaults: dict[str, Any] = with_defaults({}, schema()["$defs"]["package"])
    return defaults


def _order(entry: tuple[str, Package]) -> tuple[int, str]:
    """Sort key: the bundled stack's packages first, in its order, then the others by name."""
    attributes = [package.attribute for package in bundled_spec().packages.values()]
    attribute = entry[1].attribute
    return attributes.index(attribute) if attribute in attributes else len(attributes), entry[0]


def _repository(imports: Sequence[tuple[str, Import]]) -> Repository:
    """The repository that most recipes import from, at the commit that most recipes of each branch import."""
    name = most_common([one.repository for _, one in imports]) or ""
    pinned: dict[str, list[tuple[str, str]]] = {}
    for branch, one in imports:
        if one.repository == name:
            pinned.setdefault(branch, []).append((one.rev, one.hash))
    chosen = {branch: most for branch, all_ in pinned.items() if (most := most_common(all_))}
    return Repository(
        name=name,
        rev={branch: rev for branch, (rev, _) in chosen.items()},
        hash={branch: digest for branch, (_, digest) in chosen.items()},
    )


def _imports_differ(recipes: Sequence[Recipe], imports: Imports, package: str, there: Repository) -> Iterator[Finding]:
    """A finding for each recipe that does not import `package` from where most do."""
    for recipe in recipes:
        one = imports.get((recipe.branch, recipe.name))
        most = (there.name, there.rev.get(recipe.branch, ""))
        if one is not None and one.package == package and (one.repository, one.rev) != most:
            message = f"its {package} is from {one.repository} at {one.rev}; most recipes take {most[0]} at {most[1]}"
            yield at(recipe.evaluation, Code.FOREIGN_TORCH_DIFFERS, message, "override.torch")


def _needs(package: str, recipes: Sequence[Recipe], attributes: Mapping[str, str], imports: Imports) -> Iterator[str]:
    """The packages that `package` is built with: those whose derivations it gets, and torch if it uses one."""
    builds = {(recipe.branch, recipe.evaluation.drv_path): recipe.package for recipe in recipes}
    mine = [recipe for recipe in recipes if recipe.package == package]
    given = {
        builds.get((recipe.branch, str(value["derivation"])), "")
        for recipe in mine
        for value in recipe.evaluation.override.values()
        if isinstance(value, Mapping) and "derivation" in value
    }
    needs = given - {"", package}
    yield from needs
    elsewhere = [imports.get((recipe.branch, recipe.name)) for recipe in mine]
    foreign_needs = {one.package for one in elsewhere if one is not None}
    yield from foreign_needs
    torches = [name for name, attribute in attributes.items() if attribute == TORCH and name != package]
    with_torch = any(recipe.evaluation.torch for recipe in mine)
    if with_torch and torches and not foreign_needs and not needs & set(torches):
        yield torches[0]


def _jobs(recipes: Sequence[Recipe], usual: int, findings: list[Finding]) -> int:
    """The compile jobs of most recipes; `usual` if none states them."""
    stated = {(recipe.branch, recipe.name): jobs for recipe in recipes if (jobs := _jobs_of(recipe))}
    most = most_common(list(stated.values()))
    if most is None:
        return usual
    for recipe in recipes:
        jobs = stated.get((recipe.branch, recipe.name), most)
        if jobs != most:
            message = f"it builds with {jobs} jobs; most recipes of {recipe.package} build with {most}"
            where = "ninjaFlags" if recipe.evaluation.ninja_flags else "preConfigure"
            findings.append(at(recipe.evaluation, Code.JOBS_DIFFER, message, where))
    return most


def _jobs_of(recipe: Recipe) -> int:
    """The compile jobs of a recipe; 0 if it does not state them, or states more than a spec can."""
    found = _JOBS.search(" ".join(recipe.evaluation.ninja_flags))
    text = found[1] if found else recipe.evaluation.max_jobs
    jobs = int(text) if text.isascii() and text.isdigit() else 0
    return jobs if jobs <= schema()["$defs"]["package"]["properties"]["jobs"]["maximum"] else 0
