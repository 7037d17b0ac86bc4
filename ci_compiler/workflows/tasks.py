"""The workflows of hosted machines that look after a fleet: they watch it, start builds, carry the spec, publish pages.

Of each, one run is active at a time. Those that the spec does not ask for are not compiled (`render`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ci_compiler.spec.carried import carried_paths, default_branch
from ci_compiler.spec.model import Spec, Sync
from ci_compiler.spec.triggers import NIGHTLY, PROFILE, PUSH, RELEASE, Schedule, Times
from ci_compiler.spec.upstream import Update
from ci_compiler.spec.versions import NIGHT, has_nights
from ci_compiler.workflows.common import (
    NIGHTLY_FILE,
    PAUSED,
    PUSH_BATCH,
    RELEASE_FILE,
    TOKEN,
    WORKFLOW_TOKEN,
    expression,
    queued,
)
from ci_compiler.workflows.model import READ, Job, Permissions, RunStep, Step, Workflow, action_step, input_node
from ci_compiler.workflows.steps import SET_UP_NIX, SETUP, checkout, hosted_job, upload
from ci_compiler.workflows.writer import Node, Remarked


def on_default_branch(spec: Spec) -> str:
    """An expression that is true on the default branch."""
    return f"github.ref == 'refs/heads/{default_branch(spec)}'"


def cron(time: str, days: Iterable[str] = ()) -> dict[str, Node]:
    """The entry of a schedule at `time`, minute and hour in UTC, on `days` as the spec names them (none: on each).

    The minute should not be the first of an hour, when GitHub delays schedules.
    """
    numbers = ",".join(str(_DAYS[day]) for day in sorted(days, key=_DAYS.__getitem__))
    return {"cron": f"{time} * * {numbers or '*'}"}


def at_times(wanted: Times) -> dict[str, Node]:
    """The entry of a schedule at `wanted`. The time zone is left out if it is GitHub's default, UTC."""
    hour, minute = map(int, wanted.at.split(":"))
    # Assumes `schedule-zone`.
    zone: dict[str, Node] = {} if wanted.timezone == "UTC" else {"timezone": wanted.timezone}
    return cron(f"{minute} {hour}", wanted.days) | zone


_DAYS = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}


_On = Mapping[str, Node]
"""The triggers of a workflow."""


def _task(
    spec: Spec, name: str, job: str, title: str, on: _On, *steps: Step, deep: bool = False, **more: Any
) -> Workflow:
    """The workflow `name` with the one job `title`, which runs `steps` in a checkout; `more` are fields of the job.

    `deep`: the checkout has the whole history.
    """
    made = hosted_job(spec, title, steps=[checkout(history=deep), SETUP, *steps], **more)
    return Workflow(name=name, on=on, concurrency=queued(name.replace(" ", "-")), jobs={job: made})


def starts(spec: Spec, file: str, entry: Node) -> Workflow:
    """The workflow that starts that of `file` by the clock.

    In a public repository without activity for 60 days, GitHub disables a workflow file that has a schedule, with all
    of its triggers. So what pushes start as well has its schedule in a file of its own, and stays enabled.
    """
    start = RunStep(
        name=f"Start {file}",
        env={"GH_TOKEN": expression("github.token")},
        run=f'gh workflow run {file} --repo "$GITHUB_REPOSITORY" --ref "$GITHUB_REF_NAME"',
    )
    # Assumes `token-dispatch`.
    permissions: Permissions = {"actions": Remarked("write", f"starts {file}")}
    name = f"{file.removesuffix('.yml')} schedule"
    job = hosted_job(spec, "Start", permissions=permissions, steps=[start])
    concurrency = queued(name.replace(" ", "-"))
    return Workflow(name=name, on={"schedule": [entry]}, concurrency=concurrency, jobs={"start": job})


# fleet-watch.yml

WATCH_ENVIRONMENT = "fleet-watch"
WATCH_SECRET = "FLEET_TOKEN"  # noqa: S105  (the secret's name)
"""A token that may read the runners (administration: read). The environment `WATCH_ENVIRONMENT` holds it."""

_MAY_KEEP_AN_ISSUE = {
    "actions": Remarked("read", "the waiting jobs, the disabled workflows"),
    "issues": Remarked("write", "the issue about what was found"),
}
_MAY_RERUN = {
    "actions": Remarked("write", "the waiting jobs, the disabled workflows, and a second attempt of lost jobs"),
    "checks": Remarked("read", "why a job failed"),
}

