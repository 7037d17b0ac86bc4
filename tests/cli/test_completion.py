"""Completion: the scripts that shtab makes, in the real shells."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM as COMPILE
from ci_compiler.cli.program import SHELLS, Program
from ci_compiler.cli.runner import PROGRAM as RUNNER
from tests.checkers.tools import require

WORDS = {
    "bash": {
        "": "forecast",
        "for": "forecast",
        "--ch": "--check",
        "variants --left": "--left-out",
        "--spec ": "x.yaml",
    },
    "fish": {"": "forecast", "for": "forecast", "variants --left": "--left-out"},
}
"""Words up to the cursor, and one of the words that may follow."""

ASKS = {
    "bash": """
        eval "$SCRIPT"
        COMP_LINE="ci-compile $1"
        COMP_POINT=${#COMP_LINE}
        read -ra COMP_WORDS <<<"$COMP_LINE"
        [[ $COMP_LINE != *" " ]] || COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        $(complete -p ci-compile | sed 's/.*-F \\([^ ]*\\).*/\\1/') ci-compile "${COMP_WORDS[COMP_CWORD]}"
        printf '%s\\n' "${COMPREPLY[@]}" """,
    "fish": """
        echo $SCRIPT | source
        complete --do-complete "ci-compile $argv[1]" """,
}
"""Asks the script in SCRIPT for the completions of its argument, in each shell."""


def script(program: Program, shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        run(program, ["--print-completion", shell])
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(("shell", "words"), [(shell, words) for shell, found in WORDS.items() for words in found])
def test_words_are_completed(shell: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.yaml").touch()
    text = script(COMPILE, shell, capsys)
    options = {"bash": ["--norc", "-c"], "fish": ["--no-config", "-c"]}[shell]
    name = [] if shell == "fish" else [shell]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SCRIPT": text, "LC_ALL": "C"}
    done = subprocess.run(
        [require(shell), *options, ASKS[shell], *name, words],
        env=environment, cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    assert WORDS[shell][words] in [line.partition("\t")[0].strip() for line in done.stdout.splitlines()]


@pytest.mark.parametrize("program", [COMPILE, RUNNER], ids=lambda program: program.name)
@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_reads_its_script(program: Program, shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = script(program, shell, capsys)
    assert all(name in text for name in program.commands)
    done = subprocess.run([require(shell), "-n"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
