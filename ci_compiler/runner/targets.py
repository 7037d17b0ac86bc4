"""The variant that a stage works on, looked up in the spec: its cell and its pools."""

from __future__ import annotations

from ci_compiler.codes import Code
from ci_compiler.errors import InputError, wrong
from ci_compiler.plan.lookup import BuiltVariant, Explanation, explain
from ci_compiler.plan.pipeline import plan
from ci_compiler.spec.model import Package, Spec


def find(spec: Spec, name: str, branch: str = "") -> BuiltVariant:
    """The variant `name` on `branch` ('': on the only branch that has it).

    Raises InputError if the branch does not build it, or if several branches build it and `branch` is ''.
    """
    built = _built(spec, name)
    found = [other for other in built if branch in {"", other.cell.branch}]
    branches = " and ".join(other.cell.branch for other in built)
    if not found:
        raise wrong("--branch", Code.VARIANT_NOT_BUILT, f"{name} is not built on {branch}, but on {branches}")
    if len(found) > 1:
        raise wrong("--branch", Code.WHICH_BRANCH, f"{name} is built on {branches}; name one")
    return found[0]


def package_of(spec: Spec, name: str) -> Package:
    """The package of the variant `name`, whatever branch builds it. Raises InputError if none does."""
    return spec.packages[_built(spec, name)[0].variant.package]


def _built(spec: Spec, name: str) -> tuple[BuiltVariant, ...]:
    explanation = explain(plan(spec), name)
    if not explanation.built:
        raise refusal(explanation)
    return explanation.built


def refusal(told: Explanation) -> InputError:
    """The error for a name that no branch builds."""
    if told.unknown:
        return wrong("NAME", Code.UNKNOWN_VARIANT, told.unknown)
    reasons = "; ".join(variant.reason for variant in told.absent)
    return wrong("NAME", Code.VARIANT_NOT_BUILT, f"{told.name} is not built: {reasons}")
