"""A bucket of S3-compatible storage as the place of an index of wheels.

Requests are signed here (AWS, "Signature Version 4"), in few lines: boto3 would bring 15 MB to every machine that
publishes, and runners are installed without extras. A page is replaced only if nobody replaced it since it was read,
by `If-Match` and `If-None-Match` (Amazon S3, "How to prevent object overwrites with conditional writes"); storage that
ignores these does not protect pages against writers at the same time.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from html import unescape
from pathlib import Path
from time import sleep
from urllib.parse import quote, unquote_plus, urlsplit

import requests

from ci_compiler.publishing.stores import Stored, StoredFile
from ci_compiler.secret import Secret
from ci_compiler.units import size

_TIMEOUT = (30, 300)
_ATTEMPTS = 4
MOST = 5 * 2**30
"""The most bytes of one upload (Amazon S3 User Guide, "Uploading objects": 5 GB in a single PUT)."""

_REFUSED = frozenset({409, 412})
"""What a conditional write is answered with if the page was replaced, or is being replaced, by another writer."""
_TYPES = {".html": "text/html; charset=utf-8", ".json": "application/vnd.pypi.simple.v1+json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The access key of a bucket: its public id, and its secret."""

    id: str
    secret: Secret
    region: str


def signed(method: str, url: str, headers: Mapping[str, str], digest: str, keys: Keys, at: datetime) -> dict[str, str]:
    """`headers` with the signature of a request; `digest` is the SHA-256 of its body.

    The query of `url` must be in the order of its names, and quoted.
    """
    where = urlsplit(url)
    stamp, scope = at.strftime("%Y%m%dT%H%M%SZ"), f"{at:%Y%m%d}/{keys.region}/s3/aws4_request"
    every = {**headers, "Host": where.netloc, "x-amz-content-sha256": digest, "x-amz-date": stamp}
    lower = {name.lower(): value.strip() for name, value in every.items()}
    names = ";".join(sorted(lower))
    lines = "".join(f"{name}:{lower[name]}\n" for name in sorted(lower))
    request = f"{method}\n{where.path}\n{where.query}\n{lines}\n{names}\n{digest}"
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{keys.secret.reveal()}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    proof = f"AWS4-HMAC-SHA256 Credential={keys.id}/{scope},SignedHeaders={names},Signature={signature}"
    return every | {"Authorization": proof}


class Bucket:
    """The objects below `prefix` of the bucket at the address `root`. An object appears whole, or not at all."""

    def __init__(self, root: str, prefix: str, keys: Keys) -> None:
        self._bucket = root
        self._prefix = f"{prefix}/" if prefix else ""
        self._root = f"{root}/{prefix}" if prefix else root
        self._keys = keys
        self._session = requests.Session()
        self._session.auth = lambda request: request  # else `.netrc` could replace the signature

    def find(self, key: str) -> StoredFile | None:
        """An object."""
        answer = self._ask("HEAD", key)
        if not answer.ok:
            return None
        with self._understood(key):
            written = parsedate_to_datetime(answer.headers.get("Last-Modified", "")).replace(tzinfo=UTC)
            return StoredFile(key, int(answer.headers.get("Content-Length", 0)), written)

    def files(self, folder: str) -> Iterable[StoredFile]:
        """The objects of a folder (Amazon S3 API Reference, `ListObjectsV2`); 1,000 come at once."""
        query = {"encoding-type": "url", "list-type": "2", "prefix": f"{self._prefix}{folder}"}
        while query:
            text = self._ask("GET", "", query=query).text
            for entry in re.findall(r"<Contents>.*?</Contents>", text, re.DOTALL):
                key, size, written = (_element(entry, name) for name in ("Key", "Size", "LastModified"))
                name = unquote_plus(key).removeprefix(self._prefix)
                with self._understood(name):
                    yield StoredFile(name, int(size), datetime.fromisoformat(written))
            token = unescape(_element(text, "NextContinuationToken"))
            query = {**query, "continuation-token": token} if token else {}

    def read(self, key: str) -> Stored | None:
        """A page; its ETag is the tag."""
        answer = self._ask("GET", key)
        return Stored(answer.content, answer.headers.get("ETag", "")) if answer.ok else None

    def put(self, key: str, path: Path) -> None:
        """Uploads a file, in one request."""
        if (there := path.stat().st_size) > MOST:
            message = (
                f"{path.name} has {size(there)}, and S3 takes {size(MOST)} in one request; publish it by a command"
            )
            raise OSError(message)
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        self._ask("PUT", key, path, digest=digest)

    def write(self, key: str, text: str, tag: str | None = None) -> bool:
        """Writes a page, on the condition that its ETag is still `tag`."""
        condition = {} if tag is None else {"If-Match": tag} if tag else {"If-None-Match": "*"}
        kind = _TYPES[Path(key).suffix]
        headers = {"Content-Type": kind, "Cache-Control": "no-cache", **condition}
        return self._ask("PUT", key, text.encode(), headers=headers).ok

    def delete(self, key: str) -> None:
        """Deletes an object."""
        self._ask("DELETE", key)

    @contextmanager
    def _understood(self, key: str) -> Iterator[None]:
        """Turns ValueError about what the storage says of an object into OSError."""
        try:
            yield
        except ValueError as error:
            message = f"{self._root} describes {key} in another form than S3: {error}"
            raise OSError(message) from None

    def _ask(
        self,
        method: str,
        key: str,
        body: bytes | Path = b"",
        *,
        digest: str = "",
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> requests.Response:
        """The answer: success, no such object, or a condition that does not hold. Raises OSError for any other.

        With a `query`, it is about the bucket.
        """
        parts = "&".join(f"{name}={quote(value, safe='-_.~')}" for name, value in sorted((query or {}).items()))
        url = f"{self._bucket}?{parts}" if query else f"{self._root}/{quote(key, safe='/-_.~')}"
        digest = digest or hashlib.sha256(body if isinstance(body, bytes) else b"").hexdigest()
        expected = {404} if method != "PUT" else _REFUSED if {"If-Match", "If-None-Match"} & {*(headers or ())} else ()
        for attempt in range(_ATTEMPTS):
            sleep(attempt / 2)
            proof = signed(method, url, headers or {}, digest, self._keys, datetime.now(UTC))
            answer = self._send(method, url, proof, body)
            if answer.status_code < 500:
                break
        if answer.ok or answer.status_code in expected:
            return answer
        message = f"{self._root} answered {method} of {key or 'the list of its objects'} with {answer.status_code}"
        raise OSError(message)

    def _send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | Path) -> requests.Response:
        if isinstance(body, bytes):
            return self._session.request(method, url, headers=headers, data=body, timeout=_TIMEOUT)
        with body.open("rb") as file:
            return self._session.request(method, url, headers=headers, data=file, timeout=_TIMEOUT)


def _element(text: str, name: str) -> str:
    """The text of the first element `name`; '' without one."""
    match = re.search(rf"<{name}>([^<]*)</{name}>", text)
    return match[1] if match else ""
