"""Whether a variant is published already, asked before anything of it is built: what a scheduled run leaves out."""

from __future__ import annotations

from pathlib import Path

from ci_compiler.runner.jobs.backend import Flox
from ci_compiler.runner.jobs.nix_store import Store
from ci_compiler.runner.jobs.secrets import taking_secrets
from ci_compiler.runner.jobs.targets import find
from ci_compiler.spec.model import Backend, Spec

_SECONDS = 600.0


def is_published(spec: Spec, root: Path, branch: str, name: str) -> bool:
    """Whether the version (Flox) or the very derivation (Nix) of `name` on `branch` is published.

    `root` is a checkout of the branch. Raises InputError and StageError where neither Flox nor Nix can be asked.
    """
    built = find(spec, name, branch)
    with taking_secrets() as secrets:
        store = Store(seconds=_SECONDS)
        if spec.backend is Backend.FLOX:
            flox = Flox(spec.owner, root, store, spec.cache, secrets.get(spec.backend))
            return bool(flox.listed(name, built.version))
        if spec.cache is None:
            return False
        if store.signed(spec.cache, store.outputs(store.instantiate(root / built.recipe))):
            return True
        store.reach(spec.cache)  # that nothing was found says nothing of a cache that does not answer
        return False
