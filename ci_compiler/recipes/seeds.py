"""Compiler seeds: host code that is compiled once and kept for the variants of all GPUs.

The first GPU's variant of a branch, Python, toolkit and ISA is built up to its installation with ccache. What ccache
kept is the output of a derivation, the seed. Every variant of the group, the first one included, takes it as an input,
looks into it while it compiles, and adds nothing to it. Files for GPUs never go through it: where ccache stands in
front of their compiler, it reads neither NIX_CFLAGS_COMPILE nor that compiler's own variable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import PurePosixPath

from ci_compiler.hardware import CPU
from ci_compiler.plan.matrix import Cell
from ci_compiler.recipes import nix_text as nix
from ci_compiler.recipes.capabilities import sets_capabilities
from ci_compiler.recipes.proof import functions
from ci_compiler.recipes.subject import Subject
from ci_compiler.spec.model import RecipeKind, Spec
from ci_compiler.variant import recipe_path, seed_name

_SEED, _FOR_SEED = "compilerSeed", "forSeed"
"""The names that a recipe gives to the derivation of the seed, and to its own argument."""

_FIRST, _NAME = "seedFrom", "seedName"
"""The names that recipes give to the build that a seed is made from, and to the seed's `pname`."""

_CCACHE = "${pkgs.ccache}/bin/ccache"

_FOUND = re.compile(r"ci-compiler: the compiler seed had (\d{1,9}) of (\d{1,9}) host objects")
"""What `compiler_seed_found` prints."""


def seeder_of(spec: Spec, cells: Iterable[Cell], cell: Cell, package: str) -> Cell | None:
    """The first of `cells` whose variant of `package` compiles the same host code as that of `cell`.

    None if no other one does. Variants whose recipes set the capabilities of all packages take no part: the libraries
    that they include are others.
    """
    if not _takes_part(spec, cell, package):
        return None
    same = (other for other in cells if _group(other) == _group(cell) and _takes_part(spec, other, package))
    first = list(islice(same, 2))
    return first[0] if len(first) == 2 else None


def _takes_part(spec: Spec, cell: Cell, name: str) -> bool:
    package = spec.packages[name]
    return (
        package.compiler_seed
        and cell.target != CPU
        and any(
            variant.package == name and package.kind_of(variant.name) is RecipeKind.COMPILED
            for variant in cell.variants
        )
        and not sets_capabilities(spec, package, cell)
    )


def _group(cell: Cell) -> tuple[str, ...]:
    return cell.branch, cell.python, cell.toolkit, cell.isa


def head(subject: Subject) -> str:
    """The arguments of a recipe. That of a variant that others take from has one: whether it is built for the seed."""
    return f"{{ {_FOR_SEED} ? false, ... }}:" if _is_first(subject) else "{ ... }:"


def bindings(subject: Subject) -> Iterator[str]:
    """The derivation of the seed, in the `let` of a recipe that takes it."""
    if not subject.seeded_by:
        return
    values = {
        "pname": _NAME if subject.is_shared else nix.string(seed_name(subject.seeded_by)),
        "outputs": nix.words(["out"]),
        "preConfigure": f"old.preConfigure + {nix.lines([f'compiler_seed {_CCACHE}'])}",
        "doCheck": "false",
        "installPhase": nix.lines([*functions(subject, "compiler-seed-kept"), "compiler_seed_kept"]),
        "allowedReferences": "[ ]",
    }
    whose = "one variant" if subject.is_shared else subject.seeded_by
    why = nix.comment(f"The host code of {whose}, which is the same for every GPU, as ccache kept it.")
    entries = (f"{key} = {value};" for key, value in values.items())
    first = f"{_SEED} = {_FIRST if subject.is_shared else f'({_first(subject)})'}.overrideAttrs (old: {{"
    yield nix.block(f"{why}\n{first}", entries, "});")


def parameters(subject: Subject) -> dict[str, str]:
    """The default values of the parameters of a shared text that makes a seed, by name; '' for none."""
    return {_FOR_SEED: "false", _FIRST: "", _NAME: ""} if subject.seeded_by else {}


def arguments(subject: Subject) -> Iterator[str]:
    """What a recipe that takes a seed gives to its shared text."""
    if _is_first(subject):
        yield f"inherit {_FOR_SEED};"
    if subject.seeded_by:
        yield f"{_FIRST} = {_first(subject)};"
        yield f"{_NAME} = {nix.string(seed_name(subject.seeded_by))};"


def _first(subject: Subject) -> str:
    file = PurePosixPath(recipe_path(subject.seeded_by)).name
    return f"import ./{file} {{ {_FOR_SEED} = true; }}"


def attributes(subject: Subject) -> dict[str, str]:
    """What a recipe that takes a seed overrides besides its hooks.

    nixpkgs derives -frandom-seed from this variable, or else from the output, which differs in every variant.
    """
    return {"NIX_OUTPATH_USED_AS_RANDOM_SEED": nix.string(subject.package.name)} if subject.seeded_by else {}


def before_configure(subject: Subject) -> Iterator[str]:
    """What `preConfigure` runs in a build that takes a seed."""
    if subject.seeded_by:
        take = f"compiler_seed {_CCACHE} ${{{_SEED}}}"
        may_be_for_seed = subject.is_shared or _is_first(subject)
        unless_for_seed = f'${{if {_FOR_SEED} then "" else "{take}"}}' if may_be_for_seed else take
        yield "\n".join([*functions(subject, "compiler-seed"), unless_for_seed])


def at_the_end(subject: Subject) -> Iterator[str]:
    """What `preFixup` runs in a build that takes a seed."""
    if subject.seeded_by:
        yield "compiler_seed_found"


def found_in(log: str) -> dict[str, int]:
    """The host objects that the log of a build says its seed had: those `found`, `of` all. Empty if it took none."""
    said = _FOUND.findall(log)
    return dict(zip(("found", "of"), map(int, said[-1]), strict=True)) if said else {}


def _is_first(subject: Subject) -> bool:
    return subject.seeded_by == subject.variant.name
