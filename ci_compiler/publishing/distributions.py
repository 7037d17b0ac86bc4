"""What the names and the metadata of Python's distributions say: wheels (PEP 427) and sources (PEP 625)."""

from __future__ import annotations

import re
from email.message import Message
from email.parser import Parser
from pathlib import Path

from ci_compiler.outside import member_of

_MOST = 1 << 20
"""The most bytes of metadata that are read."""
_PIN = re.compile(r"(?P<project>[A-Za-z0-9][\w.-]*)\s*(\[[^]]*\])?\s*\(?\s*===?\s*(?P<version>[^\s,;)*]+)[\s)]*(;|$)")
_DISTRIBUTION = re.compile(r"(?P<project>[A-Za-z0-9][A-Za-z0-9._]*)-(?P<version>[^-]+)(-.+\.whl|\.tar\.gz)")


def metadata_of(path: Path) -> Message:
    """The metadata of the wheel at `path`. Raises OSError if it has none that can be read."""
    return Parser().parsestr(member_of(path, r"[^/]+\.dist-info/METADATA", _MOST), headersonly=True)


def pins_of(metadata: Message) -> tuple[str, ...]:
    """The distributions that `metadata` requires in one version (`Requires-Dist` with `==`), as `project==version`."""
    matches = filter(None, map(_PIN.match, metadata.get_all("Requires-Dist", [])))
    return tuple(f"{spelled(match['project'])}=={match['version']}" for match in matches)


def project_of(name: str) -> str:
    """The project of the distribution file `name`, as PEP 503 spells it; '' for another file."""
    match = _DISTRIBUTION.fullmatch(name)
    return spelled(match["project"]) if match else ""


def version_of(name: str) -> str:
    """The version in the name of the distribution file `name`; '' for another file."""
    match = _DISTRIBUTION.fullmatch(name)
    return match["version"] if match else ""


def spelled(project: str) -> str:
    """The name of `project` as PEP 503 spells it."""
    return re.sub(r"[-_.]+", "-", project.lower())
