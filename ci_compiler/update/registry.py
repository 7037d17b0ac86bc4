"""The digest that a tag of a container image names, from its registry.

The requests are those of the OCI distribution specification (https://github.com/opencontainers/distribution-spec) and
the handshake for a token is that of the registry protocol (https://distribution.github.io/distribution/spec/auth/token/).
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from ci_compiler.outside import object_of
from ci_compiler.update.web import PAGE, Bounds, Server, StatusError, unreachable

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


class ImageReference(NamedTuple):
    """A reference to an image: its registry, the path there, and its tag and digest, '' for those it lacks."""

    registry: str
    path: str
    tag: str
    digest: str


def image(reference: str) -> ImageReference:
    """The parts of a reference as container engines read it: `debian` is `docker.io/library/debian:latest`."""
    named, _, digest = reference.partition("@")
    host, separator, path = named.partition("/")
    if not separator or not (set(host) & set(".:") or host == "localhost"):
        host, path = "docker.io", named if separator else f"library/{named}"
    path, _, tag = path.partition(":")
    return ImageReference(host, path, tag or ("" if digest else "latest"), digest)


def digest(reference: str) -> str:
    """The digest that the tag of `reference` names now. Raises InputError."""
    parts, server = image(reference), Server("the registry", reference)
    is_local = re.fullmatch(r"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?", parts.registry) is not None
    host = "registry-1.docker.io" if parts.registry == "docker.io" else parts.registry
    url = f"http{'' if is_local else 's'}://{host}/v2/{parts.path}/manifests/{parts.tag}"
    headers = {"Accept": _ACCEPT}
    try:
        try:
            return _ask(server, url, headers)
        except StatusError as refused:
            if refused.status != 401:
                raise
            token = _token(server, refused.headers.get("WWW-Authenticate", ""), is_local=is_local)
        return _ask(server, url, {**headers, "Authorization": f"Bearer {token}"})
    except StatusError as refused:
        if refused.status != 404:
            raise
        raise unreachable(reference, f"{server.called} has no tag {parts.tag}") from None


def _ask(server: Server, url: str, headers: dict[str, str]) -> str:
    _, answered = server.page(url, headers=headers, method="HEAD", bounds=_MANIFEST)
    if stated := answered.get("Docker-Content-Digest"):
        if not _DIGEST.fullmatch(stated):
            raise unreachable(server.name, f"{server.called} sent {stated[:80]!r} for a digest")
        return stated
    body, _ = server.page(url, headers=headers, bounds=_MANIFEST)
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def _token(server: Server, challenge: str, *, is_local: bool) -> str:
    """A token for reading, from the server that the registry's challenge names, without a credential."""
    asked = dict(re.findall(r'(\w+)="([^"]*)"', challenge)) if challenge.lower().startswith("bearer ") else {}
    realm = asked.pop("realm", "")
    if urlsplit(realm).scheme not in ({"https", "http"} if is_local else {"https"}):
        raise unreachable(server.name, f"{server.called} wants a login; only public images are looked up")
    query = urlencode({key: asked[key] for key in ("service", "scope") if key in asked})
    body, _ = server.page(f"{realm}?{query}", bounds=_MANIFEST)
    try:
        answer = object_of(body)
        return str(answer.get("token") or answer["access_token"])
    except (OSError, KeyError):
        raise unreachable(server.name, f"{server.called} sent no token") from None
