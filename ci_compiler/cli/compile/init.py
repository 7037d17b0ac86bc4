"""`ci-compile init`: writes a first spec with the files that it names, and its JSON Schema for editors."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ci_compiler.cli.console import note
from ci_compiler.cli.toolkit import toolkit
from ci_compiler.cli.where import SCHEMA_BESIDE, SPEC, root_of
from ci_compiler.errors import InputError, Place
from ci_compiler.files.atomic import change_folders, reporting
from ci_compiler.files.drift import in_the_way, obstacle, writing
from ci_compiler.outside import bytes_of
from ci_compiler.spec.build import STARTERS, parse_spec
from ci_compiler.spec.model import RecipeKind, Spec
from ci_compiler.spec.schema import schema_text

_TOOLKIT = """
# Hosted jobs install ci-compiler from here. Remove it to install a release from the package index.
toolkit: {where}
"""


def run(arguments: argparse.Namespace) -> int:
    """Writes all files of the template, or none. Raises InputError if one is in the way or the owner is not valid."""
    root = root_of(arguments)
    files = _files(arguments.template)
    if arguments.owner is not None:
        files[SPEC] = files[SPEC].replace("owner: my-org", f"owner: {arguments.owner}")
    if where := toolkit(root):
        files[SPEC] += _TOOLKIT.format(where=where)
    spec = _parsed(files[SPEC])
    if problems := {path: problem for path, text in files.items() if (problem := _problem(root, path, text))}:
        raise InputError(in_the_way(path.as_posix(), problem) for path, problem in problems.items())
    _write(root, files)
    *names, last = [SPEC.as_posix(), *(path.as_posix() for path in files if path != SPEC)]
    compiled = spec.backend.has_recipes and not any(
        package.may_be(RecipeKind.OWN) for package in spec.packages.values()
    )
    commands = "`ci-compile` and `ci-compile recipes`" if compiled else "`ci-compile`"
    print(f"wrote {', '.join(names)} and {last}; edit the spec, then run {commands}")
    if where:
        note(f"hosted jobs will install ci-compiler from {where} (`toolkit` in the spec)")
    else:
        note(f"hosted jobs will install {spec.toolkit} from the package index; set `toolkit` if it has no such release")
    return 0


def _parsed(text: str) -> Spec:
    """The spec whose text is `text`. Raises InputError about `--owner`, which is all that can be wrong in it."""
    try:
        return parse_spec(text.encode(), shown="--owner")
    except InputError as error:
        raise InputError(replace(finding, place=Place(file="--owner")) for finding in error.findings) from None


def _files(template: str) -> dict[Path, str]:
    """The files that `template` writes, by path. The spec comes last, so that it is there only if all others are."""
    folder = STARTERS / template
    every = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    paths = [path for path in every if "__pycache__" not in path.parts]  # pip compiles what it installs
    texts = {path: (folder / path).read_text("utf-8") for path in paths}
    return {SCHEMA_BESIDE: schema_text(), **{path: texts[path] for path in paths if path != SPEC}, SPEC: texts[SPEC]}


def _problem(root: Path, path: Path, text: str) -> str:
    """Why the file at `path` cannot be written; '' if it can, or is there already with this text."""
    if problem := obstacle(root, path.as_posix()):
        return problem
    target = root / path
    if path == SCHEMA_BESIDE or not target.exists():
        return ""
    if path != SPEC and bytes_of(target) == text.encode():
        return ""
    return "exists already; edit it, or move it away first"


def _write(root: Path, files: Mapping[Path, str]) -> None:
    """Writes `files`, each of which is in a folder, in one step. Raises InputError."""
    folders: dict[Path, dict[str, str | None]] = {}
    for path, text in files.items():
        folders.setdefault(root / path.parent, {})[path.name] = text
    folders[root / SPEC.parent] = folders.pop(root / SPEC.parent)  # the last one, where it must be one by one
    with reporting(root):
        for folder in folders:
            folder.parent.mkdir(parents=True, exist_ok=True)
        with writing(*folders):
            change_folders(folders)
