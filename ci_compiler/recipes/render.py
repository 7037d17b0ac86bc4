"""The recipes of a branch, by variant: compiled from the spec, or rendered from a template of the repository."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from ci_compiler.files.drift import FLOX, MARK, Territory
from ci_compiler.plan.matrix import Cell, Variant
from ci_compiler.plan.rules import Judged
from ci_compiler.recipes import compiled, seeds, template
from ci_compiler.recipes import nix_text as nix
from ci_compiler.recipes.subject import subject_of
from ci_compiler.spec.model import RecipeKind, Spec
from ci_compiler.variant import RECIPES, recipe_path, variant_name

NO_TEMPLATES: Mapping[str, str] = {}


def recipes(spec: Spec, judged: Judged, branch: str, templates: Mapping[str, str] = NO_TEMPLATES) -> dict[str, str]:
    """The recipes of `branch` that are written, by path from the repository's root, and their `.gitattributes`.

    `templates` are the texts of the spec's templates, by path (`template_paths`). Recipes of the repository's own are
    left out. Raises InputError for a template that is missing, or a placeholder that is unknown.
    """
    if not spec.backend.has_recipes:
        return {}
    template.check(spec, templates)
    made: dict[str, str] = {}
    own = False
    for cell in judged.cells:
        for variant in cell.variants if cell.branch == branch else ():
            if spec.packages[variant.package].kind_of(variant.name) is RecipeKind.OWN:
                own = True
            else:
                seeder = seeds.seeder_of(spec, judged.cells, cell, variant.package)
                seeded_by = variant_name(variant.package, seeder.suffix) if seeder else ""
                made[recipe_path(variant.name)] = recipe(spec, cell, variant, templates, seeded_by=seeded_by)
    return {**_attributes_file(spec, made, own=own), **made}


def territory(spec: Spec, judged: Judged, branch: str) -> Territory:
    """The folder of the recipes of `branch`, in which the repository's own recipes are kept."""
    own = (
        recipe_path(variant.name)
        for cell in judged.cells
        for variant in cell.variants
        if cell.branch == branch and spec.packages[variant.package].kind_of(variant.name) is RecipeKind.OWN
    )
    return FLOX._replace(kept=frozenset(own))


def _attributes_file(spec: Spec, made: Iterable[str], *, own: bool) -> dict[str, str]:
    """The `.gitattributes` that marks compiled recipes, one by one where the branch has recipes of its own too."""
    names = ([PurePosixPath(path).name for path in made] if own else ["*.nix"]) if made else []
    note = f"{nix.comment(MARK)} from {spec.document.file}: GitHub folds these in its view of changes.\n"
    lines = "".join(f"{name} linguist-generated=true\n" for name in names)
    return {f"{RECIPES}/.gitattributes": f"{note}{lines}"} if names else {}


def recipe(
    spec: Spec,
    cell: Cell,
    variant: Variant,
    templates: Mapping[str, str] = NO_TEMPLATES,
    *,
    seeded_by: str = "",
) -> str:
    """The text of the recipe of `variant`, which is not one of the repository's own.

    `seeded_by` is the variant whose host code it takes, or ''.
    """
    subject = subject_of(spec, cell, variant, seeded_by=seeded_by)
    if subject.package.kind_of(variant.name) is RecipeKind.TEMPLATE:
        return template.render(subject, templates[subject.package.template])
    return compiled.render(subject)


def pname(spec: Spec, cell: Cell, variant: Variant) -> str:
    """The `pname` of the recipe of `variant`."""
    return subject_of(spec, cell, variant).pname
