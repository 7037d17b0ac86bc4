"""Steps and jobs that several workflows share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ci_compiler.plan.complete import may_be_complete
from ci_compiler.plan.pause import PAUSE_VARIABLE
from ci_compiler.spec.model import Spec
from ci_compiler.spec.versions import decides_versions
from ci_compiler.stages import BUILD, Stage
from ci_compiler.workflows.artifacts import COMPLETE_FILE, NEEDS_OUTPUT
from ci_compiler.workflows.common import (
    COMPLETE,
    LEFT_OUT,
    LEGS,
    REPORTED,
    SETUP_ACTION,
    TOKEN,
    VERSIONS,
    expression,
    in_own_repository,
    selected,
)
from ci_compiler.workflows.model import READ, Job, Permissions, RunStep, Step, UsesStep, action_step
from ci_compiler.workflows.writer import Node, Remarked

FINDS_EARLIER: Permissions = READ | {"actions": Remarked("read", "the artifacts of earlier runs")}
"""What a job needs that looks for earlier runs."""

RESULTS = "results"
"""The folder into which a job downloads the artifacts of its run."""

SETUP = UsesStep(name="Set up ci-compiler", uses=f"./{SETUP_ACTION}")
"""Installs `ci-compile` on a hosted machine."""

SET_UP_NIX = action_step("Set up Nix", "cachix/install-nix-action")
"""Installs what evaluates recipes, on a hosted machine."""

NOT_BUILT = "Note that the store already had it"
"""The name of the step that runs if nothing was built, by which the history recognizes such a build."""

NOTE_NOT_BUILT = RunStep(
    name=NOT_BUILT,
    if_=expression("steps.build.outputs.built == 'no'"),
    run='echo "::notice::$NAME was not built: the store or a substituter already had it"',
)


def checkout(ref: str = "", *, history: bool = False, depth: str = "", credentials: bool = False) -> UsesStep:
    """The checkout of `ref` or of the event's own commit, shallow unless `history` or as deep as `depth` says."""
    options: dict[str, Node] = {}
    if ref:
        options["ref"] = ref
    if history or depth:
        options["fetch-depth"] = depth or 0
    options["persist-credentials"] = credentials
    return action_step("Check out", "actions/checkout", options)


def upload(
    name: str, artifact: str, path: str, *, if_: str | None = expression("!cancelled()"), **more: Node
) -> UsesStep:
    """The step that keeps the files at `path`, if there are any, in `artifact`; by default also after a failure.

    `more` are further options of the action.
    """
    # Assumes `artifact-rerun`, `artifact-rerun-failed`, `artifact-again`, `artifact-anew`.
    files: dict[str, Node] = {"name": artifact, "path": path, "if-no-files-found": "ignore", **more}
    return action_step(name, "actions/upload-artifact", files, if_=if_)


def on_hosted(spec: Spec) -> Iterator[Step]:
    """The step that installs `ci-runner` where a pool is of machines that GitHub hosts; others have it."""
    if any(pool.hosted for pool in spec.pools):
        yield replace(SETUP, if_=expression("runner.environment == 'github-hosted'"))


def checked_out(spec: Spec, *, history: bool = False) -> Iterator[Step]:
    """The steps that check out the commit of a called workflow, or what sync would commit from it to the branch.

    The latter needs the tip of the branch, which comes with the history of all branches.
    """
    onto = selected("onto")
    depth = "" if history else expression(f"{onto} == '' && 1 || 0")
    yield checkout(expression(selected("commit")), history=history, depth=depth)
    yield from on_hosted(spec)
    yield RunStep(
        name="Check out what sync would commit to the branch",
        if_=expression(f"{onto} != ''"),
        env={"ONTO": expression(onto)},
        run='ci-runner checkout --branch "$BRANCH" --onto "$ONTO"',
    )


FETCH_NEEDS = "Fetch what it needs"
"""The name of the step that downloads the files of what a variant needs."""


