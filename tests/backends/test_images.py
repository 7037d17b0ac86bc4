"""What the images of a variant must be: for its platform, and joined from all that was gathered."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_compiler.backends.images import check_images, platform_of
from ci_compiler.backends.job import NeededFiles
from ci_compiler.publishing.images import image_of, join
from tests.backends.programs import outcome
from tests.publishing.registry import layout


@pytest.mark.parametrize(
    ("platform", "stated"),
    [
        ("x86_64-linux", "linux/amd64"),
        ("aarch64-linux", "linux/arm64"),
        ("aarch64-linux-musl", "linux/arm64"),
        ("i686-linux", "linux/386"),
        ("x86_64-windows", "windows/amd64"),
        ("armv7l-linux", "linux/arm/v7"),
        *((f"{name}-linux", f"linux/{name}") for name in ("ppc64le", "riscv64", "s390x")),
        ("aarch64-darwin", ""),
        ("mine-linux", ""),
        ("mine", ""),
    ],
)
def test_platforms_are_spelled_as_images_do(platform: str, stated: str) -> None:
    assert platform_of(platform) == stated


ARCHITECTURES = {
    "amd": ["amd64"],
    "arm": ["arm64"],
    "s390x": ["s390x"],
    "pair": ["amd64", "arm64"],
    "odd": ["amd64", "s390x"],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders with images, those for two platforms joined, and files that are no images."""
    folder = tmp_path_factory.mktemp("images")
    for name, architectures in ARCHITECTURES.items():
        for architecture in architectures:
            layout(folder / name / f"{architecture}.oci.tar", architecture, architecture)
        (folder / name / "notes.tar").touch()
    join(sorted((folder / "pair").glob("*.oci.tar")), folder / "joined.oci.tar")
    (folder / "broken.oci.tar").write_text("no archive", "utf-8")
    return folder


AMD, JOINED = "amd/amd64.oci.tar", "joined.oci.tar"
MORE, LESS = "joined.oci.tar has {arm}, which was not gathered", "joined.oci.tar lacks {s390x}, which was gathered with"
JOIN = "; join them with `ci-runner join-images`"


@pytest.mark.parametrize(
    ("file", "values", "gathered", "message"),
    [
        (AMD, {"platform": "x86_64-linux", "system": "aarch64-linux"}, {}, ""),
        (AMD, {"system": "aarch64-linux"}, {}, "amd64.oci.tar is for linux/amd64, and the variant is for linux/arm64"),
        (JOINED, {"platform": "x86_64-linux"}, {}, "joined.oci.tar is for linux/amd64 and linux/arm64, and the {rest}"),
        *((JOINED, values, {}, "") for values in ({}, {"platform": "mine"})),
        *((JOINED, {}, {"pair": "server"} | more, "") for more in ({}, {"s390x": "other"})),
        (JOINED, {}, {"amd": "server", "arm": "other"}, ""),
        (JOINED, {}, {"amd": "server"}, MORE + JOIN),
        (JOINED, {}, {"pair": "server", "s390x": "server"}, f"{LESS} the rest{JOIN}"),
        (JOINED, {}, {"odd": "server"}, f"{MORE}; {LESS} the rest{JOIN}"),
        (JOINED, {}, {"s390x": "server"}, MORE.replace("{arm}", "{both}") + JOIN),
        ("broken.oci.tar", {}, {}, "broken.oci.tar is no archive of an OCI image layout: truncated header"),
        ("amd/notes.tar", {"platform": "aarch64-linux"}, {".": "server"}, ""),
    ],
)
def test_an_image_is_for_its_platform_and_has_all_that_was_gathered(
    made: Path, file: str, values: dict[str, str], gathered: dict[str, str], message: str
) -> None:
    [arm], [s390x] = (image_of(made / one).platforms.values() for one in ("arm/arm64.oci.tar", "s390x/s390x.oci.tar"))
    both = " and ".join(sorted(image_of(made / JOINED).platforms.values()))
    expected = message.format(arm=arm, s390x=s390x, both=both, rest="variant is for linux/amd64")
    needed = [NeededFiles(package, made / folder, "", {}, gathered=True) for folder, package in gathered.items()]
    needed.append(NeededFiles("beside", made / "s390x", "", {}))
    found = outcome(lambda: check_images("torch", [made / file], values, needed))
    assert found == (f"torch: {expected} [image-differs]" if message else None)
