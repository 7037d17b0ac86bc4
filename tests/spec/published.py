"""What the published schema says of the classes that a module declares, compared with their declarations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ci_compiler.spec
from ci_compiler.spec.declare import form_of
from ci_compiler.spec.schema import schema_of

FILE = Path(ci_compiler.spec.__file__).with_name("schema.json")


def assert_published(*classes: Any) -> None:
    """Asserts that `schema.json`, which editors read, has each key of `classes` as it is declared."""
    known = json.loads(FILE.read_text("utf-8"))["$defs"]
    for cls in classes:
        declared = schema_of(cls)
        parts = {**declared["$defs"], form_of(cls).name: {key: declared[key] for key in declared if key[0] != "$"}}
        for name, part in parts.items():
            assert known.get(name) == part, name
