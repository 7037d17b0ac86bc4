"""The recipes of a branch, by variant: compiled from the spec, or rendered from a template of the repository."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from ci_compiler.files.drift import FLOX, MARK, THIN, Territory
from ci_compiler.plan.matrix import Cell, Variant
from ci_compiler.plan.rules import Judged
from ci_compiler.recipes import compiled, seeds, template, thin
from ci_compiler.recipes import nix_text as nix
from ci_compiler.recipes.subject import Subject, subject_of
from ci_compiler.spec.model import RecipeKind, Spec
from ci_compiler.variant import RECIPES, recipe_path, variant_name

NO_TEMPLATES: Mapping[str, str] = {}


def recipes(
    spec: Spec,
    judged: Judged,
    branch: str,
    templates: Mapping[str, str] = NO_TEMPLATES,
    *,
    self_contained: bool = False,
) -> dict[str, str]:
    """The recipes of `branch` that are written, by path from the repository's root, and their `.gitattributes`.

    With them come the files that they share (`recipes.thin`), unless all are to be `self_contained`. `templates` are
    the texts of the spec's templates, by path (`template_paths`). Recipes of the repository's own are left out. Raises
    InputError for a template that is missing, or a placeholder that is unknown.
    """
    if not spec.backend.has_recipes:
        return {}
    template.check(spec, templates)
    made: dict[str, str] = {}
    shared: dict[str, thin.Shared] = {}
    own = False
    for cell in judged.cells:
        for variant in cell.variants if cell.branch == branch else ():
            if spec.packages[variant.package].kind_of(variant.name) is RecipeKind.OWN:
                own = True
            else:
                seeder = seeds.seeder_of(spec, judged.cells, cell, variant.package)
                seeded_by = variant_name(variant.package, seeder.suffix) if seeder else ""
                subject = subject_of(spec, cell, variant, seeded_by=seeded_by)
                made[recipe_path(variant.name)] = _recipe(subject, templates, None if self_contained else shared)
    texts = {other.path: other.text for other in shared.values()}
    return {**_attributes_file(spec, made, own=own), **made, **texts, **dict(thin.functions(spec, texts.values()))}


def _recipe(subject: Subject, templates: Mapping[str, str], shared: dict[str, thin.Shared] | None) -> str:
    """The text of a recipe. `shared` collects, by path, what thin ones share; None has no recipe be thin."""
    if subject.package.kind_of(subject.variant.name) is RecipeKind.TEMPLATE:
        return template.render(subject, templates[subject.package.template])
    if shared is None or not thin.is_thin(subject):
        return compiled.render(subject)
    path = thin.shared_path(subject)
    if path not in shared:
        shared[path] = thin.shared(subject)
    return thin.recipe(subject, shared[path])


def territories(spec: Spec, judged: Judged, branch: str) -> tuple[Territory, Territory]:
    """The folder of the recipes of `branch`, in which the repository's own are kept, and that of what they share."""
    own = (
        recipe_path(variant.name)
        for cell in judged.cells
        for variant in cell.variants
        if cell.branch == branch and spec.packages[variant.package].kind_of(variant.name) is RecipeKind.OWN
    )
    return FLOX._replace(kept=frozenset(own)), THIN


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
    """The self-contained text of the recipe of `variant`, which is not one of the repository's own.

    `seeded_by` is the variant whose host code it takes, or ''.
    """
    return _recipe(subject_of(spec, cell, variant, seeded_by=seeded_by), templates, None)


def pname(spec: Spec, cell: Cell, variant: Variant) -> str:
    """The `pname` of the recipe of `variant`."""
    return subject_of(spec, cell, variant).pname
