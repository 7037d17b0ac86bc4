"""What runs recorded, read from GitHub: only what is new, within a number of requests, and from trusted runs alone."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ci_compiler.github.artifacts import last_file
from ci_compiler.github.errors import GitHubError
from ci_compiler.github.runs import Reading, read_runs
from ci_compiler.plan.benchmarks import BenchmarkResult
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.records import DAY, NEWEST, Record, Records, Run, kept_of
from ci_compiler.workflows.steps import NOT_BUILT
from tests.histories import compared

from .state import NOW, Fault, GitHub, Json
from .talk import talk

SHARD = ".github/workflows/build-main-sm90.yml"
PAGES = ".github/workflows/pages.yml"
KEY = ("main", "pytorch-python313-cuda12_8-sm90-avx2")


def stamp(days_ago: float, seconds: int = 0) -> str:
    return f"{datetime.fromtimestamp(NOW - days_ago * DAY + seconds, tz=UTC):%Y-%m-%dT%H:%M:%SZ}"


def ran(
    github: GitHub, days_ago: float, *, workflow: str = SHARD, conclusion: str | None = "success", **more: object
) -> Json:
    """A run of the shard whose build of one variant waited 5 s and took 100, and its test 20."""
    made = github.add_run(
        workflow,
        [],
        **{"created_at": stamp(days_ago), "head_branch": "main", "event": "push", "run_attempt": 1} | more,
    )
    status = "completed" if conclusion else "in_progress"
    github.set_jobs(
        made["id"], [(f"3.13 avx2 / pytorch / {stage}", status, conclusion) for stage in ("build", "cpu-test")]
    )
    for job, (start, end) in zip(github.jobs[made["id"]], ((5, 105), (106, 126)), strict=True):
        job["created_at"] = stamp(days_ago, start - 5)
        job["started_at"] = stamp(days_ago, start)
        job["completed_at"] = stamp(days_ago, end) if conclusion else None
    return made


def zipped(content: bytes, name: str = "history.json") -> bytes:
    """An archive with one file."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr(name, content)
    return archive.getvalue()


def read(github: GitHub, stack: Plan, old: Records | None = None, **more: int) -> Reading:
    github.asked.clear()
    found = read_runs(talk(github).client, stack, old or Records(), **more)
    assert found.requests == len(github.asked) - len(github.faults)
    return found


def job_requests(github: GitHub) -> list[str]:
    return [path for _, path, _ in github.asked if "/jobs" in path]


def records(found: Reading) -> Iterable[Record]:
    return found.records.variants[KEY].records


def test_a_record_has_the_times_of_each_stage_without_the_waiting(served: GitHub, stack: Plan) -> None:
    made = ran(served, 2)
    served.jobs[made["id"]][0]["steps"][0] |= {"name": NOT_BUILT, "conclusion": "skipped"}
    [record] = records(read(served, stack))
    assert record.run.number == made["id"]
    assert (record.result, dict(record.ends)) == ("passed", {"build": "success", "cpu-test": "success"})
    assert (dict(record.seconds), record.waited, record.built) == ({"build": 100, "cpu-test": 20}, 10, True)
    assert (record.run.shard, record.run.seconds) == ("build-main-sm90", 126)


def test_a_record_has_the_labels_of_the_machine_of_each_test(served: GitHub, stack: Plan) -> None:
    made = ran(served, 2)
    for job in served.jobs[made["id"]]:
        job["labels"] = ["self-hosted", "linux", "nix-builder"]
    ran(served, 1, conclusion="cancelled")
    cancelled, record = records(read(served, stack))
    assert dict(record.machines) == {"cpu-test": "linux, nix-builder, self-hosted"}
    assert not cancelled.machines


def test_the_job_that_publishes_every_variant_takes_no_time_of_one(served: GitHub, stack: Plan) -> None:
    """Else the forecast, which publishes one variant after the other, would count it once for each of them."""
    made = ran(served, 2)
    (pool,) = {pool.name for shard in stack.shards for pool in shard.publish_pools}
    times = {"created_at": stamp(2, 130), "started_at": stamp(2, 190), "completed_at": stamp(2, 4000)}
    served.jobs[made["id"]].append(served.jobs[made["id"]][0] | times | {"name": f"Publish on {pool}"})
    [record] = records(read(served, stack))
    assert dict(record.ends) == {"build": "success", "cpu-test": "success", "publish": "success"}
    assert (dict(record.seconds), record.waited, record.run.seconds) == ({"build": 100, "cpu-test": 20}, 10, 4000)


