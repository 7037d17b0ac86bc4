"""What people get wrong in a spec, and the messages: `wrong_specs.txt`, which running this module rewrites."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_compiler.codes import Code, Severity
from ci_compiler.errors import Finding, InputError
from ci_compiler.plan.pipeline import plan
from ci_compiler.spec.build import STARTERS, parse_spec
from tests.spec.wrong_specs import CASES, SPEC, STARTED

MESSAGES = Path(__file__).with_name("wrong_specs.txt")
SHOWN = "ci-matrix.yaml"


def findings(text: str) -> list[Finding]:
    """The errors that `text` has as a spec."""
    try:
        plan(parse_spec(text.encode(), shown=SHOWN))
    except InputError as error:
        return [one for one in error.findings if one.severity is Severity.ERROR]
    return []


def table() -> dict[str, list[Finding]]:
    """The findings of each case."""
    assert findings(SPEC) == []
    assert len({name for name, *_ in CASES}) == len(CASES)
    assert [name for name, old, _ in CASES if old not in SPEC] == []
    found = {name: findings(SPEC.replace(old, new, 1)) for name, old, new in CASES}
    for starter, name, old, new in STARTED:
        text = (STARTERS / starter / ".github/ci-matrix.yaml").read_text("utf-8")
        assert old in text, name
        found[f"{starter}: {name}"] = findings(text.replace(old, new, 1) if old else text + new)
    assert len(found) == len(CASES) + len(STARTED)
    return found


def written(found: dict[str, list[Finding]]) -> str:
    return "\n".join("\n".join([f"{name}:", *(f"  {one}" for one in them), ""]) for name, them in found.items())


def test_what_is_wrong_is_said_as_it_was_read() -> None:
    found = table()
    assert len(found) >= 300
    assert written(found) == MESSAGES.read_text("utf-8")
    assert [name for name, them in found.items() if not them] == []
    assert [name for name, them in found.items() if any(not one.place.line for one in them)] == []
    assert [name for name, them in found.items() if len(them) > 1] == []  # one cause, and one message
    said = "\n".join(str(one) for them in found.values() for one in them)
    assert [secret for secret in ("ghp_", "hunter2", "AAAAAAAA") if secret in said] == []


@pytest.mark.parametrize(
    ("mapping", "short"),
    [
        ("gpus: {cpu: {}, sm89: {}, sm90: {}}", "gpus: [cpu, sm89, sm90]"),
        ("isas: {x86_64-linux: [avx2, avx512]}", "isas: [avx2, avx512]"),
    ],
)
def test_a_list_of_names_stands_for_a_mapping(mapping: str, short: str) -> None:
    assert mapping in SPEC
    long, brief = (plan(parse_spec(text.encode(), shown=SHOWN)) for text in (SPEC, SPEC.replace(mapping, short)))
    assert brief.judged.cells == long.judged.cells


def test_a_list_of_isas_is_divided_by_system() -> None:
    text = SPEC.replace("isas: {x86_64-linux: [avx2, avx512]}", "isas: [avx2, armv9, avxx]")
    (one,) = findings(text)
    line = text.splitlines()[one.place.line - 1]
    assert (one.code, line[one.place.column - 1 :]) == (Code.UNKNOWN_ISA, "avxx]")
    spec = parse_spec(text.replace(", avxx", "").encode(), shown=SHOWN)
    assert spec.matrix
    assert list(spec.matrix.of("isa"))[:2] == ["avx2", "armv9"]


if __name__ == "__main__":
    MESSAGES.write_text(written(table()), "utf-8")
