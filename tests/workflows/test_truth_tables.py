"""Every `if:` and `runs-on:` of the compiled files for all possible inputs, with GitHub's own evaluator.

What must hold is stated here in Python, and not read from the compiler: who may reach a self-hosted machine, what is
published, what a skipped or a failed job does to those after it. The last tests see to it that no condition, and no
machine, of any compiled file is without a statement.
"""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.spec.build import bundled_spec, load_spec
from ci_compiler.spec.model import RunsOn, Spec
from ci_compiler.stages import Stage, stage_of, stages, stages_that_test
from ci_compiler.sync.compiled import compile_files
from tests.checkers import condition_values, expression_values, require
from tests.specs import small, spec_of

EXAMPLES = Path(__file__).parents[1] / "examples/good"
TREES = ("bundled", "everything", "no-gpu-tests", "flox-by-the-clock", "nix-by-the-clock")
RESULTS = ("success", "failure", "cancelled", "skipped")
STATES = ("success", "failure", "cancelled", "skipped")
"""What `status()` of the checkers can be: of all jobs above, the callers' too; "skipped": one of them was."""

OWN, BRANCH = "my-org/build-pytorch", "main"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A compiled tree: what was decided, and each workflow as YAML by its file's name."""

    plan: Plan
    files: Mapping[str, Mapping[str, Any]]

    def jobs(self) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
        """File, id and body of every job."""
        for file, document in self.files.items():
            for name, job in document["jobs"].items():
                yield file, name, job


def specs(name: str) -> Spec:
    """The spec of a tree."""
    if name == "bundled":
        return bundled_spec()
    if name in {"flox-by-the-clock", "nix-by-the-clock"}:
        return spec_of(small(backend=name.partition("-")[0], schedule={"days": ["sun"]}))
    return load_spec(EXAMPLES / name / "ci-matrix.yaml", shown="spec")


@cache
def tree(name: str) -> Tree:
    decided = plan(specs(name))
    texts = {Path(path): text for path, text in compile_files(decided).items()}
    workflows = {path.name: text for path, text in texts.items() if path.parent.name == "workflows"}
    return Tree(plan=decided, files={name: _document(text) for name, text in workflows.items()})


def _document(text: str) -> dict[str, Any]:
    """A workflow; `on` is a word to GitHub, and no truth value of YAML 1.1."""
    loaded = yaml.load(text, yaml.CSafeLoader)
    return {"on" if key is True else key: value for key, value in loaded.items()}


@pytest.fixture(params=TREES)
def compiled(request: pytest.FixtureRequest) -> Tree:
    return tree(request.param)


