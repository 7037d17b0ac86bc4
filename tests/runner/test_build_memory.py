"""The memory of a build: of the control group that builds, sampled while it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_compiler.runner.detect import build_memory, this_machine
from tests.processes import until

STAT = "anon {anon}\nfile 900000\nkernel 10\nshmem 5\nanon_thp 7\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with a job in `/job` and Nix' daemon in `/daemon`."""
    for process, name, group in (("self", "python3", "job"), ("40", "nix-daemon", "daemon"), ("7", "sshd", "other")):
        folder = tmp_path / "proc" / process
        folder.mkdir(parents=True)
        (folder / "comm").write_text(f"{name}\n")
        (folder / "cgroup").write_text(f"0::/{group}\n")
    for group, anon in (("job", 100), ("daemon", 2000), ("other", 9)):
        folder = tmp_path / "sys/fs/cgroup" / group
        folder.mkdir(parents=True)
        (folder / "cgroup.controllers").write_text("memory\n")
        (folder / "memory.stat").write_text(STAT.format(anon=anon))
    monkeypatch.setattr(this_machine, "ROOT", tmp_path)
    monkeypatch.setattr(build_memory, "SECONDS", 0.01)
    monkeypatch.setenv("NIX_REMOTE", "daemon")
    return tmp_path


@pytest.mark.slow
@pytest.mark.usefixtures("root")
@pytest.mark.parametrize(
    ("remote", "uses_nix", "expected"), [("daemon", True, 2015), ("local", True, 115), ("daemon", False, 115)]
)
def test_the_group_that_builds_is_measured(
    monkeypatch: pytest.MonkeyPatch, remote: str, uses_nix: bool, expected: int
) -> None:
    monkeypatch.setenv("NIX_REMOTE", remote)
    with build_memory.watched_memory(uses_nix=uses_nix) as peak:
        pass
    assert peak.memory == expected


def test_the_peak_stays(root: Path) -> None:
    stat = root / "sys/fs/cgroup/daemon/memory.stat"
    with build_memory.watched_memory(uses_nix=True) as peak:
        stat.write_text(STAT.format(anon=50_000))
        until(lambda: peak.memory >= 50_000)
        stat.write_text(STAT.format(anon=1))
    assert peak.memory == 50_015


def test_a_daemon_that_is_not_visible_leaves_the_memory_unknown(root: Path) -> None:
    (root / "proc/40/comm").write_text("bash\n")
    with build_memory.watched_memory(uses_nix=True) as peak:
        pass
    assert peak.memory == 0