def fetch_needs() -> Iterator[Step]:
    """The steps that download the artifacts of the run that hold the files of what `$NAME` needs."""
    found = "steps.needs.outputs.artifacts"
    yield RunStep(name="Find what it needs", id="needs", run='ci-runner needs "$NAME" --branch "$BRANCH"')
    # Assumes `artifact-patterns`.
    files: dict[str, Node] = {"pattern": expression(found), "path": NEEDS_OUTPUT}
    some = expression(f"{found} != ''")
    yield action_step(FETCH_NEEDS, "actions/download-artifact", files, if_=some)


def leaves_out(spec: Spec) -> bool:
    """Whether the selection leaves out variants that an earlier run completed."""
    return any(may_be_complete(spec, package) for package in spec.packages)


NEEDS_OPTION = f" --needs {NEEDS_OUTPUT}"
"""What a command gets after these steps."""

_PROOF = ' --chosen "$CHOSEN" --reported "$REPORTED" --legs "$LEGS"'
_PROOF_ENVIRONMENT = {
    "CHOSEN": expression(selected("chosen")),
    "REPORTED": f"[{expression(f'inputs.{REPORTED}')}, {expression('toJSON(needs)')}]",
    "LEGS": expression(selected(LEGS)),
}
"""What shows a build which jobs made these files: the digests that they reported to the caller, and to its own job."""


def build_steps(spec: Spec, build: RunStep, kept: Sequence[Step], *, gets_files: bool) -> list[Step]:
    """The steps of a job that builds by the step `build`; `kept` keep the output."""
    return [
        *checked_out(spec),
        _prove(BUILD),
        *(fetch_needs() if gets_files else ()),
        build,
        *kept,
    ]


def before_test(spec: Spec, stage: Stage, fetched: Iterable[Step], fetch: RunStep, *, gets_files: bool) -> list[Step]:
    """The steps that bring what was built to a machine that tests it.

    `fetched` download artifacts, and `fetch` verifies the files or brings the closure.
    """
    return [
        *checked_out(spec, history=bool(stage.neighbours)),
        *fetched,
        _prove(stage),
        fetch,
        *(fetch_needs() if gets_files else ()),
    ]


def _prove(stage: Stage) -> RunStep:
    verb = "test" if stage.is_test else "build"
    return RunStep(name=f"Prove that this machine can {verb} it", run=f'ci-runner doctor --for {stage} "$NAME"')


def build_step(*, gets_files: bool) -> RunStep:
    """The step that builds, with the files of what `$NAME` needs if it gets any."""
    run, env = 'ci-runner build "$NAME" --branch "$BRANCH" --out build-output', dict[str, str]()
    if gets_files:
        run, env = f"{run}{NEEDS_OPTION}{_PROOF}", dict(_PROOF_ENVIRONMENT)
    return RunStep(name="Build", id="build", env=env or None, run=run)


def suite_step(manifest: str, *, gets_files: bool) -> RunStep:
    """The step that runs the shard of a test suite that the leg of a matrix names, for the build of `manifest`."""
    return RunStep(
        name="Run the suite",
        env={"SUITE": expression("matrix.suite"), "SHARD": expression("matrix.shard")},
        run=f'ci-runner suite "$NAME" --suite "$SUITE" --shard "$SHARD" --manifest {manifest} --out test-output'
        + (NEEDS_OPTION if gets_files else ""),
    )


def hosted_job(
    spec: Spec,
    name: str,
    *,
    minutes: int | str = 10,
    permissions: Permissions = READ,
    if_: str | None = None,
    in_forks: bool = False,
    **more: Any,
) -> Job:
    """A job on a GitHub-hosted machine, which ends after `minutes`. `more` are further fields of the job.

    In a fork of the repository it does not run, unless `in_forks`: it has the condition, or needs a job that has it.
    """
    if not in_forks and ("needs" not in more or (if_ and "always()" in if_)):
        if_ = only_here(spec, if_)
    return Job(name=name, if_=if_, runs_on=spec.hosted, timeout_minutes=minutes, permissions=permissions, **more)


