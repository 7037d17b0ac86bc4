"""File names, guards and expressions that several workflows share."""

from __future__ import annotations

from collections.abc import Mapping

from ci_compiler.plan.pause import PAUSE_VARIABLE, WORDS
from ci_compiler.plan.sharding import FOLDER
from ci_compiler.spec.model import RunsOn, Spec
from ci_compiler.stages import Stage
from ci_compiler.workflows.writer import Node

VARIANT = "variant.yml"
CELL = "cell.yml"
JOINED = "joined.yml"
PULL_REQUEST = "pull-request.yml"
FLEET_WATCH = "fleet-watch.yml"
WAVES = "waves.yml"
SCHEDULE = "schedule.yml"
PUSH_BATCH = "push-batch.yml"
NIGHTLY_FILE = "nightly.yml"
RELEASE_FILE = "release.yml"
SYNC = "sync.yml"
UPDATE = "update.yml"
PAGES = "pages.yml"
PAGES_SCHEDULE = "pages-schedule.yml"
SHARD_SELECT = "shard-select.yml"
SHARD_PREFLIGHT = "shard-preflight.yml"
SHARD_PUBLISH = "shard-publish.yml"
SHARD_VERDICT = "shard-verdict.yml"
SETUP_ACTION = ".github/actions/setup-ci-compiler"

OWN_EVENTS = frozenset({"push", "schedule", "workflow_dispatch"})
"""The events whose runs have the code of the repository's own branches."""

WORKFLOW_TOKEN = "WORKFLOW_TOKEN"  # noqa: S105
"""The environment variable with the token of the workflow itself, in a step that has another token as well."""

SELECT = "select"
"""The job that chooses the variants of a run."""

SELECTED = "selected"
"""The input of called workflows with what `SELECT` said, or of a leg of it, as one JSON object."""


def selected(key: str) -> str:
    """The value of `key` in the input `SELECTED`, as part of an expression."""
    return f"fromJSON(inputs.{SELECTED}).{key}"


REPORTED = "reported"
"""The input of called workflows with what the jobs before the caller reported, as the JSON of its context `needs`."""

LEGS = "legs"
"""The value in `SELECTED` with the variants that other legs of a matrix build, as JSON; '' outside of pull requests."""

VERSIONS = "versions"
"""The output of `SELECT`, and the input of called workflows, with the versions that a run decided on."""

LEFT_OUT = "left-out"
"""The output of `SELECT` with the tests that the profile of the run leaves out, separated by blanks."""


def left_out(spec: Spec, stage: Stage) -> str:
    """An expression that is true if the profile of the run leaves `stage` out; '' where no profile leaves tests out."""
    return f"contains(format(' {{0}} ', {selected(LEFT_OUT)}), ' {stage} ')" if spec.profiles.leaves_tests_out else ""


COMPLETE = "complete"
"""The output of `SELECT` with the name of the artifact in which the run notes what it completed."""

VERDICT = "verdict"
"""The job that states whether a run succeeded."""

# Assumes `fork-request`.
FORK_GUARD = (
    "(github.event_name != 'pull_request' || github.event.pull_request.head.repo.full_name == github.repository)"
)
"""False for a pull request from a fork, whose code must never reach a self-hosted machine."""


RUN_GUARD = "(github.event_name == 'push' || github.event_name == 'workflow_dispatch')"
"""False for every event of a change that is not merged."""


def in_own_repository(spec: Spec) -> str:
    """An expression that is false in a fork of the repository, where the compiled workflows do nothing."""
    # Assumes `schedule-fork`.
    return f"github.repository == '{spec.repository}'" if spec.repository else "!github.event.repository.fork"


def expression(text: str) -> str:
    """`text` as an expression that GitHub evaluates."""
    return f"${{{{ {text} }}}}"


def input_not_paused(branch: str, pool: str) -> str:
    """An expression that is false while jobs of `branch` on `pool`, two expressions, are paused (`plan.pause`)."""
    # Assumes `called-variables`.
    words = (_word(form, {"{branch}": branch, "{pool}": pool}) for form in WORDS)
    return " && ".join(f"!contains(format(' {{0}} ', vars.{PAUSE_VARIABLE}), {word})" for word in words)


def _word(form: str, names: Mapping[str, str]) -> str:
    """The expression of a word, with the values of the expressions `names` in their places."""
    used = [name for name in names if name in form]
    for number, name in enumerate(used):
        form = form.replace(name, f"{{{number}}}")
    return f"format(' {form} ', {', '.join(map(names.__getitem__, used))})" if used else f"' {form} '"


TOKEN = {"GITHUB_TOKEN": expression("github.token")}
"""The variable of a step with the token of the workflow."""

PAUSED = {PAUSE_VARIABLE: expression(f"vars.{PAUSE_VARIABLE}")}
"""The variable of a step with the words in force when its job began; no token of a workflow may read variables."""


def local(workflow: str) -> str:
    """The `uses:` of another compiled workflow."""
    # Assumes `nested-calls`.
    return f"./{FOLDER}/{workflow}"


def result_of(job: str) -> str:
    """How `job` of a called workflow ended, for an output of that workflow (actionlint 1.7 does not know `result`)."""
    # Assumes `called-result`.
    return expression(f"fromJSON(toJSON(jobs.{job})).result")


# A concurrency group is `queued` or `latest`. GitHub's default is neither: a new request cancels the one that waits.


def queued(group: str) -> dict[str, Node]:
    """The `concurrency:` of requests that wait for each other, of which none is lost while at most a hundred wait."""
    # Assumes `queue-max`, `queue-order`.
    return {"group": group, "cancel-in-progress": False, "queue": "max"}


def latest(group: str) -> dict[str, Node]:
    """The `concurrency:` of requests of which only the newest counts: it cancels those before it."""
    # Assumes `pending-replaced`.
    return {"group": group, "cancel-in-progress": True}


def for_each(legs: Node) -> dict[str, Node]:
    """The `strategy:` of a job with `legs`, of which each runs to its end."""
    # Assumes `matrix-from-output`.
    return {"fail-fast": False, "matrix": {"include": legs}}


def runs_on(where: RunsOn) -> str | list[str] | dict[str, str | list[str]]:
    """The value of `runs-on:` that addresses `where`."""
    # Assumes `runs-on-group`, `all-labels`.
    if where.scale_set:
        return where.scale_set
    labels = list(where.labels)
    if not where.group:
        return labels
    return {"group": where.group, "labels": labels} if labels else {"group": where.group}
