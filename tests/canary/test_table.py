"""The table of a run, what is read from it, and what it means for this version."""

from __future__ import annotations

import json
import os
import time
from operator import attrgetter
from pathlib import Path

import pytest

from ci_compiler import __version__
from ci_compiler.canary.assumptions import FEATURES, Assumption, Verdict, assumptions
from ci_compiler.canary.table import features, read_tables, verdicts, written_table
from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from tests.canary.recorded import runs
from tests.loops import each
from tests.output import checked
from tests.rows import for_each_row
from tests.specs import small

every = for_each_row(assumptions().values(), attrgetter("name"))


def _all() -> str:
    """Tables with which every assumption holds."""
    return "".join(map(written_table, runs()))


def read_back(facts: dict[str, str], one: Assumption) -> Verdict:
    """The verdict on `one` of a table with `facts`, as a reader finds it."""
    return verdicts(read_tables(written_table(facts)))[one.name]


@every
def test_each_assumption_is_held_by_its_facts_and_broken_by_any_other(one: Assumption) -> None:
    facts = {**one.tried, **one.expected}
    assert read_back(facts, one) is Verdict.HELD
    for name in one.expected.keys() - one.tried.keys():
        assert read_back(facts | {name: "another"}, one) is Verdict.BROKEN
        assert read_back({key: value for key, value in facts.items() if key != name}, one) is Verdict.BROKEN


@every
def test_each_assumption_without_its_control_is_not_tried(one: Assumption) -> None:
    facts = {**one.tried, **one.expected}
    for name in each(one.tried):
        assert read_back(facts | {name: "another"}, one) is Verdict.NOT_TRIED


def test_the_table_has_words_and_numbers_alone() -> None:
    secret = "ghp_0123456789abcdefghijABCDEFGHIJ0123456789"  # noqa: S105
    facts = {"machine.os-version": secret, "inner.secret": "my-org/my repository", "start.event": "`@team`"}
    text = written_table(facts)
    assert secret not in text
    assert "my-org" not in text
    assert "@team" not in text


def test_of_several_tables_the_worst_counts_and_untried_is_no_answer() -> None:
    one = assumptions()["queue-max"]
    held, broken = ({**one.tried, **one.expected, "queued.success": word} for word in ("3", "2"))
    for facts, verdict in (
        ([{}, held], Verdict.HELD),
        ([held, broken, {}], Verdict.BROKEN),
        ([{}, {}], Verdict.NOT_TRIED),
    ):
        text = "\n".join(map(written_table, facts))
        assert verdicts(read_tables(text))[one.name] is verdict


def test_an_assumption_that_no_code_relies_on_makes_no_feature_unsafe() -> None:
    found = dict.fromkeys(assumptions(), Verdict.HELD)
    assert {str(one) for one in features(found)} == {"safe"}
    assert {str(one) for one in features(found | {"no-deployment": Verdict.BROKEN})} == {"safe"}
    unsafe = {one.name: str(one) for one in features(found | {"queue-max": Verdict.BROKEN})}
    assert unsafe["publishing"] == "not safe: queue-max"
    assert unsafe["builds"] == "safe"


# The command.


def table(tmp_path: Path, facts: dict[str, str], version: str = __version__) -> Path:
    """A file with the table of `facts`, as of `version`, between other words."""
    path = tmp_path / "pasted.md"
    text = written_table(facts).replace(__version__, version)
    path.write_text(f"### Result\n\nIt ran.\n\n{text}\nThat was all.\n", "utf-8")
    return path


