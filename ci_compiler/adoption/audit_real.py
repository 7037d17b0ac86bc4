"""Whether the recipes of a branch evaluate to their variants with the true nixpkgs."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ci_compiler.adoption.evaluation_cache import EvaluationCache
from ci_compiler.adoption.evaluator import find_recipes, name_of, parts_of_message, written
from ci_compiler.adoption.real_nixpkgs import SECONDS, Evaluated, NixpkgsSource, Outcome, evaluate
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, Place, about
from ci_compiler.plan.job_graph import needs_of
from ci_compiler.plan.lookup import BuiltVariant, built_variants
from ci_compiler.plan.pipeline import Plan
from ci_compiler.recipes.judged import differences
from ci_compiler.recipes.render import recipe
from ci_compiler.spec.packages import RecipeKind
from ci_compiler.units import counted, grouped
from ci_compiler.variant import recipe_path

_OF_THE_STANDIN = {Code.RECIPE_EVALUATION, Code.RECIPE_TIMEOUT}
"""What the stand-in may report only because it lacks something; the true nixpkgs decides."""


class BranchEvaluation(NamedTuple):
    """The variants of a branch that have a recipe, those recipes, by name, and what they evaluate to."""

    built: dict[str, BuiltVariant]
    paths: dict[str, Path]
    done: Evaluated


def evaluate_branch(
    root: Path,
    plan: Plan,
    branch: str,
    folder: Path | None,
    names: Collection[str] | None = None,
    *,
    show: Callable[[str], None] = lambda _: None,
) -> BranchEvaluation:
    """Evaluates the recipes under `root` of the variants of `branch`, or of those in `names`.

    `folder` is the nixpkgs to use in place of those that the recipes fetch. `show` gets a line on how far it is.
    Raises InputError.
    """
    paths = {name_of(path): path for path in find_recipes(root)}
    built = {
        one.variant.name: one
        for one in built_variants(plan)
        if one.cell.branch == branch and one.variant.name in paths and (names is None or one.variant.name in names)
    }
    outcomes: dict[str, Outcome] = {}
    deadline, judged = time.monotonic() + SECONDS, 0

    def count(more: int) -> None:
        nonlocal judged
        judged += more
        show(f"evaluated with nixpkgs: {judged} of {counted(len(built), 'recipe')}")

    alike = grouped(built, lambda name: (built[name].cell.toolkit, built[name].cell.system))
    for (toolkit, system), same in sorted(alike.items()):
        recipes = {name: paths[name] for name in same}
        source = NixpkgsSource(folder=folder, pin=plan.spec.branches[branch].pin(toolkit), system=system)
        left, cache = deadline - time.monotonic(), EvaluationCache.usual()
        done = evaluate(root, recipes, source, siblings=paths, seconds=left, cache=cache, on_outcomes=count)
        outcomes |= done.outcomes
    return BranchEvaluation(built, paths, Evaluated(outcomes))


def evaluate_pins(plan: Plan, folder: Path | None) -> Iterator[tuple[str, BranchEvaluation]]:
    """What the first compiled recipe of each branch and toolkit evaluates to, with the branch.

    Nothing is read from the checkout: each recipe is what the spec compiles to, with those that it needs. `folder` is
    the nixpkgs to use in place of the one that each is pinned to. Raises InputError.
    """
    packages = plan.spec.packages
    compiled = (
        built
        for built in built_variants(plan)
        if packages[built.variant.package].kind_of(built.variant.name) is RecipeKind.COMPILED and not built.cell.listed
    )
    for (branch, toolkit), alike in grouped(compiled, lambda built: (built.cell.branch, built.cell.toolkit)).items():
        (variant, cell), name = alike[0][:2], alike[0].variant.name
        needed = {variant.package, *needs_of(plan.spec, variant.package)}
        texts = {
            f"{other.name}.nix": recipe(plan.spec, cell, other)
            for other in cell.variants
            if other.package in needed and packages[other.package].repository is None
        }
        source = NixpkgsSource(folder=folder, pin=plan.spec.branches[branch].pin(toolkit), system=cell.system)
        with written(texts) as root:
            done = evaluate(root, {name: root / f"{name}.nix"}, source, cache=EvaluationCache.usual())
        moved = {key: replace(finding, place=Place(recipe_path(key))) for key, finding in done.findings.items()}
        yield branch, BranchEvaluation({name: alike[0]}, {}, Evaluated({**done.outcomes, **moved}))


def with_real(plan: Plan, real: BranchEvaluation, findings: Iterable[Finding]) -> list[Finding]:
    """The findings with the stand-in, corrected and completed by what the true nixpkgs says."""
    built, paths, done = real
    decided = {str(paths[name]) for name in (*done.derivations, *done.findings)}
    rest = [
        each
        for each in findings
        if each.code not in _OF_THE_STANDIN or decided.isdisjoint({each.place.file, parts_of_message(each.message)[1]})
    ]
    differing = (
        about(Place(str(paths[name]), 1, 1), Code.EVALUATION_DIFFERS, message)
        for name, derivation in done.derivations.items()
        for message in differences(plan.spec, built[name], derivation.attributes)
    )
    return [*rest, *done.findings.values(), *differing]
