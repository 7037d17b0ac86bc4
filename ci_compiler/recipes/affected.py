"""The variants that a change rebuilds: changed recipes, recipes that import them, and those that the spec changes.

A recipe changes with every file that it names: what compiled recipes share, its torch, a shared builder; and so do all
recipes of a package that declares a changed file as shared. An own recipe without a pin changes with the locks. Paths
are found among the Nix tokens of a file; nothing is evaluated.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ci_compiler.errors import InputError
from ci_compiler.git import Git
from ci_compiler.plan.matrix import Cell, Variant, command_values, values_in
from ci_compiler.plan.needs import Needs
from ci_compiler.plan.rules import Judged, judge
from ci_compiler.plan.sources import locks_of, rebuilt_packages
from ci_compiler.recipes.identifiers import mentions
from ci_compiler.spec.build import bundled_spec, parse_spec
from ci_compiler.spec.carried import SPEC, template_paths
from ci_compiler.spec.model import Spec
from ci_compiler.variant import RECIPES, SHARED, recipe_name, recipe_path, recipe_paths

NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Affected:
    """A variant that a change rebuilds, and why: the file that changed, or the spec."""

    name: str
    because: str


def affected(git: Git, *, base: str, head: str, spec: Spec, branch: str) -> tuple[Affected, ...]:
    """The variants of `branch` that the change from `base` to `head` rebuilds, in the matrix's order.

    `spec` is the spec at `head`. Raises InputError for an unknown revision.
    """
    judged = judge(spec)
    cells = [cell for cell in judged.cells if cell.branch == branch]
    changed = git.changed(base, head)
    if spec.backend.has_recipes:
        reasons = dict(_by_shared(spec, cells, changed))
        if changed.keys() & {SPEC, *template_paths(spec)}:
            same_spec = SPEC not in changed
            reasons |= _by_spec(git, base, head, spec, judged, branch, same_spec=same_spec)
        found = changed_recipes(git, changed, head=head, reasons=reasons, shared=read_by_recipes(spec))
    else:
        packages = rebuilt_packages(spec, (path for path in changed if path != SPEC))
        built = {variant.name: variant.package for cell in cells for variant in cell.variants}
        found = {name: packages[package] for name, package in built.items() if package in packages}
        if SPEC in changed:
            found |= _by_values(git, base, spec, cells, branch)
        found |= _by_others(Needs(spec, cells), cells, found)
    names = [variant.name for cell in cells for variant in cell.variants]
    return tuple(Affected(name=name, because=found[name]) for name in names if name in found)


def _by_others(needs: Needs, cells: Iterable[Cell], found: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The further variants that are built with one of `found`, each with the cause of that one."""
    for cell in cells:
        for variant in cell.variants if found else ():
            others = (one.name for _, one in needs.every(cell, variant.package) if one.name in found)
            if variant.name not in found and (other := next(others, "")):
                yield variant.name, found[other]


def read_by_recipes(spec: Spec) -> tuple[str, ...]:
    """The files and folders that recipes read and the spec declares, as paths from the repository's root."""
    return tuple(
        dict.fromkeys(path for package in spec.packages.values() for path in (*package.shared, *package.overlays))
    )


def changed_recipes(
    git: Git,
    changed: Iterable[str],
    *,
    head: str,
    reasons: Mapping[str, str] = NOTHING,
    shared: Sequence[str] = (),
) -> dict[str, str]:
    """The recipes at `head` that are among the `changed` paths, or name a file that is: name -> the path that changed.

    `reasons` gives the cause for further recipes, by path. Files in `shared` may be named on the way.
    """
    because = {**reasons, **{path: path for path in changed}}
    if not because:
        return {}
    tree = git.tree(head, RECIPES, SHARED, *shared)
    files = [path for path in tree if path.endswith(".nix")]
    texts = dict(zip(files, git.blobs([tree[path] for path in files]), strict=True))
    because = with_importers({path: text.decode(errors="replace") for path, text in texts.items()}, because)
    return {name: because[path] for path in files if path in because and (name := recipe_name(path))}


def with_importers(texts: Mapping[str, str], because: Mapping[str, str]) -> dict[str, str]:
    """`because`, causes by path, with those of `texts`, Nix files by path, that name one of its paths, and so on."""
    uses = {path: named_paths(path, text) for path, text in texts.items()} if because else {}
    causes, found = dict(because), dict(because)
    while found:
        found = {path: why for path in uses if path not in causes and (why := _reason(uses[path], causes))}
        causes |= found
    return causes


