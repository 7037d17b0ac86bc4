"""A spec made from existing recipes: the reverse of compiling.

    checkouts  ->  evaluations  ->  recipes   ->  fleet      ->  matrix     ->  text
    folders        Nix              by name       compatible     shortened      YAML

1. `checkouts`: the branch of each folder, and what its recipes evaluate to.
2. `identity`, `named_recipes`: the variant that each recipe builds; the recipe's name must match it.
3. `compatible`, `branches`, `packages`: what can be in one spec, and what branches and packages have in common.
4. `axes`, `exclusions`: the variants as products with exceptions.
5. `spec_text`: the YAML. It is compiled, and must give the same names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ci_compiler.adoption.axes import matrix_of
from ci_compiler.adoption.branches import (
    GUESSED,
    NO_VERSION,
    BranchFacts,
    branch_cuda,
    branch_facts,
    most_common,
)
from ci_compiler.adoption.checkouts import evaluate_all, read_checkouts
from ci_compiler.adoption.compatible import apart, possible, served
from ci_compiler.adoption.exclusions import BECAUSE
from ci_compiler.adoption.known_pins import KnownPins, known_pins
from ci_compiler.adoption.named_recipes import Recipe, named
from ci_compiler.adoption.packages import foreign, on_branches, packages_of
from ci_compiler.adoption.spec_text import spec_text
from ci_compiler.codes import Code, Severity
from ci_compiler.errors import Finding, InputError, Place
from ci_compiler.hardware import Hardware, tables
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.spec.build import parse_spec
from ci_compiler.spec.model import Exclusion, Matrix, Package

SHOWN = "the adopted spec"


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """A spec's text and plan, made from `read` recipes; `findings` are recipes left out (errors) or odd (warnings)."""

    text: str
    plan: Plan
    findings: tuple[Finding, ...]
    read: int

    @property
    def names(self) -> Mapping[str, frozenset[str]]:
        """The variants' names by branch."""
        return names_of(self.plan)

    @property
    def complete(self) -> bool:
        """Whether every recipe is in the spec."""
        return not any(finding.severity is Severity.ERROR for finding in self.findings)


def adopt(folders: Sequence[Path]) -> Adopted:
    """The spec of the recipes in `folders`, each a checkout of one branch.

    Raises InputError if a folder has no recipes, Nix is missing, or no recipe can be adopted.
    """
    checkouts = read_checkouts(folders)
    hardware, pins = tables(), known_pins()
    evaluations, findings = evaluate_all(checkouts, hardware)
    recipes, more = named(evaluations, hardware, pins.versions)
    findings += more
    fleet, more = _fleet(recipes, hardware, pins)
    findings += [*more, *(warning for recipe in fleet.recipes for warning in recipe.identity.warnings)]
    findings.sort(key=lambda finding: (finding.place, finding.code, finding.message))
    if not fleet.recipes:
        nothing = Finding(
            place=Place(file=str(folders[0])), code=Code.NOTHING_TO_ADOPT, message="no recipe can be adopted"
        )
        raise InputError([*findings, nothing])
    text, compiled, more = _compiled(fleet, hardware)
    read = sum(len(one.recipes) for one in checkouts)
    return Adopted(text=text, plan=compiled, findings=(*findings, *more), read=read)


def names_of(compiled: Plan) -> dict[str, frozenset[str]]:
    """The variants' names by branch."""
    return {
        branch: frozenset(v.name for cell in compiled.judged.cells if cell.branch == branch for v in cell.variants)
        for branch in compiled.spec.branches
    }


# What can be in one spec.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fleet:
    """Recipes that can be in one spec, and what it states about their branches and packages."""

    recipes: tuple[Recipe, ...]
    branches: tuple[BranchFacts, ...]
    packages: tuple[Package, ...]


def _fleet(recipes: Sequence[Recipe], hardware: Hardware, pins: KnownPins) -> tuple[_Fleet, list[Finding]]:
    """The fleet, and why each other recipe is not in it."""
    order = list(dict.fromkeys(recipe.branch for recipe in recipes))
    cudas = {branch: branch_cuda(_of(recipes, branch), hardware) for branch in order}
    recipes, findings = possible(recipes, cudas, hardware)
    imports, recipes, more = foreign(recipes)
    findings += more
    facts: dict[str, BranchFacts] = {}
    for branch in order:
        if mine := _of(recipes, branch):
            facts[branch], more = branch_facts(branch, mine, cudas[branch], pins)
            findings += more
    recipes, more = apart(recipes, {branch: one.branch for branch, one in facts.items()})
    packages, odd = packages_of(recipes, imports)
    recipes, lacking = served(recipes, packages)
    left = [branch for branch in facts if _of(recipes, branch)]
    held = _held(recipes, packages, left)
    fleet = _Fleet(
        recipes=tuple(recipes),
        branches=tuple(_trimmed(facts[branch], held, _of(recipes, branch), pins) for branch in left),
        packages=tuple(held),
    )
    return fleet, [*findings, *more, *odd, *lacking]