def test_a_build_that_the_store_had_is_no_build(served: GitHub, stack: Plan) -> None:
    made = ran(served, 2)
    served.jobs[made["id"]][0]["steps"][0] |= {"name": NOT_BUILT, "conclusion": "success"}
    [record] = records(read(served, stack))
    assert not record.built


def test_only_new_runs_are_read_again(served: GitHub, stack: Plan) -> None:
    for days in (40, 3, 1):
        ran(served, days)
    first = read(served, stack)
    assert first.complete
    assert len(job_requests(served)) == 3
    talked = talk(served)
    talked.clock.at += DAY
    new = ran(served, 0)
    served.asked.clear()
    second = read_runs(talked.client, stack, first.records)
    assert [path.split("/")[-2] for path in job_requests(served)] == [str(new["id"])]
    assert len(served.asked) <= 4
    assert len(list(records(second))) == 4


def test_a_run_that_goes_on_and_one_that_is_run_again_are_read_again_and_count_once(
    served: GitHub, stack: Plan
) -> None:
    going, failed = ran(served, 20, conclusion=None, status="in_progress"), ran(served, 1, conclusion="failure")
    first = read(served, stack)
    assert [one.result for one in records(first)] == ["failed", "running"]
    going["status"] = "completed"
    served.set_jobs(going["id"], [("3.13 avx2 / pytorch / build", "completed", "success")])
    failed["run_attempt"] = 2
    served.set_jobs(failed["id"], [("3.13 avx2 / pytorch / build", "completed", "success")])
    talked = talk(served)
    talked.clock.at += 60
    second = read_runs(talked.client, stack, first.records)
    assert [(one.run.number, one.result, one.run.attempt) for one in records(second)] == [
        (failed["id"], "passed", 2),
        (going["id"], "passed", 1),
    ]


@pytest.mark.parametrize("most", [3, 5, 7])
def test_a_first_reading_stops_at_its_limit_and_the_next_ones_continue(served: GitHub, stack: Plan, most: int) -> None:
    for number in range(12):
        ran(served, 30 + number / 100)
    whole = read(served, stack).records
    found, readings = read(served, stack, most=most), 1
    assert (found.requests, found.complete) == (most, False)
    newest = next(iter(found.records.variants.values()), None)
    assert newest is None or newest.records[0].run.number == served.runs[0]["id"]
    while not found.complete:
        found, readings = read(served, stack, found.records, most=most), readings + 1
        assert found.requests <= most
        assert readings < 60
    assert found.records.variants == whole.variants


@pytest.mark.parametrize("known_until", [0, int(NOW - 60 * DAY)])
def test_a_reading_makes_progress_among_runs_of_which_nothing_is_kept(
    served: GitHub, stack: Plan, known_until: int
) -> None:
    """In the time before what is known, and in that after it."""
    for number in range(12):
        served.jobs[ran(served, 30 + number / 100)["id"]].clear()
    found = read(served, stack, Records(since=known_until, through=known_until), most=4)
    for _ in range(40):
        found = read(served, stack, found.records, most=4)
    assert found.complete


def test_each_page_is_a_request(served: GitHub, stack: Plan) -> None:
    made = ran(served, 1)
    served.set_jobs(made["id"], [(f"other {number}", "completed", "success") for number in range(230)])
    read(served, stack)  # compares the requests that it counts with those that were made
    assert len(job_requests(served)) == 3


def test_of_older_runs_those_are_read_whose_results_are_kept(served: GitHub, stack: Plan) -> None:
    """Beyond the newest results of each variant of the shard, one run for each month."""
    [shard] = [one for one in stack.shards if one.path == SHARD]
    jobs = [
        (f"{shard.job_name(cell)} / {variant.package} / build", "completed", "success")
        for cell, _ in shard.cells
        for variant in cell.variants
    ]
    for days in range(1, 100):
        served.set_jobs(ran(served, days)["id"], jobs)
    found = read(served, stack)
    assert len(job_requests(served)) == NEWEST + 4  # then of September, August, July and June
    assert len(list(records(found))) == NEWEST + 4


