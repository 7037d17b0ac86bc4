"""Tests mutants one after another in the copy of the tree that it runs in: `python -m tests.mutation.worker`.

A job as JSON on standard input, a line `NUMBER VERDICT` on standard output for each mutant. Each is tested by a fork
of this process, which has loaded what never changes, so that a mutant costs its tests and little more.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import signal
import sys
from pathlib import Path

import pytest

LOADED = ("_pytest.assertion", "hypothesis", "jsonschema", "ruamel.yaml", "yaml")
MEMORY = 4 << 30
"""The address space of a mutant in bytes, so that an endless computation ends early."""

WITHOUT = ("xdist", "cacheprovider", "faulthandler")
OPTIONS = [
    "-xq",
    "--everything",
    "-oaddopts=--timeout=0",
    "-Wignore::pytest.PytestAssertRewriteWarning",
    *(f"-pno:{one}" for one in WITHOUT),
]


def verdict(tests: list[str], seconds: int) -> str:
    """How `tests` end in a fork of this process: `survived`, `killed` or `timeout`."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        silence = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(silence, number)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        signal.setitimer(signal.ITIMER_REAL, seconds)
        code = 1
        with contextlib.suppress(BaseException):
            code = int(pytest.main([*OPTIONS, *tests]))
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    return {0: "survived", -signal.SIGALRM: "timeout"}.get(code, "killed")


def main() -> None:
    job = json.load(sys.stdin)
    sys.dont_write_bytecode = True
    for name in LOADED:
        importlib.import_module(name)
    module = Path(job["module"])
    unchanged = module.read_bytes()
    for number, text in job["mutants"]:
        module.write_text(text, "utf-8")
        print(number, verdict(job["tests"], job["seconds"]), flush=True)
    module.write_bytes(unchanged)


if __name__ == "__main__":
    main()