def only_here(spec: Spec, condition: str | None = None) -> str:
    """`condition`, an expression or None, for a job that does nothing in a fork of the repository."""
    here = in_own_repository(spec)
    return expression(f"{here} && {condition.removeprefix('${{ ').removesuffix(' }}')}" if condition else here)


def select_job(
    spec: Spec, name: str, choose: RunStep, *outputs: str, ref: str = "", before: Sequence[Step] = ()
) -> Job:
    """The job `name` that chooses the variants: checks out `ref` and runs `choose`.

    `before` are further steps that the command needs. The outputs are the commit, the chosen variants, `outputs` among
    the others that the command writes, and what the verdict needs to know about pauses. It runs in forks too.
    """
    outputs += (VERSIONS,) if decides_versions(spec) else ()
    outputs += (LEFT_OUT,) if spec.profiles.leaves_tests_out else ()
    asks: dict[str, Any] = {}
    if leaves_out(spec):
        outputs += (COMPLETE,)
        asks = {"permissions": FINDS_EARLIER}
        choose = replace(choose, env={**(choose.env or {}), **TOKEN})
    return hosted_job(
        spec,
        name,
        outputs={
            **{key: expression(f"steps.choose.outputs.{key}") for key in ("commit", "chosen", *outputs, _PAUSABLE)},
            _PAUSED: expression(f"vars.{PAUSE_VARIABLE}"),
        },
        steps=[checkout(ref, history=True), SETUP, *before, choose],
        in_forks=True,
        **asks,
    )


def choose_step(arguments: str, env: Mapping[str, str] | None = None) -> RunStep:
    """The step that runs `ci-compile choose` with `arguments`."""
    return RunStep(name="Choose the variants", id="choose", env=env, run=f"ci-compile choose {arguments}")


_PAUSABLE, _PAUSED = "pausable", "paused"
"""The outputs with the words that pause something of the run, and with the words in force when it was selected."""

ENDED = "join(needs.*.result, ' ')"
"""How the jobs ended that a job waits for, as part of an expression."""

_PAUSES = """\
for word in $PAUSED; do
  case " ${PAUSABLE,,} " in
    *" ${word,,} "*) echo "::error::paused by $word: run it again after ci-compile resume"; exit 1 ;;
  esac
done
"""

_ALL_SUCCEEDED = f"""\
for result in $RESULTS; do
  case $result in
    success | skipped) ;;
    *) echo "::error::a chosen job ended as $result"; exit 1 ;;
  esac
done
{_PAUSES}"""
"""A job is skipped if its variants were not chosen, or while it is paused, which the words of the run reveal.

Any other result but success is a failure or a cancelled job.
"""

_NONE_CANCELLED = f"""\
ended=passed
for result in $RESULTS; do
  case $result in
    success | skipped) ;;
    failure) ended=failed ;;
    *) echo "::error::a chosen job ended as $result"; exit 1 ;;
  esac
done
{_PAUSES}echo "ended=$ended" >> "$GITHUB_OUTPUT"
"""
"""The same where the spec expects failures. Whether a failure is one of them is judged in a later step."""

# Assumes `token-reads`.
MAY_LIST_JOBS: Permissions = READ | {"actions": Remarked("read", "which jobs of the run failed")}
"""The permissions of a verdict on failures."""

