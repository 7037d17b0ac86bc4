"""The invariants of every compiled tree, one named check each, for valid specs and for planted defects.

A check reads the parsed workflows as GitHub does and yields each problem in words. It compares them with the plan and
never with how the files were written.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ci_compiler.plan.limits import limit
from ci_compiler.plan.pipeline import Plan
from ci_compiler.spec.model import Pool, RunsOn, Spec
from ci_compiler.stages import BENCHMARK, BUILD, PUBLISH, stages_that_test
from ci_compiler.workflows.common import NIGHTLY_FILE, PUSH_BATCH, RELEASE_FILE
from ci_compiler.workflows.tasks import WATCH_ENVIRONMENT, WATCH_SECRET

GUARD = "github.event.pull_request.head.repo.full_name == github.repository"
RUNS = "(github.event_name == 'push' || github.event_name == 'workflow_dispatch')"
FOLDER = "./.github/workflows/"
CALLED = ("cell.yml", "variant.yml")
"""The workflows with the jobs of variants, which others call."""

PREFLIGHT, PUBLISHING = "shard-preflight.yml", "shard-publish.yml"
"""The workflows with the jobs on the pools that publish, which shards call."""

PIN = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")
READ_ALONE = ("read", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A plan, its compiled texts by path, and its parsed workflows and actions by file or folder name."""

    decided: Plan
    files: Mapping[str, str]
    workflows: Mapping[str, Any]
    actions: Mapping[str, Any]

    @property
    def shards(self) -> dict[str, Any]:
        """The workflows of shards."""
        return {name: document for name, document in self.workflows.items() if name.startswith("build-")}

    def jobs(self) -> Iterator[tuple[str, str, Any]]:
        """Every job: its file, its id, itself."""
        for name, document in self.workflows.items():
            for job_id, job in document["jobs"].items():
                yield name, job_id, job

    def steps(self) -> Iterator[tuple[str, str, Any]]:
        """Every step of every job and action: its file, its job's id, itself."""
        for name, job_id, job in self.jobs():
            for step in job.get("steps", ()):
                yield name, job_id, step
        for name, action in self.actions.items():
            for step in action["runs"]["steps"]:
                yield name, "", step


Check = Callable[[Compiled], Iterator[str]]
CHECKS: dict[str, Check] = {}


def named(name: str) -> Callable[[Check], Check]:
    """Enters a check into `CHECKS`."""

    def entered(check: Check) -> Check:
        CHECKS[name] = check
        return check

    return entered


def parsed(decided: Plan, files: Mapping[str, str]) -> Compiled:
    """`files` as the checks read them; YAML 1.1 reads the key `on` as true."""
    read = {path: yaml.load(text, Loader=yaml.CSafeLoader) for path, text in files.items() if path.endswith(".yml")}
    return Compiled(
        decided=decided,
        files=files,
        workflows={Path(path).name: one for path, one in read.items() if path.startswith(".github/workflows/")},
        actions={Path(path).parent.name: one for path, one in read.items() if path.startswith(".github/actions/")},
    )


def problems(compiled: Compiled) -> dict[str, list[str]]:
    """The problems of a compiled tree by check; empty if there are none."""
    said = {name: list(check(compiled)) for name, check in CHECKS.items()}
    return {name: lines for name, lines in said.items() if lines}


def offered(document: Any) -> list[str]:
    """The variants of a shard's dispatch form."""
    options: list[str] = document[True]["workflow_dispatch"]["inputs"]["variant"]["options"]
    return options[2:]


# What is built, and where.


@named("each-variant-once")
def each_variant_once(compiled: Compiled) -> Iterator[str]:
    """A variant of the plan is offered by one form, and its cell has one job, in the file of its branch."""
    decided = compiled.decided
    wanted = Counter((cell.branch, v.name) for cell in decided.judged.cells for v in cell.variants)
    found = Counter(
        (document[True]["push"]["branches"][0], name)
        for document in compiled.shards.values()
        for name in offered(document)
    )
    yield from _unlike(wanted, found, "forms")
    cells = Counter((cell.branch, cell.suffix) for cell in decided.judged.cells)
    jobs = Counter((_branch(compiled, name), _called(job)) for name, _, job in _cell_jobs(compiled))
    yield from _unlike(cells, jobs, "jobs")


