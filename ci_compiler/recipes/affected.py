"""The variants that a change rebuilds: changed recipes, recipes that import them, and those that the spec changes.

Recipes are self-contained, so a changed file is a changed variant. A recipe that names another file (its torch, a
shared builder) changes with it. Paths are found among the Nix tokens of a file; nothing is evaluated.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ci_compiler.errors import InputError
from ci_compiler.git import Git
from ci_compiler.plan.rules import Judged, judge
from ci_compiler.plan.sources import rebuilt_packages
from ci_compiler.recipes.identifiers import mentions
from ci_compiler.spec.build import bundled_spec, parse_spec
from ci_compiler.spec.model import Spec
from ci_compiler.spec.values import variant_values
from ci_compiler.variant import RECIPES, recipe_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Affected:
    """A variant that a change rebuilds, and why: the file that changed, or the spec."""

    name: str
    because: str


def affected(git: Git, *, base: str, head: str, spec_path: str, spec: Spec, branch: str) -> tuple[Affected, ...]:
    """The variants of `branch` that the change from `base` to `head` rebuilds, in the matrix's order.

    `spec` is the spec at `head`, `spec_path` its place in the repository. Raises InputError for an unknown revision.
    """
    judged = judge(spec)
    changed = git.changed(base, head)
    if spec.backend.has_recipes:
        reasons = changed_recipes(git, base=base, head=head)
    else:
        packages = rebuilt_packages(spec, (path for path in changed if path != spec_path))
        reasons = {name: packages[package] for name, package in _variants(judged, branch) if package in packages}
    if spec_path in changed:
        reasons = _by_spec(git, base, spec_path, spec, judged, branch) | reasons
    names = [name for name, _ in _variants(judged, branch)]
    return tuple(Affected(name=name, because=reasons[name]) for name in names if name in reasons)


def _variants(judged: Judged, branch: str) -> Iterator[tuple[str, str]]:
    """Each variant of `branch` with its package, in the matrix's order."""
    for cell in judged.cells:
        if cell.branch == branch:
            yield from ((variant.name, variant.package) for variant in cell.variants)


def changed_recipes(git: Git, *, base: str, head: str) -> dict[str, str]:
    """The recipes at `head` that differ from `base`, or name a file that does: name -> the path that changed."""
    changed = git.changed(base, head)
    if not changed:
        return {}
    tree = git.tree(head, RECIPES)
    files = [path for path in tree if path.endswith(".nix")]
    texts = dict(zip(files, git.blobs([tree[path] for path in files]), strict=True))
    uses = {path: named_paths(path, text.decode(errors="replace")) for path, text in texts.items()}
    reasons = {path: path for path in changed}
    grew = True
    while grew:
        found = {path: why for path in files if path not in reasons and (why := _reason(uses[path], reasons))}
        reasons |= found
        grew = bool(found)
    return {name: reasons[path] for path in files if path in reasons and (name := recipe_name(path))}


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


def _by_spec(git: Git, base: str, spec_path: str, spec: Spec, judged: Judged, branch: str) -> dict[str, str]:
    """The variants that the spec at `base` built differently or not at all."""
    before = _builds_of_base(git, base, spec_path, spec, branch)
    return {name: spec_path for name, how in _builds(spec, judged, branch).items() if before.get(name) != how}


def _builds(spec: Spec, judged: Judged, branch: str) -> dict[str, object]:
    """How the spec builds each variant of `branch`: its recipe, or its values and its script."""
    if spec.backend.has_recipes:
        from ci_compiler.recipes.render import recipes

        return {recipe_name(path): text for path, text in recipes(spec, judged, branch).items()}
    return {
        variant.name: (
            variant_values(spec, branch, variant.package, variant.name, cell),
            spec.packages[variant.package].command,
        )
        for cell in judged.cells
        if cell.branch == branch
        for variant in cell.variants
    }


def _builds_of_base(git: Git, base: str, spec_path: str, spec: Spec, branch: str) -> Mapping[str, object]:
    """`_builds` of the spec at `base` (of the bundled spec, if it had none); empty if that spec is wrong."""
    try:
        if spec_path in git.tree(base, spec_path):
            (data,) = git.blobs([f"{base}:{spec_path}"])
            old = parse_spec(data, shown=spec.document.file)
        else:
            old = bundled_spec()
        return _builds(old, judge(old), branch)
    except InputError:
        return {}
