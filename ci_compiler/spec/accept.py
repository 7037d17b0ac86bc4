"""Whether a JSON Schema accepts a value: the answer of jsonschema, without the time that importing it takes.

The module knows the keywords that the declarations of the spec use. `validate` asks jsonschema to explain what is
refused here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Rule = Mapping[str, Any]
Accept = Callable[[Rule, Any], bool]

ANNOTATIONS = frozenset({"$defs", "$id", "$schema", "default", "description", "examples", "title"})
"""The keywords that refuse no value."""


def accepts(schema: Rule, value: Any) -> bool:
    """Whether `schema` accepts `value`, which is plain JSON. Raises KeyError for a keyword that is not known here."""
    definitions = schema.get("$defs", {})

    def accept(rule: Rule, value: Any) -> bool:
        for word, argument in rule.items():
            if word == "$ref":
                if not accept(definitions[argument.removeprefix("#/$defs/")], value):
                    return False
            elif word not in ANNOTATIONS:
                kind, holds = KEYWORDS[word]
                if isinstance(value, kind) and not holds(argument, value, rule, accept):
                    return False
        return True

    return accept(schema, value)


def _known(rules: Rule, value: Rule, _: Rule, accept: Accept) -> bool:
    return all(accept(rules[key], item) for key, item in value.items() if key in rules)


def _further(wanted: Any, value: Rule, rule: Rule, accept: Accept) -> bool:
    known = rule.get("properties", ())
    return all(wanted is not False and accept(wanted, item) for key, item in value.items() if key not in known)


def _same(one: Any, other: Any) -> bool:
    """Whether two scalars are equal in JSON, where `true` is not 1."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def are_unique(items: list[Any]) -> bool:
    """Whether no item is repeated."""
    return len(set(map(repr, items))) == len(items)


def _is_type(names: str | list[str], value: Any) -> bool:
    return any(
        value.is_integer()
        if name == "integer" and isinstance(value, float)
        else isinstance(value, _TYPES[name]) and isinstance(value, bool) == (name == "boolean")
        for name in ([names] if isinstance(names, str) else names)
    )


_TYPES: Mapping[str, type] = {
    "array": list, "boolean": bool, "integer": int, "null": type(None), "object": dict, "string": str,
}  # fmt: skip
_NUMBER = (int, float)

KEYWORDS: Mapping[str, tuple[type | tuple[type, ...], Callable[[Any, Any, Rule, Accept], bool]]] = {
    "type": (object, lambda names, value, *_: _is_type(names, value)),
    "const": (object, lambda only, value, *_: _same(only, value)),
    "enum": (object, lambda choices, value, *_: any(_same(one, value) for one in choices)),
    "anyOf": (object, lambda rules, value, _, accept: any(accept(rule, value) for rule in rules)),
    "not": (object, lambda rule, value, _, accept: not accept(rule, value)),
    "pattern": (str, lambda pattern, value, *_: re.search(pattern, value) is not None),
    "minLength": (str, lambda least, value, *_: len(value) >= least),
    "maxLength": (str, lambda most, value, *_: len(value) <= most),
    "minimum": (_NUMBER, lambda least, value, *_: isinstance(value, bool) or not value < least),
    "maximum": (_NUMBER, lambda most, value, *_: isinstance(value, bool) or not value > most),
    "items": (list, lambda rule, value, _, accept: all(accept(rule, item) for item in value)),
    "minItems": (list, lambda least, value, *_: len(value) >= least),
    "maxItems": (list, lambda most, value, *_: len(value) <= most),
    "uniqueItems": (list, lambda _, value, *__: are_unique(value)),
    "required": (dict, lambda names, value, *_: all(name in value for name in names)),
    "minProperties": (dict, lambda least, value, *_: len(value) >= least),
    "propertyNames": (dict, lambda rule, value, _, accept: all(accept(rule, name) for name in value)),
    "properties": (dict, _known),
    "additionalProperties": (dict, _further),
}
"""The type of the values that each keyword limits, and whether it accepts one, given its argument and its rule."""
