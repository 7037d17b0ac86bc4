"""Nix' archive format (NAR): the files in an archive, and how two archives differ.

The format is described in the Nix manual, protocols, "Nix Archive Format".
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import IO

from ci_compiler.units import counted

_CHUNK = 1 << 20
_SHOWN = 5


_BASE32 = "0123456789abcdfghijklmnpqrsvwxyz"
"""The digits of Nix' base 32, which writes a number with its last digit first (Nix manual, "Store Path", encoding)."""


class DamagedArchiveError(Exception):
    """The data is not an archive, or not a whole one."""


def closure_digest(closure: Mapping[str, str]) -> str:
    """A hash of the content of a whole closure, which has the hash of each path's content."""
    lines = "".join(f"{path} {digest}\n" for path, digest in sorted(closure.items()))
    return f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


def hex_digest(content: str) -> str:
    """The digits of a hash as Nix prints it (`sha256:` and base 32), or as a file's digest is written, in base 16."""
    digits = content.removeprefix("sha256:")
    if len(digits) == 64:
        return digits
    number = sum(_BASE32.index(digit) << 5 * at for at, digit in enumerate(reversed(digits)))
    return number.to_bytes(32, "little").hex()


def base32(data: bytes) -> str:
    """`data` in Nix' base 32."""
    number = int.from_bytes(data, "little")
    return "".join(_BASE32[number >> at & 31] for at in reversed(range(0, len(data) * 8, 5)))


def text_archive(text: str) -> bytes:
    """The archive of a regular file with the content `text`."""
    words = ("nix-archive-1", "(", "type", "regular", "contents", text, ")")
    return b"".join(_written(word.encode()) for word in words)


def _written(data: bytes) -> bytes:
    """`data` as `_text` reads it."""
    return len(data).to_bytes(8, "little") + data + bytes(-len(data) % 8)


def listing(archive: IO[bytes]) -> dict[str, str]:
    """What is at each path in an archive: the hash of a file, the target of a link. Raises DamagedArchiveError."""
    if _text(archive) != "nix-archive-1":
        raise DamagedArchiveError
    return dict(_node(archive, "."))


def difference(one: Mapping[str, str], other: Mapping[str, str]) -> str:
    """Which files differ between two archives, in one line; '' if none does."""
    changed = sorted(path for path in {**one, **other} if one.get(path) != other.get(path))
    if not changed:
        return ""
    more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
    return f"{len(changed)} of {counted(len({**one, **other}), 'file')}: {', '.join(changed[:_SHOWN])}{more}"


def _node(archive: IO[bytes], path: str) -> Iterator[tuple[str, str]]:
    _expect(archive, "(", "type")
    kind = _text(archive)
    if kind == "symlink":
        _expect(archive, "target")
        yield path, f"link to {_text(archive)}"
        _expect(archive, ")")
    elif kind == "regular":
        yield path, _file(archive)
    elif kind == "directory":
        while (word := _text(archive)) == "entry":
            _expect(archive, "(", "name")
            name = _text(archive)
            _expect(archive, "node")
            yield from _node(archive, name if path == "." else f"{path}/{name}")
            _expect(archive, ")")
        if word != ")":
            raise DamagedArchiveError
    else:
        raise DamagedArchiveError


def _file(archive: IO[bytes]) -> str:
    """The hash of a regular file, and whether it is executable."""
    executable, digest = "", hashlib.sha256()
    word = _text(archive)
    if word == "executable":
        _expect(archive, "")
        executable, word = "executable ", _text(archive)
    if word == "contents":
        size = left = int.from_bytes(archive.read(8), "little")
        while left:
            part = archive.read(min(left, _CHUNK))
            if not part:
                raise DamagedArchiveError
            digest.update(part)
            left -= len(part)
        archive.read(-size % 8)
        word = _text(archive)
    if word != ")":
        raise DamagedArchiveError
    return f"{executable}{digest.hexdigest()}"


def _text(archive: IO[bytes]) -> str:
    """A string: its length in 8 bytes, and itself, padded with zeros to a multiple of 8 bytes."""
    size = int.from_bytes(archive.read(8), "little")
    if size > _CHUNK:
        raise DamagedArchiveError
    return archive.read(size + -size % 8)[:size].decode("utf-8", "replace")


def _expect(archive: IO[bytes], *words: str) -> None:
    if any(_text(archive) != word for word in words):
        raise DamagedArchiveError
