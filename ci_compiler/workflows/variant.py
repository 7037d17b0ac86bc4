"""`variant.yml`: the stages of one variant, called by `cell.yml`.

build -> cpu-test and gpu-test -> publish. A stage that no pool runs comes without an input and is skipped, in sight.
The manifest and the log of a build travel to the tests and to publishing as one artifact; the closure travels through
the binary cache, or stays in the store of the builder.

Every condition begins with `!cancelled()`, since the `success()` that GitHub puts before one without a status function
looks at all jobs above, the callers' too: a package that was not chosen, and so skipped, would skip the stages of what
needs it (https://github.com/actions/runner/issues/491 and 2205).
"""

from __future__ import annotations

from ci_compiler.plan.sharding import stages_of
from ci_compiler.spec.model import TESTS, Spec, Stage
from ci_compiler.workflows.common import FORK_GUARD, READ, checkout, expression, machine_input
from ci_compiler.workflows.github import pinned
from ci_compiler.workflows.writer import Node, Remarked, Spaced

ATTEST_PERMISSIONS = {
    **READ,
    "id-token": Remarked("write", "actions/attest signs with the run's identity"),
    "attestations": Remarked("write", "actions/attest stores what it signed"),
    "artifact-metadata": Remarked("write", "actions/attest records what it is of"),
}
"""What actions/attest needs (its README)."""

TOKEN = {"flox": "FLOX_FLOXHUB_TOKEN", "nix": "NIX_CACHE_SIGNING_KEY"}
"""The publishing secret of each backend, held by the environment and given to one step alone."""


NAME = expression("inputs.name")
MANIFEST_FILE = "manifest.json"
"""What a build leaves beside its log, and the later stages go by."""

MANIFEST = f"build-output/{MANIFEST_FILE}"
"""Where it stands in every job."""

RESULT = "result.json"
"""What a test leaves beside its log, for the table that ends a run."""

PUBLISHED = "published.json"
"""What publishing leaves: what came of it, for the same table."""

BUILT = "needs.build.result == 'success'"
"""True behind a build that succeeded."""


def workflow(spec: Spec) -> dict[str, Node]:
    """The document of `variant.yml`."""
    makers = {Stage.BUILD: _build, Stage.CPU_TEST: _test, Stage.GPU_TEST: _test, Stage.PUBLISH: _publish}
    return {
        "name": "variant",
        "on": {"workflow_call": {"inputs": _inputs(spec), "secrets": secret_input(spec)}},
        "permissions": {},
        "jobs": Spaced({stage.value: makers[stage](spec, stage) for stage in stages_of(spec)}),
    }


def _inputs(spec: Spec) -> dict[str, Node]:
    return {
        "name": text_input("The variant, as its recipe is called."),
        "branch": text_input("The branch that it is built for."),
        "commit": text_input("The commit that holds its recipe."),
        "publish": {"description": "Whether it may be published.", "type": "boolean", "required": True},
        "again": {"description": "Whether even what shows as published is.", "type": "boolean", "required": True},
        **machine_inputs(spec),
    }


def machine_inputs(spec: Spec) -> dict[str, Node]:
    """The inputs that say where each stage runs; a test that no pool runs has none."""
    return {
        machine_input(stage): text_input(f"Where {stage} runs, as JSON for runs-on.", required=stage not in TESTS)
        for stage in stages_of(spec)
    }


def secret_input(spec: Spec) -> dict[str, Node]:
    """The secret that a called workflow is passed, where its caller may publish.

    GitHub gives a called workflow's job the secrets of its environment only where the caller passes them on by name:
    https://docs.github.com/actions/how-tos/reuse-automations/reuse-workflows
    """
    return {TOKEN[spec.backend]: {"description": "What publishing needs, of the environment.", "required": False}}


def secret_passed(spec: Spec) -> dict[str, Node]:
    """The `secrets:` of a job that calls a workflow with `secret_input`; its value is the environment's, there."""
    token = TOKEN[spec.backend]
    return {token: expression(f"secrets.{token}")}


def text_input(description: str, *, required: bool = True) -> dict[str, Node]:
    """An input of a reusable workflow that is a string."""
    return {"description": description, "type": "string", "required": required}


def _job(spec: Spec, stage: Stage, condition: str, *, needs: list[str], permissions: dict[str, str]) -> dict[str, Node]:
    job: dict[str, Node] = {"name": stage.value}
    if needs:
        job["needs"] = list(needs)
    return job | {
        "if": expression(condition),
        "runs-on": expression(f"fromJSON(inputs.{machine_input(stage)})"),
        "timeout-minutes": spec.timeouts[stage],
        "permissions": dict(permissions),
        "env": {"NAME": NAME, "BRANCH": expression("inputs.branch")},
    }


