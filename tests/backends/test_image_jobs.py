"""Images as results: a miniature of llama.cpp's server images, two platforms under one tag."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from ci_compiler.cli.runner import join_images
from ci_compiler.errors import InputError
from tests.backends.project import Project
from tests.publishing.places import serving
from tests.publishing.registry import LOGIN, RegistryHandler, layout

PLATFORMS = {"x86_64-linux": "amd64", "aarch64-linux": "arm64"}

JOINED_NAME = "llama-any"

SERVER = '#!/bin/sh -e\nmkdir -p out\ncp "made/$VARIANT_PLATFORM.oci.tar" out/server.oci.tar\n'
JOINED = '#!/bin/sh -e\nci-runner join-images --out dist/llama.oci.tar "$VARIANT_NEEDS"/server/*/*.oci.tar\n'


def declared(address: str) -> dict[str, Any]:
    untested = "its tests are those of the programs in it"
    place = {"to": "registry", "url": f"{address}/my-org/server", "image-tags": ["server-{version}", "server"]}
    common = {"disk": 1, "memory": 1, "ignores": ["accelerator"], "untested": untested}
    command = {"install": "docker pull @name@", "build": "ci/server.sh", "files": ["out/*.oci.tar"], "publish": "true"}
    joined = command | {"build": "ci/joined.sh", "files": ["dist/*.oci.tar"], "publish": place}
    return {
        "version": 1,
        "owner": "my-org",
        "backend": "command",
        "branches": {"main": {"versions": {"server": "1.4.0", "llama": "1.4.0"}}},
        "packages": {
            "server": {**common, "command": command},
            "llama": {
                **common,
                "ignores": ["accelerator", "platform"],
                "gathers": [{"package": "server", "platform": "all"}],
                "command": joined,
            },
        },
        "matrix": {"values": {"platform": [*PLATFORMS], "accelerator": "cpu"}},
        "publish": {"on-shared-machines": True},
        "runners": {
            name: {"runs-on": ["self-hosted", "linux", name, "builder"], "stages": ["build", "publish"]}
            for name in ("x64", "arm64")
        },
    }


@pytest.fixture
def images(project: Project) -> Project:
    """The repository, with the archives that its build script takes for made."""
    program = f'#!/bin/sh\nexec "{sys.executable}" -c "import sys; from ci_compiler.cli.runner import main; '
    (project.root.parent / "bin/ci-runner").write_text(program + 'sys.exit(main())" "$@"\n', "utf-8")
    (project.root.parent / "bin/ci-runner").chmod(0o755)
    for name, text in {"server.sh": SERVER, "joined.sh": JOINED}.items():
        (project.root / "ci" / name).write_text(text, "utf-8")
        (project.root / "ci" / name).chmod(0o755)
    for platform, architecture in PLATFORMS.items():
        layout(project.root / f"made/{platform}.oci.tar", architecture, architecture)
    declare(project, "http://127.0.0.1:1")
    return project


def declare(project: Project, address: str) -> None:
    project.write(".github/ci-matrix.yaml", json.dumps(declared(address)))


def build(project: Project, name: str, *options: str, status: int = 0) -> str:
    done = project.job("build", name, "--branch", "main", "--out", f"made-output/{name}", *options, status=status)
    return done.stdout + done.stderr


@pytest.mark.slow
def test_the_images_of_two_platforms_are_published_under_one_tag(images: Project) -> None:
    state = {"blobs": {}, "manifests": {}, "tags": {}, "log": [], "lock": Lock()}
    server = type("Server", (RegistryHandler,), state)
    with serving(server) as address:
        declare(images, address)
        for platform in PLATFORMS:
            build(images, f"server-{platform}")
        build(images, JOINED_NAME, "--needs", "made-output")
        path = "made-output/llama-any/manifest.json"
        stated = json.loads((images.root / path).read_text("utf-8"))
        assert {*stated["needs"]} == {f"server-{platform}" for platform in PLATFORMS}
        place = ("--branch", "main", "--commit", stated["commit"], "--manifest", path)
        images.job("publish", JOINED_NAME, *place, PUBLISH_TOKEN=LOGIN)
        assert {*server.tags} == {"server-1.4.0", "server"}
        _, index = server.manifests[server.tags["server"]]
        assert [row["platform"]["architecture"] for row in json.loads(index)["manifests"]] == ["amd64", "arm64"]
        assert len(server.blobs) == 4
        assert images.job("publish", JOINED_NAME, *place, PUBLISH_TOKEN=LOGIN).stdout.count("published already")
        said = images.job("withdraw", "llama", "1.4.0", "--because", "wrong results", PUBLISH_TOKEN=LOGIN).stdout
        assert (said, server.tags) == ("llama 1.4.0: withdrawn\n", {})


def test_an_image_for_another_platform_is_refused(images: Project) -> None:
    layout(images.root / "made/x86_64-linux.oci.tar", "arm64")
    images.commit()
    said = build(images, "server-x86_64-linux", status=1)
    assert "server.oci.tar is for linux/arm64, and the variant is for linux/amd64 [image-differs]" in said


@pytest.mark.slow
def test_an_index_has_what_was_gathered_and_nothing_else(images: Project) -> None:
    for platform in PLATFORMS:
        build(images, f"server-{platform}")
    images.write("ci/joined.sh", JOINED.replace("server/*/*", "server/*x86_64*/*"))
    assert "which was gathered with the rest" in build(images, JOINED_NAME, "--needs", "made-output", status=1)
    layout(images.root / "made/other.oci.tar", "s390x")
    images.write("ci/joined.sh", JOINED.replace("tar\n", "tar made/other.oci.tar\n"))
    assert "which was not gathered" in build(images, JOINED_NAME, "--needs", "made-output", status=1)


@pytest.mark.parametrize(
    ("name", "message"),
    [("both.oci.tar", "cannot be joined: two images are for linux/amd64"), ("both.tar", "must be a new file")],
)
def test_images_that_cannot_be_joined_leave_nothing(tmp_path: Path, name: str, message: str) -> None:
    archives = [tmp_path / "a.oci.tar", tmp_path / "b.oci.tar"]
    for path in archives:
        layout(path, text=path.name)
    with pytest.raises(InputError, match=message):
        join_images.run(Namespace(archives=archives, out=tmp_path / name))
    assert not (tmp_path / name).exists()
