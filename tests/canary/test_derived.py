"""Everything that the compiler can write has a probe in the canary, or a reason why it has none."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
import yaml

from ci_compiler.canary.assumptions import assumptions
from ci_compiler.canary.repository import files
from tests.canary.derived import asked, constructs, of_canary, problems, requests, table, tried, words, written
from tests.canary.probed import unfound
from tests.github.description import description
from tests.rows import for_each_row
from tests.test_examples import of_example

REGISTER = frozenset(assumptions())


def test_everything_that_the_compiler_writes_is_tried_or_it_is_said_why_not() -> None:
    assert [*problems(written(), tried(), table(), REGISTER)] == []


def test_each_construct_without_a_probe_has_a_reason() -> None:
    assert {reason for reason in table()["unprobed"].values() if len(reason.split()) < 4} == set()


@for_each_row(sorted({*table()["probed"].values(), *table()["otherwise"].values()}))
def test_a_probe_that_is_deleted_is_noticed(name: str) -> None:
    assert [*problems(written(), tried(), table(), REGISTER - {name})] != []


JOB: dict[str, object] = {"runs-on": "ubuntu-24.04", "steps": [{"run": "true"}]}


@pytest.mark.parametrize(
    ("document", "construct"),
    [
        ({"on": {"workflow_run": None}}, "on.workflow_run"),
        ({"on": {"push": {"tags-ignore": ["v*"]}}}, "on.push.tags-ignore"),
        ({"on": ["push", "release"]}, "on.release"),
        ({"on": {"workflow_dispatch": {"inputs": {"a": {"type": "number"}}}}}, "on.workflow_dispatch.inputs.number"),
        ({"cache-mode": "none"}, "workflow.cache-mode"),
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


BUILD, PULL, RUNS, EVENTS = (
    ".github/workflows/build-main-cpu.yml",
    ".github/workflows/pull-request.yml",
    ".github/workflows/canary-runs.yml",
    ".github/workflows/canary-events.yml",
)
TEN = (
    (RUNS, 'echo "order=', 'echo "no-order=', "no workflow of the canary finds the facts of queue-order"),
    (RUNS, "      - dropped\n", "", "no workflow of the canary finds the facts of cancelled-rerun"),
    (RUNS, "          overwrite: true\n", "", "the canary does not try actions/upload-artifact: overwrite"),
    (EVENTS, "      timezone: ", "      # timezone: ", "the canary does not try on.schedule.timezone"),
    (EVENTS, 'echo "fork=', 'echo "a-fork=', "no workflow of the canary finds the facts of schedule-fork"),
    (BUILD, "on:\n", "on:\n  release:\n", "on.release has no probe"),
    (PULL, "runs-on: ", "cache-mode: none\n    runs-on: ", "job.cache-mode has no probe"),
    (PULL, "permissions: {}", "permissions: {}\ncache-mode: none", "workflow.cache-mode has no probe"),
    (PULL, "github.base_ref ||", "github.actor ||", "github.actor has no probe"),
    (PULL, "${{ always() }}", "${{ failure() }}", "failure() has no probe"),
)
"""A file of the canary or a compiled one, a change of it or of the scripts, and what the gate says."""


@pytest.mark.parametrize(("file", "old", "new", "says"), TEN, ids=[says for *_, says in TEN])
def test_ten_ways_to_forget_a_probe(file: str, old: str, new: str, says: str) -> None:
    canary = files(None)
    if file in canary:
        changed = {path: text.replace(old, new) for path, text in canary.items()}
        assert changed != canary
        gone = of_canary(canary) - of_canary(changed)
        found = [*problems(written(), tried() - gone, table(), REGISTER), *unfound(changed, assumptions())]
    else:
        text = of_example("everything")[file]
        assert old in text
        document = yaml.safe_load(text.replace(old, new, 1))
        found = [*problems(written() | {*constructs(document)}, tried(), table(), REGISTER)]
    assert found == [says]


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


def test_each_call_of_a_script_is_one_that_github_describes() -> None:
    found = [(path, *call) for path, text in files(None).items() if path.endswith(".sh") for call in requests(text)]
    strange = []
    for path, verb, plain in found:
        below = re.sub("^/contents/.*", "/contents/1", re.sub(r"[$]\w+", "1", plain))
        # The function that asks has a path of its own, and the name of a workflow is none.
        if not re.fullmatch(r"/[$]\w+|/[.]github/.*", plain) and not description().operation(
            verb, f"/repos/o/r{below}"
        ):
            strange.append((path, verb, plain))
    assert strange == []
    assert len(found) > 30
