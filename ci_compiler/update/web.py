"""Requests by HTTP to upstreams, with limits of time and size."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from email.message import Message
from http.client import HTTPException, HTTPMessage
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from ci_compiler.codes import Code
from ci_compiler.errors import InputError, wrong


class Bounds(NamedTuple):
    """The most seconds that a program or a request may take, and the most bytes of a file that it may write."""

    seconds: float
    bytes: int


PAGE = Bounds(60.0, 32_000_000)
ARCHIVE = Bounds(1800.0, 1_000_000_000)

_CHUNK = 1 << 16


class RefusedError(Exception):
    """The server answered with an error status."""

    def __init__(self, status: int, headers: Message) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers


def page(name: str, server: str, request: Request, bounds: Bounds) -> tuple[bytes, HTTPMessage]:
    """The body and headers of the answer. `name` and `server` are for messages. Raises InputError, RefusedError."""
    found = bytearray()
    headers = _read(name, server, request, bounds, found.extend)
    return bytes(found), headers


def sha256(name: str, server: str, request: Request, bounds: Bounds) -> str:
    """The SHA-256 of the body, in hexadecimal. Raises InputError, RefusedError."""
    digest = hashlib.sha256()
    _read(name, server, request, bounds, digest.update)
    return digest.hexdigest()


def refusal(name: str, server: str, refused: RefusedError) -> InputError:
    """The error for an answer with an error status."""
    again = f"; try again in {wait} s" if (wait := refused.headers.get("Retry-After")) else ""
    limited = refused.status == 429 or (
        refused.status == 403 and refused.headers.get("X-RateLimit-Remaining", "0") == "0"
    )
    said = f"{server} limits requests{again}" if limited else f"{server} said {refused.status}"
    return wrong(name, Code.UPSTREAM_UNREACHABLE, said)


def _read(name: str, server: str, request: Request, bounds: Bounds, take: Callable[[bytes], object]) -> HTTPMessage:
    """Passes the body to `take` in pieces, and returns the headers. A body that ends early is an error."""
    if request.type not in {"http", "https"}:
        raise wrong(name, Code.UPSTREAM_UNREACHABLE, f"{request.full_url!r} is no address of HTTP")
    end, size = time.monotonic() + bounds.seconds, 0
    try:
        with urlopen(request, timeout=bounds.seconds) as answer:  # noqa: S310 - the scheme is checked above
            while chunk := answer.read1(_CHUNK):
                size += len(chunk)
                if size > bounds.bytes:
                    raise wrong(name, Code.UPSTREAM_UNREACHABLE, f"{server} sent more than {bounds.bytes:,} bytes")
                if time.monotonic() > end:
                    raise wrong(
                        name, Code.UPSTREAM_UNREACHABLE, f"{server} did not send it within {bounds.seconds:.0f} s"
                    )
                take(chunk)
            headers: HTTPMessage = answer.headers
    except HTTPError as error:
        error.close()
        raise RefusedError(error.code, error.headers) from None
    except (OSError, HTTPException, ValueError) as error:
        raise wrong(name, Code.UPSTREAM_UNREACHABLE, f"{server} cannot be read: {error}") from None
    stated = headers.get("Content-Length", "")
    if request.get_method() != "HEAD" and stated.isdigit() and int(stated) != size:
        raise wrong(name, Code.UPSTREAM_UNREACHABLE, f"{server} sent {size:,} of {stated} bytes")
    return headers
