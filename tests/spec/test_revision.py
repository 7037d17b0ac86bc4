"""The spec as it was: at a revision of the repository, or in a file."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.errors import InputError
from ci_compiler.spec.build import bundled_spec
from ci_compiler.spec.carried import SPEC
from ci_compiler.spec.load import LARGEST_FILE
from ci_compiler.spec.revision import base_spec
from tests.specs import small

Commit = Callable[[], str]


def written(root: Path, owner: str, path: str = SPEC) -> Path:
    """The small spec of `owner`, written below `root`."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(small(owner=owner)), "utf-8")
    return file


@pytest.fixture
def commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commit:
    """Commits everything of a new repository at `tmp_path`, which is the current folder; returns the revision."""
    monkeypatch.chdir(tmp_path)
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b.c")
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)

    def committed() -> str:
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "a"], check=True)
        return subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()

    return committed


def refused(root: Path, base: str, **more: Any) -> tuple[str, str, str]:
    """What is wrong with `base`: the file, the code and the message."""
    with pytest.raises(InputError) as caught:
        base_spec(root, base, **more)
    [finding] = caught.value.findings
    return finding.place.file, finding.code, finding.message


def test_the_spec_of_a_revision_is_read_from_the_repository(tmp_path: Path, commit: Commit) -> None:
    written(tmp_path, "before")
    before = commit()
    written(tmp_path, "after")
    written(tmp_path, "elsewhere", "ci/spec.yaml")
    commit()
    assert base_spec(tmp_path, before).owner == "before"
    assert base_spec(tmp_path, "main").owner == "after"
    assert base_spec(tmp_path, "HEAD", "ci/spec.yaml").owner == "elsewhere"
    assert base_spec(tmp_path, "HEAD").document.file == f"HEAD:{SPEC}"


def test_a_revision_without_a_spec_had_the_bundled_one_unless_it_must_have_one(tmp_path: Path, commit: Commit) -> None:
    commit()
    assert base_spec(tmp_path, "main").document.value == bundled_spec().document.value
    missing = f"main:{SPEC}", "spec-missing", "no such file at that revision"
    assert refused(tmp_path, "main", required=True) == missing


def test_a_file_is_read_where_no_revision_has_its_name(tmp_path: Path, commit: Commit) -> None:
    file = written(tmp_path, "of-a-file", "old.yaml")
    commit()
    assert base_spec(tmp_path, "old.yaml").owner == "of-a-file"
    assert base_spec(tmp_path, str(file)).document.file == str(file)
    assert refused(tmp_path, "nothing") == (
        "nothing", "unknown-base", "is no revision of this repository, and no spec file"
    )  # fmt: skip
    assert refused(tmp_path, "")[0] == "BASE"
    assert refused(tmp_path, "x" * 5000)[1] == "unknown-base"


def test_without_a_repository_only_a_file_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "alone", "old.yaml")
    assert base_spec(tmp_path, "old.yaml").owner == "alone"
    place, code, message = refused(tmp_path, "main")
    assert (place, code) == ("main", "no-repository")
    assert message.endswith("; give a spec file, or a revision where there is a repository")


def test_what_is_no_plain_file_and_what_is_too_large_is_refused(tmp_path: Path, commit: Commit) -> None:
    (tmp_path / ".github").mkdir()
    (tmp_path / SPEC).symlink_to("elsewhere")
    commit()
    plain = "is no plain file at that revision; a spec is a YAML file"
    assert refused(tmp_path, "HEAD") == (f"HEAD:{SPEC}", "spec-unreadable", plain)
    (tmp_path / SPEC).unlink()
    for size, code in ((LARGEST_FILE, "spec-syntax"), (LARGEST_FILE + 1, "spec-too-large")):
        (tmp_path / SPEC).write_text("#" * (size - 1) + "\n", "utf-8")
        commit()
        if code == "spec-too-large":
            assert refused(tmp_path, "HEAD")[1] == code
        else:
            assert refused(tmp_path, "HEAD")[1] != "spec-too-large"