_RERUN = RunStep(name="Run the jobs again that lost their runner", env=TOKEN, run="ci-runner rerun")

_COVER = RunStep(
    name="Ask GitHub for the runners",
    env={"GITHUB_TOKEN": expression(f"secrets.{WATCH_SECRET}"), **PAUSED},
    run=f"""\
if [ -z "$GITHUB_TOKEN" ]; then
  echo "::notice::the environment {WATCH_ENVIRONMENT} has no secret {WATCH_SECRET}, so that nothing was checked"
else
  ci-runner coverage --live
fi
""",
)

_WATCH = RunStep(
    name="Ask GitHub for the runners and the queue",
    env={
        "GITHUB_TOKEN": expression(f"secrets.{WATCH_SECRET} || github.token"),
        WORKFLOW_TOKEN: expression("github.token"),
        **PAUSED,
    },
    run="ci-runner coverage --watch --issue",
)


def fleet_watch(spec: Spec) -> Workflow:
    """`fleet-watch.yml`: checks every six hours that a machine serves each label set of the compiled workflows.

    GitHub cancels a job that no machine took within 24 hours, and reports nothing before that. It also disables a
    scheduled workflow of a quiet public repository. Without its token, the check is skipped with a notice. The summary
    of a run also shows what is paused.

    With the key `watch`, it also asks for waiting jobs and missing machines, and keeps an issue about what it finds.
    The token of the workflow reads the queue and writes the issue; without `FLEET_TOKEN`, only the runners are not
    seen.
    """
    watch, permissions = spec.watch, READ
    steps: list[Step] = [_COVER]
    if watch:
        permissions = READ | _MAY_KEEP_AN_ISSUE | (_MAY_RERUN if watch.rerun_lost else {})
        steps = [_RERUN, _WATCH] if watch.rerun_lost else [_WATCH]
    return _task(
        spec,
        "fleet watch",
        "coverage",
        "Every label set is served",
        {"schedule": [cron("23 */6")], "workflow_dispatch": None},
        *steps,
        minutes=20 if watch else 10,
        permissions=permissions,
        environment=WATCH_ENVIRONMENT,
    )


# waves.yml and schedule.yml

MAY_START = READ | {"actions": Remarked("write", "starts the workflows of the shards")}

_MINUTES, _RESERVE = 350, 20
"""The time limit of the job in minutes, and how long before it the job hands over to the next run."""

_REQUEST = expression("inputs.request || github.run_id")

_TEXTS = {
    "patterns": "Names of variants, with the wildcards * ? [] and {a,b}, separated by blanks (all).",
    "branch": "Only this branch.",
    "shard": "Only this shard.",
    "about": "What the run is for, as its title says it.",
    "request": "The request that this run continues.",
}
_SWITCHES = {
    "unpublished": "Only what is not published yet.",
    "publish": "Publish what passes its tests.",
    "again": "Test what passed before, and publish what shows as published.",
}


def waves(spec: Spec) -> Workflow:
    """`waves.yml`: starts shards wave after wave, so that no job waits in a queue until GitHub cancels it.

    It is started by `ci-compile dispatch --waves` and by `schedule.yml`. A run starts one wave at most, and a job of a
    hosted machine ends after 6 hours, so a run that is not done by then starts the next one with the same request. The
    request is in the titles of the runs of the shards, so that a run that was interrupted can be re-run, and starts no
    shard twice.
    """
    texts = _TEXTS | ({NIGHT: "The date of a night (20261123), whose versions have it."} if has_nights(spec) else {})
    texts |= {PROFILE: "The profile that the runs are of."} if spec.profiles.started else {}
    inputs: dict[str, Node] = {name: input_node(text, required=False) for name, text in texts.items()}
    for name, text in _SWITCHES.items():
        inputs[name] = input_node(text, "boolean", required=False, default=False)
    env = {name.upper(): expression(f"inputs.{name}") for name in texts} | {"REQUEST": _REQUEST}
    env |= {name.upper(): expression(f"inputs.{name} && 'yes' || ''") for name in _SWITCHES}
    of_night = ' --night "$NIGHT"' if has_nights(spec) else ""
    of_profile = f' --{PROFILE} "${PROFILE.upper()}"' if spec.profiles.started else ""
    start = RunStep(
        name="Start wave after wave",
        env={**TOKEN, **PAUSED, **env},
        run='ci-compile waves --patterns "$PATTERNS" --branch "$BRANCH" --shard "$SHARD" --about "$ABOUT" '
        f'--request "$REQUEST" --minutes {_MINUTES - _RESERVE} '
        f"${{UNPUBLISHED:+--unpublished}} ${{PUBLISH:+--publish}} ${{AGAIN:+--again}}{of_night}{of_profile}",
    )
    on: dict[str, Node] = {"workflow_dispatch": {"inputs": inputs}}
    may = expression(on_default_branch(spec))
    task = _task(spec, "waves", "waves", "Waves", on, start, minutes=_MINUTES, if_=may, permissions=MAY_START)
    title = f"waves [{_REQUEST}] {expression('inputs.about')}"
    return replace(task, run_name=title)


