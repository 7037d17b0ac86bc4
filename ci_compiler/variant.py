"""The grammar of a variant's name, made and parsed here alone, and the path of its recipe.

    {package}-{python}-cuda{major}_{minor}-{gpu}-{isa}    flash-attn-python313-cuda12_8-sm90-avx2
    {package}-{python}-cpu-{isa}                          pytorch-python313-cpu-avx2

What follows the package is the *suffix*, which all variants of a cell share. In names of this form only the package may
contain a dash, so that a name is parsed from its end. Names with other axes are made by a `Grammar` as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from ci_compiler.files import folders
from ci_compiler.hardware import BASELINE, CPU, Hardware
from ci_compiler.hardware.families import DEFAULT, family_of, spelled

RECIPES, SHARED = folders.RECIPES, folders.SHARED
"""The folders of the recipes and of what they share, from the root of the repository."""

ATTRIBUTE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
"""One step of a Flox attribute path without quotes: a Nix identifier (Nix manual, lexical structure)."""

EXAMPLE = f"PACKAGE-python313-{DEFAULT}12_8-{family_of(DEFAULT).example}-avx2"

_SEED = "-compiler-seed"

# An ISA may contain a dot, so that a message can say how to spell `armv8.2`.
_NAME = re.compile(
    r"(?P<package>[A-Za-z0-9_][A-Za-z0-9_-]*)-python(?P<major>[0-9])(?P<minor>[0-9]+)"
    rf"-(?:cpu|{DEFAULT}(?P<toolkit>[0-9]+_[0-9]+)-(?P<gpu>(?!cpu(?:-|$))[A-Za-z0-9_]+))(?:-(?P<isa>[A-Za-z0-9_.]+))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantName:
    """The parts of a variant's name: `python` as `3.13`, `toolkit` as `12.8` ('' for a CPU variant).

    A name without an ISA is that of a `baseline` build.
    """

    package: str
    python: str
    toolkit: str
    target: str
    isa: str

    def __str__(self) -> str:
        return variant_name(self.package, self.suffix)

    @property
    def suffix(self) -> str:
        """What follows the package."""
        return cell_suffix(python=self.python, toolkit=self.toolkit, target=self.target, isa=self.isa)

    @classmethod
    def parse(cls, text: str) -> VariantName | None:
        """The parts of `text`; None if it is not a variant's name. Whether the parts exist is not checked."""
        match = _NAME.fullmatch(text)
        if match is None:
            return None
        return cls(
            package=match["package"],
            python=f"{match['major']}.{match['minor']}",
            toolkit=(match["toolkit"] or "").replace("_", "."),
            target=match["gpu"] or CPU,
            isa=match["isa"] or BASELINE,
        )

    def spelled(self, hardware: Hardware) -> VariantName:
        """The same variant, with the ISA spelled as in the tables (`armv8_2` for `armv8.2`)."""
        return replace(self, isa=hardware.aliases.get(self.isa, self.isa))


def variant_name(package: str, suffix: str) -> str:
    """The name of the variant of `package` in the cell with `suffix`."""
    return f"{package}-{suffix}"


def package_of(name: str, suffix: str) -> str:
    """The package of the variant `name` in the cell with `suffix`; '' if `name` is not of that cell."""
    package = name.removesuffix(f"-{suffix}")
    return "" if package == name else package


@lru_cache(maxsize=65536)
def cell_suffix(*, python: str, toolkit: str, target: str, isa: str) -> str:
    """What the names of a cell's variants share after the package."""
    accelerator = [target] if target == CPU else [toolkit_tag(toolkit), target]
    return "-".join([python_tag(python), *accelerator, *([] if isa == BASELINE else [isa])])


def python_tag(python: str) -> str:
    """`3.13` as names spell it, and nixpkgs: `python313`. What is not a version keeps its name: `abi3`, `pypy3_11`."""
    return python.replace(".", "_") if python[:1].isalpha() else f"python{python.replace('.', '')}"