def _unlike(wanted: Counter[tuple[str, str]], found: Counter[tuple[str, str]], where: str) -> Iterator[str]:
    for key in sorted(wanted.keys() | found.keys()):
        if (wanted[key], found[key]) != (1, 1):
            yield f"{' '.join(key)}: {wanted[key]} times in the plan, {found[key]} times in the {where}"


def _called(job: Mapping[str, Any]) -> str:
    """The cell, or the listed variant, that a job calls a workflow for."""
    given = job.get("with", {})
    found: str = given.get("cell") or given.get("name", "")
    return found


def _cell_jobs(compiled: Compiled) -> Iterator[tuple[str, str, Any]]:
    shards = compiled.shards
    return ((name, job_id, job) for name, job_id, job in compiled.jobs() if name in shards and _called(job))


def _branch(compiled: Compiled, name: str) -> str:
    """The branch that the selection of a shard is asked for."""
    branch: str = compiled.shards[name]["jobs"]["select"]["with"]["branch"]
    return branch


@named("machines")
def machines(compiled: Compiled) -> Iterator[str]:
    """A stage of a cell asks for its route's pool, and every other job for the hosted machine."""
    decided = compiled.decided
    wanted = {
        (cell.branch, cell.suffix): {
            str(stage): _machine(pool) for stage, pool in route.pools.items() if stage is not PUBLISH
        }
        for cell, route in zip(decided.judged.cells, decided.routes, strict=True)
    }
    for name, job_id, job in _cell_jobs(compiled):
        given = json.loads(job["with"]["machines"])
        if given != wanted.get((_branch(compiled, name), _called(job))):
            yield f"{name} {job_id}: asks for {given}"
    pools = {f"{job}-{pool.name}": _machine(pool) for pool in decided.spec.pools for job in ("preflight", "publish")}
    for name, job_id, job in compiled.jobs():
        if "uses" not in job and job.get("runs-on") != _wanted_machine(decided, name, job_id):
            yield f"{name} {job_id}: runs on {job.get('runs-on')}"
        machine = job.get("with", {}).get("machine")
        if name in compiled.shards and (json.loads(machine) if machine else None) != pools.get(job_id):
            yield f"{name} {job_id}: asks for {machine}"


def _wanted_machine(decided: Plan, name: str, job_id: str) -> object:
    """The stage's machine in a called workflow, the pool of a preflight or of publishing, else the hosted machine."""
    if name in CALLED:
        return f"${{{{ fromJSON(inputs.machines)['{_stage(job_id)}'].runs-on }}}}"
    return "${{ fromJSON(inputs.machine).runs-on }}" if name in {PREFLIGHT, PUBLISHING} else decided.spec.hosted


def _machine(pool: Pool) -> dict[str, object]:
    return {"pool": pool.name, "runs-on": _asked(pool.runs_on)}


def _stage(job_id: str) -> str:
    """The stage of a job of a called workflow: `pytorch_build` of a cell, or `build` of a listed variant."""
    return job_id.rpartition("_")[2]


def _asked(runs_on: RunsOn) -> object:
    labels = list(runs_on.labels)
    if runs_on.group:
        return {"group": runs_on.group} | ({"labels": labels} if labels else {})
    return runs_on.scale_set or labels


@named("needs")
def needs(compiled: Compiled) -> Iterator[str]:
    """A job waits for the jobs that it uses, all of them in its file; a verdict waits for all other jobs."""
    for name, job_id, job in compiled.jobs():
        waits = _needs(job)
        wanted = _wanted_needs(compiled, name, job_id) | set(re.findall(r"needs\.([\w-]+)", json.dumps(job)))
        if missing := wanted - waits:
            yield f"{name} {job_id}: does not wait for {', '.join(sorted(missing))}"
        if unknown := waits - compiled.workflows[name]["jobs"].keys():
            yield f"{name} {job_id}: waits for {', '.join(sorted(unknown))}, which the file does not have"


