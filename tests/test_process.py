"""Starting programs: their output, their limits, and that nothing is left of them."""

from __future__ import annotations

import ast
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

import ci_compiler
from ci_compiler import process
from ci_compiler.errors import InputError
from ci_compiler.process import PAST_LIMIT, Ended, ask, ending_in_order, find_program, follow, follow_errors
from ci_compiler.secret import Secret
from tests.processes import MINUTES, has_ended, has_written, number_in, until, with_time

GIB = 1024**3
BOTH = pytest.mark.parametrize("how", [ask, partial(follow, on_line=print)])


def listen(
    script: str, *, progress: str = "", seconds: float = MINUTES, patience: float = MINUTES
) -> tuple[Ended, list[str]]:
    """Follows the standard error of a shell script, in which lines with `progress` are signs of progress."""
    lines: list[str] = []

    def heard(line: str) -> bool:
        lines.append(line)
        return progress in line

    command = ["sh", "-c", script]
    return follow_errors(command, heard, seconds=seconds, patience=patience, memory=GIB, env=os.environ), lines


def written(file: Path) -> Callable[[object], bool]:
    """Whether a program came as far as writing to `file`."""
    return lambda _: has_written(file)


# Output.


def test_ask_returns_both_outputs_and_the_status() -> None:
    ended = ask(["sh", "-c", "cat; echo wrong >&2; exit 3"], seconds=MINUTES, stdin="given")
    assert (ended.status, ended.out, ended.err) == (3, "given", "wrong\n")


def test_a_file_gets_standard_output_byte_for_byte() -> None:
    with tempfile.TemporaryFile() as out:
        ended = ask(["printf", r"\033[31m\377\000\r\n"], seconds=MINUTES, out=out)
        out.seek(0)
        assert (ended.out, out.read()) == ("", b"\x1b[31m\xff\0\r\n")


def test_the_environment_and_the_folder_are_the_given_ones(tmp_path: Path) -> None:
    ended = ask(["/bin/sh", "-c", "pwd; echo $ONE $HOME"], seconds=MINUTES, env={"ONE": "1"}, folder=tmp_path)
    assert ended.out == f"{tmp_path}\n1\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("error: one\n  at somewhere\nerror: two\nnote", "two"),
        ("fatal: no\nhint: do", "no"),
        ("just this\n\n", "just this"),
        ("\x1b[31merror:\x1b[0m red", "red"),
        ("", ""),
    ],
)
def test_the_reason_of_a_failure_is_the_last_error_in_the_output(text: str, said: str) -> None:
    assert ask(["sh", "-c", 'printf "%s" "$1" >&2', "sh", text], seconds=MINUTES).said == said


def test_follow_passes_on_and_logs_every_line_and_returns_the_tail(tmp_path: Path) -> None:
    log, lines = tmp_path / "log", list[str]()
    ended = follow(["sh", "-c", r"seq 100 >&2; printf '\033[1mlast'; exit 4"], lines.append, seconds=MINUTES, log=log)
    assert lines == [*map(str, range(1, 101)), "\x1b[1mlast"]
    assert log.read_text("utf-8").splitlines() == lines
    assert (ended.status, ended.out.splitlines()) == (4, [*map(str, range(62, 101)), "last"])
    follow(["echo", "more"], lines.append, seconds=MINUTES, log=log)
    assert log.read_text("utf-8").splitlines() == lines


def test_follow_errors_passes_on_standard_error_only() -> None:
    ended, lines = listen("echo out; echo one >&2; printf two >&2; exit 5")
    assert (ended.status, lines) == (5, ["one", "two"])


