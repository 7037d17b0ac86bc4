"""Programs that a stage starts: gone when it is over, however it ends, and their secrets with them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_compiler.errors import InputError
from ci_compiler.runner.jobs.programs import PAST_LIMIT, ask, ending_in_order, follow, job_seconds, taking_secrets
from ci_compiler.secret import Secret
from ci_compiler.spec.model import Backend
from tests.runner.jobs.world import TORCH, World, recipe


def until(what: Callable[[], object]) -> None:
    """Waits for `what`, up to a minute."""
    end = time.monotonic() + 60
    while not what():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)


def is_gone(process: int) -> bool:
    """Whether a process is no more, or only waits to be reaped."""
    try:
        return Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_an_answer_has_both_outputs_and_the_status() -> None:
    ended = ask(["sh", "-c", "cat; echo wrong >&2; exit 3"], seconds=60, stdin="given")
    assert (ended.status, ended.out, ended.err) == (3, "given", "wrong\n")


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
def test_why_a_program_failed_is_the_last_error_that_it_told(text: str, said: str) -> None:
    assert ask(["sh", "-c", 'printf "%s" "$1" >&2', "sh", text], seconds=60).said == said


@pytest.mark.parametrize("how", [ask, follow])
def test_what_takes_too_long_is_ended_with_all_that_it_started(how: Callable[..., object], tmp_path: Path) -> None:
    script = f"trap '' TERM; sleep 600 & echo $! >{tmp_path}/child; wait; sleep 600"
    started: list[int] = []
    import ci_compiler.runner.jobs.programs as module

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "GRACE", 0.1)
        ended = how(["sh", "-c", script], seconds=0.5)
    started.append(int((tmp_path / "child").read_text("utf-8")))
    assert getattr(ended, "status", None) == PAST_LIMIT
    until(lambda: is_gone(started[0]))


def test_all_that_was_started_is_asked_to_end_before_it_is_killed(tmp_path: Path) -> None:
    child = f"trap 'touch {tmp_path}/asked; exit' TERM; touch {tmp_path}/ready; while :; do sleep 0.01; done"
    ended = ask(["sh", "-c", f'(sh -c "{child}") & sleep 0.2; wait'], seconds=3)
    assert ended.status == PAST_LIMIT
    assert (tmp_path / "ready").exists()
    until((tmp_path / "asked").exists)


def test_what_a_program_leaves_behind_does_not_keep_anyone_waiting(tmp_path: Path) -> None:
    script = f"echo said; sleep 600 & echo $! >{tmp_path}/child"
    assert follow(["sh", "-c", script], seconds=120).out == "said"
    child = int((tmp_path / "child").read_text("utf-8"))
    until(lambda: is_gone(child))


def test_a_log_is_kept_whole_and_shown_and_its_end_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    ended = follow(["sh", "-c", "seq 100 >&2; printf last"], seconds=60, log=log)
    whole = "".join(f"{number}\n" for number in range(1, 101)) + "last\n"
    assert log.read_text("utf-8") == whole == capsys.readouterr().out
    assert ended.out.splitlines() == [*map(str, range(62, 101)), "last"]


@pytest.mark.parametrize("how", [ask, follow])
def test_a_secret_is_in_nothing_that_is_said(
    how: Callable[..., object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = {"log": tmp_path / "log"} if how is follow else {}
    ended = how(["sh", "-c", "echo it is hush; echo hush >&2"], seconds=60, secret=Secret("hush"), **log)
    texts = [repr(ended), capsys.readouterr().out, *(path.read_text("utf-8") for path in log.values())]
    assert not any("hush" in text for text in texts)
    assert "it is ***" in texts[0]


def test_no_program_inherits_a_publishing_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOX_FLOXHUB_TOKEN", "hush")
    monkeypatch.setenv("NIX_CACHE_SIGNING_KEY", " ")
    with taking_secrets() as secrets:
        assert {key: secret.reveal() for key, secret in secrets.items()} == {Backend.FLOX: "hush"}
        assert "hush" not in ask(["env"], seconds=60).out
    assert os.getenv("FLOX_FLOXHUB_TOKEN", "").startswith("hush")


def test_a_program_that_is_not_there_is_wrong_input() -> None:
    with pytest.raises(InputError, match=r"/nowhere/program: cannot-start cannot be started: No such file"):
        ask(["/nowhere/program"], seconds=60)


def test_a_stage_ends_before_github_ends_its_job() -> None:
    assert job_seconds(60) < 60 * 60
    assert job_seconds(1) > 0


def test_the_handler_of_sigterm_is_put_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as raised, ending_in_order():
        signal.raise_signal(signal.SIGTERM)
    assert raised.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_build_that_is_cancelled_leaves_no_builder_and_no_manifest(world: World, number: int, status: int) -> None:
    world.write(TORCH, recipe(TORCH, "2.8.0", f"echo $$ >{world.folder}/builder; exec sleep 600"))
    world.commit()
    command = [sys.executable, "-m", "ci_compiler.cli.runner", "build", TORCH, "--branch", "main"]
    start = "from ci_compiler.cli.runner import main; raise SystemExit(main())"
    command = [sys.executable, "-c", start, *command[3:]]
    process = subprocess.Popen(command, cwd=world.root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until((world.folder / "builder").exists)
    until(lambda: (world.folder / "builder").read_text("utf-8").strip())
    builder = int((world.folder / "builder").read_text("utf-8"))
    process.send_signal(number)
    assert process.wait(60) == status
    until(lambda: is_gone(builder))
    assert [path.name for path in (world.root / "build-output").iterdir()] == ["build.log"]
