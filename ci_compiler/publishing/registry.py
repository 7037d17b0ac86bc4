"""A registry of container images, by the OCI Distribution Specification: content by digest, and tags that move last.

Blobs are uploaded first, each in one request and only where the registry lacks it; then manifests, each after those
that it names; and tags at the end. Until then, a tag that begins with `staged-` is that of an image index, which names
the uploaded image, its commit, and when it was uploaded. It keeps the image from being collected as garbage.
"""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from functools import partial
from time import sleep
from typing import IO, Any
from urllib.parse import urljoin, urlsplit

import requests

from ci_compiler.codes import Code
from ci_compiler.errors import failure
from ci_compiler.outside import expected, object_of
from ci_compiler.publishing.images import INDEX, MANIFESTS, SUFFIX, Descriptor, image_of, opened, row_of
from ci_compiler.publishing.plan import HeldFile, HeldVersion, StagedVariant, Upload, order_of, release_of
from ci_compiler.publishing.target import Target
from ci_compiler.secret import Secret

VERSION = "{version}"
"""What stands for the version in a tag."""

_TIMEOUT = (30, 600)
_ATTEMPTS = 4
_STAGED = "staged-"
_REVISION, _CREATED, _TITLE = (f"org.opencontainers.image.{name}" for name in ("revision", "created", "title"))
"""What a staged image states, by the annotations that the OCI Image Format Specification defines."""
_UNDELETED = 400, 404, 405
"""How a registry answers that deletes no tags, or nothing, or lacks what is to be deleted."""
_VERSIONS = "([0-9][A-Za-z0-9.]*)"
_CHALLENGE = re.compile(r'([a-z]+)="([^"]*)"')
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")

Body = Callable[[], AbstractContextManager[IO[bytes] | bytes]]