def schedule(spec: Spec, wanted: Schedule) -> Workflow:
    """`schedule.yml`: starts the scheduled builds of all shards, from a file of its own (`starts`).

    It exists if the spec has `schedule`.
    """
    run = f"ci-compile dispatch --{wanted.build} --waves"
    run += ' --night "$(date -u +%Y%m%d)"' if has_nights(spec) else ""
    start = RunStep(name="Start the shards in waves", env=TOKEN, run=run)
    on: dict[str, Node] = {"schedule": [at_times(wanted)], "workflow_dispatch": None}
    return _task(spec, "schedule", "start", "Start", on, start, permissions=MAY_START)


# push-batch.yml, nightly.yml and release.yml

_PERIODS = {
    "15m": "7-52/15 *",
    "30m": "7,37 *",
    "60m": "17 *",
    "2h": "17 */2",
    "4h": "17 */4",
    "6h": "17 */6",
    "12h": "17 */12",
}
"""The minute and hour of a cron entry for the periods of `batch`. On the hour, GitHub is busiest."""


def profiles(spec: Spec) -> Iterator[tuple[str, Workflow]]:
    """The workflows that start the runs of profiles: those that the spec asks for, by their files' names.

    What a push starts and what the clock starts stand in different files (`starts`).
    """
    wanted = spec.profiles
    if wanted.push.batch:
        yield PUSH_BATCH, _starts_runs(spec, PUSH, {"schedule": [cron(_PERIODS[wanted.push.batch])]})
    if wanted.nightly:
        yield NIGHTLY_FILE, _starts_runs(spec, NIGHTLY, {"schedule": [at_times(wanted.nightly.schedule)]})
    if wanted.release:
        yield RELEASE_FILE, _starts_runs(spec, RELEASE, {"push": {"tags": list(wanted.release.tags)}})


def _starts_runs(spec: Spec, profile: str, on: dict[str, Node]) -> Workflow:
    """The workflow that starts the runs of `profile`. They are compared with what is checked out, and with its tags."""
    start = RunStep(name=f"Start the runs of the profile {profile}", env=TOKEN, run=f"ci-compile start {profile}")
    on = {**on, "workflow_dispatch": None}
    return _task(spec, f"{profile} profile", "start", "Start", on, start, deep=True, minutes=30, permissions=MAY_START)


# sync.yml and update.yml

APP_ENVIRONMENT = "sync"
_APP = {"GITHUB_APP_ID": "SYNC_APP_ID", "GITHUB_APP_PRIVATE_KEY": "SYNC_APP_PRIVATE_KEY"}
"""The secrets of the environment `APP_ENVIRONMENT`, by the variables that `ci-compile` reads: an App that may write
contents, workflows and pull requests."""

_NAME, _EMAIL = "ci-compile", "ci-compile@users.noreply.github.com"
AUTHOR = {
    "GIT_AUTHOR_NAME": _NAME,
    "GIT_AUTHOR_EMAIL": _EMAIL,
    "GIT_COMMITTER_NAME": _NAME,
    "GIT_COMMITTER_EMAIL": _EMAIL,
}
"""The variables that make the author and committer of a commit that no person makes."""

APP = {name: expression(f"secrets.{secret}") for name, secret in _APP.items()} | AUTHOR
"""The variables of a step that pushes commits or opens pull requests as the App."""


def sync(spec: Spec, wanted: Sync) -> Workflow:
    """`sync.yml`: carries a change of the spec from the default branch to the others, by pushes or by pull requests.

    It exists if the spec has `sync`. It uses a GitHub App, because what the token of GitHub Actions pushes starts no
    workflow, and workflow files are refused (https://docs.github.com/actions/concepts/security/github_token).
    """
    carry = RunStep(name="Carry the spec to every branch", env=APP, run=f"ci-compile sync --{wanted.on_push}")
    paths = list(carried_paths(spec, spec.document.file))
    on: dict[str, Node] = {"push": {"branches": [default_branch(spec)], "paths": paths}, "workflow_dispatch": None}
    return _as_app(spec, "Sync", 30, on, [carry])