def test_a_first_history_keeps_what_one_that_grew_would_keep(served: GitHub, stack: Plan) -> None:
    """Of a month, a result that passed, although a newer one failed, or is among the newest results of all."""
    [shard] = [one for one in stack.shards if one.path == SHARD]
    jobs = [f"{shard.job_name(cell)} / {one.package} / build" for cell, _ in shard.cells for one in cell.variants]
    every = []
    for days in range(1, 100):
        passed = days % 11 == 0
        made = ran(served, days)
        served.set_jobs(made["id"], [(job, "completed", "success" if passed else "failure") for job in jobs])
        run = Run(number=int(made["id"]), shard=shard.name, started=int(NOW - days * DAY))
        every.append(Record(run=run, result="passed" if passed else "failed", ends={}))
    found = list(records(read(served, stack)))
    assert [one.run.number for one in found] == [one.run.number for one in kept_of(every, int(NOW))]
    assert [one.result for one in found[NEWEST:]] == ["failed", "passed", "passed", "passed"]


def test_a_history_from_the_future_is_continued_from_now(served: GitHub, stack: Plan) -> None:
    ran(served, 1)
    later = int(NOW + 400 * DAY)
    found = read(served, stack, Records(since=later, through=later))
    assert (found.records.through, found.complete, len(list(records(found)))) == (NOW, True, 1)


def test_a_reading_within_the_second_of_the_last_one_finds_what_is_new(served: GitHub, stack: Plan) -> None:
    ran(served, 1)
    first = read(served, stack)
    ran(served, 0)
    assert len(list(records(read(served, stack, first.records)))) == 2


def test_a_clock_that_was_ahead_hides_no_runs(served: GitHub, stack: Plan) -> None:
    first = read(served, stack)
    ran(served, 0.5)
    ahead = replace(first.records, through=int(NOW + 3 * DAY))
    assert len(list(records(read(served, stack, ahead)))) == 1


