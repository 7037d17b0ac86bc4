"""The named work-arounds that recipes have, recognised by what the recipes evaluate to.

A work-around is recognised by the patches of its overlay, else by its CMake flags, else by the files that its shell
code writes: the parts that any recipe with the same effect must share.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ci_compiler.adoption.evaluation import PHASES, Evaluation
from ci_compiler.adoption.identity import TORCH, at
from ci_compiler.adoption.named_recipes import Recipe
from ci_compiler.codes import Code
from ci_compiler.errors import Finding
from ci_compiler.hardware import CPU
from ci_compiler.recipes.work_arounds import Piece, pieces

_NAME = re.compile(r'\bname = "([^"]+)"')
_OVERLAID = re.compile(r"\b([\w-]+) = prev\.")
_WRITTEN = re.compile(r">\s*['\"]?([^\s'\"<>;&|]+)")
_WORD = re.compile(r"@[a-z\\-]+@")
_OVERLAID_ANYWAY = re.compile(r"cudaPackages|python\w*")


def work_arounds_of(recipes: Sequence[Recipe]) -> tuple[tuple[str, ...], list[Finding]]:
    """The work-arounds that most torches of GPU recipes have; warnings for recipes that differ and unknown overlays."""
    subjects = list(_torches(recipes))
    found: list[Piece] = []
    findings: list[Finding] = []
    for piece in (piece for piece in pieces() if piece.is_work_around):
        have = [(recipe, _has(torch, piece)) for recipe, torch in subjects]
        usual = 2 * sum(has for _, has in have) > len(have)
        found += [piece] * usual
        said = "lacks the work-around" if usual else "has the work-around"
        findings += [
            at(
                recipe.evaluation,
                Code.WORK_AROUND_DIFFERS,
                f"it {said} {piece.name}, unlike most recipes of its branch",
            )
            for recipe, has in have
            if has is not usual
        ]
    return tuple(piece.name for piece in found), [*findings, *_left_out(subjects, found)]


def _torches(recipes: Sequence[Recipe]) -> Iterator[tuple[Recipe, Evaluation]]:
    """The torches of GPU recipes: the torch recipes, or, without any, those that the others are built with."""
    gpus = [recipe for recipe in recipes if recipe.identity.gpu != CPU]
    own = [recipe for recipe in gpus if recipe.identity.attribute == TORCH]
    for recipe in own or gpus:
        torch = recipe.evaluation if own else recipe.evaluation.torch
        if torch is not None:
            yield recipe, torch


def _has(torch: Evaluation, piece: Piece) -> bool:
    if patches := _NAME.findall(piece.overlay):
        overlaid = (torch.overlaid.get(attribute) for attribute in _OVERLAID.findall(piece.overlay))
        there = {patch.name for one in overlaid if one for patch in one.patches}
        return there.issuperset(patches)
    if piece.cmake:
        wanted = [re.compile(_WORD.sub(".+", re.escape(flag))) for flag in piece.cmake]
        return all(any(map(pattern.fullmatch, torch.cmake_flags)) for pattern in wanted)
    hooks = "\n".join(str(torch.attributes.get(phase, "")) for phase in PHASES) + torch.pre_configure
    there = {path.rsplit("/", 1)[-1] for path in _WRITTEN.findall(hooks)}
    written = _WRITTEN.findall(piece.post_patch + "\n" + piece.pre_configure)
    return bool(written) and there.issuperset(path.rsplit("/", 1)[-1] for path in written)


def _left_out(subjects: Sequence[tuple[Recipe, Evaluation]], found: Sequence[Piece]) -> Iterator[Finding]:
    """A finding for each attribute that overlays change and no work-around does."""
    known = {attribute for piece in found for attribute in _OVERLAID.findall(piece.overlay)}
    counts: dict[str, list[Recipe]] = {}
    for recipe, torch in subjects:
        for attribute in torch.overlaid:
            if attribute not in known and not _OVERLAID_ANYWAY.fullmatch(attribute):
                counts.setdefault(attribute, []).append(recipe)
    for attribute, mine in sorted(counts.items()):
        more = f", as do {len(mine) - 1} more recipes" if len(mine) > 1 else ""
        message = f"its overlay changes {attribute}{more}; no work-around does that, so it is left out"
        yield at(mine[0].evaluation, Code.OVERLAY_LEFT_OUT, message, "nixpkgs.overlays")
