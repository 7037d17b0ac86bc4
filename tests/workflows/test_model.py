"""The types of workflows: what they refuse, and what every node that they make states."""

from __future__ import annotations

import pytest
import yaml

from ci_compiler.workflows.model import READ, CallJob, Job, RunStep, Step, UsesStep, Workflow
from ci_compiler.workflows.pins import pinned
from ci_compiler.workflows.writer import Remarked, dump


def job(*steps: Step) -> Job:
    return Job(name="Job", runs_on="ubuntu-24.04", timeout_minutes=5, permissions=READ, steps=steps)


@pytest.mark.parametrize("script", ["echo ${{ inputs.name }}", "true\necho ${{inputs.name}}"])
def test_an_expression_in_a_script_is_refused(script: str) -> None:
    with pytest.raises(ValueError, match="the script of step 'Greet' contains an expression; pass the value in `env`"):
        RunStep(name="Greet", run=script)


def test_an_expression_in_the_environment_of_a_script_is_accepted() -> None:
    step = RunStep(name="Greet", env={"NAME": "${{ inputs.name }}"}, run='echo "${NAME}"')
    assert step.node() == {"name": "Greet", "env": {"NAME": "${{ inputs.name }}"}, "run": 'echo "${NAME}"'}


@pytest.mark.parametrize("uses", ["actions/checkout@v4", "actions/checkout@main", "actions/checkout"])
def test_an_action_at_anything_but_its_pin_is_refused(uses: str) -> None:
    with pytest.raises(ValueError, match=f"step 'Use' uses `{uses}`, which is not the pin in pins.json"):
        UsesStep(name="Use", uses=uses)


def test_an_action_without_a_pin_is_refused() -> None:
    with pytest.raises(KeyError):
        UsesStep(name="Use", uses=f"actions/nothing@{'0' * 40}")


def test_an_action_is_used_at_its_pin_and_a_local_one_from_its_folder() -> None:
    pin = pinned("actions/checkout")
    assert UsesStep(name="Use", uses=pin).node() == {"name": "Use", "uses": pin}
    assert UsesStep(name="Use", uses="./.github/actions/own").node()["uses"] == "./.github/actions/own"


def test_a_workflow_grants_nothing_and_its_jobs_what_they_state() -> None:
    call = CallJob(name="Call", uses="./.github/workflows/other.yml", permissions={"pages": "write"}, with_={})
    made = Workflow(
        name="w", on={"workflow_dispatch": None}, jobs={"one": job(RunStep(name="Go", run="true")), "two": call}
    )
    document = yaml.safe_load(dump(made.node()))
    assert document["permissions"] == {}
    assert document["jobs"]["one"]["permissions"] == {"contents": "read"}
    assert document["jobs"]["one"]["timeout-minutes"] == 5
    assert document["jobs"]["two"]["permissions"] == {"pages": "write"}
    assert document["jobs"]["two"]["uses"] == "./.github/workflows/other.yml"


def test_a_job_without_permissions_or_a_time_limit_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="'timeout_minutes' and 'permissions'"):
        Job(name="Job", runs_on="ubuntu-24.04", steps=[])  # type: ignore[call-arg]


def test_keys_that_are_not_given_are_not_written() -> None:
    step = RunStep(name="Go", if_="${{ always() }}", continue_on_error=True, run="true")
    assert list(step.node()) == ["name", "if", "continue-on-error", "run"]
    assert list(job(step).node()) == ["name", "runs-on", "timeout-minutes", "permissions", "steps"]


def test_a_remark_on_a_permission_is_written() -> None:
    made = job(RunStep(name="Go", run="true"))
    granted = Job(
        name=made.name,
        runs_on=made.runs_on,
        timeout_minutes=made.timeout_minutes,
        permissions={"pages": Remarked("write", "the deployment")},
        steps=made.steps,
    )
    assert "pages: write # the deployment\n" in dump(granted.node())
