"""Builds on their way to the machines that test and publish them, before anything is published.

A staged build is one store path that contains a binary cache: the paths of the build's closure that the cache of the
spec does not serve with the same content. Its name in the store is derived from its content, so that no other write
can take its place, and it is new for each build. Two builds of a recipe that is not bit-reproducible travel side by
side, and the manifest names the one that it describes.

Whoever builds a derivation again on a machine with another store finds its staged builds by pointers. A pointer in the
staging store is a path whose name is derived from the derivation, and whose content is the path of the newest staged
build of it. Everybody who writes there can write a pointer, so that it shows nothing. What it leads to is taken only if
the outputs are signed by one of `cache.builder-keys`. A builder's daemon signs what it built itself, from the
derivation and nothing else; on whose behalf it did makes no difference.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from ci_compiler.backends.cache_files import add_archive, held, sweep, upload, writable
from ci_compiler.backends.forms import FORMS
from ci_compiler.backends.nar import base32, text_archive
from ci_compiler.backends.nix_store import NixStore
from ci_compiler.backends.protocol import BinaryCache
from ci_compiler.codes import Code
from ci_compiler.errors import InputError, StageError
from ci_compiler.outside import bytes_of, expected, object_of, reading
from ci_compiler.process import Ended

_SUFFIX = "-staged"
_CLOSURE = "closure.json"


def staging(cache: BinaryCache) -> str:
    """The URL of the store that staged builds travel through."""
    return cache.staging or cache.url


def staged_name(name: str) -> str:
    """The name of a staged build of the variant `name`, without the hash of its store path."""
    return f"{name}{_SUFFIX}"


def stage(
    store: NixStore, cache: BinaryCache, name: str, closure: Mapping[str, str], paths: Sequence[str]
) -> tuple[str, Ended]:
    """Stages `paths` of the closure of a build of `name`; returns the store path of the staged build.

    Also removes what was staged longer ago than the cache's retention.
    """
    with TemporaryDirectory(prefix="ci-runner-staged-") as temporary:
        folder = Path(temporary, staged_name(name))
        folder.mkdir()
        stated = {"build": uuid.uuid4().hex, "closure": dict(closure)}
        (folder / _CLOSURE).write_text(json.dumps(stated), "utf-8")
        ended = store.copy_alone(folder, list(closure), paths, options="?compression=none")
        path = store.add(folder) if ended.status == 0 else ""
    if path:
        ended = store.copy(paths=[path], to=staging(cache))
        store.discard(path)
    sweep(staging(cache), cache.staging_days, _SUFFIX)
    return path, ended


def fetch_staged(
    store: NixStore,
    cache: BinaryCache,
    path: str,
    *,
    recipe: Path,
    closure: Mapping[str, str] | None = None,
    signed: Sequence[str] = (),
) -> Ended:
    """Copies the closure of the build that is staged at `path` here: the staged paths, and the rest from the cache.

    `closure` has the content of each path that is wanted; None for what the staged build states itself. With `signed`,
    nothing shows that `path` is what a build staged: these paths must then be signed by the builders' keys, and all
    others by a key that is trusted here.
    """
    ended = store.copy(paths=[path], source=staging(cache))
    if ended.status != 0:
        return ended
    try:
        with _opened(path) as (folder, stated):
            if signed and not store.signed_by(cache.builder_keys, f"file://{folder}", signed):
                return Ended(status=1, err=f"error: {path} has no build that a builder's key signed")
            return _take(store, cache, folder, closure or stated, recipe, proved=not signed)
    except StageError as error:  # Nix cannot read what is in it
        return Ended(status=1, err=f"error: {error.findings[0].message}")
    except (InputError, OSError):
        return Ended(status=1, err=f"error: {path} is not a staged build")
    finally:
        store.discard(path)


@contextmanager
def _opened(path: str) -> Iterator[tuple[Path, Mapping[str, str]]]:
    """A folder with the binary cache in a staged build, and the closure that it states.

    Nix creates folders in every cache that it opens, and those of the store are read-only.
    """
    with TemporaryDirectory(prefix="ci-runner-staged-") as temporary:
        folder = Path(temporary)
        for file in Path(path).iterdir():
            (folder / file.name).symlink_to(file)
        with reading(path, Code.CLOSURE_MISSING):
            stated = object_of(bytes_of(folder / _CLOSURE))["closure"]
            closure = {name: expected(str, text) for name, text in stated.items() if FORMS.path.fullmatch(name)}
        yield folder, closure


def _take(
    store: NixStore, cache: BinaryCache, folder: Path, closure: Mapping[str, str], recipe: Path, *, proved: bool
) -> Ended:
    """Copies what the store lacks of `closure`, which has references first; only what is signed, unless `proved`."""
    trust = ("--no-check-sigs",) if proved else ("--option", "extra-trusted-public-keys", " ".join(cache.builder_keys))
    url, staged = f"file://{folder}", set(held(folder))
    for path, content in store.contents(sorted(staged & closure.keys()), url).items():
        if closure[path] != content:
            return Ended(status=1, err=f"error: {path} is staged with another content than the manifest states")
    ended = Ended(status=0)
    for here, part in groupby(store.lacks(list(closure)), staged.__contains__):
        paths = list(part)
        if here:
            ended = store.copy("--no-recursive", *trust, paths=paths, source=url)
        else:
            same = proved and store.holds(cache, {path: closure[path] for path in paths})
            ended = store.fetch(cache, paths, proved=same, recipe=recipe)
        if ended.status != 0:
            return ended
    return ended


_NAME = "ci-runner-staged-build"


def _pointer(derivation: str) -> str:
    digest = hashlib.sha256(f"staged build of {derivation}".encode()).digest()[:20]
    return str(Path(derivation).with_name(f"{base32(digest)}-{_NAME}"))


def point(cache: BinaryCache, derivation: str, staged: str, *, seconds: float) -> Ended:
    """Writes the pointer to the `staged` build of `derivation`, where builders have keys and the store can be written.

    It replaces an earlier one.
    """
    if not cache.builder_keys or not writable(staging(cache)):
        return Ended(status=0)
    with TemporaryDirectory(prefix="ci-runner-pointer-") as name:
        folder, path = Path(name), _pointer(derivation)
        (folder / "nix-cache-info").write_text(f"StoreDir: {Path(derivation).parent}\n", "utf-8")
        add_archive(folder, path, text_archive(f"{staged}\n"))
        return upload(folder, staging(cache), [path], last=(), seconds=seconds)


def take(store: NixStore, cache: BinaryCache, derivation: str, recipe: Path) -> Ended:
    """Fetches what an earlier build of `derivation` staged, if a builder signed its outputs."""
    if not cache.builder_keys:
        return Ended(status=1)
    pointed = store.cat(_pointer(derivation), staging(cache))
    path = pointed.out.strip()
    if pointed.status != 0 or not FORMS.path.fullmatch(path):
        return Ended(status=1)
    return fetch_staged(store, cache, path, recipe=recipe, signed=store.outputs(derivation))