def _by_shared(spec: Spec, cells: Iterable[Cell], changed: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The recipe of each variant that a changed path of its package's shared ones or of its locks decides, with it."""
    paths = {path: path for path in changed}
    shared = {name: _reason((*one.shared, *one.overlays), paths) for name, one in spec.packages.items()}
    for cell in cells:
        for variant in cell.variants:
            if why := shared[variant.package] or _reason(locks_of(spec, cell, variant), paths):
                yield from dict.fromkeys(recipe_paths(variant.name), why).items()


def named_paths(path: str, text: str) -> frozenset[str]:
    """The paths, from the repository's root, that the Nix file at `path` names."""
    folder = posixpath.dirname(path)
    return frozenset(
        posixpath.normpath(posixpath.join(folder, word)) for word in mentions(text).paths if word.startswith(".")
    )


def _reason(uses: Iterable[str], reasons: Mapping[str, str]) -> str:
    """The changed path among the `uses` of a file; a folder counts as everything in it. '' if nothing changed."""
    for used in sorted(uses):
        if used in reasons:
            return reasons[used]
        if below := sorted(path for path in reasons if used == "." or path.startswith(f"{used}/")):
            return reasons[below[0]]
    return ""


def _by_spec(
    git: Git, base: str, head: str, spec: Spec, judged: Judged, branch: str, *, same_spec: bool
) -> dict[str, str]:
    """The recipes that the spec or a template at `base` made to another text or not at all: path -> what changed."""
    from ci_compiler.recipes.render import recipes

    now = recipes(spec, judged, branch, _templates(git, head, spec))
    before = _recipes_of_base(git, base, spec, branch)
    because = {
        recipe_path(variant.name): spec.packages[variant.package].template
        for cell in judged.cells
        for variant in cell.variants
        if same_spec
    }
    changed = {path: because.get(path) or SPEC for path, text in now.items() if before.get(path) != text}
    return with_importers(now, changed)


def _templates(git: Git, commit: str, spec: Spec) -> dict[str, str]:
    """The texts of the spec's templates at `commit`, by path; those that it has."""
    tree = git.tree(commit, *template_paths(spec)) if template_paths(spec) else {}
    return {
        path: data.decode(errors="replace") for path, data in zip(tree, git.blobs(list(tree.values())), strict=True)
    }


def _by_values(git: Git, base: str, spec: Spec, cells: Sequence[Cell], branch: str) -> dict[str, str]:
    """The variants whose values or commands the spec at `base` did not have: name -> what changed."""
    old = _spec_of_base(git, base, spec)
    before = _builds(old, [cell for cell in judge(old).cells if cell.branch == branch]) if old else {}
    return {name: SPEC for name, how in _builds(spec, cells).items() if before.get(name) != how}


def _builds(spec: Spec, cells: Iterable[Cell]) -> dict[str, object]:
    """How each variant of `cells` is built without a recipe: its values, its commands and its edges."""
    return {variant.name: _build(spec, cell, variant) for cell in cells for variant in cell.variants}


def _build(spec: Spec, cell: Cell, variant: Variant) -> object:
    command = spec.packages[variant.package].command
    values = values_in(spec, cell, variant.package, variant.name)
    if command is None:
        return values, command
    edges = spec.packages[variant.package].edges, spec.packages[variant.package].gathers
    return values, command_values(command, cell, values), replace(command, env={}, container=()), edges


def _recipes_of_base(git: Git, base: str, spec: Spec, branch: str) -> Mapping[str, str]:
    """The recipes of the spec at `base`; empty if that spec is wrong."""
    from ci_compiler.recipes.render import recipes

    old = _spec_of_base(git, base, spec)
    try:
        return recipes(old, judge(old), branch, _templates(git, base, old)) if old else {}
    except InputError:
        return {}


def _spec_of_base(git: Git, base: str, spec: Spec) -> Spec | None:
    """The spec at `base`, or the bundled one if there is none; None if it is wrong."""
    try:
        if SPEC not in git.tree(base, SPEC):
            return bundled_spec()
        (data,) = git.blobs([f"{base}:{SPEC}"])
        return parse_spec(data, shown=spec.document.file)
    except InputError:
        return None
