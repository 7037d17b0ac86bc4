"""A release that goes out whole has files of one commit: another run begins it again, waits, or is refused."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ci_compiler.backends.command_programs import CommandPrograms
from ci_compiler.backends.job import JobContext
from ci_compiler.codes import Code
from ci_compiler.errors import StageError
from ci_compiler.publishing.plan import StagedVariant
from ci_compiler.publishing.stores import FolderStore
from ci_compiler.publishing.target import upload
from ci_compiler.publishing.wheel_index import WheelIndex
from tests.publishing.places import build_of, wheel

NAMES = ("fastpath-cpu", "fastpath-sm90")


def test_a_run_of_an_older_commit_and_a_newer_one(tmp_path: Path) -> None:
    root = tmp_path / "repository"
    git = ("git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    commits = []
    for _ in range(2):
        subprocess.run([*git, "commit", "--quiet", "--allow-empty", "--message=change"], check=True)
        head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, encoding="utf-8")
        commits.append(head.stdout.strip())
    old, new = commits
    index = WheelIndex(FolderStore(tmp_path / "index"), "the index", "fastpath")

    def uploaded(name: str, commit: str) -> str:
        folder = tmp_path / name / commit
        file = wheel(folder / "files", f"1.4.0+{name[9:]}", variant=name, text=commit, commit=commit)
        job = JobContext(root, "my-org", None, {}, 60, folder, target=lambda: index, whole=lambda: NAMES)
        programs, build = CommandPrograms(job), build_of(file)
        if not (waits := programs.upload(build)):
            programs.publish(build)
        return waits

    assert uploaded(NAMES[0], old) == "fastpath-sm90 did not pass and get there yet"
    assert f"fastpath-cpu was built from {old}, this from {new}" in uploaded(NAMES[1], new)
    with pytest.raises(StageError, match=f"the release 1.4.0 has files of the newer commit {new}") as raised:
        uploaded(NAMES[0], old)
    assert raised.value.findings[0].code is Code.RELEASE_OTHER_COMMIT
    assert uploaded(NAMES[0], new) == ""
    third = wheel(tmp_path / "c", "1.4.0+x", variant="fastpath-x", commit=old)
    upload(index, [third], lambda _: None)
    assert index.staged("1.4.0", [*NAMES, "fastpath-x"])["fastpath-x"] == StagedVariant(old, shown=False)
    both = wheel(tmp_path / "d", "1.4.0+y", variant="fastpath-y", commit=new)
    upload(index, [both], lambda _: None)
    with pytest.raises(StageError, match=f"has files of {' and '.join(sorted((old, new)))}"):
        index.finish("1.4.0", ["fastpath-x", "fastpath-y"])
