"""The one reader of what comes from outside: files of users, artifacts, answers of programs and servers, pasted text.

It reads regular files only, and bounds the bytes, the depth and the digits, so that no input hangs a command, fills the
memory or breaks the code that works on the value. What it refuses is an `UnreadableError`.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from os import PathLike, fspath
from pathlib import Path, PurePath
from typing import IO, TYPE_CHECKING, Any, Never, TypeVar

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, Place
from ci_compiler.system import READ

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

Value = TypeVar("Value")

LARGEST = 20_000_000
"""The most bytes of a text, unless its reader names another number."""

DEEPEST = 100
"""The most levels of a JSON or XML text."""

MOST_COLLECTIONS = 1_000_000
"""The most lists and objects of a JSON text; Python takes a second to read a million."""

LONGEST_NUMBER = 40
"""The most characters of a number in JSON."""

LARGEST_PACKED = 1 << 36
"""The most bytes of a file in an archive of results: 64 GiB."""

_NESTED = 6
"""The most layers of archives and compression: a wheel in a compressed layer of an image has five."""

_PACKED = {
    b"PK\x03\x04": "zip",
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\xfd7zXZ\0": "lzma",
    b"\x28\xb5\x2f\xfd": "compressed by zstd",
    b"7z\xbc\xaf\x27\x1c": "an archive of 7-Zip",
    b"!<arch>\ndebian-binary": "a Debian package",
    b"\xed\xab\xee\xdb": "an RPM package",
    b"hsqs": "a SquashFS image",
}
"""How packed files begin, and what unpacks them."""

STANDARD_INPUT = Path("-")
"""The path that stands for standard input."""

WRONG_FORM = (ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError)
"""What code raises that takes a value of another form for the one that it expects."""


class UnreadableError(OSError, ValueError):
    """The text is refused: `strerror` says why; `line` and `column` are 0 if no place in it is to blame."""

    def __init__(self, why: str, file: str = "", *, line: int = 0, column: int = 0) -> None:
        super().__init__(errno.EINVAL, why, file)
        self.line, self.column = line, column

    def __str__(self) -> str:
        """Why the text is refused."""
        return str(self.strerror)


class TooLargeError(UnreadableError):
    """The file has more bytes than its reader takes."""


@contextmanager
def reading(
    place: str | PathLike[str], code: Code, form: str = "does not have the form that it must have"
) -> Iterator[None]:
    """Turns what reading the text called `place` raises into an InputError; `form` is its message for a wrong form."""
    try:
        yield
    except OSError as error:
        where = Place(file=fspath(place), line=getattr(error, "line", 0), column=getattr(error, "column", 0))
        raise InputError([Finding(place=where, code=code, message=why(error))]) from None
    except WRONG_FORM:
        raise InputError([Finding(place=Place(file=fspath(place)), code=code, message=form)]) from None


def why(error: OSError) -> str:
    """Why a text was not read, for a finding about it."""
    return str(error) if isinstance(error, UnreadableError) else f"cannot be read: {error.strerror or error}"


def is_typed() -> bool:
    """Whether standard input is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def typed_line(most: int = 8_000) -> str:
    """A line of at most `most` bytes from standard input, with its end; '' at the end of the input."""
    return str(sys.stdin.buffer.readline(most), "utf-8", "replace")


def open_regular(path: str | PathLike[str], flags: int = 0) -> IO[bytes]:
    """The regular file at `path`, for reading. Raises OSError, also for anything else, such as a pipe."""
    file = open(os.open(path, READ | flags), "rb")  # noqa: PTH123, SIM115  (a descriptor, which the caller closes)
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise UnreadableError("is not a regular file", fspath(path))


