"""`images.yml`: builds, scans and pushes the runner images, and opens a pull request when a pin of an image is stale.

It exists if the spec has `images`. Every input is pinned: base image, archives and Debian's packages by the toolkit's
table, Python packages and the toolkit itself by the hashes of the file that the spec names in `toolkit`. Each system is
built on a hosted machine of its own, since emulation takes hours. Like `update.yml`, it opens its pull request as a
GitHub App.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ci_compiler.codes import Code
from ci_compiler.errors import Finding
from ci_compiler.spec.carried import default_branch
from ci_compiler.spec.model import Spec
from ci_compiler.spec.upstream import Images
from ci_compiler.workflows.common import IMAGES, SETUP_ACTION, expression, for_each, queued
from ci_compiler.workflows.model import READ, Job, RunStep, Step, Workflow, action_step
from ci_compiler.workflows.steps import SETUP, checkout, hosted_job, only_here
from ci_compiler.workflows.tasks import APP, APP_ENVIRONMENT, cron, on_default_branch, starts
from ci_compiler.workflows.writer import Remarked

_MACHINES = {"x86_64-linux": "ubuntu-24.04", "aarch64-linux": "ubuntu-24.04-arm"}
"""The hosted machine of each system that images are built for."""

_FOLDER = "images"
"""The folder that `ci-runner images` writes."""

_CHECKSUMS = """\
checksums=()
for name in {names}; do
  if [ -n "${{!name}}" ]; then checksums+=(--arg "$name=${{!name}}"); fi
done"""
"""Variables of the repository take the place of pins that the toolkit does not have."""

_LOGIN = 'echo "$TOKEN" | docker login "${image%%/*}" --username "$GITHUB_ACTOR" --password-stdin'


def workflow(spec: Spec) -> Workflow:
    """`images.yml`."""
    branch = default_branch(spec)
    return Workflow(
        name="images",
        on={
            "push": {
                "branches": [branch],
                "paths": [*_sources(spec), f"{SETUP_ACTION}/**", f".github/workflows/{IMAGES}"],
            },
            "workflow_dispatch": None,
        },
        concurrency=queued("images"),
        jobs={"pins": _pins(spec), "build": _build(spec), "push": _push(spec)},
    )


def schedule(spec: Spec, images: Images) -> Workflow:
    """`images-schedule.yml`: starts `images.yml` on the days of the spec."""
    return starts(spec, IMAGES, cron("41 4", images.days))


def problems(spec: Spec) -> Iterator[Finding]:
    """An error for images of a toolkit that an index could exchange."""
    if spec.images and re.match(r"[A-Za-z0-9._-]+==", spec.toolkit):
        message = (
            f"images contain the toolkit, and {spec.toolkit} has no hashes; add `toolkit: .github/ci-compiler.txt`, "
            "the list of hashes that comes with each release"
        )
        yield spec.finding(("images",), Code.WRONG_VALUE, message, key=True)


def _sources(spec: Spec) -> tuple[str, ...]:
    """The patterns of the files of this repository that the toolkit is installed from."""
    path = spec.toolkit.removeprefix("./")
    if spec.toolkit == ".":
        return ("runner-images/**", "ci_compiler/**")
    return () if "://" in path else (path, f"{path}/**")


def _pins(spec: Spec) -> Job:
    """The job that opens the pull request. What comes with the toolkit needs a newer one, which a warning says."""
    look = RunStep(
        name="Open a pull request for stale pins",
        env=APP,
        run="ci-compile update images --pull-request",
    )
    rest = RunStep(
        name="Name what a newer toolkit brings",
        run='ci-compile update images --check || echo "::warning::pins of the runner images are stale"\n',
    )
    return hosted_job(
        spec,
        "Stale pins",
        minutes=30,
        if_=expression(f"github.event_name != 'push' && {on_default_branch(spec)}"),
        environment=APP_ENVIRONMENT,
        steps=[checkout(history=True), SETUP, look, rest],
    )


def _names(spec: Spec) -> tuple[str, ...]:
    """The images in the order in which they build on each other."""
    gpu = ["gpu-tester"] if any(pool.gpu for pool in spec.pools) else []
    return ("builder", *gpu, "controller")


def _systems(spec: Spec) -> list[str]:
    """The systems that images are built for."""
    return [system for system in _MACHINES if any(pool.system == system for pool in spec.pools)]


def _build(spec: Spec) -> Job:
    names = _names(spec)
    return Job(
        name=f"Images for {expression('matrix.system')}",
        if_=only_here(spec, expression(on_default_branch(spec))),
        strategy=for_each([{"system": system, "machine": _MACHINES[system]} for system in _systems(spec)]),
        runs_on=expression("matrix.machine"),
        timeout_minutes=90,
        permissions=READ | {"packages": Remarked("write", "the images are pushed")},
        steps=[
            checkout(),
            SETUP,
            RunStep(name="Write what they are made of", run=f"ci-runner images {_FOLDER}"),
            _toolkit(spec),
            _build_step(spec),
            *map(_scan, names),
            RunStep(
                name="Push",
                env={"TOKEN": expression("github.token"), "SYSTEM": expression("matrix.system")},
                run=f"""\
