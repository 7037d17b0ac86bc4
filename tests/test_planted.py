"""A compiled tree with one planted defect is refused, and only by the check for that defect."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ci_compiler.plan.pipeline import plan
from ci_compiler.spec.build import bundled_spec
from ci_compiler.sync.compiled import compile_files
from tests.invariants import CHECKS, GUARD, Compiled, parsed, problems

Plant = Callable[[dict[str, Any]], object]

SHARD, OTHER = "build-main-sm90.yml", "build-main-sm80.yml"
SELECTING, PREFLIGHT, PUBLISHES = "shard-select.yml", "shard-preflight.yml", "shard-publish.yml"
CELL = "python313-avx2"
PUBLISHING = "publish-x86-publisher"
TOKEN = "${{ secrets.FLOX_FLOXHUB_TOKEN }}"  # noqa: S105  (the expression, not a secret)


def job(workflows: dict[str, Any], name: str, job_id: str) -> Any:
    return workflows[name]["jobs"][job_id]


def step(workflows: dict[str, Any], name: str, job_id: str, titled: str) -> Any:
    (found,) = (one for one in job(workflows, name, job_id)["steps"] if one["name"] == titled)
    return found


def options(workflows: dict[str, Any], name: str) -> Any:
    return workflows[name][True]["workflow_dispatch"]["inputs"]["variant"]["options"]


def unguarded(workflows: dict[str, Any], name: str, job_id: str) -> None:
    found = job(workflows, name, job_id)
    assert GUARD in found["if"]
    found["if"] = found["if"].replace(f"(github.event_name != 'pull_request' || {GUARD})", "true")


def elsewhere(workflows: dict[str, Any], stage: str, *labels: str) -> None:
    given = job(workflows, SHARD, CELL)["with"]
    machines = json.loads(given["machines"])
    machines[stage]["runs-on"] = ["self-hosted", "Linux", "X64", *labels]
    given["machines"] = json.dumps(machines)


def unserved(workflows: dict[str, Any], stage: str) -> None:
    given = job(workflows, SHARD, CELL)["with"]
    given["machines"] = json.dumps({key: one for key, one in json.loads(given["machines"]).items() if key != stage})


def unpinned(workflows: dict[str, Any], name: str, job_id: str, to: str) -> None:
    for one in job(workflows, name, job_id)["steps"]:
        if "@" in one.get("uses", ""):
            one["uses"] = one["uses"].split("@")[0] + to


def spliced(workflows: dict[str, Any], name: str, job_id: str, titled: str) -> None:
    step(workflows, name, job_id, titled)["run"] += "\necho ${{ inputs.name }}"


def without(node: dict[str, Any], key: str) -> None:
    assert key in node
    del node[key]


PLANTED: dict[str, tuple[str, Plant]] = {
    "no guard: a build": ("fork-guard", lambda w: unguarded(w, "cell.yml", "pytorch_build")),
    "no guard: a test": ("fork-guard", lambda w: unguarded(w, "cell.yml", "pytorch_gpu-test")),
    "no guard: the cells of a request": ("fork-guard", lambda w: unguarded(w, "pull-request.yml", "cells")),
    "no condition: a build": ("fork-guard", lambda w: without(job(w, "cell.yml", "pytorch_build"), "if")),
    "publishing on a request": (
        "fork-guard",
        lambda w: job(w, PUBLISHES, "publish").update(
            {"if": job(w, PUBLISHES, "publish")["if"].replace("== 'push'", "== 'pull_request'")}
        ),
    ),
    "a label of no pool": ("machines", lambda w: elsewhere(w, "gpu-test", "gpu-sm9")),
    "a label of another pool": (
        "machines",
        lambda w: job(w, SHARD, CELL)["with"].update(machines=job(w, OTHER, CELL)["with"]["machines"]),
    ),
    "a stage without a machine": ("machines", lambda w: unserved(w, "gpu-test")),
    "publishing from another pool": (
        "machines",
        lambda w: job(w, SHARD, PUBLISHING)["with"].update(
            machine=job(w, SHARD, "publish-arm-publisher")["with"]["machine"]
        ),
    ),
    "a hosted job on a self-hosted machine": (
        "machines",
        lambda w: job(w, "pull-request.yml", "compiled").update({"runs-on": ["self-hosted"]}),
    ),
    "a stage on another stage's machine": (
        "machines",
        lambda w: job(w, "cell.yml", "pytorch_gpu-test").update(
            {"runs-on": "${{ fromJSON(inputs.machines)['build'].runs-on }}"}
        ),
    ),
    "unpinned: a tag": ("pins", lambda w: unpinned(w, "cell.yml", "pytorch_build", "@v7")),
    "unpinned: a short commit": ("pins", lambda w: unpinned(w, "pages.yml", "deploy", "@cd2ce8f")),
    "unpinned: nothing": ("pins", lambda w: unpinned(w, "pages.yml", "page", "")),
    "no need: a cell": ("needs", lambda w: without(job(w, SHARD, CELL), "needs")),
    "no need: a package": ("needs", lambda w: without(job(w, "cell.yml", "torchvision_build"), "needs")),
    "no need: publishing of a cell": ("needs", lambda w: job(w, SHARD, PUBLISHING)["needs"].remove(CELL)),
    "no need: publishing of its preflight": (
        "needs",
        lambda w: job(w, SHARD, PUBLISHING)["needs"].remove("preflight-x86-publisher"),
    ),
    "no need: the verdict of a cell": ("needs", lambda w: job(w, SHARD, "verdict")["needs"].remove(CELL)),
    "no need: the verdict of a check": (
        "needs",
        lambda w: job(w, "pull-request.yml", "verdict")["needs"].remove("recipes"),
    ),
    "a need of nothing": ("needs", lambda w: job(w, SHARD, "verdict")["needs"].append("python312-avx2")),
    "a variant missing": ("each-variant-once", lambda w: options(w, SHARD).pop()),
    "a variant twice in a file": ("each-variant-once", lambda w: options(w, SHARD).append(options(w, SHARD)[2])),
    "a variant in two files": ("each-variant-once", lambda w: options(w, OTHER).append(options(w, SHARD)[2])),
    "a variant renamed": (
        "each-variant-once",
        lambda w: options(w, SHARD).append(options(w, SHARD).pop().replace("sm90", "sm91")),
    ),
    "a file missing": ("each-variant-once", lambda w: without(w, SHARD)),
    "a cell twice": (
        "each-variant-once",
        lambda w: (
            w[SHARD]["jobs"].update(again=copy.deepcopy(job(w, SHARD, CELL))),
            [job(w, SHARD, waiting)["needs"].append("again") for waiting in (PUBLISHING, "verdict")],
        ),
    ),
    "spliced: a build": ("spliced-expression", lambda w: spliced(w, "cell.yml", "pytorch_build", "Build")),
    "spliced: a choice": ("spliced-expression", lambda w: spliced(w, SELECTING, "select", "Choose the variants")),
    "a secret in a build": (
        "secrets",
        lambda w: step(w, "cell.yml", "pytorch_build", "Build").update(env={"TOKEN": TOKEN}),
    ),
    "a secret for a whole job": (
        "secrets",
        lambda w: job(w, PUBLISHES, "publish").update(env={"TOKEN": TOKEN}),
    ),
    "a secret in two steps": (
        "secrets",
        lambda w: step(w, PUBLISHES, "publish", "Check out")["with"].update(token=TOKEN),
    ),
    "a secret of a request": (
        "secrets",
        lambda w: job(w, "pull-request.yml", "cells").update(secrets={"FLOX_FLOXHUB_TOKEN": TOKEN}),
    ),
    "all secrets passed on": ("secrets", lambda w: job(w, SHARD, CELL).update(secrets="inherit")),
    "all secrets read": (
        "secrets",
        lambda w: step(w, SELECTING, "select", "Choose the variants").update(env={"ALL": "${{ toJSON(secrets) }}"}),
    ),
    "no secret for publishing": (
        "secrets",
        lambda w: without(step(w, PUBLISHES, "publish", "Publish what passed its tests")["env"], "FLOX_FLOXHUB_TOKEN"),
    ),
    "a secret that does not reach publishing": ("secrets", lambda w: without(job(w, SHARD, PUBLISHING), "secrets")),
    "all secrets of publishing": ("secrets", lambda w: job(w, SHARD, PUBLISHING).update(secrets="inherit")),
    "a preflight without its environment": (
        "secrets",
        lambda w: without(job(w, PREFLIGHT, "preflight"), "environment"),
    ),
    "a build that reports nothing": ("digests", lambda w: without(job(w, "cell.yml", "pytorch_build"), "outputs")),
    "a cell that does not report a build": (
        "digests",
        lambda w: without(w["cell.yml"][True]["workflow_call"]["outputs"], "torchvision_build"),
    ),
    "a cell that reports another build's digest": (
        "digests",
        lambda w: w["cell.yml"][True]["workflow_call"]["outputs"]["torchvision_build"].update(
            value="${{ jobs.pytorch_build.outputs.manifest }}"
        ),
    ),
    "publishing without the digests": (
        "digests",
        lambda w: step(w, PUBLISHES, "publish", "Publish what passed its tests")["env"].update(NEEDS="{}"),
    ),
    "publishing with the digests of others": (
        "digests",
        lambda w: job(w, SHARD, PUBLISHING)["with"].update(needs="{}"),
    ),
    "a test without a digest": (
        "digests",
        lambda w: without(step(w, "cell.yml", "torchvision_cpu-test", "Fetch the closure"), "env"),
    ),
    "no environment": ("secrets", lambda w: without(job(w, PUBLISHES, "publish"), "environment")),
    "no permissions: a workflow": ("permissions", lambda w: without(w[SHARD], "permissions")),
    "no permissions: a job": ("permissions", lambda w: without(job(w, "cell.yml", "pytorch_cpu-test"), "permissions")),
    "rights of a workflow": ("permissions", lambda w: w["cell.yml"].update(permissions={"contents": "read"})),
    "a right to write": (
        "permissions",
        lambda w: job(w, "pull-request.yml", "meaning")["permissions"].update(contents="write"),
    ),
    "all rights": ("permissions", lambda w: job(w, SHARD, "select").update(permissions="write-all")),
    "no time limit": ("timeouts", lambda w: without(job(w, "cell.yml", "pytorch_build"), "timeout-minutes")),
    "no time limit: a hosted job": ("timeouts", lambda w: without(job(w, SELECTING, "select"), "timeout-minutes")),
    "no time: publishing": ("timeouts", lambda w: job(w, SHARD, PUBLISHING)["with"].update(minutes=0)),
    "credentials left behind": (
        "credentials",
        lambda w: step(w, "cell.yml", "pytorch_build", "Check out")["with"].update({"persist-credentials": True}),
    ),
    "credentials not spoken of": (
        "credentials",
        lambda w: without(step(w, SELECTING, "select", "Check out")["with"], "persist-credentials"),
    ),
    "publishing without credentials": (
        "credentials",
        lambda w: step(w, PUBLISHES, "publish", "Check out")["with"].update({"persist-credentials": False}),
    ),
    "a stranger's request with rights": (
        "triggers",
        lambda w: w["pull-request.yml"][True].update(pull_request_target=None),
    ),
    "a shard on requests": ("triggers", lambda w: w[SHARD][True].update(pull_request=None)),
    "a call of nothing": ("calls", lambda w: job(w, SHARD, CELL).update(uses="./.github/workflows/cells.yml")),
    "a call of another repository": ("calls", lambda w: job(w, SHARD, CELL).update(uses="a/b/.github/x.yml@v1")),
    "a call without an input": ("calls", lambda w: without(job(w, SHARD, "select")["with"], "shard")),
    "a call with an input too many": ("calls", lambda w: job(w, SHARD, CELL)["with"].update(more="x")),
    "too many inputs": (
        "limits",
        lambda w: w[SHARD][True]["workflow_dispatch"]["inputs"].update({f"x{n}": {} for n in range(9)}),
    ),
    "too long a condition": ("limits", lambda w: job(w, SHARD, CELL).update({"if": "x" * 20_001})),
    "too long an id": ("limits", lambda w: rename(w, CELL, "p" * 100)),
    "pushes share a group": (
        "concurrency",
        lambda w: regroup(w[SHARD], "inputs.variant || github.run_id", "inputs.variant"),
    ),
    "a run cancels another": ("concurrency", lambda w: w[SHARD]["concurrency"].update({"cancel-in-progress": True})),
    "a publication cancels another": (
        "concurrency",
        lambda w: job(w, PUBLISHES, "publish")["concurrency"].update({"cancel-in-progress": True}),
    ),
    "a pending publication is replaced": (
        "concurrency",
        lambda w: without(job(w, PUBLISHES, "publish")["concurrency"], "queue"),
    ),
    "one group for all publications": (
        "concurrency",
        lambda w: regroup(job(w, PUBLISHES, "publish"), "-${{ fromJSON(inputs.machine).pool }}", ""),
    ),
    "a pending run is replaced": ("concurrency", lambda w: without(w[SHARD]["concurrency"], "queue")),
    "a pending start is replaced": ("concurrency", lambda w: without(w["waves.yml"]["concurrency"], "queue")),
    "publishing again waits for an approval": ("concurrency", lambda w: regroup(w[SHARD], "-${{ inputs.again }}", "")),
    "no paths of pushes": ("events", lambda w: without(w[SHARD][True]["push"], "paths")),
    "a path of pushes missing": ("events", lambda w: w[SHARD][True]["push"]["paths"].pop(0)),
    "pushes to another branch": ("events", lambda w: w[SHARD][True]["push"]["branches"].append("topic")),
    "requests into the first branch alone": (
        "events",
        lambda w: w["pull-request.yml"][True]["pull_request"]["branches"].__delitem__(slice(1, None)),
    ),
    "the first failure stops a matrix": (
        "strategy",
        lambda w: job(w, "pull-request.yml", "cells")["strategy"].update({"fail-fast": True}),
    ),
    "a shallow selection": (
        "history",
        lambda w: without(step(w, SELECTING, "select", "Check out")["with"], "fetch-depth"),
    ),
    "two artifacts of one name": (
        "artifacts",
        lambda w: step(w, "cell.yml", "pytorch_cpu-test", "Keep the report")["with"].update(name="report"),
    ),
    "two branches share an artifact": (
        "artifacts",
        lambda w: unbranched(step(w, "cell.yml", "pytorch_build", "Keep the manifest and the log")),
    ),
    "the manifest of another branch": (
        "artifacts",
        lambda w: unbranched(step(w, "cell.yml", "pytorch_cpu-test", "Fetch the manifest")),
    ),
    "a build of the default branch's tree": (
        "landing",
        lambda w: job(w, "cell.yml", "pytorch_build")["steps"].pop(1),
    ),
    "a landing without history": (
        "landing",
        lambda w: without(step(w, "cell.yml", "torchvision_gpu-test", "Check out")["with"], "fetch-depth"),
    ),
    "a leg for the base branch": (
        "landing",
        lambda w: job(w, "pull-request.yml", "cells")["with"].update(selected="${{ toJSON(github) }}"),
    ),
    "the choice of all branches for each": (
        "landing",
        lambda w: job(w, "pull-request.yml", "cells")["with"].update(selected="${{ toJSON(needs.select.outputs) }}"),
    ),
    "a leg that does not show its branch": (
        "landing",
        lambda w: job(w, "pull-request.yml", "cells").update(name="${{ matrix.cell }}"),
    ),
    "a dispatch of a request that drops its branch": (
        "landing",
        lambda w: job(w, SHARD, CELL)["with"].update(selected="{}"),
    ),
    "a stage missing": ("stages", lambda w: without(w["cell.yml"]["jobs"], "torchaudio_cpu-test")),
    "a package missing": (
        "stages",
        lambda w: [
            without(w["cell.yml"][True]["workflow_call"]["outputs"], "torchaudio_build"),
            *(without(w["cell.yml"]["jobs"], f"torchaudio_{stage}") for stage in ("build", "cpu-test", "gpu-test")),
        ],
    ),
}


def rename(workflows: dict[str, Any], old: str, new: str) -> None:
    workflows[SHARD]["jobs"][new] = workflows[SHARD]["jobs"].pop(old)
    for waiting in (PUBLISHING, "verdict"):
        waits = job(workflows, SHARD, waiting)["needs"]
        waits[waits.index(old)] = new
    publishing = job(workflows, SHARD, PUBLISHING)
    publishing["if"] = publishing["if"].replace(f"needs.{old}.", f"needs.{new}.")


def unbranched(found: dict[str, Any]) -> None:
    found["with"]["name"] = found["with"]["name"].partition("@")[0]


def regroup(node: dict[str, Any], old: str, new: str) -> None:
    assert old in node["concurrency"]["group"]
    node["concurrency"]["group"] = node["concurrency"]["group"].replace(old, new)


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    decided = plan(bundled_spec())
    return parsed(decided, compile_files(decided))


def test_without_a_defect_no_check_has_a_word_to_say(compiled: Compiled) -> None:
    assert problems(compiled) == {}


@pytest.mark.slow
@pytest.mark.parametrize("defect", PLANTED)
def test_a_planted_defect_is_refused_by_its_check(compiled: Compiled, defect: str) -> None:
    check, plant = PLANTED[defect]
    workflows = pickle.loads(pickle.dumps(dict(compiled.workflows)))  # noqa: S301  (faster than deepcopy)
    plant(workflows)
    said = problems(replace(compiled, workflows=workflows))
    assert said.keys() == {check}, said


def test_a_file_that_is_too_large_is_refused(compiled: Compiled) -> None:
    path = f".github/workflows/{SHARD}"
    text = compiled.files[path]
    for size, refused in ((470_000, set()), (470_001, {"file-size"})):
        grown = text + "#" * (size - len(text.encode()))
        assert problems(replace(compiled, files={**compiled.files, path: grown})).keys() == refused


@pytest.mark.parametrize(("jobs", "refused"), [(256, False), (257, True)])
def test_a_file_with_too_many_jobs_is_refused(compiled: Compiled, jobs: int, refused: bool) -> None:
    """The jobs of a called workflow count once per call."""
    workflows = copy.deepcopy(dict(compiled.workflows))
    found = workflows[SHARD]["jobs"]
    cells = sum(one["uses"].endswith("/cell.yml") for one in found.values())
    for number in range(jobs - len(found) + cells - cells * len(workflows["cell.yml"]["jobs"])):
        found[f"more-{number}"] = job(workflows, SHARD, "select")
    assert ("limits" in problems(replace(compiled, workflows=workflows))) is refused


@pytest.mark.parametrize(
    ("check", "change"), [("pins", {"uses": "actions/setup-python@v7"}), ("spliced-expression", {"run": "${{ x }}"})]
)
def test_the_steps_of_an_action_are_checked_as_well(compiled: Compiled, check: str, change: dict[str, str]) -> None:
    actions = copy.deepcopy(dict(compiled.actions))
    actions["setup-ci-compiler"]["runs"]["steps"][0].update(change)
    assert problems(replace(compiled, actions=actions)).keys() == {check}


def test_every_check_is_shown_to_refuse_something() -> None:
    assert {check for check, _ in PLANTED.values()} | {"file-size"} == CHECKS.keys()
