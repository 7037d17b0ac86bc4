"""Names in what the spec says of recipes: presets, placeholders, templates, patterns and work-arounds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, nearest
from ci_compiler.spec.load import Path_
from ci_compiler.spec.model import Package, RecipeKind, Spec
from ci_compiler.spec.placeholders import unknown
from ci_compiler.spec.presets import presets
from ci_compiler.spec.work_arounds import work_arounds

_WITH_PLACEHOLDERS = ("arguments", "environment", "cmake-flags", "build-flags", "inputs", "attributes")


def recipe_findings(spec: Spec) -> Iterator[Finding]:
    """An error for each name that nothing declares."""
    for package in spec.packages.values():
        yield from _check_package(spec, package)
    for name, one in spec.work_arounds.items():
        path: Path_ = ("work-arounds", name)
        if name in work_arounds():
            message = f"there is a bundled work-around called {name!r}; give this one another name"
            yield spec.finding(path, Code.DUPLICATE_NAME, message, key=True)
        for index, package_name in enumerate(one.packages):
            if package_name not in spec.packages:
                message = f"unknown package {package_name!r}{nearest(package_name, spec.packages)}"
                yield spec.finding((*path, "packages", index), Code.UNKNOWN_PACKAGE, message)
        yield from _check_texts(spec, path, _written(spec, path))


def _check_package(spec: Spec, package: Package) -> Iterator[Finding]:
    path: Path_ = ("packages", package.name)
    if package.preset not in presets():
        message = f"unknown preset {package.preset!r}{nearest(package.preset, presets())}"
        yield spec.finding((*path, "preset"), Code.UNKNOWN_PRESET, message)
    for pattern, kind in package.recipes:
        if kind is RecipeKind.TEMPLATE and not package.template:
            by_pattern = (*path, "recipes", pattern)
            message = f"recipes of {package.name} come from a template, and `template` names none"
            yield spec.finding(by_pattern, Code.TEMPLATE_MISSING, message)
    for key in _WITH_PLACEHOLDERS:
        yield from _check_texts(spec, (*path, key), _written(spec, (*path, key)))


def _written(spec: Spec, path: Path_) -> object:
    """The value at `path` in the document; None if there is none."""
    value = spec.document.value
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _check_texts(spec: Spec, path: Path_, value: object) -> Iterator[Finding]:
    """An error for each unknown placeholder, and each number that Nix has not, in the JSON `value` at `path`."""
    if isinstance(value, str):
        for _, message in unknown(value):
            yield spec.finding(path, Code.UNKNOWN_PLACEHOLDER, message)
    elif isinstance(value, float) and not math.isfinite(value):
        yield spec.finding(path, Code.WRONG_VALUE, f"{spec.document.typed[path]} is no number in Nix")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _check_texts(spec, (*path, key), item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _check_texts(spec, (*path, index), item)
