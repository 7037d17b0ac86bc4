"""`fork.yml`: builds the pull request of a fork after a maintainer commented `/build` and the commit's hash.

It exists if a pool is `untrusted`. GitHub starts it for every comment, at the default branch's own commit, so that no
file of the fork is a workflow, an action or a spec here. What could go wrong, and what prevents it:

- A stranger comments: *Select* asks GitHub what the author may do now; nothing but `write` or more counts.
- The fork pushes after the maintainer read the code: the comment has the whole hash, which must be the present head.
- The commit edits a workflow, an action, a hook, the spec or a template: such a commit is refused whole, by an allow
  list of recipes and declared sources (`sync.fork_code`). Each job applies the list again.
- The code takes a secret: no job has one, and the checkouts leave no credential behind. The token of the jobs that see
  the code may only read the contents of the repository.
- The code stays on a machine: only pools that are `untrusted` take these jobs, in a new container with a fresh store.
  The hook of every other machine refuses them.
- A bad build reaches users or tests: nothing is written to the cache, attested or published, and no record of a test is
  read or written. These artifacts belong to this run, which publishes nothing.
- The result is forged: the comment and the status come from what GitHub says of the jobs. No file that the code could
  have written is read by a job that may write.
- Text of the fork is rendered or run: it passes through `env`, is escaped as Markdown, and is a path at most.
- Comments cancel each other: each comment has a concurrency group of its own. Only the jobs that write the comment of
  one pull request wait for each other.

GitHub gives every job a token for the artifacts and caches of its run, which code on the machine could take. Workflows
that hold secrets must therefore not use `actions/cache`; the compiled ones do not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ci_compiler.plan.fork_selection import ForkLeg, fork_minutes, fork_stages
from ci_compiler.plan.needs import hands_files
from ci_compiler.plan.pause import ALL_WORD, PAUSE_VARIABLE
from ci_compiler.plan.sharding import joins_any
from ci_compiler.spec.model import Spec
from ci_compiler.stages import Stage
from ci_compiler.workflows.common import (
    BUILD_COMMAND,
    COMMIT,
    PAUSED,
    SELECT,
    TOKEN,
    expression,
    for_each,
    queued,
    runs_on,
)
from ci_compiler.workflows.model import READ, Job, RunStep, Step, Workflow
from ci_compiler.workflows.steps import SET_UP_NIX, SETUP, checkout, hosted_job, upload
from ci_compiler.workflows.writer import Remarked

FILE = "fork.yml"
TRIGGER_REASON = (
    f"dangerous-triggers: {FILE} runs the default branch's own files, for maintainers alone, and gives the jobs that",
    "see the fork's code no secret and no permission to write.",
)
"""Why zizmor's rule about its trigger does not apply."""

BUILD_JOB = "build"
BUILD_STEP = "Build"
STATUS = "Build of a fork"
"""The name of the status of the fork's commit."""

REQUEST, MATRIX = "request", "matrix"
"""The outputs of the selection: what the comment and the status say, as JSON, and the legs of the matrix."""

_CHECKED_OUT = "Check out the fork's recipes and sources"


def workflow(spec: Spec) -> Workflow:
    """`fork.yml`."""
    chosen = f"needs.{SELECT}.outputs.{MATRIX} != '[]'"
    checks = {"recipes": _recipes(spec, chosen)} if spec.backend.has_recipes else {}
    asked = f"needs.{SELECT}.outputs.{REQUEST} != ''"
    jobs = {
        SELECT: _select(spec),
        "begin": _report(spec, "Say what is built", [SELECT], asked),
        **checks,
        BUILD_JOB: _build(spec, [SELECT, *checks], chosen),
        "report": _report(
            spec,
            "Say how it ended",
            [SELECT, "begin", *checks, BUILD_JOB],
            f"always() && {asked} && {chosen}",
            ended=True,
        ),
    }
    return Workflow(
        name="build a fork",
        # Assumes `comment-file`, `comment-rights`.
        on={"issue_comment": {"types": ["created"]}},
        concurrency=queued(f"fork-comment-{expression('github.event.comment.id')}"),
        jobs=jobs,
    )


def legs(found: Iterable[ForkLeg], branch: str, onto: str, commit: str) -> list[dict[str, Any]]:
    """The legs of the matrix of the job `BUILD_JOB`."""
    return [
        {
            "number": number,
            "title": leg.title,
            "on": json.dumps(runs_on(leg.pool.runs_on)),
            "branch": branch,
            "onto": onto,
            "fork": commit,
            "built": leg.built[0] if leg.cell.joined else " ".join(leg.built),
            **({"into": "/"} if leg.cell.joined else {}),
            "chosen": " ".join(leg.chosen),
            "tests": [stage.name for stage in leg.tests],
        }
        for number, leg in enumerate(found)
    ]


def test_step(stage: Stage) -> str:
    """The name of the step that runs `stage`."""
    return f"Run {stage}"


