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
from itertools import combinations
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

_AXES = ("python", "toolkit", "target", "isa")
_GROUPINGS = tuple(axes for size in (0, 1, 2) for axes in combinations(_AXES, size))
FEWEST_ALIKE = 3
"""The fewest recipes with one value on an axis that are compared."""

MOST_SHOWN = 3
"""The most values that a finding shows of a recipe; it counts the others."""

_OF_ITS_OWN = frozenset({"pname", "description", "longDescription", "platforms"})
"""The attributes that differ by themselves, or that have a check of their own."""


class _Recipe(NamedTuple):
    cell: Cell
    evaluation: Evaluation
    written: Mapping[str, str]
    values: Mapping[str, str]  # as `written`, without the words of its own name


def unlike_the_others(
    found: Mapping[str, Evaluation], cells: Mapping[str, Cell], known: Collection[str]
) -> Iterator[Finding]:
    """A finding for each recipe of `found`, by name, that differs from the others; none for the files `known`."""
    for names in grouped(found, lambda name: package_in(cells[name], name)).values():
        recipes = {name: _recipe(cells[name], name, found[name]) for name in names}
        yield from _of_a_package(recipes, known)


def _of_a_package(recipes: Mapping[str, _Recipe], known: Collection[str]) -> Iterator[Finding]:
    """The findings of one package; a value that few recipes have, such as a rare target, explains what they do."""
    peers: dict[tuple[str, ...], dict[tuple[str, ...], list[str]]] = {axes: {} for axes in _GROUPINGS}
    for axes, groups in peers.items():
        for name, recipe in recipes.items():
            groups.setdefault(_on(recipe.cell, axes), []).append(name)
    for name, recipe in recipes.items():
        rare = any(len(peers[axis,][_on(recipe.cell, (axis,))]) < FEWEST_ALIKE for axis in _AXES)
        if not rare and str(recipe.evaluation.path) not in known:
            yield from _deviating(name, recipes, peers)


def _on(cell: Cell, axes: Sequence[str]) -> tuple[str, ...]:
    return tuple(getattr(cell, axis) for axis in axes)


def _deviating(
    name: str, recipes: Mapping[str, _Recipe], peers: Mapping[tuple[str, ...], Mapping[tuple[str, ...], list[str]]]
) -> Iterator[Finding]:
    """The finding of the recipe `name`, if it has values that the others have in another way."""
    recipe = recipes[name]
    groups = {axes: [recipes[other] for other in peers[axes][_on(recipe.cell, axes)]] for axes in _GROUPINGS}
    attributes = dict.fromkeys(key for other in groups[()] for key in other.values)
    said = []
    for attribute in attributes:
        value, against, fewest = recipe.values.get(attribute, ""), "", len(recipes)
        for axes, group in groups.items():
            usual, count = Counter(other.values.get(attribute, "") for other in group).most_common(1)[0]
            if count < NEARLY_ALL * len(group):
                continue
            if usual == value and count > 1:
                break  # that is how it is with these values
            if usual != value and FEWEST <= count < fewest:
                fewest, shared = count, " ".join(filter(None, _on(recipe.cell, axes)))
                others = f"{counted(count, 'other recipe')}{shared and f' of {shared}'}"
                typical = next(
                    other.written.get(attribute, "") for other in group if other.values.get(attribute, "") == usual
                )
                against = f"{attribute} is {short(recipe.written.get(attribute, ''))}, and {short(typical)} in {others}"
        else:
            said += [against] * bool(against)
    if said:
        more = f"; and {len(said) - MOST_SHOWN} more" if len(said) > MOST_SHOWN else ""
        place = Place(str(recipe.evaluation.path), 1, 1)
        yield about(place, Code.UNLIKE_THE_OTHERS, "; ".join(said[:MOST_SHOWN]) + more)


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
