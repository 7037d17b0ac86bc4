"""Every `if:` and `runs-on:` of the compiled files for all possible inputs, with GitHub's own evaluator.

What must hold is stated here in Python, and not read from the compiler: who may reach a self-hosted machine, what is
published, what a skipped or a failed job does to those after it. The last tests see to it that no condition, and no
machine, of any compiled file is without a statement.
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci_compiler.plan.job_graph import needs_of
from ci_compiler.plan.needs import hands_files
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.plan.sharding import Shard, cell_packages, stages_of
from ci_compiler.spec.build import bundled_spec, load_spec
from ci_compiler.spec.model import Pool, RunsOn, Spec
from ci_compiler.stages import BENCHMARK, PUBLISH, Stage, stage_of, stages_that_test
from ci_compiler.sync.compiled import compile_files
from ci_compiler.workflows.artifacts import artifact_expression, artifact_name
from ci_compiler.workflows.steps import FETCH_NEEDS, NOT_BUILT
from tests.checkers import condition_values, expression_values, require
from tests.loops import each
from tests.processes import MINUTES
from tests.specs import SMALL, STARTED, small, spec_of

EXAMPLES = Path(__file__).parents[1] / "examples/good"
TREES = (
    "bundled",
    "everything",
    "no-gpu-tests",
    "wheel",
    "listed",
    "flox-by-the-clock",
    "nix-by-the-clock",
    "measured",
)
CALLED = ("cell.yml", "variant.yml")
"""The workflows that others call: the jobs of the packages of a cell, and of a listed variant."""

ON_POOLS = ("shard-preflight.yml", "shard-publish.yml")
SHARED = ("shard-select.yml", *ON_POOLS, "shard-verdict.yml")
"""The workflows that all shards call; two of them run on the pools that publish."""

RESULTS = ("success", "failure", "cancelled", "skipped")
STATES = ("success", "failure", "cancelled", "skipped")
"""What `status()` of the checkers can be: of all jobs above, the callers' too; "skipped": one of them was."""

LANDING = "Check out what sync would commit to the branch"
TABLE = "Write the table"
SECOND = "Fetch the manifest of the second build"

OWN, BRANCH = "my-org/build-pytorch", "main"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A compiled tree: what was decided, and each workflow as YAML by its file's name."""

    plan: Plan
    files: Mapping[str, Mapping[str, Any]]

    def publishes(self, shard: Shard) -> bool:
        """Whether the branch of `shard` publishes."""
        return self.plan.spec.branches[shard.branch].publish

    def jobs(self) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
        """File, id and body of every job."""
        for file, document in self.files.items():
            for name, job in document["jobs"].items():
                yield file, name, job


def specs(name: str) -> Spec:
    """The spec of a tree."""
    if name == "bundled":
        return bundled_spec()
    if name == "expecting":
        failure = {"variants": "*", "stage": "cpu-test", "because": "a reason", "until": "2999-12-31"}
        return spec_of(small(**{"expected-failures": [failure]}))
    if name in {"flox-by-the-clock", "nix-by-the-clock"}:
        profiles = {"profiles": STARTED} if name.startswith("nix") else {}
        return spec_of(small(backend=name.partition("-")[0], schedule={"days": ["sun"]}, **profiles))
    if name in {"listed", "measured", "quiet"}:
        quiet = (
            {"publish": {"on-push": False}, "profiles": {"push": {"tests": ["cpu-test"]}}} if name == "quiet" else {}
        )
        packages = SMALL["packages"] | {"wheelhouse": {"variants": {"wheelhouse-linux": {"system": "x86_64-linux"}}}}
        document = small(
            packages=packages, **({"tests": {"benchmark": "required"}} if name != "listed" else {}), **quiet
        )
        document["branches"]["main"]["versions"]["wheelhouse"] = "1.0"
        return spec_of(document)
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
    Event(name="merge_group"),
    Event(name="pull_request", head={"full_name": OWN}),
    Event(name="pull_request", foreign=True, head={"full_name": "a-stranger/build-pytorch"}),
    Event(name="pull_request", foreign=True, head={"full_name": "my-org/build-pytorch-fork"}),
    Event(name="pull_request", foreign=True, head=None),  # the fork was deleted
)

Row = tuple[Mapping[str, Any], bool]
"""Contexts, and whether the job must run."""


def assert_tables(*tables: tuple[str, Iterable[Row]]) -> None:
    """Each condition is true in the rows that say so, and in no other; both kinds are there."""
    cases = [(condition, not_paused(contexts), must) for condition, rows in tables for contexts, must in rows]
    found = condition_values((condition, contexts) for condition, contexts, _ in cases)
    wrong = [case for case, is_so in zip(cases, found, strict=True) if case[2] is not is_so]
    assert wrong[:3] == [], f"{len(wrong)} of {len(cases)} rows"
    kinds: dict[str, set[bool]] = {}
    for condition, _, must in cases:
        kinds.setdefault(condition, set()).add(must)
    assert set(map(frozenset, kinds.values())) == {frozenset({True, False})}


def not_paused(contexts: Mapping[str, Any]) -> Mapping[str, Any]:
    """`contexts` in a repository without the variable of pauses."""
    return {"vars": {}, **contexts, "inputs": {"machines": "{}", **said(), **contexts.get("inputs", {})}}


def said(**keys: str) -> dict[str, str]:
    """The input of a called workflow with what was selected: `keys`, on the branch."""
    return {"selected": json.dumps({"branch": BRANCH, **keys})}


def on(*stages: Stage | str, pool: str = "builder") -> dict[str, str]:
    """The input of a called workflow with the machines of its stages: these on `pool`, and no other."""
    machine = {"pool": pool, "runs-on": ["self-hosted"]}
    return {"machines": json.dumps({str(stage): machine for stage in stages})}


def needs(**results: str) -> dict[str, Any]:
    """The `needs` context of jobs that ended so; `__` in a name is a hyphen."""
    return {name.replace("__", "-"): {"result": result, "outputs": {}} for name, result in results.items()}


# cell.yml and variant.yml: the only jobs on self-hosted machines that run a variant's code.

CELL = "python313-cuda12_8-sm90-avx512"


def compiled_stages(tree_: Tree) -> list[Stage]:
    return list(stages_of(tree_.plan.spec))


def subjects(tree_: Tree) -> Iterator[tuple[Mapping[str, Any], str, list[str]]]:
    """The jobs of each called file, the prefix of the ids of each package in it, and the packages that it needs."""
    if "cell.yml" in tree_.files:
        for package in cell_packages(tree_.plan.spec):
            own = [need for need in needs_of(tree_.plan.spec, package.name) if not _elsewhere(tree_, need)]
            yield tree_.files["cell.yml"]["jobs"], f"{package.name}_", own
    if "variant.yml" in tree_.files:
        yield tree_.files["variant.yml"]["jobs"], "", []


