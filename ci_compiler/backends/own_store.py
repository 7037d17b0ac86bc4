"""A Nix store that shares only a build's own paths with the binary cache (`cache: {push: own}`).

Left out are the paths that other caches serve, and those that Nix unpacks from a vendor's downloads, unless the spec
says that the owner of the cache may redistribute the product. A machine that fetches a build gets the former from those
caches and makes the latter from the recipe, as a user's `nix-build` does.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from ci_compiler.backends.cache_files import AWS, unfetchable, upload
from ci_compiler.backends.forms import path_name
from ci_compiler.backends.nix_environment import key_file
from ci_compiler.backends.nix_store import NixStore
from ci_compiler.backends.protocol import BinaryCache, CachePush
from ci_compiler.hardware.families import FAMILIES, family_of
from ci_compiler.process import Ended, find_program
from ci_compiler.secret import Secret

_DOWNLOAD = re.compile("|".join(family_of(name).downloads for name in FAMILIES))
"""An address from which nixpkgs fetches the product of a vendor of GPUs."""


class OwnStore(NixStore):
    """This machine's Nix store; the cache has only what no other cache serves, and what may be redistributed."""

    def __init__(self, *, seconds: float) -> None:
        super().__init__(seconds=seconds)
        self._inputs: dict[Path, tuple[str, ...]] = {}
        """What the derivation of a recipe is built from, by recipe."""

    def check_push(self, cache: BinaryCache) -> None:
        """Raises InputError if the program that copies files to the cache is missing."""
        if urlsplit(cache.url).scheme == "s3":
            find_program("aws", install=AWS)

    def push(self, cache: BinaryCache, paths: Sequence[str], key: Secret | None, recipe: Path) -> Ended:
        """Copies the own part of the closures of `paths` to the cache, with signatures where a `key` is given."""
        closure = self.closure(*paths)
        own = self._own(cache, closure, recipe)
        lacking = self.lacks(own, cache.url)
        absent = [path for path in own if path in lacking]
        present = [path for path in own if path not in lacking]
        if key is None:
            return self._copy_absent(cache, closure, absent, None, last=paths)
        with key_file(key) as file:
            ended = self._copy_absent(cache, closure, absent, file, last=paths)
            is_signed = not present or self.verified(cache, present)
            if ended.status != 0 or (is_signed and not unfetchable(cache.url, paths)):
                return ended
            return self._sign_present(cache, closure, present, file, key, last=paths)

    def fetch(
        self, cache: BinaryCache, paths: Sequence[str], *, proved: bool = False, recipe: Path | None = None
    ) -> Ended:
        """Copies the closures of `paths` here: what the cache has from there, and the rest from where it comes."""
        held, rest = self._walk(cache, paths)
        for url in cache.others:
            missing = self.lacks(rest)
            offered = [path for path in missing if path not in self.lacks(missing, url)]
            if offered:
                ended = self._nix("copy", "--from", url, *offered)
                if ended.status != 0:
                    return ended
        for path in self.lacks(rest):
            derivation = self._derivation(path, recipe) if recipe else ""
            if not derivation or not self._product(derivation):
                return Ended(status=1, err=f"error: {path} is neither in {cache.url} nor in {', '.join(cache.others)}")
            ended = self._ask("nix-store", "--realise", derivation)
            if ended.status != 0:
                return ended
        return self._copy_from(cache, self.lacks(held), "--no-recursive", proved=proved)

    def holds(self, cache: BinaryCache, closure: Mapping[str, str]) -> bool:
        """Whether what the cache holds of `closure` has the content whose hash is stated there."""
        return not any(self._unlike(cache.url, closure).values())

    def differing(self, cache: BinaryCache, closure: Mapping[str, str]) -> list[str]:
        """As for any store; what the cache lacks, users get from the other caches."""
        found: list[str] = []
        rest = dict(closure)
        for url in (cache.url, *cache.others):
            unlike = self._unlike(url, rest)
            found += [path for path, theirs in unlike.items() if theirs]
            rest = {path: closure[path] for path, theirs in unlike.items() if not theirs}
        return found

    def uncarried(self, cache: BinaryCache, closure: Mapping[str, str], recipe: Path) -> dict[str, str]:
        """As for any store, but of the own part of `closure` only."""
        own = self._own(cache, list(closure), recipe)
        return super().uncarried(cache, {path: closure[path] for path in own}, recipe)

    def signed(self, cache: BinaryCache, paths: Sequence[str]) -> bool:
        """Whether the cache holds `paths`, and all that it holds of their closures is signed by its key.

        The cache gets `paths` after what they need, so that it has the rest as well.
        """
        held, rest = self._walk(cache, paths)
        return not set(rest) & set(paths) and self.verified(cache, held)

    # What is left out.

    def _own(self, cache: BinaryCache, closure: Sequence[str], recipe: Path) -> list[str]:
        """What no other cache serves of a closure, and may be served from this one."""
        rest: Sequence[str] = closure
        for url in cache.others:
            rest = self.lacks(rest, url)
        unserved = set(rest)
        return [path for path in closure if path in unserved and self._may_serve(cache, path, recipe)]

    def _may_serve(self, cache: BinaryCache, path: str, recipe: Path) -> bool:
        derivation = self._derivation(path, recipe)
        product = self._product(derivation) if derivation else ""
        return not product or product in cache.redistributes

    def _derivation(self, path: str, recipe: Path) -> str:
        """The derivation in the closure of the recipe's that makes `path`; '' if none does."""
        if recipe not in self._inputs:
            self._inputs[recipe] = self.closure(self.instantiate(recipe))
        for one in self._inputs[recipe]:
            name = path_name(one)
            named = name.endswith(".drv") and f"{path_name(path)}-".startswith(f"{name.removesuffix('.drv')}-")
            if named and path in self.outputs(one):
                return one
        return ""

    def _product(self, derivation: str) -> str:
        """The vendor's product that `derivation` unpacks, by the name of its folder on the server; '' for none."""
        source = path_name(self.attributes(derivation).get("src", ""))
        for one in self.inputs(derivation) if source else ():
            if path_name(one) == f"{source}.drv":
                found = self.attributes(one)
                if match := _DOWNLOAD.search(f"{found.get('url', '')} {found.get('urls', '')}"):
                    return match[match.lastindex or 0]
        return ""

    def _walk(self, cache: BinaryCache, paths: Sequence[str]) -> tuple[list[str], list[str]]:
        """What the cache holds of the closures of `paths`, and the paths that it lacks and that these refer to."""
        held: dict[str, None] = {}
        rest: dict[str, None] = {}
        new: Sequence[str] = paths
        while new:
            absent = self.lacks(new, cache.url)
            rest.update(dict.fromkeys(absent))
            there = [path for path in new if path not in absent]
            held.update(dict.fromkeys(there))
            found = self.references(there, cache.url) if there else ()
            new = [path for path in found if path not in held and path not in rest]
        return list(held), list(rest)

    def _copy_absent(
        self,
        cache: BinaryCache,
        closure: Sequence[str],
        absent: Sequence[str],
        key: Path | None,
        *,
        last: Sequence[str],
    ) -> Ended:
        """Copies `absent` to the cache without the rest of the closure, those of them in `last` after the others."""
        if not absent:
            return Ended(status=0)
        with tempfile.TemporaryDirectory(prefix="ci-runner-cache-") as folder:
            ended = self.copy_alone(Path(folder), closure, absent, key=key)
            if ended.status != 0:
                return ended
            return upload(Path(folder), cache.url, absent, last=last, seconds=self._seconds)


def store_of(cache: BinaryCache | None, *, seconds: float) -> NixStore:
    """This machine's store, with what it shares with `cache`. Raises InputError if Nix is missing."""
    own = cache is not None and cache.push is CachePush.OWN
    return (OwnStore if own else NixStore)(seconds=seconds)
