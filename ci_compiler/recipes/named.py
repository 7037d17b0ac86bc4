"""What recipes name of each other: the files that a recipe reads, and the needs that the spec does not declare."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, Place, about
from ci_compiler.outside import text_of
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.needs import Needs
from ci_compiler.recipes.identifiers import mentions, tokens_of


def reached(recipe: Path, root: Path) -> Iterator[Path]:
    """The files under `root` that `recipe` names, directly or not, with itself; a folder stands for all its files."""
    todo, seen = [recipe], set[Path]()
    while todo:
        path = todo.pop()
        if path in seen or not path.is_relative_to(root) or not path.exists():
            continue
        seen.add(path)
        if path.is_dir():
            todo += [other for other in path.rglob("*") if ".git" not in other.parts]
        elif path.is_file():
            yield path
            if path.suffix == ".nix":
                named = mentions(text_of(path, errors="replace")).paths
                todo += [_joined(path, word) for word in named if word.startswith(".")]


def _joined(path: Path, word: str) -> Path:
    return Path(os.path.normpath(path.parent / word))


def named_at(target: Path, files: Iterable[Path]) -> Place | None:
    """The first place in `files` that names the file `target` or its folder; None if none does."""
    for path in files:
        text = text_of(path, errors="replace") if path.suffix == ".nix" else ""
        for token in tokens_of(text):
            if token.kind == "path" and _joined(path, token.text) in {target, target.parent / target.stem}:
                line, column = text.count("\n", 0, token.start) + 1, token.start - text.rfind("\n", 0, token.start)
                return Place(str(path), line, column)
    return None


def declared(needs: Needs, cell: Cell, package: str) -> frozenset[str]:
    """The names of the variants that the spec says `package` in `cell` is built with, directly or not."""
    return frozenset(variant.name for _, variant in needs.every(cell, package))


def undeclared(place: Place, package: str, other: str, needed: str) -> Finding:
    """The finding that a recipe of `package` is built with the variant `other` of `needed` without declaring it."""
    message = (
        f"is built with {other}, and the spec does not say so; add {needed} to the `needs` of {package}, so that both "
        "are tested before either is published"
    )
    return about(place, Code.NEEDS_UNDECLARED, message)
