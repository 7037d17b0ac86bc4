"""The software bill of materials of a build, as CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json/).

It follows from the manifest of the build and its files alone: whoever publishes makes the same one again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from email.message import Message
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from ci_compiler.backends.nar import hex_digest
from ci_compiler.publishing.distributions import metadata_of, project_of, required_by, version_of
from ci_compiler.runner.jobs.manifest import Manifest

_STORE_PATH = re.compile(r"/nix/store/[0-9a-z]{32}-(?P<name>.+?)(-(?P<version>[^a-zA-Z].*))?")
"""Nix splits a name before the first dash that no letter follows (Nix manual, `builtins.parseDrvName`)."""
_SAID = ("name", "branch", "commit")


def sbom_of(manifest: Manifest, folder: Path) -> str:
    """The SBOM of the build that `manifest` describes; `folder` has its files where it has no store paths.

    Its components are every path of the closure, or every file with what the metadata of a wheel requires, and the
    variants that it needs. That they depend on each other is not stated: all are listed as what the build depends on.
    """
    wheels = [_metadata(folder / path) for path in sorted(manifest.closure) if path.endswith(".whl")]
    licences = {expression for wheel in wheels if (expression := wheel["License-Expression"])}
    subject = Component(
        name=manifest.package,
        version=manifest.version,
        type=ComponentType.LIBRARY,
        bom_ref=manifest.name,
        licenses=[LicenseExpression(licences.pop())] if len(licences) == 1 else [],
        properties=[Property(name=f"ci-compiler:{key}", value=getattr(manifest, key)) for key in _SAID],
    )
    parts = [_component(path, digest) for path, digest in sorted(manifest.closure.items())]
    parts += [part for wheel in wheels for part in _required(wheel)]
    parts += [_needed(name, digest) for name, digest in sorted(manifest.needs.items())]
    parts = list({part.bom_ref.value: part for part in parts}.values())
    bom = Bom(components=parts, serial_number=uuid5(NAMESPACE_URL, f"{manifest.name}@{manifest.content}"))
    bom.metadata.timestamp = datetime.fromisoformat(manifest.started)
    bom.metadata.component = subject
    bom.register_dependency(subject, parts)
    return f"{JsonV1Dot6(bom).output_as_string(indent=2)}\n"


def _component(path: str, digest: str) -> Component:
    if store := _STORE_PATH.fullmatch(path):
        # The digest is that of the path's archive, not of a file: not one of the `hashes` that a scanner compares.
        properties = [Property(name="nix:output_path", value=path), Property(name="nix:nar_hash", value=digest)]
        return Component(name=store["name"], version=store["version"], bom_ref=path, properties=properties)
    name = Path(path).name
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=hex_digest(digest))]
    url = PackageURL("pypi", None, project, version_of(name)) if (project := project_of(name)) else None
    return Component(name=name, type=ComponentType.FILE, bom_ref=path, hashes=hashes, purl=url)


def _metadata(path: Path) -> Message:
    try:
        return metadata_of(path)
    except OSError:  # no wheel, whatever its name says; installing it would fail
        return Message()


def _required(wheel: Message) -> Iterator[Component]:
    """What the wheel requires without any extra, with the version where it is pinned."""
    for text, name, pin in required_by(wheel):
        version = pin or None
        url = PackageURL("pypi", None, name, version)
        properties = [Property(name="python:requirement", value=text)]
        yield Component(name=name, version=version, bom_ref=str(url), purl=url, properties=properties)


def _needed(name: str, digest: str) -> Component:
    return Component(
        name=name, bom_ref=f"variant:{name}", properties=[Property(name="ci-compiler:content", value=digest)]
    )
