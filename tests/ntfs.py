"""A disk of Windows: NTFS in a file, by NTFS-3G, which refuses the names that Windows refuses."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.checkers.tools import require

SIZE = 4_000_000_000
"""The bytes of the disk; the file has no blocks for what nobody writes."""


def mounts() -> bool:
    """Whether this process can mount a disk."""
    return os.geteuid() == 0 and os.access("/dev/fuse", os.W_OK) and shutil.which("lowntfs-3g") is not None


@contextmanager
def disk(folder: Path, *options: str) -> Iterator[Path]:
    """A mounted disk in `folder`; the test is skipped where there is no FUSE, and for users who may not mount it.

    With the option `ignore_case`, the driver ignores case, but lists every name in lower case, which Windows does not.
    """
    driver = require("lowntfs-3g")
    if not mounts():
        pytest.skip("a disk can be mounted by root alone, and where there is FUSE")
    image, root = folder / "disk.image", folder / "disk"
    root.mkdir()
    with image.open("wb") as file:
        file.truncate(SIZE)
    _run(require("mkntfs"), "--quiet", "--fast", "--force", str(image))
    _run(driver, "-o", ",".join(["windows_names", *options]), str(image), str(root))
    try:
        yield root
    finally:
        _run("umount", "--lazy", str(root))


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
