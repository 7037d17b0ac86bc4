"""The picture of the architecture is made from the code: the parts, their layers, and who imports whom.

`python -m tests.test_architecture` writes it into the page.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CODE = ROOT / "ci_compiler"
PAGE = ROOT / ".github/docs/architecture.md"
BLOCK = re.compile(r"(?<=^```mermaid\n).*?(?=^```$)", re.DOTALL | re.MULTILINE)


def layers() -> list[list[str]]:
    """The parts in each layer, the highest first, by the contract that import-linter checks."""
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]
    return [layer.split(" : ") for layer in tool["importlinter"]["contracts"][0]["layers"]]


def imports() -> Mapping[str, set[str]]:
    """The parts that each part imports, those inside functions included."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in CODE.rglob("*.py"):
        part = path.relative_to(CODE).parts[0].removesuffix(".py")
        for module in _modules(ast.parse(path.read_bytes())):
            found[part].add(module.split(".")[1])
    return found


def _modules(tree: ast.AST) -> Iterator[str]:
    """The modules of the package that `tree` imports, without those that only annotations need."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom) and node.module == "ci_compiler":
            yield from (f"ci_compiler.{name.name}" for name in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ci_compiler."):
            yield from (node.module or "", *(f"{node.module}.{name.name}" for name in node.names))
        yield from _modules(node)


def picture() -> str:
    """A Mermaid flowchart: an arrow from each part to those that it imports, unless another path leads there."""
    rows, found = layers(), imports()
    parts = [part for row in rows for part in row]
    direct = {part: found[part] & set(parts) - {part} for part in parts}
    reached: dict[str, set[str]] = {}
    for part in reversed(parts):  # the parts below come first
        reached[part] = direct[part].union(*(reached[one] for one in direct[part]))
    lines = ["flowchart TD"]
    for part in parts:
        through = set[str]().union(*(reached[one] for one in direct[part]))
        lines += [f"  {part} --> {one}" for one in parts if one in direct[part] - through]
    return "\n".join(lines) + "\n"


@pytest.mark.slow
def test_the_picture_is_up_to_date() -> None:
    found = BLOCK.search(PAGE.read_text("utf-8"))
    assert found
    assert found[0] == picture(), "`python -m tests.test_architecture` writes it"


def test_the_table_has_every_part() -> None:
    table = re.findall(r"^\| (`[^|]*) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    named = [name for row in table for name in re.findall(r"`(\w+)`", row)]
    assert sorted(named) == sorted(part for row in layers() for part in row)


@pytest.mark.slow
def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports inside functions count, and those for type checking only do not. A package is its `__init__`."""
    names = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in CODE.rglob("*.py")}
    modules = {name.removesuffix(".__init__") for name in names.values()}
    graph = {
        name.removesuffix(".__init__"): {
            module
            for module in _modules(ast.parse(path.read_bytes()))
            if module in modules and not name.startswith(f"{module}.")
        }
        for path, name in names.items()
    }
    list(TopologicalSorter(graph).static_order())  # raises CycleError with the circle


def test_no_command_imports_another_one() -> None:
    """What several commands need has a module of its own, outside the packages of the commands."""
    packages = ("ci_compiler.cli.compile.", "ci_compiler.cli.runner.")
    crossed = {
        f"{path.stem} imports {module}"
        for package in packages
        for path in (ROOT / package.replace(".", "/")).glob("*.py")
        for module in _modules(ast.parse(path.read_bytes()))
        if module.startswith(packages) and path.stem != "__init__"
    }
    assert not crossed


ON_THE_CLOCK = {
    "processes.py",  # waits, for as long as it takes
    "bench/measure.py",
    "faults/test_killed_in_git.py",  # kills at random moments, at least a number of times
    "mutation/__main__.py",
    "runner/jobs/packages/torch/__init__.py",  # has a clock of its own
}


@pytest.mark.slow
def test_no_test_judges_by_the_clock() -> None:
    """On a busy machine, everything takes longer: a test counts operations or seconds of a processor."""
    tests = ROOT / "tests"
    readers = {
        path.relative_to(tests).as_posix()
        for path in tests.rglob("*.py")
        if "node_modules" not in path.parts
        for node in ast.walk(ast.parse(path.read_bytes()))
        if (isinstance(node, ast.Attribute) and node.attr in {"monotonic", "monotonic_ns", "perf_counter"})
    }
    assert readers == ON_THE_CLOCK


if __name__ == "__main__":
    PAGE.write_text(BLOCK.sub(lambda _: picture(), PAGE.read_text("utf-8")), "utf-8")