# Assumes `artifact-newest`.
FETCH_RESULTS = action_step("Fetch the results", "actions/download-artifact", {"pattern": "*", "path": RESULTS})
"""Downloads every artifact of the run into `RESULTS`, each into a folder with its name.

The pattern matches no name that begins with a dot or has a slash (minimatch), so that no artifact leaves the folder.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictParts:
    """What a verdict is about, as parts of expressions.

    `ended` is how the jobs ended, `said` the object with what the selection said, `chosen` the names of the variants as
    a JSON list, and `branch` theirs. `publish`, a whole value, is whether they were to be published. Without `branch`,
    `chosen` is a JSON mapping by branch: the run is that of a pull request.
    """

    ended: str
    said: str
    chosen: str
    publish: str
    branch: str = ""


def verdict_job(
    spec: Spec, name: str, judged: VerdictParts, *, needs: Sequence[str] | None = None, after: Sequence[UsesStep] = ()
) -> Job:
    """The job `name`, which succeeds if every job that is judged succeeded or was skipped, and fails otherwise.

    Where the spec expects failures of tests, these count as successes: GitHub's list of the run's jobs tells them from
    others. The table of the run is written after that, and fails if a stage of a chosen variant left no result: skipped
    jobs count as successes, and a pause that skipped them may be over. `after` are steps that follow, without effect on
    the verdict. It runs in forks too.
    """
    branch = {"BRANCH": expression(judged.branch)} if judged.branch else {}
    values = {"CHOSEN": expression(judged.chosen), **branch}
    note = [_note_complete(judged)] if leaves_out(spec) else []
    noted = [f"--note {COMPLETE_FILE}"] if note else []
    options = ['--chosen "$CHOSEN"', *(['--branch "$BRANCH"'] if branch else [])]
    table = RunStep(
        name="Write the table",
        if_=expression("always()"),
        env={**values, "PUBLISH": judged.publish},
        run=" ".join([f"ci-compile summary {RESULTS}", *options, '--publish "$PUBLISH"', *noted]),
    )
    before_table = [checkout(expression(f"{judged.said}.commit")), SETUP, FETCH_RESULTS]
    judge = [_judge(judged, values, options)] if spec.expected_failures else []
    steps: list[Step] = [_first_of_verdict(spec, judged), *map(_always, before_table), *judge, table, *note]
    steps += map(_always, after)
    # Assumes `always-verdict`.
    permissions = verdict_permissions(spec)
    return hosted_job(
        spec, name, needs=needs, if_=expression("always()"), permissions=permissions, steps=steps, in_forks=True
    )


def _note_complete(judged: VerdictParts) -> UsesStep:
    """The step by which later runs find what a run completed that succeeded."""
    name = f"{judged.said}.{COMPLETE}"
    return upload("Note what is complete", expression(name), COMPLETE_FILE, if_=expression(f"{name} != ''"))


def verdict_permissions(spec: Spec) -> Permissions:
    """What a verdict may do."""
    return MAY_LIST_JOBS if spec.expected_failures else READ


def _first_of_verdict(spec: Spec, judged: VerdictParts) -> RunStep:
    expects = bool(spec.expected_failures)
    return RunStep(
        name="No chosen job was cancelled" if expects else "Every chosen job succeeded",
        id="ended" if expects else None,
        env={
            "RESULTS": expression(judged.ended),
            "PAUSABLE": expression(f"{judged.said}.{_PAUSABLE}"),
            # Assumes `variables-rerun`.
            "PAUSED": expression(f"format('{{0}} {{1}}', {judged.said}.{_PAUSED}, vars.{PAUSE_VARIABLE})"),
        },
        run=_NONE_CANCELLED if expects else _ALL_SUCCEEDED,
    )


def _judge(judged: VerdictParts, values: Mapping[str, str], options: Sequence[str]) -> RunStep:
    """The step that fails unless the spec expects every failure of the run. It runs if something failed."""
    return RunStep(
        name="Every failure is expected",
        if_=expression("steps.ended.outputs.ended != 'passed'"),
        env={**TOKEN, **values, "RESULTS": expression(judged.ended)},
        run=" ".join(
            [f"ci-compile verdict {RESULTS}", *options, '--ended "$RESULTS"', '--run-id "$GITHUB_RUN_ID"'],
        ),
    )


def _always(step: Step) -> Step:
    """`step`, run whatever happened before it, and without effect on the job if it fails."""
    return replace(step, if_=expression("always()"), continue_on_error=True)
