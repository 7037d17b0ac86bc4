"""The short forms of the matrix: keys named after CUDA, and lists for `isas` and `gpus`, which become mappings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any

from ci_compiler.errors import Place
from ci_compiler.hardware import tables
from ci_compiler.spec.declare import form
from ci_compiler.spec.load import Document, Path_

TOOLKITS = "cuda"
"""The key of a branch with its toolkits, and the placeholder of the toolkit."""

TOOLKIT_TAG = "cuda-tag"
"""The placeholder of the toolkit in names."""

TOOLKIT_PACKAGES = "cuda-packages"
"""The placeholder of the toolkit's package set in nixpkgs."""

ToolkitVersion = Annotated[
    str, form("cuda-version", title='a CUDA toolkit\'s version in quotes ("12.8")', pattern=r"^[0-9]{1,2}\.[0-9]{1,2}$")
]


def spelled_out(document: Document) -> Document:
    """`document` with a mapping for each list of names; the place of each name stays. Wrong values stay as they are."""
    for path, matrix in matrices(document.value):
        for key, entries in (("isas", _isas), ("gpus", _gpus)):
            names = matrix.get(key)
            if isinstance(names, list) and names and all(isinstance(name, str) for name in names):
                document = _with(document, (*path, key), *entries(document, (*path, key), names))
    return document


def matrices(value: Any) -> Iterator[tuple[Path_, Mapping[str, Any]]]:
    """Each matrix of a document, with its path."""
    owners: list[tuple[Path_, Any]] = [((), value)]
    if isinstance(value, dict) and isinstance(value.get("packages"), dict):
        owners += [(("packages", name), package) for name, package in value["packages"].items()]
    for path, owner in owners:
        if isinstance(owner, dict) and isinstance(owner.get("matrix"), dict):
            yield (*path, "matrix"), owner["matrix"]


def _gpus(document: Document, path: Path_, names: list[str]) -> tuple[dict[str, Any], dict[Path_, Place]]:
    """The mapping of GPUs, and the places of its keys."""
    places = {(*path, name): document.values[*path, at] for at, name in reversed(list(enumerate(names)))}
    return dict.fromkeys(names), places


def _isas(document: Document, path: Path_, names: list[str]) -> tuple[dict[str, Any], dict[Path_, Place]]:
    """The mapping of ISAs by system, and the places of its items; an unknown ISA goes to the first system."""
    own = document.value.get("hardware")
    rows = own.get("isas") if isinstance(own, dict) else None
    found: dict[str, list[str]] = {}
    places: dict[Path_, Place] = {}
    for at, name in enumerate(names):
        row = rows.get(name) if isinstance(rows, dict) else None
        known = tables().isas.get(name)
        system = row["system"] if isinstance(row, dict) and "system" in row else known.system if known else ""
        isas = found.setdefault(system or next(iter(found), "x86_64-linux"), [])
        places[(*path, system or next(iter(found)), len(isas))] = document.values[*path, at]
        isas.append(name)
    return found, places


def _with(document: Document, path: Path_, entries: dict[str, Any], places: Mapping[Path_, Place]) -> Document:
    """`document` with the mapping `entries` at `path`."""
    return replace(
        document,
        value=put(document.value, path, entries),
        values={**document.values, **places},
        keys={**document.keys, **{one: place for one, place in places.items() if len(one) == len(path) + 1}},
    )


def put(value: Any, path: Path_, entries: dict[str, Any]) -> Any:
    """`value` with the mapping `entries` at `path`."""
    if not path:
        return entries
    return {**value, path[0]: put(value[path[0]], path[1:], entries)}