def _of(recipes: Sequence[Recipe], branch: str) -> list[Recipe]:
    return [recipe for recipe in recipes if recipe.branch == branch]


def _held(recipes: Sequence[Recipe], packages: Mapping[str, Package], branches: Sequence[str]) -> list[Package]:
    """The packages that have recipes, and those they need from other repositories, each with its branches."""
    built = {recipe.package for recipe in recipes}
    wanted = built.union(*(packages[package].needs for package in built))
    return [on_branches(package, recipes, branches) for package in packages.values() if package.name in wanted]


def _trimmed(
    facts: BranchFacts, packages: Sequence[Package], recipes: Sequence[Recipe], pins: KnownPins
) -> BranchFacts:
    """The facts about a branch reduced to its own packages, with versions for those from other repositories."""
    branch, remarks = facts.branch, dict(facts.version_remarks)
    on = [package for package in packages if not package.branches or branch.name in package.branches]
    versions = dict(branch.versions)
    for package in on:
        if package.name not in versions:
            known = pins.versions.get(branch.nixpkgs, {}).get(package.attribute)
            torches = [recipe.evaluation.torch.version for recipe in recipes if recipe.evaluation.torch]
            versions[package.name] = known or most_common(torches) or NO_VERSION
            remarks[package.name] = GUESSED
    names = [package.name for package in on]
    trimmed = replace(
        branch,
        versions={name: versions[name] for name in names},
        sources={name: branch.sources[name] for name in names if name in branch.sources},
        pnames={name: branch.pnames[name] for name in names if name in branch.pnames},
    )
    return replace(facts, branch=trimmed, version_remarks={n: remarks[n] for n in names if n in remarks})


# The text, compiled back.


def _compiled(fleet: _Fleet, hardware: Hardware) -> tuple[str, Plan, list[Finding]]:
    """The spec's text and plan. The plan holds exactly the names of the fleet's recipes.

    Raises RuntimeError if no exclusions achieve that, which would be a bug.
    """
    wanted = {
        facts.branch.name: frozenset(recipe.name for recipe in _of(fleet.recipes, facts.branch.name))
        for facts in fleet.branches
    }
    names = [facts.branch.name for facts in fleet.branches]
    matrix = matrix_of(
        [recipe.key for recipe in fleet.recipes],
        {facts.branch.name: next(iter(facts.branch.toolkits)) for facts in fleet.branches},
        {one.name: one.branches or tuple(names) for one in fleet.packages if one.repository is None},
        hardware,
    )
    text, compiled = _compile(fleet, matrix, hardware)
    if names_of(compiled) == wanted:
        return text, compiled, []
    _, whole = _compile(fleet, replace(matrix, exclude=()), hardware)
    surplus = [(branch, name) for branch, made in names_of(whole).items() for name in sorted(made - wanted[branch])]
    exclude = tuple(
        Exclusion(index=index, pattern=name, branches=(branch,), because=BECAUSE)
        for index, (branch, name) in enumerate(surplus)
    )
    text, compiled = _compile(fleet, replace(matrix, exclude=exclude), hardware)
    if names_of(compiled) != wanted:
        message = "an adopted spec does not compile to the recipes that it was made from"
        raise RuntimeError(message)
    message = f"no short patterns exclude exactly the missing variants, so {len(exclude)} variants are excluded by name"
    place = Place(file=str(fleet.recipes[0].evaluation.path))
    return text, compiled, [Finding(place=place, code=Code.LONG_EXCLUSIONS, message=message)]


def _compile(fleet: _Fleet, matrix: Matrix, hardware: Hardware) -> tuple[str, Plan]:
    systems = {recipe.identity.system for recipe in fleet.recipes}
    ordered = [system for system in hardware.systems if system in systems]
    text = spec_text(fleet.branches, fleet.packages, matrix, ordered, hardware)
    return text, plan(parse_spec(text.encode(), shown=SHOWN))
