"""What compiled recipes override: the presets, and how a package's own keys add to them.

Every preset builds on the preset `package`, and has values for all families (`presets.json`) and for each. Values may
differ between GPU and CPU builds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_compiler.hardware.families import DEFAULT, NONE, facts, files_of
from ci_compiler.spec.placeholders import OF_A_GPU, OF_AN_ARCHITECTURE, mentioned

if TYPE_CHECKING:
    from ci_compiler.spec.packages import Package

BASE = "package"
"""The preset that all others build on, and that a package without another has."""

BUILDS = ("gpu", "cpu")
"""The kinds of builds between which values may differ."""

_TABLES = ("arguments", "environment", "inputs", "attributes", "passthru")
_LISTS = ("cmake-flags", "build-flags")


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """What a recipe overrides in one kind of build. Texts may contain placeholders.

    `capability` is the comment on the capability, `architecture` whether the recipe names its GPU architecture,
    `source_overlay` whether an overlay replaces the source, `from_environment` whether its build hands variables of the
    environment to CMake. `machine_code`: its libraries have code for its architectures "only", or "also" that of the
    static libraries in them; '' if nothing is known.
    """

    arguments: Mapping[str, Any]
    environment: Mapping[str, Any]
    inputs: Mapping[str, tuple[str, ...]]
    attributes: Mapping[str, Any]
    passthru: Mapping[str, Any]
    cmake_flags: tuple[str, ...]
    build_flags: tuple[str, ...]
    capability: str
    architecture: bool
    source_overlay: bool
    from_environment: bool
    machine_code: str


def by_build(value: Any) -> Mapping[str, Any]:
    """A table or a list for each kind of build; its sub-tables `gpu` and `cpu` are for one kind alone.

    A CPU build leaves out the entries that name the toolkit or the GPU.
    """
    if isinstance(value, Mapping):
        own = {kind: value[kind] for kind in BUILDS if isinstance(value.get(kind), dict | list)}
        rest = {name: item for name, item in value.items() if name not in own}
        if any(isinstance(item, list) for item in own.values()):
            return {kind: tuple(own.get(kind, ())) for kind in BUILDS}
        common = {"gpu": rest, "cpu": {name: item for name, item in rest.items() if not mentioned(item) & OF_A_GPU}}
        return {kind: {**common[kind], **own.get(kind, {})} for kind in BUILDS}
    return {"gpu": tuple(value), "cpu": tuple(item for item in value if not mentioned(item) & OF_A_GPU)}


@cache
def presets(family: str = DEFAULT) -> Mapping[str, Mapping[str, Any]]:
    """The presets for builds of `family` by name, with their tables by kind of build; CPUs have the default's."""
    common = json.loads(Path(__file__).with_name("presets.json").read_bytes())["presets"]
    rows = {one: facts(one, "presets")["presets"] for one in files_of("presets.json")}
    own = rows.get(family, rows[DEFAULT])
    tables = {*_TABLES, *_LISTS}
    return {
        name: {
            key: by_build(value) if key in tables else value
            for key, value in {**common.get(name, {}), **own.get(name, {})}.items()
        }
        for name in dict.fromkeys(name for table in (common, *rows.values()) for name in table)
    }


def preset_of(name: str, attribute: str) -> str:
    """The preset called `name`, or, without a name, the one of `attribute`."""
    return name or (attribute if attribute in presets() else BASE)


def handed_on(package: Package) -> str:
    """The output of `package` that a package which needs it propagates beside the one that nixpkgs takes; or ''."""
    output: str = presets()[package.preset].get("hands-on", "")
    return output


def overrides_of(package: Package) -> dict[str, Override]:
    """What the compiled recipes of `package` override, by the family of a build."""
    return {family: override_of(package, family) for family in (NONE, *files_of("presets.json"))}


def override_in(package: Package, family: str) -> Override:
    """What they override in builds of `family`; as for the default where nixpkgs' arguments for it are not known."""
    return package.overrides.get(family) or package.overrides[DEFAULT]


def override_of(package: Package, family: str) -> Override:
    """What they override in builds of `family`: the presets' values, then its own."""
    kind = "cpu" if family == NONE else "gpu"
    base, preset = presets(family)[BASE], presets(family)[package.preset]
    own = {key: getattr(package, key.replace("-", "_"), {}) for key in (*_TABLES, *_LISTS)}
    layers = [base, own] if preset is base else [base, preset, own]

    def table(key: str) -> Mapping[str, Any]:
        return {name: value for layer in layers for name, value in layer.get(key, {}).get(kind, {}).items()}

    def listed(key: str) -> tuple[str, ...]:
        return tuple(item for layer in layers for item in layer.get(key, {}).get(kind, ()))

    tables, lists = {key: table(key) for key in _TABLES}, {key: listed(key) for key in _LISTS}
    values = [tables["arguments"], tables["environment"], tables["attributes"], *lists.values()]
    return Override(
        **tables,
        cmake_flags=lists["cmake-flags"],
        build_flags=lists["build-flags"],
        capability=preset.get("capability", base.get("capability", "")),
        architecture=preset.get("architecture", False) or any(mentioned(one) & OF_AN_ARCHITECTURE for one in values),
        source_overlay=preset.get("source") == "overlay",
        from_environment=preset.get("from-environment", False),
        machine_code=preset.get("machine-code", ""),
    )
