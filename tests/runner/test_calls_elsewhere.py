"""No module calls what macOS or Windows lacks."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

import ci_compiler
from tests.elsewhere import lacking

CODE = Path(ci_compiler.__file__).parent
WHOLE = {"fcntl": "flock", "grp": "getgrnam", "pwd": "getpwnam", "resource": "setrlimit", "termios": "tcgetattr"}
"""A call of each module that Windows lacks."""


def unguarded(tree: ast.Module, absent: Collection[str]) -> Iterator[str]:
    """The modules of `absent` that a module imports on every system when it is imported itself."""
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module] if isinstance(node, ast.ImportFrom) else [name.name for name in node.names]
            yield from (name for name in names if name in absent)


def test_no_module_imports_what_windows_does_not_have() -> None:
    absent = {name for name, names in lacking("win32").items() if not names}
    assert absent > {"fcntl", "grp", "pwd", "resource", "termios"}
    for name in absent:
        assert list(unguarded(ast.parse(f"import os, {name}\n"), absent)) == [name]
        assert list(unguarded(ast.parse(f"from {name} import *\n"), absent)) == [name]
    found = {path: [*unguarded(ast.parse(path.read_bytes()), absent)] for path in CODE.rglob("*.py")}
    assert not {path: names for path, names in found.items() if names}


OF_NIX = {"nix_environment", "nix_store", "own_store", "staged", "tested"}
"""Modules that no job on Windows calls."""


def test_a_file_that_another_program_holds_open_ends_no_command() -> None:
    """Windows does not remove it; no temporary folder may fail for that."""
    failing = set()
    for path in CODE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("TemporaryDirectory"):
                options = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
                if options.get("ignore_cleanup_errors") != "True":
                    failing.add(path)
    assert {path.stem for path in failing if path.parent.name != "adoption"} == OF_NIX


def test_only_one_module_sends_signals_to_processes_by_number() -> None:
    """On Windows, os.kill ends any process, and 0 means Ctrl-C; types do not show that."""
    found = {path.name for path in CODE.rglob("*.py") if "os.kill(" in path.read_text("utf-8")}
    assert found == {"system.py"}


@pytest.mark.weekly
@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_the_gate_finds_every_call_that_a_system_lacks(platform: str, tmp_path: Path) -> None:
    """Each name is planted once, and mypy must find each; `.ci/run` runs it for the platform each week."""
    planted = [
        f"{module}.{name}"
        for module, names in lacking(platform).items()
        for name in names
        if module in {"fcntl", "mmap", "os", "resource", "select", "selectors", "signal", "socket", "time"}
    ]
    planted += [f"{name}.{call}" for name, call in WHOLE.items() if platform == "win32"]
    modules = sorted({name.split(".")[0] for name in planted})
    lines = [*(f"import {module}" for module in modules), *planted]
    (tmp_path / "planted.py").write_text("\n".join(lines) + "\n", "utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file=", "--platform", platform, "--cache-dir", os.devnull]
    done = subprocess.run([*command, "planted.py"], cwd=tmp_path, capture_output=True, encoding="utf-8", check=False)
    found = {int(number) for number in re.findall(r"^planted\.py:([0-9]+): error:", done.stdout, re.MULTILINE)}
    assert [lines[number - 1] for number in range(len(modules) + 1, len(lines) + 1) if number not in found] == []
    assert len(planted) > 100
    loop = re.search(r"for platform in (.*); do", (CODE.parent / ".ci/run").read_text("utf-8"))
    assert loop
    assert platform in loop[1].split()