for name in {" ".join(names)}; do
  image=$({_FOLDER}/build.py "$name" --owner {spec.owner} --name)
  {_LOGIN}
  docker tag "$image" "$image-$SYSTEM"
  docker push "$image-$SYSTEM"
done
""",
            ),
        ],
    )


def _toolkit(spec: Spec) -> RunStep:
    """The step that brings the wheel of the toolkit that the images install."""
    run = f'python -m pip wheel --quiet --no-deps --wheel-dir {_FOLDER}/archives "$REQUIREMENT"'
    if spec.toolkit.endswith(".txt"):
        run = f"""\
python -m pip download --quiet --no-deps --require-hashes --only-binary :all: \\
  --dest {_FOLDER}/archives --requirement "$REQUIREMENT"
find {_FOLDER}/archives -name '*.whl' ! -name 'ci_compiler-*' -delete
"""
    return RunStep(name="Fetch the toolkit", env={"REQUIREMENT": spec.toolkit}, run=run)


def _build_step(spec: Spec) -> RunStep:
    """The step that builds, and reports the names of the images."""
    checksums = spec.backend.image_checksums
    lines = [_CHECKSUMS.format(names=" ".join(checksums))] if checksums else []
    for name in _names(spec):
        more = ' "${checksums[@]}"' if checksums and name == "builder" else ""
        script = f"{_FOLDER}/build.py {name} --owner {spec.owner}"
        lines.append(f"{script} --engine docker --backend {spec.backend.image}{more}")
        lines.append(f'echo "{name}=$({script} --name)" >> "$GITHUB_OUTPUT"')
    env = {name: expression(f"vars.{name}") for name in checksums}
    return RunStep(name="Build", id="build", env=env or None, run="".join(f"{line}\n" for line in lines))


def _scan(name: str) -> Step:
    """The step that fails for a critical vulnerability that a newer package fixes."""
    return action_step(
        f"Scan {name}",
        "anchore/scan-action",
        {
            "image": expression(f"steps.build.outputs.{name}"),
            "severity-cutoff": "critical",
            "only-fixed": True,
            "fail-build": True,
            "output-format": "table",
        },
    )


def _push(spec: Spec) -> Job:
    """The job that gives the images of all systems one name."""
    each = " ".join(f'"$image-{system}"' for system in _systems(spec))
    script = RunStep(
        name="Give the images their names",
        env={"TOKEN": expression("github.token")},
        run=f"""\
ci-runner images {_FOLDER}
for name in {" ".join(_names(spec))}; do
  image=$({_FOLDER}/build.py "$name" --owner {spec.owner} --name)
  {_LOGIN}
  docker buildx imagetools create --tag "$image" {each}
done
""",
    )
    return hosted_job(
        spec,
        "Names for all systems",
        needs=["build"],
        permissions=READ | {"packages": Remarked("write", "the images of all systems get one name")},
        steps=[checkout(), SETUP, script],
    )