# Possible inputs.


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event as GitHub's contexts tell of it; `foreign`: of code that is not this repository's."""

    name: str
    foreign: bool = False
    head: Any = None

    def github(self, ref: str = f"refs/heads/{BRANCH}") -> dict[str, Any]:
        """The `github` context."""
        request = {"pull_request": {"head": {"repo": self.head}}} if self.name == "pull_request" else {}
        return {"event_name": self.name, "repository": OWN, "ref": ref, "sha": "0" * 40, "event": request}


EVENTS = (
    Event(name="push"),
    Event(name="workflow_dispatch"),
    Event(name="schedule"),
    Event(name="pull_request", head={"full_name": OWN}),
    Event(name="pull_request", foreign=True, head={"full_name": "a-stranger/build-pytorch"}),
    Event(name="pull_request", foreign=True, head={"full_name": "my-org/build-pytorch-fork"}),
    Event(name="pull_request", foreign=True, head=None),  # the fork was deleted
)

Row = tuple[Mapping[str, Any], bool]
"""Contexts, and whether the job must run."""


def assert_tables(*tables: tuple[str, Iterable[Row]]) -> None:
    """Each condition is true in the rows that say so, and in no other; both kinds are there."""
    cases = [(condition, contexts, must) for condition, rows in tables for contexts, must in rows]
    found = condition_values((condition, contexts) for condition, contexts, _ in cases)
    wrong = [case for case, is_so in zip(cases, found, strict=True) if case[2] is not is_so]
    assert wrong[:3] == [], f"{len(wrong)} of {len(cases)} rows"
    kinds = {condition: {must for text, _, must in cases if text == condition} for condition, _ in tables}
    assert set(map(frozenset, kinds.values())) == {frozenset({True, False})}


def needs(**results: str) -> dict[str, Any]:
    """The `needs` context of jobs that ended so."""
    return {name.replace("_", "-"): {"result": result, "outputs": {}} for name, result in results.items()}


# variant.yml: the only jobs on self-hosted machines.


def compiled_stages(tree_: Tree) -> list[Stage]:
    return [stage for stage in stages() if stage.name in tree_.files["variant.yml"]["jobs"]]


def test_a_build_runs_for_everyone_except_forks(compiled: Tree) -> None:
    condition = compiled.files["variant.yml"]["jobs"]["build"]["if"]
    rows = (
        ({"github": event.github(), "status()": state}, not event.foreign and state != "cancelled")
        for event, state in itertools.product(EVENTS, STATES)
    )
    assert_tables((condition, rows))


def test_a_test_runs_after_a_good_build_if_a_pool_runs_it_and_never_for_a_fork(compiled: Tree) -> None:
    jobs = compiled.files["variant.yml"]["jobs"]
    assert_tables(
        *(
            (jobs[stage.name]["if"], _test_rows(stage))
            for stage in stages_that_test()
            if stage in compiled_stages(compiled)
        )
    )


def _test_rows(stage: Stage) -> Iterator[Row]:
    for event, state, build, where in itertools.product(EVENTS, STATES, RESULTS, ("", '["self-hosted"]')):
        contexts = {
            "github": event.github(),
            "inputs": {f"{stage}-on": where},
            "needs": needs(build=build),
            "status()": state,
        }
        yield contexts, not event.foreign and state != "cancelled" and build == "success" and bool(where)


def test_publishing_requires_all_conditions(compiled: Tree) -> None:
    """A push to, or a dispatch on, the mapped branch; asked for; a good build; the policy's tests, where routed."""
    assert_tables((compiled.files["variant.yml"]["jobs"]["publish"]["if"], _publish_rows(compiled)))


def _publish_rows(compiled: Tree) -> Iterator[Row]:
    after = [
        stage
        for stage in stages_that_test()
        if stage in compiled.plan.spec.publish.after and stage in compiled_stages(compiled)
    ]
    refs = (
        f"refs/heads/{BRANCH}",
        "refs/heads/main-2",
        "refs/heads/feature/main",
        "refs/tags/main",
        "refs/pull/7/merge",
    )
    states = ("success", "cancelled", "skipped")
    ways = itertools.product(EVENTS, refs, (True, False), states, RESULTS)
    ended = list(itertools.product(*(itertools.product(RESULTS, ("", "[]")) for _ in after)))
    for event, ref, asked, state, build in ways:
        mapped = event.name in {"push", "workflow_dispatch"} and ref == f"refs/heads/{BRANCH}"
        for tests in ended:
            results = {stage.name: result for stage, (result, _) in zip(after, tests, strict=True)}
            routes = {f"{stage}-on": where for stage, (_, where) in zip(after, tests, strict=True)}
            contexts = {
                "github": event.github(ref),
                "inputs": {"publish": asked, "branch": BRANCH, **routes},
                "needs": needs(build=build, **results),
                "status()": state,
            }
            passed = all(result == "success" or (result == "skipped" and not where) for result, where in tests)
            yield contexts, mapped and asked and state != "cancelled" and build == "success" and passed


def test_publishing_waits_only_for_the_tests_that_the_policy_names(compiled: Tree) -> None:
    job = compiled.files["variant.yml"]["jobs"]["publish"]
    after = {stage.name for stage in compiled.plan.spec.publish.after if stage in compiled_stages(compiled)}
    assert set(job["needs"]) == {"build", *after}
    assert job["environment"] == compiled.plan.spec.publish.environment


# cell.yml: packages in the order of their needs.


def test_a_chosen_package_runs_unless_one_that_it_needs_failed(compiled: Tree) -> None:
    packages = compiled.plan.spec.packages
    for name, job in compiled.files["cell.yml"]["jobs"].items():
        own = [need for need in packages[name].needs if packages[need].repository is None]
        assert list(job.get("needs", [])) == own
        assert_tables((job["if"], _package_rows(name, own)))


