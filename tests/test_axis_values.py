"""One function, `plan.needs.serves`, decides whether a build with a value of an axis can be used for another value.

Nothing else compares two values to decide that. Comparisons that ask something else (which row shows a cell,
whether a table has a name) are listed in `axis_values.toml`, by function, under what they ask.
"""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ALLOWED = Path(__file__).with_name("axis_values.toml")

AXES = {"python", "platform", "isa", "family", "toolkit", "target", "axes", "values"}
"""The attributes that hold the value of a cell on an axis, or its values on all of them."""

DEFINING = {"ci_compiler/plan/needs.py", "ci_compiler/spec/axes.py", "ci_compiler/spec/edges.py"}
"""The modules that define what values of axes are."""

NONES = {"CPU", "NONE", "DEFAULT", "SHORT_FAMILY", "ALL", "NO_ACCELERATOR"}
"""Names for having no value, or for the form of a cell, which a comparison may ask for."""


def _is_value(node: ast.AST) -> bool:
    """Whether `node` reads the value of a cell: `.isa`, `axes["isa"]`, `values.get("isa")`, or a tuple with one."""
    match node:
        case ast.Attribute():
            return node.attr in AXES
        case ast.Subscript():
            return _is_value(node.value) and isinstance(node.slice, ast.Constant)
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=name), *_]):
            return name in AXES
        case ast.Tuple():
            return any(map(_is_value, node.elts))
    return False


def _is_fixed(node: ast.AST) -> bool:
    """Whether `node` is a literal, or one of `NONES`."""
    match node:
        case ast.Constant():
            return True
        case ast.Name():
            return node.id in NONES
        case ast.Attribute(value=ast.Name(id=name)):
            return name in NONES
        case ast.Set() | ast.Tuple() | ast.List():
            return all(map(_is_fixed, node.elts))
    return False


def _compares(node: ast.AST) -> bool:
    """Whether `node` compares the value of a cell with something that is not fixed."""
    if not isinstance(node, ast.Compare) or not all(
        isinstance(one, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for one in node.ops
    ):
        return False
    sides = [node.left, *node.comparators]
    others = [side for side in sides if not _is_value(side)]
    return len(others) < len(sides) and not (others and all(map(_is_fixed, others)))


def places(tree: ast.AST, path: str) -> Iterator[str]:
    """The function of each comparison of values, as `PATH:CLASS.FUNCTION`."""
    stack: list[tuple[ast.AST, tuple[str, ...]]] = [(tree, ())]
    while stack:
        node, inside = stack.pop()
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            inside = (*inside, node.name)
        if _compares(node):
            yield f"{path}:{'.'.join(inside)}"
        stack += [(child, inside) for child in ast.iter_child_nodes(node)]


@pytest.mark.slow
def test_only_one_function_compares_values_of_axes() -> None:
    found: Counter[str] = Counter()
    for path in (ROOT / "ci_compiler").rglob("*.py"):
        if (name := path.relative_to(ROOT).as_posix()) not in DEFINING:
            found.update(places(ast.parse(path.read_text("utf-8")), name))
    table = tomllib.loads(ALLOWED.read_text("utf-8"))
    allowed = {place: count for row in table.values() for place, count in row["places"].items()}
    assert dict(found) == allowed, "ask `serves`; if the comparison asks something else, list it with what it asks"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("def f(): return cell.python == other.python", True),
        ("def f(): return cell.axes['isa'] in others", True),
        ("def f(): return cell.axes.get('toolkit') == wanted", True),
        ("def f(): return (one.branch, one.target) == key", True),
        ("def f(): return cell.target == CPU", False),
        ("def f(): return cell.toolkit in {'', 'x'}", False),
        ("def f(): return cell.branch == other.branch", False),
    ],
)
def test_a_comparison_of_two_values_is_seen(text: str, seen: bool) -> None:
    assert list(places(ast.parse(text), "m")) == (["m:f"] if seen else [])