def bytes_of(path: str | PathLike[str], most: int = LARGEST) -> bytes:
    """The content of a regular file, or of standard input (`STANDARD_INPUT`). Raises OSError."""
    name = fspath(path)
    if path == STANDARD_INPUT and sys.stdin is None:
        raise UnreadableError("is closed", name)
    if path == STANDARD_INPUT:
        data: bytes = sys.stdin.buffer.read(most + 1)
    else:
        if os.path.isdir(name):  # noqa: PTH112  (Windows says that it may not be opened)
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        with open_regular(name) as file:
            data = file.read(most + 1)
    if len(data) > most:
        raise TooLargeError(f"is larger than {most:,} bytes, the limit for this file", name)
    return data


def text_of(path: str | PathLike[str], most: int = LARGEST, errors: str = "strict") -> str:
    """The text of a regular file in UTF-8, or of standard input, with `\\n` after each line. Raises OSError."""
    text = decoded(bytes_of(path, most), fspath(path), errors)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def member_of(path: str | PathLike[str], pattern: str, most: int) -> str:
    """The text of the first file in the zip archive at `path` whose name matches `pattern`, at most `most` bytes of it.

    Raises OSError also for what is no such archive.
    """
    from zipfile import BadZipFile, ZipFile  # few commands need it

    try:
        with open_regular(path) as whole, ZipFile(whole) as archive:
            name = next(one for one in archive.namelist() if re.fullmatch(pattern, one))
            with archive.open(name) as file:
                return file.read(most).decode(errors="replace")
    except StopIteration:
        raise OSError(f"it holds no file like {pattern}") from None
    except (BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError, zlib.error) as error:
        raise OSError(str(error)) from None


def files_in(file: IO[bytes], name: str, depth: int = _NESTED) -> Iterator[tuple[str, IO[bytes] | UnreadableError]]:
    """`file`, and if it is packed, the files in it and in those, each as `NAME/INNER`, open until the next one.

    Zip and tar archives are unpacked, and what gzip, bzip2 and xz compress. In place of the rest of what is packed
    otherwise, damaged or too large, there is the reason.
    """
    import lzma  # few commands need it
    import tarfile
    from tempfile import TemporaryFile
    from zipfile import BadZipFile

    yield name, file
    try:
        for inner, stream in _unpacked(file, name, depth):
            with stream, TemporaryFile() as copy:
                while chunk := stream.read(1 << 20):
                    copy.write(chunk)
                    if copy.tell() > LARGEST_PACKED:
                        raise UnreadableError(f"has files of more than {LARGEST_PACKED:,} bytes", name)
                copy.flush()
                yield from files_in(copy, f"{name}/{inner}", depth - 1)
    except UnreadableError as error:
        yield name, error
    except (
        BadZipFile,
        tarfile.TarError,
        lzma.LZMAError,
        zlib.error,
        EOFError,
        OSError,
        *WRONG_FORM,
        RuntimeError,
    ) as error:
        yield name, UnreadableError(f"cannot be unpacked: {error}", name)


def _unpacked(file: IO[bytes], name: str, depth: int) -> Iterator[tuple[str, IO[bytes]]]:
    """The regular files in a packed file; none in any other."""
    file.seek(0)
    head = file.read(262)
    file.seek(0)
    kind = next((kind for start, kind in _PACKED.items() if head.startswith(start)), "")
    kind = "tar" if head[257:] == b"ustar" else kind
    if kind and not depth:
        raise UnreadableError(f"is packed in more than {_NESTED} layers", name)
    if kind == "zip":
        from zipfile import ZipFile

        with ZipFile(file) as archive:
            yield from ((one.filename, archive.open(one)) for one in archive.infolist() if not one.is_dir())
    elif kind == "tar":
        import tarfile

        with tarfile.open(fileobj=file, mode="r:") as packed:
            yield from ((one.name, stream) for one in packed if one.isreg() and (stream := packed.extractfile(one)))
    elif kind in {"gzip", "bz2", "lzma"}:
        yield PurePath(name).stem, import_module(kind).open(file)
    elif kind:
        raise UnreadableError(f"is {kind}, which is not read", name)


