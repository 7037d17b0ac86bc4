"""Repositories for fault tests: a spec, its compiled files, and foreign files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults.injector import child, command
from tests.specs import UNKNOWN_PIN, small

STAGING = ".ci-compile-"

FOREIGN = {
    ".github/CODEOWNERS": "* @me\n",
    ".github/workflows/mine.yml": "name: mine\n",
    ".flox/pkgs/mine.nix": "{ }: { }\n",
    "README.md": "# mine\n",
}
"""Files that no command may touch."""

OLD = small()
NEW = small(
    owner="other-org",
    branches={
        "main": {"cuda": "12.9", "nixpkgs": UNKNOWN_PIN, "versions": {"pytorch": "2.9.0", "torchvision": "0.24.0"}}
    },
    matrix={"python": ["3.13"], "isas": {"x86_64-linux": ["avx2"]}, "gpus": {"cpu": {}, "sm80": {}}},
)
"""Two specs without a compiled file in common: from one to the other, files are added, changed and removed."""


def put(root: Path, path: str, text: str) -> Path:
    """Writes a file with the folders above it."""
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, "utf-8")
    return target


def repository(root: Path, spec: dict[str, Any]) -> Path:
    """A repository at `root` on its branch main, with foreign files and `spec`, not compiled yet."""
    for path, text in FOREIGN.items():
        put(root, path, text)
    put(root, ".git/HEAD", "ref: refs/heads/main\n")
    give(root, spec)
    return root


def give(root: Path, spec: dict[str, Any]) -> None:
    """Writes `spec` to the repository."""
    put(root, ".github/ci-matrix.yaml", json.dumps(spec))


def prepared(root: Path) -> Path:
    """A repository with the new spec and the compiled files of the old one, and folders for other commands."""
    repository(root, OLD)
    assert child(lambda: command("ci-compile", "--root", str(root))) == 0
    assert child(lambda: command("ci-compile", "recipes", "--branch", "main", "--root", str(root))) == 0
    put(root, "out/mine", "mine\n")
    put(root, "bare/README.md", "mine\n")
    give(root, NEW)
    return root


COMMANDS: dict[str, Callable[[Path], list[str]]] = {
    "compile": lambda root: ["ci-compile", "--root", str(root)],
    "recipes": lambda root: ["ci-compile", "recipes", "--branch", "main", "--root", str(root)],
    "site": lambda root: ["ci-compile", "site", str(root / "out"), "--root", str(root)],
    "deploy": lambda root: ["ci-runner", "deploy", "systemd", "-o", str(root / "out"), "--root", str(root)],
    "init": lambda root: ["ci-compile", "init", "--root", str(root / "bare")],
}
"""The commands that write files, with their arguments for a prepared repository."""


def snapshot(root: Path, *, staged: bool = False) -> dict[str, bytes]:
    """The files below `root` and their bytes; leftovers of a dead compile only if `staged`."""
    found = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in sorted(found.items()) if staged or STAGING not in name}


def below(files: dict[str, bytes], folder: str) -> dict[str, bytes]:
    """The `files` in `folder`."""
    return {name: data for name, data in files.items() if name.startswith(f"{folder}/")}


def replaced(root: Path, other: Path) -> None:
    """Makes `root` a copy of `other`."""
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(other, root, symlinks=True)


def leftovers(root: Path) -> list[str]:
    """Leftovers that no command should leave."""
    return sorted(path.name for path in root.rglob(f"{STAGING}*"))
