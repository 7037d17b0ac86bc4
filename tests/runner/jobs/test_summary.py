"""The rows that a stage adds to its summary."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_compiler.runner.jobs.summary import HEADERS, VARIABLE, add_row, add_table


@pytest.fixture
def summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "summary.md"))
    return tmp_path / "summary.md"


def test_rows_of_one_kind_are_one_table(summary: Path) -> None:
    summary.write_text("# Before\n", "utf-8")
    add_row(name="a", stage="build", result="built", seconds=3725, size=3_210_000_000, remarks=["one", "two"])
    add_row(name="a", stage="publish", result="published", seconds=0.2)
    add_table(("check", "found"), [("x", "y")])
    add_row(name="b", stage="build", result="failed", seconds=59, size=4096)
    head = [f"| {' | '.join(HEADERS)} |", "| --- | --- | --- | --- | --- | --- |"]
    assert summary.read_text("utf-8").splitlines() == [
        "# Before",
        "",
        *head,
        "| a | build | built | 1 h 2 min | 3.2 GB | one; two |",
        "| a | publish | published | 0 s |  |  |",
        "",
        "| check | found |",
        "| --- | --- |",
        "| x | y |",
        "",
        *head,
        "| b | build | failed | 59 s | 4 kB |  |",
    ]


def test_without_a_runner_nothing_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    add_row(name="a", stage="build", result="built", seconds=1)
    assert not list(tmp_path.iterdir())
