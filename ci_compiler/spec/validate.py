"""Checks a document against the JSON Schema: jsonschema finds what is wrong, and this module writes the messages.

jsonschema is imported only to explain what `accept` refuses. A message is one line with the place, what is wrong, what
is right, and the nearest valid names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, nearest
from ci_compiler.secret import hide_secrets
from ci_compiler.spec.accept import accepts, are_unique
from ci_compiler.spec.load import Document, Path_
from ci_compiler.spec.schema import definition, schema


def schema_findings(document: Document, rule: Mapping[str, Any] | None = None) -> list[Finding]:
    """What `rule`, by default the schema of a spec, finds wrong with `document`, in the order of the file."""
    rule = schema() if rule is None else rule
    if accepts(rule, document.value):
        return []
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    judge = extend(Draft202012Validator, {"uniqueItems": _repeated})  # type: ignore[no-untyped-call]
    errors = list(judge(rule).iter_errors(document.value))
    if (
        rule is schema()
        and isinstance(document.value, dict)
        and not {*document.value} & {*rule["properties"]} - {"version"}
    ):
        first = [key for key in schema()["properties"] if key in schema()["anyOf"][1]["required"]]
        message = f"is no spec: none of the keys {', '.join(first[1:])} is in it; `ci-compile init` writes a first one"
        return [Finding(place=document.place(()), code=Code.MISSING_KEY, message=message)]
    deep = [
        at
        for error in errors
        for one in (error, *error.context[-1:])
        if one.validator == "required"
        for at in _too_deep(document, one).values()
    ]
    meant = {(tuple(one.absolute_path), right) for one in errors for right in _meant(one)}
    findings = [
        finding
        for error in errors
        if not any(tuple(error.absolute_path)[: len(at) - 1] == at[:-1] for at in deep)
        for finding in _findings(document, error, meant)
    ]
    return sorted(set(findings), key=lambda finding: (finding.place, finding.code, finding.message))


def _too_deep(document: Document, error: Any) -> dict[str | int, Path_]:
    """The required keys that are missing because they stand in the mapping above them, each with its path there."""
    path, missing = tuple(error.absolute_path), {key for key in error.validator_value if key not in error.instance}
    return {at[-1]: at for at in document.keys if at[-1] in missing and at[:-2] == path and len(at) == len(path) + 2}


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
            clauses = (
                _elsewhere(key, _FEW_PLACES if top or many else 0) or (_entry_of(error.instance[key]) if top else ""),
                nearest(key, known, only_near=True),
                "" if top else _inside(key, error.schema),
            )
            near = next(filter(None, clauses if top else clauses[::-1]), "")
            yield key, key_hint(key, known) or near or nearest(key, known, only_near=bool(many)) or many


def _elsewhere(key: str, most: int) -> str:
    """The clause that says which mappings of the fewest levels have `key`; '' if none or more than `most` have it."""
    level: list[tuple[str, Mapping[str, Any]]] = [("", schema())]
    for _ in range(1 + _DEEPEST):
        found = [where or "the spec" for where, rule in level if key in rule.get("properties", ())]
        if found:
            return f"; it is a key of {' and of '.join(found)}" if len(found) <= most else ""
        level = [below for where, rule in level for below in _below(where, rule)]
    return ""


def _inside(key: str, rule: Mapping[str, Any]) -> str:
    """The clause that says which mappings of the one that `rule` is about have `key`; '' if none has."""
    found = [where for where, below in _below("", rule) if key in below.get("properties", ())]
    return f"; it is a key of {' and of '.join(f'its `{where}`' for where in found)}" if found else ""


def _entry_of(value: Any) -> str:
    """The clause that says of which mapping of the spec `value` is an entry, by its keys; '' if of none or several."""
    rules = dict(_below("", schema()))
    entries = {name: dict(_below("", rule)).get("NAME", {}).get("properties", {}) for name, rule in rules.items()}
    of = [name for name, keys in entries.items() if isinstance(value, dict) and value and value.keys() <= keys.keys()]
    return f"; its keys are those of an entry of {of[0]}: indent it there" if len(of) == 1 else ""


def _below(where: str, rule: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The rules of the values of a mapping, by path; NAME stands for a name that the spec chooses."""
    for name, one in {"NAME": rule.get("additionalProperties"), **rule.get("properties", {})}.items():
        if isinstance(one, dict):
            yield f"{where}.{name}".lstrip("."), definition(one["$ref"]) if "$ref" in one else one