def _needs(job: Mapping[str, Any]) -> set[str]:
    waits = job.get("needs", [])
    return {waits} if isinstance(waits, str) else set(waits)


def _wanted_needs(compiled: Compiled, name: str, job_id: str) -> set[str]:
    spec = compiled.decided.spec
    if job_id == "verdict" and (name in compiled.shards or name == "pull-request.yml"):
        return set(compiled.workflows[name]["jobs"]) - {"verdict"}
    if name in compiled.shards and job_id != "select":
        job = compiled.workflows[name]["jobs"][job_id]
        pool = _publish_pools(compiled).get((_branch(compiled, name), _called(job)))
        of_pool = (
            _published_jobs(compiled, name, job_id.removeprefix("publish-")) if _publishes(name, job_id) else set()
        )
        return {"select", *([f"preflight-{pool}"] if pool else []), *of_pool}
    if name == "pull-request.yml" and "uses" in compiled.workflows[name]["jobs"][job_id]:
        return {"select", "compiled", *(["recipes"] if spec.backend.has_recipes else [])}
    if name in CALLED:
        return _wanted_of_stage(compiled, *job_id.rpartition("_")[::2])
    return set()


def _wanted_of_stage(compiled: Compiled, package: str, stage: str) -> set[str]:
    """A build waits for the builds that it needs, and a test for its build."""
    spec = compiled.decided.spec
    own = [f"{package}_" if package else ""]
    needs = [f"{need}_" for need in _all_needs(spec, package) if spec.packages[need].repository is None]
    if stage == BUILD.name:
        return {f"{need}build" for need in needs}
    return {f"{one}build" for one in own}


def _publishes(name: str, job_id: str) -> bool:
    """Whether a job has variants published: one per pool in the file of a shard."""
    return name.startswith("build-") and job_id.startswith("publish-")


def _publish_pools(compiled: Compiled) -> dict[tuple[str, str], str]:
    """The pool that publishes each cell, by branch and suffix, on the branches that publish."""
    decided = compiled.decided
    return {
        (cell.branch, cell.suffix): route.pools[PUBLISH].name
        for cell, route in zip(decided.judged.cells, decided.routes, strict=True)
        if decided.spec.branches[cell.branch].publish
    }


def _published_jobs(compiled: Compiled, name: str, pool: str) -> set[str]:
    """What publishing on `pool` waits for: the preflight of the pool, and every cell that publishes there."""
    pools = _publish_pools(compiled)
    cells = {
        job_id
        for file, job_id, job in _cell_jobs(compiled)
        if file == name and pools.get((_branch(compiled, file), _called(job))) == pool
    }
    return {f"preflight-{pool}", *cells}


def _all_needs(spec: Spec, package: str) -> set[str]:
    direct = set(spec.packages[package].needs) if package else set()
    return direct.union(*(_all_needs(spec, need) for need in direct))


@named("calls")
def calls(compiled: Compiled) -> Iterator[str]:
    """A called workflow exists, and gets all inputs that it requires and none that it does not have."""
    for name, job_id, job in compiled.jobs():
        if "uses" not in job:
            continue
        called = compiled.workflows.get(job["uses"].removeprefix(FOLDER))
        if called is None or not job["uses"].startswith(FOLDER):
            yield f"{name} {job_id}: calls {job['uses']}, which is not compiled"
            continue
        inputs, given = called[True]["workflow_call"]["inputs"], job.get("with", {}).keys()
        required = {key for key, one in inputs.items() if one["required"]}
        if wrong := (required - given) | (given - inputs.keys()):
            yield f"{name} {job_id}: {', '.join(sorted(wrong))} of {job['uses']}"


# When it runs.