def _elsewhere(tree_: Tree, package: str) -> bool:
    return tree_.plan.spec.packages[package].repository is not None


def inputs_of(prefix: str, *also: str, chosen: bool = True) -> dict[str, Any]:
    """The inputs that say which variants were chosen: the one with `prefix`, if `chosen`, and the packages `also`."""
    names = [f"{package}-{CELL}" for package in ([prefix.rstrip("_")] if chosen else []) + list(also)]
    return {"cell": CELL, **said(chosen=json.dumps(names))} if prefix else {"name": "a-wheel"}


def test_a_chosen_variant_is_built_after_the_builds_that_it_needs_except_for_forks(compiled: Tree) -> None:
    tables = []
    for jobs, prefix, own in each(subjects(compiled)):
        job = jobs[f"{prefix}build"]
        assert list(job.get("needs", [])) == [f"{need}_build" for need in own]
        tables.append((job["if"], _build_rows(prefix, own)))
    assert_tables(*tables)


def _build_rows(prefix: str, own: list[str]) -> Iterator[Row]:
    """A need that the run did not choose is skipped; a need that it chose and that is skipped stopped before."""
    for event, state, chosen in itertools.product(EVENTS, STATES, (True, False) if prefix else (True,)):
        for results in itertools.product(itertools.product(RESULTS, (True, False)), repeat=len(own)):
            ended = dict(zip(own, results, strict=True))
            also = [need for need, (_, is_chosen) in ended.items() if is_chosen]
            contexts = {
                "github": event.github(),
                "inputs": inputs_of(prefix, *also, chosen=chosen),
                "needs": {f"{need}_build": {"result": result} for need, (result, _) in ended.items()},
                "status()": state,
            }
            good = all(result == "success" or not is_chosen for result, is_chosen in results)
            yield contexts, not event.foreign and state != "cancelled" and chosen and good


def test_only_the_whole_name_of_a_variant_chooses_it(compiled: Tree) -> None:
    for jobs, prefix, _ in each(subjects(compiled)):
        if prefix:
            mine = f"{prefix[:-1]}-{CELL}"
            others = [f"{mine}bf16", mine[:-3], f"x{mine}", f"another-{CELL}", f"{prefix[:-1]}-python313-cpu-avx512"]
            contexts = {"github": EVENTS[0].github(), "inputs": {"cell": CELL, **said(chosen=json.dumps(others))}}
            given = {"needs": {need: {"result": "skipped"} for need in jobs[f"{prefix}build"].get("needs", [])}}
            assert condition_values([(jobs[f"{prefix}build"]["if"], not_paused(contexts | given))]) == [False]


def test_a_test_runs_after_a_good_build_if_a_pool_runs_it_and_never_for_a_fork(compiled: Tree) -> None:
    tests = [stage for stage in stages_that_test() if stage in compiled_stages(compiled) and stage is not BENCHMARK]
    assert_tables(
        *(
            (jobs[f"{prefix}{stage}"]["if"], _test_rows(prefix, stage))
            for jobs, prefix, _ in subjects(compiled)
            for stage in tests
        )
    )


def test_a_test_waits_only_for_its_own_build_and_a_benchmark_for_the_tests(compiled: Tree) -> None:
    for jobs, prefix, _ in each(subjects(compiled)):
        for stage in each(stages_that_test()):
            if stage in compiled_stages(compiled):
                tests = ["cpu-test", "gpu-test"] if stage is BENCHMARK else []
                assert jobs[f"{prefix}{stage}"]["needs"] == [f"{prefix}{one}" for one in ("build", *tests)]


def test_a_benchmark_follows_the_tests_of_a_push_or_a_dispatch_and_of_no_pull_request() -> None:
    measured = tree("measured")
    tables = [(jobs[f"{prefix}benchmark"]["if"], _benchmark_rows(prefix)) for jobs, prefix, _ in subjects(measured)]
    assert len(tables) == 4
    assert_tables(*tables)
    request = json.dumps(measured.files["pull-request.yml"])
    assert "benchmark" not in request
    calls = cell_calls(measured.files["build-main-cpu.yml"]).values()
    assert all("benchmark" in json.loads(job["with"]["machines"]) for job in calls)


def _benchmark_rows(prefix: str) -> Iterator[Row]:
    """It runs after tests that passed, or that no pool runs, wherever a pool runs it."""
    tested = [(result, where) for result in RESULTS for where in (False, True)]
    good = {("success", where) for _, where in tested} | {("skipped", False)}
    for event, state, build, cpu, gpu, where in itertools.product(
        EVENTS, ("success", "failure", "cancelled"), ("success", "failure"), tested, tested, (False, True)
    ):
        stages = {"benchmark": where, "cpu-test": cpu[1], "gpu-test": gpu[1]}
        contexts = {
            "github": event.github(),
            "inputs": on(*(stage for stage, is_run in stages.items() if is_run)),
            "needs": {
                f"{prefix}build": {"result": build},
                f"{prefix}cpu-test": {"result": cpu[0]},
                f"{prefix}gpu-test": {"result": gpu[0]},
            },
            "status()": state,
        }
        ready = state != "cancelled" and build == "success" and bool(where) and {cpu, gpu} <= good
        yield contexts, ready and event.name in {"push", "workflow_dispatch"}


def test_a_benchmark_takes_its_neighbour_where_the_caller_names_one() -> None:
    for jobs, prefix, _ in each(subjects(tree("measured"))):
        steps = {step["name"]: step for step in jobs[f"{prefix}benchmark"]["steps"]}
        package = prefix.replace("_", "-")
        for step in (steps["Fetch the closure"], steps["Test"]):
            beside = step["env"]["BESIDE"]
            given = [{"inputs": {"benchmark-beside": CELL}}, {"inputs": {"benchmark-beside": ""}}, {"inputs": {}}]
            assert expression_values((beside, contexts) for contexts in given)[:2] == [f"{package}{CELL}", ""]
        fetch = steps[SECOND]
        name, branch = "${{ inputs.benchmark-beside }}", "${{ fromJSON(inputs.selected).branch }}"
        assert fetch["with"]["pattern"] == f"build-{package}{name}@{branch}"
        rows = [({"inputs": {"benchmark-beside": given}, "status()": "success"}, bool(given)) for given in ("", CELL)]
        assert_tables((fetch["if"], rows))


def test_a_test_that_the_profile_of_the_run_leaves_out_does_not_run_and_stops_nothing() -> None:
    measured = tree("quiet")
    tables: list[tuple[str, Iterable[Row]]] = []
    for jobs, prefix, _ in subjects(measured):
        tables += [(jobs[f"{prefix}{stage}"]["if"], _profile_rows(prefix, stage)) for stage in ("cpu-test", "gpu-test")]
        tables.append((jobs[f"{prefix}benchmark"]["if"], _after_left_out(prefix)))
    assert_tables(*tables)
    outputs = measured.files["shard-select.yml"]["on"]["workflow_call"]["outputs"]
    assert outputs["left-out"]["value"] == "${{ jobs.select.outputs.left-out }}"
    assert "left-out" not in json.dumps(tree("measured").files)


