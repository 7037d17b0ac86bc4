"""A checkout whose lines git ends as on Windows."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.system import DEVICE
from tests.specs import small

DEVICES = ["con", "PRN", "aux", "Nul", "com1", "COM9", "lpt1", "nul.txt", "con.tar.gz"]
"""Microsoft, Naming Files, Paths, and Namespaces."""


def test_a_name_of_a_device_is_one_in_any_case_and_with_any_ending() -> None:
    assert [name for name in DEVICES if not re.match(DEVICE, name)] == []
    assert [name for name in ("console", "auxiliary", "com", "com10", "null", "a.con") if re.match(DEVICE, name)] == []


def git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=Me", "-c", "user.email=me@example.org", *words]
    return subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout


@pytest.fixture
def origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with compiled files and recipes."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    root = tmp_path / "origin"
    (root / ".github").mkdir(parents=True)
    git(root, "init", "--quiet", "--initial-branch", "main")
    (root / ".github/ci-matrix.yaml").write_text(json.dumps(small()), "utf-8")
    monkeypatch.chdir(root)
    for words in ([], ["recipes"]):
        assert run(PROGRAM, words) == 0
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "Compile")
    return root


def test_a_checkout_with_the_line_ends_of_windows_has_no_drift(
    origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "checkout"
    git(origin, "clone", "--quiet", "--config", "core.autocrlf=true", str(origin), str(root))
    monkeypatch.chdir(root)
    compiled = root / ".github/workflows/waves.yml"
    assert compiled.read_bytes().count(b"\r\n") == compiled.read_bytes().count(b"\n") > 9
    for words in (["--check"], [], ["recipes"], ["--check"]):
        assert run(PROGRAM, words) == 0
    assert compiled.read_bytes().count(b"\r\n") > 9
    compiled.write_bytes(compiled.read_bytes().replace(b"permissions:", b"permission:"))
    assert run(PROGRAM, ["--check"]) == 1
    assert run(PROGRAM, []) == 0
    assert git(root, "diff", "--stat") == ""
