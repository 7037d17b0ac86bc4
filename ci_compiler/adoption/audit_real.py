"""Whether the recipes of a branch evaluate to their variants with the true nixpkgs."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

from ci_compiler.adoption.evaluation_cache import EvaluationCache
from ci_compiler.adoption.evaluator import find_recipes, name_of
from ci_compiler.adoption.real_nixpkgs import SECONDS, Derivation, Evaluated, Source, evaluate
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, Place
from ci_compiler.plan.lookup import BuiltVariant, built_variants
from ci_compiler.plan.pipeline import Plan
from ci_compiler.recipes.judged import differences

_OF_THE_STANDIN = {Code.RECIPE_EVALUATION, Code.RECIPE_TIMEOUT}
"""What the stand-in may report only because it lacks something; the true nixpkgs decides."""


class BranchEvaluation(NamedTuple):
    """The variants of a branch that have a recipe, those recipes, by name, and what they evaluate to."""

    built: dict[str, BuiltVariant]
    paths: dict[str, Path]
    done: Evaluated


def evaluate_branch(
    root: Path, plan: Plan, branch: str, folder: Path | None, names: Collection[str] | None = None
) -> BranchEvaluation:
    """Evaluates the recipes under `root` of the variants of `branch`, or of those in `names`.

    `folder` is the nixpkgs to use in place of those that the recipes fetch. Raises InputError.
    """
    paths = {name_of(path): path for path in find_recipes(root)}
    built = {
        one.variant.name: one
        for one in built_variants(plan)
        if one.cell.branch == branch and one.variant.name in paths and (names is None or one.variant.name in names)
    }
    derivations: dict[str, Derivation] = {}
    findings: dict[str, Finding] = {}
    late: list[str] = []
    deadline = time.monotonic() + SECONDS
    for cuda, system in sorted({(one.cell.toolkit, one.cell.system) for one in built.values()}):
        same = [name for name, one in built.items() if (one.cell.toolkit, one.cell.system) == (cuda, system)]
        recipes = {name: paths[name] for name in same}
        source = Source(folder=folder, pin=plan.spec.branches[branch].pin(cuda), system=system)
        left = deadline - time.monotonic()
        part = evaluate(root, recipes, source, siblings=paths, seconds=left, cache=EvaluationCache.usual())
        derivations |= part.derivations
        findings |= part.findings
        late += part.late
    done = Evaluated(derivations=derivations, findings=findings, late=tuple(late))
    return BranchEvaluation(built, paths, done)


def with_real(plan: Plan, real: BranchEvaluation, found: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings `found` with the stand-in, corrected and completed by what the true nixpkgs says."""
    built, paths, done = real
    decided = {str(paths[name]) for name in (*done.derivations, *done.findings)}
    rest = [one for one in found if not (one.code in _OF_THE_STANDIN and one.place.file in decided)]
    rest += done.findings.values()
    for name, one in done.derivations.items():
        place = Place(file=str(paths[name]), line=1, column=1)
        for message in differences(plan.spec, built[name], one.attributes):
            rest.append(Finding(place=place, code=Code.EVALUATION_DIFFERS, message=message))
    return tuple(sorted(set(rest), key=lambda finding: (finding.place, finding.code, finding.message)))