def _package_rows(name: str, own: list[str]) -> Iterator[Row]:
    cell = "python313-cuda12_8-sm90-avx512"
    mine = f"{name}-{cell}"
    others = [f"{mine}bf16", mine[:-3], f"x{mine}", f"another-{cell}", f"{name}-python313-cpu-avx512"]
    states = STATES if own else ("success", "cancelled")  # behind `select` alone, which succeeded
    for chosen, state, *results in itertools.product(
        ([], [mine], others, [*others, mine]), states, *[RESULTS] * len(own)
    ):
        contexts = {
            "inputs": {"cell": cell, "chosen": json.dumps(chosen)},
            "needs": {need: {"result": result} for need, result in zip(own, results, strict=True)},
            "status()": state,
        }
        good = all(result in {"success", "skipped"} for result in results)
        yield contexts, mine in chosen and good and state != "cancelled"


# Shards: one job per cell.


def test_a_cell_runs_where_it_was_selected(compiled: Tree) -> None:
    tables: list[tuple[str, Iterable[Row]]] = []
    for shard in compiled.plan.shards:
        jobs = compiled.files[f"{shard.name}.yml"]["jobs"]
        calls = {job["with"]["cell"]: job for job in jobs.values() if "uses" in job}
        assert sorted(calls) == sorted(cell.suffix for cell, _ in shard.cells)
        assert {job["needs"] for job in calls.values()} == {"select"}
        tables += [(job["if"], _cell_rows(suffix, list(calls))) for suffix, job in calls.items()]
    assert_tables(*tables)


def _cell_rows(suffix: str, cells: list[str]) -> Iterator[Row]:
    others = [cell for cell in cells if cell != suffix]
    for selected in ([], [suffix], others, cells, [f"{suffix}bf16", suffix[:-1]]):
        yield _selected("success", {"cells": json.dumps(selected)}), suffix in selected
    for result in ("failure", "cancelled", "skipped"):
        yield _selected(result, {"cells": json.dumps(cells)}), False
        yield _selected(result, {}), False  # it ended before it said anything


def _selected(result: str, outputs: Mapping[str, str]) -> dict[str, Any]:
    state = {"status()": "cancelled"} if result == "cancelled" else {}
    return {"needs": {"select": {"result": result, "outputs": dict(outputs)}}, **state}


def test_a_run_may_publish_where_it_was_asked_to_or_a_push_does(compiled: Tree) -> None:
    on_push = compiled.plan.spec.publish.on_push
    asked = [job["with"]["publish"] for _, _, job in compiled.jobs() if "cell" in job.get("with", {})]
    expressions = {text for text in asked if isinstance(text, str)}
    assert asked.count(False) == 1  # the pull request's
    given: tuple[dict[str, bool], ...] = ({}, {"publish": False}, {"publish": True})
    rows = list(itertools.product(expressions, EVENTS, given))
    found = expression_values((text, {"github": event.github(), "inputs": inputs}) for text, event, inputs in rows)
    for (_, event, inputs), value in zip(rows, found, strict=True):
        assert value is (inputs.get("publish", False) or (on_push and event.name == "push"))


def test_only_a_dispatch_that_says_so_publishes_again(compiled: Tree) -> None:
    asked = [job["with"]["again"] for _, _, job in compiled.jobs() if "cell" in job.get("with", {})]
    expressions = {text for text in asked if isinstance(text, str)}
    assert asked.count(False) == 1  # the pull request's
    publish = compiled.files["variant.yml"]["jobs"]["publish"]["steps"]
    word = next(step for step in publish if step["name"] == "Publish")["env"]["AGAIN"]
    for given in ({}, {"again": False}, {"again": True}):
        again = given.get("again", False)
        values = list(expression_values((text, {"inputs": given}) for text in expressions))
        assert values == [again] * len(expressions)
        assert list(expression_values([(word, {"inputs": {"again": again}})])) == ["yes" if again else ""]


