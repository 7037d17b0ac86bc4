"""The digest that a tag of a container image names, from its registry.

The requests are those of the OCI distribution specification (https://github.com/opencontainers/distribution-spec) and
the handshake for a token is that of the registry protocol (https://distribution.github.io/distribution/spec/auth/token/).
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit
from urllib.request import Request

from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.outside import object_of
from ci_compiler.update.web import PAGE, Bounds, RefusedError, page, refusal

_MANIFEST = Bounds(PAGE.seconds, 4_194_304)
"""The specification lets a registry refuse manifests of more than 4 MiB."""

_ACCEPT = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_DIGEST = re.compile("sha256:[0-9a-f]{64}")
_SERVER = "the registry"


class Image(NamedTuple):
    """A reference to an image: its registry, the path there, and its tag and digest, '' for those it lacks."""

    registry: str
    path: str
    tag: str
    digest: str


def image(reference: str) -> Image:
    """The parts of a reference as container engines read it: `debian` is `docker.io/library/debian:latest`."""
    named, _, digest = reference.partition("@")
    host, separator, path = named.partition("/")
    if not separator or not (set(host) & set(".:") or host == "localhost"):
        host, path = "docker.io", named if separator else f"library/{named}"
    path, _, tag = path.partition(":")
    return Image(host, path, tag or ("" if digest else "latest"), digest)


def digest(reference: str) -> str:
    """The digest that the tag of `reference` names now. Raises InputError."""
    one = image(reference)
    is_local = re.fullmatch(r"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?", one.registry) is not None
    host = "registry-1.docker.io" if one.registry == "docker.io" else one.registry
    url = f"http{'' if is_local else 's'}://{host}/v2/{one.path}/manifests/{one.tag}"
    headers = {"Accept": _ACCEPT}
    try:
        try:
            return _ask(reference, url, headers)
        except RefusedError as refused:
            if refused.status != 401:
                raise
            token = _token(reference, refused.headers.get("WWW-Authenticate", ""), is_local=is_local)
        return _ask(reference, url, {**headers, "Authorization": f"Bearer {token}"})
    except RefusedError as refused:
        if refused.status == 404:
            raise wrong(reference, Code.UPSTREAM_UNREACHABLE, f"{_SERVER} has no tag {one.tag}") from None
        raise refusal(reference, _SERVER, refused) from None


def _ask(reference: str, url: str, headers: dict[str, str]) -> str:
    _, answered = page(reference, _SERVER, Request(url, headers=headers, method="HEAD"), _MANIFEST)  # noqa: S310
    if found := answered.get("Docker-Content-Digest"):
        if not _DIGEST.fullmatch(found):
            raise wrong(reference, Code.UPSTREAM_UNREACHABLE, f"{_SERVER} sent {found[:80]!r} for a digest")
        return found
    body, _ = page(reference, _SERVER, Request(url, headers=headers), _MANIFEST)  # noqa: S310
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def _token(reference: str, challenge: str, *, is_local: bool) -> str:
    """A token for reading, from the server that the registry's challenge names, without a credential."""
    asked = dict(re.findall(r'(\w+)="([^"]*)"', challenge)) if challenge.lower().startswith("bearer ") else {}
    realm = asked.pop("realm", "")
    schemes = {"https", "http"} if is_local else {"https"}
    if urlsplit(realm).scheme not in schemes:
        raise wrong(reference, Code.UPSTREAM_UNREACHABLE, f"{_SERVER} wants a login; only public images are looked up")
    query = urlencode({key: asked[key] for key in ("service", "scope") if key in asked})
    body, _ = page(reference, _SERVER, Request(f"{realm}?{query}"), _MANIFEST)  # noqa: S310 - the scheme is checked above
    try:
        found = object_of(body)
        token = found.get("token") or found["access_token"]
    except (OSError, KeyError):
        raise wrong(reference, Code.UPSTREAM_UNREACHABLE, f"{_SERVER} sent no token") from None
    return str(token)
