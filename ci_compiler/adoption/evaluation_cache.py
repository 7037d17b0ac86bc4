"""The cache of evaluations: the derivation of a recipe, by all that it depends on.

An entry's key is the text of the recipe and of every file that it names, directly or not, and the nixpkgs in use. A
recipe that depends on anything else, such as a nixpkgs that is not pinned or the environment, is never in the cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci_compiler.files.atomic import write_file
from ci_compiler.outside import bytes_of, object_of
from ci_compiler.recipes.named import reached

_FORMAT = 2
_PINNED = re.compile(r"/[0-9a-f]{40}(\.|/|$)")
_ARCHIVE = re.compile(r"https?://[^\s\"']*(?:/archive/|/tarball/|nixexprs)[^\s\"';]*")
_IMPURE = re.compile(r"<nixpkgs|\bfetchGit\b|\bfetchTree\b|\bgetFlake\b|\bgetEnv\b|\bcurrentSystem\b|\bcurrentTime\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationCache:
    """The cache in `folder`, which need not exist."""

    folder: Path

    @staticmethod
    def usual() -> EvaluationCache:
        """The cache of this user, in XDG_CACHE_HOME."""
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return EvaluationCache(folder=Path(base, "ci-compiler/evaluations"))

    def key(self, root: Path, recipe: Path, nixpkgs: Path | None) -> str:
        """The key of `recipe`; '' if it may evaluate to something else tomorrow.

        `nixpkgs` is the folder in use, which must be in the Nix store, where nothing changes.
        """
        if nixpkgs is not None and not nixpkgs.is_relative_to("/nix/store"):
            return ""
        hashed = hashlib.sha256(json.dumps([_FORMAT, str(nixpkgs or ""), recipe.name]).encode())
        for path in sorted(reached(recipe.resolve(), root.resolve())):
            data = bytes_of(path)
            text = data.decode(errors="replace")
            mutable = [url for url in _ARCHIVE.findall(text) if not _PINNED.search(url)]
            if path.suffix == ".nix" and (mutable or _IMPURE.search(text)):
                return ""
            hashed.update(json.dumps([str(path.relative_to(root.resolve())), len(data)]).encode() + data)
        return hashed.hexdigest()

    def get(self, key: str) -> dict[str, Any] | None:
        """The entry of `key`; None if there is none."""
        try:
            return object_of(bytes_of(self.folder / f"{key}.json"))
        except OSError:
            return None

    def put(self, entries: Mapping[str, Mapping[str, Any]]) -> None:
        """Adds entries, by key. A folder that cannot be written is left alone."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for key, value in entries.items():
                write_file(self.folder / f"{key}.json", json.dumps(value))
        except OSError:
            return
