"""Compiler seeds on their way between builders: through the spec's cache, unless it is public.

A seed is whatever the recipe's derivation itself names as one. It is trusted as any other path of the cache: only if it
is signed. It is in no closure, so that it reaches a cache only by what is here.
"""

from __future__ import annotations

from pathlib import Path

from ci_compiler.backends.forms import CACHE_KEY, path_name
from ci_compiler.backends.job import JobContext, show
from ci_compiler.backends.nix_store import NixStore
from ci_compiler.backends.protocol import BinaryCache
from ci_compiler.codes import Code
from ci_compiler.errors import StageError, failure
from ci_compiler.variant import is_seed


def seeds_of(store: NixStore, derivation: str) -> dict[str, str]:
    """The compiler seeds that `derivation` takes, by their own derivation: one, or none."""
    found = (path for path in store.inputs(derivation) if path.endswith(".drv") and is_seed(path_name(path)))
    return {seed: path for seed in found for path in store.outputs(seed)}


def take_seeds(store: NixStore, job: JobContext, derivation: str, recipe: Path) -> None:
    """Fetches the seeds that Nix would otherwise build before `derivation`. What the cache lacks is built."""
    cache = _between_builders(job)
    seeds = seeds_of(store, derivation) if cache else {}
    if cache is None or not seeds:
        return
    absent = store.to_build(derivation)
    for path in (path for seed, path in seeds.items() if seed in absent):
        try:
            ended = store.fetch(cache, [path], recipe=recipe)
            why = ended.said if ended.status != 0 else ""
        except StageError as error:
            why = error.findings[0].message
        if why:
            show(f"{path} is built here; it cannot be fetched from {cache.url}: {why}")


def share_seeds(store: NixStore, job: JobContext, derivation: str, recipe: Path) -> None:
    """Copies the seeds of `derivation` that the store has to the cache, signed as a build is.

    One without a signature stays here, because nobody would take it. Raises StageError.
    """
    cache, key = _between_builders(job), job.secrets.get(CACHE_KEY)
    if cache is None:
        return
    for path in seeds_of(store, derivation).values():
        if store.lacks([path]) or not (key or store.is_signed_here(path)):
            continue
        ended = store.push(cache, [path], key, recipe)
        if ended.status != 0:
            raise failure(path, Code.PUSH_FAILED, f"it cannot be copied to {cache.url}: {ended.said}")


def _between_builders(job: JobContext) -> BinaryCache | None:
    """The cache that seeds travel through. A public one would serve to everybody what nobody is meant to install."""
    return job.cache if job.cache and not job.cache.public else None
