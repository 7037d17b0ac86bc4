"""What builds a variant and publishes it: Flox, or Nix alone. The recipes are the same, and so are the results."""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path
from typing import Protocol

from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.process import Ended, ask, find_program, follow
from ci_compiler.runner.jobs.checkout import JobCheckout
from ci_compiler.runner.jobs.failure import StageError, failure
from ci_compiler.runner.jobs.manifest import Manifest
from ci_compiler.runner.jobs.nix_store import PROFILE, Store, evaluation
from ci_compiler.runner.jobs.secrets import Secrets
from ci_compiler.secret import Secret
from ci_compiler.spec.model import Backend, Cache, Spec
from ci_compiler.units import duration
from ci_compiler.variant import recipe_path
from ci_compiler.workflows.variant import TOKEN

LINK = "result-{name}"
"""The link that a build leaves in the repository's root."""

_SHOW_SECONDS = 120.0

_print = partial(print, flush=True)


class Adapter(Protocol):
    """What builds and publishes. Raises InputError for what it cannot do without, StageError where it fails."""

    def build(self, name: str, *, seconds: float, log: Path) -> Ended:
        """Builds the recipe of `name`, and leaves the link `result-NAME` to what came of it."""

    def published(self, manifest: Manifest) -> str:
        """What shows that the build is published already; '' where nothing does."""

    def publish(self, manifest: Manifest, *, seconds: float) -> None:
        """Publishes the build."""


def adapter(spec: Spec, root: Path, store: Store, secrets: Secrets) -> Adapter:
    """The adapter of the spec's backend, for the repository at `root`."""
    secret = secrets.get(spec.backend)
    if spec.backend is Backend.FLOX:
        return Flox(spec.owner, root, store, spec.cache, secret)
    return Nix(root, store, spec.cache, secret)


class Flox:
    """`flox build` and `flox publish`, into the catalog of `owner`.

    Flox builds the derivation that the recipe evaluates to (its makefile calls `nix build` on the `drvPath`), so that
    what plain Nix proves of the recipe, such as what it would have to build, holds for Flox as well.
    """

    def __init__(self, owner: str, root: Path, store: Store, cache: Cache | None, token: Secret | None) -> None:
        self._owner, self._root, self._store, self._cache, self._token = owner, root, store, cache, token
        install = "install it from https://flox.dev/docs/install-flox, for the runner's user"
        self._flox = find_program("flox", install=install, folders=(PROFILE,))

    def build(self, name: str, *, seconds: float, log: Path) -> Ended:
        """Builds by `flox build`."""
        return follow([self._flox, "build", name], _print, seconds=seconds, log=log, folder=self._root)

    def published(self, manifest: Manifest) -> str:
        """The version as `flox show` lists it: a catalog tells versions apart, not commits.

        An answer that lists no version of the package, or none at all, shows nothing.
        """
        return self.listed(manifest.name, manifest.version)

    def listed(self, name: str, version: str) -> str:
        """What shows that the catalog has `version` of the package `name`; '' where nothing does."""
        whole = f"{self._owner}/{name}"
        command = [self._flox, "show", whole]
        ended = ask(command, seconds=_SHOW_SECONDS, env=self._environment(), folder=self._root, secret=self._token)
        shown = re.findall(rf"(?<![\w./-])(?:{re.escape(self._owner)}/)?{re.escape(name)}@([^\s,]+)", ended.out)
        return f"flox show lists {whole}@{version}" if version in shown else ""

    def publish(self, manifest: Manifest, *, seconds: float) -> None:
        """Publishes by `flox publish`, on the branch itself, with the result in the store lest it be built again."""
        token = _given(self._token, Backend.FLOX)
        hold(self._store, self._cache, manifest, manifest.outputs)
        JobCheckout(self._root).put_on(manifest.branch, manifest.commit)
        command = [self._flox, "publish", "-o", self._owner, manifest.name]
        ended = follow(command, _print, seconds=seconds, env=self._environment(), folder=self._root, secret=token)
        if ended.status != 0:
            message = f"flox publish ended with {ended.status} after {duration(ended.seconds)}: {ended.said}"
            raise failure(manifest.name, Code.PUBLISH_FAILED, message)

    def _environment(self) -> dict[str, str]:
        return {**os.environ, **({TOKEN[Backend.FLOX]: self._token.reveal()} if self._token else {})}


