"""Tables: every command that prints one fits 80 columns, and crops no name."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.canary.assumptions import FEATURES
from ci_compiler.cli import tables
from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM as COMPILE
from ci_compiler.cli.console import table
from ci_compiler.cli.runner import PROGRAM as RUNNER
from ci_compiler.github.status import BuildOutcome, LastBuild, grid
from ci_compiler.plan.pipeline import plan
from ci_compiler.spec.build import bundled_spec

CLI = Path(tables.__file__).parent
LONG = "torchvision-python313-cuda12_8-sm120-avx512bf16"
STORE = f"/nix/store/{'0' * 32}-{LONG}-0.24.1"

RUN = {
    "build": (COMPILE, [["--bundled"]]),
    "variants": (COMPILE, [["variants", "*-sm1*-avx512*"], ["variants", "--left-out"]]),
    "plan": (COMPILE, [["plan"]]),
    "forecast": (COMPILE, [["forecast"]]),
    "select": (COMPILE, [["select", "--gpu", "RTX 4090", "--cpu", "avx512bf16", "--package", "torchvision"]]),
    "detect": (RUNNER, [["detect"]]),
    "labels": (RUNNER, [["labels"]]),
    "coverage": (RUNNER, [["coverage"]]),
}
"""The commands that need nothing but this machine, by their module."""

GIVEN: dict[str, tuple[Sequence[str], Sequence[Sequence[str]]]] = {
    "doctor": (
        ["check", "verdict", "found"],
        [["build-space", "ok", f"62.1 GB free, {LONG} needs 10 GB of /nix/store"]],
    ),
    "benchmark": (
        ["measurement", "device", "own", "beside", "gain"],
        [["transformer-step", "cpu", "25.7 ms ± 0.2", "25.9 ms ± 0.1", "+0.4 % ± 0.6"]],
    ),
    "audit": (
        ["kind", "seen", "recipe"],
        [["an ISA flag too many in an inner derivation", "flags-exceed-isa, unlike-the-others", LONG]],
    ),
    "smoke": (["check", "result", "found"], [["import-propagated-user-env-packages", "failed", f"from {STORE}"]]),
    "sync": (["branch", "added", "changed", "removed"], [["release/2026.11-cuda-13_0-long-term", "1", "459", "0"]]),
    "update": (
        ["branch", "package", "before", "after", "why"],
        [["release/2026.11-cuda-13_0", LONG, "2.10.0", "2.11.0", "a newer release; it comes with a newer ci-compiler"]],
    ),
    "recall": (
        ["recalled", "branch", "version", "use instead"],
        [[LONG, "cuda-12_9", "0.24.1", f"{LONG} (cuda-13_0)"]],
    ),
    "settings": (
        ["setting", "state", "expected", "on GitHub"],
        [["environment publish: branches", "wrong", "main, cuda-12_9, cuda-13_0", "every branch may use it"]],
    ),
    "evaluate": (["variant", "version", "derivation"], [[LONG, "0.24.1", f"{STORE}.drv"]]),
    "list": (
        ["kind", "name", "pool", "state", "left over"],
        [["registration", "ci-runner-build-machine-17-4567-12-s44we8-x86-builder", "x86-builder", "offline", "nobody"]],
    ),
    "canary": (
        ["feature", "result"],
        [[text, "not known: dispatch-commit, path-filters"] for text in FEATURES.values()],
    ),
}
"""Rows of the commands that need GitHub, releases or a build, by their module."""


class Screen(io.StringIO):
    """A terminal without colours, and the cells of the tables that are printed to it."""

    def __init__(self) -> None:
        super().__init__()
        self.cells: list[str] = []

    def isatty(self) -> bool:
        return True


@contextmanager
def screen(columns: int = 80, **environment: str) -> Iterator[Screen]:
    """A terminal for standard output."""
    terminal = Screen()
    original = tables.fitted

    def recorded(headers: Sequence[str], rows: Sequence[Sequence[str]], *others: Any) -> Iterator[str]:
        terminal.cells += [cell for row in rows for cell in row]
        return original(headers, rows, *others)

    with pytest.MonkeyPatch.context() as patch, redirect_stdout(terminal):
        patch.setattr(tables, "fitted", recorded)
        for name, value in ({"COLUMNS": str(columns), "NO_COLOR": "1", "TERM": "xterm"} | environment).items():
            patch.setenv(name, value)
        yield terminal


def check(terminal: Screen) -> None:
    """Every word of every cell is there in whole, and lines are longer than the terminal only for one long word."""
    text = terminal.getvalue()
    words = {word for cell in terminal.cells for word in cell.split()}
    assert words
    assert words - set(text.split()) == set()
    starts = {word for word in words if len(word) > 2}
    long = [line for line in text.splitlines() if len(line) > 80 and line.split()[0] in starts]
    assert [line for line in long if max(map(len, line.split())) <= tables._PROSE] == []  # noqa: SLF001


def test_every_command_that_prints_a_table_is_tried() -> None:
    found = {
        "build" if path.stem == "compiling" else path.stem
        for path in (*CLI.glob("compile/*.py"), *CLI.glob("runner/*.py"), CLI / "compiling.py")
        if re.search(r"cli\.console import .*\b(table|print_rows)\b", path.read_text("utf-8"))
    }
    assert found - {"status"} == {*RUN, *GIVEN}


@pytest.mark.parametrize("name", RUN)
def test_a_command_crops_no_name_at_80_columns(name: str, tmp_path: Path) -> None:
    program, calls = RUN[name]
    for words in calls:
        with screen() as terminal:
            run(program, [*words, *([] if words == ["detect"] else ["--root", str(tmp_path)])])
        check(terminal)


@pytest.mark.parametrize("name", GIVEN)
def test_rows_of_other_commands_are_whole_at_80_columns(name: str) -> None:
    with screen() as terminal:
        table(*GIVEN[name])
    check(terminal)


def test_the_grid_of_the_status_is_whole_at_80_columns() -> None:
    decided, results = plan(bundled_spec()), cycle(BuildOutcome)
    lasts = [
        LastBuild(variant=variant, cell=cell, result=next(results), stages={})
        for cell in decided.judged.cells
        for variant in cell.variants
    ]
    with screen() as terminal:
        table(*grid(decided, lasts))
    check(terminal)


ROWS = [["pytorch", "failed", "a text of a few words"], ["torchvision", "1 of 3 passed", "short"]]


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (80, ["name         result         note", "torchvision  1 of 3 passed  short"]),
        (
            48,
            [
                "name         result         note",
                "pytorch      failed         a text of a few",
                "                            words",
            ],
        ),
        (20, ["pytorch", "  result failed", "  note a text of a few", "       words", "  result 1 of 3 passed"]),
    ],
)
def test_a_table_fits_the_terminal(width: int, shown: list[str]) -> None:
    with screen(width) as terminal:
        table(["name", "result", "note"], ROWS)
    assert [line for line in shown if line not in terminal.getvalue().splitlines()] == []


def test_a_narrow_terminal_leaves_out_what_a_table_can_spare(capsys: pytest.CaptureFixture[str]) -> None:
    with screen(28) as terminal:
        table(["name", "result", "note"], ROWS, spare=["note"])
    shown = ["name         result", "pytorch      failed", "torchvision  1 of 3 passed"]
    assert terminal.getvalue().splitlines() == shown
    assert "too narrow for note; --json" in capsys.readouterr().err


def test_states_have_colours() -> None:
    with screen(NO_COLOR="") as terminal:
        table(["name", "result", "note"], ROWS, states=["result"])
    for colour in ("\x1b[31mfailed ", "\x1b[32m1 of 3 passed\x1b[0m"):
        assert colour in terminal.getvalue()
    with screen(NO_COLOR="", TERM="dumb") as terminal:
        assert not tables.coloured(terminal)


def test_a_pipe_gets_no_header_and_whole_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    table(["name", "count", "note"], [["a", "1,234", "some words"], ["bc", "5", ""]])
    assert capsys.readouterr().out.splitlines() == ["a   1,234  some words", "bc      5"]
