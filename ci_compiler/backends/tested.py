"""Records of passed tests beside the signed paths of a binary cache: publishing writes them, with the cache's key.

A record is a path of the cache whose name is derived from what it states. Whoever knows the statement can ask for it.
Nix needs no signature for a path that is addressed by its content, and everybody who writes to the cache could make
one. A record is therefore not such a path: only the key makes it valid.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from ci_compiler.backends.cache_files import add_archive, upload, writable
from ci_compiler.backends.forms import CACHE_KEY
from ci_compiler.backends.job import BuildRecord, JobContext
from ci_compiler.backends.nar import base32, closure_digest, text_archive
from ci_compiler.backends.nix_environment import key_file
from ci_compiler.backends.nix_store import NixStore
from ci_compiler.backends.protocol import BinaryCache
from ci_compiler.codes import Code
from ci_compiler.errors import StageError, failure
from ci_compiler.process import Ended
from ci_compiler.secret import Secret

Record = tuple[str, str]
"""The store path of a record and its text."""

_NAME = "ci-runner-tested"


def _records(path: str, content: str, tests: Sequence[str]) -> list[Record]:
    """The records that the output `path` with `content`, the hash of its own or of its closure's, passed `tests`."""
    found = []
    for test in tests:
        text = f"{json.dumps({'path': path, 'content': content, 'passed': test}, indent=1)}\n"
        name = f"{base32(hashlib.sha256(text.encode()).digest()[:20])}-{_NAME}"
        found.append((str(Path(path).with_name(name)), text))
    return found


def attest(store: NixStore, job: JobContext, build: BuildRecord, paths: Sequence[str], tests: Sequence[str]) -> None:
    """Writes the records that `paths` of a build passed `tests`, if the job has a cache and its key."""
    cache, key = job.cache, job.secrets.get(CACHE_KEY)
    made = _records_of(store, build, paths, tests)
    if cache is None or key is None or _kept(store, cache, made):
        return
    ended = _keep(store, cache, made, key, seconds=job.seconds)
    if ended.status != 0:
        raise failure(build.name, Code.PUBLISH_FAILED, f"it cannot be copied to {cache.url}: {ended.said}")
    if not _kept(store, cache, made):
        raise unsigned(build, cache)


def attested(store: NixStore, job: JobContext, build: BuildRecord, paths: Sequence[str], tests: Sequence[str]) -> bool:
    """Whether the cache has the records that `paths` of a build passed `tests`."""
    wanted = _records_of(store, build, paths, tests)
    return not wanted or (job.cache is not None and _kept(store, job.cache, wanted))


def unsigned(build: BuildRecord, cache: BinaryCache) -> StageError:
    """The failure of a build that was copied with the publishing key, and has no valid signature."""
    message = f"{cache.url} holds it, but not signed by {key_name(cache)}; {CACHE_KEY} is another key"
    return failure(build.name, Code.PUBLISH_UNSIGNED, message)


def key_name(cache: BinaryCache) -> str:
    """The name of the key that signs what is in the cache, and of those whose signatures count as well."""
    return " or ".join(key.partition(":")[0] for key in cache.keys)


def _records_of(store: NixStore, build: BuildRecord, paths: Iterable[str], tests: Sequence[str]) -> list[Record]:
    """The records about `paths` of a build, whose closure is in the store.

    Each with its own content, for whoever has only the path, and with that of its closure.
    """
    found: list[Record] = []
    for path, closure in (store.closures(tuple(paths)) if tests else {}).items():
        whole = closure_digest({one: build.closure.get(one, "") for one in closure})
        found += [*_records(path, build.closure[path], tests), *_records(path, whole, tests)]
    return found


def _keep(store: NixStore, cache: BinaryCache, made: Sequence[Record], key: Secret, *, seconds: float) -> Ended:
    """Copies records to the cache, signed. One that somebody else put there without a signature is replaced."""
    paths = [path for path, _ in made]
    with TemporaryDirectory(prefix="ci-runner-tested-") as name, key_file(key) as file:
        folder, url = Path(name), f"file://{name}"
        for path, text in made:
            add_archive(folder, path, text_archive(text))
        ended = store.sign(file, key, "--store", url, *paths)
        if ended.status == 0:
            ended = store.copy(paths=paths, source=url, to=cache.url)
        if ended.status == 0 and not _kept(store, cache, made) and writable(cache.url):
            ended = upload(folder, cache.url, paths, last=(), seconds=seconds)
    return ended


def tested_there(store: NixStore, cache: BinaryCache, paths: Sequence[str], tests: Sequence[str]) -> bool:
    """Whether the cache has the records that what it holds of `paths` passed `tests`."""
    held = store.contents(paths, cache.url)
    return _kept(store, cache, [one for path, content in held.items() for one in _records(path, content, tests)])


def _kept(store: NixStore, cache: BinaryCache, wanted: Sequence[Record]) -> bool:
    """Whether the cache has all of these records with a valid signature by its key."""
    return store.verified(cache, [path for path, _ in wanted])