@named("events")
def events(compiled: Compiled) -> Iterator[str]:
    """A push to a recipe of a shard starts it, on its branch alone; a pull request into any branch of the spec does."""
    spec = compiled.decided.spec
    for shard in compiled.decided.shards:
        document = compiled.shards.get(f"{shard.name}.yml")
        push = document[True].get("push", {}) if document else {"branches": [shard.branch], "paths": ["**"]}
        if push.get("branches") != [shard.branch]:
            yield f"{shard.name}.yml: starts on pushes to {push.get('branches')}"
        paths = [re.compile(_as_pattern(path)) for path in push.get("paths", ())]
        sources = [spec.packages[one.package].source(one.name) for cell, _ in shard.cells for one in cell.variants]
        if missed := next((one for one in sources if not any(path.fullmatch(one) for path in paths)), None):
            yield f"{shard.name}.yml: does not start on a change of {missed}"
    branches = compiled.workflows["pull-request.yml"][True]["pull_request"].get("branches")
    if branches != list(spec.branches):
        yield f"pull-request.yml: starts for {branches}"


def _as_pattern(path: str) -> str:
    """A path filter as a regular expression: `**` matches any characters, `*` all but a slash."""
    return ".*".join("[^/]*".join(map(re.escape, part.split("*"))) for part in path.split("**"))


@named("concurrency")
def concurrency(compiled: Compiled) -> Iterator[str]:
    """No run or publication replaces or cancels another one that does other work; pull requests cancel older runs."""
    choice = "inputs.only && github.run_id || inputs.variant || github.run_id"
    distinct = ("github.ref }}", choice, "inputs.publish }}", "inputs.again }}")
    for name, document in compiled.workflows.items():
        found = document.get("concurrency", {})
        wanted = (name.removesuffix(".yml"), *distinct) if name in compiled.shards else ()
        wanted = ("github.event.pull_request.number",) if name == "pull-request.yml" else wanted
        if any(part not in found.get("group", "") for part in wanted):
            yield f"{name}: the group {found.get('group')}"
        kind = (True, None) if name == "pull-request.yml" else (False, "max")
        if found and (found.get("cancel-in-progress"), found.get("queue")) != kind:
            yield f"{name}: {found}"
    for name, job_id, job in compiled.jobs():
        found = job.get("concurrency", {})
        if name == PUBLISHING:
            apart = "publish-${{ fromJSON(inputs.selected).shard }}-${{ fromJSON(inputs.machine).pool }}"
            if found.get("group") != apart or (found.get("cancel-in-progress"), found.get("queue")) != (False, "max"):
                yield f"{name} {job_id}: {found}"


@named("strategy")
def strategy(compiled: Compiled) -> Iterator[str]:
    """A leg of a matrix that fails cancels no other."""
    for name, job_id, job in compiled.jobs():
        if "strategy" in job and job["strategy"].get("fail-fast") is not False:
            yield f"{name} {job_id}: stops at the first failure"


@named("history")
def history(compiled: Compiled) -> Iterator[str]:
    """What compares commits has the whole history: the selection, the checks of a pull request, and publishing."""
    for name, job_id, step in compiled.steps():
        compares = job_id in {"select", "compiled", "meaning"} or name == PUBLISHING
        if compares and "actions/checkout@" in step.get("uses", "") and step["with"].get("fetch-depth") != 0:
            yield f"{name} {job_id}: {step['name']}"


@named("artifacts")
def artifacts(compiled: Compiled) -> Iterator[str]:
    """An artifact is named after its stage, variant and branch, so that no two of a run share a name."""
    for name, job_id, step in compiled.steps():
        if name in CALLED and "-artifact@" in step.get("uses", ""):
            made_by = _stage(job_id) if "upload" in step["uses"] else BUILD.name
            variant = compiled.workflows[name]["jobs"][job_id]["env"]["NAME"]
            given = step["with"].get("name") or step["with"]["pattern"]
            if "pattern" in step["with"]:  # of another variant, which the run may not have built
                variant = variant.replace("inputs.cell", "inputs.benchmark-beside")
            wanted = f"{made_by}-{variant}@"
            if not given.startswith(wanted) or "fromJSON(inputs.selected).branch" not in given.removeprefix(wanted):
                yield f"{name} {job_id}: {given}"


