"""Serves the GitHub for tests on a port of the loopback interface."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import Any

from .description import description
from .state import NOW, Fault, GitHub


class _Handler(BaseHTTPRequestHandler):
    """Reads a request and sends the response or the fault."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    github: GitHub

    def handle_any(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        sent = self.rfile.read(length) if length else b""
        is_file = not self.headers.get("Content-Type", "application/json").startswith("application/json")
        body = (sent if is_file else json.loads(sent)) if sent else None
        if self.path.startswith("/storage/"):  # not of the API: where artifacts are
            content = self.github.stored(self.path, self.headers)
            self._send(404 if content is None else 200, {"Content-Type": "application/zip"}, content or b"")
            return
        answer = self.github.answer(self.command, self.path, body, self.headers)
        if isinstance(answer, Fault):
            self._trouble(answer)
        else:
            self._send(answer.status, answer.headers, b"" if answer.body is None else json.dumps(answer.body).encode())

    do_GET = do_POST = do_PATCH = do_DELETE = handle_any  # noqa: N815

    def _trouble(self, fault: Fault) -> None:
        body = fault.body if fault.body is not None else json.dumps({"message": fault.message}).encode()
        if fault.status:
            self._send(fault.status, fault.headers, body)
            return
        if fault.cut:
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"total_count": 1' + b" " * 900)
        self.wfile.flush()
        if fault.half:
            self.connection.shutdown(socket.SHUT_WR)
            self.wfile = BytesIO()
        if fault.waits:
            with suppress(OSError):
                self.rfile.read()
        self.close_connection = True

    def _send(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in {
            "Date": formatdate(NOW, usegmt=True),
            "Content-Type": "application/json",
            **headers,
        }.items():
            self.send_header(name, value)
        if status not in {204, 304}:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if status not in {204, 304}:
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Logs nothing."""


@contextmanager
def serving(github: GitHub) -> Iterator[GitHub]:
    """Serves `github` on a free port. Fails at the end if a request or response was not like GitHub's."""
    description()
    handler = type("Handler", (_Handler,), {"github": github})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    github.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield github
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert not github.problems, "\n".join(list(dict.fromkeys(github.problems))[:20])
