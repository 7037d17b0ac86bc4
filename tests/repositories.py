"""Git repositories for tests that start git as little as they can: it is most of the processes of the test run."""

from __future__ import annotations

import atexit
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

CONFIG = """\
[core]
	repositoryformatversion = 0
	filemode = true
	bare = {bare}
[user]
	name = A
	email = a@example.org
"""


def init(root: Path, more: str = "", *, bare: bool = False) -> None:
    """Makes an empty repository at `root`, as `git init -b main` does; `more` is added to its configuration."""
    folder = root if bare else root / ".git"
    for name in ("objects", "refs/heads"):
        (folder / name).mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n", "utf-8")
    (folder / "config").write_text(CONFIG.format(bare=str(bare).lower()) + more, "utf-8")


def commit(root: Path, *settings: str, env: Mapping[str, str] | None = None) -> str:
    """Commits all files at `root`; returns the commit."""
    for words in (["add", "-A"], ["commit", "-m", "x", "--allow-empty"]):
        command = ["git", "-C", str(root), "-c", "core.abbrev=no", *settings, *words]
        out = subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout
    found = re.search(r"^\[.* ([0-9a-f]{40,64})\] ", out, re.MULTILINE)
    assert found, out
    return found[1]


def copy_once(make: Callable[[Path], object], root: Path) -> None:
    """Makes what `make` does in the folder `root`. It does that once; later calls copy, with the new path in `.git`."""
    template = _template(make)
    shutil.copytree(template, root, symlinks=True, dirs_exist_ok=True)
    for config in [*root.glob("*/config"), *root.glob("*/.git/config"), *root.glob(".git/config")]:
        config.write_text(config.read_text("utf-8").replace(str(template), str(root)), "utf-8")
        if config.with_name("index").exists():  # it has the inodes of the files
            subprocess.run(["git", "-C", str(config.parents[1]), "update-index", "--refresh"], check=True)


@cache
def _template(make: Callable[[Path], object]) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="ci-compiler-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    make(folder)
    return folder
