"""What container images say of their platform, and of what they were joined from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ci_compiler.codes import Code
from ci_compiler.errors import failure
from ci_compiler.publishing.images import SUFFIX, Image, image_of

if TYPE_CHECKING:
    from ci_compiler.backends.job import NeededFiles

_ARCHITECTURES = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "i686": "386",
    "armv7l": "arm/v7",
    "ppc64le": "ppc64le",
    "riscv64": "riscv64",
    "s390x": "s390x",
}
"""The architectures of platforms, as images state them (Go's GOARCH; OCI Image Format Specification, "Platform")."""
_SYSTEMS = {"linux": "linux", "windows": "windows"}


def platform_of(platform: str) -> str:
    """A platform (`aarch64-linux`) as images state it (`linux/arm64`); '' for one that images do not know."""
    machine, _, rest = platform.partition("-")
    architecture, system = _ARCHITECTURES.get(machine, ""), _SYSTEMS.get(rest.partition("-")[0], "")
    return f"{system}/{architecture}" if architecture and system else ""


def check_images(name: str, files: Iterable[Path], values: Mapping[str, str], needed: Iterable[NeededFiles]) -> None:
    """Raises StageError if an image among the files of the variant `name` is not whole, or not what was declared.

    With a platform in `values`, it is for that one alone. If images were gathered, it has all those of the packages
    that it has any of, by digest, and nothing else.
    """
    images = {path.name: _image(name, path) for path in files if path.name.endswith(SUFFIX)}
    declared = platform_of(values.get("platform", values.get("system", "")))
    gathered = _gathered(name, needed) if images else {}
    for file, image in images.items():
        if declared and {*image.platforms} != {declared}:
            message = f"{file} is for {' and '.join(sorted(image.platforms))}, and the variant is for {declared}"
            raise failure(name, Code.IMAGE_DIFFERS, message)
        own = {*image.platforms.values()}
        whole = {digest for digests in gathered.values() if own & digests for digest in digests}
        if gathered and own != whole:
            lacks, more = " and ".join(sorted(whole - own)), " and ".join(sorted(own - whole))
            message = "; ".join(
                [f"{file} has {more}, which was not gathered"] * bool(more)
                + [f"{file} lacks {lacks}, which was gathered with the rest"] * bool(lacks)
            )
            raise failure(name, Code.IMAGE_DIFFERS, f"{message}; join them with `ci-runner join-images`")


def _gathered(name: str, needed: Iterable[NeededFiles]) -> dict[str, set[str]]:
    """The digests of the images that were gathered, by package."""
    digests: dict[str, set[str]] = {}
    for one in needed:
        for path in sorted(one.folder.glob(f"*{SUFFIX}")) if one.gathered else ():
            digests.setdefault(one.package, set()).update(_image(name, path).platforms.values())
    return digests


def _image(name: str, path: Path) -> Image:
    try:
        return image_of(path)
    except OSError as error:
        raise failure(name, Code.IMAGE_DIFFERS, str(error)) from None