def decoded(data: bytes, name: str = "", errors: str = "strict") -> str:
    """`data` as UTF-8. Raises UnreadableError with the place of the first byte that is not."""
    try:
        return data.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        line, column = data.count(b"\n", 0, error.start) + 1, error.start - data.rfind(b"\n", 0, error.start)
        raise UnreadableError("is not UTF-8 text", name, line=line, column=column) from None


def json_of(data: bytes | str) -> Any:
    """The value of a JSON text, with finite numbers and text that can be written. Raises UnreadableError."""
    text = (decoded(data) if isinstance(data, bytes) else data).removeprefix("\ufeff")
    if text.count("[") + text.count("{") > MOST_COLLECTIONS:
        raise UnreadableError(f"has more than {MOST_COLLECTIONS:,} lists and objects, the limit for JSON")
    try:
        value = json.loads(text, parse_int=_whole, parse_float=_real, parse_constant=_refused)
        _check(value)
    except json.JSONDecodeError as error:
        raise UnreadableError(f"is not JSON: {error.msg}", line=error.lineno, column=error.colno) from None
    except UnicodeEncodeError:
        raise UnreadableError("is not JSON: has half of a surrogate pair") from None
    except RecursionError:
        raise UnreadableError(f"is nested deeper than {DEEPEST} levels") from None
    return value


def object_of(data: bytes | str) -> dict[str, Any]:
    """The object of a JSON text. Raises UnreadableError, also for any other value."""
    value = json_of(data)
    if not isinstance(value, dict):
        raise UnreadableError("is not a JSON object")
    return value


def expected(kind: type[Value], value: object) -> Value:
    """`value`, if it is of the very type `kind`. Raises TypeError."""
    if type(value) is not kind:
        raise TypeError(f"{type(value).__name__} in place of {kind.__name__}")
    return value


def _whole(text: str) -> int:
    return int(text) if len(text) <= LONGEST_NUMBER else _refused(text)


def _real(text: str) -> float:
    number = float(text) if len(text) <= LONGEST_NUMBER else math.inf
    return number if math.isfinite(number) else _refused(text)


def _refused(text: str) -> Never:
    shown = f"{text[:LONGEST_NUMBER]}…" if len(text) > LONGEST_NUMBER else text
    raise UnreadableError(f"has the number {shown}, which is out of range")


def _check(value: Any) -> None:
    """Raises RecursionError for too many levels, and UnicodeEncodeError for text that cannot be written."""
    level = [value]
    for _ in range(DEEPEST + 1):
        for text in level:
            if isinstance(text, str) and not text.isascii():
                text.encode()
        inner = [one for one in level if isinstance(one, dict | list)]
        if not inner:
            return
        level = [part for one in inner for part in ([*one, *one.values()] if isinstance(one, dict) else one)]
    raise RecursionError


def xml_of(data: bytes) -> Element:
    """The root of an XML text without a document type, whose entities can be far larger. Raises UnreadableError."""
    from xml.etree import ElementTree as ET
    from xml.parsers.expat import ErrorString

    class TreeWithoutDoctype(ET.TreeBuilder):
        depth = 0

        def doctype(self, *_: object) -> Never:
            raise UnreadableError("has a document type, which no JUnit file needs")

        def start(self, tag: Any, attrs: Any) -> Any:
            self.depth += 1
            if self.depth > DEEPEST:
                raise UnreadableError(f"is nested deeper than {DEEPEST} levels")
            return super().start(tag, attrs)

        def end(self, tag: Any) -> Any:
            self.depth -= 1
            return super().end(tag)

    parser = ET.XMLParser(target=TreeWithoutDoctype())  # noqa: S314  (without document types, no entity can expand)
    try:
        parser.feed(data)
        root: Element = parser.close()
    except ET.ParseError as error:
        line, column = error.position
        raise UnreadableError(f"is not XML: {ErrorString(error.code)}", line=line, column=column + 1) from None
    except UnreadableError:
        raise
    except (LookupError, ValueError) as error:  # an encoding that is unknown, or that expat cannot read
        raise UnreadableError(f"is not XML that can be read: {error}") from None
    return root
