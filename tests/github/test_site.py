"""`ci-compile site --history`: the history grows from one run to the next, and trusts no file that it did not write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.documents.site.page import NAME, STATUS
from ci_compiler.plan.records import DAY
from ci_compiler.reports.failing import TITLE
from ci_compiler.reports.history_file import NAME as HISTORY
from ci_compiler.reports.history_file import parsed

from .state import NOW, REPOSITORY, Fault, GitHub
from .test_runs import KEY, PAGES, job_requests, ran, zipped

ATTACK = "<img src=x onerror=alert(1)>"


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time on the commands' clock, at first that of the server."""
    time = [NOW]
    monkeypatch.setattr("ci_compiler.clock.Clock.now", lambda _: time[0])
    return time


def site(commands: list[str], folder: Path, *more: str) -> int:
    return run(PROGRAM, ["site", str(folder), "--repository", REPOSITORY, *more, *commands])


def keep(served: GitHub, content: bytes, **more: object) -> None:
    """The last run of `pages.yml`, with its history."""
    served.add_artifact(ran(served, 1, workflow=PAGES, **more)["id"], HISTORY, zipped(content))


def test_the_history_grows_from_one_run_to_the_next(
    served: GitHub, commands: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], now: list[float]
) -> None:
    old = ran(served, 3, conclusion="failure")
    assert site(commands, tmp_path / "first", "--history", "--status") == 0
    out, err = capsys.readouterr()
    assert [line.split()[1].rpartition("/")[2] for line in out.splitlines()] == [HISTORY, STATUS, NAME]
    assert err.startswith("history: 1 run read with ")
    keep(served, (tmp_path / "first" / HISTORY).read_bytes())
    served.jobs[old["id"]].clear()  # it is not read again
    ran(served, -0.5)
    now[0] += DAY
    served.asked.clear()
    assert site(commands, tmp_path / "second", "--history", "--status") == 0
    assert len(job_requests(served)) == 1
    assert len(served.asked) < 12
    records = parsed((tmp_path / "second" / HISTORY).read_bytes()).variants[KEY].records
    assert [one.result for one in records] == ["passed", "failed"]
    assert f'<a href="{STATUS}">' in (tmp_path / "second" / NAME).read_text("utf-8")
    assert '"result":"passed","stages":{"build":"success","cpu-test":"success"}' in (
        (tmp_path / "second" / NAME).read_text("utf-8")
    )


def test_the_history_in_the_folder_is_continued(served: GitHub, commands: list[str], tmp_path: Path) -> None:
    ran(served, 3)
    assert site(commands, tmp_path / "site", "--history") == 0
    served.asked.clear()
    assert site(commands, tmp_path / "site", "--history") == 0
    assert job_requests(served) == []
    assert len(parsed((tmp_path / "site" / HISTORY).read_bytes()).variants[KEY].records) == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not JSON"),
        (b"<!doctype html>", "is not JSON"),
        (json.dumps({"is": "history of ci-compile", "schema": 99}).encode(), "has schema 99, not 1"),
        (json.dumps({"is": "history of ci-compile", "schema": 1, "repository": ATTACK}).encode(), "wrong repository"),
    ],
)
def test_a_damaged_or_foreign_history_starts_again_with_a_notice(
    served: GitHub, commands: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, said: str
) -> None:
    ran(served, 3)
    keep(served, content)
    assert site(commands, tmp_path / "site", "--history") == 0
    err = capsys.readouterr().err
    assert said in err
    assert "the history starts again from nothing" in err
    assert len(parsed((tmp_path / "site" / HISTORY).read_bytes()).variants[KEY].records) == 1
    assert ATTACK not in (tmp_path / "site" / STATUS).read_text("utf-8")


@pytest.mark.parametrize("share", [0, 0.001, 0.5, 0.99])
def test_a_history_that_was_cut_off_in_the_folder_starts_again_with_a_notice(
    served: GitHub, commands: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], share: float
) -> None:
    ran(served, 3)
    assert site(commands, tmp_path, "--history") == 0
    whole = (tmp_path / HISTORY).read_bytes()
    (tmp_path / HISTORY).write_bytes(whole[: int(share * len(whole))])
    capsys.readouterr()
    assert site(commands, tmp_path, "--history") == 0
    notice = capsys.readouterr().err
    assert f"warning: {tmp_path / HISTORY} is not JSON: " in notice
    assert "; the history starts again from nothing\n" in notice
    assert (tmp_path / HISTORY).read_bytes() == whole


