"""What a variant is built with, for the backend that builds it."""

from __future__ import annotations

from ci_compiler.backends.job import NeededVariant
from ci_compiler.plan.lookup import BuiltVariant
from ci_compiler.recipes import nix_text as nix
from ci_compiler.recipes.compiled import ARCHIVE
from ci_compiler.spec.model import Repository, Spec
from ci_compiler.variant import recipe_path, variant_name


def needed(spec: Spec, built: BuiltVariant) -> tuple[NeededVariant, ...]:
    """The variants of the same cell that `built` is built with, also those that another repository builds."""
    found = []
    for package in spec.packages[built.variant.package].needs:
        name, repository = variant_name(package, built.cell.suffix), spec.packages[package].repository
        expression = _expression(repository, built.cell.branch, recipe_path(name)) if repository else ""
        found.append(NeededVariant(name=name, recipe=recipe_path(name), expression=expression))
    return tuple(found)


def _expression(repository: Repository, branch: str, file: str) -> str:
    """The derivation of the recipe `file` of another repository."""
    archive = {
        "url": nix.string(ARCHIVE.format(repository=repository.name, rev=repository.rev[branch])),
        "sha256": nix.string(repository.hash[branch]),
    }
    return f"import ((builtins.fetchTarball {nix.attributes(archive)}) + {nix.string(f'/{file}')}) {{ }}"
