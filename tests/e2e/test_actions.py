"""The stand-ins for GitHub's actions refuse what GitHub refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import MINUTES

ACTIONS = Path(__file__).parent / "actions"


def upload(work: Path, name: str, files: str = "out/", if_none: str = "warn") -> subprocess.CompletedProcess[str]:
    """Uploads `files` of the folder `work` as the artifact `name`."""
    given = {"NAME": name, "FILES": files, "IF_NONE": if_none, "E2E_ARTIFACTS": str(work / "artifacts")}
    return _run(work, "upload-artifact/upload.py", given)


def download(work: Path, *, name: str = "", pattern: str = "") -> subprocess.CompletedProcess[str]:
    """Downloads artifacts into `work`/in."""
    given = {"NAME": name, "PATTERN": pattern, "TARGET": "in", "E2E_ARTIFACTS": str(work / "artifacts"), "OF_RUN": ""}
    return _run(work, "download-artifact/download.py", given)


def _run(work: Path, script: str, given: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", str(ACTIONS / script)]
    return subprocess.run(
        command,
        cwd=work,
        env={**os.environ, **given},
        capture_output=True,
        encoding="utf-8",
        timeout=MINUTES,
        check=False,
    )


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "out/deep").mkdir(parents=True)
    (tmp_path / "out/deep/file").write_text("text", "utf-8")
    (tmp_path / "out/.hidden").write_text("text", "utf-8")
    return tmp_path


@pytest.mark.parametrize("name", ["", "a:b", "a/b", "a\\b", 'a"b', "a<b", "a>b", "a|b", "a*b", "a?b", "a\nb", "a\rb"])
def test_an_illegal_name_is_refused(work: Path, name: str) -> None:
    done = upload(work, name)
    assert done.returncode == 1
    assert "is not valid" in done.stderr


def test_a_name_that_the_run_has_is_refused(work: Path) -> None:
    assert upload(work, "one").returncode == 0
    done = upload(work, "one")
    assert done.returncode == 1
    assert "already exists" in done.stderr


def test_a_folder_becomes_the_root_of_the_artifact_without_hidden_files(work: Path) -> None:
    assert upload(work, "one").returncode == 0
    assert [path.relative_to(work).as_posix() for path in work.glob("artifacts/**/*") if path.is_file()] == [
        "artifacts/one/deep/file"
    ]


@pytest.mark.parametrize(("if_none", "code"), [("error", 1), ("warn", 0), ("ignore", 0)])
def test_an_upload_of_no_files_follows_the_option_of_the_workflow(work: Path, if_none: str, code: int) -> None:
    assert upload(work, "one", "nowhere/", if_none).returncode == code
    assert not (work / "artifacts/one").exists()


def test_an_artifact_that_is_not_there_cannot_be_downloaded_by_its_name(work: Path) -> None:
    done = download(work, name="one")
    assert done.returncode == 1
    assert "not found" in done.stderr


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"name": "one"}, ["deep/file"]),
        ({"pattern": "t*"}, ["deep/file"]),
        ({"pattern": "*"}, ["one/deep/file", "two/deep/file"]),
    ],
)
def test_one_is_downloaded_as_it_is_and_several_into_folders(
    work: Path, wanted: dict[str, str], expected: list[str]
) -> None:
    for name in ("one", "two"):
        assert upload(work, name).returncode == 0
    assert download(work, **wanted).returncode == 0
    files = sorted(path.relative_to(work / "in").as_posix() for path in work.glob("in/**/*") if path.is_file())
    assert files == expected
