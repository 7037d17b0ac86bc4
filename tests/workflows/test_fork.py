"""`fork.yml`: every condition and machine of it, what its tokens may do, and what of the comment reaches a script."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci_compiler.plan.fork_selection import of_fork
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.spec.build import load_spec
from ci_compiler.sync.compiled import compile_files
from ci_compiler.workflows.fork import FILE, legs
from tests.checkers import condition_values, expression_values

from .test_truth_tables import RESULTS, STATES, Row, addressed, assert_tables

EXAMPLE = Path(__file__).parents[1] / "examples/good/forks/ci-matrix.yaml"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
HERE = {"github": {"event": {"repository": {"fork": False}}}}
LEG = '[{"title": "a"}]'


@cache
def decided() -> Plan:
    return plan(load_spec(EXAMPLE, shown="spec"))


@cache
def text() -> str:
    return compile_files(decided())[f".github/workflows/{FILE}"]


@pytest.fixture
def document() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(text())
    return loaded


@pytest.fixture
def jobs(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["jobs"]
    return found


def test_only_a_new_comment_starts_it(document: dict[str, Any]) -> None:
    assert document[True] == {"issue_comment": {"types": ["created"]}}
    assert document["permissions"] == {}


def test_only_the_jobs_that_see_no_code_may_write_and_no_job_has_a_secret(jobs: dict[str, Any]) -> None:
    write = {name: {scope for scope, may in job["permissions"].items() if may != "read"} for name, job in jobs.items()}
    reporting = {"pull-requests", "statuses"}
    assert write == {"select": set(), "begin": reporting, "recipes": set(), "build": set(), "report": reporting}
    assert jobs["build"]["permissions"] == jobs["recipes"]["permissions"] == {"contents": "read"}
    assert "secrets." not in text()
    assert not any("environment" in job for job in jobs.values())
    for name in ("begin", "report"):
        used = [step["uses"].split("@")[0] for step in jobs[name]["steps"] if "uses" in step]
        assert used == ["actions/checkout", "./.github/actions/setup-ci-compiler"]
        assert "ref" not in jobs[name]["steps"][0]["with"]  # the default branch's own commit


def test_no_checkout_leaves_a_credential(jobs: dict[str, Any]) -> None:
    found = [step for job in jobs.values() for step in job["steps"] if "checkout@" in step.get("uses", "")]
    assert len(found) == len(jobs)
    assert {step["with"]["persist-credentials"] for step in found} == {False}
    refs = {step["with"].get("ref", "") for step in found}
    assert expression_values((ref, {"needs": {"select": {"outputs": {"commit": "c"}}}}) for ref in refs if ref) == ["c"]


def test_no_text_of_the_comment_reaches_a_job(jobs: dict[str, Any]) -> None:
    """The event is read from its file; only the conditions and the names of groups look at it."""
    assert {*re.findall(r"github\.event\.[a-z_.]+", text())} == {
        "github.event.comment.body",
        "github.event.comment.id",
        "github.event.issue.number",
        "github.event.issue.pull_request",
        "github.event.repository.fork",
    }
    assert [name for name, job in jobs.items() if "comment.body" in json.dumps(job)] == ["select"]
    assert "comment.body" in jobs["select"]["if"]


def test_a_command_on_a_pull_request_starts_the_selection(jobs: dict[str, Any]) -> None:
    def rows() -> Iterator[Row]:
        for body, request in itertools.product(("/build x", "/build", "hello", "", "x /build"), ({"url": "u"}, None)):
            event = {"comment": {"body": body}, "issue": {"pull_request": request}, "repository": {"fork": False}}
            contexts = {"github": {"event": event, "repository": "my-org/stack"}}
            yield contexts, body.startswith("/build") and request is not None

    assert_tables((jobs["select"]["if"], rows()))


def outputs(request: str, matrix: str) -> dict[str, Any]:
    return {"request": request, "matrix": matrix, "commit": "c"}


def test_nothing_is_built_before_the_selection_and_the_checks_succeeded(jobs: dict[str, Any]) -> None:
    assert (jobs["recipes"]["needs"], jobs["build"]["needs"]) == (["select"], ["select", "recipes"])

    def rows(*needs: str) -> Iterator[Row]:
        for results, matrix, paused in itertools.product(
            itertools.product(RESULTS, repeat=len(needs)), ("[]", LEG), ("", "x ALL", "pool:a")
        ):
            ended = {name: {"result": result} for name, result in zip(needs, results, strict=True)}
            ended["select"]["outputs"] = outputs("{}", matrix)
            state = {"status()": "cancelled"} if "cancelled" in results else {}
            stopped = "recipes" in needs and paused == "x ALL"
            contexts = {"needs": ended, "vars": {"CI_PAUSED": paused}, **state}
            yield contexts, set(results) == {"success"} and matrix != "[]" and not stopped

    assert_tables((jobs["recipes"]["if"], rows("select")), (jobs["build"]["if"], rows("select", "recipes")))


def test_an_answer_is_written_to_whoever_may_ask_and_a_result_where_something_was_built(jobs: dict[str, Any]) -> None:
    def begin() -> Iterator[Row]:
        for result, request in itertools.product(RESULTS, ("", "{}")):
            state = {"status()": "cancelled"} if result == "cancelled" else {}
            needs = {"select": {"result": result, "outputs": outputs(request, "[]")}}
            yield {"needs": needs, **state}, result == "success" and request != ""

    def report() -> Iterator[Row]:
        for state, request, matrix in itertools.product(STATES, ("", "{}"), ("[]", LEG)):
            needs = {"select": {"result": "success", "outputs": outputs(request, matrix)}}
            yield {**HERE, "needs": needs, "status()": state}, bool(request) and matrix != "[]"

    assert_tables((jobs["begin"]["if"], begin()), (jobs["report"]["if"], report()))
    assert jobs["report"]["needs"] == ["select", "begin", "recipes", "build"]


def test_every_leg_runs_on_a_pool_for_untrusted_code_and_every_other_job_is_hosted(jobs: dict[str, Any]) -> None:
    made = decided()
    names = [variant.name for cell in made.judged.cells for variant in cell.variants]
    found = legs(of_fork(made, "main", names, "").legs, "main", "p..t", COMMIT)
    assert len(found) == 2
    where = expression_values((jobs["build"]["runs-on"], {"matrix": leg}) for leg in found)
    assert where == [addressed(pool.runs_on) for pool in made.spec.pools if pool.untrusted]
    assert {name for name, job in jobs.items() if job["runs-on"] != made.spec.hosted} == {"build"}


def test_a_machine_builds_without_sharing_and_runs_the_tests_of_its_leg(jobs: dict[str, Any]) -> None:
    commands = [line.strip() for step in jobs["build"]["steps"] for line in step.get("run", "").splitlines()]
    building = [line for line in commands if line.startswith(("ci-runner build", "--out"))]
    assert len(building) == 3
    assert all(line.endswith("--unshared") for line in building)
    assert sum("--again" in line for line in building) == 2  # a record of an earlier test does not count
    conditions = {step["name"]: step["if"] for step in jobs["build"]["steps"] if "if" in step}
    keep = conditions.pop("Keep the logs")
    for name, condition in conditions.items():
        for tests, state in itertools.product(([], ["cpu-test"], ["cpu-test", "gpu-test"]), STATES):
            contexts: Mapping[str, Any] = {"matrix": {"tests": tests}, "status()": state}
            must = name.removeprefix("Run ") in tests and state == "success"
            assert condition_values([(condition, contexts)]) == [must]
    assert set(conditions) == {"Run cpu-test", "Run gpu-test"}
    assert condition_values((keep, {"status()": state}) for state in STATES) == [one != "cancelled" for one in STATES]
    others = [step for name, job in jobs.items() if name != "build" for step in job["steps"] if "if" in step]
    assert others == []


def test_no_results_of_the_machines_are_read_and_no_cache_of_github_is_used(jobs: dict[str, Any]) -> None:
    used = {step["uses"].split("@")[0] for job in jobs.values() for step in job["steps"] if "uses" in step}
    assert used == {
        "actions/checkout",
        "./.github/actions/setup-ci-compiler",
        "cachix/install-nix-action",
        "actions/upload-artifact",
    }
    assert [name for name, job in jobs.items() if "upload-artifact" in json.dumps(job)] == ["build"]


def test_comments_do_not_cancel_each_other(document: dict[str, Any]) -> None:
    assert document["concurrency"] == {
        "group": "fork-comment-${{ github.event.comment.id }}",
        "cancel-in-progress": False,
        "queue": "max",
    }
    with_group = {name for name, job in document["jobs"].items() if "concurrency" in job}
    assert with_group == {"begin", "report"}
    for name in with_group:
        group = document["jobs"][name]["concurrency"]
        assert (group["cancel-in-progress"], group["queue"]) == (False, "max")
