"""Ctrl-C at any time, also while a command still imports its modules: exit code 130, and not a word."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

AT_AN_IMPORT = """
import os, signal, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
"""

IN_A_CLASS = """
import os, signal, sys
def interrupt(frame, event, arg):
    if event == "call" and frame.f_code.co_name == "__set_name__" and "ci_compiler.codes" in sys.modules:
        sys.setprofile(None)
        os.kill(os.getpid(), signal.SIGINT)
sys.setprofile(interrupt)
"""
"""The interrupt comes while a class is made; Python 3.11 raises RuntimeError then."""

ENTRIES = {
    "ci-compile": "from ci_compiler.cli.compile import main; sys.exit(main())",
    "ci-runner": "from ci_compiler.cli.runner import main; sys.exit(main())",
    "python -m ci_compiler": "import runpy; runpy.run_module('ci_compiler', run_name='__main__')",
}
COMMANDS = {"ci-compile": ["--check", "--bundled"], "ci-runner": ["list"], "python -m ci_compiler": ["variants"]}


def ended(prelude: str, name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    code = f"{prelude}\nsys.argv = {[name, *COMMANDS[name]]!r}\n{ENTRIES[name]}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("module", ["ci_compiler.cli.app", "argparse", "ci_compiler.errors", "", "last"])
@pytest.mark.parametrize("name", ENTRIES)
def test_an_interrupt_during_the_imports_is_quiet(tmp_path: Path, name: str, module: str) -> None:
    last = {"ci-runner": "ci_compiler.cli.runner.list"}.get(name, "ci_compiler.plan.pipeline")
    found = last if module == "last" else module
    done = ended(AT_AN_IMPORT.format(module=found) if found else IN_A_CLASS, name, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_another_error_during_the_imports_is_no_interrupt(tmp_path: Path) -> None:
    fails = AT_AN_IMPORT.format(module="argparse").replace("os.kill(os.getpid(), signal.SIGINT)", "raise RuntimeError")
    done = ended(fails, "ci-compile", tmp_path)
    assert done.returncode == 1
    assert "RuntimeError" in done.stderr