def test_a_file_of_somebody_else_in_the_place_of_the_history_stays(
    served: GitHub, commands: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran(served, 3)
    for content in ('{"is": "mine"}', "<p>", '{"is":"history of mine"'):
        (tmp_path / HISTORY).write_text(content, "utf-8")
        assert site(commands, tmp_path, "--history") == 2
        assert "[in-the-way]" in capsys.readouterr().err
        assert (tmp_path / HISTORY).read_text("utf-8") == content


def test_the_history_of_another_repository_is_not_continued(
    served: GitHub, commands: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran(served, 3)
    assert site(commands, tmp_path / "site", "--history") == 0
    text = (tmp_path / "site" / HISTORY).read_text("utf-8")
    keep(served, text.replace(REPOSITORY, "other/stack").encode())
    assert site(commands, tmp_path / "again", "--history") == 0
    assert "the history is that of 'other/stack'" in capsys.readouterr().err
    assert (tmp_path / "again" / HISTORY).read_text("utf-8") == text


def test_what_github_does_not_say_is_not_lost(
    served: GitHub, commands: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the old history, nothing is written in its place, so that the next run finds it where it was."""
    ran(served, 3)
    served.faults += [Fault(403, path="/artifacts")]
    keep(served, b"")
    assert site(commands, tmp_path / "site", "--history", "--status") == 0
    assert [one.name for one in (tmp_path / "site").iterdir()] == [NAME]
    assert "the site has no page of results this time" in capsys.readouterr().err
    assert STATUS not in (tmp_path / "site" / NAME).read_text("utf-8")


def test_a_failure_amid_the_runs_keeps_those_that_were_read(
    served: GitHub, commands: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran(served, 3)
    broken = ran(served, 50)
    served.faults += [Fault(403, path=f"/runs/{broken['id']}/jobs")]
    assert site(commands, tmp_path / "site", "--history") == 0
    err = capsys.readouterr().err
    assert "the history lacks what was not read" in err
    assert err.endswith("the next one continues\n")
    assert len(parsed((tmp_path / "site" / HISTORY).read_bytes()).variants[KEY].records) == 1


def test_a_rate_limit_ends_the_reading_and_not_the_page(
    served: GitHub, commands: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], now: list[float]
) -> None:
    """Waiting for it would take longer than the job has."""
    ran(served, 3)
    limit = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(now[0]) + 800)}
    served.faults += [Fault(403, path="/jobs", message="API rate limit exceeded", headers=limit)]
    assert site(commands, tmp_path / "site", "--history") == 0
    err = capsys.readouterr().err
    assert "rate limit" in err
    assert "waiting" not in err
    assert parsed((tmp_path / "site" / HISTORY).read_bytes()).variants == {}


@pytest.mark.parametrize("name", [STATUS, HISTORY])
def test_foreign_files_are_kept(
    served: GitHub, commands: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / name).write_text("mine", "utf-8")
    assert site(commands, tmp_path / "site", "--history") == 2
    assert f"{name}: was not written by ci-compile" in capsys.readouterr().err
    assert [one.name for one in (tmp_path / "site").iterdir()] == [name]
    assert (tmp_path / "site" / name).read_text("utf-8") == "mine"
    assert served.runs == []


def test_where_pages_is_off_nothing_is_asked(served: GitHub, commands: list[str], tmp_path: Path) -> None:
    ran(served, 3)
    assert site(commands, tmp_path / "site", "--history", "--status", "--pages") == 0
    assert [path for _, path, _ in served.asked] == [f"/repos/{REPOSITORY}/pages"]
    assert [one.name for one in (tmp_path / "site").iterdir()] == [NAME]


def issues(served: GitHub) -> list[tuple[str, str]]:
    return [(issue["state"], issue["title"]) for issue in served.issues.values()]


def test_the_issue_is_opened_by_a_failure_and_closed_by_a_pass(
    served: GitHub, commands: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], now: list[float]
) -> None:
    ran(served, 3, conclusion="failure")
    assert site(commands, tmp_path / "site", "--history", "--issue", "--pages") == 0
    assert "issue: opened; https://github.com/my-org/stack/issues/" in capsys.readouterr().err
    assert issues(served) == [("open", TITLE)]
    assert site(commands, tmp_path / "site", "--history", "--issue") == 0
    assert "issue: still open; " in capsys.readouterr().err
    ran(served, -0.5)
    now[0] += DAY
    assert site(commands, tmp_path / "site", "--history", "--issue") == 0
    assert "issue: closed; " in capsys.readouterr().err
    assert issues(served) == [("closed", TITLE)]


def test_the_issue_stays_as_it_is_where_results_are_not_known(
    served: GitHub, commands: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = ran(served, 3, conclusion="failure")
    served.faults += [Fault(403, path=f"/runs/{broken['id']}/jobs")]
    assert site(commands, tmp_path / "site", "--history", "--issue") == 0
    assert "issue: left as it is, since some results are not known yet\n" in capsys.readouterr().err
    assert served.issues == {}


def test_an_issue_without_the_history_is_refused(
    served: GitHub, commands: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert site(commands, tmp_path / "site", "--issue") == 2
    assert capsys.readouterr().err.startswith("error: --issue: it is about the results over time; give --history")
    assert served.asked == []
