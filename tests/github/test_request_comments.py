"""The one comment on a pull request, and the jobs of a run."""

from __future__ import annotations

from ci_compiler.github.request_comments import (
    LONGEST,
    MARKER,
    keep_comment,
)
from ci_compiler.github.status import run_jobs

from .state import GitHub
from .talk import talk

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_one_comment_is_written_and_then_updated(github: GitHub) -> None:
    number, client = 7, talk(github).client
    github.comments[number] = []
    github.add_comment(number, f"{MARKER}\nby a stranger")
    github.add_comment(number, "by another workflow", login="github-actions[bot]", kind="Bot")
    for _ in range(100):  # the next page
        github.add_comment(number, "talk")
    first = keep_comment(client, number, "one")
    assert keep_comment(client, number, "two") == first
    bodies = [one["body"] for one in github.comments[number]]
    assert [body for body in bodies if body != "talk"] == [
        f"{MARKER}\nby a stranger",
        "by another workflow",
        f"{MARKER}\ntwo",
    ]


def test_a_comment_is_cut_at_githubs_limit(github: GitHub) -> None:
    number = 7
    github.comments[number] = []
    keep_comment(talk(github).client, number, "x" * 2 * LONGEST)
    (made,) = github.comments[number]
    assert len(made["body"]) == LONGEST
    assert made["body"].endswith("The summary of the run has the rest.\n")


def test_the_jobs_of_a_run_have_the_conclusions_of_their_steps(served: GitHub) -> None:
    path = ".github/workflows/pull-request.yml"
    number = served.add_run(path, [("a", "completed", "failure"), ("b", "queued", None)])["id"]
    for job, end in zip(served.jobs[number], ("failure", None), strict=True):
        steps = [{"name": "Build", "status": "completed", "conclusion": end, "number": 1}]
        job["steps"] = steps
    found = run_jobs(talk(served).client, number)
    assert [(one.name, one.conclusion, one.steps) for one in found] == [
        ("a", "failure", {"Build": "failure"}),
        ("b", "", {"Build": ""}),
    ]
