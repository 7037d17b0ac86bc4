"""The pins of the images and deployments, from `release_pins.json`, the only place that states their versions.

`runner-images/build.py` imports this module in a bare checkout, so it uses only the standard library.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ci_compiler import __version__

PINS = Path(__file__).with_name("release_pins.json")

ARCHITECTURES = {"x86_64-linux": "amd64", "aarch64-linux": "arm64"}
"""The architecture of a Nix system, as container engines and Kubernetes (`kubernetes.io/arch`) name it."""


class PinnedArchive(NamedTuple):
    """An archive in an image: its URL by architecture, and its SHA-256 where that is known."""

    version: str
    urls: Mapping[str, str]
    sha256: Mapping[str, str]


class ReleasePins(NamedTuple):
    """Helm charts as OCI references and their common version, the base image by digest, the archives by name.

    `snapshot`: the time at which Debian's archive had the packages that are installed.
    `controller`: the template of the controller's image, with the fields `owner` and `version`.
    """

    chart_version: str
    controller_chart: str
    scale_set_chart: str
    base: str
    snapshot: str
    controller: str
    archives: Mapping[str, PinnedArchive]


@cache
def pins() -> ReleasePins:
    """The bundled pins, read once."""
    data = json.loads(PINS.read_bytes())
    return ReleasePins(
        chart_version=data["chart"]["version"],
        controller_chart=data["chart"]["controller"],
        scale_set_chart=data["chart"]["scale-set"],
        base=f"{data['base']['image']}@{data['base']['digest']}",
        snapshot=data["snapshot"],
        controller=data["controller"],
        archives={name: _archive(row) for name, row in data["archives"].items()},
    )


def _archive(row: Mapping[str, Any]) -> PinnedArchive:
    version = row["version"]
    machines: Mapping[str, str] = row["machines"]
    urls = {arch: row["url"].format(version=version, machine=machine) for arch, machine in machines.items()}
    return PinnedArchive(version=version, urls=urls, sha256=row["sha256"])


def build_arguments(backend: str) -> dict[str, str]:
    """The build arguments of `runner-images/` for a spec's backend, as far as the pins state them."""
    known = pins()
    found = {
        "BASE_IMAGE": known.base,
        "SNAPSHOT": known.snapshot,
        "BACKEND": backend,
        "TOOLKIT_VERSION": __version__,
        "RUNNER_VERSION": known.archives["runner"].version,
    }
    for name, archive in known.archives.items():
        for kind, table in (("URL", archive.urls), ("SHA256", archive.sha256)):
            found |= {f"{name.upper()}_{kind}_{arch.upper()}": value for arch, value in table.items()}
    return found