def _profile_rows(prefix: str, stage: str) -> Iterator[Row]:
    """A request's selection says nothing of what its run leaves out."""
    for left in (None, "", "cpu-test", "gpu-test", "benchmark", "cpu-test gpu-test"):
        selected = said() if left is None else said(**{"left-out": left})
        contexts = {"github": EVENTS[1].github(), "inputs": on(stage) | selected}
        contexts["needs"] = {f"{prefix}build": {"result": "success"}}
        yield contexts | {"status()": "success"}, stage not in (left or "").split()


def _after_left_out(prefix: str) -> Iterator[Row]:
    for result, left in itertools.product(RESULTS, ("", "gpu-test", "cpu-test", "benchmark")):
        results = {"build": "success", "cpu-test": "success", "gpu-test": result}
        contexts = {
            "github": EVENTS[1].github(),
            "inputs": on("benchmark", "cpu-test", "gpu-test") | said(**{"left-out": left}),
            "needs": {f"{prefix}{job}": {"result": ended} for job, ended in results.items()},
            "status()": "success",
        }
        passed = result == "success" or (result, left) == ("skipped", "gpu-test")
        yield contexts, passed and left != "benchmark"


def _test_rows(prefix: str, stage: Stage) -> Iterator[Row]:
    for event, state, build, where in itertools.product(EVENTS, STATES, RESULTS, (False, True)):
        contexts = {
            "github": event.github(),
            "inputs": on(stage if where else "another"),
            "needs": {f"{prefix}build": {"result": build}},
            "status()": state,
        }
        yield contexts, not event.foreign and state != "cancelled" and build == "success" and where


# Shards: one job per cell.


def test_a_cell_runs_where_it_was_selected(compiled: Tree) -> None:
    tables: list[tuple[str, Iterable[Row]]] = []
    for shard in each(compiled.plan.shards):
        calls = cell_calls(compiled.files[f"{shard.name}.yml"])
        assert sorted(calls) == sorted(cell.suffix for cell, _ in shard.cells)
        for cell, route in each(shard.cells):
            gate = [f"preflight-{route.pools[PUBLISH].name}"] if compiled.publishes(shard) else []
            assert calls[cell.suffix]["needs"] == ["select", *gate]
            tables.append((calls[cell.suffix]["if"], _cell_rows(cell.suffix, list(calls), gate)))
    assert_tables(*tables)


