"""Trusted publishing, against a local server that plays GitHub's identity provider and the index."""

from __future__ import annotations

import json
import re
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import ClassVar

import pytest

from ci_compiler.errors import InputError, StageError
from ci_compiler.publishing.target import place_failures, publish
from ci_compiler.publishing.trusted import ASKED, TrustedIndex
from tests.publishing.places import serving, wheel


class _Index(BaseHTTPRequestHandler):
    """Gives a token for the identity of the job, and takes uploads with it."""

    files: ClassVar[dict[str, str]]
    minted: ClassVar[list[str]]

    def do_GET(self) -> None:
        if self.path == "/_/oidc/audience":
            self._answer({"audience": "the-index"})
        elif self.path == "/identity?api-version=2.0&audience=the-index":
            self._answer({"value": "jwt"} if self.headers["Authorization"] == "Bearer asked" else None)
        elif self.path == "/simple/fastpath/" and self.files:
            rows = [{"filename": name, "hashes": {"sha256": digest}} for name, digest in self.files.items()]
            self._answer({"files": rows})
        else:
            self._answer(None, 404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/_/oidc/mint-token":
            self.minted.append(json.loads(body)["token"])
            self._answer({"success": True, "token": "short-lived"} if self.minted[-1] == "jwt" else None)
            return
        fields = dict(re.findall(rb'name="([^"]+)"\r\n\r\n([^\r]*)\r\n', body))
        known = self.headers["Authorization"] == "Basic X190b2tlbl9fOnNob3J0LWxpdmVk"  # __token__:short-lived
        [name] = re.findall(rb'name="content"; filename="([^"]+)"', body)
        if known and fields[b"name"] == b"fastpath" and fields[b":action"] == b"file_upload":
            self.files[name.decode()] = fields[b"sha256_digest"].decode()
            self._answer({})
        else:
            self._answer(None)

    def _answer(self, content: object, status: int = 200) -> None:
        body = json.dumps(content).encode()
        self.send_response_only(status if content is not None else max(status, 403))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def test_the_identity_of_the_job_publishes(tmp_path: Path) -> None:
    made = type("_Handler", (_Index,), {"files": {}, "minted": []})
    with serving(made) as address:
        asked = dict(zip(ASKED, (f"{address}/identity?api-version=2.0", "asked"), strict=True))
        said: list[str] = []

        def index(environment: dict[str, str]) -> TrustedIndex:
            return TrustedIndex(f"{address}/legacy/", f"{address}/simple", environment)

        with pytest.raises(InputError, match="id-token: write"):
            publish(index({}), [wheel(tmp_path)], said.append)
        with pytest.raises(StageError, match="identity answered 403"), place_failures("fastpath-cpu"):
            publish(index(asked | {ASKED[1]: "other"}), [wheel(tmp_path)], said.append)
        assert made.files == {}
        for _ in range(2):
            publish(index(asked), [wheel(tmp_path)], said.append)
        assert said[-1] == "fastpath-1.4.0-py3-none-any.whl: published already"
        assert made.minted == ["jwt"]
        with pytest.raises(StageError, match="published already, with another content; set"):
            publish(index(asked), [wheel(tmp_path / "b", text="other")], said.append)
