"""Trusted publishing, against a local server that plays GitHub's identity provider and the index."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import ClassVar

import pytest

from ci_compiler.errors import InputError, StageError
from ci_compiler.publishing.plan import HeldFile, HeldVersion
from ci_compiler.publishing.target import place_failures, publish
from ci_compiler.publishing.trusted import ASKED, TrustedIndex
from tests.publishing.places import serving, wheel


class _Index(BaseHTTPRequestHandler):
    """Gives a token for the identity of the job, and takes uploads with it."""

    files: ClassVar[dict[str, str]]
    minted: ClassVar[list[str]]
    fields: ClassVar[list[dict[bytes, bytes]]]

    def do_GET(self) -> None:
        if self.path == "/_/oidc/audience":
            self._answer({"audience": "the-index"})
        elif self.path == "/identity?api-version=2.0&audience=the-index":
            self._answer({"value": "jwt"} if self.headers["Authorization"] == "Bearer asked" else None)
        elif self.path == "/simple/a/":
            self._answer(None)
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
        fields = dict(re.findall(rb'; name="([^"]+)"\r\n\r\n([^\r]*)\r\n', body))
        known = self.headers["Authorization"] == "Basic X190b2tlbl9fOnNob3J0LWxpdmVk"  # __token__:short-lived
        [name] = re.findall(rb'name="content"; filename="([^"]+)"', body)
        if known and fields[b"name"] == b"fastpath" and fields[b":action"] == b"file_upload":
            self.fields.append(fields)
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


@pytest.fixture
def server() -> Iterator[tuple[str, type[_Index]]]:
    made = type("_Handler", (_Index,), {"files": {}, "minted": [], "fields": []})
    with serving(made) as address:
        yield address, made


def asked_at(address: str) -> dict[str, str]:
    """The environment of a job that may ask for its identity."""
    return dict(zip(ASKED, (f"{address}/identity?api-version=2.0", "asked"), strict=True))


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_file_is_uploaded_with_what_its_metadata_says(
    server: tuple[str, type[_Index]], tmp_path: Path, slash: str
) -> None:
    address, made = server
    target = TrustedIndex(f"{address}/legacy/", f"{address}/simple{slash}", asked_at(address))
    file = wheel(tmp_path, metadata="Summary: Fast paths\n")
    assert target.held([file]) == {}
    target.put(file)
    target.stage([file])
    target.finish("1.4.0", ["fastpath-cpu"])
    assert target.held([file]) == {file.name: HeldFile(file.digest, shown=True)}
    [fields] = made.fields
    assert {key.decode(): value.decode() for key, value in fields.items()} == {
        "metadata_version": "2.1",
        "name": "fastpath",
        "version": "1.4.0",
        "requires_python": ">=3.9",
        "summary": "Fast paths",
        ":action": "file_upload",
        "protocol_version": "1",
        "sha256_digest": file.digest,
        "filetype": "bdist_wheel",
        "pyversion": "py3",
    }


def test_what_the_server_does_not_take_fails(server: tuple[str, type[_Index]], tmp_path: Path) -> None:
    address, _ = server
    target, file = TrustedIndex(f"{address}/legacy/", f"{address}/simple", asked_at(address)), wheel(tmp_path)
    other = tmp_path / "other.whl"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("other-1.dist-info/METADATA", "Name: other\n")
    with pytest.raises(OSError, match=rf"^{address}/legacy/ answered 403 to {file.name}: Forbidden$"):
        target.put(file._replace(path=other))
    with pytest.raises(OSError, match=rf"^{address}/simple/a/ answered 403$"):
        target.held([file._replace(name="a-1-py3-none-any.whl")])
    with pytest.raises(StageError, match=r"^fastpath-cpu: a.tar.gz is no wheel, and only wheels are published so \["):
        target.put(file._replace(name="a.tar.gz", path=tmp_path / "a.tar.gz"))
    versions = [HeldVersion("cpu", "1.4"), HeldVersion("cpu", "1.5")]
    with pytest.raises(StageError, match=rf"^{address}/simple: yank 1.4 and 1.5 on the project's pages there: slow \["):
        target.withdraw(versions, "slow")


@pytest.mark.parametrize("lacking", ASKED)
def test_a_job_without_the_permission_says_which_it_lacks(
    server: tuple[str, type[_Index]], tmp_path: Path, lacking: str
) -> None:
    address, made = server
    target = TrustedIndex(f"{address}/legacy/", f"{address}/simple", asked_at(address) | {lacking: ""})
    message = "is not set: the job needs the permission `id-token: write`, which compiled workflows have"
    with pytest.raises(InputError, match=f"^{ASKED[0]}: {message} "):
        target.put(wheel(tmp_path))
    assert made.minted == []


def test_the_identity_of_the_job_publishes(server: tuple[str, type[_Index]], tmp_path: Path) -> None:
    address, made = server
    asked = asked_at(address)
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
