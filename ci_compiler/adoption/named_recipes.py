"""Recipes by name: the package of each recipe, and the recipes whose names do not match what they build.

A recipe's package is the start of its name, provided that the rest of the name matches what the recipe evaluates to.
A package is the same attribute of nixpkgs on every branch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ci_compiler.adoption.checkouts import AdoptedCheckout
from ci_compiler.adoption.evaluation import Evaluation
from ci_compiler.adoption.evaluator import name_of
from ci_compiler.adoption.exclusions import Key
from ci_compiler.adoption.identity import Identity, MisfitError, at, identify
from ci_compiler.adoption.spec_forms import fits
from ci_compiler.codes import Code
from ci_compiler.errors import Finding
from ci_compiler.hardware import Hardware
from ci_compiler.spec.build import bundled_spec
from ci_compiler.variant import package_of, variant_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A recipe that a spec can express: its branch, name and package, its evaluation and identity."""

    branch: str
    name: str
    package: str
    evaluation: Evaluation
    identity: Identity

    @property
    def key(self) -> Key:
        """The variant that it builds."""
        is_ = self.identity
        return Key(branch=self.branch, package=self.package, python=is_.python, gpu=is_.gpu, isa=is_.isa)


def named(
    evaluations: Iterable[tuple[AdoptedCheckout, Evaluation]], hardware: Hardware, pins: Iterable[str]
) -> tuple[list[Recipe], list[Finding]]:
    """The recipes whose names match what they evaluate to, and a finding for each of the others."""
    known, findings = _identified(evaluations, hardware, frozenset(pins))
    attributes = _attributes(known)
    recipes: dict[tuple[str, str], Recipe] = {}
    for recipe in known:
        first = recipes.get((recipe.branch, recipe.name))
        finding = _misnamed(recipe, attributes)
        if finding is None and first is not None:
            message = f"{recipe.branch} has {recipe.name} twice; {first.evaluation.path} is used"
            finding = at(recipe.evaluation, Code.DUPLICATE_RECIPE, message)
        if finding is None:
            recipes[recipe.branch, recipe.name] = recipe
        else:
            findings.append(finding)
    return list(recipes.values()), findings


def _identified(
    evaluations: Iterable[tuple[AdoptedCheckout, Evaluation]], hardware: Hardware, pins: frozenset[str]
) -> tuple[list[Recipe], list[Finding]]:
    """The recipes that build a variant, with the package in their names ('' for none), and findings."""
    recipes: list[Recipe] = []
    findings: list[Finding] = []
    for checkout, evaluation in evaluations:
        name = name_of(evaluation.path)
        try:
            identity = identify(evaluation, name, hardware, pins)
        except MisfitError as error:
            findings.append(error.finding)
            continue
        claimed = package_of(name, identity.suffix)
        claimed = claimed if fits("package-name", claimed) else ""
        recipes.append(
            Recipe(branch=checkout.branch, name=name, package=claimed, evaluation=evaluation, identity=identity)
        )
    return recipes, findings


def _attributes(recipes: Sequence[Recipe]) -> dict[str, str]:
    """The attribute of each package: the one that most of its recipes override."""
    counts = Counter((recipe.package, recipe.identity.attribute) for recipe in recipes if recipe.package)
    found: dict[str, str] = {}
    for (package, attribute), _ in counts.most_common():
        found.setdefault(package, attribute)
    return found


def _misnamed(recipe: Recipe, attributes: dict[str, str]) -> Finding | None:
    """Why a recipe cannot keep its name; None if it can."""
    is_ = recipe.identity
    if recipe.package:
        right = attributes[recipe.package]
        if is_.attribute == right:
            return None
        message = f"it overrides {is_.attribute} of nixpkgs; the other recipes of {recipe.package} override {right}"
        return at(recipe.evaluation, Code.PACKAGE_ATTRIBUTE, message)
    usual = {package.name: package.attribute for package in bundled_spec().packages.values()}
    called = (package for package, attribute in {**attributes, **usual}.items() if attribute == is_.attribute)
    right = variant_name(next(called, is_.attribute), is_.suffix)
    if "." in recipe.name:
        message = f"a Flox attribute path contains no dot; call it {right}"
    elif recipe.name.startswith(f"{right}-"):
        message = f"a variant's name ends with its ISA; it builds {right}: call it that, or keep it out of the fleet"
    else:
        message = f"it builds {right}; call it that"
    return at(recipe.evaluation, Code.WRONG_NAME, message)
