"""A bucket for tests: it verifies signatures and digests, keeps objects, and observes conditions of writes."""

from __future__ import annotations

import hashlib
import time
from datetime import UTC, datetime
from email.utils import formatdate
from html import escape
from http.server import BaseHTTPRequestHandler
from threading import Lock
from typing import ClassVar
from urllib.parse import parse_qs, quote_plus, unquote

from ci_compiler.publishing.s3 import Keys, signed
from ci_compiler.secret import Secret

KEYS = Keys(id="AKIAIOSFODNN7EXAMPLE", secret=Secret("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"), region="us-east-1")
"""The keys of Amazon's own examples."""


class BucketHandler(BaseHTTPRequestHandler):
    """Answers requests; `objects` are those of a test, and `broken` has the status of each answer that is an error.

    `pages` has the headers with which each page was written, and `said` is stated in place of the time of an object.
    """

    protocol_version = "HTTP/1.1"
    objects: ClassVar[dict[str, bytes]]
    lock: ClassVar[Lock]
    broken: ClassVar[list[int]]
    refused: ClassVar[list[str]]
    written: ClassVar[float]
    pages: ClassVar[list[dict[str, str]]]
    said: ClassVar[str] = ""

    def do_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.lock:
            status, content, etag = self._answer(body)
        self.send_response_only(status)
        self.send_header("Content-Length", str(len(content)))
        if etag:
            self.send_header("ETag", etag)
            self.send_header("Last-Modified", self.said or formatdate(self.written, usegmt=True))
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else content)

    do_GET = do_HEAD = do_PUT = do_DELETE = do_any  # noqa: N815

    def _answer(self, body: bytes) -> tuple[int, bytes, str]:  # noqa: PLR0911
        if problem := self._problem(body):
            self.refused.append(problem)
            return 403, problem.encode(), ""
        if self.broken:
            return self.broken.pop(), b"", ""
        if self.path.startswith("/wheels?"):
            return 200, self._listed(parse_qs(self.path.partition("?")[2], keep_blank_values=True)), ""
        key = unquote(self.path.removeprefix("/wheels/"))
        there = self.objects.get(key)
        tag = f'"{hashlib.md5(there).hexdigest()}"' if there is not None else ""  # noqa: S324  (an ETag)
        if self.command == "DELETE":
            self.objects.pop(key, None)
            return 204, b"", ""
        if self.command != "PUT":
            return (404, b"", "") if there is None else (200, there, tag)
        kinds = ("Content-Type", "Cache-Control", "If-Match", "If-None-Match")
        self.pages.append({name: self.headers[name] for name in kinds if name in self.headers})
        if self.headers.get("If-None-Match") == "*" and tag:
            return 412, b"", ""
        if self.headers.get("If-Match", tag) != tag:
            return 412, b"", ""
        self.objects[key] = body
        return 200, b"", ""

    def _listed(self, query: dict[str, list[str]]) -> bytes:
        """One object at a time, as `ListObjectsV2` describes them."""
        [prefix], after = query["prefix"], query.get("continuation-token", [""])[0]
        keys = [key for key in sorted(self.objects) if key.startswith(prefix) and key > after]
        at = datetime.fromtimestamp(self.written, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        about = f"<LastModified>{self.said or at}</LastModified><Size>1</Size>"
        rows = [f"<Contents><Key>{quote_plus(key, safe='/')}</Key>{about}</Contents>" for key in keys[:1]]
        more = f"<NextContinuationToken>{escape(keys[0])}</NextContinuationToken>" if keys[1:] else ""
        return f"<ListBucketResult>{''.join(rows)}{more}</ListBucketResult>".encode()

    def _problem(self, body: bytes) -> str:
        digest = hashlib.sha256(body).hexdigest()
        if self.headers["x-amz-content-sha256"] != digest:
            return "another content"
        names = self.headers["Authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
        at = datetime.strptime(self.headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        own = {name: self.headers[name] for name in names if name != "host" and not name.startswith("x-amz-")}
        url = f"http://{self.headers['Host']}{self.path}"
        expected = signed(self.command, url, own, digest, KEYS, at)["Authorization"]
        return "" if expected == self.headers["Authorization"] else "another signature"

    def log_message(self, *_: object) -> None:
        pass


def handler() -> type[BucketHandler]:
    """A handler with a bucket of its own."""
    return type(
        "_Handler",
        (BucketHandler,),
        {"objects": {}, "lock": Lock(), "broken": [], "refused": [], "written": time.time(), "pages": []},
    )
