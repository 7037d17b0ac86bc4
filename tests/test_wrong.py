"""Errors, one folder per case: the input, the command, and what it prints on standard error.

A folder in `tests/examples/wrong` holds `stderr.txt` and, as needed:

- `ci-matrix.yaml`, the spec of the repository (else the bundled one), and `tree/`, its other files;
- `like`, the case that has the files of these two that this one lacks;
- `command`, as typed in the repository, with `NAME=value` before it (else `ci-compile`);
- `setup`, a bash script that runs in the repository first, with the functions of `SETUP`;
- `github.json`, a local GitHub that has the repository's workflows: its faults, which every request that they match
  gets, and whether it is an organisation's and says which run it started (`details`);
- `exit`, the exit code (else 2), and `needs`, programs without which the test is skipped.

ROOT stands for the repository, and GITHUB for the local GitHub's address. With exit code 2, a command prints nothing on
standard output and writes nothing. `python -m tests.test_wrong [NAME...]` rewrites `stderr.txt`; read the difference
before you commit it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM as COMPILE
from ci_compiler.cli.runner import PROGRAM as RUNNER
from ci_compiler.clock import Clock
from tests.checkers import require
from tests.github.server import serving
from tests.github.state import NOW, REPOSITORY, TOKEN, Fault, GitHub

CASES = sorted((Path(__file__).parent / "examples/wrong").iterdir())
PROGRAMS = {"ci-compile": COMPILE, "ci-runner": RUNNER}
FOREIGN = re.compile("GITHUB_|GH_|XDG_|GIT_|ACTIONS_")
SETUP = f"""
ci-compile() {{ {shlex.quote(sys.executable)} -m ci_compiler "$@"; }}
first-commit() {{
  git init -q -b main
  git commit -q --allow-empty -m first
  git update-ref refs/remotes/origin/main HEAD
}}
commit-all() {{ git add -A && git commit -q -m second; }}
fake() {{ mkdir -p bin && printf '#!/bin/sh\\n%s\\n' "${{2-}}" >"bin/$1" && chmod +x "bin/$1"; }}
fake-nix() {{
  mkdir bin
  ln -s "$(command -v git)" bin/git
  for one in nix nix-build nix-store nix-instantiate flox; do fake $one; done
}}
derivation='Derive([("out","/nix/store/0123456789abcdfghijklmnpqrsvwxyz-pytorch","","")],[],[],"x86_64-linux","/bin/sh",[],[])'
described="echo /nix/store/0123456789abcdfghijklmnpqrsvwxyz-pytorch; printf %064d 0; echo; echo 1; echo; echo 0"
fake-nix-that() {{  # reads derivations, and else does what the script says
  fake nix "case \\"\\$*\\" in *\\"store cat\\"*) echo '$derivation'; exit ;; esac; ${{1-}}"
}}
fake-store() {{  # the build of manifest.json: its derivation, its output and its content
  fake-nix-that
  fake nix-instantiate 'echo /nix/store/0123456789abcdfghijklmnpqrsvwxyz-pytorch.drv'
  fake nix-store 'case "$*" in *--dump-db*) '"$described"' ;;
    *--hash*) echo sha256:0000000000000000000000000000000000000000000000000000 ;;
    *--query*) echo /nix/store/0123456789abcdfghijklmnpqrsvwxyz-pytorch ;; esac'
}}
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b.c GIT_AUTHOR_DATE=2026-02-07T00:00:00Z
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b.c GIT_COMMITTER_DATE=2026-02-07T00:00:00Z
"""
"""What every setup may use. Commits have the same hash everywhere; `fake NAME SCRIPT` makes a program in `bin/`."""


def text_of(case: Path, name: str, default: str = "") -> str:
    path = case / name
    return path.read_text("utf-8").strip() if path.exists() else default


def prepare(case: Path, root: Path) -> None:
    """Makes the repository of the case."""
    (root / ".github").mkdir(parents=True)
    for one in dict.fromkeys((case.parent / text_of(case, "like", case.name), case)):
        if (one / "tree").exists():
            shutil.copytree(one / "tree", root, symlinks=True, dirs_exist_ok=True)
        if (one / "ci-matrix.yaml").exists():
            shutil.copy(one / "ci-matrix.yaml", root / ".github/ci-matrix.yaml")
    if setup := text_of(case, "setup"):
        environment = {**os.environ, "HOME": str(root.parent), "PYTHONPATH": os.pathsep.join(sys.path)}
        subprocess.run(["bash", "-euc", SETUP + setup], cwd=root, env=environment, check=True)


@contextlib.contextmanager
def github_of(case: Path, root: Path, patch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of the case's GitHub; '' for none. Waiting takes no time."""
    if not (case / "github.json").exists():
        yield ""
        return
    given = json.loads((case / "github.json").read_bytes())
    faults = [Fault(**{**row, "body": row["body"].encode() if "body" in row else None}) for row in given["faults"]]
    github = GitHub(organisation=given.get("organisation", False))
    github.details = given.get("details", "known")
    github.push({path: text.decode() for path, text in contents(root).items() if path.startswith(".github/workflows/")})
    github.chance = lambda method, path: next((one for one in faults if one.is_for(method, path)), None)
    waited = [0.0]
    patch.setattr(Clock, "now", lambda _: NOW)
    patch.setattr(Clock, "passed", lambda _: sum(waited))
    patch.setattr(Clock, "sleep", lambda _, seconds: waited.append(seconds))
    with serving(github):
        values = {"GITHUB_API_URL": github.url, "GITHUB_TOKEN": TOKEN, "GITHUB_REPOSITORY": REPOSITORY}
        for name, value in values.items():
            patch.setenv(name, value)
        yield github.url.removeprefix("http://")


def outcome(case: Path, root: Path) -> tuple[int, str, str]:
    """The exit code, standard output and standard error of the case's command."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(root):
        for name in filter(FOREIGN.match, list(os.environ)):
            patch.delenv(name)
        patch.setenv("HOME", str(root.parent))
        words = shlex.split(text_of(case, "command", "ci-compile").replace("ROOT", str(root)))
        with github_of(case, root, patch) as host, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            while "=" in words[0]:
                patch.setenv(*words.pop(0).split("=", 1))
            code = run(PROGRAMS[words[0]], words[1:])
    texts = (text.getvalue().replace(str(root), "ROOT") for text in (out, err))
    stdout, stderr = (text.replace(host, "GITHUB") if host else text for text in texts)
    return code, stdout, stderr


def contents(root: Path) -> dict[str, bytes]:
    files = (path for path in root.rglob("*") if path.is_file() and ".git" not in path.relative_to(root).parts)
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_problem_is_one_clear_line(case: Path, tmp_path: Path) -> None:
    for program in text_of(case, "needs").split():
        require(program)
    root = tmp_path / "root"
    prepare(case, root)
    before = contents(root)
    code, out, err = outcome(case, root)
    assert (code, err) == (int(text_of(case, "exit", "2")), (case / "stderr.txt").read_text("utf-8"))
    if code == 2:
        assert out == ""
        assert contents(root) == before


def rewrite(case: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        prepare(case, Path(folder, "root"))
        code, out, err = outcome(case, Path(folder, "root"))
    print(f"{case.name}: {code}\n{out}{err}")
    (case / "stderr.txt").write_text(err, "utf-8")
    if code != 2:
        (case / "exit").write_text(f"{code}\n", "utf-8")


if __name__ == "__main__":
    for one in CASES:
        if one.name in sys.argv[1:] or not sys.argv[1:]:
            rewrite(one)
