"""The JSON Schemas of what the commands print with `--json`, from `output.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ci_compiler.plan.document import AXES, plan_schema


@cache
def output_schemas() -> Mapping[str, Any]:
    """The schema (draft 2020-12) of each command, by its words (`ci-compile variants`)."""
    declared = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    rows = plan_schema()["$defs"]
    cell = rows["cell"]["properties"]
    parts = {"axes": {key: cell[key] for key in AXES}, "variant": rows["variant"]["properties"]}
    used = {"left-out": rows["left-out"]}
    definitions = used | {name: _closed(rule, parts) for name, rule in declared["defs"].items()}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return {
        name: head | {"title": name} | _closed(rule, parts) | {"$defs": _needed(rule, definitions)}
        for name, rule in declared["commands"].items()
    }


def _closed(rule: Mapping[str, Any], parts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """`rule` with the keys of its `also` and, for an object, what holds for its other keys."""
    own = {key: value for key, value in rule.items() if key not in {"also", "optional", "open"}}
    properties = {key: value for name in rule.get("also", ()) for key, value in parts[name].items()}
    properties |= rule.get("properties", {})
    if not properties:
        return own
    required = [key for key in properties if key not in rule.get("optional", ())]
    closed = {"type": "object", "additionalProperties": rule.get("open", False), "required": required}
    return own | closed | {"properties": properties}


def _needed(rule: object, definitions: Mapping[str, Any]) -> dict[str, Any]:
    """The definitions that `rule` refers to, and those that these refer to."""
    found: dict[str, Any] = {}
    waiting = [rule]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            name = str(one.get("$ref", "")).removeprefix("#/$defs/")
            if name and name not in found:
                found[name] = definitions[name]
                waiting.append(definitions[name])
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return dict(sorted(found.items()))