def _select(spec: Spec) -> Job:
    """The job that judges the comment and chooses what is built. It reads the fork's commit as data, and runs none."""
    event = f"github.event.issue.pull_request != null && startsWith(github.event.comment.body, '{BUILD_COMMAND}')"
    env = TOKEN | PAUSED
    choose = RunStep(name="Judge the comment", id="choose", env=env, run="ci-compile choose --fork")
    return hosted_job(
        spec,
        "Select",
        if_=expression(event),
        permissions=READ | {"pull-requests": Remarked("read", "the head of the pull request")},
        outputs={key: expression(f"steps.choose.outputs.{key}") for key in ("commit", REQUEST, MATRIX)},
        steps=[checkout(history=True), SETUP, choose],
    )


def _recipes(spec: Spec, chosen: str) -> Job:
    """The job that evaluates the recipes on a hosted machine, with the checks of every pull request."""
    env = {
        "BRANCH": expression(f"fromJSON(needs.{SELECT}.outputs.{MATRIX})[0].branch"),
        "ONTO": expression(f"fromJSON(needs.{SELECT}.outputs.{MATRIX})[0].onto"),
        "FORK": expression(f"fromJSON(needs.{SELECT}.outputs.{MATRIX})[0].fork"),
    }
    audit = RunStep(name="Audit", run='ci-compile audit . --branch "$BRANCH" --nixpkgs real --since "${ONTO%%..*}"')
    return hosted_job(
        spec,
        "Recipes are sound",
        minutes=30,
        needs=[SELECT],
        if_=expression(chosen),
        env=env,
        steps=[*_checked_out(), SET_UP_NIX, audit],
    )


def _checked_out(*, hosted: bool = True) -> list[Step]:
    """The steps that check out the base branch with the fork's recipes and sources."""
    take = RunStep(name=_CHECKED_OUT, run='ci-runner checkout --branch "$BRANCH" --onto "$ONTO" --fork "$FORK"')
    return [checkout(COMMIT, history=True), *([SETUP] if hosted else []), take]


def _build(spec: Spec, needs: list[str], chosen: str) -> Job:
    """The jobs that build and test the cells, each on one machine of a pool for untrusted code."""
    keys = {"BRANCH": "branch", "ONTO": "onto", "FORK": "fork", "BUILT": "built", "CHOSEN": "chosen"}
    keys |= {"INTO": "into"} if joins_any(spec) else {}
    keep = upload("Keep the logs", f"fork-{expression('matrix.number')}", "fork-output/")
    paused = f"contains(format(' {{0}} ', vars.{PAUSE_VARIABLE}), ' {ALL_WORD} ')"
    # Assumes `runs-on-json`.
    return Job(
        name=expression("matrix.title"),
        needs=needs,
        if_=expression(f"{chosen} && !{paused}"),
        strategy=for_each(expression(f"fromJSON(needs.{SELECT}.outputs.{MATRIX})")),
        runs_on=expression("fromJSON(matrix.on)"),
        timeout_minutes=fork_minutes(spec),
        permissions=READ,
        env={name: expression(f"matrix.{key}") for name, key in keys.items()},
        steps=[
            *_checked_out(hosted=False),
            _build_step(spec),
            *(_test(spec, stage) for stage in fork_stages(spec)),
            keep,
        ],
    )


def _build_step(spec: Spec) -> RunStep:
    """The step that builds. A build that makes several variants leaves a folder for each."""
    into = "${INTO:-/$NAME}" if joins_any(spec) else "/$NAME"
    return RunStep(
        name=BUILD_STEP,
        run=f"""\
for NAME in $BUILT; do
  export NAME
  ci-runner doctor --for build "$NAME"
  ci-runner build "$NAME" --branch "$BRANCH" --out "fork-output{into}" --unshared{_needs(spec)}
done
""",
    )


def _needs(spec: Spec) -> str:
    """The option with what was built before on the machine."""
    return " --needs fork-output" if hands_files(spec) else ""


def _test(spec: Spec, stage: Stage) -> RunStep:
    return RunStep(
        name=test_step(stage),
        if_=expression(f"contains(matrix.tests, '{stage}')"),
        run=f"""\
for NAME in $CHOSEN; do
  export NAME
  ci-runner doctor --for {stage} "$NAME"
  ci-runner smoke "$NAME" --stage {stage} --manifest "fork-output/$NAME/manifest.json" \\
    --out "fork-output/$NAME/{stage}" --again --unshared{_needs(spec)}
done
""",
    )


def _report(spec: Spec, name: str, needs: list[str], condition: str, *, ended: bool = False) -> Job:
    """A job that writes the comment and the status. It reads no artifact, and nothing of the fork is checked out."""
    tell = RunStep(
        name="Write the comment and the status",
        env=TOKEN | {"REQUEST": expression(f"needs.{SELECT}.outputs.{REQUEST}")},
        run=f'ci-compile comment --fork "$REQUEST"{" --ended" if ended else ""}',
    )
    return hosted_job(
        spec,
        name,
        needs=needs,
        if_=expression(condition),
        permissions=READ
        | ({"actions": Remarked("read", "how the jobs of this run ended")} if ended else {})
        | {
            "pull-requests": Remarked("write", "the comment"),
            "statuses": Remarked("write", "the status of the commit"),
        },
        concurrency=queued(f"fork-{expression('github.event.issue.number')}"),
        steps=[checkout(), SETUP, tell],
    )
