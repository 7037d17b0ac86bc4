"""Completion: what the words lead to, and the scripts in the real shells."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM as COMPILE
from ci_compiler.cli.completion import FILES, FOLDERS, SHELLS, script
from ci_compiler.cli.program import Program
from ci_compiler.cli.runner import PROGRAM as RUNNER
from tests.checkers.tools import require
from tests.specs import small

SM90 = "pytorch-python313-cuda12_8-sm90-"


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".github").mkdir()
    (tmp_path / ".github/ci-matrix.yaml").write_text(json.dumps(small()), "utf-8")
    (tmp_path / "other.yaml").write_text("version: 2\n", "utf-8")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("program", "words", "found"),
    [
        (COMPILE, ["v"], ["variants", "verdict"]),
        (COMPILE, ["--ch"], ["--check"]),
        (COMPILE, ["--print-completion", ""], [*SHELLS]),
        (COMPILE, ["--spec", ""], [FILES]),
        (COMPILE, ["--root", "."], [FOLDERS]),
        (COMPILE, ["explain", f"{SM90}avx5"], [f"{SM90}avx512"]),
        (COMPILE, ["dispatch", f"{SM90}avx2", f"{SM90}avx5"], [f"{SM90}avx512"]),
        (COMPILE, ["explain", f"{SM90}avx2", "pytorch"], []),
        (COMPILE, ["variants", "--branch", ""], ["main"]),
        (COMPILE, ["variants", "--branch=m"], ["--branch=main"]),
        (COMPILE, ["variants", "--branch", "=", "m"], ["main"]),
        (COMPILE, ["--branch", "main", "var"], ["variants"]),
        (COMPILE, ["select", "--gpu", "sm9"], ["sm90"]),
        (COMPILE, ["pause", "--pool", "h"], ["h100"]),
        (COMPILE, ["dispatch", "--shard", ""], ["build-main-cpu", "build-main-sm90"]),
        (COMPILE, ["variants", "--json", "--js"], []),
        (COMPILE, ["site", ""], [FOLDERS]),
        (COMPILE, ["init", "--template", "ja"], ["jax"]),
        (COMPILE, ["--spec", "other.yaml", "variants", "--branch", ""], []),
        (RUNNER, ["start", ""], ["builder", "h100"]),
        (RUNNER, ["deploy", "sy"], ["systemd"]),
        (RUNNER, ["smoke", f"{SM90}avx2", "--stage", "gpu"], ["gpu-test"]),
        (RUNNER, ["doctor", "--for", "pub"], ["publish"]),
    ],
)
def test_words_are_completed(
    program: Program, words: list[str], found: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(program, ["--complete", *words]) == 0
    assert capsys.readouterr().out.split() == found


STUB = """#!/bin/sh
printf '%s\\n' "$@" >>called
case $3 in
  x) echo :files ;;
  *) printf 'one two\\nthree\\n' ;;
esac
"""

ASKS = {
    "bash": """
        eval "$SCRIPT"
        COMP_WORDS=(ci-compile explain "$1") COMP_CWORD=2
        _ci_compile ci-compile "$1" explain
        printf '%s\\n' "${COMPREPLY[@]}" """,
    "zsh": """
        compdef() { :; }
        compadd() { print -rl -- "${(@P)2}"; }
        _files() { print -l x.yaml; }
        eval "$SCRIPT"
        words=(ci-compile explain "$1") CURRENT=3
        _ci_compile """,
    "fish": """
        echo $SCRIPT | source
        complete --do-complete "ci-compile explain $argv[1]" """,
}
"""Asks the script in SCRIPT for the completions of its argument, in each shell."""


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(("word", "found"), [("", ["one two", "three"]), ("x", ["x.yaml"])])
def test_the_scripts_ask_the_command(tmp_path: Path, shell: str, word: str, found: list[str]) -> None:
    program = require(shell)
    stub = tmp_path / "bin/ci-compile"
    stub.parent.mkdir()
    stub.write_text(STUB, "utf-8")
    stub.chmod(0o755)
    (tmp_path / "x.yaml").touch()
    text = script("ci-compile", shell)
    environment = {"PATH": f"{stub.parent}:{os.environ['PATH']}", "HOME": str(tmp_path), "SCRIPT": text, "LC_ALL": "C"}
    options = {"bash": ["--norc", "-c"], "zsh": ["-f", "-c"], "fish": ["--no-config", "-c"]}[shell]
    name = [] if shell == "fish" else [shell]
    done = subprocess.run(
        [program, *options, ASKS[shell], *name, word], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert sorted(done.stdout.splitlines()) == found
    called = (tmp_path / "called").read_text("utf-8").splitlines()
    assert called[-3:] == ["--complete", "explain", word]


@pytest.mark.parametrize("program", [COMPILE, RUNNER], ids=lambda program: program.name)
def test_shellcheck_finds_nothing_in_the_script_for_bash(program: Program) -> None:
    text = script(program.name, "bash")
    assert "@" not in text.replace("[@]", "")
    words = [require("shellcheck"), "--shell", "bash", "-"]
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
    assert done.stdout == ""
