"""The files that are edited on the default branch alone, and carried to the other branches from there."""

from __future__ import annotations

from ci_compiler.spec.model import Spec
from ci_compiler.spec.packages import RecipeKind

SPEC = ".github/ci-matrix.yaml"
"""The path of the spec in a repository."""


def default_branch(spec: Spec) -> str:
    """The repository's default branch: the first one of the spec."""
    return next(iter(spec.branches))


def template_paths(spec: Spec) -> tuple[str, ...]:
    """The paths of the spec's templates, from the repository's root."""
    using = (package for package in spec.packages.values() if package.may_be(RecipeKind.TEMPLATE))
    return tuple(dict.fromkeys(package.template for package in using))


def carried_paths(spec: Spec, spec_path: str = SPEC) -> tuple[str, ...]:
    """The paths of the spec, if it is the repository's own at `spec_path`, of the templates and of the overlays."""
    own = [spec_path] if spec.bundled or spec.document.file == spec_path else []
    overlays = (path for package in spec.packages.values() for path in package.overlays)
    return tuple(dict.fromkeys([*own, *template_paths(spec), *overlays]))
