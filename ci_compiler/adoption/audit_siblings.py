"""Recipes that differ from the others of their package, where nothing in their names tells why.

Recipes of one package are written alike: what each sets is the same in all, or follows from its toolkit, target, ISA or
Python. A value that nearly all others with the same toolkit (or target, …) have in another way, and that no recipe with
the same values on two axes shares, is a slip of the hand or a choice that the name hides: a patch that is missing,
another revision, a flag that was left out. Whether it is wrong is not known here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations, product
from pathlib import Path
from statistics import median
from typing import NamedTuple

from ci_compiler.adoption.audit_checks import label, package_in
from ci_compiler.adoption.audit_text import FEWEST, NEARLY_ALL
from ci_compiler.adoption.comparison import short, written_values
from ci_compiler.adoption.evaluation import Evaluation
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, Place, about
from ci_compiler.plan.matrix import Cell
from ci_compiler.units import counted, grouped
from ci_compiler.variant import toolkit_tag

_AXES = ("target", "isa", "toolkit", "python")
_GROUPINGS = tuple(axes for size in (0, 1, 2) for axes in combinations(_AXES, size))
FEWEST_ALIKE = 3
"""The fewest recipes with one value on an axis that are compared."""

MOST_SHOWN = 3
"""The most values that a finding shows of a recipe; it counts the others."""

_OF_ITS_OWN = frozenset({"description", "longDescription", "platforms"})
"""The attributes that differ by themselves, or that have a check of their own."""


class _Recipe(NamedTuple):
    cell: Cell
    evaluation: Evaluation
    written: Mapping[str, str]
    values: Mapping[str, str]  # as `written`, without the words of its own name


_Groups = dict[tuple[str, ...], list[_Recipe]]
"""Recipes by their values on some axes."""


def unlike_the_others(
    found: Mapping[str, Evaluation], cells: Mapping[str, Cell], known: Collection[str]
) -> Iterator[Finding]:
    """A finding for each recipe of `found`, by name, that differs from the others; none for the files `known`."""
    for names in grouped(found, lambda name: package_in(cells[name], name)).values():
        recipes = {name: _recipe(cells[name], name, found[name]) for name in names}
        yield from _of_a_package(recipes, known)


def _on(cell: Cell, axes: Sequence[str]) -> tuple[str, ...]:
    return tuple(getattr(cell, axis) for axis in axes)


def _of_a_package(recipes: Mapping[str, _Recipe], known: Collection[str]) -> Iterator[Finding]:
    """The findings of one package; a value that few recipes have, such as a rare target, explains what they do."""
    peers: dict[tuple[str, ...], _Groups] = {axes: {} for axes in _GROUPINGS}
    for axes, recipe in product(_GROUPINGS, recipes.values()):
        peers[axes].setdefault(_on(recipe.cell, axes), []).append(recipe)
    usual = {axis: median(map(len, peers[axis,].values())) for axis in _AXES}
    common = [
        recipe
        for recipe in recipes.values()
        if str(recipe.evaluation.path) not in known
        and all(
            len(peers[axis,][_on(recipe.cell, (axis,))]) >= max(2, min(FEWEST_ALIKE, usual[axis])) for axis in _AXES
        )
    ]
    said: dict[Path, list[str]] = {}
    for attribute in dict.fromkeys(key for recipe in recipes.values() for key in recipe.values):
        tables = {axes: _usual(attribute, groups) for axes, groups in peers.items()}
        best = max(sum(count for _, count in table.values()) for axes, table in tables.items() if len(axes) < 2)
        for recipe in common:
            if against := _against(recipe, attribute, tables, peers, best):
                said.setdefault(recipe.evaluation.path, []).append(against)
    for path, texts in said.items():
        more = f"; and {len(texts) - MOST_SHOWN} more" if len(texts) > MOST_SHOWN else ""
        yield about(Place(str(path), 1, 1), Code.UNLIKE_THE_OTHERS, "; ".join(texts[:MOST_SHOWN]) + more)


def _usual(attribute: str, groups: _Groups) -> dict[tuple[str, ...], tuple[str, int]]:
    """The usual value of an attribute in each group, and how many have it."""
    counts = {key: Counter(one.values.get(attribute, "") for one in group) for key, group in groups.items()}
    return {key: counter.most_common(1)[0] for key, counter in counts.items()}


def _against(
    recipe: _Recipe,
    attribute: str,
    tables: Mapping[tuple[str, ...], Mapping[tuple[str, ...], tuple[str, int]]],
    peers: Mapping[tuple[str, ...], _Groups],
    best: int,
) -> str:
    """How the others have an attribute that `recipe` has in a way that nothing in its name tells; else ''.

    A value that is unusual in all, and usual among those with the same values on some axes, follows from these; the
    value that is usual in all follows only from the axis that tells most values of the attribute, `best` of them.
    """
    value, least, found = recipe.values.get(attribute, ""), len(peers[()][()]), ""
    for axes, table in tables.items():
        key = _on(recipe.cell, axes)
        group, (usual, count) = peers[axes][key], table[key]
        if count < NEARLY_ALL * len(group):
            continue
        tells = value != tables[()][()][0] or sum(alike for _, alike in table.values()) >= best
        if usual == value and count > 1 and tells:
            return ""
        shared = " ".join(filter(None, key))
        if usual != value and count >= FEWEST and (count < least or (count == least and not found)):
            typical = next(one.written.get(attribute, "") for one in group if one.values.get(attribute, "") == usual)
            others = f"{counted(count, 'other recipe')}{shared and f' of {shared}'}"
            own = short(recipe.written.get(attribute, ""))
            least, found = count, f"{attribute} is {own}, and {short(typical)} in {others}"
    return found


def _recipe(cell: Cell, name: str, evaluation: Evaluation) -> _Recipe:
    own = _own_words(cell, name)
    written = {
        f"{'' if node is evaluation else f'{label(node)}: '}{attribute}": str(value)
        for node in evaluation.nodes
        for attribute, value in written_values(node).items()
        if attribute not in _OF_ITS_OWN and value
    }
    return _Recipe(cell, evaluation, written, {attribute: own.sub("@", value) for attribute, value in written.items()})


def _own_words(cell: Cell, name: str) -> re.Pattern[str]:
    """A pattern of the spellings of a cell's values: `sm90`, `9.0`, `90`, `12.8`, `12_8`."""
    digits = cell.target.removeprefix("sm")
    python, toolkit = cell.python.replace(".", ""), cell.toolkit.replace(".", "_")
    words = {name, cell.suffix, cell.target, cell.isa, cell.python, cell.toolkit, toolkit_tag(cell.toolkit), toolkit}
    words |= {digits, f"{digits[:-1]}.{digits[-1:]}", python, f"python{python}"}
    listed = sorted(map(re.escape, words - {"", "."}), key=len, reverse=True)
    return re.compile(rf"(?<![A-Za-z\d.])(?:{'|'.join(listed)})(?![\d.])")
