"""The JSON Schema of a spec, made from the declarations in `model`, and the defaults that it states."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, is_dataclass
from enum import Enum
from functools import cache
from inspect import getdoc
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from ci_compiler.spec.declare import TABLES, Key, form_of, keys_of
from ci_compiler.spec.model import Spec

ADDRESS = "https://raw.githubusercontent.com/flox-cuda/ci-compiler/main/ci_compiler/spec/schema.json"
"""Where the schema is published, for editors: the repository's `schema.json`, which is generated from this module."""

_TYPES = {str: "string", int: "integer", bool: "boolean"}

Rule = dict[str, Any]
"""A schema, or a part of one, as plain JSON."""


@cache
def schema() -> Mapping[str, Any]:
    """The JSON Schema (draft 2020-12) of a spec, which has all required keys, or those of a bundled one."""
    made = schema_of(Spec, address=ADDRESS)
    alternatives = [{"required": ["bundled"]}, {"required": made.pop("required")}]
    return {**made, "anyOf": alternatives}


def schema_text() -> str:
    """The schema as the text of a file."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def schema_of(cls: Any, *, address: str = "") -> Rule:
    """The JSON Schema of a file that holds a `cls`; `address` is where it is published ('': nowhere)."""
    definitions: dict[str, Rule] = {}
    root = _object(cls, definitions)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return {**head, **({"$id": address} if address else {}), **root, "$defs": dict(sorted(definitions.items()))}


def _rule(kind: Any, definitions: dict[str, Rule]) -> Rule:
    """The schema of values of the type `kind`; definitions that it refers to are added to `definitions`."""
    if get_origin(kind) is Annotated:
        base, *forms = get_args(kind)
        rule = _rule(base, definitions)
        for form in forms:
            rule = _defined(form.name, rule | form.rules, definitions)
        return rule
    if get_origin(kind) is not None:
        return _generic(get_origin(kind), get_args(kind), definitions)
    if kind in TABLES:
        return {"enum": [row.name for row in TABLES[kind]()]}
    if is_dataclass(kind):
        return _defined(form_of(kind).name, _object(kind, definitions), definitions)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [member.value for member in kind]}
    return {} if kind is Any else {"type": _TYPES[kind]}


def _generic(origin: Any, arguments: tuple[Any, ...], definitions: dict[str, Rule]) -> Rule:
    if origin is Literal:
        return {"const": arguments[0]} if len(arguments) == 1 else {"enum": list(arguments)}
    rules = [_rule(one, definitions) for one in arguments if one not in {NoneType, Ellipsis}]
    if origin is tuple:
        unique = {} if is_dataclass(arguments[0]) and arguments[0] not in TABLES else {"uniqueItems": True}
        return {"type": "array", "items": rules[0], **unique}
    if origin is Mapping:
        names = {"propertyNames": rules[0]} if "$ref" in rules[0] else {}
        return {"type": "object", **names, "additionalProperties": rules[1]}
    return rules[0] if len(rules) == 1 else {"anyOf": rules}


def _defined(name: str, rule: Rule, definitions: dict[str, Rule]) -> Rule:
    """`rule`, or a reference to it where it has a name."""
    if not name:
        return rule
    definitions[name] = rule
    return {"$ref": f"#/$defs/{name}"}


def _object(cls: Any, definitions: dict[str, Rule]) -> Rule:
    keys = keys_of(cls)
    required = [key.name for key in keys if key.required]
    return {
        "description": " ".join((getdoc(cls) or "").split("\n\n")[0].split()),
        "type": "object",
        "additionalProperties": False,
        **({"required": required} if required else {}),
        "properties": {key.name: _property(key, definitions) for key in keys},
        **form_of(cls).rules,
    }


def _property(key: Key, definitions: dict[str, Rule]) -> Rule:
    rule = {**_rule(key.type, definitions), **key.rules}
    if isinstance(key.default, Mapping) and key.default:
        value = rule.pop("additionalProperties")
        rule |= {"additionalProperties": False, "properties": _table(key.default, value), "default": {}}
    elif key.default is not MISSING:
        rule["default"] = _plain(key.default)
    return rule


def _table(default: Mapping[Any, Any], rule: Rule) -> dict[str, Rule]:
    return {_plain(name): {**rule, "default": _plain(value)} for name, value in default.items()}


def _plain(value: Any) -> Any:
    """The default `value` of a field as JSON; an object stands for the defaults of its own keys."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple(TABLES)):
        return str(value)
    if isinstance(value, tuple):
        return list(map(_plain, value))
    return {} if is_dataclass(value) else value


def with_defaults(value: Any, rule: Mapping[str, Any] | None = None) -> Any:
    """`value`, which is valid, with the schema's default for every key that it leaves out."""
    rule = schema() if rule is None else rule
    if "$ref" in rule:
        rule = {**definition(rule["$ref"]), **{key: item for key, item in rule.items() if key != "$ref"}}
    if isinstance(value, list):
        return [with_defaults(item, rule.get("items", {})) for item in value]
    if not isinstance(value, dict):
        return value
    known, rest = rule.get("properties", {}), rule.get("additionalProperties")
    filled = {key: with_defaults(item, known.get(key, rest or {})) for key, item in value.items()}
    for key, sub in known.items():
        if key not in filled and "default" in sub:
            filled[key] = with_defaults(sub["default"], sub)
    return filled


def definition(reference: str) -> Mapping[str, Any]:
    """What a `$ref` in the schema stands for."""
    found: Mapping[str, Any] = schema()["$defs"][reference.removeprefix("#/$defs/")]
    return found
