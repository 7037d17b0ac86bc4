"""The published JSON Schema: valid, in step with the declarations, and of the same mind as the model."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

import ci_compiler.spec
from ci_compiler.errors import InputError
from ci_compiler.spec.build import BUNDLED, bundled_spec, parse_spec
from ci_compiler.spec.load import read_document
from ci_compiler.spec.schema import ADDRESS, schema, schema_text, with_defaults
from ci_compiler.spec.validate import schema_findings
from tests.specs import MATRIX, small

PUBLISHED = Path(ci_compiler.spec.__file__).with_name("schema.json")


def test_the_published_file_is_generated_from_the_declarations() -> None:
    assert PUBLISHED.read_text("utf-8") == schema_text(), f"`ci-compile schema > {PUBLISHED.name}` writes it"
    assert ADDRESS.endswith("/ci_compiler/spec/schema.json")


def test_it_is_a_valid_schema() -> None:
    Draft202012Validator.check_schema(schema())
    assert schema()["$id"] == ADDRESS


def test_every_object_refuses_unknown_keys() -> None:
    objects = [schema(), *schema()["$defs"].values()]
    fixed = [one for one in objects if "properties" in one and "propertyNames" not in one]
    assert len(fixed) == 53
    assert all(one["additionalProperties"] is False for one in fixed)


def test_a_spec_with_every_default_written_out_is_the_same_spec() -> None:
    document = read_document(BUNDLED, shown="torch.yaml")
    whole = dataclasses.replace(document, value=with_defaults(document.value))
    assert schema_findings(whole) == []
    assert whole.value != document.value
    again = ci_compiler.spec.build.build_spec(whole)
    assert dataclasses.replace(again, document=document) == dataclasses.replace(bundled_spec(), document=document)


@pytest.mark.slow
@pytest.mark.parametrize(
    "item",
    [lambda number: {"a": number}, lambda number: [number], lambda number: number or "a", lambda _: "3.13"],
    ids=["mappings", "lists", "mixed", "repeated"],
)
def test_a_long_list_is_refused_fast(item: Callable[[int], object]) -> None:
    text = json.dumps(small(matrix=MATRIX | {"python": [item(number) for number in range(12_000)]}))
    start = time.process_time()
    with pytest.raises(InputError):
        parse_spec(text.encode(), shown="s")
    assert time.process_time() - start < 15


def test_a_spec_with_too_many_values_is_refused_before_it_is_read() -> None:
    text = f'{{"version": 1, "owner": [{"1," * 499_000}1]}}'
    start = time.process_time()
    with pytest.raises(InputError, match="s: has more than 50,000 values, the limit for a spec"):
        parse_spec(text.encode(), shown="s")
    assert time.process_time() - start < 6
