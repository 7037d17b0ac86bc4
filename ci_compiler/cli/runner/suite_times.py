"""`ci-runner suite-times FOLDER… --out FILE`: records how long the tests of a suite take."""

from __future__ import annotations

import argparse

from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.runner.jobs.suite_times import measured, read_times, written
from ci_compiler.units import counted


def run(arguments: argparse.Namespace) -> int:
    """Writes the times that JUnit files below the folders state, over those that the file has."""
    reports = sorted(path for folder in arguments.folders for path in folder.rglob("*.xml") if path.is_file())
    try:
        found = measured(reports)
    except OSError as error:
        raise wrong("FOLDER", Code.WRONG_VALUE, f"holds a file that is no JUnit file: {error}") from None
    if not found:
        raise wrong("FOLDER", Code.WRONG_VALUE, "holds no JUnit file (*.xml) with tests that ran")
    text = written(read_times(arguments.out) | found)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(text, "utf-8")
    print(f"{arguments.out}: {counted(len(found), 'test')} recorded")
    return 0
