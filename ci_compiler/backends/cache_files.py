"""The files of a binary cache: entries (`HASH.narinfo`) and archives (`nar/`), written to a folder and uploaded.

Nix itself copies only paths whose references the target has, and never replaces an entry. Both are done here.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import requests

from ci_compiler.backends.job import show
from ci_compiler.outside import text_of
from ci_compiler.process import Ended, ask, find_program, located

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

_ENTRY_LINE = re.compile(r"^([A-Za-z]+): (.*)$", re.MULTILINE)
_KEY = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._/+-]*")
"""A file of a cache, as an entry may name it."""

_TIMEOUT, _AT_ONCE, _ABSENT = (30, 120), 8, {404, 410}


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


class _Folder:
    """The files of a cache in a folder. As for other places, the methods raise OSError if it does not answer."""

    def __init__(self, url: str) -> None:
        self._folder = Path(urlsplit(url).path)

    def read(self, key: str) -> str:
        """An entry; '' if there is none."""
        path = self._folder / key
        return text_of(path, errors="replace") if path.is_file() else ""

    def has(self, key: str, size: str) -> bool:
        """Whether an archive is there, with that size in bytes ('': any)."""
        path = self._folder / key
        return path.is_file() and size in {"", str(path.stat().st_size)}


class _Server:
    """The files of a cache on a web server."""

    def __init__(self, url: str) -> None:
        self._url = url.partition("?")[0].rstrip("/")

    def read(self, key: str) -> str:
        answer = self._asked("GET", key)
        return answer.text if answer.ok else ""

    def has(self, key: str, size: str) -> bool:
        answer = self._asked("HEAD", key)
        return answer.ok and size in {"", answer.headers.get("Content-Length", size)}

    def _asked(self, method: str, key: str) -> requests.Response:
        plain = {"Accept-Encoding": "identity"}
        answer = requests.request(method, f"{self._url}/{key}", headers=plain, timeout=_TIMEOUT, allow_redirects=True)
        if not answer.ok and answer.status_code not in _ABSENT:
            message = f"it answered {answer.status_code}"
            raise OSError(message)
        return answer


class _Bucket:
    """The files of a cache on S3, by the AWS CLI."""

    def __init__(self, url: str) -> None:
        if not located("aws"):
            message = "aws is not on PATH"
            raise OSError(message)
        self._command, self._bucket = _aws(url), urlsplit(url).netloc

    def read(self, key: str) -> str:
        return self._asked("s3", "cp", f"s3://{self._bucket}/{key}", "-")

    def has(self, key: str, size: str) -> bool:
        where = ("--bucket", self._bucket, "--key", key, "--query", "ContentLength")
        found = self._asked("s3api", "head-object", *where)
        return bool(found) and size in {"", found}

    def _asked(self, *arguments: str) -> str:
        ended = ask([*self._command, *arguments], seconds=_TIMEOUT[1])
        if ended.status != 0 and not re.search(r"\(404\)|NoSuchKey", ended.err):
            raise OSError(ended.said)
        return ended.out.strip()


_FILES: Mapping[str, Callable[[str], _Folder | _Server | _Bucket]] = {
    "file": _Folder,
    "http": _Server,
    "https": _Server,
    "s3": _Bucket,
}
"""How the files of a cache are read, by the scheme of its URL; other URLs are those of stores, without archives."""


def unfetchable(url: str, paths: Sequence[str]) -> list[str]:
    """What the cache at `url` has of the closures of `paths` without the archive that its entry names.

    Nix believes the entry, and users get an error. Where the cache does not answer, this is printed, and nothing found.
    """
    kind = _FILES.get(urlsplit(url).scheme)
    try:
        gone = list(_without_archive(kind(url), [Path(path).name for path in paths])) if kind and paths else []
    except OSError as error:
        show(f"not looked for: the archives in {url}: {error}")
        return []
    return [str(Path(paths[0]).with_name(name)) for name in gone]


def _without_archive(files: _Folder | _Server | _Bucket, new: Sequence[str]) -> Iterator[str]:
    seen = set[str]()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        while new:
            seen.update(new)
            texts = zip(new, pool.map(files.read, [f"{name[:32]}.narinfo" for name in new]), strict=True)
            entries = {name: dict(_ENTRY_LINE.findall(text)) for name, text in texts if text}
            keys = [entry["URL"] if _KEY.fullmatch(entry.get("URL", "")) else "nar/none" for entry in entries.values()]
            there = pool.map(files.has, keys, [entry.get("FileSize", "") for entry in entries.values()])
            yield from (name for name, is_there in zip(entries, there, strict=True) if not is_there)
            new = sorted({name for entry in entries.values() for name in entry.get("References", "").split()} - seen)


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
    command = [*_aws(url), "s3", "cp", "--only-show-errors", "--recursive", str(folder), f"s3://{target.netloc}"]
    for chosen in (["--exclude", "*.narinfo"], first, rest):
        ended = ask([*command, *chosen], seconds=seconds)
        if ended.status != 0:
            return ended
    return ended


def _aws(url: str) -> list[str]:
    """The AWS CLI with the options in the URL of a cache. Raises InputError if it is missing."""
    aws, options = find_program("aws", install=AWS), dict(parse_qsl(urlsplit(url).query))
    more = [word for name, flag in _S3_OPTIONS.items() if name in options for word in (flag, options[name])]
    if "endpoint" in options:
        more += ["--endpoint-url", f"{options.get('scheme', 'https')}://{options['endpoint']}"]
    return [aws, *more]


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
