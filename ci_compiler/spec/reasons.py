"""Why plausible values and keys of a spec are wrong: the tables `reasons.toml`, read only for a wrong spec."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from ci_compiler.errors import nearest
from ci_compiler.spec.load import Path_

_LONGEST = 100
"""The most characters of a value that a message repeats as what is right."""

TABLES = ("reasons.toml", "shorthand/reasons.toml")


@cache
def _table() -> dict[str, list[dict[str, Any]]]:
    tables = [tomllib.loads((Path(__file__).parent / name).read_text("utf-8")) for name in TABLES]
    return {kind: [row for table in tables for row in table.get(kind, ())] for kind in tables[0]}


def reason(path: Path_, value: str, kind: object = "") -> str:
    """What is wrong with the value at `path`, which is JSON or `a list`, as the end of a sentence; '' if unknown.

    `kind` is the type, or types, that the value must have in JSON Schema.
    """
    for row in _table()["value"]:
        match = re.search(row["value"], value)
        if match and any(_ends(path, at.split(".")) for at in row["at"].split("|")) and row.get("kind", kind) == kind:
            groups = match.groupdict("")
            if max(map(len, groups.values()), default=0) <= _LONGEST:
                text: str = row["text"]
                return text.format(at=path, **groups)
    return ""


def reason_for_name(path: Path_, name: str) -> str:
    """As `reason`, for a name that nothing declares, as a whole sentence."""
    found = reason(path, json.dumps(name))
    return f"{name!r} {found}" if found else ""


def key_hint(key: str, known: Iterable[str], *, anywhere: bool = True) -> str:
    """The clause about a key that people expect, and the spec calls otherwise or no longer has; '' if there is none.

    Without `anywhere`, only the rows count that are about what stands beside one of `known`.
    """
    for row in _table()["key"]:
        beside = row.get("right") or row.get("beside")
        if key.lower() in row["key"].split("|") and (anywhere if beside is None else beside in known):
            return f"; {row['text'].format(key=key)}" if "text" in row else f"; did you mean {row['right']}?"
    return ""


def meant(name: str, known: Collection[str]) -> str:
    """The clause about the name of an axis or a value that is not `known`: what it is called here, or the nearest."""
    return key_hint(name, known, anywhere=False) or nearest(name, known)


def _ends(path: Path_, pattern: list[str]) -> bool:
    """Whether the last steps of `path` match `pattern`, where `*` stands for any one, and '' for the spec itself."""
    last = ("", *path)[-len(pattern) :] if path else ()
    return len(last) == len(pattern) and all(word in {"*", str(step)} for word, step in zip(pattern, last, strict=True))
