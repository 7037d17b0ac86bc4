"""Container images as files: archives of the OCI image layout (`*.oci.tar`), read, verified and joined.

The forms are those of the OCI Image Format Specification, "Image Layout", "Image Index" and "Image Manifest". Nothing
is unpacked: content is read from the archive, by its digest.
"""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from ci_compiler.outside import expected, object_of, open_regular

SUFFIX = ".oci.tar"
"""How the name of an archive ends."""

INDEX = "application/vnd.oci.image.index.v1+json"
_INDICES = frozenset({INDEX, "application/vnd.docker.distribution.manifest.list.v2+json"})
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
MANIFESTS = _INDICES | {_MANIFEST, "application/vnd.docker.distribution.manifest.v2+json"}
"""The media types of manifests; anything else is a blob."""

MOST = 4 << 20
"""The most bytes of a manifest: registries must take so many ("OCI Distribution Specification", Pushing Manifests)."""
_CHUNK = 1 << 20
_DEEPEST = 4
"""How deep indices may be within indices."""
_DIGEST = re.compile("sha256:[0-9a-f]{64}")
_NO_PLATFORM = "unknown/unknown"
"""The platform of what is attached to an image, such as its provenance (BuildKit, "Image attestation storage")."""


class Descriptor(NamedTuple):
    """What refers to content: its media type, its digest (`sha256:…`) and its size in bytes."""

    media: str
    digest: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A verified image in an archive.

    `manifests` have their content, each after those that it names; the last one is `root`. `blobs` are all others.
    `platforms` has the digest of the manifest for each platform, such as `linux/arm64`.
    """

    root: Descriptor
    manifests: Mapping[Descriptor, bytes]
    blobs: tuple[Descriptor, ...]
    platforms: Mapping[str, str]


class Archive:
    """An open archive. Its methods raise OSError for one that is not whole."""

    def __init__(self, file: tarfile.TarFile, name: str) -> None:
        self._file = file
        self._name = name
        self._seen = set[str]()
        self._members = {member.name.removeprefix("./"): member for member in file.getmembers()}

    def open(self, digest: str) -> IO[bytes]:
        """The content with this digest, which is not verified."""
        return self._open(f"blobs/sha256/{digest.removeprefix('sha256:')}")

    def image(self) -> Image:
        """The image, of which every digest and size is verified."""
        index = self._small("index.json")
        entries = _descriptors(index)
        itself = Descriptor(INDEX, _digest(index), len(index)), index
        root, known = (entries[0], None) if len(entries) == 1 else itself
        manifests, blobs, platforms = dict[Descriptor, bytes](), dict[Descriptor, None](), dict[str, str]()
        for manifest, content, config in self._walk(root, known):
            manifests[manifest] = content
            if not config:
                continue
            platform = self._platform(config)
            if platform != _NO_PLATFORM and platforms.setdefault(platform, manifest.digest) != manifest.digest:
                raise self._wrong(f"has two images for {platform}")
            blobs |= dict.fromkeys(_blobs(content))
        for blob in blobs:
            self._verify(blob)
        if not platforms:
            raise self._wrong("has no image")
        return Image(root=root, manifests=manifests, blobs=tuple(blobs), platforms=platforms)

    def _walk(
        self, root: Descriptor, known: bytes | None = None, depth: int = 0
    ) -> Iterator[tuple[Descriptor, bytes, str]]:
        """The manifests below `root` and itself, once each, with their content and the digest of the configuration."""
        if root.media not in MANIFESTS or depth > _DEEPEST:
            raise self._wrong(f"names {root.media}, which is no manifest, or too deep an index")
        if root.digest in self._seen:
            return
        self._seen.add(root.digest)
        content = known or self._content(root)
        if root.media in _INDICES:
            for entry in _descriptors(content):
                yield from self._walk(entry, depth=depth + 1)
            yield root, content, ""
        else:
            yield root, content, _blobs(content)[0].digest

    def _platform(self, config: str) -> str:
        """The platform that a configuration states: system, architecture, and variant if it has one."""
        try:
            data = object_of(self._small(f"blobs/sha256/{config.removeprefix('sha256:')}"))
            words = [expected(str, data.get(key, "")) for key in ("os", "architecture", "variant")]
        except TypeError:
            raise self._wrong(f"has a configuration of another form: {config}") from None
        if words[1:] == ["arm64", "v8"]:  # its only variant, which not all builders state (containerd, platforms)
            words.pop()
        return "/".join(filter(None, words))

    def _content(self, one: Descriptor) -> bytes:
        self._verify(one)
        return self._small(f"blobs/sha256/{one.digest.removeprefix('sha256:')}")

    def _verify(self, one: Descriptor) -> None:
        with self.open(one.digest) as file:
            digest, size = hashlib.sha256(), 0
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
                size += len(chunk)
        if (f"sha256:{digest.hexdigest()}", size) != (one.digest, one.size):
            raise self._wrong(f"has other content than {one.digest} in its place")

    def _small(self, path: str) -> bytes:
        with self._open(path) as file:
            content = file.read(MOST + 1)
        if len(content) > MOST:
            raise self._wrong(f"has a {path} of more than {MOST:,} bytes")
        return content

    def _open(self, path: str) -> IO[bytes]:
        member = self._members.get(path)
        file = self._file.extractfile(member) if member and member.isreg() else None
        if file is None:
            raise self._wrong(f"lacks {path}")
        return file

    def _wrong(self, why: str) -> OSError:
        return OSError(f"{self._name} {why}")


@contextmanager
def opened(path: Path) -> Iterator[Archive]:
    """The archive at `path`. Raises OSError if it is none, or is not whole."""
    try:
        with open_regular(path) as whole, tarfile.open(fileobj=whole, mode="r:") as file:
            yield Archive(file, path.name)
    except (tarfile.TarError, KeyError, TypeError, ValueError) as error:
        message = f"{path.name} is no archive of an OCI image layout: {error}"
        raise OSError(message) from None


def image_of(path: Path) -> Image:
    """The image in the archive at `path`. Raises OSError."""
    with opened(path) as archive:
        return archive.image()


def index_of(images: Iterable[Image]) -> bytes:
    """The image index of `images`, in the order of their platforms. Raises ValueError for two of one platform."""
    entries: dict[str, dict[str, Any]] = {}
    for image in images:
        known = {descriptor.digest: descriptor for descriptor in image.manifests}
        for platform, digest in image.platforms.items():
            if platform in entries:
                message = f"two images are for {platform}"
                raise ValueError(message)
            stated = dict(zip(("os", "architecture", "variant"), platform.split("/"), strict=False))
            one = known[digest]
            entries[platform] = {"mediaType": one.media, "digest": digest, "size": one.size, "platform": stated}
    rows = [entries[platform] for platform in sorted(entries)]
    return json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": rows}, indent=1).encode()


def join(paths: Sequence[Path], to: Path) -> Image:
    """Writes an archive at `to` whose image index has the images at `paths`, by digest; the same images, same bytes.

    Nothing is written before all images are verified. Raises OSError for an archive that is not whole, and ValueError
    for two images of one platform.
    """
    images = {path: image_of(path) for path in sorted(paths)}
    index = index_of(images.values())
    root = Descriptor(INDEX, _digest(index), len(index))
    entry = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [row_of(root)]}).encode()
    where = {
        descriptor.digest: path for path, image in images.items() for descriptor in (*image.manifests, *image.blobs)
    }
    to.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(to, "w", format=tarfile.PAX_FORMAT) as file:
        _add(file, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        _add(file, "index.json", entry)
        _add(file, _place(root.digest), index)
        for path in images:
            with opened(path) as archive:
                for digest in sorted(digest for digest, owner in where.items() if owner == path):
                    _copy(file, archive, digest)
    return image_of(to)


def _copy(file: tarfile.TarFile, archive: Archive, digest: str) -> None:
    with archive.open(digest) as content:
        info = tarfile.TarInfo(_place(digest))
        info.size = content.seek(0, 2)
        content.seek(0)
        file.addfile(info, content)


def _add(file: tarfile.TarFile, path: str, content: bytes) -> None:
    from io import BytesIO

    info = tarfile.TarInfo(path)
    info.size = len(content)
    file.addfile(info, BytesIO(content))


def _place(digest: str) -> str:
    return f"blobs/sha256/{digest.removeprefix('sha256:')}"


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def row_of(one: Descriptor) -> dict[str, Any]:
    """A descriptor, as manifests have it."""
    return {"mediaType": one.media, "digest": one.digest, "size": one.size}


def _descriptors(index: bytes) -> list[Descriptor]:
    """What an image index names. Raises ValueError, KeyError and TypeError for another form."""
    return [_descriptor(row) for row in expected(list, object_of(index)["manifests"])]


def _blobs(manifest: bytes) -> list[Descriptor]:
    """The configuration and the layers that an image manifest names. Raises as `_descriptors`."""
    data = object_of(manifest)
    return [_descriptor(row) for row in (data["config"], *expected(list, data["layers"]))]


def _descriptor(row: Any) -> Descriptor:
    one = Descriptor(expected(str, row["mediaType"]), expected(str, row["digest"]), expected(int, row["size"]))
    if not _DIGEST.fullmatch(one.digest):
        message = f"{one.digest} is no digest by SHA-256"
        raise ValueError(message)
    return one
