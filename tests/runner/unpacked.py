"""An unpacked runner of GitHub's, as far as the toolkit sees one: a `run.sh` whose job ends when it is told to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

RUN = """\
#!/bin/sh
env > environment
touch .runner .credentials .credentials_rsaparams
mkdir -p _work
until test -e go; do sleep 0.01; done
mv go gone
exit "$(cat gone)"
"""
"""A runner whose job ends when the file `go` says how; the next one wants another."""


def end_job(folder: Path, code: int) -> None:
    """Lets the job of the runner in `folder` end with `code`: the file is there whole, or not at all."""
    (folder / "going").write_text(str(code), "utf-8")
    (folder / "going").replace(folder / "go")


@contextmanager
def unpacked(folder: Path) -> Iterator[Path]:
    """An unpacked runner in the new `folder`; a test that fails leaves no process of it."""
    folder.mkdir()
    (folder / "run.sh").write_text(RUN, "utf-8")
    (folder / "run.sh").chmod(0o755)
    try:
        yield folder
    finally:
        end_job(folder, 0)
