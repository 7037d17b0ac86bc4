"""Each mutant has the mistake that its description says."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutation.mutants import mutants
from tests.mutation.subjects import SUBJECTS, equivalents, modules

pytestmark = pytest.mark.weekly

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("source", "mistakes"),
    [
        ("a < b", ["a <= b", "a >= b", "pass"]),
        ("x = a is not b", ["x = a is b"]),
        ("x = a and b", ["x = a or b", "x = b", "x = a"]),
        ("x = not a", ["x = a"]),
        ("x = a + 1", ["x = a - 1", "x = a + 2"]),
        ("x = True", ["x = False"]),
        ("x = 'text'", ["x = ''"]),
        ("x = None", []),
        ("x = any(a)", ["x = all(a)"]),
        ("x = [a for a in b if a]", ["x = [a for a in b if not a]", "x = [a for a in b]"]),
        ("x += a", ["x -= a", "pass"]),
        ("x.y = a", ["pass"]),
        ("def f():\n    return a", ["def f():\n    return None"]),
        ("for a in b:\n    break", ["for a in b:\n    continue"]),
        ("if a == b:\n    c()", ["if a != b:\n    c()", "if a == b:\n    pass"]),
        ("raise a", ["pass"]),
    ],
)
def test_a_module_has_these_mutants_and_no_others(source: str, mistakes: list[str]) -> None:
    assert sorted(mutant.text for mutant in mutants(source)) == sorted(mistakes)


def test_what_no_test_could_notice_is_not_mutated() -> None:
    source = (
        '"""Says x < 1."""\n\nimport a\n\n\n@a.b("text")\ndef f(x: "str") -> "int":\n    """Adds 1."""\n    y: "int"\n'
    )
    assert mutants(source) == []


@pytest.mark.parametrize("module", SUBJECTS)
def test_the_mutants_of_a_module_differ_and_are_python(module: str) -> None:
    found = mutants((ROOT / module).read_text("utf-8"))[::9]
    assert found
    assert len({mutant.text for mutant in found}) == len(found)
    for mutant in found:
        ast.parse(mutant.text)
        assert mutant.line > 0


def test_what_is_listed_as_changing_nothing_is_a_mutant_and_has_a_reason() -> None:
    assert set(equivalents()) <= set(modules())
    for module, listed in equivalents().items():
        known = {mutant.what for mutant in mutants((ROOT / module).read_text("utf-8"))}
        assert set(listed) <= known
        assert all(listed.values())
