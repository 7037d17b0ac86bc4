"""Requests by HTTP to upstreams, with limits of time and size."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from email.message import Message
from http.client import HTTPException, HTTPMessage
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from ci_compiler.codes import Code
from ci_compiler.errors import InputError, about, wrong


class Bounds(NamedTuple):
    """The most seconds that a program or a request may take, and the most bytes of a file that it may write."""

    seconds: float
    bytes: int


PAGE = Bounds(60.0, 32_000_000)
ARCHIVE = Bounds(1800.0, 1_000_000_000)

_CHUNK = 1 << 16


class StatusError(InputError):
    """The server answered with an error status."""

    def __init__(self, name: str, server: str, status: int, headers: Message) -> None:
        again = f"; try again in {wait} s" if (wait := headers.get("Retry-After")) else ""
        limited = status == 429 or (status == 403 and headers.get("X-RateLimit-Remaining", "0") == "0")
        message = f"{server} limits requests{again}" if limited else f"{server} said {status}"
        super().__init__([about(name, Code.UPSTREAM_UNREACHABLE, message)])
        self.status = status
        self.headers = headers


def unreachable(name: str, message: str) -> InputError:
    """The error for an upstream that cannot be read, or whose answer makes no sense."""
    return wrong(name, Code.UPSTREAM_UNREACHABLE, message)


class Server(NamedTuple):
    """A server, as messages call it, and what is looked up there."""

    called: str
    name: str

    def page(
        self, url: str, *, headers: Mapping[str, str] | None = None, method: str = "GET", bounds: Bounds = PAGE
    ) -> tuple[bytes, HTTPMessage]:
        """The body and headers of the answer. Raises RefusedError, and InputError."""
        body = bytearray()
        answered = self._read(url, headers or {}, method, bounds, body.extend)
        return bytes(body), answered

    def sha256(self, url: str, bounds: Bounds) -> str:
        """The SHA-256 of the body, in hexadecimal. Raises RefusedError, and InputError."""
        digest = hashlib.sha256()
        self._read(url, {}, "GET", bounds, digest.update)
        return digest.hexdigest()

    def _read(
        self, url: str, headers: Mapping[str, str], method: str, bounds: Bounds, take: Callable[[bytes], object]
    ) -> HTTPMessage:
        """Passes the body to `take` in pieces, and returns the headers. A body that ends early is an error."""
        if not url.startswith(("https://", "http://")):
            raise unreachable(self.name, f"{url!r} is no address of HTTP")
        end, size = time.monotonic() + bounds.seconds, 0
        try:
            request = Request(url, headers=dict(headers), method=method)  # noqa: S310 - the scheme is checked above
            with urlopen(request, timeout=bounds.seconds) as answer:  # noqa: S310
                while chunk := answer.read1(_CHUNK):
                    size += len(chunk)
                    if size > bounds.bytes:
                        raise unreachable(self.name, f"{self.called} sent more than {bounds.bytes:,} bytes")
                    if time.monotonic() > end:
                        message = f"{self.called} did not send it within {bounds.seconds:.0f} s"
                        raise unreachable(self.name, message)
                    take(chunk)
                answered: HTTPMessage = answer.headers
        except HTTPError as error:
            error.close()
            raise StatusError(self.name, self.called, error.code, error.headers) from None
        except (OSError, HTTPException, ValueError) as error:
            raise unreachable(self.name, f"{self.called} cannot be read: {error}") from None
        stated = answered.get("Content-Length", "")
        if method != "HEAD" and stated.isdigit() and int(stated) != size:
            raise unreachable(self.name, f"{self.called} sent {size:,} of {stated} bytes")
        return answered
