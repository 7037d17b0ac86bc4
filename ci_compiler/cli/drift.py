"""Compiled files: written with counts of the changes, or checked with the command that fixes drift."""

from __future__ import annotations

import argparse
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from ci_compiler.cli.console import note
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, Place
from ci_compiler.files.drift import ChangeKind, FileChange, Territory, apply, compare, differences
from ci_compiler.plan.limits import beyond_filters
from ci_compiler.plan.matrix import Cell
from ci_compiler.spec.model import RecipeKind, Spec
from ci_compiler.units import counted
from ci_compiler.variant import recipe_path, recipe_paths

DRIFT = {
    ChangeKind.ADDED: "is missing",
    ChangeKind.CHANGED: "is not as compiled",
    ChangeKind.REMOVED: "is no longer compiled",
}


_LOCKED = """\
`gh actions-lock` rewrote compiled files, whose actions are pinned to commits already. Remove their entries from
.github/workflows/actions.lock, and give it the paths of your own workflows: `gh actions-lock FILE...`"""


def write_or_check(
    arguments: argparse.Namespace,
    command: Sequence[str],
    root: Path,
    files: Mapping[str, str],
    territories: Sequence[Territory],
    done: Callable[[str], None],
) -> int:
    """Writes `files` to `root` and calls `done` with the counts of the changes: `2 added, 1 removed, 31 unchanged`.

    With `--diff`, the differences are printed. With `--check`, nothing is written; the files that drifted are printed
    with `command`, which fixes them, and the result is 1. Raises InputError if a file cannot be written.
    """
    changes = compare(root, files, territories)
    if arguments.diff:
        for line in differences(changes):
            print(line)
    if arguments.check:
        return _report(changes, arguments, command)
    apply(root, files, changes, territories)
    kinds = Counter(change.kind for change in changes)
    unchanged = len(files) - kinds[ChangeKind.ADDED] - kinds[ChangeKind.CHANGED]
    counts = ", ".join(f"{kinds[kind]} {kind}" for kind in ChangeKind if kinds[kind])
    done(f"{counts}, {unchanged} unchanged" if counts else f"all {unchanged} unchanged")
    return 0


def missing_recipes(spec: Spec, cells: Iterable[Cell], branch: str, root: Path) -> list[Finding]:
    """An error for each of the repository's own recipes of `branch` that is not in `root`."""
    variants = [
        variant for cell in cells for variant in cell.variants if cell.branch == branch and spec.backend.has_recipes
    ]
    own = [
        variant.name for variant in variants if spec.packages[variant.package].kind_of(variant.name) is RecipeKind.OWN
    ]
    return [
        Finding(
            place=Place(file=recipe_path(name)),
            code=Code.MISSING_RECIPE,
            message=f"is missing: the recipe of {name} is the repository's own; restore it, or remove the variant from "
            "the spec",
        )
        for name in own
        if not any((root / path).is_file() for path in recipe_paths(name))
    ]


def _report(changes: Sequence[FileChange], arguments: argparse.Namespace, command: Sequence[str]) -> int:
    for change in changes:
        note(f"error: {change.path}: {DRIFT[change.kind]} [drift]")
    if not changes:
        return 0
    words = [*command]
    for option in ("branch", "output", "root", "spec"):
        if (value := getattr(arguments, option, None)) is not None:
            words += [f"--{option}", str(value)]
    words += ["--bundled"] if getattr(arguments, "bundled", False) else []
    note(f"{counted(len(changes), 'file')} drifted; run `{shlex.join(words)}`")
    if said := beyond_filters("that", len(changes)):
        note(f"{said}: a push of it may not start every shard; `ci-compile sync --push --waves` does")
    if any(change.is_locked for change in changes):
        note(_LOCKED)
    return 1
