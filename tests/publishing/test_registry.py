"""Images in a registry: by digest, resumed, whole, with tags that move last."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock

import pytest

from ci_compiler.errors import StageError
from ci_compiler.publishing.images import image_of, join
from ci_compiler.publishing.plan import HeldVersion, StagedVariant
from ci_compiler.publishing.registry import Registry
from ci_compiler.publishing.target import publish, upload
from ci_compiler.secret import Secret
from tests.publishing.places import serving
from tests.publishing.registry import COMMIT, LOGIN, RegistryHandler, layout, uploaded


class Place:
    """The registry of a test."""

    def __init__(self, address: str, server: type[RegistryHandler]) -> None:
        self.address = address
        self.server = server

    def target(self, variant: str = "server-amd64", login: str = LOGIN, form: str = "-{version}") -> Registry:
        def tags(name: str) -> list[str]:
            return [f"{name}{form}", name]

        return Registry(f"{self.address}/my-org/server", variant, tags, Secret(login), "PUBLISH_TOKEN")


@pytest.fixture
def place() -> Iterator[Place]:
    state = {"blobs": {}, "manifests": {}, "tags": {}, "log": [], "sent": [], "lock": Lock(), "broken": []}
    server = type("Server", (RegistryHandler,), state)
    with serving(server) as address:
        yield Place(address, server)


def test_an_image_is_uploaded_once_and_its_tags_come_last(place: Place, tmp_path: Path) -> None:
    root = layout(tmp_path / "server.oci.tar")
    file, said = uploaded(tmp_path / "server.oci.tar"), list[str]()
    publish(place.target(), [file], said.append)
    assert place.server.tags == {"server-amd64": root, "server-amd64-1.4.0": root}
    puts = [line for line in place.server.log if line.startswith("PUT")]
    assert [line.partition("?")[0] for line in puts] == [
        "PUT blobs/uploads/1",
        "PUT blobs/uploads/1",
        f"PUT manifests/{root}",
        puts[3],
        "PUT manifests/server-amd64",
        "PUT manifests/server-amd64-1.4.0",
    ]
    assert puts[3].startswith("PUT manifests/staged-")
    place.server.log.clear()
    publish(place.target(), [file], said.append)
    assert said == ["server.oci.tar: uploaded", "server.oci.tar: published already"]
    assert not any(line.startswith(("PUT", "POST")) for line in place.server.log)
    assert place.target().versions() == {HeldVersion("", "1.4.0")}


@pytest.mark.parametrize("cut", ["PUT blobs", "PUT manifests/sha256", "PUT manifests/staged", "PUT .*amd64$", "1.4.0$"])
def test_an_upload_that_broke_off_is_resumed(place: Place, tmp_path: Path, cut: str) -> None:
    root = layout(tmp_path / "server.oci.tar")
    file = uploaded(tmp_path / "server.oci.tar")
    place.server.cut = f"^PUT.*{cut.removeprefix('PUT ')}"
    with pytest.raises(OSError):  # noqa: PT011
        publish(place.target(), [file], print)
    assert "server-amd64-1.4.0" not in place.server.tags
    place.server.cut = ""
    before = {*place.server.blobs}
    place.server.log.clear()
    publish(place.target(), [file], print)
    assert place.server.tags["server-amd64-1.4.0"] == root
    assert not any(line.partition("digest=")[2] in before for line in place.server.log if "digest=" in line)


def test_a_version_keeps_its_image(place: Place, tmp_path: Path) -> None:
    layout(tmp_path / "server.oci.tar")
    publish(place.target(), [uploaded(tmp_path / "server.oci.tar")], print)
    layout(tmp_path / "server.oci.tar", text="another")
    with pytest.raises(StageError, match="with another content"):
        publish(place.target(), [uploaded(tmp_path / "server.oci.tar")], print)


def test_a_whole_release_gets_its_tags_together(place: Place, tmp_path: Path) -> None:
    every, roots = ["server-amd64", "server-arm64"], dict[str, str]()
    for name in every:
        roots[name] = layout(tmp_path / f"{name}.oci.tar", name[-5:])
        assert not any(tag.startswith("server") for tag in place.server.tags)
        upload(place.target(name), [uploaded(tmp_path / f"{name}.oci.tar", name, f"1.4.0+{name[-5:]}")], print)
    target = place.target("server-arm64")
    staged = target.staged("1.4.0", [*every, "server-s390x"])
    assert staged == {name: StagedVariant(COMMIT, shown=False) for name in every}
    assert target.remove_abandoned(datetime.now(UTC) - timedelta(days=1)) == 0
    target.finish("1.4.0+arm64", every)
    assert place.server.tags == {**roots, **{f"{name}-1.4.0": root for name, root in roots.items()}}
    assert target.staged("1.4.0", every) == {name: StagedVariant("", shown=True) for name in every}


def test_an_image_whose_release_never_came_ends(place: Place, tmp_path: Path) -> None:
    layout(tmp_path / "server.oci.tar")
    for commit in ("b" * 40, "c" * 40):  # a newer commit begins again
        upload(place.target(), [uploaded(tmp_path / "server.oci.tar", commit=commit)], print)
    assert place.target().staged("1.4.0", ["server-amd64"])["server-amd64"].commit == "c" * 40
    assert len(place.server.tags) == 1
    assert place.target().remove_abandoned(datetime.now(UTC) + timedelta(days=1)) == 1
    assert not place.server.tags


def test_nights_lose_their_tags_and_a_withdrawn_image_all(place: Place, tmp_path: Path) -> None:
    root = layout(tmp_path / "server.oci.tar")
    for version in ("1.4.0", "1.5.0.dev20260801", "1.5.0.dev20260802"):
        publish(place.target(), [uploaded(tmp_path / "server.oci.tar", version=version)], print)
    place.target().withdraw([HeldVersion("", "1.5.0.dev20260801")], "")
    assert {*place.server.tags} == {"server-amd64", "server-amd64-1.4.0", "server-amd64-1.5.0.dev20260802"}
    place.server.deletes = "digests"
    place.target().withdraw([HeldVersion("", "1.5.0.dev20260802")], "")
    assert "server-amd64-1.4.0" in place.server.tags, "where tags go with their image alone, it stays with all"
    place.target().withdraw([HeldVersion("", "1.4.0")], "wrong results")
    assert not place.server.tags
    assert root not in place.server.manifests
    for because in ("", "wrong results"):
        place.target().withdraw([HeldVersion("", "1.4.0")], because)  # it is gone already
    place.server.deletes = "nothing"
    publish(place.target(), [uploaded(tmp_path / "server.oci.tar")], print)
    with pytest.raises(StageError, match=r"deletes no images; delete my-org/server:server-amd64-1\.4\.0 on its pages"):
        place.target().withdraw([HeldVersion("", "1.4.0")], "wrong results")


def night(day: int) -> str:
    return f"1.5.0.dev202608{day:02}"


@pytest.mark.parametrize(
    ("published", "at"),
    [
        (["1.4.0", "1.5.0"], "1.5.0"),
        (["1.5.0", "1.4.0"], "1.5.0"),
        ([night(2), night(1)], night(2)),
        (["1.5.0", night(1)], "1.5.0"),
        (["1.9.0", "1.10.0"], "1.10.0"),
    ],
)
def test_a_tag_without_a_version_never_goes_back(place: Place, tmp_path: Path, published: list[str], at: str) -> None:
    roots = {version: layout(tmp_path / version / "server.oci.tar", text=version) for version in published}
    for version in published:
        publish(place.target(), [uploaded(tmp_path / version / "server.oci.tar", version=version)], print)
    assert place.server.tags["server-amd64"] == roots[at]
    assert {tag for tag in place.server.tags if tag != "server-amd64"} == {f"server-amd64-{one}" for one in published}


@pytest.mark.parametrize("known", [True, False])
def test_a_tag_of_an_older_line_moves_within_it(place: Place, tmp_path: Path, known: bool) -> None:
    roots = {}
    for version in ("1.4.0", "2.0.0", "1.4.1"):
        roots[version] = layout(tmp_path / version / "server.oci.tar", text=version)
        if version == "1.4.1":
            place.server.tags["server-amd64"] = roots["1.4.0"]
            if not known:
                del place.server.tags["server-amd64-1.4.0"]
        publish(place.target(), [uploaded(tmp_path / version / "server.oci.tar", version=version)], print)
    assert place.server.tags["server-amd64"] == roots["1.4.1" if known else "1.4.0"]


@pytest.mark.parametrize("deletes", ["tags", "digests"])
def test_an_image_that_is_part_of_another_one_stays(place: Place, tmp_path: Path, deletes: str) -> None:
    place.server.deletes = deletes
    for day in (1, 2):
        layout(tmp_path / f"{day}/server.oci.tar", text=night(day))
        publish(place.target(), [uploaded(tmp_path / f"{day}/server.oci.tar", version=night(day))], print)
    join([tmp_path / "1/server.oci.tar"], tmp_path / "all.oci.tar")
    publish(place.target("server"), [uploaded(tmp_path / "all.oci.tar", "server", night(1))], print)
    nights = [HeldVersion("", night(day)) for day in (1, 2)]
    assert place.target().needed(nights) == nights[:1]
    assert place.target().needed([]) == []
    with pytest.raises(StageError, match=r"1\.5\.0\.dev20260801 is part of an image that has another tag"):
        place.target().withdraw(nights[:1], "wrong results")
    place.target("server").withdraw(nights[:1], "wrong results")
    assert place.target().needed(nights) == []


@pytest.mark.parametrize(("names", "count"), [(["a.tar"], 1), (["a.oci.tar", "b.oci.tar"], 2), (["a.oci.tar", "b"], 2)])
def test_a_variant_has_one_image(place: Place, tmp_path: Path, names: list[str], count: int) -> None:
    for name in names:
        layout(tmp_path / name)
    message = f"server-amd64: a registry takes one image of a variant (`*.oci.tar`), not {count} files ["
    with pytest.raises(StageError, match=f"^{re.escape(message)}"):
        place.target().stage([uploaded(tmp_path / name) for name in names])


def test_a_name_that_is_no_tag_is_refused(place: Place) -> None:
    message = "server-amd64: 'server-amd64:1.4.0' is no tag: letters, digits and . _ -, at most 128 ["
    with pytest.raises(StageError, match=f"^{re.escape(message)}"):
        place.target(form=":{version}").staged("1.4.0+cu130", ["server-amd64"])


def test_a_registry_may_state_no_digests(place: Place, tmp_path: Path) -> None:
    layout(tmp_path / "server.oci.tar")
    place.server.digests = False
    said: list[str] = []
    for _ in range(2):
        publish(place.target(), [uploaded(tmp_path / "server.oci.tar")], said.append)
    assert said == ["server.oci.tar: uploaded", "server.oci.tar: published already"]


def test_errors_of_the_registry_are_tried_again_and_then_reported(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("ci_compiler.publishing.registry.sleep", slept.append)
    target = place.target()
    place.server.broken[:] = [503] * 2
    assert target.versions() == set()
    assert slept == [0.5, 1], "the first attempt was without a token"
    place.server.broken[:] = [500] * 4
    with pytest.raises(OSError, match=f"^{place.address} answered GET of {place.address}/.*/tags/list with 500$"):
        target.versions()
    place.server.broken[:] = [403]
    with pytest.raises(OSError, match=r"/manifests/server-amd64-1\.4\.0 with 403$"):
        target.staged("1.4.0", ["server-amd64"])


def test_a_registry_may_want_the_login_itself(place: Place, tmp_path: Path) -> None:
    layout(tmp_path / "server.oci.tar")
    file = uploaded(tmp_path / "server.oci.tar")
    with pytest.raises(OSError, match="answered 401 to the login in PUBLISH_TOKEN"):
        publish(place.target(login="robot:wrong"), [file], print)
    place.server.basic = True
    with pytest.raises(OSError, match="set PUBLISH_TOKEN to USER:PASSWORD"):
        publish(place.target(login=""), [file], print)
    publish(place.target(), [file], print)
    assert "server-amd64-1.4.0" in place.server.tags


@pytest.mark.parametrize("basic", [False, True])
def test_no_login_of_netrc_is_sent(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, basic: bool
) -> None:
    """Neither to the registry nor to the server of tokens that it names: the spec names the secret that is sent."""
    user, password = LOGIN.split(":")
    (tmp_path / "netrc").write_text(f"machine 127.0.0.1 login {user} password {password}\n", "utf-8")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    layout(tmp_path / "server.oci.tar")
    place.server.basic = basic
    with pytest.raises(OSError, match="set PUBLISH_TOKEN to USER:PASSWORD" if basic else "answered 401 to the login"):
        publish(place.target(login=""), [uploaded(tmp_path / "server.oci.tar")], print)
    assert place.server.sent == []


def test_an_index_joins_the_images_of_platforms(place: Place, tmp_path: Path) -> None:
    """As llama.cpp's server images: one per platform, one tag for all."""
    amd, arm = tmp_path / "amd64.oci.tar", tmp_path / "arm64.oci.tar"
    layout(amd, "amd64", attestation=True)
    arm_root = layout(arm, "arm64")
    image = join([arm, amd], tmp_path / "server.oci.tar")
    assert image.platforms == {**image_of(amd).platforms, "linux/arm64": arm_root}
    first = (tmp_path / "server.oci.tar").read_bytes()
    join([amd, arm], tmp_path / "server.oci.tar")
    assert (tmp_path / "server.oci.tar").read_bytes() == first
    publish(place.target(), [uploaded(tmp_path / "server.oci.tar")], print)
    _, index = place.server.manifests[place.server.tags["server-amd64"]]
    stated = [row["platform"]["architecture"] for row in json.loads(index)["manifests"]]
    assert stated == ["amd64", "arm64"]
    with pytest.raises(ValueError, match="two images are for linux/amd64"):
        join([amd, tmp_path / "server.oci.tar"], tmp_path / "more.oci.tar")
