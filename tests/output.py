"""What a command prints with `--json`, compared with its schema in the reference."""

from __future__ import annotations

import json
from typing import Any

from jsonschema import Draft202012Validator

from ci_compiler.documents.output import output_schemas


def checked(command: str, text: str) -> Any:
    """The value that `command` (`ci-compile variants`) printed, which must be as its schema says."""
    value = json.loads(text)
    schema = output_schemas()[command]
    Draft202012Validator.check_schema(schema)
    assert [error.message for error in Draft202012Validator(schema).iter_errors(value)] == []
    return value
