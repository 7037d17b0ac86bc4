"""What recipes read, by their texts: recipes of other packages, shared files, other repositories' archives."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ci_compiler.adoption.checkouts import AdoptedCheckout
from ci_compiler.adoption.evaluator import recipe_folder, text_of
from ci_compiler.adoption.names import Row
from ci_compiler.adoption.spec_forms import fits, sri
from ci_compiler.variant import VariantName

_NIX_FILE = re.compile(r"([A-Za-z0-9_][\w.-]*)\.nix\b")
_RELATIVE = re.compile(r"(?<![\w./])(\.{1,2}/[\w./-]+)")
_ARCHIVE = re.compile(
    r"https://github\.com/(?P<repository>[\w.-]+/[\w.-]+?)/(?:archive|tarball)/(?P<rev>[0-9a-f]{40})"
    r"[^;}]*;(?:\s*sha256\s*=\s*\"(?P<hash>[^\"]+)\")?"
)
_AROUND_A_NAME = re.compile(r"^build-|-nix$")


@dataclass(slots=True, kw_only=True)
class Elsewhere:
    """A package that another repository builds: the repository, and its commit and hash by branch."""

    repository: str
    rev: dict[str, str] = field(default_factory=dict)
    hash: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """What the recipes of a package read: the packages whose recipes they import, and the repository's shared files.

    `elsewhere` are packages that other repositories build, by name.
    """

    needs: tuple[str, ...]
    shared: tuple[str, ...]
    elsewhere: Mapping[str, Elsewhere]


def reads_of(kinds: Sequence[Sequence[Row]], checkouts: Sequence[AdoptedCheckout]) -> dict[str, Reads]:
    """What the recipes of each package read, by one recipe of each of `kinds` and the files that it imports."""
    places = {path: checkout for checkout in checkouts for path in checkout.recipes}
    built: dict[str, dict[str, str]] = {}
    for row in (row for alike in kinds for row in alike):
        built.setdefault(row.branch, {})[row.name] = row.package
    found: dict[str, tuple[dict[str, None], dict[str, None], dict[str, Elsewhere]]] = {}
    for row in (alike[0] for alike in kinds):
        needs, shared, elsewhere = found.setdefault(row.package, ({}, {}, {}))
        texts = _texts(row.path, places[row.path])
        shared |= {_shared(file, places[row.path]): None for file in texts if file != row.path}
        if row.listed:
            continue
        stems = _NIX_FILE.findall("\n".join(texts.values()))
        needs |= {built[row.branch][stem]: None for stem in stems if stem in built[row.branch]}
        for text in texts.values():
            _add_archives(elsewhere, row.branch, text, stems)
    packages = {package for names in built.values() for package in names.values()}
    return {
        package: Reads(
            needs=tuple(need for need in [*needs, *elsewhere] if need != package),
            shared=tuple(sorted(shared)),
            elsewhere={name: one for name, one in elsewhere.items() if name not in packages},
        )
        for package, (needs, shared, elsewhere) in found.items()
    }


def _texts(path: Path, checkout: AdoptedCheckout) -> dict[Path, str]:
    """A recipe and the shared files that it names, directly or not, with their texts."""
    root, waiting, texts = checkout.folder, [path], dict[Path, str]()
    while waiting:
        file = waiting.pop()
        texts[file] = text_of(file)
        for literal in _RELATIVE.findall(texts[file]) if file.suffix == ".nix" else ():
            there = Path(os.path.normpath(file.parent / literal))
            there = there / "default.nix" if there.is_dir() else there
            if there not in texts and there.is_relative_to(root) and there.is_file():
                waiting += [there] * (there not in checkout.recipes)
    return texts


def _shared(file: Path, checkout: AdoptedCheckout) -> str:
    """The path to declare for a shared file: its folder beside the recipes, else the file."""
    folder = recipe_folder(checkout.folder)
    if file.is_relative_to(folder) and (inner := file.relative_to(folder)).parts[:-1]:
        file = folder / inner.parts[0]
    return file.relative_to(checkout.folder).as_posix()


def _add_archives(found: dict[str, Elsewhere], branch: str, text: str, stems: Sequence[str]) -> None:
    """Adds the repositories whose recipes `text` imports. A recipe's name, or the repository's, tells the package."""
    for match in _ARCHIVE.finditer(text):
        repository = match["repository"]
        said = next((name for stem in stems if (name := VariantName.parse(stem))), None)
        package = said.package if said else _AROUND_A_NAME.sub("", repository.split("/")[1])
        if (
            repository.endswith("/nixpkgs")
            or not fits("repository-name", repository)
            or not fits("package-name", package)
        ):
            continue
        one = found.setdefault(package, Elsewhere(repository=repository))
        if one.repository == repository:
            one.rev.setdefault(branch, match["rev"])
            if digest := sri(match["hash"] or ""):
                one.hash.setdefault(branch, digest)
