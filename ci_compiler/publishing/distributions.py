"""What the names and the metadata of Python's distributions say: wheels (PEP 427) and sources (PEP 625)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from email.message import Message
from email.parser import Parser
from pathlib import Path

from ci_compiler.outside import member_of

_MOST = 1 << 20
"""The most bytes of metadata that are read."""
_PIN = re.compile(r"(?P<project>[A-Za-z0-9][\w.-]*)\s*(\[[^]]*\])?\s*\(?\s*===?\s*(?P<version>[^\s,;)*]+)[\s)]*(;|$)")
_REQUIREMENT = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)")
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


def required_by(metadata: Message) -> Iterator[tuple[str, str, str]]:
    """What a wheel requires without any extra: its words, the project, and the version that it is pinned to, or ''."""
    for text in metadata.get_all("Requires-Dist") or ():
        if (named := _REQUIREMENT.match(text)) and "extra ==" not in text:
            pin = _PIN.match(text)
            yield text, spelled(named[1]), pin["version"] if pin else ""


def version_among(paths: Iterable[Path], project: str) -> str:
    """The version of `project` among wheels and store paths, or that which the wheels are pinned to; '' for neither."""
    named, pinned = set[str](), set[str]()
    store = re.compile(rf"[0-9a-z]{{32}}-(?:python[0-9.]+t?-)?{re.escape(project)}-([0-9][^-]*)")
    for path in paths:
        stored = store.fullmatch(path.name)
        named.add(stored[1] if stored else version_of(path.name) if project_of(path.name) == project else "")
        with suppress(OSError):  # no wheel, whatever its name says
            wheel = metadata_of(path) if path.suffix == ".whl" else Message()
            pinned |= {pin for _, name, pin in required_by(wheel) if name == project}
    return " ".join(sorted(named - {""} or pinned - {""}))


def spelled(project: str) -> str:
    """The name of `project` as PEP 503 spells it."""
    return re.sub(r"[-_.]+", "-", project.lower())
