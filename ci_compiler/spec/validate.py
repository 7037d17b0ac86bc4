"""Checks a document against the JSON Schema: jsonschema finds what is wrong, and this module writes the messages.

jsonschema is imported only to explain what `accept` refuses. A message is one line with the place, what is wrong, what
is right, and the nearest valid names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, nearest
from ci_compiler.spec.accept import accepts, are_unique
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
    errors = judge(rule).iter_errors(document.value)
    findings = [finding for error in errors for finding in _findings(document, error)]
    return sorted(set(findings), key=lambda finding: (finding.place, finding.code, finding.message))


def _repeated(_validator: Any, _wanted: Any, value: Any, _rule: Any) -> Iterator[Any]:
    """The keyword `uniqueItems`; jsonschema itself compares all pairs of items that have no order, such as mappings."""
    from jsonschema import ValidationError

    if isinstance(value, list) and not are_unique(value):
        yield ValidationError("an entry is repeated")


def _findings(document: Document, error: Any) -> Iterator[Finding]:
    path: Path_ = tuple(error.absolute_path)
    match error.validator:
        case "additionalProperties":
            known = error.schema["properties"]
            for key in error.instance:
                if key not in known:
                    place = document.place((*path, key), key=True)
                    message = f"{_where(path)} has no key {key!r}{nearest(key, known)}"
                    yield Finding(place=place, code=Code.UNKNOWN_KEY, message=message)
        case "required":
            for key in error.validator_value:
                if key not in error.instance:
                    message = f"{_where(path)} lacks the required key {key!r}"
                    yield Finding(place=document.place(path), code=Code.MISSING_KEY, message=message)
        case "anyOf" if near := [one for one in error.context if len(one.absolute_path) > len(path)]:
            yield from _findings(document, near[0])
        case _:
            is_name = "propertyNames" in error.absolute_schema_path
            full = (*path, error.instance) if is_name else path
            place = document.place(full, key=is_name)
            yield Finding(place=place, code=_code(error), message=_message(document, path, error))


def _code(error: Any) -> Code:
    return Code.WRONG_TYPE if error.validator == "type" else Code.WRONG_VALUE


def _message(document: Document, path: Path_, error: Any) -> str:
    expected = error.schema.get("title")
    typed = document.typed.get(path)
    shown = typed if typed is not None else _shown(error.instance)
    match error.validator:
        case "enum":
            choices = [str(choice) for choice in error.validator_value]
            return f"{_where(path)}: {shown} is not one of {', '.join(choices)}{_near(error.instance, choices)}"
        case "type" if typed is not None and "string" in error.validator_value:
            return f'{_where(path)}: {typed} without quotes is a number; write "{typed}"{_right(expected)}'
        case "uniqueItems":
            return f"{_where(path)}: an entry is repeated; remove one of them"
        case "type" if not expected:
            kinds = {
                "object": "a mapping", "array": "a list", "string": "text", "integer": "a whole number",
                "boolean": "true or false",
            }  # fmt: skip
            wanted = error.validator_value if isinstance(error.validator_value, str) else error.validator_value[0]
            return f"{_where(path)}: {shown} is not {kinds.get(wanted, wanted)}"
        case "minProperties" | "minItems":
            return f"{_where(path)}: empty; it needs at least one entry"
        case _:
            return f"{_where(path)}: {shown} is not {expected or 'a valid value'}"


def _right(expected: str | None) -> str:
    return f", {expected}" if expected else ""


def _near(value: Any, choices: list[str]) -> str:
    close = nearest(value, choices) if isinstance(value, str) else ""
    return close if "mean" in close else ""


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "…"


def _where(path: Path_) -> str:
    return ".".join(map(str, path)) if path else "the spec"
