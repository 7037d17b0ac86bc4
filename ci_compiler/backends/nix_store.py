"""Nix' store and binary caches, through Nix' own programs.

It uses only commands that every Nix since 2.4 has and that print plain text, because the form of `--json` changed
between releases. A recipe is evaluated without a search path and with an empty home, so that the user's nixpkgs
configuration and overlays have no effect. The settings in nix.conf, including the user's, remain in effect.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple
from urllib.parse import quote

from ci_compiler.backends.cache_files import stubs, unfetchable, upload, writable
from ci_compiler.backends.nar import DamagedArchiveError, base32, difference, listing
from ci_compiler.backends.nix_environment import evaluation, key_file
from ci_compiler.backends.protocol import BinaryCache
from ci_compiler.codes import Code
from ci_compiler.errors import StageError, failure
from ci_compiler.outside import json_of, object_of, text_of
from ci_compiler.process import Ended, ask, find_program
from ci_compiler.secret import Secret
from ci_compiler.units import reached

PROFILE = "/nix/var/nix/profiles/default/bin"
"""The folder of Nix' programs in a multi-user installation, which is often missing from the PATH of a service."""

INSTALL = "install Nix (`apt install nix-bin` on Debian, or see https://nixos.org/download)"
_FRESH = ("--option", "narinfo-cache-negative-ttl", "0", "--option", "narinfo-cache-positive-ttl", "0")
"""Turns off Nix' memory of missing paths, which would hide for an hour what another machine pushes meanwhile."""

_WORD = r'"(?:[^"\\]|\\.)*"'
_HEAD = re.compile(
    rf"Derive\(\[((?:\({_WORD},{_WORD},{_WORD},{_WORD}\),?)*)\],"
    rf"\[((?:\({_WORD},\[(?:{_WORD},?)*\]\),?)*)\],\[((?:{_WORD},?)*)\],",
    re.DOTALL,
)
"""The start of a derivation's file: outputs, input derivations, input files (Nix manual, protocols, "Derivation")."""

_OUTPUT, _INPUT, _SOURCE = rf'{_WORD},"([^"]*)",{_WORD},{_WORD}', r'\("([^"]*)",\[', r'"([^"]*)"'

_TEXT = r'"((?:[^"\\]|\\.)*)"'
_ATTRIBUTE = re.compile(rf"\({_TEXT},{_TEXT}\)", re.DOTALL)
"""A pair of texts in a derivation's file, which only its attributes are."""

_SIGNATURE = re.compile(r"[^:/]+:[A-Za-z0-9+/]{86}==")
"""A signature by an ed25519 key, as `nix path-info --sigs` prints it after the path and the word `ultimate`."""

_MODULES = """{ recipe }: with builtins; let read = import recipe;
in concatMap (one: [ one (one.out or one) ]) (if isFunction read then read { } else read).requiredPythonModules"""
"""What `withPackages` adds for a recipe: each package's `out` too, whichever output it is (nixpkgs, buildEnv)."""

_PATHS_A_COMMAND = 500  # well within the limit on a command line's length


class PathInfo(NamedTuple):
    """What a store knows of a path: the hash of its content (NAR), the size of that in bytes, what it refers to."""

    content: str
    size: int
    references: tuple[str, ...]