def test_more_runs_than_one_listing_has_are_listed_in_parts(
    served: GitHub, stack: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ci_compiler.github.runs._MOST", 8)
    served.most_listed = 8
    for number in range(20):
        ran(served, 30 + number / 100)
    assert len(list(records(read(served, stack)))) == 20


@pytest.mark.parametrize(
    "more",
    [
        {"event": "pull_request"},  # a fork's copy of the workflow, on a branch of the same name
        {"event": "workflow_dispatch", "head_branch": "pull-request-7"},
        {"workflow": PAGES},
    ],
)
def test_runs_of_other_code_do_not_count(served: GitHub, stack: Plan, more: dict[str, str]) -> None:
    ran(served, 1, **more)
    assert read(served, stack).records.variants == {}
    assert job_requests(served) == []


def test_a_failure_of_github_keeps_what_was_read(served: GitHub, stack: Plan) -> None:
    ran(served, 1)
    broken = ran(served, 50)
    served.faults += [Fault(403, path=f"/runs/{broken['id']}/jobs")]
    found = read_runs(talk(served).client, stack, Records())
    assert (len(list(records(found))), found.complete) == (1, False)
    assert isinstance(found.trouble, GitHubError)


def test_benchmarks_are_asked_for_where_a_run_has_some(served: GitHub, stack: Plan) -> None:
    plain, measured = ran(served, 2), ran(served, 1)
    job = next(job for job in served.jobs[measured["id"]] if job["name"].endswith("/ cpu-test"))
    served.jobs[measured["id"]].append(job | {"name": "3.13 avx2 / pytorch / benchmark"})
    asked: list[int] = []

    def ask(run: int) -> dict[tuple[str, str], BenchmarkResult]:
        asked.append(run)
        return {KEY: result}

    result = compared(KEY[1], KEY[1])

    found = read_runs(talk(served).client, stack, Records(), measured=ask)
    assert asked == [measured["id"]]
    assert {one.run.number: one.benchmark for one in records(found)} == {measured["id"]: result, plain["id"]: None}
    assert found.requests == len(served.asked) + 2
    limited = read_runs(talk(served).client, stack, Records(), most=found.requests - 1, measured=ask)
    assert not limited.complete


# The file of the last time, in an artifact.


def test_the_newest_artifact_of_the_workflow_has_the_file(served: GitHub) -> None:
    client = talk(served).client
    assert last_file(client, "pages.yml", "main", "history.json", 1000) is None
    for days, text in ((3, b"old"), (2, b"new")):
        run = ran(served, days, workflow=PAGES, event="schedule")
        served.add_artifact(run["id"], "history.json", zipped(text))
        served.add_artifact(run["id"], "github-pages-1", zipped(b"?", "artifact.tar"))
    ran(served, 1, workflow=PAGES)
    assert last_file(client, "pages.yml", "main", "history.json", 1000) == b"new"


def test_an_artifact_of_a_pull_request_is_not_read(served: GitHub) -> None:
    for more in ({"event": "pull_request"}, {"event": "pull_request_target"}, {"head_branch": "other"}):
        served.add_artifact(ran(served, 1, workflow=PAGES, **more)["id"], "history.json", zipped(b"poison"))
    served.add_artifact(ran(served, 1, workflow=SHARD)["id"], "history.json", zipped(b"poison"))
    served.add_artifact(ran(served, 1, workflow=PAGES)["id"], "history.json", zipped(b"poison"), expired=True)
    assert last_file(talk(served).client, "pages.yml", "main", "history.json", 1000) is None


def test_runs_of_forks_do_not_hide_the_file(served: GitHub) -> None:
    """Of a fork's branch of the same name."""
    served.add_artifact(ran(served, 5, workflow=PAGES)["id"], "history.json", zipped(b"good"))
    for number in range(12):
        ran(served, 4 - number / 10, workflow=PAGES, event="pull_request")
    assert last_file(talk(served).client, "pages.yml", "main", "history.json", 1000) == b"good"


def test_a_file_that_the_storage_lost_is_trouble(served: GitHub) -> None:
    """A history that starts again would be kept in its place."""
    served.add_artifact(ran(served, 1, workflow=PAGES)["id"], "history.json", zipped(b"good"))
    served.storage.clear()
    with pytest.raises(GitHubError, match=r"download history\.json"):
        last_file(talk(served).client, "pages.yml", "main", "history.json", 1000)
    assert last_file(talk(served).client, "none.yml", "main", "history.json", 1000) is None


def test_a_damaged_archive_is_passed_over(served: GitHub) -> None:
    damaged = bytearray(zipped(b"bad" * 99))
    damaged[44:50] = b"\xff" * 6  # within what is packed
    for days, archive in ((3, b"?"), (2, zipped(b"good")), (1, bytes(damaged))):
        served.add_artifact(ran(served, days, workflow=PAGES)["id"], "history.json", archive)
    assert last_file(talk(served).client, "pages.yml", "main", "history.json", 1000) == b"good"


@pytest.mark.parametrize("archive", [b"", b"PK no archive", b"\0" * 900])
def test_a_damaged_archive_has_no_file(served: GitHub, archive: bytes) -> None:
    served.add_artifact(ran(served, 1, workflow=PAGES)["id"], "history.json", archive)
    assert last_file(talk(served).client, "pages.yml", "main", "history.json", 1000) is None


def test_an_archive_that_unpacks_to_too_much_has_no_file(served: GitHub) -> None:
    run = ran(served, 1, workflow=PAGES)
    served.add_artifact(run["id"], "history.json", zipped(b"0" * 100_000))
    assert last_file(talk(served).client, "pages.yml", "main", "history.json", 1000) is None


def test_a_download_that_is_larger_than_listed_is_refused(served: GitHub) -> None:
    served.add_artifact(ran(served, 1, workflow=PAGES)["id"], "history.json", b"0" * 2000, size_in_bytes=10)
    with pytest.raises(GitHubError, match="a file of more than 1,000 bytes"):
        last_file(talk(served).client, "pages.yml", "main", "history.json", 1000)
