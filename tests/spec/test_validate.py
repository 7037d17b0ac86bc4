"""What the schema refuses is explained: where, what is wrong, and what to write."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ci_compiler.spec.load import parse_document
from ci_compiler.spec.schema import schema
from ci_compiler.spec.validate import schema_findings
from tests.specs import MAIN, Said, assert_said, small

WORD = {"type": "string", "pattern": "^[a-z]+$", "title": "one small word"}
MANY = {name: {"type": "integer"} for name in ("alpha", "beta", "gamma", "delta", "epsilon")}
OBJECT = {"type": "object", "additionalProperties": False}


def rule(value: Any, **more: Any) -> dict[str, Any]:
    """The schema of a mapping whose only key `a` has `value`."""
    return {**OBJECT, "properties": {"a": value}, **more}


VALUES: dict[str, tuple[Any, Any, tuple[str, str]]] = {
    # Types.
    "text for a number": ({"type": "integer"}, "x", ("wrong-type", 'a: "x" is not a whole number; write one')),
    "text for a titled number": (
        {"type": "integer", "title": "the number of cores"},
        "x",
        ("wrong-type", 'a: "x" is not a whole number; write the number of cores'),
    ),
    "a fraction for a number": ({"type": "integer"}, 1.5, ("wrong-type", "a: 1.5 is not a whole number; write one")),
    "a number for text": ({"type": "string"}, 3.10, ("wrong-type", 'a: 3.1 without quotes is a number; write "3.1"')),
    "a number for titled text": (
        WORD,
        7,
        ("wrong-type", 'a: 7 without quotes is a number; write "7", one small word'),
    ),
    "a number for text or nothing": (
        {"type": ["string", "null"]},
        7,
        ("wrong-type", 'a: 7 without quotes is a number; write "7"'),
    ),
    "a list for text": ({"type": "string"}, [], ("wrong-type", "a: an empty list is not text")),
    "a mapping for a truth": ({"type": "boolean"}, {"x": 1}, ("wrong-type", "a: a mapping is not true or false")),
    "a word for a truth": ({"type": "boolean"}, "x", ("wrong-type", 'a: "x" is not true or false')),
    "a word for a list": ({"type": "array"}, "a-b.c", ("wrong-type", 'a: "a-b.c" is not a list; write [a-b.c]')),
    "words for a list": ({"type": "array"}, "a b", ("wrong-type", 'a: "a b" is not a list; write ["a b"]')),
    "a truth for a list": ({"type": "array"}, True, ("wrong-type", "a: true is not a list; write [true]")),
    "a number for a list": ({"type": "array"}, 7, ("wrong-type", "a: 7 is not a list; write [7]")),
    "a number for a list of texts": (
        {"type": "array", "items": {"type": "string"}},
        3.5,
        ("wrong-type", 'a: 3.5 is not a list; write ["3.5"]'),
    ),
    "a mapping for a list": ({"type": "array"}, {"x": 1}, ("wrong-type", "a: a mapping is not a list")),
    "a list for a mapping": (
        {"type": "object"},
        ["x"],
        ("wrong-type", "a: a list is not a mapping; write NAME: with its own keys for each entry"),
    ),
    "a word for a mapping with keys": (
        {"type": "object", "properties": MANY},
        "x",
        ("wrong-type", 'a: "x" is not a mapping with keys such as alpha, beta, gamma, delta'),
    ),
    "a word for a mapping with a required key": (
        {"type": "object", "properties": MANY, "required": ["beta"]},
        "x",
        ("wrong-type", 'a: "x" is not a mapping with the key beta'),
    ),
    "a word for a mapping with required keys": (
        {"type": ["object", "null"], "properties": MANY, "required": ["beta", "alpha"]},
        "x",
        ("wrong-type", 'a: "x" is not a mapping with the keys beta, alpha'),
    ),
    "a word for what has no name": ({"type": "null"}, "x", ("wrong-type", 'a: "x" is not a valid value')),
    "nothing": ({"type": "object"}, None, ("wrong-type", "a has no value; write a mapping")),
    "nothing for a titled value": (WORD, None, ("wrong-type", "a has no value; write one small word")),
    # Other keywords.
    "another text": (WORD, "X", ("wrong-value", 'a: "X" is not one small word')),
    "another text without a title": ({"pattern": "^x$"}, "y", ("wrong-value", 'a: "y" is not a valid value')),
    "another constant": ({"const": 1, "title": "one"}, 2, ("wrong-value", "a: 2 is not one")),
    "none of the choices": ({"enum": ["on", "off"]}, "maybe", ("wrong-value", 'a: "maybe" is not one of on, off')),
    "a choice in capitals": (
        {"enum": ["flox", "nix"]},
        "NIX",
        ("wrong-value", 'a: "NIX" is not one of flox, nix; did you mean nix?'),
    ),
    "a number for a choice": ({"enum": [1, 2]}, 3, ("wrong-value", "a: 3 is not one of 1, 2")),
    "too small": ({"minimum": 2}, 1, ("wrong-value", "a: 1 is too small for a valid value; the least is 2")),
    "too large": (
        {"maximum": 5, "title": "a few"},
        6,
        ("wrong-value", "a: 6 is too large for a few; the most is 5"),
    ),
    "too large for a title that says so": (
        {"maximum": 5, "title": "a number up to 5"},
        6,
        ("wrong-value", "a: 6 is too large for a number up to 5"),
    ),
    "an empty list": ({"minItems": 1}, [], ("wrong-value", "a: empty; it needs at least one entry")),
    "an empty mapping": ({"minProperties": 1}, {}, ("wrong-value", "a: empty; it needs at least one entry")),
    "a repeated item": (
        {"uniqueItems": True},
        ["x", "y", "y", "x"],
        ("wrong-value", 'a: "y" is listed twice; remove one of them'),
    ),
    "a repeated mapping": (
        {"uniqueItems": True},
        [{"x": 1}, {"x": 1}],
        ("wrong-value", "a: a mapping is listed twice; remove one of them"),
    ),
    "a long text": ({"maxLength": 9}, "x" * 100, ("wrong-value", f'a: "{"x" * 76}… is not a valid value')),
    "a secret": (
        {"maxLength": 9},
        "a1B2" * 21 + "ab==",
        ("wrong-value", 'a: "***" is not a valid value'),
    ),
}


@pytest.mark.parametrize("case", VALUES)
def test_a_wrong_value_is_explained(case: str) -> None:
    value_rule, value, (code, message) = VALUES[case]
    document = {"a": value}
    found = schema_findings(parse_document(json.dumps(document).encode(), shown="s"), rule(value_rule))
    there = '"a"' if value is None else json.dumps(value)[:1]
    assert_said(document, found, [(code, message, there)])
    assert [one.message for one in found] == [message]


def test_a_repeated_item_of_a_long_list_is_the_first_one() -> None:
    document = {"a": ["x", 1, True, "1", 1, "x"]}
    (one,) = schema_findings(parse_document(json.dumps(document).encode(), shown="s"), rule({"uniqueItems": True}))
    assert one.message == "a: 1 is listed twice; remove one of them"


KEYS = {name: {} for name in ("name", "size", "colour")}
ANY = {"b": {"type": "integer"}, "c": {"type": "integer"}}

OBJECTS: dict[str, tuple[dict[str, Any], Any, list[Said]]] = {
    "a required key": (
        rule({**OBJECT, "properties": ANY, "required": ["b"]}),
        {"a": {}},
        [("missing-key", "a lacks the required key 'b'", '"a"')],
    ),
    "required keys": (
        rule({**OBJECT, "properties": ANY, "required": ["b", "c"]}),
        {"a": {}},
        [("missing-key", "a lacks the required keys b, c", '"a"')],
    ),
    "a required key of the file": (
        {**OBJECT, "properties": KEYS, "required": ["name"]},
        {"size": 1},
        [("missing-key", "the spec lacks the required key 'name'", "{")],
    ),
    "a required key in another spelling": (
        {**OBJECT, "properties": KEYS, "required": ["name", "size"]},
        {"nmae": 1},
        [
            ("missing-key", "the spec lacks the required key 'size'", "{"),
            ("unknown-key", "the spec has no key 'nmae'; did you mean name?", '"nmae"'),
        ],
    ),
    "a key of all that are known": (
        rule({**OBJECT, "properties": KEYS}),
        {"a": {"what": 1}},
        [("unknown-key", "a has no key 'what'; known are colour, name, size", '"what"')],
    ),
    "a key of many": (
        rule({**OBJECT, "properties": {f"k{'x' * at}": {} for at in range(13)}}),
        {"a": {"what": 1}},
        [("unknown-key", "a has no key 'what'; `ci-compile schema` describes its keys", '"what"')],
    ),
    "keys of an entry": (
        rule({"type": "object", "additionalProperties": {**OBJECT, "properties": KEYS}}),
        {"a": {"x": {"nam": 1}, "y": {"name": 1}}},
        [("unknown-key", "a.x has no key 'nam'; did you mean name?", '"nam"')],
    ),
    "a name": (
        rule({"type": "object", "propertyNames": {"pattern": "^[a-z]$", "title": "a letter"}}),
        {"a": {"b": 1, "B2": 1}},
        [("wrong-value", 'a: "B2" is not a letter', '"B2"')],
    ),
    "one of two keys": (
        rule({"anyOf": [{"required": ["b"]}, {"required": ["c"]}]}),
        {"a": {}},
        [("missing-key", "a lacks the required key 'c'", '"a"')],
    ),
    "one of two forms, at a value of the second": (
        rule({"anyOf": [{"type": "string"}, {"type": "array", "items": WORD}], "title": "a word or several"}),
        {"a": ["x", "Y"]},
        [("wrong-value", 'a.1: "Y" is not one small word', '"Y"')],
    ),
    "neither of two forms": (
        rule({"anyOf": [{"type": "string"}, {"type": "array"}], "title": "a word or several"}),
        {"a": {"b": 1}},
        [("wrong-value", "a: a mapping is not a word or several", "{")],
    ),
    "two errors in the order of the file": (
        {**OBJECT, "properties": {"b": WORD, "c": {"type": "integer"}}},
        {"c": "x", "b": "X"},
        [
            ("wrong-type", 'c: "x" is not a whole number', '"x"'),
            ("wrong-value", 'b: "X" is not one small word', '"X"'),
        ],
    ),
    "one error that two forms find": (
        {**rule(WORD), "anyOf": [rule(WORD)]},
        {"a": "X"},
        [("wrong-value", 'a: "X" is not one small word', '"X"')],
    ),
    "nothing": (rule(WORD), {"a": "x"}, []),
}


@pytest.mark.parametrize("case", OBJECTS)
def test_wrong_keys_are_explained(case: str) -> None:
    of_case, document, expected = OBJECTS[case]
    assert_said(document, schema_findings(parse_document(json.dumps(document).encode(), shown="s"), of_case), expected)


SPECS: dict[str, tuple[dict[str, Any], list[Said]]] = {
    "a key of packages at the top": (
        {"jobs": 8},
        [("unknown-key", "the spec has no key 'jobs'; it is a key of packages.NAME", '"jobs"')],
    ),
    "a key of two mappings at the top": (
        {"disk": 8},
        [("unknown-key", "the spec has no key 'disk'; it is a key of packages.NAME and of runners.NAME", '"disk"')],
    ),
    "a key of no mapping at the top": (
        {"default": "x"},
        [("unknown-key", "the spec has no key 'default'; `ci-compile schema` describes its keys", '"default"')],
    ),
    "a key of the top in a package": (
        {"packages": {"pytorch": {"owner": "me"}, "torchvision": {}}},
        [("unknown-key", "packages.pytorch has no key 'owner'; it is a key of the spec", '"owner": "me"')],
    ),
    "a misspelled key of a package": (
        {"packages": {"pytorch": {"onwer": "me", "attribut": "x"}, "torchvision": {}}},
        [
            ("unknown-key", "packages.pytorch has no key 'onwer'; `ci-compile schema` describes its keys", '"onwer"'),
            ("unknown-key", "packages.pytorch has no key 'attribut'; did you mean attribute", '"attribut"'),
        ],
    ),
    "a key that is called otherwise": (
        {"pools": {}},
        [("unknown-key", "the spec has no key 'pools'; did you mean runners?", '"pools"')],
    ),
    "a branch without keys, as the example has them": (
        {"branches": {"main": "x"}},
        [("wrong-type", 'branches.main: "x" is not a mapping with keys such as cuda, nixpkgs, versions', '"x"')],
    ),
    "a package without keys, as the example has them": (
        {"packages": {"pytorch": "x"}},
        [("wrong-type", 'packages.pytorch: "x" is not a mapping with keys such as attribute', '"x"')],
    ),
    "a reason of a value": (
        {"owner": "https://github.com/my-org"},
        [("wrong-value", 'owner: "https://github.com/my-org" is more than the owner; write my-org', '"https')],
    ),
    "a reason of a number": (
        {"branches": {"main": MAIN | {"cuda": 12.8}}},
        [("wrong-value", "branches.main.cuda: 12.8 without quotes is a number, where 12.10 would be 12.1", "12.8")],
    ),
}


@pytest.mark.parametrize("case", SPECS)
def test_a_wrong_spec_is_explained_by_what_the_schema_of_a_spec_has(case: str) -> None:
    changes, expected = SPECS[case]
    document = small(**changes)
    assert_said(document, schema_findings(parse_document(json.dumps(document).encode(), shown="s")), expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello", '"hello" is not a ci-compiler spec (a mapping of keys); `ci-compile init` writes a first one'),
        ("[1]", "a list is not a ci-compiler spec (a mapping of keys); `ci-compile init` writes a first one"),
        ("version = 1\nx = 2\n", "this is TOML, and a spec is YAML; write `version: …` in place of `version = …`"),
        ("a == b", '"a == b" is not a ci-compiler spec (a mapping of keys); `ci-compile init` writes a first one'),
    ],
)
def test_what_is_no_mapping_is_no_spec(text: str, message: str) -> None:
    found = schema_findings(parse_document(text.encode(), shown="s"))
    assert f"the spec: {message}" in [one.message for one in found]


def test_a_file_without_keys_lacks_the_required_ones() -> None:
    required = ", ".join(schema()["anyOf"][1]["required"][1:])
    (one,) = schema_findings(parse_document(b"{}", shown="s"))
    assert (one.code, one.message) == (
        "missing-key",
        f"is no spec: none of the keys {required} is in it; `ci-compile init` writes a first one",
    )
