"""Archives of images, and a strict registry: it refuses what the OCI Distribution Specification lets it refuse."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import tarfile
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from ci_compiler.publishing.images import INDEX
from ci_compiler.publishing.plan import Upload

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
COMMIT = 40 * "a"
LOGIN = "robot:secret"


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def descriptor(media: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": media, "digest": digest_of(content), "size": len(content)}


def layout(
    path: Path,
    architecture: str = "amd64",
    text: str = "server",
    *,
    without: str = "",
    spoilt: str = "",
    attestation: bool = False,
) -> str:
    """Writes an archive of an image as builders do; returns the digest of its root.

    The blob named `without` is left out, `spoilt` has another content: `config`, `layer` or `manifest`. With an
    `attestation`, the root is an index that also names one, as that of BuildKit.
    """
    layer = text.encode()
    config = json.dumps({"os": "linux", "architecture": architecture, "rootfs": {"type": "layers"}}).encode()
    manifest = manifest_of(config, layer)
    blobs = {"config": config, "layer": layer, "manifest": manifest}
    entries, kind = [descriptor(MANIFEST, manifest)], "manifest"
    if attestation:
        proof = json.dumps({"os": "unknown", "architecture": "unknown", "rootfs": {}}).encode()
        attached = manifest_of(proof, b"provenance")
        rows = [*entries, descriptor(MANIFEST, attached)]
        index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": rows}).encode()
        blobs |= {"proof": proof, "provenance": b"provenance", "attached": attached, "index": index}
        entries, kind = [descriptor(INDEX, index)], "index"
    files = {
        "oci-layout": b'{"imageLayoutVersion": "1.0.0"}',
        "index.json": json.dumps({"schemaVersion": 2, "manifests": entries}).encode(),
    }
    for name, content in blobs.items():
        if name != without:
            files[f"blobs/sha256/{digest_of(content)[7:]}"] = content + b" " * (name == spoilt)
    path.parent.mkdir(parents=True, exist_ok=True)
    pack(path, files)
    return digest_of(blobs[kind])


def manifest_of(config: bytes, layer: bytes) -> bytes:
    rows = [descriptor("application/vnd.oci.image.layer.v1.tar", layer)]
    described = descriptor("application/vnd.oci.image.config.v1+json", config)
    return json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "config": described, "layers": rows}).encode()


def pack(path: Path, files: Mapping[str, bytes]) -> None:
    with tarfile.open(path, "w") as file:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))


def uploaded(path: Path, variant: str = "server-amd64", version: str = "1.4.0", commit: str = COMMIT) -> Upload:
    return Upload(path.name, digest_of(path.read_bytes())[7:], path, variant, version, commit)


class RegistryHandler(BaseHTTPRequestHandler):
    """Answers requests for `my-org/server`; the dictionaries and lists are those of a test.

    `log` has each request that was taken, `sent` each proof that a request carried. With `cut`, the connection ends at
    the request whose line it matches. `deletes` says what may be deleted: `tags`, `digests` or nothing. `basic`: it
    takes the login itself. `broken` has the status of each answer that is an error. `digests`: it states those of
    manifests in a header.
    """

    protocol_version = "HTTP/1.1"
    blobs: ClassVar[dict[str, bytes]]
    manifests: ClassVar[dict[str, tuple[str, bytes]]]
    tags: ClassVar[dict[str, str]]
    log: ClassVar[list[str]]
    sent: ClassVar[list[str]] = []
    lock: ClassVar[Lock]
    cut: ClassVar[str] = ""
    deletes: ClassVar[str] = "tags"
    basic: ClassVar[bool] = False
    digests: ClassVar[bool] = True
    broken: ClassVar[list[int]] = []

    def log_message(self, *_: object) -> None:
        pass

    def do_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.lock:
            line = f"{self.command} {self.path.removeprefix('/v2/my-org/server/')}"
            if self.cut and re.search(self.cut, line):
                self.close_connection = True
                return
            status, content, headers = self._authorized(line, body)
        self.send_response_only(status)
        self.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else content)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_any  # noqa: N815

    def _authorized(self, line: str, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        proof, host = self.headers.get("Authorization", ""), f"http://{self.headers['Host']}"
        login = f"Basic {base64.b64encode(LOGIN.encode()).decode()}"
        if proof:
            self.sent.append(proof)
        url = urlsplit(self.path)
        if url.path == "/token":
            asked = parse_qs(url.query)
            right = proof == login and asked["service"] == ["stand-in"]
            return (200, json.dumps({"token": asked["scope"][0]}).encode(), {}) if right else (401, b"", {})
        action = "pull" if self.command in {"GET", "HEAD"} else "pull,push,delete"
        scope = f"repository:my-org/server:{action}"
        if self.basic and proof != login:
            return 401, b"", {"WWW-Authenticate": 'Basic realm="stand-in"'}
        if not self.basic and not proof.startswith(f"Bearer {scope}"):
            challenge = f'Bearer realm="{host}/token",service="stand-in",scope="{scope}"'
            return 401, b"", {"WWW-Authenticate": challenge}
        if self.broken:
            return self.broken.pop(), b"", {}
        self.log.append(line)
        kind, _, rest = line.partition(" ")[2].partition("/")
        return {"blobs": self._blob, "manifests": self._manifest, "tags": self._listed}[kind](rest, body)

    def _blob(self, rest: str, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        if self.command == "POST":
            return 202, b"", {"Location": "/v2/my-org/server/blobs/uploads/1?state=x"}
        if self.command == "PUT":
            digest = parse_qs(urlsplit(rest).query)["digest"][0]
            if digest != digest_of(body):
                return 400, b'{"errors": [{"code": "DIGEST_INVALID"}]}', {}
            self.blobs[digest] = body
            return 201, b"", {}
        return (200, self.blobs[rest], {}) if rest in self.blobs else (404, b"", {})

    def _manifest(self, rest: str, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        digest = rest if rest.startswith("sha256:") else self.tags.get(rest, "")
        if self.command == "PUT":
            return self._taken(rest, body)
        if digest not in self.manifests:
            return 404, b"", {}
        if self.command == "DELETE":
            return self._deleted(rest, digest)
        media, content = self.manifests[digest]
        if media not in self.headers["Accept"]:
            return 404, b"", {}
        return 200, content, {"Content-Type": media, **({"Docker-Content-Digest": digest} if self.digests else {})}

    def _taken(self, reference: str, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        digest, data = digest_of(body), json.loads(body)
        named = [row["digest"] for row in data.get("manifests", ())]
        blobs = [row["digest"] for row in [data["config"], *data["layers"]]] if "config" in data else []
        if reference.startswith("sha256:") and reference != digest:
            return 400, b'{"errors": [{"code": "DIGEST_INVALID"}]}', {}
        if self.headers["Content-Type"] != data["mediaType"]:
            return 400, b'{"errors": [{"code": "MANIFEST_INVALID"}]}', {}
        if {*named} - {*self.manifests} or {*blobs} - {*self.blobs}:
            return 404, b'{"errors": [{"code": "MANIFEST_BLOB_UNKNOWN"}]}', {}
        self.manifests[digest] = data["mediaType"], body
        if not reference.startswith("sha256:"):
            self.tags[reference] = digest
        return 201, b"", {"Docker-Content-Digest": digest}

    def _deleted(self, reference: str, digest: str) -> tuple[int, bytes, dict[str, str]]:
        by_digest = reference.startswith("sha256:")
        if self.deletes != ("digests" if by_digest else "tags") and not (by_digest and self.deletes == "tags"):
            return 405, b"", {}
        if by_digest:
            del self.manifests[digest]
        gone = [tag for tag, value in self.tags.items() if (value == digest if by_digest else tag == reference)]
        for tag in gone:
            del self.tags[tag]
        return 202, b"", {}

    def _listed(self, rest: str, _: bytes) -> tuple[int, bytes, dict[str, str]]:
        names, last = sorted(self.tags), parse_qs(urlsplit(rest).query).get("last", [""])[0]
        page = [name for name in names if name > last][:2]
        more = f'</v2/my-org/server/tags/list?last={page[-1]}>; rel="next"' if page and page[-1] != names[-1] else ""
        return 200, json.dumps({"name": "my-org/server", "tags": page}).encode(), {"Link": more} if more else {}