def test_the_command_says_what_is_safe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "pasted.md"
    path.write_text(_all(), "utf-8")
    assert run(PROGRAM, ["canary", "--read", str(path)]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == len(FEATURES)
    assert all(row.endswith("  safe") for row in rows)
    assert run(PROGRAM, ["canary", "--read", str(path), "--json"]) == 0
    found = checked("ci-compile canary", capsys.readouterr().out)
    assert {one["result"] for one in found["features"]} == {"safe"}
    assert {*found["assumptions"].values()} <= {"held", "not tried"}


def test_with_a_spec_only_what_its_features_rely_on_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = assumptions()["queue-max"]
    path = table(tmp_path, {**one.tried, **one.expected, "queued.success": "2"})
    spec = tmp_path / "spec.yaml"
    words = ["canary", "--read", str(path), "--spec", str(spec)]
    document = small()
    spec.write_text(json.dumps(document), "utf-8")
    assert run(PROGRAM, words) == 1
    out = capsys.readouterr().out
    assert "broken: queue-max" in out
    assert "not tried: flox-publish" in out
    for branch in document["branches"].values():
        branch["publish"] = False
    spec.write_text(json.dumps(document | {"backend": "nix"}), "utf-8")
    assert run(PROGRAM, words) == 0
    out = capsys.readouterr().out
    assert "broken: queue-max" not in out
    assert "not tried: flox-build" not in out
    assert "not tried: nix-sandbox" in out
    assert run(PROGRAM, [*words, "--json"]) == 0
    rows = checked("ci-compile canary", capsys.readouterr().out)["features"]
    unused = [row["feature"] for row in rows if not row["used"]]
    assert unused == ["publishing", "the backend `flox`", "jobs on macOS", "jobs on Windows"]
    assert [row["result"] for row in rows if row["feature"] == "publishing"] == ["not safe: queue-max"]


def test_the_command_names_what_is_broken_with_its_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = assumptions()["queue-max"]
    path = table(tmp_path, {**one.tried, **one.expected, "queued.success": "2"})
    assert run(PROGRAM, ["canary", "--read", str(path)]) == 1
    out = capsys.readouterr().out
    assert f"broken: queue-max\n  assumed: {one.says}\n  source: {one.source}" in out
    assert "not tried: nested-calls" in out


def test_a_table_of_another_version_is_judged_by_this_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = table(tmp_path, {}, "0.0.9")
    path.write_text(path.read_text("utf-8").replace("`queue-max`", "`queue-of-old`"), "utf-8")
    assert run(PROGRAM, ["canary", "--read", str(path)]) == 0
    said = capsys.readouterr().err
    assert "written by ci-compiler 0.0.9" in said
    assert "does not have these assumptions: queue-of-old" in said


def test_a_table_that_anybody_wrote_reaches_no_terminal_and_takes_no_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = table(tmp_path, {}, "9.9\x1b]0;owned\x07")
    run(PROGRAM, ["canary", "--read", str(path)])
    assert "\x1b" not in "".join(capsys.readouterr())
    head = f"ci-compiler `{__version__}` on a machine that is `self-hosted`"
    for text in ("| `a` | held | " + " " * 1_000_000, "| `a` | held | " + "a" * 1_000_000 + "|", "| " * 500_000):
        start = time.process_time()
        read_tables(f"{head}\n{text}")
        assert time.process_time() - start < 5  # quadratic patterns take hours


@pytest.mark.parametrize(
    ("needs", "jobs"),
    [
        ("[]", None),
        ("{", None),
        ("[" * 100_000, None),
        ('{"a": 7}', None),
        ('{"outer": {"result": "x", "outputs": 7}}', None),
        ("{}", "{}"),
        ("{}", '{"jobs": 7}'),
        ("{}", '{"jobs": [7]}'),
        ("{}", '{"jobs": [{"name": " "}]}'),
        ("{}", '{"jobs": [{"name": "queued", "conclusion": "success", "started_at": "x", "completed_at": 7}]}'),
    ],
)
def test_what_github_did_not_write_is_no_evidence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], needs: str, jobs: str | None
) -> None:
    if jobs is not None:
        (tmp_path / "jobs.json").write_text(jobs, "utf-8")
    assert run(PROGRAM, ["canary", "--judge", str(tmp_path), "--needs", needs]) == 2
    assert "[wrong-value]" in capsys.readouterr().err


def test_facts_are_in_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("", "utf-8")
    for name in ("pipe", "file", "no-such"):
        assert run(PROGRAM, ["canary", "--judge", str(tmp_path / name)]) == 2
        assert f"{name}: is no folder" in capsys.readouterr().err


def test_a_file_without_a_table_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.md").write_text("Nothing.\n", "utf-8")
    assert run(PROGRAM, ["canary", "--read", str(tmp_path / "empty.md")]) == 2
    assert run(PROGRAM, ["canary", "--read", str(tmp_path / "no-such.md")]) == 2
    assert "there is no table of a canary here" in capsys.readouterr().err