class Nix:
    """`nix-build` of the recipe, and signed copies into the binary cache."""

    def __init__(self, root: Path, store: Store, cache: Cache | None, key: Secret | None) -> None:
        self._root, self._store, self._cache, self._key = root, store, cache, key
        install = "it comes with Nix; see https://nixos.org/download"
        self._build = find_program("nix-build", install=install, folders=(PROFILE,))

    def build(self, name: str, *, seconds: float, log: Path) -> Ended:
        """Builds by `nix-build`."""
        recipe, link = recipe_path(name), LINK.format(name=name)
        with evaluation() as env:
            command = [self._build, recipe, "--out-link", link]
            return follow(command, _print, seconds=seconds, log=log, env=env, folder=self._root)

    def published(self, manifest: Manifest) -> str:
        """Whether the cache holds the whole closure, signed by its key."""
        cache = self._the_cache()
        held = self._store.signed(cache, manifest.outputs)
        return f"{cache.url} holds it, signed by {_key_name(cache)}" if held else ""

    def publish(self, manifest: Manifest, *, seconds: float) -> None:  # noqa: ARG002  (the store has its own limit)
        """Copies the closure into the cache, signed."""
        cache, key = self._the_cache(), _given(self._key, Backend.NIX)
        hold(self._store, cache, manifest, manifest.outputs)
        ended = self._store.push(cache, manifest.outputs, key)
        if ended.status != 0:
            raise failure(manifest.name, Code.PUBLISH_FAILED, f"it cannot be copied to {cache.url}: {ended.said}")
        if not self._store.signed(cache, manifest.outputs):
            message = f"{cache.url} holds it, but not signed by {_key_name(cache)}; {TOKEN[Backend.NIX]} is another key"
            raise failure(manifest.name, Code.PUBLISH_UNSIGNED, message)

    def _the_cache(self) -> Cache:
        if self._cache is None:
            message = "the backend nix publishes to a binary cache, and the spec has no `cache`"
            raise wrong("cache", Code.CACHE_MISSING, message)
        return self._cache


def hold(store: Store, cache: Cache | None, manifest: Manifest, paths: tuple[str, ...]) -> bool:
    """Makes the store hold `paths` of a build: True where they had to be fetched. Raises StageError where it cannot.

    What the cache holds is taken where it is signed by the cache's key, or is what the manifest says that was built.
    """
    name = manifest.name
    missing = store.lacks(paths)
    if not missing:
        return False
    lacks = f"{missing[0]} is not in this machine's store"
    if cache is None:
        message = f"{lacks}, and the spec names no `cache` to fetch it from"
        raise failure(name, Code.CLOSURE_MISSING, message)
    ended = store.fetch(cache, missing, proved=_is_as_built(store, cache, manifest))
    if ended.status != 0 or store.lacks(missing):
        raise failure(name, Code.CLOSURE_MISSING, f"{lacks}, and cannot be fetched from {cache.url}: {ended.said}")
    return True


def _is_as_built(store: Store, cache: Cache, manifest: Manifest) -> bool:
    try:
        return store.contents(list(manifest.closure), cache) == manifest.closure
    except StageError:  # the cache lacks a path
        return False


def _given(secret: Secret | None, backend: Backend) -> Secret:
    if secret is None:
        message = "is not set; the secret of GitHub's environment goes into the step that publishes"
        raise wrong(TOKEN[backend], Code.SECRET_MISSING, message)
    return secret


def _key_name(cache: Cache) -> str:
    return cache.public_key.split(":", 1)[0]
