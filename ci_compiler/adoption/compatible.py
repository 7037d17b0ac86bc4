"""Which variants can be in one fleet by the compiler's rules, and why the others cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ci_compiler.adoption.exclusions import Key
from ci_compiler.adoption.identity import at
from ci_compiler.adoption.named_recipes import Recipe
from ci_compiler.codes import Code
from ci_compiler.errors import Finding
from ci_compiler.hardware import CPU, Hardware
from ci_compiler.plan.rules import RULES
from ci_compiler.spec.model import Branch, Package
from ci_compiler.variant import variant_name


def possible(
    recipes: Sequence[Recipe], cudas: Mapping[str, str], hardware: Hardware
) -> tuple[list[Recipe], list[Finding]]:
    """The recipes that use their branch's CUDA version and that the rules allow, and why the others are left out."""
    kept: list[Recipe] = []
    findings: list[Finding] = []
    for recipe in recipes:
        is_, cuda = recipe.identity, cudas[recipe.branch]
        if is_.gpu == CPU:
            kept.append(recipe)
        elif is_.cuda != cuda:
            message = f"it builds with CUDA {is_.cuda}; {recipe.branch} has {cuda}"
            findings.append(at(recipe.evaluation, Code.BRANCH_CUDA, message, "nixpkgs.overlays"))
        elif (impossible := _impossible(recipe, hardware)) is not None:
            findings.append(impossible)
        else:
            kept.append(recipe)
    return kept, findings


def _impossible(recipe: Recipe, hardware: Hardware) -> Finding | None:
    is_ = recipe.identity
    gpu, toolkit = hardware.gpu(is_.gpu), hardware.toolkit(is_.cuda)
    for rule in RULES:
        if reason := rule.problem(gpu, toolkit, is_.system):
            return at(recipe.evaluation, rule.code, reason, "override.gpuTargets")
    return None


def apart(recipes: Sequence[Recipe], branches: Mapping[str, Branch]) -> tuple[list[Recipe], list[Finding]]:
    """The recipes, less those that would overwrite another branch's when published: same name and same version.

    The first branch keeps its recipe.
    """
    order = list(branches)
    first: dict[tuple[str, str], str] = {}
    kept: dict[tuple[str, str], Recipe] = {}
    findings: list[Finding] = []
    for recipe in sorted(recipes, key=lambda one: order.index(one.branch)):
        version = branches[recipe.branch].versions[recipe.package]
        holder = first.setdefault((recipe.name, version), recipe.branch)
        if holder == recipe.branch:
            kept[recipe.branch, recipe.name] = recipe
            continue
        message = f"{recipe.name} also has version {version} on {holder}; publishing one would overwrite the other"
        findings.append(at(recipe.evaluation, Code.SAME_NAME_SAME_VERSION, message, "version"))
    return list(kept.values()), findings


def served(recipes: Sequence[Recipe], packages: Mapping[str, Package]) -> tuple[list[Recipe], list[Finding]]:
    """The recipes whose needs are built in the same cell or come from another repository, and why the others go."""
    kept = list(recipes)
    findings: list[Finding] = []
    while True:
        keys = {recipe.key for recipe in kept}
        lacking = [(recipe, need) for recipe in kept if (need := _lacks(recipe, keys, packages))]
        if not lacking:
            return kept, findings
        for recipe, need in lacking:
            message = f"it needs {variant_name(need, recipe.identity.suffix)}, which {recipe.branch} does not build"
            findings.append(at(recipe.evaluation, Code.NEEDS_MISSING_VARIANT, message, "override.torch"))
        gone = {recipe.key for recipe, _ in lacking}
        kept = [recipe for recipe in kept if recipe.key not in gone]


def _lacks(recipe: Recipe, keys: set[Key], packages: Mapping[str, Package]) -> str:
    """The first package that `recipe` needs and its cell lacks; '' if it has them all."""
    for need in packages[recipe.package].needs:
        repository = packages[need].repository
        has = recipe.branch in repository.rev if repository else recipe.key._replace(package=need) in keys
        if not has:
            return need
    return ""
