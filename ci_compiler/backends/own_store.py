"""A Nix store that shares only a build's own paths with the binary cache (`cache: {push: own}`).

Left out are the paths that other caches serve, and those that Nix unpacks from NVIDIA's downloads, unless the spec says
that the owner of the cache may redistribute the product. A machine that fetches a build gets the former from those
caches and makes the latter from the recipe, as a user's `nix-build` does.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from ci_compiler.backends.nix_store import Store, key_file, signing
from ci_compiler.backends.protocol import BinaryCache
from ci_compiler.process import Ended, ask, find_program
from ci_compiler.secret import Secret

_DOWNLOAD = re.compile(r"https://developer\.download\.nvidia\.com/compute/([a-z0-9]+)/")
"""An address from which nixpkgs fetches a product of NVIDIA (pkgs/development/cuda-modules)."""

_AWS = "install the AWS CLI: Nix itself copies only whole closures to S3"
_S3_OPTIONS = {"region": "--region", "profile": "--profile"}

_STUB = """\
StorePath: {path}
URL: nar/none.nar
Compression: none
NarHash: sha256:{hash}
NarSize: 1
"""
"""The entry of a path that is left out, without which Nix refuses to copy what refers to it."""


class OwnStore(Store):
    """This machine's Nix store; the cache has only what no other cache serves, and what may be redistributed."""

    def __init__(self, *, seconds: float) -> None:
        super().__init__(seconds=seconds)
        self._inputs: dict[Path, tuple[str, ...]] = {}
        """What the derivation of a recipe is built from, by recipe."""

    def check_push(self, cache: BinaryCache) -> None:
        """Raises InputError if the program that copies files to the cache is missing."""
        if urlsplit(cache.url).scheme == "s3":
            find_program("aws", install=_AWS)

    def push(self, cache: BinaryCache, paths: Sequence[str], key: Secret | None, recipe: Path) -> Ended:
        """Copies the own part of the closures of `paths` to the cache, with signatures where a `key` is given."""
        closure = self.closure(*paths)
        own = self._own(cache, closure, recipe)
        lacking = self.lacks(own, cache.url)
        absent = [path for path in own if path in lacking]
        present = [path for path in own if path not in lacking]
        unsigned = key is not None and present and not self._verify(cache, present)
        others = self._differing(cache, present) if unsigned else []
        if others:
            return Ended(status=1, err=f"error: another build of {others[0]} is there, and is not signed")
        ended = self._copy_alone(cache, closure, absent, key, last=paths) if absent else Ended(status=0)
        if ended.status != 0 or key is None or not unsigned:
            return ended
        with key_file(key) as file:
            return self._sign(file, key, "--store", cache.url, *present)

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
            derivation = self._derivation(path, recipe) if recipe and path not in paths else ""
            if not derivation or not self._product(derivation):
                return Ended(status=1, err=f"error: {path} is neither in {cache.url} nor in {', '.join(cache.others)}")
            ended = self._ask("nix-store", "--realise", derivation)
            if ended.status != 0:
                return ended
        return self._copy_from(cache, self.lacks(held), "--no-recursive", proved=proved)

    def holds(self, cache: BinaryCache, closure: Mapping[str, str]) -> bool:
        """Whether what the cache holds of `closure` has the content whose hash is stated there."""
        absent = self.lacks(list(closure), cache.url)
        held = {path: content for path, content in closure.items() if path not in absent}
        return self.contents(list(held), cache) == held

    def signed(self, cache: BinaryCache, paths: Sequence[str]) -> bool:
        """Whether the cache holds `paths`, and all that it holds of their closures is signed by its key.

        The cache gets `paths` after what they need, so that it has the rest as well.
        """
        held, rest = self._walk(cache, paths)
        return not set(rest) & set(paths) and self._verify(cache, held)

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
            name = _name(one)
            named = name.endswith(".drv") and f"{_name(path)}-".startswith(f"{name.removesuffix('.drv')}-")
            if named and path in self.outputs(one):
                return one
        return ""

    def _product(self, derivation: str) -> str:
        """The product of NVIDIA that `derivation` unpacks, by the name of its folder on the server; '' for none."""
        source = _name(self.attributes(derivation).get("src", ""))
        for one in self.references([derivation]) if source else ():
            if _name(one) == f"{source}.drv":
                found = self.attributes(one)
                if match := _DOWNLOAD.search(f"{found.get('url', '')} {found.get('urls', '')}"):
                    return match[1]
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

    # The way into the cache.

    def _copy_alone(
        self,
        cache: BinaryCache,
        closure: Sequence[str],
        absent: Sequence[str],
        key: Secret | None,
        *,
        last: Sequence[str],
    ) -> Ended:
        """Copies `absent` to the cache without the rest of the closure, those of them in `last` after the others."""
        with tempfile.TemporaryDirectory(prefix="ci-runner-cache-") as folder:
            ended = self._stage(Path(folder), closure, absent, key)
            return ended if ended.status != 0 else self.upload(Path(folder), cache.url, absent, last=last)

    def _stage(self, folder: Path, closure: Sequence[str], paths: Sequence[str], key: Secret | None) -> Ended:
        """Copies `paths` alone into a binary cache in `folder`, for which Nix must find all of the closure there."""
        for path in closure:
            if path not in paths:
                _entry(folder, path).write_text(_STUB.format(path=path, hash="0" * 52), "utf-8")
        url = f"file://{folder}"
        if key is None:
            ended = self._nix("copy", "--no-recursive", "--to", url, *paths)
        else:
            with key_file(key) as file:
                ended = self._nix("copy", "--no-recursive", "--to", signing(url, file), *paths, secret=key)
        for path in closure:
            if path not in paths:
                _entry(folder, path).unlink()
        return ended

    def upload(self, folder: Path, url: str, paths: Sequence[str], *, last: Sequence[str]) -> Ended:
        """Copies the files of a staged cache to the cache: archives, then entries, those of the paths `last` last."""
        target = urlsplit(url)
        if target.scheme == "file":
            ordered = [path for path in paths if path not in last] + [path for path in paths if path in last]
            for file in _in_order(folder, ordered):
                _place(file, Path(target.path, file.relative_to(folder)))
            return Ended(status=0)
        outputs = [f"{_entry(folder, path).name}" for path in last]
        first = [word for name in outputs for word in ("--exclude", name)]
        rest = ["--exclude", "*", *(word for name in outputs for word in ("--include", name))]
        aws = find_program("aws", install=_AWS)
        options = dict(parse_qsl(target.query))
        more = [word for name, flag in _S3_OPTIONS.items() if name in options for word in (flag, options[name])]
        if "endpoint" in options:
            more += ["--endpoint-url", f"{options.get('scheme', 'https')}://{options['endpoint']}"]
        command = [aws, *more, "s3", "cp", "--only-show-errors", "--recursive", str(folder), f"s3://{target.netloc}"]
        for chosen in (["--exclude", "*.narinfo"], first, rest):
            ended = ask([*command, *chosen], seconds=self._seconds)
            if ended.status != 0:
                return ended
        return ended


def _name(path: str) -> str:
    """The name of a store path, without the folder and the hash."""
    return Path(path).name[33:]


def _entry(folder: Path, path: str) -> Path:
    """The file of a path in the binary cache in `folder`."""
    return folder / f"{Path(path).name[:32]}.narinfo"


def _in_order(folder: Path, paths: Sequence[str]) -> Iterator[Path]:
    yield folder / "nix-cache-info"
    yield from (folder / "nar").iterdir()
    yield from (_entry(folder, path) for path in paths)


def _place(file: Path, target: Path) -> None:
    """Copies a file so that no reader ever sees a part of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.copyfile(file, part)
    part.replace(target)