def _meant(error: Any) -> Iterator[str]:
    """The keys that are there in another spelling."""
    if error.validator == "additionalProperties":
        hints = [hint for _, hint in _unknown_keys(error) if "did you mean" in hint or "write" in hint]
        for key in error.schema["properties"]:
            if any(re.search(rf"[ `]{re.escape(key)}[ ?:`]", hint) for hint in hints):
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
                deep = {document.place(at, key=True).line for at in _too_deep(document, error).values()}
                hint = f"; what stands on line {min(deep)} is indented too far" if deep else ""
                message = f"{_where(path)} lacks the required {what}{hint}"
                yield Finding(place=place, code=Code.MISSING_KEY, message=message)
        case "anyOf" if {one.validator for one in error.context} == {"required"}:
            there = {*error.instance, *(key for at, key in meant if at == path)}
            if not any(there.issuperset(one.validator_value) for one in error.context):
                yield from _findings(document, error.context[-1], meant)
        case "anyOf" if near := [one for one in error.context if len(one.absolute_path) > len(path)]:
            branch = [one for one in near if one.schema_path[0] == near[0].schema_path[0]]
            for one in {tuple(one.absolute_path): one for one in reversed(branch)}.values():
                yield from _findings(document, one, meant)
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
            instead = _instead(error, typed)
            number = "without quotes is a number" if typed is not None and instead else f"is not {_expected(error)}"
            return f"{shown} {number}{instead}"


def _wrong_type(error: Any, shown: str, typed: str | None) -> str:
    """What is wrong with a value of another type."""
    wanted, title = error.validator_value, error.schema.get("title")
    if typed is not None and "string" in wanted:
        return f'{typed} without quotes is a number; write "{typed}"{_right(title)}'
    if wanted == "integer":
        return f"{shown} is not a whole number; write {title or 'one'}"
    entry = error.schema.get("additionalProperties", {"properties": {}})
    if wanted == "object" and isinstance(error.instance, list) and error.absolute_path and entry:
        has_keys = "properties" in (definition(entry["$ref"]) if "$ref" in entry else entry)
        write = "NAME: with its own keys" if has_keys else "NAME: VALUE"
        return f"a list is not {_expected(error)}; write {write} for each entry"
    if not error.absolute_path and isinstance(error.instance, str) and (match := _TOML.match(error.instance)):
        return f"this is TOML, and a spec is YAML; write `{match['key']}: …` in place of `{match['key']} = …`"
    more = _instead(error, typed) if error.absolute_path else "; `ci-compile init` writes a first one"
    return f"{shown} is not {_expected(error)}{more}"


def _instead(error: Any, typed: str | None) -> str:
    """The clause that says what to write for a scalar: text, a list or a mapping of it, whichever is accepted."""
    given, required = error.instance, error.schema.get("required", ())
    text = typed or _text(given)
    if (
        isinstance(given, dict | list)
        or not {"type", "anyOf"} & error.schema.keys()
        or len(text) > _LONGEST_TEXT
        or hide_secrets(text) != text
    ):
        return ""
    for value, shown in ((given, text), (typed, json.dumps(typed)))[: 1 + (typed is not None)]:
        forms = [(value, shown), ([value], f"[{shown}]")]
        if len(required) == 1:
            forms += [({required[0]: one}, f"{{{required[0]}: {written}}}") for one, written in list(forms)]
        for form, written in forms:
            if "propertyNames" not in error.absolute_schema_path and accepts(
                {**error.schema, "$defs": schema()["$defs"]}, form
            ):
                return f"; write {written}"
    return ""


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

_LONGEST_TEXT = 80
"""The most characters of a value that a message repeats."""

_KINDS = {
    "object": "a mapping", "array": "a list", "string": "text", "integer": "a whole number",
    "boolean": "true or false",
}  # fmt: skip


def _text(value: Any) -> str:
    """A scalar as YAML has it, without quotes where it needs none."""
    plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z][\w.-]*", value)
    return value if plain else json.dumps(value, ensure_ascii=False)


def _right(expected: str | None) -> str:
    return f", {expected}" if expected else ""


def _near(value: Any, choices: list[str]) -> str:
    close = nearest(value, choices) if isinstance(value, str) else ""
    return close if "mean" in close else ""


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return f"a{'n empty' if not value else ''} {'mapping' if isinstance(value, dict) else 'list'}"
    text = "nothing" if value is None else hide_secrets(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 3] + "…"


def _where(path: Path_) -> str:
    return ".".join(map(str, path)) if path else "the spec"
