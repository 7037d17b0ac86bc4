"""Publishing by a job, again: it asks what is published first, and must finish what broke off."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.backends.command_programs import CommandPrograms
from ci_compiler.backends.job import JobContext
from ci_compiler.publishing.plan import HeldVersion, Nights
from ci_compiler.publishing.stores import FolderStore
from ci_compiler.publishing.target import Target
from ci_compiler.publishing.wheel_index import WheelIndex
from tests.publishing.places import build_of, wheel


class Killed(BaseException):
    """Stands for the end of the process."""


def job_at(folder: Path, target: Callable[[], Any]) -> CommandPrograms:
    job = JobContext(root=folder, owner="my-org", cache=None, secrets={}, seconds=60, folder=folder, target=target)
    return CommandPrograms(job)


def index_at(root: Path) -> Callable[[], Target]:
    return lambda: WheelIndex(FolderStore(root), str(root), "fastpath")


def publish_again(job: CommandPrograms, build: Any) -> None:
    """As a job does without `--again`."""
    if not job.published(build, ()):
        job.publish(build)


@pytest.mark.parametrize(
    ("page", "earlier"),
    [
        ("fastpath/index.json", False),
        ("fastpath/index.html", False),
        ("fastpath/index.html", True),
        ("index.json", False),
        ("index.html", False),
    ],
)
def test_a_job_finishes_what_broke_off_before_any_page(
    tmp_path: Path, page: str, earlier: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, write = tmp_path / "index", FolderStore.write
    if earlier:
        old = wheel(tmp_path / "old/files", "1.3.0")
        publish_again(job_at(tmp_path / "old", index_at(root)), build_of(old))
    file = wheel(tmp_path / "files")
    job, build = job_at(tmp_path, index_at(root)), build_of(file)

    def cut(store: FolderStore, key: str, text: str, tag: str | None = None) -> bool:
        if key == page:
            raise Killed
        return write(store, key, text, tag)

    with monkeypatch.context() as patch, pytest.raises(Killed):  # noqa: PT012
        patch.setattr(FolderStore, "write", cut)
        publish_again(job, build)
    assert not job.is_published(file.variant, file.version, "", ()), "a scheduled run would leave it out"
    publish_again(job, build)
    assert f">{file.name}</a>" in (root / "fastpath/index.html").read_text("utf-8")
    assert '"fastpath/"' in (root / "index.html").read_text("utf-8")
    assert job.is_published(file.variant, file.version, "", ())


def test_a_file_that_lost_its_end_is_sent_again(tmp_path: Path) -> None:
    root, file = tmp_path / "index", wheel(tmp_path / "files")
    index_at(root)().put(file)
    [path] = (root / "fastpath/files").rglob("*.whl")
    path.write_bytes(b"")  # as after a loss of power
    publish_again(job_at(tmp_path, index_at(root)), build_of(file))
    assert path.read_bytes() == file.path.read_bytes()


class Release:
    """A place whose versions are of all variants, without local parts."""

    def versions(self) -> list[HeldVersion]:
        return [HeldVersion("", "1.4.0")]

    def unfinished(self, version: str, variant: str) -> bool:  # noqa: ARG002
        return False


@pytest.mark.parametrize(("version", "published"), [("1.4.0", True), ("1.4.0+cu130", True), ("1.4.1+cu130", False)])
def test_a_release_is_that_of_every_local_part(tmp_path: Path, version: str, published: bool) -> None:
    assert job_at(tmp_path, Release).is_published("fastpath-sm90", version, "", ()) is published


def test_retention_that_may_not_list_fails_no_publication(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(store: FolderStore, folder: str) -> None:  # noqa: ARG001
        message = "answered GET with 403"
        raise OSError(message)

    job = job_at(tmp_path, index_at(tmp_path / "index"))
    job.job = job.job._replace(keep=Nights(pattern="", uploads=40))
    file = wheel(tmp_path / "files")
    monkeypatch.setattr(FolderStore, "files", forbidden)
    job.publish(build_of(file))
    assert "were never completed stay: answered GET with 403" in capsys.readouterr().out