def test_what_is_selected_from_is_the_push_the_code_of_a_request_or_the_shards_branch(compiled: Tree) -> None:
    cases, wanted = [], []
    for shard in compiled.plan.shards:
        checkout = compiled.files[f"{shard.name}.yml"]["jobs"]["select"]["steps"][0]
        for event, ref in itertools.product(EVENTS[:3], [*compiled.plan.spec.branches, "topic"]):
            github = event.github(f"refs/heads/{ref}") | {"ref_name": ref}
            cases.append((checkout["with"]["ref"], {"github": github}))
            own = event.name == "push" or (event.name == "workflow_dispatch" and ref == "topic")
            wanted.append("0" * 40 if own else shard.branch)
    assert expression_values(cases) == wanted
    assert {"0" * 40, *compiled.plan.spec.branches} == set(wanted)


# sync.yml.


def test_the_spec_is_carried_from_the_default_branch_alone(compiled: Tree) -> None:
    if compiled.plan.spec.sync is None:
        return
    condition = compiled.files["sync.yml"]["jobs"]["sync"]["if"]
    rows = [
        ({"github": EVENTS[1].github(f"refs/{ref}")}, ref == "heads/main")
        for ref in ("heads/main", "tags/main", "heads/x")
    ]
    assert_tables((condition, rows))


# pull-request.yml.


def test_a_pull_request_builds_its_cells_only_for_branches_of_this_repository(compiled: Tree) -> None:
    assert_tables((compiled.files["pull-request.yml"]["jobs"]["cells"]["if"], _request_rows()))


def _request_rows() -> Iterator[Row]:
    for event, matrix, result in itertools.product(EVENTS[3:], ("[]", '[{"cell": "a"}]'), RESULTS):
        contexts = {"github": event.github(), **_selected(result, {"matrix": matrix})}
        yield contexts, not event.foreign and result == "success" and matrix != "[]"


def test_the_table_of_a_forks_request_names_nothing_as_to_be_built(compiled: Tree) -> None:
    (step,) = (
        one for one in compiled.files["pull-request.yml"]["jobs"]["verdict"]["steps"] if "CHOSEN" in one.get("env", {})
    )
    chosen = {"needs": {"select": {"outputs": {"chosen": '["a"]'}}}}
    found = expression_values((step["env"]["CHOSEN"], {"github": event.github(), **chosen}) for event in EVENTS[3:])
    assert found == ["[]" if event.foreign else '["a"]' for event in EVENTS[3:]]


# Verdicts.


def test_a_verdict_runs_whatever_happened(compiled: Tree) -> None:
    verdicts = [job for _, name, job in compiled.jobs() if name == "verdict"]
    assert len(verdicts) == len(compiled.plan.shards) + 1
    conditions = {job["if"] for job in verdicts}
    cases = [
        (text, {"needs": needs(a=result), "status()": state})
        for text in conditions
        for result in RESULTS
        for state in STATES
    ]
    assert set(condition_values(cases)) == {True}


def test_a_verdict_needs_every_other_job_of_its_file(compiled: Tree) -> None:
    for file, name, job in compiled.jobs():
        if name == "verdict":
            assert sorted([*job["needs"], name]) == sorted(compiled.files[file]["jobs"])


def test_a_verdict_is_red_where_a_job_failed_or_was_cancelled_and_green_otherwise(compiled: Tree) -> None:
    steps = [job["steps"][0] for _, name, job in compiled.jobs() if name == "verdict"]
    (script,) = {step["run"] for step in steps}
    (joined,) = {step["env"]["RESULTS"] for step in steps}
    rows = [results for count in (1, 2, 3) for results in itertools.combinations_with_replacement(RESULTS, count)]
    texts = expression_values((joined, {"needs": needs(**dict(zip("abc", row, strict=False)))}) for row in rows)
    for row, text in zip(rows, texts, strict=True):
        done = subprocess.run(
            [require("bash"), "-e", "-c", script], env={"RESULTS": text}, capture_output=True, check=False, timeout=30
        )
        assert (done.returncode == 0) is ({"failure", "cancelled"}.isdisjoint(row)), row


# Machines.


