"""The recipes of a branch, by variant: compiled from the spec, or rendered from a template of the repository."""

from __future__ import annotations

from collections.abc import Mapping

from ci_compiler.files.drift import MARK
from ci_compiler.plan.matrix import Cell, Variant
from ci_compiler.plan.rules import Judged
from ci_compiler.recipes import compiled, template
from ci_compiler.recipes import nix_text as nix
from ci_compiler.recipes.subject import subject_of
from ci_compiler.spec.model import RecipeKind, Spec
from ci_compiler.variant import RECIPES, recipe_path

NO_TEMPLATES: Mapping[str, str] = {}


def recipes(spec: Spec, judged: Judged, branch: str, templates: Mapping[str, str] = NO_TEMPLATES) -> dict[str, str]:
    """The recipes of `branch` by path from the repository's root, and their `.gitattributes`.

    `templates` are the texts of the spec's templates, by path (`template.paths`). Recipes of the maintainer's own are
    left out. Raises InputError for a placeholder that a template has and no variant has a value for.
    """
    template.check(spec, templates)
    note = f"{nix.comment(MARK)} from {spec.document.file}: GitHub folds these in its view of changes.\n"
    return {
        f"{RECIPES}/.gitattributes": f"{note}*.nix linguist-generated=true\n",
        **{
            recipe_path(variant.name): recipe(spec, cell, variant, templates)
            for cell in judged.cells
            if cell.branch == branch
            for variant in cell.variants
            if spec.packages[variant.package].kind_of(variant.name) is not RecipeKind.OWN
        },
    }


def recipe(spec: Spec, cell: Cell, variant: Variant, templates: Mapping[str, str] = NO_TEMPLATES) -> str:
    """The text of the recipe of `variant`, which is not one of the maintainer's own."""
    subject = subject_of(spec, cell, variant)
    if subject.package.kind_of(variant.name) is RecipeKind.TEMPLATE:
        return template.render(subject, templates[subject.package.template])
    return compiled.render(subject)


def pname(spec: Spec, cell: Cell, variant: Variant) -> str:
    """The `pname` of the recipe of `variant`."""
    return subject_of(spec, cell, variant).pname
