"""A stand-in for an unpacked actions/runner: a `run.sh` whose job ends on demand."""

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
test ! -e says || cat says
exit "$(cat gone)"
"""
"""A runner whose job ends with the code in the file `go`; each job needs a new file. `says` is what it prints last."""


def end_job(folder: Path, code: int) -> None:
    """Ends the job of the runner in `folder` with `code`; the file appears atomically."""
    (folder / "going").write_text(str(code), "utf-8")
    (folder / "going").replace(folder / "go")


@contextmanager
def unpacked(folder: Path) -> Iterator[Path]:
    """An unpacked runner in the new `folder`; its processes end with the test, even if it fails."""
    folder.mkdir()
    (folder / "run.sh").write_text(RUN, "utf-8")
    (folder / "run.sh").chmod(0o755)
    try:
        yield folder
    finally:
        end_job(folder, 0)
