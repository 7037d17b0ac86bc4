"""Every public name says what it is: modules, classes, functions, methods and properties."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import ci_compiler

PACKAGE = Path(ci_compiler.__file__).parent
MODULES = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}

Named = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def public(tree: ast.Module | ast.ClassDef, within: str = "") -> Iterator[tuple[str, Named]]:
    """The public classes and functions of a module or class with their dotted names; not those inside functions."""
    inside = [tree]
    while inside:
        for node in ast.iter_child_nodes(inside.pop()):
            if isinstance(node, ast.If | ast.Try | ast.With | ast.ExceptHandler):
                inside.append(node)  # type: ignore[arg-type]
            elif isinstance(node, Named) and not node.name.startswith("_"):
                yield f"{within}{node.name}", node
                if isinstance(node, ast.ClassDef):
                    yield from public(node, f"{within}{node.name}.")


def undocumented(text: str) -> list[str]:
    """The public names of a module's text without a docstring; 'module' for its own, which an empty one needs not."""
    tree = ast.parse(text)
    own = ["module"] if tree.body and not (ast.get_docstring(tree) or "").strip() else []
    return own + [name for name, node in public(tree) if not (ast.get_docstring(node) or "").strip()]


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_a_docstring(module: str) -> None:
    assert undocumented(MODULES[module].read_text("utf-8")) == []


def test_names_without_a_docstring_are_found() -> None:
    module = (
        "if True:\n    class Thing:\n        def seen(self): 'It is.'\n        def bare(self): ...\n"
        "        def _own(self): ...\nasync def waits(): ...\ndef said():\n    'It says.'\n    def inner(): ...\n"
    )
    assert undocumented(module) == ["module", "waits", "Thing", "Thing.bare"]
    assert undocumented("") == []
