"""The conditions of the canary's jobs, by GitHub's own evaluator."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import yaml

from ci_compiler.canary.repository import files
from tests.checkers import condition_value

SKIPPED = {"never": {"result": "skipped"}, "start": {"result": "success"}}


@cache
def job(name: str, file: str = "canary") -> dict[str, Any]:
    """A job of a workflow of the canary."""
    found: dict[str, Any] = yaml.safe_load(files(None)[f".github/workflows/{file}.yml"])["jobs"][name]
    return found


def runs(name: str, needs: dict[str, Any], **more: Any) -> bool:
    """Whether a job runs after jobs with the results `needs`."""
    return condition_value(job(name).get("if", ""), {"needs": needs, "github": {"run_id": "7"}, **more})


def test_the_job_that_never_runs_is_skipped() -> None:
    assert not runs("never", {})


@pytest.mark.parametrize("name", ["after-skipped", "outer", "cell"])
def test_after_a_skipped_job_those_with_a_status_function_run(name: str) -> None:
    assert runs(name, SKIPPED)
    assert not runs(name, SKIPPED, **{"status()": "cancelled"})


def test_after_a_skipped_job_one_without_a_status_function_does_not_run() -> None:
    assert "if" not in job("implicit")
    assert not runs("implicit", SKIPPED)
    assert runs("implicit", {"never": {"result": "success"}})


def test_the_called_jobs_run_although_a_job_of_the_caller_was_skipped() -> None:
    for file in ("canary-outer", "canary-inner"):
        given = {"status()": "skipped", "github": {"event": {"repository": {"fork": False}}}}
        assert condition_value(job("inner", file)["if"], given)


@pytest.mark.parametrize("state", ["success", "failure", "cancelled", "skipped"])
@pytest.mark.parametrize("name", ["report", "labels-end"])
def test_the_last_jobs_run_whatever_happened(name: str, state: str) -> None:
    assert runs(name, {}, **{"status()": state})
