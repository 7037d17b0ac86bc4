"""What the kinds of workflow share: file names, guards, the steps that every job begins with."""

from __future__ import annotations

from ci_compiler.plan.sharding import FOLDER
from ci_compiler.spec.model import RunsOn, Spec, Stage
from ci_compiler.workflows.github import pinned
from ci_compiler.workflows.writer import Node

VARIANT = "variant.yml"
CELL = "cell.yml"
PULL_REQUEST = "pull-request.yml"
FLEET_WATCH = "fleet-watch.yml"
SETUP_ACTION = ".github/actions/setup-ci-compiler"

VERDICT = "verdict"
"""The job that says how a run went."""

FORK_GUARD = (
    "(github.event_name != 'pull_request' || github.event.pull_request.head.repo.full_name == github.repository)"
)
"""False for a pull request from a fork, whose code must never reach a self-hosted machine."""

RESULTS = "results"
"""The folder that a verdict job collects artifacts in."""

READ = {"contents": "read"}


def expression(text: str) -> str:
    """`text` as an expression that GitHub evaluates."""
    return f"${{{{ {text} }}}}"


def local(workflow: str) -> str:
    """The `uses:` of another compiled workflow."""
    return f"./{FOLDER}/{workflow}"


def runs_on(where: RunsOn) -> Node:
    """The `runs-on:` that addresses `where`."""
    if where.scale_set:
        return where.scale_set
    labels = list(where.labels)
    if not where.group:
        return labels
    return {"group": where.group, "labels": labels} if labels else {"group": where.group}


def machine_input(stage: Stage) -> str:
    """The name of the input that says, as JSON for `runs-on`, where `stage` runs: `build-on`."""
    return f"{stage}-on"


def checkout(ref: str = "", *, history: bool = False, credentials: bool = False) -> dict[str, Node]:
    """The checkout step: the event's own commit or `ref`, shallow unless `history`, without credentials."""
    options: dict[str, Node] = {}
    if ref:
        options["ref"] = ref
    if history:
        options["fetch-depth"] = 0
    options["persist-credentials"] = credentials
    return {"name": "Check out", "uses": pinned("actions/checkout"), "with": options}


def setup() -> dict[str, Node]:
    """The step that puts `ci-compile` onto a hosted machine."""
    return {"name": "Set up ci-compiler", "uses": f"./{SETUP_ACTION}"}


def verdict_job(
    spec: Spec, name: str, needs: list[str], *, select: str, branch: str, publish: str, guard: str = ""
) -> dict[str, Node]:
    """The job `name` that is green where every job of `needs` that was to run succeeded, and red otherwise.

    `select` is the job that chose the variants, `branch` theirs, `publish` whether they were to be published; where
    `guard` is false, none were to be built. The table of the run comes behind the verdict, which it cannot change.
    """
    download: dict[str, Node] = {"pattern": "*", "path": RESULTS}
    chosen = f"needs.{select}.outputs.chosen"
    return {
        "name": name,
        "needs": needs,
        "if": expression("always()"),
        "runs-on": spec.hosted,
        "timeout-minutes": 10,
        "permissions": dict(READ),
        "steps": [
            {
                "name": "Every chosen job succeeded",
                "env": {"RESULTS": expression("join(needs.*.result, ' ')")},
                "run": VERDICT_SCRIPT,
            },
            _afterwards(checkout(expression(f"needs.{select}.outputs.commit"))),
            _afterwards(setup()),
            _afterwards(
                {"name": "Fetch what the stages left", "uses": pinned("actions/download-artifact"), "with": download}
            ),
            _afterwards(
                {
                    "name": "Write the table",
                    "env": {
                        "CHOSEN": expression(f"{guard} && {chosen} || '[]'" if guard else chosen),
                        "BRANCH": branch,
                        "PUBLISH": publish,
                    },
                    "run": f'ci-compile summary {RESULTS} --chosen "$CHOSEN" --branch "$BRANCH" --publish "$PUBLISH"',
                }
            ),
        ],
    }


def _afterwards(step: dict[str, Node]) -> dict[str, Node]:
    """`step`, run whatever came before and harmless where it fails."""
    rest = {key: value for key, value in step.items() if key != "name"}
    return {"name": step["name"], "if": expression("always()"), "continue-on-error": True} | rest


VERDICT_SCRIPT = """\
for result in $RESULTS; do
  case $result in
    success | skipped) ;;
    *) echo "::error::a chosen job ended as $result"; exit 1 ;;
  esac
done
"""
"""Skipped is what was not chosen; anything else but success is a failure or a cancelled job."""