def _build(spec: Spec, stage: Stage) -> dict[str, Node]:
    permissions = ATTEST_PERMISSIONS if spec.attest else READ
    steps: list[Node] = [
        checkout(expression("inputs.commit")),
        {"name": "Prove that this machine can build it", "run": 'ci-runner doctor --for build "$NAME"'},
        {"name": "Build", "run": 'ci-runner build "$NAME" --branch "$BRANCH" --out build-output'},
        {
            "name": "Keep the manifest and the log",
            "if": expression("!cancelled()"),
            "uses": pinned("actions/upload-artifact"),
            "with": {
                "name": f"build-{NAME}",
                "path": "build-output/",
                "if-no-files-found": "ignore",
            },
        },
    ]
    if spec.attest:
        steps.append(
            {
                "name": "Attest where it was built",
                "uses": pinned("actions/attest"),
                "with": {"subject-path": MANIFEST},
            }
        )
    condition = f"!cancelled() && {FORK_GUARD}"
    return _job(spec, stage, condition, needs=[], permissions=permissions) | {"steps": steps}


def _test(spec: Spec, stage: Stage) -> dict[str, Node]:
    condition = " && ".join(["!cancelled()", BUILT, f"inputs.{machine_input(stage)} != ''", FORK_GUARD])
    return _job(spec, stage, condition, needs=["build"], permissions=READ) | {
        "steps": [
            checkout(expression("inputs.commit")),
            _manifest(),
            {"name": "Prove that this machine can test it", "run": f'ci-runner doctor --for {stage} "$NAME"'},
            {"name": "Fetch the closure", "run": f"ci-runner fetch {MANIFEST}"},
            {
                "name": "Test",
                "run": f'ci-runner smoke "$NAME" --stage {stage} --manifest {MANIFEST} --out test-output',
            },
            {
                "name": "Keep the report",
                "if": expression("!cancelled()"),
                "uses": pinned("actions/upload-artifact"),
                "with": {
                    "name": f"{stage}-{NAME}",
                    "path": "test-output/",
                    "if-no-files-found": "ignore",
                },
            },
        ]
    }


def _publish(spec: Spec, stage: Stage) -> dict[str, Node]:
    tests = [test for test in stages_of(spec) if test in TESTS]
    passed = [BUILT, *(_passed(test) for test in tests if test in spec.publish.after)]
    events = "(github.event_name == 'push' || github.event_name == 'workflow_dispatch')"
    on_branch = "github.ref == format('refs/heads/{0}', inputs.branch)"
    condition = " && ".join(["!cancelled()", "inputs.publish", events, on_branch, *passed])
    waits = ["build", *(test.value for test in tests if test in spec.publish.after)]
    token = TOKEN[spec.backend]
    return _job(spec, stage, condition, needs=waits, permissions=READ) | {
        "environment": spec.publish.environment,
        "concurrency": {"group": f"publish-{expression('inputs.branch')}-{NAME}", "cancel-in-progress": False},
        "steps": [
            checkout(expression("inputs.branch"), history=True, credentials=True),
            _manifest(),
            {
                "name": "Publish",
                "env": {
                    token: expression(f"secrets.{token}"),
                    "COMMIT": expression("inputs.commit"),
                    "AGAIN": expression("inputs.again && 'yes' || ''"),
                },
                "run": 'ci-runner publish "$NAME" --branch "$BRANCH" --commit "$COMMIT" '
                f"--manifest {MANIFEST} --out publish-output ${{AGAIN:+--again}}",
            },
            {
                "name": "Keep what came of it",
                "uses": pinned("actions/upload-artifact"),
                "with": {"name": f"publish-{NAME}", "path": "publish-output/"},
            },
        ],
    }


def _passed(test: Stage) -> str:
    """True where `test` succeeded, or was skipped because no pool runs it."""
    skipped = f"needs.{test}.result == 'skipped' && inputs.{machine_input(test)} == ''"
    return f"(needs.{test}.result == 'success' || ({skipped}))"


def _manifest() -> dict[str, Node]:
    return {
        "name": "Fetch the manifest",
        "uses": pinned("actions/download-artifact"),
        "with": {"name": f"build-{NAME}", "path": "build-output"},
    }