@named("landing")
def landing(compiled: Compiled) -> Iterator[str]:
    """What builds and tests checks out what sync would commit to its branch before it does anything else."""
    for name, job_id, job in compiled.jobs():
        if name in CALLED and _stage(job_id) != PUBLISH.name:
            first, second = job["steps"][:2]
            history = 0 if _stage(job_id) == BENCHMARK.name else "${{ fromJSON(inputs.selected).onto == '' && 1 || 0 }}"
            if first["with"].get("fetch-depth") != history:
                yield f"{name} {job_id}: has no history to land on"
            if second.get(
                "if"
            ) != "${{ fromJSON(inputs.selected).onto != '' }}" or "ci-runner checkout" not in second.get("run", ""):
                yield f"{name} {job_id}: builds the commit of the run on every branch"
        said = job.get("with", {}).get("selected")
        if name in compiled.shards and job_id != "select" and said != "${{ toJSON(needs.select.outputs) }}":
            yield f"{name} {job_id}: drops where its commit lands"
        is_leg = said == "${{ toJSON(matrix) }}" and "matrix.branch" in job["name"]
        if name == "pull-request.yml" and "uses" in job and not is_leg:
            yield f"{name} {job_id}: is called {job['name']} for {said}"


# GitHub's limits.


@named("file-size")
def file_size(compiled: Compiled) -> Iterator[str]:
    """No file is larger than GitHub's limit."""
    for path, text in compiled.files.items():
        if len(text.encode()) > limit("file-bytes").gate:
            yield f"{path}: {len(text.encode())} bytes"


@named("limits")
def limits(compiled: Compiled) -> Iterator[str]:
    """Jobs as GitHub expands them, the inputs of forms, ids and conditions are within GitHub's limits."""
    for name, document in compiled.shards.items():
        counted = {
            "jobs": sum(_expanded(compiled, job) for job in document["jobs"].values()),
            "dispatch-inputs": len(document[True]["workflow_dispatch"]["inputs"]),
            "job-id-characters": max(map(len, document["jobs"])),
            "expression-characters": max(len(job.get("if", "")) for job in document["jobs"].values()),
        }
        for key, count in counted.items():
            if count > limit(key).gate:
                yield f"{name}: {count} {key}"


def _expanded(compiled: Compiled, job: Mapping[str, Any]) -> int:
    """The number of jobs that GitHub makes of one."""
    called = compiled.workflows.get(job.get("uses", "").removeprefix(FOLDER))
    return len(called["jobs"]) if called else 1


@named("timeouts")
def timeouts(compiled: Compiled) -> Iterator[str]:
    """Every job that runs on a machine has a time limit."""
    for name, job_id, job in compiled.jobs():
        minutes = job.get("timeout-minutes")
        minutes = _passed_minutes(compiled) if minutes == "${{ inputs.minutes }}" else minutes
        if "runs-on" in job and not (isinstance(minutes, int) and minutes > 0):
            yield f"{name} {job_id}: no time limit"


def _passed_minutes(compiled: Compiled) -> int:
    """The shortest time limit that a shard passes to the job that publishes."""
    return min(job["with"].get("minutes", 0) for name, job_id, job in compiled.jobs() if _publishes(name, job_id))


# Permissions.


@named("triggers")
def triggers(compiled: Compiled) -> Iterator[str]:
    """No event runs foreign code with permissions, and only one file runs on pull requests."""
    for name, document in compiled.workflows.items():
        events = set(document[True])
        for event in sorted({"pull_request_target", "issue_comment", "workflow_run"} & events):
            yield f"{name}: starts on {event}"
        if "pull_request" in events and name != "pull-request.yml":
            yield f"{name}: starts on pull requests"


