"""Finds and starts the programs of the checkers, and handles missing ones."""

import os
import re
import shutil
import subprocess
import sysconfig
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

# `python -m pytest` of an environment that nobody activated: its programs are not on PATH.
SCRIPTS = sysconfig.get_path("scripts")

TEST_EXTRA = "python -m pip install '.[test]'"
HOW_TO_INSTALL = {
    "act": TEST_EXTRA,
    "bash": "apt-get install bash",
    "buildah": "apt-get install buildah",
    "busybox": "apt-get install busybox-static",
    "c++": "apt-get install g++",
    "cc": "apt-get install gcc",
    "ccache": "apt-get install ccache",
    "check-jsonschema": TEST_EXTRA,
    "chromium": "apt-get install chromium",
    "curl": "apt-get install curl",
    "docker": "apt-get install docker.io",
    "dockerd": "apt-get install docker.io",
    "fish": "apt-get install fish",
    "git": "apt-get install git",
    "hadolint": TEST_EXTRA,
    "jq": "apt-get install jq",
    "newuidmap": "apt-get install uidmap",
    "nix": "apt-get install nix-bin",
    "nix-build": "apt-get install nix-bin",
    "nix-daemon": "apt-get install nix-bin",
    "nix-hash": "apt-get install nix-bin",
    "nix-instantiate": "apt-get install nix-bin",
    "nix-store": "apt-get install nix-bin",
    "node": "apt-get install nodejs npm",
    "objdump": "apt-get install binutils",
    "podman": "apt-get install podman",
    "qemu-aarch64": "apt-get install qemu-user",
    "qemu-x86_64": "apt-get install qemu-user",
    "shellcheck": TEST_EXTRA,
    "slirp4netns": "apt-get install slirp4netns",
    "strace": "apt-get install strace",
    "systemd-analyze": "apt-get install systemd",
    "zizmor": TEST_EXTRA,
    "zstd": "apt-get install zstd",
    "zsh": "apt-get install zsh",
}


def unavailable(message: str) -> NoReturn:
    """Skip the test on a user's machine; fail it where `CI_COMPILER_TOOLS=required` says that all tools are there."""
    if os.environ.get("CI_COMPILER_TOOLS") == "required":
        pytest.fail(message)
    pytest.skip(message)


def require(tool: str) -> str:
    """The program's path, in this interpreter's environment or on PATH; without it the test is skipped, or fails."""
    return _found(tool) or unavailable(missing(tool))


def _found(tool: str) -> str | None:
    return shutil.which(tool, path=os.pathsep.join((SCRIPTS, os.environ.get("PATH", os.defpath))))


def absent() -> str:
    """One line that names the tools that are not there, whose tests will be skipped; '' if all are."""
    tools = ", ".join(tool for tool in HOW_TO_INSTALL if not _found(tool))
    return f"tests that need one of these tools are skipped, since it is not installed: {tools}" if tools else ""


def missing(tool: str) -> str:
    """That a tool is missing, and the command that installs it, in the form that `lacking` reads."""
    return f"{tool} is not installed: {HOW_TO_INSTALL.get(tool, 'put it on PATH')}"


def lacking(reasons: Iterable[str]) -> str:
    """One line that counts the tests skipped for want of a tool, by tool, with what installs it; '' if there are none.

    `reasons` are the reasons of all skipped tests.
    """
    matches = (re.search(r"^(?:Skipped: )?(.+?) (?:is|are) not installed: (.+)$", reason) for reason in reasons)
    counts = Counter(match.groups() for match in matches if match)
    tools = ", ".join(f"{count} {tool} ({install})" for (tool, install), count in sorted(counts.items()))
    return f"skipped for want of a tool: {counts.total()}: {tools}" if counts else ""


def run(
    command: Sequence[str | Path],
    *,
    statuses: Iterable[int] = (0,),
    stdin: str = "",
    env: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end. Another status than `statuses` is a failure of the program, shown with its output."""
    done = subprocess.run(command, input=stdin, capture_output=True, encoding="utf-8", check=False, env=env)
    if done.returncode not in statuses:
        raise RuntimeError(f"{Path(command[0]).name} ended with {done.returncode}: {done.stderr or done.stdout}")
    return done


def files(paths: Iterable[Path]) -> list[Path]:
    """The paths as a list. An empty list is an error, so that a mistyped glob does not pass as a clean tree."""
    found = list(paths)
    if not found:
        raise ValueError("no files given to judge")
    return found


def is_action(path: Path) -> bool:
    """Whether a file is an action's metadata; anything else is taken for a workflow."""
    return path.name in {"action.yml", "action.yaml"} and path.parent.name != "workflows"


def repository(path: Path) -> Path:
    """The root that a file's `./` references start at: the nearest folder above it that holds a `.github`."""
    above = path.resolve().parents
    return next((folder for folder in above if (folder / ".github").is_dir()), above[0])
