"""The declared variants that are in the closure of a build, whatever the spec says of its needs.

`needs` is a promise, and the closure the proof: a recipe may use another one that the spec does not name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ci_compiler.backends.job import BackendPrograms
from ci_compiler.plan.lookup import BuiltVariant, built_variants
from ci_compiler.plan.pipeline import plan
from ci_compiler.runner.jobs.manifest import Manifest


def others_of(built: BuiltVariant) -> list[BuiltVariant]:
    """The other variants of the branch of `built`."""
    every = built_variants(plan(built.spec))
    return [one for one in every if one.cell.branch == built.cell.branch and one.variant.name != built.variant.name]


@dataclass(frozen=True, slots=True)
class ContainedVariants:
    """Finds the variants in closures; it evaluates the recipes of a commit once."""

    _outputs: dict[tuple[str, str], Mapping[str, tuple[str, ...]]] = field(default_factory=dict)

    def of(self, built: BuiltVariant, manifest: Manifest, programs: BackendPrograms) -> Iterator[BuiltVariant]:
        """The other variants of which the closure of the build of `built` has an output. Raises StageError."""
        others = others_of(built) if built.spec.backend.has_recipes else []
        at = manifest.branch, manifest.commit
        if at not in self._outputs:
            recipes = [built.recipe, *(other.recipe for other in others)]
            self._outputs[at] = programs.outputs(recipes)
        for other in others:
            if not manifest.closure.keys().isdisjoint(self._outputs[at].get(other.recipe, ())):
                yield other
