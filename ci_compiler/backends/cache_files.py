"""The files of a binary cache: entries (`HASH.narinfo`) and archives (`nar/`), written to a folder and uploaded.

Nix itself copies only paths whose references the target has, and never replaces an entry. Both are done here.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from ci_compiler.outside import text_of
from ci_compiler.process import Ended, ask, find_program

AWS = "install the AWS CLI: Nix itself copies only whole closures to S3"
_S3_OPTIONS = {"region": "--region", "profile": "--profile"}

_ENTRY = """\
StorePath: {path}
URL: nar/{hash}.nar
Compression: none
FileHash: sha256:{hash}
FileSize: {size}
NarHash: sha256:{hash}
NarSize: {size}
"""
"""The entry of a path that refers to nothing."""


def writable(url: str) -> bool:
    """Whether `upload` can write to the cache at `url`."""
    return urlsplit(url).scheme in {"file", "s3"}


def entry(folder: Path, path: str) -> Path:
    """The file of a store path in the binary cache in `folder`."""
    return folder / f"{Path(path).name[:32]}.narinfo"


@contextmanager
def stubs(folder: Path, paths: Sequence[str]) -> Iterator[None]:
    """Within it, the binary cache in `folder` claims to have `paths`.

    Nix refuses to copy what refers to a path without an entry.
    """
    for path in paths:
        entry(folder, path).write_text(_ENTRY.format(path=path, hash="0" * 52, size=1), "utf-8")
    yield
    for path in paths:
        entry(folder, path).unlink()


def add_archive(folder: Path, path: str, archive: bytes) -> None:
    """Adds a store path that refers to nothing, with its content (NAR), to the binary cache in `folder`."""
    digest = hashlib.sha256(archive).hexdigest()
    (folder / "nar").mkdir(exist_ok=True)
    (folder / "nar" / f"{digest}.nar").write_bytes(archive)
    entry(folder, path).write_text(_ENTRY.format(path=path, hash=digest, size=len(archive)), "utf-8")


def held(folder: Path) -> Iterator[str]:
    """The store paths that the binary cache in `folder` has."""
    for file in sorted(folder.glob("*.narinfo")):
        yield _field(file, "StorePath")


def sweep(url: str, days: int, name: str) -> None:
    """Removes store paths whose names end with `name` from a cache in a folder, if they are older than `days`.

    The retention of other caches is configured where they are.
    """
    target = urlsplit(url)
    if target.scheme != "file":
        return
    for file in Path(target.path).glob("*.narinfo"):
        if file.stat().st_mtime < time.time() - days * 86400 and _field(file, "StorePath").endswith(name):
            archive = Path(target.path, _field(file, "URL"))
            file.unlink()
            archive.unlink(missing_ok=True)


def _field(file: Path, name: str) -> str:
    lines = (line.partition(": ") for line in text_of(file).splitlines())
    return next((value for key, _, value in lines if key == name), "")


def upload(folder: Path, url: str, paths: Sequence[str], *, last: Sequence[str], seconds: float) -> Ended:
    """Copies the binary cache in `folder` to the one at `url`: archives, then entries, those of the paths `last` last.

    Existing entries are replaced. Raises InputError if the program that copies to S3 is missing.
    """
    target = urlsplit(url)
    if target.scheme == "file":
        ordered = [path for path in paths if path not in last] + [path for path in paths if path in last]
        for file in _in_order(folder, ordered):
            _place(file, Path(target.path, file.relative_to(folder)))
        return Ended(status=0)
    outputs = [f"{entry(folder, path).name}" for path in last]
    first = [word for name in outputs for word in ("--exclude", name)]
    rest = ["--exclude", "*", *(word for name in outputs for word in ("--include", name))]
    aws = find_program("aws", install=AWS)
    options = dict(parse_qsl(target.query))
    more = [word for name, flag in _S3_OPTIONS.items() if name in options for word in (flag, options[name])]
    if "endpoint" in options:
        more += ["--endpoint-url", f"{options.get('scheme', 'https')}://{options['endpoint']}"]
    command = [aws, *more, "s3", "cp", "--only-show-errors", "--recursive", str(folder), f"s3://{target.netloc}"]
    for chosen in (["--exclude", "*.narinfo"], first, rest):
        ended = ask([*command, *chosen], seconds=seconds)
        if ended.status != 0:
            return ended
    return ended


def _in_order(folder: Path, paths: Sequence[str]) -> Iterator[Path]:
    yield folder / "nix-cache-info"
    yield from (folder / "nar").iterdir()
    yield from (entry(folder, path) for path in paths)


def _place(file: Path, target: Path) -> None:
    """Copies a file so that no reader ever sees a part of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.copyfile(file, part)
    part.replace(target)
