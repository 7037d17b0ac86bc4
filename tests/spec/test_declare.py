"""A key is declared once: the schema, the reader, the default and the reference follow from its field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from ci_compiler.cli import reference
from ci_compiler.hardware import tables
from ci_compiler.spec.declare import declared, key
from ci_compiler.spec.forms import Minutes
from ci_compiler.spec.load import Document, parse_document
from ci_compiler.spec.model import Spec
from ci_compiler.spec.read import read
from ci_compiler.spec.schema import schema, schema_of, with_defaults
from ci_compiler.spec.validate import schema_findings
from ci_compiler.stages import BUILD, PUBLISH, Stage
from tests.specs import small


@declared()
class Nightly:
    """Builds of unreleased sources."""

    name: str
    keep_for: Minutes = key("How long they are kept.", default=60)


@declared()
class Extended(Spec):
    """A spec with a few keys more."""

    dry_run: bool = key("Whether nothing is published.", default=True)
    nightlies: Mapping[str, Nightly] = key("Nightly builds, by name.", default={})
    tries: Mapping[Stage, int] = key("Attempts at a stage.", minimum=1, default={BUILD: 1, PUBLISH: 3})
    code_name: str = key("What it is called.", title="one small letter", pattern="^[a-z]$", default="", published=False)


SCHEMA = schema_of(Extended, address="https://example.org/extended.json")


def document(**changes: Any) -> Document:
    return parse_document(json.dumps(small(**changes)).encode(), shown="extended.yaml")


def extended(**changes: Any) -> Extended:
    one = document(**changes)
    assert schema_findings(one, SCHEMA) == []
    found: Extended = read(Extended, one.value, document=one, hardware=tables())
    return found


def test_the_schema_has_the_key_with_its_form_description_and_default() -> None:
    new = {name: rule for name, rule in SCHEMA["properties"].items() if name not in schema()["properties"]}
    assert new == {
        "dry-run": {"type": "boolean", "description": "Whether nothing is published.", "default": True},
        "nightlies": {
            "type": "object",
            "additionalProperties": {"$ref": "#/$defs/nightly"},
            "description": "Nightly builds, by name.",
            "default": {},
        },
        "tries": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "build": {"type": "integer", "default": 1},
                "publish": {"type": "integer", "default": 3},
            },
            "description": "Attempts at a stage.",
            "minimum": 1,
            "default": {},
        },
        "code-name": {
            "type": "string",
            "description": "What it is called.",
            "title": "one small letter",
            "pattern": "^[a-z]$",
        },
    }
    assert SCHEMA["$defs"]["nightly"] == {
        "description": "Builds of unreleased sources.",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "keep-for": {"$ref": "#/$defs/minutes", "description": "How long they are kept.", "default": 60}
        },
    }


def test_a_key_that_is_left_out_has_its_default() -> None:
    spec = extended()
    assert (spec.dry_run, spec.nightlies, spec.code_name) == (True, {}, "")
    assert spec.tries == {BUILD: 1, PUBLISH: 3}
    plain = with_defaults(document().value, SCHEMA)
    assert (plain["dry-run"], plain["nightlies"], plain["tries"]) == (True, {}, {"build": 1, "publish": 3})
    assert "code-name" not in plain


def test_a_key_that_is_given_is_read_into_its_field() -> None:
    spec = extended(
        **{"dry-run": False, "nightlies": {"a": {}, "b": {"keep-for": 7}}, "tries": {"build": 2}, "code-name": "z"}
    )
    assert spec.dry_run is False
    assert spec.nightlies == {"a": Nightly(name="a"), "b": Nightly(name="b", keep_for=7)}
    assert spec.tries == {BUILD: 2, PUBLISH: 3}
    assert spec.code_name == "z"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dry-run": 1}, "dry-run: 1 is not true or false"),
        ({"dry_run": True}, "the spec has no key 'dry_run'; did you mean dry-run?"),
        ({"nightlies": {"a": {"keep": 1}}}, "nightlies.a has no key 'keep'; did you mean keep-for?"),
        ({"nightlies": {"a": {"keep-for": 0}}}, "nightlies.a.keep-for: 0 is too small for a number of minutes, up"),
        ({"tries": {"gpu-test": 1}}, "tries has no key 'gpu-test'; known are build, publish"),
        ({"code-name": "zz"}, 'code-name: "zz" is not one small letter'),
    ],
)
def test_a_wrong_value_is_found(changes: dict[str, Any], message: str) -> None:
    (finding,) = schema_findings(document(**changes), SCHEMA)
    assert message in str(finding)


def test_the_reference_has_the_key() -> None:
    page = reference.spec(SCHEMA)
    assert "| `dry-run` | Whether nothing is published. | `true` |\n" in page
    assert "| `code-name` | What it is called. |  |\n" in page
    assert "## `nightlies.NAME`\n\nBuilds of unreleased sources.\n" in page
    assert "| `keep-for` | How long they are kept. | `60` |\n" in page
    assert (
        "## `tries`\n\nAttempts at a stage.\n\n| key | is | default |\n| --- | --- | --- |\n| `build` |  | `1` |\n"
        in page
    )
