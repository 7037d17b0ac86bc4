"""A new branch in the spec, made from an existing one: its entry, and every list and table that names the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ci_compiler.codes import Code
from ci_compiler.errors import nearest, wrong
from ci_compiler.spec.build import parse_spec
from ci_compiler.spec.load import Path_
from ci_compiler.spec.model import Spec
from ci_compiler.update.editing import Edit, edited, repeated

_LISTS = "branches"
"""The key of the lists of branches, wherever they are."""

_TABLES = {"also", "branches", "hash", "rev"}
"""The keys of tables by branch, outside the section `branches` itself."""


def with_branch(text: str, spec: Spec, source: str, name: str) -> str:
    """`text` of `spec` with the branch `name`, which has all that `source` has. Raises InputError."""
    if source not in spec.branches:
        message = f"unknown branch {source!r}{nearest(source, spec.branches)}"
        raise wrong("--branch", Code.UNKNOWN_BRANCH, message)
    if name in spec.branches:
        raise wrong("--new-branch", Code.DUPLICATE_NAME, f"the spec has the branch {name!r} already")
    shown = spec.document.file
    made = repeated(text, ("branches", source), name)
    made = edited(made, _references((), spec.document.value, source, name), shown=shown)
    parse_spec(made.encode(), shown=shown)
    return made


def _references(path: Path_, value: Any, source: str, name: str) -> Iterator[Edit]:
    """An edit for each list that has `source`, and each table that has a row for it, outside `branches` itself."""
    if isinstance(value, list) and path and path[-1] == _LISTS and source in value:
        yield Edit(path, [*value, name])
    if isinstance(value, dict):
        if path and path != ("branches",) and path[-1] in _TABLES and source in value:
            yield Edit((*path, name), value[source])
        for key, item in value.items():
            if path or key != "branches":
                yield from _references((*path, key), item, source, name)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _references((*path, index), item, source, name)
