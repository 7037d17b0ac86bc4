"""Staged builds of a derivation, for whoever builds it again on a machine with another store.

A pointer in the staging store is a path whose name is derived from the derivation, and whose content is the path of the
newest staged build of it. Everybody who writes there can write a pointer, so that it shows nothing. What it leads to is
taken only if the outputs are signed by one of `cache.builder-keys`. A builder's daemon signs what it built itself, from
the derivation and nothing else; on whose behalf it did makes no difference.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from tempfile import TemporaryDirectory

from ci_compiler.backends.cache_files import add_archive, upload, writable
from ci_compiler.backends.forms import FORMS
from ci_compiler.backends.nar import base32, text_archive
from ci_compiler.backends.nix_store import Store
from ci_compiler.backends.protocol import BinaryCache
from ci_compiler.backends.staged import fetch_staged, staging
from ci_compiler.process import Ended

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


def take(store: Store, cache: BinaryCache, derivation: str, recipe: Path) -> Ended:
    """Fetches what an earlier build of `derivation` staged, if a builder signed its outputs."""
    if not cache.builder_keys:
        return Ended(status=1)
    pointed = store.cat(_pointer(derivation), staging(cache))
    path = pointed.out.strip()
    if pointed.status != 0 or not FORMS.path.fullmatch(path):
        return Ended(status=1)
    return fetch_staged(store, cache, path, recipe=recipe, signed=store.outputs(derivation))