def cell_calls(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The jobs of a shard that call the workflow of a cell, or of a listed variant, by its name."""
    calls = [job for job in document["jobs"].values() if Path(job["uses"]).name in CALLED]
    return {job["with"].get("cell") or job["with"]["name"]: job for job in calls}


def _cell_rows(suffix: str, cells: list[str], gate: list[str]) -> Iterator[Row]:
    """A run that does not publish skips its preflights; one that fails stops the cells."""
    others = [cell for cell in cells if cell != suffix]
    for selected in ([], [suffix], others, cells, [f"{suffix}bf16", suffix[:-1]]):
        for checked in RESULTS if gate else ("",):
            ready = checked in {"success", "skipped", ""}
            checks = dict.fromkeys(gate, checked)
            yield _selected("success", {"cells": json.dumps(selected)}, **checks), ready and suffix in selected
    for result in ("failure", "cancelled", "skipped"):
        checks = dict.fromkeys(gate, "skipped")
        yield _selected(result, {"cells": json.dumps(cells)}, **checks), False
        yield _selected(result, {}, **checks), False  # it ended before it said anything


def _selected(result: str, outputs: Mapping[str, str], **others: str) -> dict[str, Any]:
    state = {"status()": "cancelled"} if result == "cancelled" else {}
    ended = {name: {"result": how} for name, how in others.items()}
    return {"needs": {"select": {"result": result, "outputs": dict(outputs)}, **ended}, **state}


def test_a_run_that_will_publish_begins_with_a_preflight(compiled: Tree) -> None:
    """Only a push to, or a dispatch on, the shard's branch that chose something; it has the secret's environment."""
    publish = compiled.plan.spec.publish
    tables: list[tuple[str, Iterable[Row]]] = []
    for shard in each(compiled.plan.shards):
        jobs = compiled.files[f"{shard.name}.yml"]["jobs"]
        found = {name: job for name, job in jobs.items() if name.startswith("preflight-")}
        pools = shard.publish_pools if compiled.publishes(shard) else ()
        assert list(found) == [f"preflight-{pool.name}" for pool in pools]
        for pool, job in zip(pools, found.values(), strict=True):
            assert_on_pool(job, pool, secret=not publish.reviewers)
            tables.append((job["if"], _preflight_rows(shard.branch, on_push=publish.on_push)))
    assert_tables(*tables)


def assert_on_pool(job: Mapping[str, Any], pool: Pool, *, secret: bool = True) -> None:
    """A job of a shard on a pool that publishes passes the pool, and the name of the secret if it may have it."""
    assert json.loads(job["with"]["machine"]) == {"pool": pool.name, "runs-on": addressed(pool.runs_on)}
    assert all(value == f"${{{{ secrets.{name} }}}}" for name, value in job.get("secrets", {}).items())
    assert ("secrets" in job) is secret


def test_what_may_have_the_secret_is_in_its_environment(compiled: Tree) -> None:
    publish = compiled.plan.spec.publish
    jobs = [compiled.files[file]["jobs"] for file in ON_POOLS if file in compiled.files]
    environments = {name: job.get("environment") for one in jobs for name, job in one.items()}
    publishes = any(compiled.publishes(shard) for shard in compiled.plan.shards)
    preflight = None if publish.reviewers else publish.environment
    assert environments == ({"preflight": preflight, "publish": publish.environment} if publishes else {})


def test_publishing_is_of_a_push_or_a_dispatch_on_a_branch_that_publishes_and_that_nobody_cancelled(
    compiled: Tree,
) -> None:
    """Whoever calls the file, and whatever branch it names."""
    branches = compiled.plan.spec.branches
    publish, preflight = [], []
    refs = [f"refs/heads/{name}" for name in (*branches, "topic")] + [f"refs/tags/{BRANCH}", "refs/pull/7/merge"]
    for event, ref, state in itertools.product(EVENTS, refs, STATES):
        name = ref.removeprefix("refs/heads/")
        is_right = name in branches and branches[name].publish
        contexts = {"github": event.github(ref), "inputs": on_pool("builder"), "status()": state}
        preflight.append((contexts, is_right and state == "success"))
        may = event.name in {"push", "workflow_dispatch"} and state != "cancelled"
        publish.append((contexts, is_right and may))
    if "shard-publish.yml" in compiled.files:
        assert_tables(
            (compiled.files["shard-publish.yml"]["jobs"]["publish"]["if"], publish),
            (compiled.files["shard-preflight.yml"]["jobs"]["preflight"]["if"], preflight),
        )


def on_pool(pool: str, **keys: str) -> dict[str, str]:
    """The inputs of a job on a pool that publishes, for what was selected."""
    return {"machine": json.dumps({"pool": pool, "runs-on": ["self-hosted"]}), **said(**keys)}


def _preflight_rows(branch: str, *, on_push: bool) -> Iterator[Row]:
    refs = (f"refs/heads/{branch}", f"refs/heads/{branch}-2", f"refs/tags/{branch}")
    ways = itertools.product(EVENTS[:3], refs, ({}, {"publish": False}, {"publish": True}), ("[]", '["a"]'), RESULTS)
    for event, ref, inputs, chosen, result in ways:
        asked = inputs.get("publish", False) or (on_push and event.name == "push")
        must = asked and ref == refs[0] and chosen != "[]" and result == "success"
        yield {"github": event.github(ref), "inputs": inputs, **_selected(result, {"chosen": chosen})}, must


def test_one_job_per_pool_publishes_after_all_of_its_cells(compiled: Tree) -> None:
    """A push to, or a dispatch on, the shard's branch that asks for it, after a preflight and any cell that ran.

    A cell that failed may still have variants that passed; whether they did is decided from the results of the run.
    """
    publish = compiled.plan.spec.publish
    tables: list[tuple[str, Iterable[Row]]] = []
    for shard in each(compiled.plan.shards):
        jobs = compiled.files[f"{shard.name}.yml"]["jobs"]
        found = {name: job for name, job in jobs.items() if name.startswith("publish-")}
        pools = shard.publish_pools if compiled.publishes(shard) else ()
        assert list(found) == [f"publish-{pool.name}" for pool in pools]
        for pool, job in zip(pools, found.values(), strict=True):
            cells = [shard.job_id(cell) for cell, route in shard.cells if route.pools[PUBLISH] == pool]
            assert job["needs"] == ["select", f"preflight-{pool.name}", *cells]
            assert_on_pool(job, pool)
            assert job["with"]["needs"] == "${{ toJSON(needs) }}"
            rows = _publish_rows(shard.branch, f"preflight-{pool.name}", cells, on_push=publish.on_push)
            tables.append((job["if"], rows))
    assert_tables(*tables)


def _publish_rows(branch: str, preflight: str, cells: list[str], *, on_push: bool) -> Iterator[Row]:
    refs = (f"refs/heads/{branch}", f"refs/heads/{branch}-2", f"refs/tags/{branch}", "refs/pull/7/merge")
    every = dict.fromkeys(cells, "skipped")
    ends = [every, *({**every, cells[-1]: result} for result in RESULTS), dict.fromkeys(cells, "success")]
    for event, ref, inputs in itertools.product(EVENTS[:3], refs, ({}, {"publish": False}, {"publish": True})):
        asked = inputs.get("publish", False) or (on_push and event.name == "push")
        may = asked and ref == refs[0]
        ways = itertools.product(STATES, RESULTS, ends) if may else [("success", "success", ends[-1])]
        for state, ready, ended in ways:
            must = may and state != "cancelled" and ready == "success"
            contexts = {
                "github": event.github(ref),
                "inputs": inputs,
                **_selected("success", {"chosen": '["a"]'}, **ended),
                "status()": state,
            }
            contexts["needs"][preflight] = {"result": ready, "outputs": {"result": "success"}}
            yield contexts, must and set(ended.values()) != {"skipped"}
            if state == "success":  # its own output counts as well
                contexts = contexts | {"needs": dict(contexts["needs"])}
                contexts["needs"][preflight] = {"result": "success", "outputs": {"result": ready}}
                yield contexts, must and set(ended.values()) != {"skipped"}


def test_only_a_dispatch_that_says_so_publishes_again(compiled: Tree) -> None:
    words = {
        step["env"]["AGAIN"]
        for _, _, job in compiled.jobs()
        for step in job.get("steps", ())
        if "AGAIN" in step.get("env", {})
    }
    for again, wanted in ((None, ""), (False, ""), (True, "yes")):
        given = {} if again is None else {"again": again}
        event = {"inputs": {key: str(value).lower() for key, value in given.items()}}
        contexts = {"inputs": given, "github": {"event": event}}
        assert set(expression_values((word, contexts) for word in words)) == {wanted}


def test_what_is_selected_from_is_the_push_the_code_of_a_request_or_the_shards_branch(compiled: Tree) -> None:
    cases, wanted = [], []
    checkout = compiled.files["shard-select.yml"]["jobs"]["select"]["steps"][0]
    for shard in compiled.plan.shards:
        passed = compiled.files[f"{shard.name}.yml"]["jobs"]["select"]["with"]
        assert passed == {"shard": shard.name, "branch": shard.branch}
        for event, ref in itertools.product(EVENTS[:3], [*compiled.plan.spec.branches, "topic"]):
            github = event.github(f"refs/heads/{ref}") | {"ref_name": ref}
            cases.append((checkout["with"]["ref"], {"github": github, "inputs": passed}))
            own = event.name == "push" or (event.name == "workflow_dispatch" and ref == "topic")
            wanted.append("0" * 40 if own else shard.branch)
    assert expression_values(cases) == wanted
    assert {"0" * 40, *compiled.plan.spec.branches} == set(wanted)


# sync.yml and update.yml.


@pytest.mark.parametrize("name", ["sync", "update"])
def test_the_spec_is_carried_and_updated_from_the_default_branch_alone(compiled: Tree, name: str) -> None:
    if f"{name}.yml" not in compiled.files:
        return
    condition = compiled.files[f"{name}.yml"]["jobs"][name]["if"]
    rows = [
        ({"github": EVENTS[1].github(f"refs/{ref}")}, ref == "heads/main")
        for ref in ("heads/main", "tags/main", "heads/x")
    ]
    assert_tables((condition, rows))


# Pauses.

PAUSES = (
    ("", False),
    ("all", True),
    ("all builder", True),
    ("nightly ALL", True),
    ("small", False),
    ("branch:{branch}", True),
    ("branch:{branch}-2", False),
    ("branch:another pool:{pool}", True),
    ("pool:{pool}x", False),
    ("pool:x{pool}", False),
    ("pool:{pool}@{branch}", True),
    ("pool:{pool}@another", False),
    ("pool:another@{branch}", False),
    ("{pool}", False),
    ("{branch}", False),
)
"""Values of the variable, and whether they stop a job of a branch on a pool."""


def test_every_job_on_a_self_hosted_machine_asks_whether_it_is_paused(compiled: Tree) -> None:
    """All else is as the job needs it to run."""
    tables: list[tuple[str, Iterable[Row]]] = []
    for file, name, job in each(compiled.jobs()):
        if file in CALLED:
            (machine,) = re.findall(r"'([\w-]+)'", job["runs-on"])
            ready = _ready(compiled, file, name, machine)
            tables.append((job["if"], _pause_rows(ready, BRANCH, "the-pool")))
        elif file in ON_POOLS:
            ready = {"github": EVENTS[0].github(), "inputs": on_pool("the-pool"), "status()": "success"}
            tables.append((job["if"], _pause_rows(ready, BRANCH, "the-pool")))
        elif "uses" not in job:
            assert is_hosted(compiled, job)
    assert_tables(*tables)


def is_hosted(tree_: Tree, job: Mapping[str, Any]) -> bool:
    """Whether all machines of a job are hosted by GitHub: the spec's one, or those that a matrix lists."""
    matrix = job.get("strategy", {}).get("matrix", {}).get("include", [])
    listed = {leg["machine"] for leg in matrix} if job["runs-on"] == "${{ matrix.machine }}" else set()
    return job["runs-on"] == tree_.plan.spec.hosted or (bool(listed) and listed <= {"ubuntu-24.04", "ubuntu-24.04-arm"})


def _pause_rows(contexts: Mapping[str, Any], branch: str, pool: str) -> Iterator[Row]:
    yield {**contexts, "vars": {}}, True
    for value, paused in PAUSES:
        yield {**contexts, "vars": {"CI_PAUSED": value.format(branch=branch, pool=pool)}}, not paused


def _ready(tree_: Tree, file: str, name: str, machine: str) -> dict[str, Any]:
    """Contexts with which the job `name` of a called workflow runs, whose `machine` is of another pool than others'."""
    jobs = tree_.files[file]["jobs"]
    packages = [package.name for package in cell_packages(tree_.plan.spec)]
    asked = tree_.files[file]["on"]["workflow_call"]["inputs"]
    suites = {key: '[{"suite": "a", "shard": "1/1"}]' for key in asked if "-suites" in key}
    machines = {str(stage): {"pool": "another", "runs-on": ["self-hosted"]} for stage in compiled_stages(tree_)}
    inputs = inputs_of("", chosen=False) | {
        "cell": CELL,
        **said(chosen=json.dumps([f"{package}-{CELL}" for package in packages])),
        "machines": json.dumps(machines | {machine: {"pool": "the-pool", "runs-on": ["self-hosted"]}}),
        **suites,
    }
    ended = {need: {"result": "success"} for need in jobs[name].get("needs", [])}
    return {"github": EVENTS[0].github(), "inputs": inputs, "needs": ended, "status()": "success"}


def test_every_job_knows_its_pool(compiled: Tree) -> None:
    """The name of the pool that the spec gives to the stage, for the cells of shards."""
    for shard in each(compiled.plan.shards):
        calls = cell_calls(compiled.files[f"{shard.name}.yml"])
        for cell, route in each(shard.cells):
            machines = json.loads(calls[cell.suffix]["with"]["machines"])
            named = {key: one["pool"] for key, one in machines.items() if key in map(str, route.pools)}
            assert named == {stage.name: pool.name for stage, pool in route.pools.items() if stage is not PUBLISH}


# pull-request.yml.


def test_a_pull_request_builds_its_cells_after_its_checks_and_only_for_branches_of_this_repository(
    compiled: Tree,
) -> None:
    jobs = compiled.files["pull-request.yml"]["jobs"]
    checks = [name for name in ("compiled", "recipes") if name in jobs]
    tables = []
    for name, output in (("cells", "matrix"), ("listed", "listed")):
        if name in jobs:
            assert jobs[name]["needs"] == ["select", *checks]
            tables.append((jobs[name]["if"], _request_rows(output, checks)))
    assert_tables(*tables)


def _request_rows(output: str, checks: list[str]) -> Iterator[Row]:
    for event, matrix, result, *ended in itertools.product(
        EVENTS[3:], ("[]", '[{"cell": "a"}]'), *[RESULTS] * (1 + len(checks))
    ):
        contexts = {
            "github": event.github(),
            **_selected(result, {output: matrix}, **dict(zip(checks, ended, strict=True))),
        }
        state = {"status()": "cancelled"} if "cancelled" in ended else {}
        good = {result, *ended} == {"success"}
        yield {**contexts, **state}, not event.foreign and good and matrix != "[]"


def test_the_verdict_on_a_request_is_about_all_that_it_would_build_though_a_fork_builds_nothing(compiled: Tree) -> None:
    (step,) = (
        one for one in compiled.files["pull-request.yml"]["jobs"]["verdict"]["steps"] if "CHOSEN" in one.get("env", {})
    )
    chosen = {"needs": {"select": {"outputs": {"chosen": '["a"]'}}}}
    found = expression_values((step["env"]["CHOSEN"], {"github": event.github(), **chosen}) for event in EVENTS[3:])
    assert set(found) == {'["a"]'}


def test_the_comment_of_a_pull_request_of_this_repository_follows_its_verdict(compiled: Tree) -> None:
    jobs = compiled.files["pull-request.yml"]["jobs"]
    assert ("comment" in jobs) is compiled.plan.spec.pull_request.comment
    if "comment" not in jobs:
        return
    comment = jobs["comment"]
    assert comment["needs"] == [name for name in jobs if name != "comment"]
    assert comment["permissions"] == {"contents": "read", "pull-requests": "write"}
    rows = [
        ({"github": event.github(), "status()": state}, event.name == "pull_request" and not event.foreign)
        for event in EVENTS[3:]
        for state in STATES
    ]
    assert_tables((comment["if"], rows))
    writing = {name for name, job in jobs.items() if "write" in job.get("permissions", {}).values()}
    assert writing - {"cells", "listed"} == {"comment"}


# Verdicts.


def test_a_verdict_runs_whatever_happened(compiled: Tree) -> None:
    verdicts = [job for _, name, job in compiled.jobs() if name == "verdict"]
    assert len(verdicts) == len(compiled.plan.shards) + 2
    conditions = {job["if"] for job in verdicts}
    cases = [
        (text, {"github": EVENTS[0].github(), "needs": needs(a=result), "status()": state})
        for text in conditions
        for result in RESULTS
        for state in STATES
    ]
    assert set(condition_values(cases)) == {True}


def test_a_verdict_needs_every_other_job_of_its_file(compiled: Tree) -> None:
    for file, name, job in each(compiled.jobs()):
        if name == "verdict" and file not in SHARED:
            others = compiled.files[file]["jobs"].keys() - {"comment"}  # which follows it
            assert {*job["needs"], name} == others


def test_a_verdict_is_red_where_a_job_failed_or_was_cancelled_and_green_otherwise(compiled: Tree) -> None:
    steps = verdict_steps(compiled)
    (script,) = {step["run"] for step in steps}
    passed = {job["with"]["results"] for _, _, job in compiled.jobs() if job.get("with", {}).get("results")}
    (joined,) = {step["env"]["RESULTS"] for step in steps} - {"${{ inputs.results }}"} | passed
    rows = [results for count in (1, 2, 3) for results in itertools.combinations_with_replacement(RESULTS, count)]
    texts = expression_values((joined, {"needs": needs(**dict(zip("abc", row, strict=False)))}) for row in rows)
    for row, text in zip(rows, texts, strict=True):
        assert _is_green(script, RESULTS=text) is ({"failure", "cancelled"}.isdisjoint(row)), row
    pausable = "all branch:main pool:builder pool:builder@main"
    for paused, green in (("", True), ("branch:main-2 pool:build", True), ("x ALL", False), ("Pool:builder", False)):
        assert _is_green(script, RESULTS="success skipped", PAUSABLE=pausable, PAUSED=paused) is green
        assert _is_green(script, RESULTS="success skipped", PAUSABLE="", PAUSED=paused)


def verdict_steps(tree_: Tree) -> list[dict[str, Any]]:
    """The first steps of all verdicts."""
    return [job["steps"][0] for _, name, job in tree_.jobs() if name == "verdict" and "steps" in job]


def test_where_failures_are_expected_they_are_judged_and_anything_else_is_red() -> None:
    """The first step refuses what no failure of a test can be; the step that judges runs unless everything passed."""
    compiled = tree("expecting")
    verdicts = [job for _, name, job in compiled.jobs() if name == "verdict"]
    assert all(job["permissions"] == {"contents": "read", "actions": "read"} for job in verdicts)
    jobs = [job for job in verdicts if "steps" in job]
    assert len(jobs) == 2
    first, judge = (
        {step["name"]: step for job in jobs for step in job["steps"]}[name]
        for name in ("No chosen job was cancelled", "Every failure is expected")
    )
    assert all([step["name"] for step in job["steps"]].index(judge["name"]) == 4 for job in jobs)
    rows = [results for count in (1, 2, 3) for results in itertools.combinations_with_replacement(RESULTS, count)]
    with tempfile.TemporaryDirectory() as folder:
        for row in rows:
            output = Path(folder, "-".join(row))
            green = _is_green(first["run"], RESULTS=" ".join(row), GITHUB_OUTPUT=str(output))
            assert green is ("cancelled" not in row), row
            ended = output.read_text("utf-8") if output.exists() else ""
            assert ended == (f"ended={'failed' if 'failure' in row else 'passed'}\n" if green else "")
        paused = {"PAUSABLE": "all", "PAUSED": "all", "GITHUB_OUTPUT": str(Path(folder, "paused"))}
        assert not _is_green(first["run"], RESULTS="failure", **paused)
    contexts = {"passed": {"ended": "passed"}, "failed": {"ended": "failed"}, "nothing": {}}
    cases = [
        (judge["if"], {"steps": {"ended": {"outputs": outputs}}, "status()": state})
        for outputs in contexts.values()
        for state in ("success", "failure", "cancelled")
    ]
    assert condition_values(cases) == [False] * 3 + [True, False, False] * 2
    assert (first["id"], "continue-on-error" in judge) == ("ended", False)


def _is_green(script: str, **environment: str) -> bool:
    words = [require("bash"), "-e", "-c", script]
    return not subprocess.run(words, env=environment, capture_output=True, check=False, timeout=MINUTES).returncode


def test_a_verdict_knows_what_is_paused_and_what_was_when_it_was_selected(compiled: Tree) -> None:
    selects = [job["outputs"] for _, name, job in compiled.jobs() if name == "select" and "outputs" in job]
    (remembered,) = {outputs["paused"] for outputs in selects}
    assert {outputs["pausable"] for outputs in selects} == {"${{ steps.choose.outputs.pausable }}"}
    assert expression_values([(remembered, {"vars": {"CI_PAUSED": "all"}})]) == ["all"]
    for step in verdict_steps(compiled):
        paused, pausable = step["env"]["PAUSED"], step["env"]["PAUSABLE"]
        contexts = _said_to_verdict({"paused": "all", "pausable": "all branch:main"}) | {
            "vars": {"CI_PAUSED": "branch:x"}
        }
        assert expression_values([(paused, contexts), (pausable, contexts)]) == ["all branch:x", "all branch:main"]
        gone: dict[str, Any] = _said_to_verdict({}) | {"vars": {}}
        assert expression_values([(paused, gone)]) == [" "]


def _said_to_verdict(outputs: Mapping[str, str]) -> dict[str, Any]:
    """What the selection said, as the verdict of a pull request and that of a shard have it."""
    return {"needs": {"select": {"outputs": outputs}}, "inputs": {"selected": json.dumps(outputs)}}


# Machines.


def addressed(where: RunsOn) -> Any:
    """What `runs-on` must come to for a pool: GitHub's three forms."""
    if where.scale_set:
        return where.scale_set
    if where.group:
        return {"group": where.group, **({"labels": list(where.labels)} if where.labels else {})}
    return list(where.labels)


def test_every_stage_runs_on_the_pool_that_it_is_routed_to(compiled: Tree) -> None:
    cases: list[tuple[str, Mapping[str, object]]] = []
    wanted = []
    for shard in compiled.plan.shards:
        passed = cell_calls(compiled.files[f"{shard.name}.yml"])
        for cell, route in shard.cells:
            call = passed[cell.suffix]
            for name, job in compiled.files[Path(call["uses"]).name]["jobs"].items():
                stage = stage_of(name.rpartition("_")[2])
                assert (stage.name in json.loads(call["with"]["machines"])) is (stage in route.pools)
                if stage in route.pools:
                    cases.append((job["runs-on"], {"inputs": {"machines": call["with"]["machines"]}}))
                    wanted.append(addressed(route.pools[stage].runs_on))
    assert expression_values(cases) == wanted


def test_a_leg_of_a_matrix_passes_on_its_machines(compiled: Tree) -> None:
    jobs = compiled.files["pull-request.yml"]["jobs"]
    for name in each({"cells", "listed"} & jobs.keys()):
        assert jobs[name]["with"]["machines"] == "${{ matrix.machines }}"
        assert jobs[name]["with"]["selected"] == "${{ toJSON(matrix) }}"


def test_only_stages_of_a_variant_preflights_and_publishing_can_run_on_a_self_hosted_machine(compiled: Tree) -> None:
    for file, name, job in compiled.jobs():
        if file in CALLED:
            stage = name.rpartition("_")[2]
            assert job["runs-on"] == f"${{{{ fromJSON(inputs.machines)['{stage}'].runs-on }}}}"
        elif file in ON_POOLS:
            assert job["runs-on"] == "${{ fromJSON(inputs.machine).runs-on }}"
        elif "uses" in job:
            assert Path(job["uses"]).name in (CALLED if file == "pull-request.yml" else (*CALLED, *SHARED))
        else:
            assert is_hosted(compiled, job)
    callers = {file for file, _, job in compiled.jobs() if "uses" in job}
    assert callers == {"pull-request.yml", *(f"{shard.name}.yml" for shard in compiled.plan.shards)}


# What is checked out.


def test_what_sync_would_commit_is_checked_out_where_there_is_some_and_never_for_publishing(compiled: Tree) -> None:
    """It needs the history of all branches, as a benchmark does; every other checkout is shallow."""
    tables: dict[str, list[Row]] = {}
    depths, whole = set(), set()
    for file, name, job in compiled.jobs():
        if file not in CALLED or name.endswith("publish"):
            assert LANDING not in {step["name"] for step in job.get("steps", ())}
            continue
        first, second = job["steps"][:2]
        assert second["name"] == LANDING
        (whole if name.endswith(BENCHMARK.name) else depths).add(first["with"]["fetch-depth"])
        tables[second["if"]] = [
            ({"inputs": said(onto=onto), "status()": state}, bool(onto) and state == "success")
            for onto in ("", "1..2")
            for state in ("success", "failure", "cancelled")
        ]
    assert_tables(*tables.items())
    assert whole <= {0}
    (depth,) = depths
    assert expression_values((depth, {"inputs": said(onto=onto)}) for onto in ("", "1..2")) == [1, 0]


def test_what_sync_would_commit_reaches_every_job_of_a_cell(compiled: Tree) -> None:
    cases: list[tuple[str, Mapping[str, object]]] = []
    for file, _, job in compiled.jobs():
        if "uses" in job and Path(job["uses"]).name in CALLED:
            leg, select = {"matrix": {"onto": "1..2"}}, {"needs": {"select": {"outputs": {"onto": "1..2"}}}}
            cases.append((job["with"]["selected"], leg if file == "pull-request.yml" else select))
    assert {json.loads(value)["onto"] for value in expression_values(cases)} == {"1..2"}


@pytest.mark.parametrize("branch", ["main", "cuda-13_0", "a/b", 'it\'s-"new"'])
def test_the_name_of_an_artifact_is_the_one_that_the_table_looks_for(branch: str) -> None:
    start, _, expression = artifact_expression("build", "pytorch-cpu-avx2", [branch, "main"]).partition("@")
    (end,) = expression_values([(expression, {"inputs": said() | {"selected": json.dumps({"branch": branch})}})])
    assert f"{start}@{end}" == artifact_name("build", "pytorch-cpu-avx2", branch)


# In a fork of the repository.


@cache
def guarded(repository: str) -> Tree:
    """A compiled tree whose spec names its `repository`, or not ('')."""
    own = {"repository": repository} if repository else {}
    decided = plan(spec_of(small(schedule={"days": ["sun"]}, sync={"on-push": "push"}, **own)))
    workflows = {Path(path): text for path, text in compile_files(decided).items() if "/workflows/" in path}
    return Tree(plan=decided, files={path.name: _document(text) for path, text in workflows.items()})


def in_repository(event: Event, name: str, *, fork: bool) -> dict[str, Any]:
    github = event.github()
    more = {"event": github["event"] | {"repository": {"fork": fork}}}
    return {"github": github | more | {"repository": name}}


@pytest.mark.parametrize("repository", ["", OWN, "My-Org/Build-PyTorch"])
def test_a_fork_of_the_repository_queues_nothing_and_fails_nothing(repository: str) -> None:
    """There, the first jobs of a run are skipped, and so is what follows; here, they run."""
    mirror = "a-stranger/build-pytorch"
    for file, name, job in each(guarded(repository).jobs()):
        if file in {*CALLED, *SHARED, "pull-request.yml"}:
            continue
        skipped = {"needs": {need: {"result": "skipped", "outputs": {}} for need in job.get("needs", [])}}
        ended = {"status()": "skipped"} if "needs" in job else {}
        for event in each(EVENTS[:3]):
            there = in_repository(event, mirror, fork=True) | skipped | ended | {"inputs": {"publish": True}}
            assert condition_values([(job.get("if", "${{ true }}"), not_paused(there))]) == [False], (file, name)
            if "needs" not in job:
                here = in_repository(event, OWN, fork=bool(repository))
                assert condition_values([(job["if"], not_paused(here))]) == [True], (file, name)


@pytest.mark.parametrize("repository", ["", OWN])
def test_a_pull_request_within_a_fork_gets_the_hosted_checks_and_a_verdict(repository: str) -> None:
    jobs = guarded(repository).files["pull-request.yml"]["jobs"]
    head = {"full_name": "a-stranger/build-pytorch"}
    there = in_repository(Event(name="pull_request", head=head), head["full_name"], fork=True)
    here = in_repository(EVENTS[4], OWN, fork=bool(repository))
    select = {"select": {"result": "success", "outputs": {"matrix": '[{"cell": "a"}]', "chosen": '["a"]'}}}
    ready = {"needs": select | {name: {"result": "success"} for name in ("compiled", "recipes")}}
    cells = jobs["cells"]["if"]
    assert condition_values([(cells, not_paused(one | ready)) for one in (there, here)]) == [False, True]
    (chosen,) = (one["env"]["CHOSEN"] for one in jobs["verdict"]["steps"] if "CHOSEN" in one.get("env", {}))
    assert expression_values([(chosen, one | ready) for one in (there, here)]) == ['["a"]', '["a"]']
    assert [name for name, job in jobs.items() if "if" not in job] == ["compiled", "recipes", "meaning", "select"]
    assert condition_values([(jobs["verdict"]["if"], there | {"status()": "failure"})]) == [True]


# Nothing is left out.


def test_every_condition_of_a_job_has_its_table(compiled: Tree) -> None:
    for file, name, job in each(compiled.jobs()):
        own = (
            file in {*CALLED, *ON_POOLS}
            or name in {"verdict", "comment"}
            or (file, name)
            in {("sync.yml", "sync"), ("update.yml", "update"), ("waves.yml", "waves"), ("pages.yml", "deploy")}
            or ("needs" not in job and file not in {"pull-request.yml", *SHARED})  # not in forks
        )
        assert ("if" in job) is (own or "uses" in job), (file, name)


def test_every_condition_of_a_step_has_its_table(compiled: Tree) -> None:
    """Reports are kept of what fails, not of what is cancelled; the table comes after every verdict, and may fail."""
    steps = {
        (name if name == "verdict" else "stage", step["if"], step.get("continue-on-error", step["name"] == TABLE))
        for file, name, job in compiled.jobs()
        for step in job.get("steps", ())
        if "if" in step and name != "select" and file != "pages.yml"
        if step["name"] not in {LANDING, NOT_BUILT, SECOND, FETCH_NEEDS}
    }
    for job, text, harmless in each(steps):
        rows = list(itertools.product(EVENTS, STATES))
        found = condition_values((text, {"github": event.github(), "status()": state}) for event, state in rows)
        assert found == [{"verdict": True, "stage": state != "cancelled"}[job] for event, state in rows]
        assert harmless is (job == "verdict")


def test_a_build_that_the_store_had_has_a_step_that_says_so(compiled: Tree) -> None:
    conditions = {
        step["if"] for _, _, job in compiled.jobs() for step in job.get("steps", ()) if step.get("name") == NOT_BUILT
    }
    rows = [("no", "success", True), ("yes", "success", False), ("", "success", False), ("no", "failure", False)]
    for text in conditions:
        given = [
            (text, {"steps": {"build": {"outputs": {"built": built}}}, "status()": state}) for built, state, _ in rows
        ]
        assert condition_values(given) == [must for _, _, must in rows]
    assert bool(conditions) is bool(compiled.plan.shards)


def test_what_a_variant_needs_is_fetched_if_the_run_may_have_it(compiled: Tree) -> None:
    """Without a pattern, the action would download every artifact of the run."""
    steps = [step for _, _, job in compiled.jobs() for step in job.get("steps", ()) if step.get("name") == FETCH_NEEDS]
    assert bool(steps) is hands_files(compiled.plan.spec)
    rows = [("build-a@main", "success", True), ("", "success", False), ("build-a@main", "failure", False)]
    for text in {step["if"] for step in steps}:
        given = [
            (text, {"steps": {"needs": {"outputs": {"artifacts": found}}}, "status()": state})
            for found, state, _ in rows
        ]
        assert condition_values(given) == [must for _, _, must in rows]


def test_the_backend_is_installed_where_it_is_asked_what_is_published(compiled: Tree) -> None:
    conditions = {
        step["if"]
        for _, name, job in compiled.jobs()
        if name == "select"
        for step in job.get("steps", ())
        if "if" in step
    }
    assert bool(conditions) is bool(compiled.plan.spec.backend.installer)
    for text in conditions:
        for inputs, must in (({}, False), ({"variant": "all"}, False), ({"variant": "unpublished"}, True)):
            contexts = {"github": {"event": {"inputs": inputs}}, "status()": "success"}
            assert condition_values([(text, contexts)]) == [must]


# waves.yml, schedule.yml and pages.yml.


def test_waves_start_from_the_default_branch_alone(compiled: Tree) -> None:
    condition = compiled.files["waves.yml"]["jobs"]["waves"]["if"]
    refs = ("heads/main", "heads/main-2", "tags/main")
    assert_tables((condition, [({"github": {"ref": f"refs/{ref}"}}, ref == "heads/main") for ref in refs]))


def test_a_run_of_a_shard_says_what_it_builds_and_for_which_request(compiled: Tree) -> None:
    requested = {"variant": "all", "only": "a b", "request": "77"}
    rows: list[tuple[dict[str, str], list[str]]] = [
        ({}, ["", "push"]),
        ({"variant": "x"}, ["", "x"]),
        ({"variant": "all", "only": "a b"}, ["", "a selection"]),
        (requested, [" [77]", "a selection"]),
    ]
    if compiled.plan.spec.profiles.started:
        since = {"variant": "all", "profile": "push", "since": "1 2"}
        rows = [*((inputs, [*wanted, ""]) for inputs, wanted in rows), (since, ["", "all", " push since 1 2"])]
    titles = [compiled.files[f"{shard.name}.yml"]["run-name"] for shard in compiled.plan.shards]
    cases = [
        (one, {"inputs": inputs, "github": {"event_name": "push"}})
        for title in titles
        for inputs, _ in rows
        for one in re.findall(r"\$\{\{.*?\}\}", title)
    ]
    assert expression_values(cases) == [word for _ in titles for _, wanted in rows for word in wanted]


def test_runs_of_one_choice_share_a_group_and_others_do_not(compiled: Tree) -> None:
    """Runs of one choice wait for each other; a selection waits for no run."""
    rows = [({"variant": "all", "only": ""}, "all"), ({"variant": "all", "only": "a"}, "9"), ({}, "9")]
    cases = []
    for shard in compiled.plan.shards:
        group = compiled.files[f"{shard.name}.yml"]["concurrency"]["group"]
        (text,) = re.findall(r"\$\{\{ inputs\.only.*? \}\}", group)
        cases += [(text, {"inputs": inputs, "github": {"run_id": "9"}}) for inputs, _ in rows]
    assert expression_values(cases) == [wanted for _ in compiled.plan.shards for _, wanted in rows]


def test_the_schedule_starts_waves_from_a_file_of_its_own(compiled: Tree) -> None:
    schedule = compiled.plan.spec.schedule
    assert ("schedule.yml" in compiled.files) is (schedule is not None)
    scheduled = {name for name, document in compiled.files.items() if "schedule" in document["on"]}
    spec = compiled.plan.spec
    own = {"schedule.yml": schedule, "update.yml": spec.update}
    own |= {"push-batch.yml": spec.profiles.push.batch, "nightly.yml": spec.profiles.nightly}
    assert scheduled == {"fleet-watch.yml", "pages-schedule.yml", *(name for name, wanted in own.items() if wanted)}
    assert not any("push" in compiled.files[name]["on"] for name in scheduled)  # GitHub may disable these files


def test_the_page_is_deployed_where_pages_is_on(compiled: Tree) -> None:
    jobs = compiled.files["pages.yml"]["jobs"]
    steps_with_a_condition = [step for step in jobs["page"]["steps"] if "if" in step]
    assert len(steps_with_a_condition) == 2
    for answer in ("on", "off", ""):
        page = {"needs": {"page": {"result": "success", "outputs": {"pages": answer}}}, "status()": "success"}
        steps = {"steps": {"page": {"outputs": {"pages": answer}}}, "status()": "success"}
        cases = [(jobs["deploy"]["if"], page), *((step["if"], steps) for step in steps_with_a_condition)]
        assert condition_values(cases) == [answer == "on"] * 3


def test_without_its_token_the_fleet_watch_skips_its_check(compiled: Tree) -> None:
    job = compiled.files["fleet-watch.yml"]["jobs"]["coverage"]
    script = job["steps"][-1]["run"]
    assert ("--issue" in script) is (compiled.plan.spec.watch is not None)
    if compiled.plan.spec.watch:
        ours = {"github": {"token": "own"}}
        assert job["permissions"] == {
            "contents": "read",
            "actions": "write" if compiled.plan.spec.watch.rerun_lost else "read",
            "issues": "write",
            **({"checks": "read"} if compiled.plan.spec.watch.rerun_lost else {}),
        }
        text = job["steps"][-1]["env"]["GITHUB_TOKEN"]
        cases = [(text, ours | {"secrets": {"FLEET_TOKEN": token}}) for token in ("", "a")]
        assert expression_values(cases) == ["own", "a"]
        return
    assert job["permissions"] == {"contents": "read"}
    for token, code in (("", 0), ("a", 3)):
        done = subprocess.run(
            [require("bash"), "-e", "-c", f"ci-runner() {{ return 3; }}; {script}"],
            env={"GITHUB_TOKEN": token},
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=MINUTES,
        )
        assert done.returncode == code
        assert ("::notice::" in done.stdout) is (not token)
