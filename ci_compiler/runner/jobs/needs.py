"""What a variant is built with, supplied before its build: from the store, a substituter or the cache, never built."""

from __future__ import annotations

from pathlib import Path

from ci_compiler.codes import Code
from ci_compiler.plan.lookup import BuiltVariant
from ci_compiler.plan.matrix import Variant
from ci_compiler.recipes import nix_text as nix
from ci_compiler.recipes.render import ARCHIVE
from ci_compiler.runner.jobs.failure import failure
from ci_compiler.runner.jobs.nix_store import Store
from ci_compiler.runner.jobs.targets import needed
from ci_compiler.spec.model import Spec
from ci_compiler.variant import recipe_path


def supply(spec: Spec, root: Path, store: Store, built: BuiltVariant, derivation: str) -> None:
    """Has the store hold, or a substituter of this machine offer, what `derivation` of `built` needs.

    Proved by Nix' own plan of the build, in which no derivation that another variant is may stand. Raises StageError.
    """
    for need in needed(spec, built):
        own = _derivation(spec, root, store, built, need)
        if own not in store.closure(derivation):
            message = f"is not built with {need.name} as that one's own recipe has it, but with another derivation"
            raise failure(built.variant.name, Code.NEEDS_OTHER, message)
        if own in store.to_build(derivation):
            if spec.cache is not None:
                for path in store.lacks(store.outputs(own)):  # one by one: not every output need be in the cache
                    store.fetch(spec.cache, [path])
            if spec.cache is None or own in store.to_build(derivation):
                where = f"in {spec.cache.url}" if spec.cache else "in a cache, for the spec names none"
                message = f"needs {need.name}, which is neither in this machine's store nor {where}; build it first"
                raise failure(built.variant.name, Code.NEEDS_MISSING, message)


def _derivation(spec: Spec, root: Path, store: Store, built: BuiltVariant, need: Variant) -> str:
    """The derivation of a needed variant, from its recipe, in this repository or in that which builds it."""
    file = recipe_path(need.name)
    repository = spec.packages[need.package].repository
    if repository is None:
        return store.instantiate(root / file)
    branch = built.cell.branch
    archive = {
        "url": nix.string(ARCHIVE.format(repository=repository.name, rev=repository.rev[branch])),
        "sha256": nix.string(repository.hash[branch]),
    }
    imported = f"import ((builtins.fetchTarball {nix.attributes(archive)}) + {nix.string(f'/{file}')}) {{ }}"
    return store.instantiate_expression(file, imported)
