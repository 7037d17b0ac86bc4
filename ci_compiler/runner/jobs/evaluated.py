"""Whether a recipe evaluates to its variant. A build takes hours and an evaluation seconds, so this comes first."""

from __future__ import annotations

from collections.abc import Mapping

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, Place, StageError
from ci_compiler.plan.lookup import BuiltVariant
from ci_compiler.recipes.judged import differences
from ci_compiler.spec.model import Spec


def check_evaluated(spec: Spec, built: BuiltVariant, attributes: Mapping[str, str]) -> None:
    """Raises StageError with each way in which `attributes`, those of the derivation, are not the variant's."""
    place = Place(file=built.recipe)
    found = [
        Finding(place=place, code=Code.EVALUATION_DIFFERS, message=message)
        for message in differences(spec, built, attributes)
    ]
    if found:
        raise StageError(found)
