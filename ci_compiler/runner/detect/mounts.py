"""Mounts, read from /proc/PID/mountinfo: which file system holds a folder, and where a trial build ran.

Pure: the functions read any text, and skip the lines that are no mounts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import NamedTuple


class Mount(NamedTuple):
    """A line of mountinfo: where it is mounted, which folder of the file system it shows, device, kind and source."""

    point: str
    root: str
    numbers: str
    kind: str
    source: str

    @property
    def device(self) -> str:
        """Identifies the file system: the disk if there is one, since subvolumes share its space."""
        return self.source if self.source.startswith("/dev/") else self.numbers


def mounts(text: str) -> tuple[Mount, ...]:
    """The mounts of a /proc/PID/mountinfo, in its order (proc(5))."""
    found = []
    for line in text.splitlines():
        words, _, rest = line.partition(" - ")
        left, right = words.split(), rest.split()
        if len(left) >= 5 and len(right) >= 2:
            root, point, source = (_unescaped(word) for word in (left[3], left[4], right[1]))
            found.append(Mount(point=point, root=root, numbers=left[2], kind=right[0], source=source))
    return tuple(found)


def _unescaped(word: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), word)


def mount_of(known: Iterable[Mount], path: str) -> Mount | None:
    """The mount that holds `path` (absolute, without links): the deepest one, and the last of several at one place."""
    holding = [mount for mount in known if _below(path, mount.point)]
    return max(reversed(holding), key=lambda mount: len(mount.point), default=None)


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def sandboxed(trial: str) -> bool:
    """Whether a trial build ran in a sandbox: only there is its build folder a mount of its own.

    `trial`: the path of the build folder as the build saw it, then its mountinfo.
    """
    return _trial(trial)[1] is not None


def build_folder_of(trial: str, host_mounts: Iterable[Mount]) -> str:
    """The build folder of a `trial` as the host sees it; '' if no mount of the host holds it."""
    top, own = _trial(trial)
    if own is None:
        return top
    holding = [mount for mount in host_mounts if mount.numbers == own.numbers and _below(own.root, mount.root)]
    if not holding:
        return ""
    mount = max(holding, key=lambda mount: len(mount.root))
    return str(PurePosixPath(mount.point, own.root[len(mount.root) :].lstrip("/")))


def _trial(text: str) -> tuple[str, Mount | None]:
    """The folder of a trial build as the build saw it, and what was mounted there."""
    first, _, rest = text.partition("\n")
    top = first.strip()
    return top, next((mount for mount in mounts(rest) if mount.point == top), None)
