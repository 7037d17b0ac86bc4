"""A test that asserts only in loops has rounds in them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.loops import each

TESTS = Path(__file__).parent
SAME_SIZE = ("enumerate", "reversed", "sorted", "zip")
VIEWS = ("items", "keys", "values")
BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")


def has_rounds(items: ast.expr) -> bool:  # noqa: PLR0911 - one answer for each form
    """Whether a loop over `items` cannot be without a round, by its text: a constant that is not empty, or `each`."""
    match items:
        case ast.Constant(value=str() | bytes() as text):
            return bool(text)
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return any(not isinstance(part, ast.Starred) or has_rounds(part.value) for part in parts)
        case ast.Dict(keys=keys):
            return any(keys)
        case ast.Call(func=ast.Name(id="each")):
            return True
        case ast.Call(func=ast.Name(id="range"), args=bounds):
            numbers = [bound.value for bound in bounds if isinstance(bound, ast.Constant)]
            return len(numbers) == len(bounds) and bool(range(*numbers))
        case ast.Call(func=ast.Name(id=name), args=parts) if name in SAME_SIZE:
            return all(map(has_rounds, parts))
        case ast.Call(func=ast.Attribute(value=whole, attr=name)) if name in VIEWS:
            return has_rounds(whole)
    return False


def asserts(node: ast.AST) -> bool:
    """Whether `node` fails a test itself: `assert`, or the context of `pytest.raises`."""
    if isinstance(node, ast.With):
        called = [item.context_expr.func for item in node.items if isinstance(item.context_expr, ast.Call)]
        return any(getattr(function, "attr", "") == "raises" for function in called)
    return isinstance(node, ast.Assert)


def assertions(node: ast.AST, around: tuple[ast.For, ...] = ()) -> Iterator[tuple[ast.For, ...]]:
    """The loops around each assertion in `node`, from the outside in."""
    for field in BLOCKS:
        within = (*around, node) if isinstance(node, ast.For) and field == "body" else around
        for child in getattr(node, field, ()):
            if asserts(child):
                yield within
            yield from assertions(child, within)


def without_rounds(text: str) -> dict[str, list[ast.For]]:
    """The tests of a module that may assert nothing, with the loops that may be without a round."""
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            loops = [[loop for loop in around if not has_rounds(loop.iter)] for around in assertions(node)]
            if loops and all(loops):
                found[node.name] = [loop for some in loops for loop in some]
    return found


@pytest.mark.parametrize(
    ("loops", "is_found"),
    [
        ("for one in some:\n  assert one", True),
        ("for one in ():\n  assert one", True),
        ("for one in range(0):\n  assert one", True),
        ("for one in range(len(some)):\n  assert one", True),
        ("for one in zip([1], some):\n  assert one", True),
        ("for one in [*some]:\n  assert one", True),
        ("for one in each(some):\n  for two in one:\n    assert two", True),
        ("for one in some:\n  with pytest.raises(ValueError):\n    one()", True),
        ("if some:\n  for one in some:\n    assert one", True),
        ("for one in each(some):\n  assert one", False),
        ("for one in enumerate((1, *some)):\n  assert one", False),
        ("for one in {1: 2}.items():\n  for two in 'ab':\n    assert two", False),
        ("for one in range(2):\n  assert one", False),
        ("assert some\nfor one in some:\n  assert one", False),
        ("for one in some:\n  assert one\nelse:\n  assert not some", False),
        ("for one in some:\n  one()", False),
    ],
)
def test_loops_that_may_be_without_a_round_are_found(loops: str, *, is_found: bool) -> None:
    text = "def test_it():\n" + "".join(f"  {line}\n" for line in loops.splitlines())
    assert bool(without_rounds(text)) is is_found


def test_each_refuses_what_is_empty() -> None:
    assert each(iter("ab")) == ["a", "b"]
    with pytest.raises(AssertionError, match="nothing to loop over"):
        each(iter(()))


def test_no_test_asserts_only_in_loops_that_may_be_empty() -> None:
    modules = {path.relative_to(TESTS).as_posix(): path.read_text("utf-8") for path in TESTS.rglob("test_*.py")}
    found = [f"{name}: {test}" for name, text in modules.items() for test in without_rounds(text)]
    assert len(modules) > 100
    assert found == [], "loop over `tests.loops.each(...)`"
