"""What GitHub's list of a run's jobs shows: with recorded jobs in which all holds, and with each made to break."""

from __future__ import annotations

from typing import Any

import pytest

from ci_compiler.canary.assumptions import Verdict, assumptions, complete
from ci_compiler.canary.evidence import of_annotations, of_jobs, of_needs
from tests.canary.recorded import CONTROLLER, at, job, jobs

OTHERS = {
    "machine.kind": "self-hosted",
    "machine.hook": "set",
    "report.attempt": "first",
    "observer.reviewers": "yes",
    "observer.waiting": "1",
    "job.after-pending": "success",
}
"""Facts that the list of jobs does not show."""

SEEN = (
    "pending-replaced",
    "queue-max",
    "approval-holds-group",
    "pending-cancelled",
    "all-labels",
    "job-started-hook",
    "jit-one-job",
)


def verdict(name: str, listed: list[dict[str, Any]]) -> Verdict:
    """The verdict on an assumption that a list of jobs gives."""
    return assumptions()[name].verdict(complete(of_jobs(listed) | OTHERS))


@pytest.mark.parametrize("name", SEEN)
def test_a_run_in_which_all_holds(name: str) -> None:
    assert verdict(name, jobs()) is Verdict.HELD


@pytest.mark.parametrize("name", SEEN)
def test_without_a_list_of_jobs_nothing_is_tried(name: str) -> None:
    assert verdict(name, []) is Verdict.NOT_TRIED


BREAKS = (
    ("pending-replaced", job("pending b", **at(3))),
    ("queue-max", job("queued b", "cancelled", runner_id=0)),
    ("queue-max", job("queued b", **at(1))),
    ("approval-holds-group", job("approved b", "cancelled", runner_id=0)),
    ("approval-holds-group", job("approved b", **at(4))),
    ("all-labels", job("labels", runner_id=7)),
    ("job-started-hook", job("machine", runner_name=CONTROLLER.format(slot=0))),
    ("jit-one-job", job("again", runner_id=41, runner_name=CONTROLLER.format(slot=0))),
)
"""What is made to break: the assumption, and a job in place of the one of that name."""


@pytest.mark.parametrize(("name", "changed"), BREAKS)
def test_a_run_in_which_one_is_made_to_break(name: str, changed: dict[str, Any]) -> None:
    listed = [changed if one["name"] == changed["name"] else one for one in jobs()]
    assert verdict(name, listed) is Verdict.BROKEN


def test_a_runner_that_the_controller_did_not_start_says_nothing_about_it() -> None:
    listed = [one | {"runner_name": "my-machine"} if one["name"] == "machine" else one for one in jobs()]
    assert verdict("jit-one-job", listed) is Verdict.NOT_TRIED


@pytest.mark.parametrize(
    ("outputs", "expected"), [({"result": "success"}, Verdict.HELD), ({"result": ""}, Verdict.BROKEN)]
)
def test_a_called_workflow_must_pass_on_how_its_job_ended(outputs: dict[str, str], expected: Verdict) -> None:
    found = of_needs({"outer": {"result": "success", "outputs": outputs}}, "success") | of_jobs(jobs())
    assert assumptions()["called-result"].verdict(complete(found)) is expected


def test_a_group_that_drops_a_pending_job_must_not_cancel_the_run() -> None:
    one, found = assumptions()["pending-cancelled"], of_jobs(jobs()) | OTHERS
    assert one.verdict(complete(found | {"job.after-pending": "skipped"})) is Verdict.BROKEN
    assert one.verdict(complete(found | {"report.attempt": "later"})) is Verdict.NOT_TRIED


LOST = "The self-hosted runner: rack-1 lost communication with the server. Verify the machine is running."


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ([("failure", LOST)], Verdict.HELD),
        ([("failure", LOST), ("failure", "The operation was canceled."), ("warning", "Node.js 16")], Verdict.HELD),
        ([("failure", "Process completed with exit code 1.")], Verdict.BROKEN),
        ([("notice", LOST)], Verdict.BROKEN),
        ([], Verdict.BROKEN),
        (None, Verdict.BROKEN),
    ],
)
def test_a_job_that_lost_its_runner_must_say_so(listed: list[tuple[str, str]] | None, expected: Verdict) -> None:
    found = {"job.lost": "failure"}
    if listed is not None:
        found |= of_annotations([{"annotation_level": level, "message": text} for level, text in listed])
    assert assumptions()["lost-runner"].verdict(complete(found)) is expected
    assert assumptions()["lost-runner"].verdict(complete({**found, "job.lost": "skipped"})) is Verdict.NOT_TRIED


def test_the_joined_results_must_be_those_of_the_jobs() -> None:
    needs = {"a": {"result": "success"}, "b": {"result": "skipped"}}
    assert of_needs(needs, "success skipped")["report.joined"] == "same"
    assert of_needs(needs, "success")["report.joined"] == "different"
