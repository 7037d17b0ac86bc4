"""Writes the reference pages: `python -m ci_compiler.cli.reference .github/docs/reference`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from ci_compiler.cli.compile import PROGRAM as COMPILE
from ci_compiler.cli.runner import PROGRAM as RUNNER
from ci_compiler.documents.reference import pages

PROGRAMS = (COMPILE, RUNNER)
"""The commands of this package."""


def main() -> None:
    """Writes the pages into the folder that is named, and removes the pages of findings that are gone."""
    folder = Path(sys.argv[1])
    shutil.rmtree(folder / "findings", ignore_errors=True)
    (folder / "findings").mkdir(parents=True)
    for name, text in pages(PROGRAMS).items():
        (folder / name).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
