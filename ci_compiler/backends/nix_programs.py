"""Nix in a job: `nix-build` of the recipe, and signed copies into the binary cache."""

from __future__ import annotations

from ci_compiler.backends.job import BuildOrder, BuildRecord
from ci_compiler.backends.nix import CACHE_KEY
from ci_compiler.backends.nix_environment import evaluation
from ci_compiler.backends.nix_recipes import LINK, RecipePrograms
from ci_compiler.backends.protocol import BinaryCache, Tool
from ci_compiler.codes import Code
from ci_compiler.errors import failure, wrong
from ci_compiler.process import Ended


class NixPrograms(RecipePrograms):
    """Nix and the spec's binary cache."""

    builder = Tool(name="nix-build", install="it comes with Nix; see https://nixos.org/download")

    def _realise(self, program: str, order: BuildOrder) -> Ended:
        with evaluation() as env:
            command = [program, order.recipe, "--out-link", LINK.format(name=order.name)]
            return self._follow(command, log=order.log, env=env)

    def is_published(self, name: str, version: str, recipe: str) -> bool:  # noqa: ARG002
        """Whether the cache holds what the recipe evaluates to, signed by the cache's key."""
        cache, store = self.job.cache, self.store
        if cache is None:
            return False
        if store.signed(cache, store.outputs(self._derivation(recipe))):
            return True
        store.reach(cache)  # a cache that does not answer shows nothing
        return False

    def published(self, build: BuildRecord) -> str:
        """Whether the cache holds the whole closure, signed by its key."""
        cache = self._cache()
        held = self.store.signed(cache, build.outputs)
        return f"{cache.url} holds it, signed by {_key_name(cache)}" if held else ""

    def publish(self, build: BuildRecord) -> None:
        """Copies the closure into the cache, signed."""
        cache, key = self._cache(), self.given(CACHE_KEY)
        ended = self.store.push(cache, build.outputs, key, self.recipe_of(build))
        if ended.status != 0:
            raise failure(build.name, Code.PUBLISH_FAILED, f"it cannot be copied to {cache.url}: {ended.said}")
        if not self.store.signed(cache, build.outputs):
            message = f"{cache.url} holds it, but not signed by {_key_name(cache)}; {CACHE_KEY} is another key"
            raise failure(build.name, Code.PUBLISH_UNSIGNED, message)

    def _cache(self) -> BinaryCache:
        if self.job.cache is None:
            message = "the backend nix publishes to a binary cache, and the spec has no `cache`"
            raise wrong("cache", Code.CACHE_MISSING, message)
        return self.job.cache


def _key_name(cache: BinaryCache) -> str:
    return cache.public_key.split(":", 1)[0]
