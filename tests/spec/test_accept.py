"""`accepts` accepts what jsonschema accepts by the schema of a spec, and nothing else."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ci_compiler.errors import InputError
from ci_compiler.spec.accept import ANNOTATIONS, KEYWORDS, accepts
from ci_compiler.spec.build import BUNDLED
from ci_compiler.spec.load import read_document
from ci_compiler.spec.schema import schema
from tests.loops import each
from tests.specs import documents

EXAMPLES = Path(__file__).parents[1] / "examples"
VALIDATOR = Draft202012Validator(schema())


def rules(rule: Any) -> Iterator[dict[str, Any]]:
    """`rule` and every rule in it."""
    inner = [one for word in ("properties", "$defs") for one in rule.get(word, {}).values()] + rule.get("anyOf", [])
    inner += [rule[word] for word in ("items", "additionalProperties", "propertyNames", "not") if word in rule]
    yield rule
    for one in inner:
        if isinstance(one, dict):
            yield from rules(one)


RULES = list(rules(schema()))

VALUES: list[Any] = [
    *(example for rule in RULES for example in rule.get("examples", ())),
    *(rule["default"] for rule in RULES if "default" in rule),
    *(choice for rule in RULES for choice in rule.get("enum", ())),
    *(None, True, False, 0, 1, -1, 2, 10**6, 1.0, 2.5, float("nan"), float("inf")),
    *("", "a", "A b", "a\n", "é", "12.8", "3.13", "sm90", "main", "x" * 41, "x" * 5000, "-a", "a/../b", "2027-01-01"),
    *([], ["a"], ["a", "a"], ["a", 1], [1, True], [[]], [{}], [f"a{number}" for number in range(30)]),
    *({}, {"a": None}, {"gpu": {}}, {"cpu": ["-O2"]}, {"gpu": {}, "cpu": {}, "a": 1}),
]
"""Values that some rule accepts, and some that hardly any does."""


def test_it_knows_the_keywords_of_the_schema() -> None:
    assert {word for rule in RULES for word in rule} == KEYWORDS.keys() | ANNOTATIONS | {"$ref"}


@pytest.mark.slow
def test_it_agrees_with_jsonschema_about_each_value_by_each_rule() -> None:
    for text in each(dict.fromkeys(map(json.dumps, RULES[1:]))):
        rule = {**json.loads(text), "$defs": schema()["$defs"]}
        validator = Draft202012Validator(rule)
        for value in each(VALUES):
            assert accepts(rule, value) == validator.is_valid(value), (text, value)


def examples() -> Iterator[Any]:
    """The plain values of the bundled spec and of the examples, right and wrong, that are YAML."""
    for path in (BUNDLED, *sorted(EXAMPLES.glob("*/*/ci-matrix.yaml"))):
        try:
            yield read_document(path, shown=path.name).value
        except InputError:
            continue


CHANGES = st.tuples(
    st.sampled_from(["replace", "remove", "add", "double"]),
    st.integers(0, 10**6),
    st.sampled_from(sorted({key for rule in RULES for key in rule.get("properties", ())})),
    st.one_of(st.sampled_from(VALUES), st.text(max_size=5)),
)
"""Changes of a document: what is done, the number of the place, a key and a value."""


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every mapping and list in `value`, with each of its keys or indexes."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield value, key
            yield from places(item)


def changed(document: Any, kind: str, number: int, key: str, value: Any) -> Any:
    """A copy of `document` with one change."""
    made, new = copy.deepcopy([document]), copy.deepcopy(value)
    found = list(places(made))
    holder, at = found[number % len(found)]
    if kind == "remove" and holder is not made:
        del holder[at]
    elif kind == "double" and isinstance(holder, list):
        holder.append(copy.deepcopy(holder[at]))
    elif kind == "add" and isinstance(holder, dict):
        holder[key] = new
    else:
        holder[at] = new
    return made[0]


@settings(max_examples=150)
@given(st.one_of(st.sampled_from(list(examples())), documents()), st.lists(CHANGES, max_size=3))
def test_it_agrees_with_jsonschema_about_changed_specs(document: Any, changes: list[Any]) -> None:
    for change in changes:
        document = changed(document, *change)
    assert accepts(schema(), document) == VALIDATOR.is_valid(document)
