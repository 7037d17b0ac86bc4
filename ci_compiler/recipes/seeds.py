"""Compiler seeds: the host code of a variant, compiled once and kept for the variants of other GPUs.

The first variant of a branch, Python, toolkit and ISA is built as always. The recipes of the others hold a derivation
that builds it once more, up to its installation, and whose output is what ccache kept of its C and C++ code. They take
that as an input, look into it while they compile, and add nothing to it. CUDA files never go through it: ccache reads
neither NIX_CFLAGS_COMPILE nor NVCC_APPEND_FLAGS where it stands in front of nvcc.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from ci_compiler.hardware import CPU
from ci_compiler.plan.matrix import Cell
from ci_compiler.recipes import nix_text as nix
from ci_compiler.recipes.capabilities import sets_capabilities
from ci_compiler.recipes.proof import functions
from ci_compiler.recipes.subject import Subject
from ci_compiler.spec.model import RecipeKind, Spec
from ci_compiler.variant import recipe_path

_SEED, _SHELL = "compilerSeed", "compilerSeedShell"
"""The names that a recipe gives to the derivation, and to the shell code of both builds."""


def seeder_of(spec: Spec, cells: Iterable[Cell], cell: Cell, package: str) -> Cell | None:
    """The first of `cells` whose variant of `package` compiles the same host code as that of `cell`, if it is another.

    Variants whose recipes set `config.cudaCapabilities` take no part: the libraries that they include are others.
    """
    if not _takes_part(spec, cell, package):
        return None
    same = (one for one in cells if _group(one) == _group(cell) and _takes_part(spec, one, package))
    first = next(same, cell)
    return None if first == cell else first


def _takes_part(spec: Spec, cell: Cell, name: str) -> bool:
    package = spec.packages[name]
    return (
        package.compiler_seed
        and cell.gpu != CPU
        and any(one.package == name and package.kind_of(one.name) is RecipeKind.COMPILED for one in cell.variants)
        and not sets_capabilities(spec, package, cell)
    )


def _group(cell: Cell) -> tuple[str, ...]:
    return cell.branch, cell.python, cell.cuda, cell.isa


def bindings(subject: Subject) -> Iterator[str]:
    """The shell code and the derivation of the seed, in the `let` of a recipe that takes it."""
    if not subject.seeded_by:
        return
    yield f"{_SHELL} = {nix.lines(functions('compiler-seed'))};"
    file = PurePosixPath(recipe_path(subject.seeded_by)).name
    values = {
        "pname": nix.string(f"{subject.seeded_by}-compiler-seed"),
        "outputs": nix.words(["out"]),
        **_constant(subject),
        "preConfigure": f'(old.preConfigure or "") + "\\n" + {nix.lines([_call()])}',
        "doCheck": "false",
        "installPhase": nix.lines([*functions("compiler-seed-kept"), "compiler_seed_kept"]),
        "allowedReferences": "[ ]",
    }
    why = nix.comment(f"The host code of {subject.seeded_by}, which is the same for every GPU, as ccache kept it.")
    entries = (f"{key} = {value};" for key, value in values.items())
    yield nix.block(f"{why}\n{_SEED} = (import ./{file} {{ }}).overrideAttrs (old: {{", entries, "});")


def attributes(subject: Subject) -> dict[str, str]:
    """What a recipe that takes a seed overrides besides its hooks."""
    return _constant(subject) if subject.seeded_by else {}


def before_configure(subject: Subject) -> Iterator[str]:
    """What `preConfigure` runs in a build that takes a seed."""
    if subject.seeded_by:
        yield _call(f"${{{_SEED}}}")


def at_the_end(subject: Subject) -> Iterator[str]:
    """What `preFixup` runs in a build that takes a seed."""
    if subject.seeded_by:
        yield "compiler_seed_found"


def _constant(subject: Subject) -> dict[str, str]:
    """nixpkgs derives -frandom-seed from this, or else from the output, which differs in every variant."""
    return {"NIX_OUTPATH_USED_AS_RANDOM_SEED": nix.string(subject.package.name)}


def _call(*arguments: str) -> str:
    """Shell code that defines the functions and starts to use ccache."""
    return "\n".join([f"${{{_SHELL}}}", " ".join(["compiler_seed ${pkgs.ccache}/bin/ccache", *arguments])])
