"""Worlds for the tests: one per module; later runs build upon earlier ones."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ci_compiler.runner.detect.recorded import mounts
from ci_compiler.runner.detect.this_machine import folder
from tests.checkers import require
from tests.checkers.tools import unavailable
from tests.processes import MINUTES

from .world import World

NewWorld = Callable[..., World]

ELSEWHERE = Path("/var/tmp")  # noqa: S108  (kept over a restart, and so on a disk)


@pytest.fixture(scope="session")
def apart() -> bool:
    """Whether each machine can have its own Nix store, which needs the permission to create mount namespaces."""
    root = [] if os.geteuid() == 0 else ["--map-root-user"]
    try:
        done = subprocess.run(
            ["unshare", "--mount", *root, "mount", "-t", "tmpfs", "tmpfs", "/run"],
            capture_output=True,
            timeout=MINUTES,
            check=False,
        )
    except OSError:
        return False
    return done.returncode == 0


@pytest.fixture
def machines_apart(apart: bool) -> None:
    """For tests that need separate machines."""
    if not apart:
        pytest.skip("this user may not make mount namespaces here: unshare --mount")


@pytest.fixture(scope="module")
def new_world(apart: bool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewWorld]:
    """Creates worlds for a backend and removes them after the module's last test."""
    made: list[World] = []

    def make(backend: str) -> World:
        for tool in ("act", "git", "nix-build", "nix-store", "bash"):
            require(tool)
        root = on_a_disk(tmp_path_factory.mktemp("world"))
        made.append(World(root, backend=backend, apart=apart))
        return made[-1]

    yield make
    for world in made:
        world.remove()


def on_a_disk(root: Path) -> Path:
    """`root`, or another folder if `root` is in memory, where the doctor allows no builds."""
    if not _in_memory(root):
        return root
    if _in_memory(ELSEWHERE):
        unavailable("all folders for temporary files are in memory: run pytest with --basetemp on a disk")
    return Path(tempfile.mkdtemp(prefix="ci-compiler-", dir=ELSEWHERE))


def _in_memory(place: Path) -> bool:
    found = folder("work", str(place), mounts(Path("/proc/self/mountinfo").read_text("utf-8")))
    return found is not None and found.kind in {"tmpfs", "ramfs"}
