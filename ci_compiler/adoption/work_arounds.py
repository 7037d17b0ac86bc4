"""The named work-arounds that recipes have, recognised by what the recipes evaluate to.

A work-around is recognised by the patches of its overlay, else by its CMake flags, else by the compiler flags that its
shell code adds, else by the files that the code writes: the parts that any recipe with the same effect must share.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ci_compiler.adoption.evaluation import Evaluation
from ci_compiler.recipes.shell_variables import PHASES
from ci_compiler.recipes.work_arounds import Piece, pieces

_NAME = re.compile(r'\bname = "([^"]+)"')
_OVERLAID = re.compile(r"\b([\w-]+) = prev\.")
_WRITTEN = re.compile(r">\s*['\"]?([^\s'\"<>;&|]+)")
_PREPENDED = re.compile(r'^export (\w+)="(\S+) \$\1"$', re.MULTILINE)
_WORD = re.compile(r"@[a-z\\-]+@")


def work_arounds_of(recipes: Sequence[Evaluation]) -> tuple[str, ...]:
    """The work-arounds that most torches of `recipes`, which are for GPUs, have."""
    torches = [one.torch or one for one in recipes if one.torch or one.package == "torch"]
    return tuple(
        piece.name
        for piece in pieces()
        if piece.is_work_around and 2 * sum(_has(torch, piece) for torch in torches) > len(torches)
    )


def _has(torch: Evaluation, piece: Piece) -> bool:
    if patches := _NAME.findall(piece.overlay):
        overlaid = (torch.overlaid.get(attribute) for attribute in _OVERLAID.findall(piece.overlay))
        there = {patch.name for one in overlaid if one for patch in one.patches}
        return there.issuperset(patches)
    if piece.cmake:
        wanted = [re.compile(_WORD.sub(".+", re.escape(flag))) for flag in piece.cmake]
        return all(any(map(pattern.fullmatch, torch.cmake_flags)) for pattern in wanted)
    if prepended := _PREPENDED.findall(piece.pre_configure):
        return all(word in torch.flags.get(name, ()) for name, word in prepended)
    hooks = "\n".join(str(torch.attributes.get(phase, "")) for phase in PHASES) + torch.pre_configure
    there = {path.rsplit("/", 1)[-1] for path in _WRITTEN.findall(hooks)}
    written = _WRITTEN.findall(piece.post_patch + "\n" + piece.pre_configure)
    return bool(written) and there.issuperset(path.rsplit("/", 1)[-1] for path in written)