@BOTH
def test_a_secret_is_hidden_in_all_output(
    how: Callable[..., Ended], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, secret = {} if how is ask else {"log": tmp_path / "log"}, Secret("hush")
    given = {"secret": secret} if how is ask else {"secrets": [Secret("quiet"), secret]}
    ended = how(["sh", "-c", "echo it is hush; echo hush >&2"], seconds=MINUTES, **given, **log)
    texts = [repr(ended), capsys.readouterr().out, *(path.read_text("utf-8") for path in log.values())]
    assert not any("hush" in text for text in texts)
    assert "it is ***" in texts[0]


# Limits.


@BOTH
def test_a_program_that_takes_too_long_is_ended_with_all_that_it_started(
    how: Callable[..., Ended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "GRACE", 0.1)
    script = f"trap '' TERM; sleep 600 & echo $! >{tmp_path}/child; wait; sleep 600"
    ended = with_time(lambda seconds: how(["sh", "-c", script], seconds=seconds), written(tmp_path / "child"))
    assert ended.status == PAST_LIMIT
    child = number_in(tmp_path / "child")
    until(lambda: has_ended(child))


def test_the_reason_names_the_program_that_took_too_long() -> None:
    assert ask(["sleep", "600"], seconds=0.1).said == "sleep did not end within 0 s, and was ended"


def test_a_group_gets_sigterm_before_sigkill(tmp_path: Path) -> None:
    child = f"trap 'touch {tmp_path}/asked; exit' TERM; echo >{tmp_path}/ready; while :; do sleep 0.01; done"
    command = ["sh", "-c", f'(sh -c "{child}") & wait']
    ended = with_time(lambda seconds: ask(command, seconds=seconds), written(tmp_path / "ready"), first=1)
    assert ended.status == PAST_LIMIT
    until((tmp_path / "asked").exists)


@BOTH
def test_a_leftover_child_is_ended_and_not_waited_for(how: Callable[..., Ended], tmp_path: Path) -> None:
    ended = how(["sh", "-c", f"echo said; sleep 6000 & echo $! >{tmp_path}/child"], seconds=MINUTES)
    assert (ended.status, ended.out.strip()) == (0, "said")
    child = number_in(tmp_path / "child")
    until(lambda: has_ended(child))


def test_a_program_without_progress_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "GRACE", 600.0)  # SIGTERM would not end it
    begin = f"trap '' TERM; echo $$ >{tmp_path}/leader; sleep 0.3; echo progress >&2"
    script = f"{begin}; while :; do echo x >&2; sleep 0.1; done"
    ended, _ = with_time(
        lambda patience: listen(script, progress="progress", seconds=MINUTES, patience=patience),
        lambda result: result[1][:2] == ["progress", "x"],
        first=1,
    )
    assert ended.status == PAST_LIMIT
    assert 1.3 <= ended.seconds < MINUTES
    assert has_ended(number_in(tmp_path / "leader"))


def test_progress_does_not_extend_the_time_limit() -> None:
    script = "while :; do echo x >&2; sleep 0.1; done"
    ended, _ = with_time(lambda seconds: listen(script, seconds=seconds, patience=MINUTES), lambda result: result[1])
    assert ended.status == PAST_LIMIT
    assert ended.seconds < MINUTES


@pytest.mark.skipif(sys.platform != "linux", reason="needs prlimit(2)")
def test_memory_is_limited() -> None:
    _, lines = listen("while [ $(ulimit -v) = unlimited ]; do sleep 0.1; done; ulimit -v >&2")
    assert lines == [str(GIB // 1024)]


def test_in_the_caller_s_group_only_the_program_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It shares the terminal, and what it starts survives it, such as the daemons of podman."""
    monkeypatch.setattr(process, "GRACE", 0.1)
    command = [
        "sh",
        "-c",
        f"trap '' TERM; sleep 600 >&- 2>&- & echo $! >{tmp_path}/child; echo $$ >{tmp_path}/leader; wait; sleep 600",
    ]
    ended = with_time(lambda seconds: ask(command, seconds=seconds, group=False), written(tmp_path / "leader"))
    assert ended.status == PAST_LIMIT
    child, leader = number_in(tmp_path / "child"), number_in(tmp_path / "leader")
    try:
        assert (os.getpgid(child), os.getsid(child)) == (os.getpgid(0), os.getsid(0))
        assert has_ended(leader)
        assert not has_ended(child)
    finally:
        os.kill(child, signal.SIGKILL)


def test_an_exception_ends_the_group(tmp_path: Path) -> None:
    def stop(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        follow(["sh", "-c", f"sleep 600 & echo $! >{tmp_path}/child; echo; wait"], stop, seconds=MINUTES)
    assert has_ended(number_in(tmp_path / "child"))


def test_sigterm_exits_in_order_and_its_handler_is_restored() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as raised, ending_in_order():
        signal.raise_signal(signal.SIGTERM)
    assert raised.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is before


# In the background.


def test_a_program_in_the_background_has_a_session_of_its_own(tmp_path: Path) -> None:
    env = {**os.environ, "ONE": "1"}
    script = 'echo "$ONE"; echo an error >&2; read -r _; until [ -e go ]; do sleep 0.01; done; exit 3'
    with (tmp_path / "one").open("wb") as out:
        started = process.start(["sh", "-c", script], env=env, folder=tmp_path, out=out)
    assert os.getsid(started.pid) == started.pid
    assert started.poll() is None
    (tmp_path / "go").touch()
    assert started.wait() == started.poll() == 3
    assert (tmp_path / "one").read_text("utf-8") == "1\nan error\n"


# Programs that are missing.


def test_a_program_that_cannot_be_started_is_wrong_input(tmp_path: Path) -> None:
    message = "/nowhere/program: cannot be started: No such file"
    with pytest.raises(InputError, match=message):
        ask(["/nowhere/program"], seconds=MINUTES)
    with (tmp_path / "log").open("wb") as out, pytest.raises(InputError, match=message):
        process.start(["/nowhere/program"], env={}, folder=tmp_path, out=out)


def test_a_program_is_found_on_path_and_in_further_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(InputError, match=r"hello: hello is not on PATH; install hello \[hello-missing\]"):
        find_program("hello", install="install hello", code="hello-missing")
    program = tmp_path / "hello"
    program.touch(0o755)
    assert find_program("hello", install="", folders=(str(tmp_path),)) == str(program)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_program("hello", install="") == str(program)


# The rest of the package.

STARTERS = ("exec", "spawn", "posix_spawn", "popen", "system", "fork")


def starts(tree: ast.AST) -> Iterator[str]:
    """The names in a module that start programs."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{name.name}" for name in node.names]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names = [f"{node.value.id}.{node.attr}"]
        else:
            continue
        for name in names:
            module, _, member = name.partition(".")
            if module in {"subprocess", "multiprocessing", "pty"} or (module == "os" and member.startswith(STARTERS)):
                yield name


@pytest.mark.slow
def test_no_other_module_starts_programs() -> None:
    root = Path(ci_compiler.__file__).parent
    found = {
        path.relative_to(root).as_posix(): names
        for path in sorted(root.rglob("*.py"))
        if (names := set(starts(ast.parse(path.read_text("utf-8")))))
    }
    # The writer forks to finish what a killed compile began; `offline.py` is a program that turns into a test.
    assert found.pop("files/atomic.py") == {"os.fork"}
    assert found.pop("runner/jobs/offline.py") == {"os.execvp"}
    assert found.keys() == {"process.py"}
    assert {name.partition(".")[0] for name in found["process.py"]} == {"subprocess"}


@pytest.mark.parametrize("code", ["import subprocess as s", "from os import execv", "os.popen('x')", "import pty"])
def test_every_way_to_start_a_program_is_recognised(code: str) -> None:
    assert list(starts(ast.parse(code)))