class NixStore:
    """This machine's Nix store. Raises InputError if Nix is missing, StageError with Nix' error message.

    `seconds` is the time limit of each command that copies or evaluates.
    """

    def __init__(self, *, seconds: float) -> None:
        self._seconds = seconds
        names = ("nix", "nix-store", "nix-instantiate")
        self._programs = {name: find_program(name, install=INSTALL, folders=(PROFILE,)) for name in names}
        self._infos: dict[str, PathInfo] = {}
        """What `described` found in this machine's store, until this object changes the store."""
        self._verified: set[tuple[str, ...]] = set()
        """The signatures that `verified` found to be valid, until this object writes to a cache."""

    # Derivations.

    def instantiate(self, recipe: Path) -> str:
        """The derivation of a recipe, as its store path."""
        return self._instantiate(recipe.name, os.fspath(recipe.resolve()))

    def instantiate_expression(self, what: str, text: str) -> str:
        """The derivation of a Nix expression, called `what` in errors."""
        return self._instantiate(what, "--expr", text)

    def _instantiate(self, what: str, *arguments: str) -> str:
        with evaluation() as env:
            ended = self._ask("nix-instantiate", *arguments, env=env)
        if ended.status not in {0, 1}:  # it was ended, which says nothing about the recipe
            raise failure(what, Code.NIX, ended.said)
        if ended.status != 0 or len(ended.out.split()) != 1:
            raise failure(what, Code.RECIPE_EVALUATION, ended.said if ended.status != 0 else "it is not one derivation")
        return ended.out.strip().split("!")[0]

    def attributes(self, derivation: str) -> dict[str, str]:
        """The attributes of a derivation that are texts: the environment of its build."""
        text = self._text(derivation)
        found = {_unescaped(name): _unescaped(value) for name, value in _ATTRIBUTE.findall(text)}
        structured = object_of(found.pop("__json", "{}"))  # in place of the rest, with `__structuredAttrs`
        return found | {name: value for name, value in structured.items() if isinstance(value, str)}

    def python_modules(self, recipe: Path) -> tuple[str, ...]:
        """The outputs that nixpkgs' `withPackages` adds by the recipe's `requiredPythonModules`; () if it has none."""
        given = ("--argstr", "recipe", os.fspath(recipe.resolve()))
        with evaluation() as env:
            ended = self._ask("nix-instantiate", "--eval", "--strict", "--json", "--expr", _MODULES, *given, env=env)
        found = json_of(ended.out) if ended.status == 0 else []  # no such attribute, or another error
        return tuple(dict.fromkeys(one for one in found if isinstance(one, str)))

    def outputs(self, derivation: str) -> tuple[str, ...]:
        """The paths of all outputs of a derivation, whether they exist or not."""
        found = re.findall(_OUTPUT, self._head(derivation)[1])
        if not all(found):  # derived from their content, which only Nix knows
            found = self._query("--outputs", derivation).split()
        return tuple(sorted(found))

    def inputs(self, derivation: str) -> tuple[str, ...]:
        """What a derivation refers to: the derivations that it uses, and the files."""
        head = self._head(derivation)
        return (*re.findall(_INPUT, head[2]), *re.findall(_SOURCE, head[3]))

    def _head(self, derivation: str) -> re.Match[str]:
        match = _HEAD.match(self._text(derivation))
        if match is None:
            raise failure(derivation, Code.NIX, "does not have the form of a derivation")
        return match

    def _text(self, derivation: str) -> str:
        try:
            return text_of(Path(derivation))
        except OSError:  # the store keeps its files elsewhere, or lacks it
            ended = self._nix("store", "cat", derivation)
        if ended.status != 0:
            raise failure(derivation, Code.NIX, ended.said)
        return ended.out

    def to_build(self, derivation: str) -> frozenset[str]:
        """The derivations that Nix would build here to realise `derivation`, because no substituter has them."""
        ended = self._store(derivation, "--realise", "--dry-run", derivation)
        return frozenset(re.findall(r"^ +(/\S+\.drv)$", ended.err, re.MULTILINE))

    def deriver(self, path: str) -> str:
        """The derivation that produced `path`; '' if the store does not know it."""
        found = self._query("--deriver", path).strip()
        return found if found.startswith("/") else ""

    # Paths.

    def lacks(self, paths: Sequence[str], url: str = "") -> tuple[str, ...]:
        """Those of `paths` that are not valid in the store, or in the cache at `url`. Raises StageError."""
        check = (*((*_FRESH, "--store", url) if url else ()), "--check-validity", "--print-invalid")
        return tuple(path for part in _parts(paths) for path in self._store(part[0], *check, *part).out.split())

    def closure(self, *paths: str) -> tuple[str, ...]:
        """`paths` and everything that they refer to, references first."""
        return tuple(dict.fromkeys(self._query("--requisites", *paths).split()))

    def references(self, paths: Sequence[str], url: str = "") -> tuple[str, ...]:
        """What `paths` refer to, in the store or in the cache at `url`."""
        where = (*_FRESH, "--store", url) if url else ()
        found = (self._query("--references", *part, *where).split() for part in _parts(paths))
        return tuple(dict.fromkeys(path for part in found for path in part))

    def described(self, paths: Sequence[str], url: str = "") -> dict[str, PathInfo]:
        """What the store, or the cache at `url`, knows of `paths`. Raises StageError for a path that it lacks."""
        where = (*_FRESH, "--store", url) if url else ()
        told = (self._store(part[0], *where, "--dump-db", *part).out for part in _parts(paths))
        try:
            found = {path: info for part in told for path, info in _infos(part)}
        except ValueError:
            raise failure(paths[0], Code.NIX, "nix-store --dump-db answers in a form that is not known") from None
        if not url:
            self._infos |= found
        return found

    def closures(self, paths: Sequence[str]) -> dict[str, set[str]]:
        """The closure of each of `paths`."""
        if not reachable(paths, self._infos) <= self._infos.keys():
            self.described(self.closure(*paths))
        return {path: reachable([path], self._infos) for path in paths}

    def delete(self, paths: Sequence[str]) -> Ended:
        """Deletes `paths` and everything that refers to them, unless a root of the garbage collector leads there."""
        self._infos.clear()
        return self._ask("nix-store", "--delete", *self._query("--referrers-closure", *paths).split())

    def discard(self, path: str) -> None:
        """Deletes `path`, unless something refers to it or a root of the garbage collector leads there."""
        self._infos.clear()
        self._ask("nix-store", "--delete", path)

    def text_path(self, name: str, text: str) -> str:
        """The path of a file called `name` with the content `text`, whether it exists or not."""
        digest = hashlib.sha256(text.encode()).hexdigest()
        return self._store(name, "--print-fixed-path", "sha256", digest, name).out.strip()

    def add_text(self, name: str, text: str) -> str:
        """Adds a file called `name` with the content `text`; returns its path, which is `text_path`."""
        with tempfile.TemporaryDirectory(prefix="ci-runner-text-") as folder:
            file = Path(folder, name)
            file.write_text(text, "utf-8")
            return self._store(name, "--add-fixed", "sha256", os.fspath(file)).out.strip()

    # Binary caches.

    def fetch(
        self,
        cache: BinaryCache,
        paths: Sequence[str],
        *,
        proved: bool = False,
        recipe: Path | None = None,  # noqa: ARG002
    ) -> Ended:
        """Copies the closures of `paths` here; the cache's key is trusted for this command only.

        `recipe` is what they are built from, if it is known. `proved`: the content in the cache is known to be the
        built one, so signatures are not required: a build is signed only after its tests. Nix' daemon lets only trusted
        users do either; for other users the key must be in the daemon's configuration. A failed copy is retried,
        because Nix 2.8 (Debian 12) fails if another process copies some of the same paths at the same time.
        """
        # Assumes `cache-round-trip`.
        return self._copy_from(cache, paths, proved=proved)

    def _copy_from(self, cache: BinaryCache, paths: Sequence[str], *options: str, proved: bool) -> Ended:
        trust = ("--no-check-sigs",) if proved else ("--option", "extra-trusted-public-keys", " ".join(cache.keys))
        ended = self.copy(*trust, *options, paths=paths, source=cache.url)
        return ended if ended.status == 0 else self.copy(*trust, *options, paths=paths, source=cache.url)

    def copy(
        self, *options: str, paths: Sequence[str], source: str = "", to: str = "", secret: Secret | None = None
    ) -> Ended:
        """Copies `paths` from the store at the URL `source` to the one at `to`; '' is this machine's."""
        if not paths:
            return Ended(status=0)
        (self._verified if to else self._infos).clear()
        where = (*(("--from", source) if source else ()), *(("--to", to) if to else ()))
        return self._nix("copy", *_FRESH, *options, *where, *paths, secret=secret)

    def copy_alone(
        self, folder: Path, closure: Sequence[str], paths: Sequence[str], *, key: Path | None = None, options: str = ""
    ) -> Ended:
        """Copies `paths` without the rest of their `closure` into a binary cache in `folder`, signed with a `key`."""
        url = f"file://{folder}{options}"
        with stubs(folder, [path for path in closure if path not in paths]):
            return self.copy("--no-recursive", paths=paths, to=signing(url, key) if key else url)

    def add(self, folder: Path) -> str:
        """The store path of a copy of `folder`, which is derived from its content."""
        return self._store(os.fspath(folder), "--add", os.fspath(folder)).out.strip()

    def check_push(self, cache: BinaryCache) -> None:
        """Raises InputError if a program that `push` needs is missing; Nix' own programs are there already."""

    def push(self, cache: BinaryCache, paths: Sequence[str], key: Secret | None, recipe: Path) -> Ended:  # noqa: ARG002
        """Copies the closures of `paths`, built from `recipe`, to the cache, with signatures where a `key` is given.

        With a key, unsigned paths that the cache already has are signed there if they are the same as here, and
        replaced otherwise. Without one they stay as they are.
        """
        if key is None:
            return self.copy(paths=paths, to=cache.url)
        with key_file(key) as file:
            if cache.url.startswith("ssh-ng:"):  # a store, which takes the signatures along
                signed = self.sign(file, key, "--recursive", *paths)
                return signed if signed.status != 0 else self.copy(paths=paths, to=cache.url, secret=key)
            ended = self.copy(paths=paths, to=signing(cache.url, file), secret=key)
            if ended.status != 0 or self.whole(cache, paths):
                return ended
            closure = self.closure(*paths)
            return self._sign_present(cache, closure, closure, file, key, last=paths)

    def _sign_present(
        self,
        cache: BinaryCache,
        closure: Sequence[str],
        present: Sequence[str],
        file: Path,
        key: Secret,
        *,
        last: Sequence[str],
    ) -> Ended:
        """Signs what the cache has of `present` without a signature, and replaces what is not the same as here.

        What is signed is never replaced: somebody may have it. What lacks its archive is put there again.
        """
        unsigned = [path for path in present if not self.verified(cache, [path])]
        others, gone = [path for path in unsigned if not self._same(cache, path)], unfetchable(cache.url, last)
        if others and not writable(cache.url):
            return Ended(status=1, err=f"error: another build of {others[0]} is there, and is not signed; remove it")
        if gone and not writable(cache.url):
            return Ended(status=1, err=f"error: the archive of {gone[0]} is not there; remove its entry")
        others += [path for path in gone if path not in others and path in present]
        if others:
            with tempfile.TemporaryDirectory(prefix="ci-runner-cache-") as folder:
                ended = self.copy_alone(Path(folder), closure, others, key=file)
                if ended.status == 0:
                    ended = upload(Path(folder), cache.url, others, last=last, seconds=self._seconds)
            if ended.status != 0:
                return ended
        same = [path for path in unsigned if path not in others]
        return self.sign(file, key, "--store", cache.url, *same) if same else Ended(status=0)

    def push_text(self, cache: BinaryCache, path: str) -> Ended:
        """Copies what `add_text` added to the cache. Its path is the hash of its content, so it needs no signature."""
        return self.copy(paths=[path], to=cache.url)

    def is_signed_here(self, path: str) -> bool:
        """Whether this machine's store has a signature of `path` by anyone, for example by its own daemon."""
        ended = self._nix("path-info", "--sigs", path)
        return any(_SIGNATURE.fullmatch(word) for word in ended.out.split()[1:])

    def sign(self, file: Path, key: Secret, *what: str) -> Ended:
        """Signs paths with the `key` in `file`."""
        self._verified.clear()
        return self._nix("store", "sign", *_FRESH, "--key-file", str(file), *what, secret=key)

    def _same(self, cache: BinaryCache, path: str) -> bool:
        """Whether the cache has this store's content of `path`, with the same references."""
        here, there = (self.described([path], url)[path] for url in ("", cache.url))
        return here.content == there.content and sorted(here.references) == sorted(there.references)

    def contents(self, paths: Sequence[str], url: str = "") -> dict[str, str]:
        """The hash of each path's content (NAR) in the store or in the cache at `url`.

        Raises StageError for a path that it lacks.
        """
        where = (*_FRESH, "--store", url) if url else ()
        told = "".join(self._query("--hash", *part, *where) for part in _parts(paths))
        return dict(zip(paths, told.split(), strict=True))

    def difference(self, cache: BinaryCache, path: str) -> str:
        """Which files differ between this store's build of `path` and the cache's; '' if that is not known."""
        found = []
        for url in ("", cache.url):
            with tempfile.TemporaryFile() as archive:
                ended = self.dump(path, archive, url)
                archive.seek(0)
                try:
                    found.append(listing(archive))
                except DamagedArchiveError:
                    return f"it cannot be read: {ended.said}"
        return difference(*found)

    def dump(self, path: str, archive: IO[bytes], url: str) -> Ended:
        """Writes the content of `path` in the cache at `url` ('': in the store) to `archive` (NAR). Checks no hash."""
        where = (*_FRESH, "--store", url) if url else ()
        return self._nix("store", "dump-path", *where, path, out=archive)

    def uncarried(self, cache: BinaryCache, closure: Mapping[str, str], recipe: Path) -> dict[str, str]:  # noqa: ARG002
        """Those paths of `closure` that the cache does not have with the content that is stated there.

        Each with the hash of the content that the cache has, or '' if it lacks the path.
        """
        unlike = self._unlike(cache.url, closure)
        gone = closure.keys() & unfetchable(cache.url, [path for path in closure if path not in unlike])
        return unlike | dict.fromkeys(gone, "")

    def differing(self, cache: BinaryCache, closure: Mapping[str, str]) -> list[str]:
        """The paths of `closure` that users of the cache get with another content than is stated there."""
        return [path for path, theirs in self._unlike(cache.url, closure).items() if theirs]

    def _unlike(self, url: str, closure: Mapping[str, str]) -> dict[str, str]:
        absent = self.lacks(list(closure), url)
        theirs = dict.fromkeys(closure, "") | self.contents([path for path in closure if path not in absent], url)
        return {path: theirs[path] for path, content in closure.items() if theirs[path] != content}

    def holds(self, cache: BinaryCache, closure: Mapping[str, str]) -> bool:
        """Whether the cache holds all paths of `closure` with the content whose hash it states."""
        try:
            return self.contents(list(closure), cache.url) == closure
        except StageError:  # the cache lacks a path
            return False

    def signed(self, cache: BinaryCache, paths: Sequence[str]) -> bool:
        """Whether the cache holds the closures of `paths`, every path with a valid signature by a key of it."""
        return self.verified(cache, paths, "--recursive")

    def whole(self, cache: BinaryCache, paths: Sequence[str]) -> bool:
        """Whether users can fetch `paths` from the cache: it is `signed`, and the archives are there too."""
        return self.signed(cache, paths) and not unfetchable(cache.url, paths)

    def verified(self, cache: BinaryCache, paths: Sequence[str], *options: str) -> bool:
        """Whether the cache holds `paths`, each with a valid signature by one of its keys."""
        asked = {(cache.url, *cache.keys, path, *options) for path in paths}
        if asked <= self._verified:
            return True
        valid = self.signed_by(cache.keys, cache.url, paths, *options)
        if valid:
            self._verified |= asked
        return valid

    def signed_by(self, keys: Sequence[str], url: str, paths: Sequence[str], *options: str) -> bool:
        """Whether the cache at `url` holds `paths`, each with a valid signature by one of `keys`."""
        trusted = ("--option", "trusted-public-keys", " ".join(keys))
        where = ("--store", url, "--no-contents", *options)
        return self._nix("store", "verify", *_FRESH, *trusted, *where, *paths).status == 0

    def cat(self, path: str, url: str) -> Ended:
        """The content of a path of the cache at `url` that is a file."""
        return self._nix("store", "cat", *_FRESH, "--store", url, path)

    def reach(self, cache: BinaryCache) -> None:
        """Raises StageError where the cache does not answer, or not without credentials."""
        ended = self._nix("store", "ping", "--store", cache.url)
        if ended.status != 0:
            raise failure(cache.url, Code.CACHE_UNREACHABLE, f"it does not answer here: {ended.said}")

    def _query(self, *arguments: str) -> str:
        return self._store(arguments[-1], "--query", *arguments).out

    def _store(self, what: str, *arguments: str) -> Ended:
        ended = self._ask("nix-store", *arguments)
        if ended.status != 0:
            raise failure(what, Code.NIX, ended.said)
        return ended

    def _nix(self, *arguments: str, **more: Any) -> Ended:
        return self._ask("nix", "--extra-experimental-features", "nix-command", *arguments, **more)

    def _ask(self, name: str, *arguments: str, **more: Any) -> Ended:
        """Runs one of Nix' programs. `more` are further arguments of `ask`."""
        return ask([self._programs[name], *arguments], seconds=self._seconds, **more)