def update(spec: Spec, wanted: Update) -> Workflow:
    """`update.yml`: looks for newer releases on a schedule, and opens one pull request with them.

    It exists if the spec has `update`. Like `sync.yml`, it uses a GitHub App: a pull request that the token of GitHub
    Actions opens starts no workflow (https://docs.github.com/actions/concepts/security/github_token).
    """
    has_recipes = spec.backend.has_recipes
    run = f"ci-compile update --pull-request{' --nixpkgs real' * has_recipes}"
    look = RunStep(name="Look for newer releases", env=APP, run=run)
    on: dict[str, Node] = {"schedule": [cron("23 5", wanted.days)], "workflow_dispatch": None}
    return _as_app(spec, "Update", 120, on, [SET_UP_NIX, look] if has_recipes else [look])


def _as_app(spec: Spec, title: str, minutes: int, on: dict[str, Node], steps: list[Step]) -> Workflow:
    """The workflow of a job on the default branch that acts as the App."""
    name, more = title.lower(), {"if_": expression(on_default_branch(spec)), "environment": APP_ENVIRONMENT}
    return _task(spec, name, name, title, on, *steps, deep=True, minutes=minutes, **more)


# pages.yml

PAGES_DAILY = cron("41 4")

HISTORY = "history.json"
"""The file of the history, and the artifact with it."""

_SITE_MINUTES = 20
"""The time limit of writing: reading the history takes some hundred requests, one after the other."""

_SITE = "_site"
_SITE_ARTIFACT = f"github-pages-{expression('github.run_attempt')}"
"""One artifact per attempt: a run keeps those of earlier attempts, and a deployment needs a unique name."""


def pages(spec: Spec) -> Workflow:
    """`pages.yml`: publishes the finder page and the history on GitHub Pages, when their sources change and daily.

    `pages-schedule.yml` starts it each day. The pages show the results of the variants, which change without a commit.
    The history is also an artifact, from which the next run continues it: unlike the site of a private repository, the
    workflow's token can read that.

    In the repository's settings, the source of Pages must be GitHub Actions, and their environment must allow that
    branch. Where Pages is off, nothing is published, and a notice says so. GitHub creates the environment.
    """
    deploy = hosted_job(
        spec,
        "Deploy",
        needs=["page"],
        if_=expression("needs.page.outputs.pages == 'on'"),
        permissions={
            "pages": Remarked("write", "the deployment itself"),
            "id-token": Remarked("write", "proves where it comes from"),
        },
        environment={"name": "github-pages", "url": expression("steps.deploy.outputs.page_url")},
        steps=[
            action_step(
                "Deploy",
                "actions/deploy-pages",
                {"artifact_name": expression("needs.page.outputs.artifact")},
                id="deploy",
            )
        ],
    )
    return Workflow(
        name="pages",
        on={
            "push": {"branches": [default_branch(spec)], "paths": [".github/**"]},
            "workflow_dispatch": None,
        },
        concurrency=queued("pages"),
        jobs={"page": _page(spec), "deploy": deploy},
    )


def _page(spec: Spec) -> Job:
    is_on = expression("steps.page.outputs.pages == 'on'")
    write = RunStep(
        name="Write the page",
        id="page",
        env=TOKEN,
        run=f'ci-compile site {_SITE} --repository "$GITHUB_REPOSITORY" --pages --status --history'
        + " --issue" * spec.results_issue,
    )
    # Assumes `artifact-overwrite`.
    reads = None if spec.results_issue else is_on
    keep = upload("Keep the history for the next run", HISTORY, f"{_SITE}/{HISTORY}", if_=reads, overwrite=True)
    files: dict[str, Node] = {"name": _SITE_ARTIFACT, "path": _SITE}
    keep_site = action_step("Keep it for Pages", "actions/upload-pages-artifact", files, if_=is_on)
    return hosted_job(
        spec,
        "Write the page",
        minutes=_SITE_MINUTES,
        permissions=READ
        | {
            "actions": Remarked("read", "the results of the variants, and the history"),
            "pages": Remarked("read", "tells whether Pages is on"),
            **({"issues": Remarked("write", "the issue about what fails")} if spec.results_issue else {}),
        },
        outputs={"artifact": _SITE_ARTIFACT, "pages": expression("steps.page.outputs.pages")},
        steps=[checkout(), SETUP, write, keep, keep_site],
    )
