"""Checks a document against the JSON Schema: jsonschema finds what is wrong, and this module writes the messages.

`accepts` gives the answer of jsonschema for the keywords that the declarations of the spec use, without the time that
importing it takes; jsonschema is imported only to explain what is refused. A message is one line with the place, what
is wrong, what is right, and the nearest valid names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, nearest
from ci_compiler.secret import hide_secrets
from ci_compiler.spec.load import Document, Path_
from ci_compiler.spec.schema import schema


def schema_findings(document: Document, rule: Mapping[str, Any] | None = None) -> list[Finding]:
    """What `rule`, by default the schema of a spec, finds wrong with `document`, in the order of the file."""
    rule = schema() if rule is None else rule
    if accepts(rule, document.value):
        return []
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    judge = extend(Draft202012Validator, {"uniqueItems": _repeated})  # type: ignore[no-untyped-call]
    errors = list(judge(rule).iter_errors(document.value))
    meant = {(tuple(one.absolute_path), right) for one in errors for right in _meant(one)}
    findings = [finding for error in errors for finding in _findings(document, error, meant)]
    return sorted(set(findings), key=lambda finding: (finding.place, finding.code, finding.message))


def _repeated(_validator: Any, _wanted: Any, value: Any, _rule: Any) -> Iterator[Any]:
    """The keyword `uniqueItems`; jsonschema itself compares all pairs of items that have no order, such as mappings."""
    from jsonschema import ValidationError

    if isinstance(value, list) and not are_unique(value):
        twice = next(one for at, one in enumerate(value) if not are_unique(value[: at + 1]))
        yield ValidationError(f"{_shown(twice)} is listed twice")


_FEW = 12
"""The most keys that a message lists."""

_FEW_PLACES = 3
"""The most mappings with a key that a message names."""

_DEEPEST = 2
"""The levels of the spec in which a key is sought, below the spec itself."""


def _unknown_keys(error: Any) -> Iterator[tuple[str, str]]:
    """The keys that the schema does not know, each with the clause that says what is meant."""
    from ci_compiler.spec.reasons import key_hint

    known = error.schema["properties"]
    for key in error.instance:
        if key not in known:
            many = "; `ci-compile schema` describes its keys" if len(known) > _FEW else ""
            top = not error.absolute_path
            clauses = (_elsewhere(key, _FEW_PLACES if top or many else 0), nearest(key, known, only_near=True))
            near = next(filter(None, clauses if top else clauses[::-1]), "")
            yield key, key_hint(key, known) or near or nearest(key, known, only_near=bool(many)) or many


def _elsewhere(key: str, most: int) -> str:
    """The clause that says which mappings of the fewest levels have `key`; '' if none or more than `most` have it."""
    level: list[tuple[str, Mapping[str, Any]]] = [("", schema())]
    while level:
        found = [where or "the spec" for where, rule in level if key in rule.get("properties", ())]
        if found:
            return f"; it is a key of {' and of '.join(found)}" if len(found) <= most else ""
        level = [
            below for where, rule in level for below in _below(where, rule) if where.count(".") < _DEEPEST - bool(where)
        ]
    return ""


def _below(where: str, rule: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The rules of the values of a mapping, by path; NAME stands for a name that the spec chooses."""
    for name, one in {"NAME": rule.get("additionalProperties"), **rule.get("properties", {})}.items():
        if isinstance(one, dict):
            own = schema()["$defs"][one["$ref"].removeprefix("#/$defs/")] if "$ref" in one else one
            yield f"{where}.{name}".lstrip("."), own


def _meant(error: Any) -> Iterator[str]:
    """The required keys that are there in another spelling."""
    if error.validator == "additionalProperties":
        hints = [hint for _, hint in _unknown_keys(error) if "did you mean" in hint]
        for key in error.schema.get("required", error.schema["properties"]):
            if any(re.search(rf"[ ]{re.escape(key)}[ ?]", hint) for hint in hints):
                yield key


def _findings(document: Document, error: Any, meant: Collection[tuple[Path_, str]]) -> Iterator[Finding]:
    """The findings of an error; a key of `meant` is not missing, because it is there in another spelling."""
    path: Path_ = tuple(error.absolute_path)
    match error.validator:
        case "additionalProperties":
            for key, hint in _unknown_keys(error):
                place = document.place((*path, key), key=True)
                yield Finding(place=place, code=Code.UNKNOWN_KEY, message=f"{_where(path)} has no key {key!r}{hint}")
        case "required":
            missing = [key for key in error.validator_value if key not in error.instance and (path, key) not in meant]
            if missing:
                what = f"key {missing[0]!r}" if len(missing) == 1 else f"keys {', '.join(missing)}"
                place = document.place(path, key=True)
                yield Finding(place=place, code=Code.MISSING_KEY, message=f"{_where(path)} lacks the required {what}")
        case "anyOf" if {one.validator for one in error.context} == {"required"}:
            yield from _findings(document, error.context[-1], meant)
        case "anyOf" if near := [one for one in error.context if len(one.absolute_path) > len(path)]:
            yield from _findings(document, near[0], meant)
        case _:
            is_name = "propertyNames" in error.absolute_schema_path
            full = (*path, error.instance) if is_name else path
            place = document.place(full, key=is_name or error.instance is None)
            yield Finding(place=place, code=_code(error), message=_message(document, path, error))


