"""The outputs for a comment on a fork's pull request: what is built, or why nothing is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest

from ci_compiler.errors import InputError
from ci_compiler.git import Git
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.plan.selection import GitHubEvent
from ci_compiler.spec.build import parse_spec
from ci_compiler.sync.fork_requests import outputs_of_fork
from tests.github.conftest import github
from tests.github.state import REPOSITORY, TOKEN, GitHub
from tests.recipes.test_affected import Repository

from .test_fork_code import CPU, GPU, OWN, REBUILT, SPEC, base, forked

__all__ = ["base", "github"]


@cache
def decided() -> Plan:
    return plan(parse_spec(SPEC.encode(), shown=".github/ci-matrix.yaml"))


Outputs = tuple[dict[str, Any], list[dict[str, Any]], str]
Comment = Callable[..., Outputs]


@pytest.fixture
def comment(base: Repository, github: GitHub) -> Comment:
    """The request, the matrix and the remark for a comment on a pull request at `head`."""
    github.roles |= {"a-maintainer": (42, "write"), "a-stranger": (43, "read")}
    environment = {"GITHUB_API_URL": github.url, "GITHUB_TOKEN": TOKEN, "GITHUB_REPOSITORY": REPOSITORY}

    def outputs(head: str, body: str = "", *, login: str = "a-maintainer", paused: str = "") -> Outputs:
        number = github.add_request(head)
        user = {"login": login, "id": github.roles[login][0], "type": "User"}
        issue = {"number": number, "pull_request": {"url": "u"}}
        payload = {"action": "created", "issue": issue, "comment": {"body": body or f"/build {head}", "user": user}}
        event = GitHubEvent("issue_comment", payload)
        given = environment | ({"CI_PAUSED": paused} if paused else {})
        found, remark = outputs_of_fork(Git(base.root), decided(), event, given, said.append)
        assert found.keys() == {"request", "matrix"}
        return json.loads(found["request"] or "{}"), json.loads(found["matrix"]), remark

    said: list[str] = []
    return outputs


def test_a_commit_is_built_and_the_comment_says_what_of_it(base: Repository, comment: Comment) -> None:
    commit = forked(base, {OWN: "{ }: 1\n", f".flox/pkgs/pytorch-{GPU}.nix": "{ }: 1\n"})
    request, matrix, remark = comment(commit)
    assert remark == ""
    assert (request["commit"], request["branch"], request["number"]) == (commit, "main", 1001)
    assert [(leg["title"], leg["branch"], leg["fork"]) for leg in matrix] == [
        (f"main {name}", "main", commit) for name in (CPU, GPU)
    ]
    assert request["cells"][0] == {
        "title": f"main {CPU}",
        "pool": "for-forks",
        "variants": REBUILT,
        "tests": ["cpu-test"],
    }
    assert [leg["chosen"].split() for leg in matrix] == [cell["variants"] for cell in request["cells"]]
    assert matrix[0]["onto"].startswith(f"{base.git('rev-parse', 'main')}..")
    left = "without gpu-test, because no pool for untrusted code runs it after their build"
    assert request["left"] == {left: 2}
    assert 0 < request["end"] <= request["work"]
    assert request["guessed"] == []


def test_a_paused_pool_is_said(base: Repository, comment: Comment) -> None:
    request, matrix, remark = comment(forked(base, {OWN: "{ }: 1\n"}), paused="POOL:for-forks")
    assert (matrix, remark, request["cells"]) == ([], "", [])
    assert request["left"] == {"builds are paused (`ci-compile resume`)": 2}


NOBODY: Mapping[str, Any] = {"action": "created", "issue": {"number": 1}, "comment": {"body": "hello"}}


def test_what_asks_for_no_build_gets_no_answer(base: Repository, comment: Comment) -> None:
    def outputs(event: str, payload: Mapping[str, Any]) -> tuple[dict[str, str], str]:
        return outputs_of_fork(Git(base.root), decided(), GitHubEvent(event, payload), {}, print)

    nothing = ({"request": "", "matrix": "[]"}, "the comment asks for no build")
    assert outputs("push", {}) == outputs("issue_comment", NOBODY) == nothing
    with pytest.raises(InputError, match="unknown-event"):
        outputs("issue_comment", {"action": "created"})
    stranger = comment("f" * 40, login="a-stranger")
    assert stranger == ({}, [], "a-stranger may not write to the repository; nothing is built")


def test_a_refusal_is_answered(comment: Comment) -> None:
    lost = "the commit cannot be fetched without a credential, as from a private repository"
    gone = {"number": 1001, "commit": "f" * 40, "refused": [lost]}
    assert comment("f" * 40) == (gone, [], lost)
    request, matrix, remark = comment("e" * 40, "/build")
    assert (request, matrix) == ({"number": 1002, "commit": "", "refused": [remark]}, [])
    assert remark.startswith("the comment must be `/build`, one space, and the whole hash")


@pytest.mark.parametrize(("count", "more"), [(20, []), (21, ["and 1 more"]), (25, ["and 5 more"])])
def test_each_refused_change_is_named_up_to_twenty(
    base: Repository, comment: Comment, count: int, more: list[str]
) -> None:
    names = [f"docs/{'x' * 140}/{'y' * 150}/{number:02}.md" for number in range(count)]
    commit = forked(base, dict.fromkeys(names, "x\n"))
    request, matrix, remark = comment(commit)
    assert (matrix, remark) == ([], "the commit is refused")
    assert (request["number"], request["commit"]) == (1001, commit)
    why = "has a part or a character in its name that no recipe needs"
    assert request["refused"] == [*(f"{name[:300]}: {why}" for name in names[:20]), *more]
