"""The end of a failed job: the error, cut out of its log, and the commands that reproduce it."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from ci_compiler.runner.jobs.reproduce import (
    AFTER,
    BEFORE,
    GUIDE,
    ONTO,
    TAIL,
    commands,
    excerpt,
    report_failure,
    suite_command,
)
from ci_compiler.runner.jobs.summary import VARIABLE
from ci_compiler.runner.targets import find
from tests.specs import small, spec_of

COMMIT, TIP = "a" * 40, "b" * 40
NEED, NAME = "pytorch-python313-cuda12_8-sm90-avx2", "torchvision-python313-cuda12_8-sm90-avx2"
NOISE = [f"[{at}/900] Building CXX object {at}.o" for at in range(100)]


@pytest.mark.parametrize(
    ("error", "later"),
    [
        ("/build/a.cpp:12:3: error: 'x' was not declared", "ninja: error: build stopped: subcommand failed."),
        ('torch> a.cu(7): error: identifier "y" is undefined', "subprocess.CalledProcessError: Command failed"),
        ("ld: a.o: undefined reference to `f()'", "collect2: error: ld returned 1 exit status"),
        ("CMake Error at CMakeLists.txt:3 (find_package):", "error: builder for '/x.drv' failed with exit code 1"),
        ("g++: fatal error: Killed signal terminated program cc1plus", "b.cpp:1:1: error: in another file"),
        ("No space left on device", "a.cpp:1:1: error: cannot write"),
        ("ImportError: libcuda.so.1: cannot open shared object file", "make: *** [all] Error 2"),
        ("E   assert 1 == 2", "ERROR: 1 test failed"),
        ("error: builder for '/x.drv' failed with exit code 1", "good bye"),
    ],
)
def test_the_first_line_of_the_cause_is_found_among_what_follows_from_it(error: str, later: str) -> None:
    found = excerpt([*NOISE, error, *NOISE, later, later])
    assert found == [*NOISE[-BEFORE:], error, *NOISE[:AFTER]]


def test_without_a_known_error_the_end_is_shown() -> None:
    assert excerpt([f"{line}\n" for line in [*NOISE, "\x1b[31mnothing here: 0 errors\x1b[0m"]]) == [
        *NOISE[-TAIL + 1 :],
        "nothing here: 0 errors",
    ]


def test_the_excerpt_shows_no_secret_no_host_and_no_command_of_a_workflow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = tmp_path / "summary.md"
    monkeypatch.setenv(VARIABLE, str(summary))
    monkeypatch.setattr(platform, "node", lambda: "gpu7.inner.example")
    token = "ghp_" + "x" * 36
    log = tmp_path / "build.log"
    log.write_text(f"::error::on gpu7 with {token}\n``` by gpu7.inner.example\a\n", "utf-8")
    report_failure(NAME, ["ci-runner build x"], [tmp_path / "none.log", log])
    said = capsys.readouterr().err
    assert said.splitlines() == [
        "The error in build.log:",
        "| ::error::on *** with ***",
        "| ``` by *** ",
        f"To reproduce it on a machine of your own ({GUIDE}):",
        "| ci-runner build x",
    ]
    text = summary.read_text("utf-8")
    assert "````text\n::error::on *** with ***\n``` by *** \n````\n" in text
    assert text.endswith("```text\nci-runner build x\n```\n")


def test_a_commit_that_sync_would_make_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of(small())
    monkeypatch.setenv(ONTO, f"{COMMIT} {TIP}..{COMMIT}")
    lines = [*commands(spec, find(spec, NAME, "main"), "c" * 40, suite_command(NAME, "ops", "2/3"))]
    assert lines == [
        f"git fetch origin {COMMIT}",
        f"git checkout {COMMIT}",
        f"git fetch origin {TIP}",
        f"ci-runner checkout --branch main --onto {TIP}..{COMMIT}",
        f"ci-runner build {NEED} --branch main",
        f"ci-runner build {NAME} --branch main",
        f"ci-runner suite {NAME} --suite ops --shard 2/3 --manifest build-output/manifest.json",
    ]
