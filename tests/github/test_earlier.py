"""Which runs are believed. Any run may have artifacts of any name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ci_compiler.github.access import access
from ci_compiler.github.client import AT_ONCE, Client
from ci_compiler.github.earlier import RUNS, believed
from ci_compiler.plan.pipeline import Plan

from .state import REPOSITORY, TOKEN, GitHub

SHARD, REQUEST = ".github/workflows/build-main-sm90.yml", ".github/workflows/pull-request.yml"
HEX = "0" * 64
REVIEWED, OTHER = "a" * 40, "b" * 40
FORK = {"head_repository": {"id": 7, "full_name": f"a-stranger/{REPOSITORY.partition('/')[2]}"}}


def add(github: GitHub, trust: str, path: str, **more: Any) -> int:
    """A run with the artifact that is looked for; returns its number."""
    run = github.add_run(path, [], head_sha=REVIEWED)
    run["head_repository"] = {**run["head_repository"], **more.pop("head_repository", {"id": run["repository"]["id"]})}
    run |= more
    github.add_artifact(run["id"], f"{trust}-{HEX}", b"")
    return int(run["id"])


def found(github: GitHub, plan: Plan, *trusts: str) -> int | None:
    environment = {"GITHUB_API_URL": github.url, "GITHUB_TOKEN": TOKEN, "GITHUB_REPOSITORY": REPOSITORY}
    client = Client(access(environment, Path()), say=print, patience=AT_ONCE)
    github.moves = {"refs/heads/main": [REVIEWED]}
    for trust in trusts:
        for run in believed(client, plan, "main", trust, f"{trust}-{HEX}"):
            return int(run["id"])
    return None


@pytest.mark.parametrize("event", ["push", "schedule", "workflow_dispatch"])
def test_a_run_of_the_branch_is_believed(served: GitHub, stack: Plan, event: str) -> None:
    number = add(served, "protected", SHARD, event=event)
    assert found(served, stack, "protected") == number
    assert found(served, stack, "request", "protected") == number


@pytest.mark.parametrize("event", ["pull_request", "merge_group"])
def test_requests_believe_one_another(served: GitHub, stack: Plan, event: str) -> None:
    number = add(served, "request", REQUEST, event=event, head_branch="topic", head_sha=OTHER)
    assert found(served, stack, "request", "protected") == number
    assert found(served, stack, "protected") is None


@pytest.mark.parametrize(
    ("trust", "path", "more"),
    [
        pytest.param("protected", REQUEST, {"event": "pull_request"}, id="a pull request plants it"),
        pytest.param("protected", SHARD, {"event": "pull_request"}, id="a pull request triggers a shard"),
        pytest.param("protected", REQUEST, {"event": "merge_group"}, id="a merge queue plants it"),
        pytest.param("protected", SHARD, {"event": "push", "head_branch": "topic"}, id="a push to another branch"),
        pytest.param("protected", SHARD, {"event": "workflow_dispatch", "head_branch": "topic"}, id="its dispatch"),
        pytest.param("protected", SHARD, {"event": "push", "head_sha": OTHER}, id="a tag with the name of the branch"),
        pytest.param("protected", ".github/workflows/fork.yml", {"event": "issue_comment"}, id="the code of a fork"),
        pytest.param("protected", ".github/workflows/sync.yml", {"event": "push"}, id="another workflow"),
        pytest.param("protected", SHARD, {"event": "push", **FORK}, id="a fork's branch of the same name"),
        pytest.param("request", REQUEST, {"event": "pull_request", **FORK}, id="a fork's pull request"),
        pytest.param("request", SHARD, {"event": "workflow_dispatch", "head_branch": "topic"}, id="a topic's dispatch"),
        pytest.param("request", ".github/workflows/fork.yml", {"event": "issue_comment"}, id="a fork's build"),
    ],
)
def test_what_another_run_plants_is_not_believed(
    served: GitHub, stack: Plan, trust: str, path: str, more: dict[str, Any]
) -> None:
    served.workflows.setdefault(path, served.workflows[SHARD])
    add(served, trust, path, **more)
    assert found(served, stack, "request", "protected") is None
    assert any("/actions/runs/" in target for _, target, _ in served.asked)


def test_many_planted_names_cost_a_bounded_number_of_requests(served: GitHub, stack: Plan) -> None:
    for _ in range(RUNS + 5):
        add(served, "protected", REQUEST, event="pull_request")
    assert found(served, stack, "protected") is None
    assert len(served.asked) <= RUNS + 2


def test_an_expired_artifact_is_none(served: GitHub, stack: Plan) -> None:
    number = add(served, "protected", SHARD, event="push")
    served.artifacts[number][0]["expired"] = True
    assert found(served, stack, "protected") is None
