"""What people get wrong on a command line: `command_lines.txt`, which running this module rewrites.

Each line `$ COMMAND` is followed by the message. The commands run in a folder that holds only `ci-matrix.yaml`.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM as COMPILE
from ci_compiler.cli.program import Program
from ci_compiler.cli.runner import PROGRAM as RUNNER

TABLE = Path(__file__).with_name("command_lines.txt")
PROGRAMS: Mapping[str, Program] = {"ci-compile": COMPILE, "ci-runner": RUNNER}


def outcome(line: str) -> tuple[int, str, str]:
    """The exit code, standard output and standard error of a command line."""
    program, *words = shlex.split(line)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = run(PROGRAMS[program], words)
        except SystemExit as ended:
            code = int(str(ended.code))
    return code, out.getvalue(), err.getvalue()


def table(folder: Path) -> str:
    """The table as it should be, with each command run in `folder`."""
    lines = [line[2:] for line in TABLE.read_text("utf-8").splitlines() if line.startswith("$ ")]
    (folder / "ci-matrix.yaml").touch()
    with contextlib.chdir(folder):
        found = [(line, *outcome(line)) for line in lines]
    assert [line for line, code, out, err in found if (code, out) != (2, "") or len(err.splitlines()) != 1] == []
    assert list(folder.iterdir()) == [folder / "ci-matrix.yaml"]
    return "".join(f"$ {line}\n{err}" for line, _, _, err in found)


def test_a_wrong_command_line_is_refused_with_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("GITHUB_", "GH_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    text = TABLE.read_text("utf-8")
    assert text.count("$ ") >= 50
    assert table(tmp_path) == text


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        TABLE.write_text(table(Path(scratch)), "utf-8")
