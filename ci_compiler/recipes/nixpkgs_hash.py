"""Filling in the hashes of the nixpkgs commits that the spec names: the archive is fetched, and the spec is edited."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence

from ci_compiler.codes import Code
from ci_compiler.errors import InputError, wrong
from ci_compiler.plan.pins import COMMIT, HASH, Named, named_commits
from ci_compiler.process import ask, find_program
from ci_compiler.recipes.compiled import ARCHIVE, NIXPKGS
from ci_compiler.spec.build import parse_spec
from ci_compiler.spec.model import Spec

_SECONDS = 900.0
"""The limit for one archive, which has 50 MB."""

_INSTALL = "install Nix; see https://nixos.org/download"


def fetched_hash(commit: str) -> str:
    """The hash of the unpacked archive of a nixpkgs commit, as `fetchTarball` wants it. Raises InputError."""
    url = ARCHIVE.format(repository=NIXPKGS, rev=commit)
    nix32 = _said(["nix-prefetch-url", "--unpack", "--type", "sha256", url])
    digest = bytes.fromhex(_said(["nix-hash", "--type", "sha256", "--to-base16", nix32]))
    return f"sha256-{base64.b64encode(digest).decode()}"


def _said(command: Sequence[str]) -> str:
    program = find_program(command[0], install=_INSTALL, code=Code.NIX_MISSING)
    ended = ask([program, *command[1:]], seconds=_SECONDS)
    if ended.status != 0 or not ended.out.strip():
        raise wrong(command[-1], Code.NIX_FAILED, ended.said or f"{command[0]} printed nothing")
    return ended.out.split()[-1]


def with_hashes(text: str, spec: Spec, hash_of: Callable[[str], str]) -> tuple[str, list[str]]:
    """The text of `spec` with the hash of every nixpkgs commit, and a line for each hash that was missing or wrong.

    Raises InputError for a place that cannot be edited.
    """
    known: dict[str, str] = {}
    changed: list[tuple[Named, str]] = []
    for pin in named_commits(spec):
        known[pin.commit] = known.get(pin.commit) or hash_of(pin.commit)
        if pin.hash != known[pin.commit]:
            changed.append((pin, known[pin.commit]))
    made = _edited(text, spec, changed)
    if _hashes_in(made, spec) != [known[pin.commit] for pin in named_commits(spec)]:
        findings = [
            spec.finding((*one.path, COMMIT), Code.WRONG_VALUE, f"cannot be edited here; write `{HASH}: {right}`")
            for one, right in changed
        ]
        raise InputError(findings)
    return made, [f"{one.branch}: {one.commit} has {right}{_instead(one.hash)}" for one, right in changed]


def _hashes_in(text: str, spec: Spec) -> list[str]:
    """The hashes beside the commits in an edited text; [] if it is no spec any more."""
    try:
        return [pin.hash for pin in named_commits(parse_spec(text.encode(), shown=spec.document.file))]
    except InputError:
        return []


def _instead(before: str) -> str:
    return f", not {before}" if before else ""


def _edited(text: str, spec: Spec, changed: Iterable[tuple[Named, str]]) -> str:
    """The text with these hashes, in the style of the mapping that each commit is in."""
    lines = text.splitlines(keepends=True)
    for one, right in sorted(changed, key=lambda item: spec.place(*item[0].path, COMMIT), reverse=True):
        if one.hash:
            place = spec.place(*one.path, HASH)
            lines[place.line - 1] = lines[place.line - 1].replace(one.hash, right)
            continue
        place = spec.place(*one.path, COMMIT)
        line = lines[place.line - 1]
        end = line.index(one.commit, place.column - 1) + len(one.commit)
        end += line[end : end + 1] in {'"', "'"}
        indent = line[: len(line) - len(line.lstrip())]
        in_block = line.lstrip().startswith(f"{COMMIT}:")
        joint = f"\n{indent}" if in_block else ", "
        lines[place.line - 1] = f"{line[:end]}{joint}{HASH}: {right}{line[end:]}"
    return "".join(lines)