def _code(error: Any) -> Code:
    return Code.WRONG_TYPE if error.validator == "type" else Code.WRONG_VALUE


def _message(document: Document, path: Path_, error: Any) -> str:
    """The message about a value that is wrong itself."""
    from ci_compiler.spec.reasons import reason

    typed = document.typed.get(path)
    shown = typed if typed is not None else _shown(error.instance)
    written = shown if typed is not None or not isinstance(error.instance, str) else json.dumps(error.instance)
    if why := reason(path, written, error.schema.get("type", "")):
        return f"{_where(path)}: {shown} {why}"
    if error.instance is None:
        return f"{_where(path)} has no value; write {_expected(error)}"
    return f"{_where(path)}: {_wrong(error, shown, typed)}"


def _wrong(error: Any, shown: str, typed: str | None) -> str:
    """What is wrong with a value, which is `shown` so, and was `typed` so if it is a number."""
    match error.validator:
        case "enum":
            choices = [str(choice) for choice in error.validator_value]
            return f"{shown} is not one of {', '.join(choices)}{_near(error.instance, choices)}"
        case "type":
            return _wrong_type(error, shown, typed)
        case "uniqueItems":
            return f"{error.message}; remove one of them"
        case "minimum" | "maximum" as limit:
            small = limit == "minimum"
            size, end, most = *(("small", "least") if small else ("large", "most")), error.validator_value
            said = f"{shown} is too {size} for {_expected(error)}"
            return said if str(most) in _expected(error) else f"{said}; the {end} is {most}"
        case "minProperties" | "minItems":
            return "empty; it needs at least one entry"
        case _:
            return f"{shown} is not {_expected(error)}"


def _wrong_type(error: Any, shown: str, typed: str | None) -> str:
    """What is wrong with a value of another type."""
    wanted, title = error.validator_value, error.schema.get("title")
    if typed is not None and "string" in wanted:
        return f'{typed} without quotes is a number; write "{typed}"{_right(title)}'
    if wanted == "integer":
        return f"{shown} is not a whole number; write {title or 'one'}"
    if wanted == "array" and not isinstance(error.instance, dict):
        texts = '"type": "string"' in json.dumps(error.schema.get("items", {}))
        entry = _text(error.instance) if typed is None else json.dumps(typed) if texts else typed
        return f"{shown} is not {_expected(error)}; write [{entry}]"
    if wanted == "object" and isinstance(error.instance, list) and error.absolute_path:
        return f"a list is not {_expected(error)}; write NAME: with its own keys for each entry"
    if not error.absolute_path and isinstance(error.instance, str) and (found := _TOML.match(error.instance)):
        return f"this is TOML, and a spec is YAML; write `{found['key']}: …` in place of `{found['key']} = …`"
    more = "" if error.absolute_path else "; `ci-compile init` writes a first one"
    return f"{shown} is not {_expected(error)}{more}"


def _expected(error: Any) -> str:
    """What a value must be, in words."""
    title: str | None = error.schema.get("title")
    kind = error.schema.get("type", "")
    wanted = kind if isinstance(kind, str) else kind[0]
    if title or wanted not in _KINDS:
        return title or "a valid value"
    keys = list(error.schema.get("properties", ())) if wanted == "object" else []
    required = error.schema.get("required", ())
    if required:
        return f"{_KINDS[wanted]} with the key{'s' if required[1:] else ''} {', '.join(required)}"
    keys = [key for key in _exemplary(tuple(error.absolute_path)) if key in keys] or keys
    return f"{_KINDS[wanted]} with keys such as {', '.join(keys[:4])}" if keys else _KINDS[wanted]


def _exemplary(path: Path_) -> list[str]:
    """The keys of the mapping at `path` in the schema's example of a spec; none if there is no such mapping."""
    examples = schema()["properties"].get(path[0], {}).get("examples") if path else None
    value = examples[0] if examples else None
    for step in path[1:]:
        value = value.get(step) or next(iter(value.values()), None) if isinstance(value, dict) else None
    return list(value) if isinstance(value, dict) else []


_TOML = re.compile(r"(?P<key>[\w-]+)\s*=(?!=)")
"""The start of a TOML file; YAML reads all of it as one text."""

_KINDS = {
    "object": "a mapping", "array": "a list", "string": "text", "integer": "a whole number",
    "boolean": "true or false",
}  # fmt: skip


def _text(value: Any) -> str:
    """A scalar as YAML has it, without quotes where it needs none."""
    return value if isinstance(value, str) and re.fullmatch(r"[A-Za-z][\w.-]*", value) else json.dumps(value)


def _right(expected: str | None) -> str:
    return f", {expected}" if expected else ""


def _near(value: Any, choices: list[str]) -> str:
    close = nearest(value, choices) if isinstance(value, str) else ""
    return close if "mean" in close else ""


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return f"a{'n empty' if not value else ''} {'mapping' if isinstance(value, dict) else 'list'}"
    text = "nothing" if value is None else hide_secrets(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= 80 else text[:77] + "…"


def _where(path: Path_) -> str:
    return ".".join(map(str, path)) if path else "the spec"


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
