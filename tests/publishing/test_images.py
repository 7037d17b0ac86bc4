"""Archives of images: what is verified, which platforms they state, and how they are joined."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.outside import member_of
from ci_compiler.publishing.images import INDEX, MOST, Descriptor, Image, image_of, index_of, join, opened, row_of
from tests.publishing.registry import MANIFEST, descriptor, digest_of, layout, manifest_of, pack

Rows = Sequence[dict[str, Any]]
NAME = "server.oci.tar"


def index_with(rows: Rows) -> bytes:
    return json.dumps({"schemaVersion": 2, "manifests": rows}).encode()


def blobs(*contents: bytes) -> dict[str, bytes]:
    """The members of an archive with these contents."""
    return {f"blobs/sha256/{digest_of(content)[7:]}": content for content in contents}


def packed(folder: Path, config: Any, media: str = MANIFEST, more: Rows = (), **index: bytes) -> Path:
    """An archive of one image with this configuration, and of `more` that its `index.json` names."""
    written = json.dumps(config).encode()
    manifest = manifest_of(written, b"layer")
    files = {"index.json": index_with([descriptor(media, manifest), *more]), **blobs(written, b"layer", manifest)}
    pack(folder / NAME, files | {name.replace("_", "."): content for name, content in index.items()})
    return folder / NAME


@pytest.mark.parametrize(
    ("stated", "platform"),
    [
        ({"os": "linux", "architecture": "amd64"}, "linux/amd64"),
        ({"os": "linux", "architecture": "arm64", "variant": "v8"}, "linux/arm64"),
        ({"os": "linux", "architecture": "arm64", "variant": "v9"}, "linux/arm64/v9"),
        ({"os": "linux", "architecture": "arm", "variant": "v8"}, "linux/arm/v8"),
        ({"os": "windows", "architecture": "amd64", "variant": ""}, "windows/amd64"),
    ],
)
@pytest.mark.parametrize("media", [MANIFEST, "application/vnd.docker.distribution.manifest.v2+json"])
def test_an_image_is_for_the_platform_of_its_configuration(
    tmp_path: Path, stated: dict[str, str], platform: str, media: str
) -> None:
    image = image_of(packed(tmp_path, stated, media))
    config = json.dumps(stated).encode()
    manifest = manifest_of(config, b"layer")
    root = Descriptor(media, digest_of(manifest), len(manifest))
    kinds = ("config.v1+json", "layer.v1.tar")
    parts = [
        Descriptor(f"application/vnd.oci.image.{kind}", digest_of(content), len(content))
        for kind, content in zip(kinds, (config, b"layer"), strict=True)
    ]
    assert image == Image(root=root, manifests={root: manifest}, blobs=tuple(parts), platforms={platform: root.digest})
    assert row_of(root) == descriptor(media, manifest)


def test_the_root_is_what_the_archive_names_and_an_index_of_several_itself(tmp_path: Path) -> None:
    digest = layout(tmp_path / NAME, attestation=True)
    image = image_of(tmp_path / NAME)
    assert (image.root.digest, image.root.media) == (digest, INDEX)
    assert list(image.manifests)[-1] == image.root
    assert (len(image.manifests), [*image.platforms]) == (3, ["linux/amd64"])
    arm = json.dumps({"os": "linux", "architecture": "arm64"}).encode()
    second = manifest_of(arm, b"layer")
    path = packed(tmp_path, {"os": "linux", "architecture": "amd64"}, more=[descriptor(MANIFEST, second)])
    with tarfile.open(path) as file:
        files = {member.name: (file.extractfile(member) or file).read() for member in file}  # type: ignore[union-attr]
    pack(path, {f"./{name}": content for name, content in (files | blobs(arm, second)).items()})
    image, index = image_of(path), files["index.json"]
    assert image.root == Descriptor(INDEX, digest_of(index), len(index))
    assert (len(image.manifests), image.manifests[image.root]) == (3, index)
    assert [*image.platforms] == ["linux/amd64", "linux/arm64"]
    assert len(image.blobs) == 3, "both have the same layer"


AMD = {"os": "linux", "architecture": "amd64"}
AGAIN = json.dumps(AMD | {"rootfs": {}}).encode()
SECOND = manifest_of(AGAIN, b"layer")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(({"without": name}, "lacks blobs/sha256/") for name in ("config", "layer", "manifest")),
        *(({"spoilt": name}, "has other content than sha256:") for name in ("config", "layer", "manifest")),
    ],
)
def test_an_archive_that_is_not_whole_is_refused(tmp_path: Path, options: dict[str, str], message: str) -> None:
    layout(tmp_path / NAME, **options)  # type: ignore[arg-type]
    with pytest.raises(OSError, match=f"^{NAME} {message}"):
        image_of(tmp_path / NAME)


@pytest.mark.parametrize(
    ("config", "media", "index", "message"),
    [
        (AMD, "text/plain", {}, "names text/plain, which is no manifest, or too deep an index"),
        ({"os": 1}, MANIFEST, {}, f"has a configuration of another form: {digest_of(json.dumps({'os': 1}).encode())}"),
        ([], MANIFEST, {}, "is no archive of an OCI image layout: is not a JSON object"),
        (AMD, MANIFEST, {"index_json": index_with([])}, "has no image"),
        (AMD, MANIFEST, {"index_json": b" " * (MOST + 1)}, "has a index.json of more than 4,194,304 bytes"),
        (AMD, MANIFEST, {"index_json": b"{}"}, "is no archive of an OCI image layout: 'manifests'"),
        (
            AMD,
            MANIFEST,
            {"index_json": index_with([descriptor(MANIFEST, b"") | {"digest": "sha256:1"}])},
            "is no archive of an OCI image layout: sha256:1 is no digest by SHA-256",
        ),
        (
            AMD,
            MANIFEST,
            {
                "index_json": index_with([descriptor(MANIFEST, SECOND) | {"size": 1}]),
                f"blobs/sha256/{digest_of(SECOND)[7:]}": SECOND,
            },
            f"has other content than {digest_of(SECOND)} in its place",
        ),
    ],
)
def test_what_is_no_image_is_refused(
    tmp_path: Path, config: Any, media: str, index: dict[str, bytes], message: str
) -> None:
    path = packed(tmp_path, config, media, **index)
    with pytest.raises(OSError) as raised:  # noqa: PT011
        image_of(path)
    assert str(raised.value) == f"{NAME} {message}"


def test_two_images_for_one_platform_are_refused(tmp_path: Path) -> None:
    path = packed(tmp_path, AMD, more=[descriptor(MANIFEST, SECOND)], **blobs(AGAIN, SECOND))
    with pytest.raises(OSError, match=f"^{NAME} has two images for linux/amd64$"):
        image_of(path)
    first = manifest_of(json.dumps(AMD).encode(), b"layer")
    assert len(image_of(packed(tmp_path, AMD, more=[descriptor(MANIFEST, first)])).manifests) == 2, "the same twice"


def test_an_index_may_be_as_large_as_registries_take(tmp_path: Path) -> None:
    row = descriptor(MANIFEST, manifest_of(json.dumps(AMD).encode(), b"layer"))
    assert image_of(packed(tmp_path, AMD, index_json=index_with([row]).ljust(MOST))).platforms


@pytest.mark.parametrize(("depth", "ends"), [(4, False), (5, True)])
def test_indices_within_indices_end(tmp_path: Path, depth: int, ends: bool) -> None:
    files, entry = dict[str, bytes](), descriptor(MANIFEST, manifest_of(json.dumps(AMD).encode(), b"layer"))
    for _ in range(depth):
        index = index_with([entry, entry])
        entry = descriptor(INDEX, index)
        files |= blobs(index)
    path = packed(tmp_path, AMD, index_json=index_with([entry]), **files)
    if ends:
        with pytest.raises(OSError, match="which is no manifest, or too deep an index"):
            image_of(path)
    else:
        assert len(image_of(path).manifests) == depth + 1


def test_only_files_of_an_archive_are_content(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("no archive", "utf-8")
    with pytest.raises(OSError, match=f"^{NAME} is no archive of an OCI image layout: "):
        image_of(tmp_path / NAME)
    with tarfile.open(tmp_path / NAME, "w") as file:
        folder = tarfile.TarInfo("index.json")
        folder.type = tarfile.DIRTYPE
        file.addfile(folder)
        link = tarfile.TarInfo(f"blobs/sha256/{'0' * 64}")
        link.type, link.linkname = tarfile.SYMTYPE, "index.json"
        file.addfile(link)
    with opened(tmp_path / NAME) as archive:
        with pytest.raises(OSError, match=f"^{NAME} lacks index.json$"):
            archive.image()
        with pytest.raises(OSError, match=f"^{NAME} lacks blobs/sha256/000"):
            archive.open(f"sha256:{'0' * 64}")


def test_images_are_joined_by_platform_and_stored_once(tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("v7", "amd64")}
    configs = {"v7": {"os": "linux", "architecture": "arm", "variant": "v7"}, "amd64": AMD}
    for name, folder in folders.items():
        folder.mkdir()
        packed(folder, configs[name])
    paths = [folder / NAME for folder in folders.values()]
    joined = join(paths, tmp_path / "new/all.oci.tar")
    manifests = {name: manifest_of(json.dumps(config).encode(), b"layer") for name, config in configs.items()}
    rows = [
        descriptor(MANIFEST, manifests["amd64"]) | {"platform": AMD},
        descriptor(MANIFEST, manifests["v7"]) | {"platform": configs["v7"]},
    ]
    index = joined.manifests[joined.root]
    assert json.loads(index) == {"schemaVersion": 2, "mediaType": INDEX, "manifests": rows}
    with tarfile.open(tmp_path / "new/all.oci.tar") as file:
        names = file.getnames()
        [layout_file, entry] = [json.load(file.extractfile(name)) for name in names[:2]]  # type: ignore[arg-type]
    assert layout_file == {"imageLayoutVersion": "1.0.0"}
    assert entry == {"schemaVersion": 2, "mediaType": INDEX, "manifests": [descriptor(INDEX, index)]}
    contents = [json.dumps(config).encode() for config in configs.values()]
    assert names[:2] == ["oci-layout", "index.json"]
    assert sorted(names[2:]) == sorted(blobs(index, b"layer", *manifests.values(), *contents))
    again = join(paths[::-1], tmp_path / "again.oci.tar")
    assert (again, (tmp_path / "again.oci.tar").read_bytes()) == (joined, (tmp_path / "new/all.oci.tar").read_bytes())


def test_two_images_of_one_platform_are_not_joined(tmp_path: Path) -> None:
    path = packed(tmp_path, AMD)
    with pytest.raises(ValueError, match=r"^two images are for linux/amd64$"):
        index_of([image_of(path), image_of(path)])
    layout(tmp_path / "other.oci.tar")
    with pytest.raises(ValueError, match=r"^two images are for linux/amd64$"):
        join([path, tmp_path / "other.oci.tar"], tmp_path / "all.oci.tar")
    assert not (tmp_path / "all.oci.tar").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes with a name")
def test_a_pipe_is_no_archive_and_stops_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / NAME)
    with pytest.raises(OSError, match="is not a regular file"):
        image_of(tmp_path / NAME)
    with pytest.raises(OSError, match="is not a regular file"):
        member_of(tmp_path / NAME, ".*", 1)
