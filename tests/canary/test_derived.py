"""Everything that the compiler can write has a probe in the canary, or a reason why it has none."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
import yaml

from ci_compiler.canary.assumptions import assumptions
from tests.canary.derived import asked, constructs, problems, table, tried, words, written

REGISTER = frozenset(assumptions())


def test_everything_that_the_compiler_writes_is_tried_or_it_is_said_why_not() -> None:
    assert [*problems(written(), tried(), table(), REGISTER)] == []


def test_each_construct_without_a_probe_has_a_reason() -> None:
    assert {reason for reason in table()["unprobed"].values() if len(reason.split()) < 4} == set()


@pytest.mark.parametrize(
    "name",
    sorted(set(table()["probed"].values()) | set(table()["otherwise"].values())),
)
def test_a_probe_that_is_deleted_is_noticed(name: str) -> None:
    assert [*problems(written(), tried(), table(), REGISTER - {name})] != []


JOB: dict[str, object] = {"runs-on": "ubuntu-24.04", "steps": [{"run": "true"}]}


@pytest.mark.parametrize(
    ("document", "construct"),
    [
        ({"on": {"workflow_run": None}}, "on.workflow_run"),
        ({"on": {"push": {"tags": ["v*"]}}}, "on.push.tags"),
        ({"on": ["push", "release"]}, "on.release"),
        ({"on": {"workflow_dispatch": {"inputs": {"a": {"type": "number"}}}}}, "on.workflow_dispatch.inputs.number"),
        ({"defaults": {}}, "workflow.defaults"),
        ({"jobs": {"a": {**JOB, "snapshot": "x"}}}, "job.snapshot"),
        ({"jobs": {"a": {**JOB, "cache-mode": "none"}}}, "job.cache-mode"),
        ({"jobs": {"a": {**JOB, "strategy": {"max-parallel": 2}}}}, "job.strategy.max-parallel"),
        ({"jobs": {"a": {**JOB, "environment": {"name": "a", "deployment": False}}}}, "job.environment.deployment"),
        ({"jobs": {"a": {**JOB, "permissions": {"contents": "write"}}}}, "permissions.contents: write"),
        ({"jobs": {"a": {**JOB, "steps": [{"run": "true", "shell": "bash"}]}}}, "step.shell"),
        ({"jobs": {"a": {**JOB, "steps": [{"uses": "actions/cache@x"}]}}}, "actions/cache: -"),
        ({"jobs": {"a": {**JOB, "if": "${{ success() }}"}}}, "success()"),
        ({"jobs": {"a": {**JOB, "if": "${{ hashFiles('a') != '' }}"}}}, "hashFiles()"),
        ({"jobs": {"a": {**JOB, "env": {"A": "${{ github.actor }}"}}}}, "github.actor"),
        ({"jobs": {"a": {**JOB, "env": {"A": "${{ needs.b.outputs['x'] || runner.os }}"}}}}, "runner.os"),
    ],
)
def test_a_key_a_trigger_a_context_or_a_function_without_a_probe_is_noticed(
    document: Mapping[str, object], construct: str
) -> None:
    new = {*constructs(yaml.safe_load(yaml.safe_dump(document)))}
    assert f"{construct} has no probe" in [*problems(written() | new, tried(), table(), REGISTER)]


def test_a_call_of_the_api_without_a_probe_is_noticed() -> None:
    writes = written() | {"api delete /actions/runs/{run_id}"}
    assert [*problems(writes, tried(), table(), REGISTER)] == ["api delete /actions/runs/{run_id} has no probe"]


@pytest.mark.parametrize(
    "gone", ["workflow.run-name", "job.concurrency.queue", "vars.*", "on.push.paths", "cancelled()"]
)
def test_a_construct_that_the_canary_no_longer_has_is_noticed(gone: str) -> None:
    assert [*problems(written(), tried() - {gone}, table(), REGISTER)] == [f"the canary does not try {gone}"]


def test_a_construct_that_the_compiler_no_longer_writes_is_noticed() -> None:
    assert [*problems(written() - {"vars.*"}, tried(), table(), REGISTER)] == ["vars.* is never written"]


def test_names_of_the_workflow_itself_are_not_constructs() -> None:
    text = "needs.a-b.outputs.c == 'x.y' && fromJSON(inputs.pools)['build'].d"
    text += " && !contains(vars.A, format('{0}', matrix.b))"
    assert {*words(text)} == {
        "needs.*.outputs.*",
        "fromJSON()",
        "inputs.*",
        "contains()",
        "vars.*",
        "format()",
        "matrix.*",
    }


def test_the_calls_of_scripts_are_those_of_the_api() -> None:
    script = 'runners=$GITHUB_API_URL/repos/$GITHUB_REPOSITORY/actions/runners\nask "$runners/$runner"\n'
    assert [*asked(script)] == ["api get /actions/runners", "api get /actions/runners/{runner_id}"]
    assert [one for one in assumptions().values() if re.search(r"\s{2}", one.says)] == []
