"""Whole runs of compiled workflows, as GitHub plays them: one event, approval or end of a job after the other.

What no person decides happens at once: conditions are evaluated when the jobs in `needs` have ended, groups pass to
the next that waits, and called workflows end with their jobs. Steps are not executed: `meanings.py` knows what each
does. Facts and sources: https://docs.github.com/actions, and the rows of the canary's register.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.checkers.expressions import ExpressionError
from tests.github_model.contexts import OWN, STALE, default_of, github, told, typed, variables
from tests.github_model.expressions import JsonTexts, condition, evaluated, shown, text_of
from tests.github_model.meanings import Standing, StepFailedError, meaning_of
from tests.github_model.paths import ancestors, caller, closure, container, containers, is_leg, leaves, parts
from tests.github_model.state import (
    ALL,
    CANCELLED,
    FAILED,
    FAILURE,
    SKIPPED,
    SUCCESS,
    Artifact,
    Entity,
    Event,
    Frozen,
    JobState,
    Run,
    State,
)
from tests.github_model.switches import UndecidedError
from tests.github_model.tree import JobText, Tree, matches


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """An environment of the repository: whether it has reviewers, its secrets, and the branches that it allows."""

    reviewers: bool = False
    secrets: bool = True
    branches: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class World:
    """What does not change: the compiled tree, and the environments that exist.

    `changed` are the variants that each commit changes, `disabled` the workflows that GitHub disabled, and `waves` the
    names of the shards that each wave starts.
    """

    tree: Tree
    changed: Mapping[str, Sequence[str]]
    environments: Mapping[str, Environment] = field(default_factory=dict)
    disabled: frozenset[str] = frozenset()
    waves: Sequence[Sequence[str]] = ()


class Play:
    """A state while something happens in it: `state()` is the one afterwards, `said` tells it in sentences."""

    def __init__(self, world: World, state: State) -> None:
        self.world, self.tree = world, world.tree
        self.before = state
        self.tip, self.pause = state.tip, state.pause
        self.runs = list(state.runs)
        self.groups = dict(state.groups)
        self.published, self.tested = state.published, state.tested
        self.wrong = state.wrong
        self.mishaps = state.mishaps
        self.said: list[str] = []

    def state(self, *happened: str) -> State:
        """The state when everything that happens by itself has happened."""
        self._settle()
        return self.before._replace(
            tip=self.tip,
            pause=self.pause,
            runs=tuple(self.runs),
            groups=Frozen(self.groups),
            published=self.published,
            tested=self.tested,
            happened=self.before.happened.union(happened),
            mishaps=self.mishaps,
            wrong=self.wrong,
        )

    def holds(self, row: str) -> bool:
        """Whether GitHub does what the row of the register says. Raises UndecidedError where nothing is set."""
        if row not in self.before.settings:
            raise UndecidedError(row)
        return bool(self.before.settings[row])

    def violate(self, kind: str, sentence: str) -> None:
        """Records a violation."""
        self.wrong = (*self.wrong, kind)
        self.said.append(f"{sentence}: {kind}.")

    # Events.

    def push(self, sha: str, branch: str, files: Sequence[str]) -> None:
        """A push of a commit that changes `files`."""
        self.tip = sha
        event = Event("push", f"refs/heads/{branch}", sha)
        started = []
        for file, document in self.tree.files.items():
            trigger = document["on"].get("push")
            if "push" in document["on"] and file not in self.world.disabled:
                filters = trigger or {}
                if branch in filters.get("branches", [branch]) and matches(files, filters.get("paths", ["**"])):
                    started.append(self._start(file, event))
        self.said.insert(0, f"A push of {sha} to {branch} starts {_listed(started)}")

    def dispatch(self, file: str, branch: str, by: str = "A person", /, **inputs: Any) -> None:
        """A dispatch of a workflow at a branch."""
        if file in self.world.disabled:
            self.said.append(f"{by} starts {file}, which GitHub refuses: the workflow is disabled")
            return
        declared = (self.tree.files[file]["on"]["workflow_dispatch"] or {}).get("inputs", {})
        assert inputs.keys() <= declared.keys(), (file, inputs, declared)
        given = {name: inputs.get(name, default_of(one)) for name, one in declared.items()}
        payload = json.dumps({"inputs": {name: shown(value) for name, value in given.items()}})
        event = Event("workflow_dispatch", f"refs/heads/{branch}", self.tip, json.dumps(given), payload)
        about = ", ".join(f"{name}: {shown(value)}" for name, value in inputs.items())
        self.said.insert(0, f"{by} dispatches {self._start(file, event)} ({about})")

    def schedule(self, branch: str) -> None:
        """The hour of every schedule comes."""
        for file, document in self.tree.files.items():
            if "schedule" in document["on"] and file not in self.world.disabled:
                started = self._start(file, Event("schedule", f"refs/heads/{branch}", self.tip))
                self.said.append(f"The schedule starts {started}")

    def pull_request(self, sha: str, base: str, *, fork: bool = False) -> None:
        """A pull request is opened or pushed to; `sha` is its merge. The base that the event names is an old one."""
        head = {"repo": {"full_name": "a-stranger/stack" if fork else OWN}}
        payload = {"pull_request": {"number": 7, "head": head, "base": {"sha": STALE, "ref": base}}}
        event = Event("pull_request", "refs/pull/7/merge", sha, payload=json.dumps(payload))
        for file, document in self.tree.files.items():
            trigger = document["on"].get("pull_request")
            if "pull_request" in document["on"] and base in (trigger or {}).get("branches", [base]):
                self.said.append(f"A pull request of {sha} starts {self._start(file, event)}")

    def cancel(self, number: int) -> None:
        """A person cancels a run."""
        self.said.append(f"A person cancels run {number}")
        self._cancel(number, "a person")

    def rerun(self, number: int, kind: str, path: str = "") -> None:
        """A person re-runs a run that has ended: all jobs, failed ones, or the one at `path`."""
        run = self.runs[number - 1]
        words = {ALL: "all jobs", FAILED: "the failed jobs"}
        self.said.append(f"A person re-runs {words.get(kind, path)} of run {number}, which ended as {run.conclusion}")
        attempt = run.attempt + 1
        again, opened = self._again(run, kind, path)
        jobs: dict[str, JobState] = {}
        for one, job in run.jobs.items():
            if any(outer in again - opened for outer in containers(one)):
                continue  # made again with the call or the matrix that it is in
            if one in again:
                kept = "{}" if kind == ALL else job.outputs
                jobs[one] = JobState(attempt=attempt, kept=kept, given=job.given, matrix=job.matrix)
            else:
                jobs[one] = job if job.outputs == "{}" or self._outputs_remain(kind) else job._replace(outputs="{}")
        self.runs[number - 1] = run._replace(
            attempt=attempt, rerun=kind, status="waiting", cancelled="", jobs=Frozen(jobs), approved=frozenset()
        )
        self._enter_run(number)

    def approve(self, number: int, path: str) -> None:
        """A reviewer approves a job."""
        run, job = self.runs[number - 1], self.runs[number - 1].jobs[path]
        name = self._environment(run, path)
        self.said.append(f"A reviewer lets `{path}` of run {number} into the environment {name}")
        self.runs[number - 1] = run._replace(approved=run.approved | {name})
        self._put(number, path, job._replace(approved=True))
        self._admit(number, path)

    # Runs.

    def _start(self, file: str, event: Event) -> str:
        number = len(self.runs) + 1
        document = self.tree.files[file]
        jobs = Frozen(dict.fromkeys(document["jobs"], JobState()))
        self.runs.append(Run(number, file, event, jobs=jobs, pause=self.pause))
        if ungranted := self.tree.ungranted(file):
            because = f"{_listed(ungranted)} may do less than asked for"
            self.violate("fails although nothing went wrong", f"run {number} of {file} does not start: {because}")
        self._enter_run(number)
        return f"run {number} of {file}"

    def _enter_run(self, number: int) -> None:
        run = self.runs[number - 1]
        concurrency = self.tree.files[run.file].get("concurrency")
        if concurrency is None:
            self._go(number)
            return
        contexts = {**self._common(run), "inputs": run.event.inputs}
        group = text_of(concurrency["group"], contexts).lower()
        self.runs[number - 1] = run._replace(group=group)
        if self._enter(group, (number, ""), concurrency, contexts):
            self._go(number)

    def _go(self, number: int) -> None:
        self.runs[number - 1] = self.runs[number - 1]._replace(status="going")

    def _cancel(self, number: int, by: str) -> None:
        """Ends what waits and runs, unless its condition holds nevertheless."""
        run = self.runs[number - 1]
        if run.is_done:
            return
        if run.status == "waiting":
            jobs = {path: job._replace(status="done", result=CANCELLED) for path, job in run.jobs.items()}
            self.runs[number - 1] = run._replace(status="done", cancelled=by, jobs=Frozen(jobs))
            self._leave((number, ""))
            return
        self.runs[number - 1] = run._replace(cancelled=by)
        for path, job in run.jobs.items():
            if job.status in {"group", "approval"} or (job.status == "running" and not self._wanted(number, path)):
                self._put(number, path, job._replace(status="done", result=CANCELLED))
                self._leave((number, path))

    def _again(self, run: Run, kind: str, path: str) -> tuple[set[str], set[str]]:
        """The jobs that a re-run plays again, and the calls and matrices of which it plays a part again."""
        if kind == ALL:
            return {one for one in run.jobs if not container(one)}, set()
        failed = {FAILURE, CANCELLED} if self._among_failed(run) else {FAILURE}
        first = {path} if path else {one for one in leaves(run) if run.jobs[one].result in failed}
        again: set[str] = set()
        opened: set[str] = set()
        for one in first:
            chain = [one, *containers(one)]
            opened.update(chain[1:])
            again.update(chain, *(self._after(run, link) for link in chain))
        return again, opened

    def _among_failed(self, run: Run) -> bool:
        return any(run.jobs[one].result == CANCELLED for one in leaves(run)) and self.holds("cancelled-rerun")

    def _after(self, run: Run, path: str) -> set[str]:
        """The jobs of the same file that need the job at `path`, with everything in them."""
        prefix, name = path[: path.rfind("/") + 1], path.rpartition("/")[2].partition("#")[0]
        found: set[str] = set()
        for one in run.jobs:
            local = one.removeprefix(prefix)
            if one.startswith(prefix) and "/" not in local and name in self._needs_of(run.file, prefix, local):
                found |= {one}
        return found

    def _needs_of(self, file: str, prefix: str, local: str) -> frozenset[str]:
        """The ids of all jobs that a job waits for, at any distance."""
        return closure(self.tree, file, prefix + local)

    def _outputs_remain(self, kind: str) -> bool:
        return self.holds("outputs-rerun-failed" if kind == FAILED else "outputs-rerun")

    # Groups.

    def _enter(self, group: str, entity: Entity, concurrency: Mapping[str, Any], contexts: JsonTexts) -> bool:
        """Whether `entity` holds the group at once; else it waits in it."""
        queue = self.groups.get(group, ())
        if not queue:
            self.groups[group] = (entity,)
            return True
        who = _entity(entity)
        if evaluated(concurrency.get("cancel-in-progress", False), contexts) is True:
            self.groups[group] = (*queue, entity)
            self.said.append(f"{who} cancels {_entity(queue[0])}, which holds the group {group}")
            self._cancel_entity(queue[0])
            return False
        if concurrency.get("queue") != "max" and len(queue) > 1 and self.holds("pending-replaced"):
            for replaced in queue[1:]:
                self.said.append(f"{_entity(replaced)} is replaced by {who}, which now waits in the group {group}")
                self._cancel_entity(replaced)
            queue = self.groups[group]
        elif concurrency.get("queue") == "max" and len(queue) > 100:
            self._cancel_entity(entity)
            return False
        self.groups[group] = (*queue, entity)
        self.said.append(f"{who} waits for {_entity(queue[0])}, which holds the group {group}")
        return False

    def _cancel_entity(self, entity: Entity) -> None:
        number, path = entity
        if not path:
            self._cancel(number, "its group")
            return
        self._put(number, path, self.runs[number - 1].jobs[path]._replace(status="done", result=CANCELLED))
        self._leave(entity)

    def _leave(self, entity: Entity) -> None:
        """Takes `entity` out of its group, which the next one then holds."""
        for group, queue in list(self.groups.items()):
            if entity not in queue:
                continue
            held = queue[0] == entity
            rest = tuple(one for one in queue if one != entity)
            if held and len(rest) > 1 and not self.holds("queue-order"):
                rest = (rest[-1], *rest[:-1])
            self.groups[group] = rest
            if not rest:
                del self.groups[group]
            elif held:
                number, path = rest[0]
                if path:
                    self._admit(number, path)
                else:
                    self._go(number)

    # Jobs.

    def _put(self, number: int, path: str, job: JobState) -> None:
        run = self.runs[number - 1]
        self.runs[number - 1] = run._replace(jobs=Frozen({**run.jobs, path: job}))

    def _settle(self) -> None:
        """Plays everything that happens by itself."""
        moved = True
        while moved:
            moved = False
            for number in range(1, len(self.runs) + 1):
                if self.runs[number - 1].status == "going":
                    moved |= self._settle_run(number)

    def _settle_run(self, number: int) -> bool:
        moved = False
        for path in list(self.runs[number - 1].jobs):
            run = self.runs[number - 1]
            job = run.jobs[path]
            if job.status == "blocked" and self._ready(run, path):
                self._decide(number, path)
                moved = True
            elif job.status == "open" and all(run.jobs[one].is_done for one in parts(run, path)):
                self._close(number, path)
                moved = True
        run = self.runs[number - 1]
        if all(job.is_done for path, job in run.jobs.items() if not container(path)):
            self.runs[number - 1] = run._replace(status="done")
            self.said.append(f"run {number} ends: {self.runs[number - 1].conclusion}")
            self._leave((number, ""))
            moved = True
        return moved

    def _ready(self, run: Run, path: str) -> bool:
        prefix, outer = path[: path.rfind("/") + 1], container(path)
        begun = not outer or run.jobs[outer].status == "open"
        return begun and all(run.jobs[prefix + need].is_done for need in self.tree.job(run.file, path).needs)

    def _wanted(self, number: int, path: str) -> bool:
        run = self.runs[number - 1]
        text = self.tree.job(run.file, path)
        return condition(text.condition, {**self._contexts(run, path), "status()": self._status(run, path)})

    def _decide(self, number: int, path: str) -> None:
        """Starts or skips a job whose needs have ended. GitHub fails one whose expressions it cannot evaluate."""
        try:
            self._start_or_skip(number, path)
        except ExpressionError:
            self.said.append(f"`{path}` of run {number} fails: GitHub cannot evaluate its expressions")
            self._put(number, path, self.runs[number - 1].jobs[path]._replace(status="done", result=FAILURE))

    def _start_or_skip(self, number: int, path: str) -> None:
        run = self.runs[number - 1]
        job, text = run.jobs[path], self.tree.job(run.file, path)
        if not is_leg(path) and not self._wanted(number, path):
            self._put(number, path, job._replace(status="done", result=SKIPPED))
            return
        if text.matrix is not None and not is_leg(path):
            self._expand(number, path)
        elif text.calls:
            self._call(number, path)
        else:
            self._let_through(number, path)

    def _expand(self, number: int, path: str) -> None:
        run = self.runs[number - 1]
        job = run.jobs[path]
        legs = evaluated(self.tree.job(run.file, path).matrix, self._contexts(run, path))
        assert len(legs) <= 256, (path, len(legs))
        self._put(number, path, job._replace(status="open"))
        for index, leg in enumerate(legs):
            if f"{path}#{index}" not in run.jobs:
                self._put(number, f"{path}#{index}", JobState(matrix=json.dumps(leg), attempt=job.attempt))

    def _call(self, number: int, path: str) -> None:
        run = self.runs[number - 1]
        job, text = run.jobs[path], self.tree.job(run.file, path)
        inputs = self.tree.files[text.calls]["on"]["workflow_call"].get("inputs") or {}
        contexts = {**self._contexts(run, path), "matrix": job.matrix, "strategy": "{}"}
        given = evaluated(text.body.get("with", {}), contexts)
        assert given.keys() <= inputs.keys(), (path, given.keys() - inputs.keys())
        missing = [name for name, one in inputs.items() if one.get("required") and name not in given]
        assert not missing, (path, missing)
        values = {name: typed(one, given.get(name)) for name, one in inputs.items()}
        self._put(number, path, job._replace(status="open", given=json.dumps(values)))
        for inner in () if parts(run, path) else self.tree.files[text.calls]["jobs"]:
            self._put(number, f"{path}/{inner}", JobState(attempt=job.attempt))

    def _close(self, number: int, path: str) -> None:
        """Ends a call or a matrix all of whose jobs have ended."""
        run = self.runs[number - 1]
        inside = parts(run, path)
        results = {run.jobs[one].result for one in inside}
        result = next((one for one in (CANCELLED, FAILURE, SUCCESS) if one in results), SKIPPED)
        if FAILURE in results and not run.cancelled:
            result = FAILURE
        text = self.tree.job(run.file, path)
        outputs: dict[str, Any] = {}
        if text.calls and not (text.matrix is not None and not is_leg(path)):
            declared = self.tree.files[text.calls]["on"]["workflow_call"].get("outputs") or {}
            inner = ((one.rpartition("/")[2], run.jobs[one]) for one in inside)
            jobs = ", ".join(f'"{name}": {told(job.result, job.outputs)}' for name, job in inner)
            contexts = {**self._common(run), "jobs": f"{{{jobs}}}", "inputs": run.jobs[path].given}
            outputs = {name: text_of(one["value"], contexts) for name, one in declared.items()}
        else:
            for one in inside:
                outputs |= json.loads(run.jobs[one].outputs)
        self._put(number, path, run.jobs[path]._replace(status="done", result=result, outputs=json.dumps(outputs)))

    def _let_through(self, number: int, path: str) -> None:
        """A job whose condition holds enters its group and asks for its approval."""
        run = self.runs[number - 1]
        where = self._runs_on(run, path)
        if word := self._paused(where, run.event.branch):
            self.violate(
                "a pause ignored", f"`{path}` of run {number} is let through to {where} although {word} is paused"
            )
        self._put(number, path, run.jobs[path]._replace(status="approval"))
        text = self.tree.job(run.file, path)
        group_first = not ("concurrency" in text.body and self._guarded(run, path)) or self.holds(
            "approval-holds-group"
        )
        if "concurrency" in text.body and group_first:
            self._ask_group(number, path)
        else:
            self._admit(number, path)

    def _ask_group(self, number: int, path: str) -> None:
        run = self.runs[number - 1]
        concurrency = self.tree.job(run.file, path).body["concurrency"]
        contexts = {**self._contexts(run, path), "matrix": run.jobs[path].matrix, "strategy": "{}"}
        group = text_of(concurrency["group"], contexts).lower()
        self._put(number, path, run.jobs[path]._replace(status="group"))
        if group == run.group or not self._enter(group, (number, path), concurrency, contexts):
            if group == run.group:
                self.said.append(f"`{path}` of run {number} waits for the group that its own run holds")
            return
        self._admit(number, path)

    def _admit(self, number: int, path: str) -> None:
        """A job asks for its approval, or begins."""
        run = self.runs[number - 1]
        job, text = run.jobs[path], self.tree.job(run.file, path)
        if not self._in_environment(number, path):
            return
        run = self.runs[number - 1]
        if not job.approved and self._guarded(run, path):
            name = self._environment(run, path)
            if name not in run.approved or self.holds("approval-each-job"):
                self.runs[number - 1] = run._replace(asked=run.asked + 1)
                self._put(number, path, job._replace(status="approval"))
                return
        if "concurrency" in text.body and not any((number, path) in queue for queue in self.groups.values()):
            self._put(number, path, job._replace(approved=True))
            self._ask_group(number, path)
            return
        self._begin(number, path)

    def _in_environment(self, number: int, path: str) -> bool:
        """Whether the job may enter its environment, which GitHub may create; else it fails."""
        run = self.runs[number - 1]
        name = self._environment(run, path)
        if not name:
            return True
        there = self.world.environments.get(name)
        refused = there is None and not self.holds("missing-environment")
        if there is not None and there.branches and run.event.branch not in there.branches:
            refused = self.holds("environment-branches")
        if refused:
            self.said.append(f"`{path}` of run {number} fails: the environment {name} does not let it in")
            self._put(number, path, run.jobs[path]._replace(status="done", result=FAILURE))
            self._leave((number, path))
        return not refused

    def _environment(self, run: Run, path: str) -> str:
        name = self.tree.job(run.file, path).environment
        if "${{" not in (name or ""):
            return name or ""
        return text_of(name, {**self._contexts(run, path), "matrix": run.jobs[path].matrix})

    def _guarded(self, run: Run, path: str) -> bool:
        there = self.world.environments.get(self._environment(run, path))
        return there is not None and there.reviewers

    def _begin(self, number: int, path: str) -> None:
        run = self.runs[number - 1]
        text = self.tree.job(run.file, path)
        if "timeout-minutes" not in text.body:
            self.violate("a job that waits for ever", f"`{path}` of run {number} begins without a time limit")
        published = frozenset((one.variant, one.commit) for one in self.published) if text.publishes else frozenset()
        pause = self._variables(run) if text.reads_variables else ""
        self._put(number, path, run.jobs[path]._replace(status="running", seen=(pause, published)))

    def _paused(self, where: str, branch: str) -> str:
        """The word of the pause in force that concerns a machine; '' for none."""
        words = self.tree.pausing(where, branch)
        return next((word for word in self.pause.split() if word in words), "")

    def _runs_on(self, run: Run, path: str) -> str:
        contexts = {**self._contexts(run, path), "matrix": run.jobs[path].matrix, "strategy": "{}"}
        return json.dumps(evaluated(self.tree.job(run.file, path).body["runs-on"], contexts))

    # Contexts.

    def _common(self, run: Run) -> dict[str, str]:
        return {"github": github(run.event, run.number, run.attempt, run.file), "vars": variables(self._variables(run))}

    def _variables(self, run: Run) -> str:
        if run.attempt > 1 and run.pause != self.pause:
            return self.pause if self.holds("variables-rerun") else run.pause
        return self.pause

    def _contexts(self, run: Run, path: str) -> dict[str, str]:
        outer = caller(path)
        prefix = path[: path.rfind("/") + 1]
        needs = ((one, run.jobs[prefix + one]) for one in self.tree.job(run.file, path).needs)
        ended = ", ".join(f'"{name}": {told(job.result, job.outputs)}' for name, job in needs)
        inputs = run.jobs[outer].given if outer else run.event.inputs
        return {**self._common(run), "inputs": inputs, "needs": f"{{{ended}}}"}

    def _status(self, run: Run, path: str) -> str:
        """What the status functions speak of: the run, and the results of all jobs above."""
        if run.cancelled:
            return CANCELLED
        results = {run.jobs[one].result for one in ancestors(self.tree, run.file, path)}
        if FAILURE in results:
            return FAILURE
        if CANCELLED in results and not self.holds("pending-cancelled"):
            return CANCELLED
        return SUCCESS if results <= {SUCCESS} else SKIPPED

    # Waves.

    def wave_moves(self, number: int, path: str) -> list[str]:
        """What a job that starts waves can do next: start one, hand over to a new run, or end; nothing if it waits."""
        request, runs = request_of(self.runs[number - 1]), [run for run in self.runs if is_of_shard(run)]
        own = {run.file for run in runs if request_of(run) == request}
        missing = [shard for wave in self.world.waves for shard in wave if f"{shard}.yml" not in own]
        if any(not run.is_done for run in runs if request_of(run) == request):
            return ["hands over"] if self.mishaps else []
        if not missing:
            return ["ends"]
        if self.runs[number - 1].jobs[path].seen[0]:
            return [] if self.pause else ["hands over"]
        return [] if any(not run.is_done and request_of(run) for run in runs) else ["starts a wave"]

    def wave(self, number: int, path: str, move: str) -> None:
        """Makes one of these moves."""
        run = self.runs[number - 1]
        inputs, request = json.loads(run.event.inputs), request_of(run)
        if move == "hands over":
            self.mishaps -= bool(self.mishaps)
            self.dispatch(run.file, run.event.branch, f"`{path}` of run {number}", **{**inputs, "request": request})
        if move != "starts a wave":
            self.finish(number, path)
            return
        started = {one.file for one in self.runs if request_of(one) == request}
        wave = next(wave for wave in self.world.waves if any(f"{shard}.yml" not in started for shard in wave))
        for shard in (one for one in wave if f"{one}.yml" not in started):
            branch = next(one.branch for one in self.tree.plan.shards if one.name == shard)
            order = {"variant": "all", "publish": inputs["publish"], "request": request}
            self.dispatch(f"{shard}.yml", branch, f"`{path}` of run {number}", **order)

    # The end of a job.

    def outcomes(self, number: int, path: str) -> Iterator[tuple[str, int]]:
        """How a running job may end: ('', 0) is well; anything else is a mishap at a step."""
        yield "", 0
        run = self.runs[number - 1]
        if self.mishaps:
            for index, step in enumerate(self.tree.job(run.file, path).body["steps"]):
                for mishap in meaning_of(step).mishaps:
                    yield mishap, index

    def finish(self, number: int, path: str, mishap: str = "", at: int = 0) -> None:
        """Plays the steps of a running job, and ends it."""
        run = self.runs[number - 1]
        text = self.tree.job(run.file, path)
        self.mishaps -= bool(mishap)
        standing = Standing(play=self, run=run, path=path, contexts=self._step_contexts(run, path))
        status, outcomes, steps = SUCCESS, dict[str, Any](), "{}"
        for index, step in enumerate(text.body["steps"]):
            contexts = {**standing.contexts, "steps": steps, "status()": status}
            if not condition(str(step.get("if", "success()")), contexts):
                continue
            strikes = bool(mishap) and index == at
            if strikes and mishap == "overran":
                status = CANCELLED
                continue
            try:
                outputs = standing.perform(step, contexts, fails=strikes and mishap == "fails")
                if "id" in step:
                    outcomes[step["id"]] = {"outputs": outputs, "outcome": SUCCESS, "conclusion": SUCCESS}
                    steps = json.dumps(outcomes)
            except (StepFailedError, ExpressionError) as failed:
                if not step.get("continue-on-error"):
                    self.said.append(f"`{path}` of run {number}: {failed}")
                    status = FAILURE
            if strikes and mishap == "lost":
                status = FAILURE
                break
        self._end(number, path, status, text_outputs(text, {**standing.contexts, "steps": steps}))
        what = f" ({mishap} at `{text.body['steps'][at].get('name')}`)" if mishap else ""
        self.said.insert(0, f"`{path}` of run {number} ends: {status}{what}")

    def _end(self, number: int, path: str, result: str, outputs: dict[str, str]) -> None:
        run = self.runs[number - 1]
        job = run.jobs[path]
        kept = json.loads(job.kept)
        if any(value and not outputs.get(name) for name, value in kept.items()) and self.holds("output-kept"):
            outputs = {name: outputs.get(name) or kept.get(name, "") for name in {**kept, **outputs}}
        self._put(
            number,
            path,
            job._replace(status="done", result=result, outputs=json.dumps(outputs), seen=("", frozenset())),
        )
        self._leave((number, path))

    def _step_contexts(self, run: Run, path: str) -> dict[str, str]:
        job = run.jobs[path]
        text = self.tree.job(run.file, path)
        hosted = text.asks_runner and "self-hosted" not in self._runs_on(run, path)
        return {
            **self._contexts(run, path),
            "vars": variables(job.seen[0]),
            "matrix": job.matrix,
            "strategy": json.dumps({"job-index": int(path.rpartition("#")[2])}) if is_leg(path) else "{}",
            "secrets": json.dumps(dict.fromkeys(self._secrets(run, path), "secret")),
            "runner": f'{{"environment": "{"github" if hosted else "self"}-hosted"}}',
        }

    def _secrets(self, run: Run, path: str) -> list[str]:
        """The secrets of the job's environment, which a called job gets if each of its callers passes their names."""
        there = self.world.environments.get(self._environment(run, path))
        if there is None or not there.secrets or not self.tree.job(run.file, path).uses_secrets:
            return []
        callers = [self.tree.job(run.file, one) for one in containers(path)]
        passed = [one.body.get("secrets", {}) for one in callers if one.calls]
        names = [name for name in self.tree.secrets if all(one == "inherit" or name in one for one in passed)]
        return names if not passed or self.holds("called-secret") else []

    # Artifacts.

    def upload(self, number: int, name: str, files: tuple[Any, ...], *, overwrite: bool = False) -> None:
        """Keeps an artifact of the run. Raises StepFailedError where its name is taken."""
        run = self.runs[number - 1]
        taken = [one for one in run.artifacts if one.name == name]
        own = any(one.attempt == run.attempt for one in taken)
        if taken and not overwrite and (own or not self.holds("artifact-again")):
            raise StepFailedError(f"an artifact {name} exists")
        rest = tuple(one for one in run.artifacts if not (overwrite and one.name == name))
        self.runs[number - 1] = run._replace(artifacts=(*rest, Artifact(run.attempt, name, files)))

    def artifacts(self, number: int, *, token: bool = False) -> dict[str, tuple[Any, ...]]:
        """What a download of the run finds, by name."""
        run = self.runs[number - 1]
        found: dict[str, tuple[Any, ...]] = {}
        for one in run.artifacts:
            if one.attempt != run.attempt and not self._finds_earlier(run.rerun, token=token):
                continue
            if one.name not in found or self.holds("artifact-newest"):
                found[one.name] = one.files
        return found

    def _finds_earlier(self, kind: str, *, token: bool) -> bool:
        if kind == ALL:
            return self.holds("artifact-anew-token") if token else not self.holds("artifact-anew")
        if token:
            return self.holds("artifact-rerun-token")
        return self.holds("artifact-rerun-failed" if kind == FAILED else "artifact-rerun")


def text_outputs(text: JobText, contexts: JsonTexts) -> dict[str, str]:
    """The outputs of a job."""
    return {name: text_of(value, contexts) for name, value in text.body.get("outputs", {}).items()}


def is_of_shard(run: Run) -> bool:
    """Whether a run belongs to a shard, by the form that started it."""
    return run.event.name == "push" or '"only"' in run.event.inputs


def request_of(run: Run) -> str:
    """The request for waves that a run belongs to; '' for none."""
    request = str(json.loads(run.event.inputs).get("request") or "")
    return request or ("" if is_of_shard(run) else str(run.number))


def _entity(entity: Entity) -> str:
    number, path = entity
    return f"`{path}` of run {number}" if path else f"run {number}"


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words) or "nothing"
