"""Programs and folders where Linux is taken away: as on macOS, and as on Windows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.backends import wheel
from tests.runner.other_systems import System, each_system, write_program  # noqa: F401

pytestmark = pytest.mark.weekly

STARTING = """
import os
import sys
import time
from pathlib import Path

from ci_compiler import process
from ci_compiler.errors import InputError
from ci_compiler.system import lock, runs

folder, shell = Path(sys.argv[1]), process.find_program("bash", install="")
process.GRACE = 0.5


def left(name):
    while not (text := (folder / name).read_text("utf-8") if (folder / name).exists() else "").endswith("\\n"):
        time.sleep(0.05)
    return int(text)


# What a program started ends with it, at the limit and where it was stopped.
for how in ("limit", "stopped", "silent"):
    script = f"trap '' TERM; sleep 600 & echo $! >{folder}/{how}; echo begun >&2; wait; sleep 600"
    if how == "silent":
        limits = {"seconds": 600, "patience": 2, "memory": 2**40, "env": os.environ}
        ended = process.follow_errors([shell, "-c", script], bool, **limits)
    else:
        stopped = (lambda: left("stopped") > 0) if how == "stopped" else None
        ended = process.ask([shell, "-c", script], seconds=3, stopped=stopped)
    assert ended.status == process.PAST_LIMIT, ended
    child, end = left(how), time.monotonic() + 60
    while runs(child):
        assert time.monotonic() < end, f"{how}: the child still runs"
        time.sleep(0.05)
assert runs(os.getpid()) and runs(1)

# Lines, whatever ends them, and what comes after the last.
lines = []
ended = process.follow([shell, "-c", r"printf 'a\\r\\nb\\n'; sleep 1; printf c; exit 3"], lines.append, seconds=600)
assert (ended.status, lines) == (3, ["a", "b", "c"]), (ended, lines)

# A lock waits for the other, which ends.
held = folder / "held"
words = [sys.executable, str(folder / "other.py"), str(held)]
with (folder / "other.log").open("wb") as out:
    other = process.start(words, env={**os.environ}, folder=folder, out=out)
left("locked")
with held.open("w") as file:
    lock(file.fileno())
assert left("released")
"""
OTHER = """
import sys
import time
from pathlib import Path

from ci_compiler.system import lock

with open(sys.argv[1], "w", encoding="utf-8") as file:
    lock(file.fileno())
    Path("locked").write_text("1\\n", "utf-8")
    time.sleep(1)
    Path("released").write_text("1\\n", "utf-8")
"""


@pytest.mark.parametrize("console", [{}, {"NO_CONSOLE": "1"}], ids=["console", "service"])
def test_programs_end_with_what_they_started_and_locks_are_waited_for(
    system: System, tmp_path: Path, console: dict[str, str]
) -> None:
    (tmp_path / "starting.py").write_text(STARTING, "utf-8")
    (tmp_path / "other.py").write_text(OTHER, "utf-8")
    command = [sys.executable, "-m", "tests.elsewhere", system.facts, "python", tmp_path / "starting.py", tmp_path]
    variables = system.variables(tmp_path) | console
    done = subprocess.run(command, env=variables, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr


PLANTED = ("git", "python", f"python{wheel.PYTHON}", "powershell", "taskkill")
"""Programs with these names are in the checkout below."""

STARTING_OWN = """
import os
from ci_compiler import process
from ci_compiler.system import SYSTEM

process.GRACE = 0.1
shell = process.find_program("bash", install="")
assert process.ask([shell, "-c", "trap '' TERM; sleep 600"], seconds=0.5).status == process.PAST_LIMIT
for name in ("bash", "git", "python", "powershell", "taskkill"):
    path = process.located(name)
    assert path is None or os.path.isabs(path), path
"""


@pytest.mark.parametrize("path", ["", "."], ids=["PATH", "the current folder on PATH"])
def test_no_program_of_a_checkout_is_taken_for_one_of_the_machine(system: System, path: str, tmp_path: Path) -> None:
    """Windows looks for programs in the current folder before it looks on PATH."""
    for name in PLANTED:
        write_program(tmp_path / f"{name}{system.suffix}", f"#!/bin/sh\necho ran >{tmp_path}/ran\n")
    (tmp_path / "starting.py").write_text(STARTING_OWN, "utf-8")
    variables = system.variables(tmp_path)
    variables["PATH"] = os.pathsep.join(filter(None, (path, variables["PATH"])))
    for words in (["python", tmp_path / "starting.py"], ["ci-runner", "detect"]):
        command = [sys.executable, "-m", "tests.elsewhere", system.facts, *words]
        done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, encoding="utf-8", check=False)
        assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists()


def test_a_folder_in_place_of_a_file_is_called_one(system: System, tmp_path: Path) -> None:
    """Windows says that it may not be opened."""
    command = [sys.executable, "-m", "tests.elsewhere", system.facts, "ci-compile", "--check", "--spec", tmp_path]
    variables = system.variables(tmp_path)
    done = subprocess.run(command, env=variables, capture_output=True, encoding="utf-8", check=False)
    assert done.stderr == f"error: {tmp_path}: is a directory; a spec is a YAML file [spec-unreadable]\n"
