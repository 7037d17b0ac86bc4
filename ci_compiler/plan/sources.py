"""The files that builds read besides their recipes: as path filters of GitHub and as a test of paths."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ci_compiler.files.folders import FUNCTIONS
from ci_compiler.hardware import CPU
from ci_compiler.plan.job_graph import built_after
from ci_compiler.plan.matrix import Cell, Variant
from ci_compiler.spec.model import Package, RecipeKind, Spec
from ci_compiler.variant import SHARED, python_tag

_WORDS = re.compile(r"((?<![^/])\*\*/|\*\*|\*)")
_GLOBS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}
"""Regular expressions of GitHub's patterns (workflow syntax, filter pattern cheat sheet)."""


def locks_of(spec: Spec, cell: Cell, variant: Variant) -> tuple[str, ...]:
    """The backend's lock files, if `variant` is built from what they say: its recipe is an own one, and has no pin."""
    own = spec.packages[variant.package].kind_of(variant.name) is RecipeKind.OWN
    return spec.backend.locks if own and not spec.branches[cell.branch].pin(cell.toolkit).nixpkgs else ()


def shared_stem(cell: Cell, package: str) -> str:
    """The start of the paths of what the compiled recipes of `package` in cells like `cell` share."""
    accelerator = CPU if cell.target == CPU else f"{cell.family}{cell.toolkit.replace('.', '_')}"
    return f"{SHARED}/{'-'.join(filter(None, (package, cell.python and python_tag(cell.python), accelerator)))}"


def shared_patterns(spec: Spec, cell: Cell, variant: Variant) -> tuple[str, ...]:
    """The path filters of what the recipe of `variant` shares with others; () if it is not a thin one."""
    package = spec.packages[variant.package]
    thin = package.kind_of(variant.name) is RecipeKind.COMPILED and not package.self_contained
    return (f"{shared_stem(cell, package.name)}*.nix", f"{SHARED}/{FUNCTIONS}/*.nix") if thin else ()


def path_filters(spec: Spec, packages: Iterable[str]) -> list[str]:
    """The path filters that match what builds of `packages` read: their sources, and the spec."""
    found: dict[str, None] = {}
    for name in packages:
        found |= dict.fromkeys(_filters(spec.packages[name]))
    return [*found, spec.document.file]


def _filters(package: Package) -> list[str]:
    if package.command is None:
        return []
    if not package.command.sources:
        return ["**", "!.github/**"]
    return [pattern for one in (*package.command.sources, package.command.build) for pattern in (one, f"{one}/**")]


def rebuilt_packages(spec: Spec, changed: Iterable[str]) -> dict[str, str]:
    """The packages whose build reads one of the `changed` paths, or needs such a package, with the first path."""
    paths = sorted(changed)
    own = {name: _first(package, paths) for name, package in spec.packages.items()}
    return {
        name: why
        for name in spec.packages
        if (why := next(filter(None, (own[one] for one in (name, *built_after(spec, name)))), ""))
    }


def _first(package: Package, paths: Iterable[str]) -> str:
    return next(read_by(package, paths), "")


def read_by(package: Package, paths: Iterable[str]) -> Iterator[str]:
    """Those of `paths` that the package's filters match; the last filter that matches decides, as on GitHub."""
    rules = [(not one.startswith("!"), _expression(one.removeprefix("!"))) for one in _filters(package)]

    def read(path: str) -> bool:
        return next((wanted for wanted, rule in reversed(rules) if rule.fullmatch(path)), False)

    return filter(read, paths)


def _expression(pattern: str) -> re.Pattern[str]:
    parts = _WORDS.split(pattern)
    return re.compile("".join(_GLOBS.get(part, re.escape(part)) for part in parts))
