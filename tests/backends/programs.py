"""Programs that only note how they were started, and answer as a test says; store paths and a cache to give to them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from zlib import crc32

import pytest

from ci_compiler.errors import InputError, StageError
from ci_compiler.spec.model import Cache

NIX = "nix --extra-experimental-features nix-command"
FRESH = "--option narinfo-cache-negative-ttl 0 --option narinfo-cache-positive-ttl 0"

URL, KEY = "https://cache.example.org", "cache-1:public"
CACHE = Cache(url=URL, public_key=KEY)


def path(name: str) -> str:
    """A store path, whose hash is the first letter of its name, or a digit for a letter that no hash has."""
    return f"/nix/store/{name[0].translate(str.maketrans('eotu', '0123')) * 32}-{name}"


def says(*lines: str) -> str:
    """The answer that prints `lines`."""
    return f"printf '%s\\n' {shlex.join(lines)}"


def fails(message: str, status: int = 1) -> str:
    """The answer of a program that fails."""
    return f"echo {shlex.quote(f'error: {message}')} >&2; exit {status}"


def once(first: str, then: str) -> str:
    """The answer that is `first` the first time only."""
    return f'if mkdir "${{0%/*}}/{crc32(first.encode())}" 2>&-; then {first}; else {then}; fi'


def outcome(call: Callable[[], object]) -> object:
    """What `call` returns, or the error that it raises for a user, as text."""
    try:
        return call()
    except (InputError, StageError) as error:
        return str(error)


TORCH, NUMPY = path("torch-2.8.0"), path("numpy-2.0")
HASH, OTHER_HASH = f"sha256:{'0' * 52}", f"sha256:{'1' * 52}"
DUMPED = (TORCH, "00" * 32, "120", "", "1", NUMPY, NUMPY, "00" * 32, "24", "", "0")
"""What `nix-store --dump-db` prints of TORCH, which needs NUMPY."""


def derived(*outputs: str, uses: Mapping[str, str] = MappingProxyType({}), **attributes: str) -> str:
    """The answer that prints a derivation with these outputs, which uses an output of each of `uses`."""
    lists = (
        (f'("{number}","{one}","","")' for number, one in enumerate(outputs)),
        (f'("{one}",["{output}"])' for one, output in uses.items()),
        (),
        (),
        (f'("{name}","{value}")' for name, value in attributes.items()),
    )
    listed = [f"[{','.join(parts)}]" for parts in lists]
    return says(f'Derive({",".join(listed[:3])},"x86_64-linux","/bin/sh",{",".join(listed[3:])})')


@dataclass(frozen=True, kw_only=True)
class Build:
    """What a manifest states of a build of TORCH."""

    name: str = "torch"
    version: str = "2.8.0"
    branch: str = "main"
    commit: str = "c" * 40
    derivation: str = path("torch-2.8.0.drv")
    store_path: str = TORCH
    outputs: tuple[str, ...] = (TORCH,)
    closure: Mapping[str, str] = field(default_factory=lambda: {NUMPY: HASH, TORCH: HASH})
    staged: str = ""
    python_modules: tuple[str, ...] = ()


class Programs:
    """Programs in a folder that is the whole PATH.

    Temporary files and folders are in `temporary`; in `commands` they are called as their prefixes are, and the folder
    of the test is called HERE.
    """

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, *names: str) -> None:
        self.folder, self.temporary, self._log = folder / "bin", folder / "temporary", folder / "commands"
        self._here = str(folder)
        for made in (self.folder, self.temporary):
            made.mkdir()
        patch.setenv("PATH", str(self.folder))
        for module in ("nix_store", "nix_programs", "own_store"):  # the cache is no server
            patch.setattr(f"ci_compiler.backends.{module}.unfetchable", lambda *_: [])
        patch.setattr("tempfile.tempdir", str(self.temporary))
        self._answers: dict[str, str] = {}
        self.answer({})
        for name in names:
            (self.folder / name).symlink_to("any")

    def answer(self, answers: Mapping[str, str]) -> None:
        """Adds or replaces answers, which are shell, by the commands (with `*`) that they are for: the first counts."""
        self._answers |= answers
        cases = (
            f"{'*'.join(shlex.quote(part) if part else '' for part in command.split('*'))}) {answer} ;;"
            for command, answer in self._answers.items()
        )
        started = f'started="${{0##*/}}${{*:+ $*}}"\nprintf \'%s\\0\' "$started" >>{self._log}'
        lines = ("#!/bin/sh", "PATH=/usr/bin:/bin", started, 'case "$started" in', *cases, "esac", "")
        (self.folder / "any").write_text("\n".join(lines), "utf-8")
        (self.folder / "any").chmod(0o755)

    @property
    def commands(self) -> list[str]:
        """The commands since the last time."""
        text = self._log.read_text("utf-8") if self._log.exists() else ""
        self._log.unlink(missing_ok=True)
        text = re.sub(rf"{re.escape(str(self.temporary))}/([a-z-]+)-[a-z0-9_]{{8}}(?![a-z0-9_])", r"\1", text)
        return text.replace(self._here, "HERE").split("\0")[:-1]