def addressed(where: RunsOn) -> Any:
    """What `runs-on` must come to for a pool: GitHub's three forms."""
    if where.scale_set:
        return where.scale_set
    if where.group:
        return {"group": where.group, **({"labels": list(where.labels)} if where.labels else {})}
    return list(where.labels)


def test_every_stage_runs_on_the_pool_that_it_is_routed_to(compiled: Tree) -> None:
    jobs = compiled.files["variant.yml"]["jobs"]
    cases: list[tuple[str, Mapping[str, object]]] = []
    wanted = []
    for shard in compiled.plan.shards:
        calls = compiled.files[f"{shard.name}.yml"]["jobs"].values()
        passed = {job["with"]["cell"]: job["with"] for job in calls if "uses" in job}
        for cell, route in shard.cells:
            for stage, job in jobs.items():
                where = passed[cell.suffix].get(f"{stage}-on", "")
                assert bool(where) is (stage_of(stage) in route.pools)
                if where:
                    cases.append((job["runs-on"], {"inputs": {f"{stage}-on": where}}))
                    wanted.append(addressed(route.pools[stage_of(stage)].runs_on))
    assert expression_values(cases) == wanted


def test_a_caller_passes_on_its_inputs(compiled: Tree) -> None:
    """Each input of the cell reaches the variant as it is, but for the name; so does each leg of the matrix."""
    inputs = set(compiled.files["variant.yml"]["on"]["workflow_call"]["inputs"])
    for job in compiled.files["cell.yml"]["jobs"].values():
        assert set(job["with"]) == inputs
        assert {key: text for key, text in job["with"].items() if key != "name"} == {
            key: f"${{{{ inputs.{key} }}}}" for key in inputs - {"name"}
        }
    legs = compiled.files["pull-request.yml"]["jobs"]["cells"]["with"]
    machines = {key for key in inputs if key.endswith("-on")}
    assert {legs[key] for key in machines} == {f"${{{{ matrix.{key} }}}}" for key in machines}


def test_only_stages_of_a_variant_can_run_on_a_self_hosted_machine(compiled: Tree) -> None:
    for file, name, job in compiled.jobs():
        if file == "variant.yml":
            assert job["runs-on"] == f"${{{{ fromJSON(inputs.{name}-on) }}}}"
        elif "uses" in job:
            assert job["uses"] == f"./.github/workflows/{'variant' if file == 'cell.yml' else 'cell'}.yml"
        else:
            assert job["runs-on"] == compiled.plan.spec.hosted
    callers = {file for file, _, job in compiled.jobs() if job.get("uses", "").endswith("/cell.yml")}
    assert callers == {"pull-request.yml", *(f"{shard.name}.yml" for shard in compiled.plan.shards)}


# Nothing is left out.


def test_every_condition_of_a_job_has_its_table(compiled: Tree) -> None:
    shards = {f"{shard.name}.yml" for shard in compiled.plan.shards}
    for file, name, job in compiled.jobs():
        has_table = (
            file in {"variant.yml", "cell.yml"}
            or name == "verdict"
            or (file, name) in {("pull-request.yml", "cells"), ("sync.yml", "sync")}
        )
        assert ("if" in job) is (has_table or (file in shards and "uses" in job)), (file, name)


def test_every_condition_of_a_step_has_its_table(compiled: Tree) -> None:
    """Reports are kept of what fails, not of what is cancelled; the table comes behind every verdict."""
    steps = {
        (name if name in {"verdict", "select"} else "stage", step["if"], step.get("continue-on-error", False))
        for _, name, job in compiled.jobs()
        for step in job.get("steps", ())
        if "if" in step
    }
    for job, text, harmless in steps:
        rows = list(itertools.product(EVENTS, STATES))
        found = condition_values((text, {"github": event.github(), "status()": state}) for event, state in rows)
        assert found == [
            {"verdict": True, "stage": state != "cancelled", "select": event.name == "schedule" and state == "success"}[
                job
            ]
            for event, state in rows
        ]
        assert harmless is (job == "verdict")
    by_clock = compiled.plan.spec.schedule is not None and compiled.plan.spec.schedule.build == "unpublished"
    assert ("select" in {job for job, _, _ in steps}) is by_clock
