"""GitHub's own description of its API (npm `@octokit/openapi`): valid requests and responses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from jsonschema import Draft4Validator
from jsonschema.validators import extend
from referencing import Registry
from referencing.jsonschema import DRAFT4

from tests.checkers.node import PACKAGES
from tests.checkers.tools import unavailable

FILE = PACKAGES / "@octokit" / "openapi" / "generated" / "api.github.com.json"

ERRORS = (401, 403, 404, 409, 422, 429, 500, 502, 503)
"""Statuses that any operation may return, even if its description does not list them."""

_ERROR = "#/components/schemas/basic-error"
_URI = "urn:github"
Json = dict[str, Any]


def _nullable(judge: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """Translates OpenAPI 3.0's `nullable`, which JSON Schema does not have."""

    def judge_unless_null(validator: Any, value: Any, instance: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
        if instance is None and schema.get("nullable"):
            return
        yield from judge(validator, value, instance, schema) or ()

    return judge_unless_null


_Validator = extend(Draft4Validator, {name: _nullable(judge) for name, judge in Draft4Validator.VALIDATORS.items()})


@dataclass(frozen=True)
class Operation:
    """An operation: the template of its path, the method, the parameters in the path."""

    template: str
    method: str
    arguments: Mapping[str, str]


class Description:
    """The description, read once."""

    def __init__(self, content: Json) -> None:
        self._content = content
        self._registry = Registry().with_resource(_URI, DRAFT4.create_resource(content))
        self._validators: dict[str, Any] = {}

    @cached_property
    def _templates(self) -> list[tuple[re.Pattern[str], str]]:
        """The paths, those with the fewest parameters first: `…/generate-jitconfig` before `…/{runner_id}`."""
        templates = sorted(self._content["paths"], key=lambda path: (path.count("{"), path))
        forms = (re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(path)) for path in templates)
        whole = (form.replace("(?P<ref>[^/]+)", "(?P<ref>.+)") for form in forms)  # a ref has slashes of its own
        return [(re.compile(form), path) for form, path in zip(whole, templates, strict=True)]

    def operation(self, method: str, path: str) -> Operation | None:
        """The operation of a request."""
        for pattern, template in self._templates:
            found = pattern.fullmatch(path)
            if found and method.lower() in self._content["paths"][template]:
                return Operation(template=template, method=method.lower(), arguments=found.groupdict())
        return None

    def example(self, name: str) -> Json:
        """A copy of an example in the description."""
        return json.loads(json.dumps(self._content["components"]["examples"][name]["value"]))

    def request_problems(self, asked: Operation, query: Mapping[str, list[str]], body: Any) -> Iterator[str]:
        """The errors of a request: unknown parameters and keys, values of the wrong type."""
        known = {rule["name"]: (rule, at) for rule, at in self._parameters(asked) if rule["in"] == "query"}
        for name, values in query.items():
            if name not in known:
                yield f"{asked.template}: unknown parameter {name}"
                continue
            rule, at = known[name]
            kind = rule["schema"].get("type")
            value = json.loads(values[0]) if kind in {"integer", "boolean"} else values[0]
            yield from self._problems(f"{at}/schema", value, f"{asked.template}?{name}")
        yield from self._body_problems(asked, body)

    def _body_problems(self, asked: Operation, body: Any) -> Iterator[str]:
        rule = self._at(asked).get("requestBody")
        if rule is None:
            if body is not None:
                yield f"{asked.template}: {asked.method} takes no body"
            return
        if isinstance(body, bytes):
            if "application/octet-stream" not in rule["content"]:
                yield f"{asked.template} takes no file"
            return
        at = f"{_pointer(asked)}/requestBody/content/application~1json/schema"
        yield from self._problems(at, body, f"body of {asked.template}")
        if isinstance(body, dict):
            schema = rule["content"]["application/json"]["schema"]
            allowed = (self._find(schema["$ref"]) if "$ref" in schema else schema).get("properties", {})
            yield from (f"body of {asked.template}: unknown key {key}" for key in body if key not in allowed)

    def answer_problems(self, asked: Operation, status: int, body: Any) -> Iterator[str]:
        """The errors of a response: an undocumented status, a body that does not match the schema."""
        listed = self._at(asked)["responses"].get(str(status))
        if listed is None and status not in ERRORS:
            yield f"{asked.template}: {asked.method} never answers {status}"
            return
        at = self._schema_of_answer(asked, status, listed)
        if at:
            yield from self._problems(at, body, f"answer {status} of {asked.template}")
        elif body is not None:
            yield f"{asked.template}: an answer {status} has no body"

    def _schema_of_answer(self, asked: Operation, status: int, listed: Json | None) -> str:
        if listed is None:
            return _ERROR
        at = listed.get("$ref") or f"{_pointer(asked)}/responses/{status}"
        content = (self._find(at) if "$ref" in listed else listed).get("content")
        return f"{at}/content/application~1json/schema" if content else ""

    def _parameters(self, asked: Operation) -> Iterator[tuple[Json, str]]:
        for index, rule in enumerate(self._at(asked).get("parameters", ())):
            at = rule.get("$ref") or f"{_pointer(asked)}/parameters/{index}"
            yield (self._find(at), at)

    def _problems(self, at: str, value: Any, what: str) -> Iterator[str]:
        if at not in self._validators:
            self._validators[at] = _Validator({"$ref": _URI + at}, registry=self._registry)
        for error in self._validators[at].iter_errors(value):
            yield f"{what}: {'/'.join(map(str, error.absolute_path))}: {error.message[:300]}"

    def _at(self, asked: Operation) -> Json:
        return self._content["paths"][asked.template][asked.method]

    def _find(self, pointer: str) -> Json:
        found = self._content
        for part in pointer.removeprefix("#/").split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            found = found[int(key)] if isinstance(found, list) else found[key]
        return found


def _pointer(asked: Operation) -> str:
    return f"#/paths/{asked.template.replace('~', '~0').replace('/', '~1')}/{asked.method}"


@cache
def description() -> Description:
    """GitHub's description; if the package is missing, skips the test or fails."""
    if not FILE.is_file():
        unavailable("GitHub's description of its API is not installed: (cd tests/checkers && npm ci)")
    return Description(json.loads(FILE.read_bytes()))
