"""`/build COMMIT` on a fork's pull request: who may, for what, and the one comment and status that follow."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ci_compiler.github.request_comments import (
    LONGEST,
    MARKER,
    BuildComment,
    RefusedError,
    State,
    build_comment,
    keep_comment,
    may_build,
    open_request,
    set_status,
)
from ci_compiler.github.status import run_jobs

from .state import Fault, GitHub
from .talk import talk

COMMIT = "0123456789abcdef0123456789abcdef01234567"
ROLES = {"admin": True, "maintain": True, "write": True, "triage": False, "read": False, "none": False}


def payload(body: str, *, action: str = "created", **user: Any) -> dict[str, Any]:
    """The event of a comment on the pull request 7."""
    by = {"login": "a-maintainer", "id": 42, "type": "User"} | user
    return {"action": action, "issue": {"number": 7, "pull_request": {}}, "comment": {"body": body, "user": by}} | {
        "issue": {"number": 7, "pull_request": {"url": "u"}}
    }


def comment(number: int = 7, commit: str = COMMIT, author: str = "a-maintainer", author_id: int = 42) -> BuildComment:
    return BuildComment(number=number, author=author, author_id=author_id, commit=commit)


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "  "])
def test_the_command_with_the_whole_hash_is_understood(end: str) -> None:
    assert build_comment("issue_comment", payload(f"/build {COMMIT}{end}")) == comment()


@pytest.mark.parametrize(
    "body",
    [
        "/build",
        "/build main",
        f"/build {COMMIT[:12]}",
        f"/build {COMMIT.upper()}",
        f"/build  {COMMIT}",
        f"/build {COMMIT} {COMMIT}",
        f"/build {COMMIT}; id",
        f"/build {COMMIT}\n/build {COMMIT}",
        f"/build\n{COMMIT}",
        f"/build {COMMIT}0",
    ],
)
def test_a_command_without_exactly_one_whole_hash_names_no_commit(body: str) -> None:
    assert build_comment("issue_comment", payload(body)) == comment(commit="")


@pytest.mark.parametrize(
    ("event", "given"),
    [
        ("issue_comment", payload(f"please /build {COMMIT}")),
        ("issue_comment", payload(f"> /build {COMMIT}")),
        ("issue_comment", payload(f"/builds {COMMIT}")),
        ("issue_comment", payload("")),
        ("issue_comment", payload(f"/build {COMMIT}", action="edited")),
        ("issue_comment", payload(f"/build {COMMIT}", type="Bot")),
        ("issue_comment", payload(f"/build {COMMIT}") | {"issue": {"number": 7}}),
        ("pull_request", payload(f"/build {COMMIT}")),
    ],
    ids=["within", "quoted", "other-word", "empty", "edited", "bot", "issue", "other-event"],
)
def test_everything_else_is_no_command(event: str, given: dict[str, Any]) -> None:
    assert build_comment(event, given) is None


@pytest.mark.parametrize("role", ROLES)
def test_only_who_may_write_now_may_have_code_built(github: GitHub, role: str) -> None:
    github.roles["a-maintainer"] = (42, role)
    assert may_build(talk(github).client, comment()) is ROLES[role]


def test_the_answer_must_be_about_the_account_that_commented(github: GitHub) -> None:
    github.roles["a-maintainer"] = (43, "admin")  # another account that has the name by now
    assert not may_build(talk(github).client, comment())
    assert not may_build(talk(github).client, comment(author="x/../a-maintainer"))
    assert "x%2F..%2Fa-maintainer" in github.asked[-1][1]


def test_the_present_head_of_a_forks_open_request_is_taken(github: GitHub) -> None:
    number = github.add_request(COMMIT)
    gone = json.loads(json.dumps(github.requests[number]))
    gone["head"]["repo"] = None  # the fork was deleted, which GitHub's description does not know
    for fault in ([], [Fault(200, path=f"/pulls/{number}", body=json.dumps(gone).encode())]):
        github.faults += fault
        found = open_request(talk(github).client, comment(number), ["main"])
        assert (found.number, found.head, found.branch) == (number, COMMIT, "main")


@pytest.mark.parametrize(
    ("made", "commit", "why"),
    [
        ({}, "", "the whole hash of the commit"),
        ({}, COMMIT[::-1], f"the pull request is at {COMMIT} now, not at {COMMIT[::-1]}"),
        ({"state": "closed"}, COMMIT, "is closed"),
        ({"owner": "my-org"}, COMMIT, "is from this repository"),
        ({"owner": "My-Org"}, COMMIT, "is from this repository"),
        ({"base": "another"}, COMMIT, "a branch that the spec does not have"),
    ],
    ids=["no-commit", "raced-push", "closed", "own", "own-in-another-case", "other-branch"],
)
def test_any_other_request_is_refused(github: GitHub, made: dict[str, Any], commit: str, why: str) -> None:
    number = github.add_request(COMMIT, **made)
    with pytest.raises(RefusedError, match=why):
        open_request(talk(github).client, comment(number, commit), ["main"])


def test_one_comment_is_written_and_then_updated(github: GitHub) -> None:
    number, client = github.add_request(COMMIT), talk(github).client
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
    number = github.add_request(COMMIT)
    keep_comment(talk(github).client, number, "x" * 2 * LONGEST)
    (made,) = github.comments[number]
    assert len(made["body"]) == LONGEST
    assert made["body"].endswith("The summary of the run has the rest.\n")


def test_a_status_is_set_on_the_commit(github: GitHub) -> None:
    set_status(talk(github).client, COMMIT, State.FAILURE, "Build", "y" * 200, "https://github.com/o/r/actions/runs/1")
    assert github.statuses == [
        {
            "sha": COMMIT,
            "state": "failure",
            "context": "Build",
            "description": f"{'y' * 139}…",
            "target_url": "https://github.com/o/r/actions/runs/1",
        }
    ]


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