@named("fork-guard")
def fork_guard(compiled: Compiled) -> Iterator[str]:
    """A pull request reaches a self-hosted machine only from this repository, and never reaches publishing."""
    for name, job_id, job in compiled.jobs():
        condition = job.get("if", "")
        if _publishes(name, job_id) or name == PUBLISHING:
            if "pull_request" in condition or (name == PUBLISHING and RUNS not in condition):
                yield f"{name} {job_id}: may run on a pull request"
        elif name in CALLED and job_id.endswith("benchmark"):
            if "pull_request" in condition or RUNS not in condition:
                yield f"{name} {job_id}: may run in a pull request"
        elif (name in CALLED or (name == "pull-request.yml" and "uses" in job)) and GUARD not in condition:
            yield f"{name} {job_id}: no guard against forks"


@named("permissions")
def permissions(compiled: Compiled) -> Iterator[str]:
    """A workflow has no permissions, a job those that it names, and only jobs that attest or deploy may write.

    A shard only calls workflows, whose jobs may read unless it says more.
    """
    for name, document in compiled.workflows.items():
        if document.get("permissions") != ({"contents": "read"} if name in compiled.shards else {}):
            yield f"{name}: has rights of its own"
    for name, job_id, job in compiled.jobs():
        granted = job.get("permissions", {"contents": "read"} if name in compiled.shards and "uses" in job else None)
        if not isinstance(granted, dict):
            yield f"{name} {job_id}: names no permissions"
            continue
        writes = {scope for scope, right in granted.items() if right not in READ_ALONE}
        if more := writes - _may_write(compiled, name, job_id, job):
            yield f"{name} {job_id}: may write {', '.join(sorted(more))}"


def _may_write(compiled: Compiled, name: str, job_id: str, job: Mapping[str, Any]) -> set[str]:
    if (name, job_id) == ("pages.yml", "deploy"):
        return {"pages", "id-token"}
    starters = ("schedule.yml", "pages-schedule.yml", PUSH_BATCH, NIGHTLY_FILE, RELEASE_FILE)
    starts = {(file, "start") for file in starters}
    if (name, job_id) in {("waves.yml", "waves"), *starts}:
        return {"actions"}
    if (name, job_id) == ("fleet-watch.yml", "coverage") and (watch := compiled.decided.spec.watch):
        return {"issues", "actions"} if watch.rerun_lost else {"issues"}
    builds = "uses" in job or (name in CALLED and _stage(job_id) == BUILD.name)
    return {"id-token", "attestations", "artifact-metadata"} if compiled.decided.spec.attest and builds else set()


@named("secrets")
def secrets(compiled: Compiled) -> Iterator[str]:
    """The publishing secret reaches one step of publishing, by name, from its environment; no other job has one."""
    spec = compiled.decided.spec
    tokens = list(spec.publishing_secrets)
    holders: dict[tuple[str, str], tuple[list[str], str]] = {
        ("fleet-watch.yml", "coverage"): ([WATCH_SECRET], WATCH_ENVIRONMENT),
        ("sync.yml", "sync"): (["SYNC_APP_ID", "SYNC_APP_PRIVATE_KEY"], "sync"),
        ("update.yml", "update"): (["SYNC_APP_ID", "SYNC_APP_PRIVATE_KEY"], "sync"),
    }
    for name, job_id, _ in compiled.jobs():
        if name == PUBLISHING or (name == PREFLIGHT and not spec.publish.reviewers):
            holders[name, job_id] = (tokens, spec.publish.environment)
    passed = {token: f"${{{{ secrets.{token} }}}}" for token in tokens}
    for name, job_id, job in compiled.jobs():
        may = _publishes(name, job_id) or (job_id.startswith("preflight-") and not spec.publish.reviewers)
        if job.get("secrets", {}) != (passed if may and name in compiled.shards else {}):
            yield f"{name} {job_id}: passes {job.get('secrets')}"
        secret, environment = holders.get((name, job_id), ([], None))
        for mentioned in _secrets({key: value for key, value in job.items() if key not in {"secrets", "steps"}}):
            yield f"{name} {job_id}: {mentioned} for the whole job"
        found = [_secrets(step) for step in job.get("steps", ()) if _secrets(step)]
        if found != ([secret] if secret else []):
            yield f"{name} {job_id}: steps use {found}"
        if secret and job.get("environment") != environment:
            yield f"{name} {job_id}: {secret} without its environment"


