"""A build script in a container of the machine's engine.

The container has the checkout, at the same path and for the same user, and the variables of the variant: nothing else
of the job.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.process import ask, find_program, located

_ENGINES = ("docker", "podman")
_REMOVAL = 120.0
"""The time limit, in seconds, of ending a container that outlives its job."""


@contextmanager
def contained(image: str, root: Path, names: Iterable[str], read: Iterable[Path] = ()) -> Iterator[list[str]]:
    """The words before a program that run it in a container of `image`; none if that is ''.

    `root` is the folder that it sees, `read` are others that it may only read, and `names` are the variables that it
    takes from the environment. Raises InputError without an engine.
    """
    if not image:
        yield []
        return
    if sys.platform == "win32":
        raise wrong(image, Code.CANNOT_START, "images are of Linux, and this system runs none; build on another one")
    engine = next(filter(None, map(located, _ENGINES)), "")
    engine = engine or find_program(_ENGINES[0], install="install Docker or Podman: the build runs in a container")
    folder, name = root.resolve(), f"ci-runner-{uuid4().hex}"
    options = [f"--name={name}", f"--user={os.getuid()}:{os.getgid()}", f"--volume={folder}:{folder}"]
    options += [f"--volume={path}:{path}:ro" for path in read if not path.is_relative_to(folder)]
    options += ["--userns=keep-id"] if Path(engine).name == "podman" else []
    options += [f"--workdir={folder}", "--env=HOME=/tmp", *(f"--env={one}" for one in names)]
    try:
        yield [engine, "run", "--rm", "--init", *options, image]
    finally:  # the engine's program may have been ended without its container
        ask([engine, "rm", "--force", name], seconds=_REMOVAL)