def toolkit_tag(toolkit: str) -> str:
    """`12.8` as names spell it, with its family."""
    return f"{DEFAULT}{toolkit.replace('.', '_')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """How names spell the values of a cell.

    `parts` are texts with axes in braces, which names join by dashes; a part without any of its axes is left out.
    `tags` has the spelling of an axis, or of a family's toolkit: a text with `{value}`, `{under}` (underscores for
    dots) or `{digits}` (no dots).
    """

    parts: tuple[str, ...]
    tags: Mapping[str, str]

    def suffix(self, values: Mapping[str, str]) -> str:
        """What follows the package in the names of the cell with `values`."""
        made = []
        for part in self.parts:
            tags = [self._tag(axis, values) for axis in _BRACES.findall(part)]
            if all(tags):
                every = iter(tags)
                made.append(_BRACES.sub(lambda _, every=every: next(every), part))  # type: ignore[misc]
        return "-".join(made)

    def spellings(self, values: Mapping[str, str]) -> dict[str, str]:
        """How names spell the values of a cell, by axis; without those that they leave out."""
        return {axis: tag for axis in self.axes if (tag := self._tag(axis, values))}

    @property
    def axes(self) -> list[str]:
        """The axes of names, in their order."""
        return [axis for part in self.parts for axis in _BRACES.findall(part)]

    def _tag(self, axis: str, values: Mapping[str, str]) -> str:
        if axis == "accelerator":
            return self._accelerator(values)
        value = values.get(axis, "")
        if not value or value == BASELINE:
            return ""
        if axis in self.tags:
            return spelled(self.tags[axis], value)
        if axis in {"isa", "platform"}:
            return value
        return python_tag(value) if axis == "python" else spelled(f"{axis}{{under}}", value)

    def _accelerator(self, values: Mapping[str, str]) -> str:
        family, toolkit, target = (values.get(part, "") for part in ("family", "toolkit", "target"))
        tag = self.tags.get(family)
        if tag and not toolkit and "{" in tag:
            tag = None
        apart = "_" if toolkit and family[-1:].isdigit() else ""
        first = spelled(tag or f"{family}{apart}{{under}}", toolkit)
        return "-".join(filter(None, (first, _FEATURE.sub(_feature, target).replace(",", "_"))))


_BRACES = re.compile(r"\{([a-z][a-z0-9_-]*)\}")
_FEATURE = re.compile(r":(\w+)([+-])")
"""A feature in a target: `:xnack-`."""


def _feature(match: re.Match[str]) -> str:
    return f"_{match[1]}_{'on' if match[2] == '+' else 'off'}"


def seed_name(name: str) -> str:
    """The `pname` of the compiler seed that is made from the recipe of the variant `name`."""
    return f"{name}{_SEED}"


def is_seed(name: str) -> bool:
    """Whether a store path's name, without the hash, is that of a compiler seed or of its derivation."""
    return f"{_SEED}-" in name


def recipe_path(name: str) -> str:
    """The path of the recipe of the variant `name`, from the root of the repository."""
    return f"{RECIPES}/{name}.nix"


def recipe_paths(name: str) -> tuple[str, str]:
    """The paths at which Flox looks for the recipe of the variant `name`: a file, and a folder's."""
    return recipe_path(name), f"{RECIPES}/{name}/default.nix"


def recipe_names(paths: Iterable[str]) -> list[str]:
    """The variants whose recipes are among `paths`, which may have other files."""
    return [name for path in paths if path.endswith(".nix") and (name := recipe_name(path))]


def recipe_name(path: str) -> str:
    """The variant whose recipe is at `path`: `NAME.nix` or `NAME/default.nix` (Flox); '' if it is not a recipe."""
    inner = path.removeprefix(f"{RECIPES}/").removesuffix("/default.nix").removesuffix(".nix")
    return "" if "/" in inner else inner