def _secrets(node: object) -> list[str]:
    return re.findall(r"\bsecrets\b\W*(\w*)", json.dumps(node))


@named("digests")
def digests(compiled: Compiled) -> Iterator[str]:
    """What reads a manifest or a result gets the digest that its job reported as an output, not from an artifact."""
    for name in compiled.workflows.keys() & set(CALLED):
        called = compiled.workflows[name]
        reported = {one: job["outputs"] for one, job in called["jobs"].items() if "outputs" in job}
        found = called[True]["workflow_call"].get("outputs", {})
        for one in called["jobs"]:
            what = "manifest" if _stage(one) == BUILD.name else "result"
            passed = {f"${{{{ jobs.{one}.outputs.{what} }}}}", f"${{{{ fromJSON(toJSON(jobs.{one})).result }}}}"}
            if found.get(one, {}).get("value") not in passed:
                yield f"{name}: does not report {one}"
            if what == "manifest" and reported.get(one) != {what: "${{ steps.build.outputs.manifest }}"}:
                yield f"{name} {one}: reports no digest"
    yield from (
        f"{name} {job_id}: publishes without digests"
        for name, job_id, job in compiled.jobs()
        if _publishes(name, job_id) and job["with"].get("needs") != "${{ toJSON(needs) }}"
    )
    for name, job_id, step in compiled.steps():
        run, env = step.get("run", ""), step.get("env", {})
        if " publish-run " in run and ('--needs "$NEEDS"' not in run or env.get("NEEDS") != "${{ inputs.needs }}"):
            yield f"{name} {job_id}: publishes without digests"
        if "ci-runner fetch " in run:
            build = f"{job_id.rpartition('_')[0]}_build".removeprefix("_")
            if '--digest "$DIGEST"' not in run or env.get("DIGEST") != f"${{{{ needs.{build}.outputs.manifest }}}}":
                yield f"{name} {job_id}: fetches without a digest"


# Steps.


@named("spliced-expression")
def spliced_expression(compiled: Compiled) -> Iterator[str]:
    """No script contains an expression; values come through the environment."""
    for name, job_id, step in compiled.steps():
        if "${{" in step.get("run", ""):
            yield f"{name} {job_id}: {step['name']}"


@named("pins")
def pins(compiled: Compiled) -> Iterator[str]:
    """An action is in the tree or pinned to a commit."""
    for name, job_id, step in compiled.steps():
        uses = step.get("uses", "./")
        if not uses.startswith("./") and not PIN.fullmatch(uses):
            yield f"{name} {job_id}: {uses}"


@named("credentials")
def credentials(compiled: Compiled) -> Iterator[str]:
    """Only the checkout for publishing, which pushes, keeps its credentials."""
    for name, job_id, step in compiled.steps():
        publishing = name == PUBLISHING
        kept = step.get("with", {}).get("persist-credentials", True)
        if "actions/checkout@" in step.get("uses", "") and kept is not publishing:
            yield f"{name} {job_id}: {'keeps' if kept else 'drops'} its credentials"


@named("stages")
def stages_as_planned(compiled: Compiled) -> Iterator[str]:
    """A variant has the stages of the plan before publishing: it is built, and tested as the spec says."""
    spec = compiled.decided.spec
    tests = [stage.name for stage in stages_that_test() if spec.tests[stage] != "never"]
    wanted = [BUILD.name, *tests]
    packages = {one.package for cell in compiled.decided.judged.cells if not cell.listed for one in cell.variants}
    prefixes = {"variant.yml": [""], "cell.yml": [f"{package}_" for package in sorted(packages)]}
    for name in compiled.workflows.keys() & prefixes.keys():
        found = set(compiled.workflows[name]["jobs"])
        if lacking := {f"{prefix}{stage}" for prefix in prefixes[name] for stage in wanted} - found:
            yield f"{name}: lacks {', '.join(sorted(lacking))}"
        if more := sorted(one for one in found if _stage(one) not in wanted):
            yield f"{name}: has {', '.join(more)}"