class Registry(Target):
    """The image of `variant` in the repository at `url` (`https://HOST/PATH`); `tags` returns those of each variant.

    The first tag of a variant has `{version}`; one without it moves to a newer version. `login` is
    USER:PASSWORD, or empty, and `named` is what messages call it. The methods also raise OSError if the registry fails.
    """

    def __init__(self, url: str, variant: str, tags: Callable[[str], Sequence[str]], login: Secret, named: str) -> None:
        where = urlsplit(url)
        self._host = f"{where.scheme}://{where.netloc}"
        self._path = where.path.strip("/")
        self._variant = variant
        self._tags = tags
        self._login = login
        self._login_name = named
        self._proof = ""
        self._session = requests.Session()
        self._session.auth = _no_netrc

    def held(self, wanted: Sequence[Upload]) -> Mapping[str, HeldFile]:
        """Whether the tag of the version has the image; an image without it was uploaded before, with all it names."""
        file = self._only(wanted)
        own = image_of(file.path).root.digest
        if there := self._digest(self._named(file.version)[0]):
            return {file.name: HeldFile(file.digest if there == own else there, shown=True)}
        return {file.name: HeldFile(file.digest, shown=False)} if self._digest(own) else {}

    def put(self, file: Upload) -> None:
        """Uploads the blobs that the registry lacks, and then the manifests by their digests."""
        image = image_of(file.path)
        with opened(file.path) as archive:
            for blob in image.blobs:
                if not self._ask("HEAD", f"blobs/{blob.digest}", known=(404,)).ok:
                    self._send(blob, partial(archive.open, blob.digest))
        for manifest, content in image.manifests.items():
            if not self._digest(manifest.digest):
                self._tag(manifest.digest, manifest.media, content)

    def stage(self, wanted: Sequence[Upload]) -> None:
        """Gives the image a tag that no user knows, in place of that of another commit."""
        file = self._only(wanted)
        stated = {_REVISION: file.commit, _CREATED: datetime.now(UTC).isoformat(), _TITLE: file.variant}
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [row_of(image_of(file.path).root)]}
        content = json.dumps(index | {"annotations": stated}).encode()
        self._tag(_stage(file.version, file.variant), INDEX, content)

    def staged(self, version: str, variants: Collection[str]) -> Mapping[str, StagedVariant]:
        """The variants whose images have such a tag, or the tag of the version, whose commit is not known then."""
        staged: dict[str, StagedVariant] = {}
        for variant in variants:
            shown, waits = self._digest(self._named(version, variant)[0]), self._waiting(_stage(version, variant))
            if waits and shown in {"", waits["manifests"][0]["digest"]}:
                staged[variant] = StagedVariant(waits["annotations"][_REVISION], shown=bool(shown))
            elif shown:
                staged[variant] = StagedVariant("", shown=True)
        return staged

    def finish(self, version: str, variants: Collection[str]) -> None:
        """Gives the staged images their tags, that of the version last, so that no image is shown unfinished."""
        stages = {variant: _stage(version, variant) for variant in variants}
        for variant, stage in stages.items():
            if waits := self._waiting(stage):
                row = waits["manifests"][0]
                content = self._ask("GET", f"manifests/{row['digest']}").content
                for tag, form in reversed([*zip(self._named(version, variant), self._tags(variant), strict=True)]):
                    if VERSION in form or self._may_move(tag, version, variant):
                        self._tag(tag, row["mediaType"], content)
        for stage in stages.values():
            self._unstage(stage)

    def _may_move(self, tag: str, version: str, variant: str) -> bool:
        """Whether a tag without a version may name `version`: it does not name a newer one, which a re-run comes after.

        Where there are newer versions, it must name one that is known to be older.
        """
        at, every = self._digest(tag), self._versions(variant)
        older = [one for one in every if order_of(one) <= order_of(version)]
        return not at or len(older) == len(every) or at in {self._digest(self._named(one, variant)[0]) for one in older}

    def versions(self) -> Collection[HeldVersion]:
        """The versions that the tags of the variant spell, without local parts."""
        return {HeldVersion("", version) for version in self._versions(self._variant)}

    def _versions(self, variant: str) -> list[str]:
        before, _, after = self._tags(variant)[0].partition(VERSION)
        form = re.compile(re.escape(before) + _VERSIONS + re.escape(after))
        return [match[1] for tag in self._listed() if (match := form.fullmatch(tag))]

    def needed(self, gone: Collection[HeldVersion]) -> Sequence[HeldVersion]:
        """Those of which an index with another tag names the image, as that of a joined image does."""
        tags = {version: self._named(version.version)[0] for version in gone}
        digests = {version: self._digest(tag) for version, tag in tags.items()}
        kept = (tag for tag in self._listed() if tag not in tags.values() and not tag.startswith(_STAGED))
        named = {row["digest"] for tag in kept for row in self._waiting(tag).get("manifests", ())} if gone else set()
        return [version for version, digest in digests.items() if digest in named]

    def remove_abandoned(self, before: datetime) -> int:
        """Deletes the tags of images that wait since before a time, where the registry deletes something."""
        waiting = {tag: self._waiting(tag) for tag in self._listed() if tag.startswith(_STAGED)}
        old = [
            tag
            for tag, data in waiting.items()
            if data and datetime.fromisoformat(data["annotations"][_CREATED]) < before
        ]
        return sum(self._unstage(tag) for tag in old)

    def withdraw(self, versions: Collection[HeldVersion], because: str) -> None:
        """Deletes the images with all their tags; without a reason only the tags, and an image that has others stays.

        Raises StageError where the registry deletes nothing, and for an image that is part of another one.
        """
        if parts := self.needed(versions):
            message = f"{parts[0].version} is part of an image that has another tag; withdraw that one first"
            raise failure(self._variant, Code.PUBLISH_FAILED, message)
        tags = [self._named(version.version)[0] for version in versions]
        for tag in tags:
            digest = self._digest(tag)
            if not digest or (not because and self._ask("DELETE", f"manifests/{tag}", known=_UNDELETED).ok):
                continue
            if not because and any(self._digest(other) == digest for other in {*self._listed()} - {*tags}):
                continue
            if not self._ask("DELETE", f"manifests/{digest}", known=_UNDELETED).ok:
                message = f"the registry deletes no images; delete {self._path}:{tag} on its pages"
                raise failure(self._variant, Code.PUBLISH_FAILED, message)

    def _only(self, wanted: Sequence[Upload]) -> Upload:
        images = [file for file in wanted if file.name.endswith(SUFFIX)]
        if len(images) != len(wanted) or len(images) != 1:
            message = f"a registry takes one image of a variant (`*{SUFFIX}`), not {len(wanted)} files"
            raise failure(wanted[0].variant, Code.PUBLISH_FAILED, message)
        return images[0]

    def _named(self, version: str, variant: str = "") -> list[str]:
        """The tags of `version` without its local part (no tag may have a `+`), that of the version first."""
        tags = [tag.replace(VERSION, release_of(version)) for tag in self._tags(variant or self._variant)]
        if wrong := next((tag for tag in tags if not _TAG.fullmatch(tag)), ""):
            message = f"{wrong!r} is no tag: letters, digits and . _ -, at most 128"
            raise failure(self._variant, Code.PUBLISH_FAILED, message)
        return tags

    def _tag(self, reference: str, media: str, content: bytes) -> None:
        """Puts a manifest under a tag or its digest. The registry refuses one whose content is not all there."""
        self._ask("PUT", f"manifests/{reference}", lambda: nullcontext(content), headers={"Content-Type": media})

    def _digest(self, reference: str) -> str:
        """The digest of the manifest with this tag or digest; '' if there is none."""
        answer = self._ask("HEAD", f"manifests/{reference}", known=(404,))
        if not answer.ok:
            return ""
        if digest := answer.headers.get("Docker-Content-Digest", ""):
            return digest
        content = self._ask("GET", f"manifests/{reference}").content
        return f"sha256:{hashlib.sha256(content).hexdigest()}"

    def _waiting(self, tag: str) -> dict[str, Any]:
        """The manifest with a tag, such as the index of a staged image; empty if there is none."""
        answer = self._ask("GET", f"manifests/{tag}", known=(404,))
        return object_of(answer.content) if answer.ok else {}

    def _unstage(self, stage: str) -> bool:
        """Deletes the index of a staged image, and so its tag; whether the registry did."""
        digest = self._digest(stage)
        return bool(digest) and self._ask("DELETE", f"manifests/{digest}", known=_UNDELETED).ok

    def _listed(self) -> Iterator[str]:
        """All tags; a page names the next one."""
        page = "tags/list?n=1000"
        while page:
            answer = self._ask("GET", page, known=(404,))
            if not answer.ok:
                return
            yield from expected(list, object_of(answer.content).get("tags") or [])
            page = answer.links.get("next", {}).get("url", "")

    def _send(self, blob: Descriptor, body: Body) -> None:
        """Uploads a blob in one request, to the place that the registry names for it."""
        at = self._ask("POST", "blobs/uploads/").headers["Location"]
        place = f"{at}{'&' if urlsplit(at).query else '?'}digest={blob.digest}"
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(blob.size)}
        self._ask("PUT", place, body, headers=headers)

    def _ask(
        self,
        method: str,
        place: str,
        body: Body = lambda: nullcontext(b""),
        *,
        headers: Mapping[str, str] | None = None,
        known: Collection[int] = (),
    ) -> requests.Response:
        """The answer: success, or one of `known`. Raises OSError for any other."""
        url = urljoin(f"{self._host}/v2/{self._path}/", place)
        for attempt in range(_ATTEMPTS):
            given = {"Accept": ", ".join(sorted(MANIFESTS)), **(headers or {})}
            if self._proof and url.startswith(f"{self._host}/"):
                given["Authorization"] = self._proof
            with body() as content:
                answer = self._session.request(method, url, headers=given, data=content, timeout=_TIMEOUT)
            if answer.status_code == requests.codes.unauthorized and not attempt:
                self._proof = self._proved(answer.headers.get("WWW-Authenticate", ""))
            elif answer.status_code < 500:
                break
            else:
                sleep(attempt / 2)
        if answer.ok or answer.status_code in known:
            return answer
        message = f"{self._host} answered {method} of {url.partition('?')[0]} with {answer.status_code}"
        raise OSError(message)

    def _proved(self, challenge: str) -> str:
        """The header that answers a challenge: the login itself, or a token for it ("Token Authentication")."""
        user, _, password = self._login.reveal().partition(":")
        login = (user, password) if password else None
        kind, _, rest = challenge.partition(" ")
        said = dict(_CHALLENGE.findall(rest))
        if kind.lower() == "basic" and login:
            return f"Basic {b64encode(self._login.reveal().encode()).decode()}"
        if kind.lower() != "bearer" or urlsplit(said.get("realm", "")).scheme != urlsplit(self._host).scheme:
            message = f"{self._host} wants a login: set {self._login_name} to USER:PASSWORD"
            raise OSError(message)
        asked = {key: said[key] for key in ("service", "scope") if key in said}
        answer = self._session.get(said["realm"], params=asked, auth=login, timeout=_TIMEOUT)
        if not answer.ok:
            message = f"{said['realm']} answered {answer.status_code} to the login in {self._login_name}"
            raise OSError(message)
        data = object_of(answer.content)
        return f"Bearer {expected(str, data.get('token') or data.get('access_token'))}"


def _no_netrc(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """`request`, to which `.netrc` then adds no login."""
    return request


def _stage(version: str, variant: str) -> str:
    """The tag of a staged image: names of variants may be too long for tags, so it has their hash."""
    return f"{_STAGED}{hashlib.sha256(f'{release_of(version)} {variant}'.encode()).hexdigest()[:32]}"