def _unescaped(text: str) -> str:
    escapes = {"n": "\n", "r": "\r", "t": "\t"}
    return re.sub(r"\\(.)", lambda match: escapes.get(match[1], match[1]), text, flags=re.DOTALL)


def _infos(text: str) -> Iterator[tuple[str, PathInfo]]:
    """Paths as `nix-store --dump-db` prints them.

    Each has lines with its name, the hash in base 16, the size, the deriver, how many references it has, and these.
    Raises ValueError for any other text.
    """
    lines = text.splitlines()
    while lines:
        path, digest, size, _, count, *rest = lines
        references, lines = tuple(rest[: int(count)]), rest[int(count) :]
        if len(references) != int(count):
            raise ValueError(path)
        content = f"sha256:{base32(bytes.fromhex(digest))}"
        yield path, PathInfo(content=content, size=int(size), references=references)


def reachable(paths: Sequence[str], infos: Mapping[str, PathInfo]) -> set[str]:
    """`paths` and everything that they refer to. What `infos` does not have is taken to refer to nothing."""
    return set(reached(paths, lambda path: infos[path].references if path in infos else ()))


def _parts(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    return (paths[start : start + _PATHS_A_COMMAND] for start in range(0, len(paths), _PATHS_A_COMMAND))


def signing(url: str, file: Path) -> str:
    """The store URL of a cache, with the key that signs the copied paths."""
    return f"{url}{'&' if '?' in url else '?'}secret-key={quote(os.fspath(file))}"
