"""Nix in a job: `nix-build` of the recipe, and signed copies into the binary cache."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ci_compiler.backends.cache_files import unfetchable
from ci_compiler.backends.forms import CACHE_KEY
from ci_compiler.backends.job import BuildOrder, BuildRecord
from ci_compiler.backends.nix_environment import evaluation
from ci_compiler.backends.nix_recipes import LINK, RecipePrograms
from ci_compiler.backends.protocol import BinaryCache, Tool
from ci_compiler.backends.tested import key_name, tested_there, unsigned
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

    def is_published(self, name: str, version: str, recipe: str, tests: Sequence[str]) -> bool:  # noqa: ARG002
        """Whether the cache holds what the recipe evaluates to, signed by its key, with the records of the tests."""
        cache, store = self.job.cache, self.store
        if cache is None:
            return False
        outputs = store.outputs(self._derivation(recipe))
        if store.whole(cache, outputs):
            return tested_there(store, cache, outputs, tests)
        store.reach(cache)  # a cache that does not answer shows nothing
        return False

    def published(self, build: BuildRecord, tests: Sequence[str]) -> str:
        """What the cache holds, signed by its key, with the records of the tests: this build, or another one."""
        cache = self._cache()
        if not (self.store.whole(cache, build.outputs) and tested_there(self.store, cache, build.outputs, tests)):
            return ""
        if other := next(iter(self.store.differing(cache, build.closure)), None):
            return f"{cache.url} keeps another build of {other}, which is signed, and not this one"
        return f"{cache.url} holds it, signed by {key_name(cache)}"

    def publish(self, build: BuildRecord) -> None:
        """Copies the closure into the cache, signed, unless that keeps another build of a part of it."""
        cache, key = self._cache(), self.given(CACHE_KEY)
        self._refuse(build, cache, self._lasting(build, cache))
        ended = self.store.push(cache, build.outputs, key, self.recipe_of(build))
        if ended.status != 0:
            raise failure(build.name, Code.PUBLISH_FAILED, f"it cannot be copied to {cache.url}: {ended.said}")
        if not self.store.signed(cache, build.outputs):
            raise unsigned(build, cache)
        if gone := unfetchable(cache.url, build.outputs):
            message = f"{cache.url} has an entry of {gone[0]}, and not its archive, which was put there again"
            raise failure(build.name, Code.PUBLISH_FAILED, message)
        self._refuse(build, cache, self.store.differing(cache, build.closure))

    def _lasting(self, build: BuildRecord, cache: BinaryCache) -> list[str]:
        """The paths of another build that publishing does not replace: signed ones, and those of other caches."""
        others = self.store.differing(cache, build.closure)
        elsewhere = self.store.lacks(list(others), cache.url)
        return [path for path in others if path in elsewhere or self.store.verified(cache, [path])]

    def _refuse(self, build: BuildRecord, cache: BinaryCache, others: Iterable[str]) -> None:
        """Raises StageError if users would get `others` with another content than the one that was tested."""
        if other := next(iter(others), ""):
            message = (
                f"users of {cache.url} get another build of {other} than the one that was tested; what is signed is "
                "never replaced: build and test with that one, or remove it there"
            )
            raise failure(build.name, Code.CONTENT_DIFFERS, message)

    def _cache(self) -> BinaryCache:
        if self.job.cache is None:
            message = "the backend nix publishes to a binary cache, and the spec has no `cache`"
            raise wrong("cache", Code.CACHE_MISSING, message)
        return self.job.cache
