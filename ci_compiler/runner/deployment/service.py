"""What the kinds of deployment share: the heading, the pools that they serve, how long a job may take to end."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from ci_compiler import __version__
from ci_compiler.codes import Code
from ci_compiler.errors import ExitCode, Finding, InputError
from ci_compiler.files.drift import MARK
from ci_compiler.runner.deployment.release_pins import pins
from ci_compiler.spec.build import BUNDLED_SHOWN
from ci_compiler.spec.model import Pool, Spec

INSTALL = "install.md"
"""The page that says how to install the files of a deployment."""

PREFIX = "/opt/ci-compiler"
"""Where the toolkit is installed on a machine, as in the images."""

CONFIGURATION = "/etc/ci-runner"
"""The folder of the controllers' configuration on a machine: spec, repository, credential."""

SPEC = f"{CONFIGURATION}/ci-matrix.yaml"
"""The path of the spec on a machine."""

STOPPING = 3600
"""Seconds that a controller gets after the longest job, to remove its container and its registration."""

USER = 1001
"""The id of the user and the group in the images."""

RESTART = {"Restart": "always", "RestartSec": "30", "RestartPreventExitStatus": str(ExitCode.RUNNER_DEPRECATED.value)}
"""run.sh exits with 0 after most failures, so the policy is `always`; a restart cannot fix a version that GitHub no
longer serves (actions/runner, run-helper.sh)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """The files of a deployment by their path in its folder, and findings about the pools that it leaves out."""

    files: Mapping[str, str]
    findings: tuple[Finding, ...] = ()


def heading(spec: Spec, target: str) -> str:
    """The first line of every file, without a comment sign."""
    return f"{MARK} from {spec.document.file}. Do not edit: change the spec, then run `ci-runner deploy {target}`."


def page(spec: Spec, target: str, text: str) -> str:
    """A Markdown page with the heading."""
    return f"<!-- {heading(spec, target)} -->\n\n{text}"


def listed(spec: Spec, target: str) -> tuple[tuple[Pool, ...], tuple[Finding, ...]]:
    """The pools that `ci-runner start` can serve, and a warning for each runner scale set, which it cannot.

    Raises InputError if every pool is one.
    """
    pools = tuple(pool for pool in spec.pools if not pool.runs_on.scale_set)
    if not pools:
        message = "every pool is a runner scale set; `ci-runner deploy arc` writes their files"
        raise InputError([spec.finding(("runners",), Code.NO_LABEL_SET, message, key=True)])
    message = "{0} is a runner scale set, so {1} leaves it out; `ci-runner deploy arc` writes its files"
    left_out = tuple(
        spec.finding(
            ("runners", pool.name, "runs-on"), Code.SCALE_SET, message.format(pool.name, target), tolerated=True
        )
        for pool in spec.pools
        if pool not in pools
    )
    return pools, left_out


def longest(spec: Spec, pool: Pool) -> int:
    """The most seconds that a job of `pool` may take."""
    return 60 * max(spec.timeouts[stage] for stage in pool.stages)


def most_disk(spec: Spec) -> int:
    """GB of disk that the largest build takes, and that must be free before a job."""
    return max(package.disk for package in spec.packages.values())


def controller_image(spec: Spec) -> str:
    """The image of a controller, as the owner publishes it (registries accept only lower case)."""
    return pins().controller.format(owner=spec.owner.lower(), version=__version__)


def toolkit() -> str:
    """The pip requirement for this version of the toolkit."""
    return f"ci-compiler=={__version__}"


def spec_option(spec: Spec) -> str:
    """The option that gives `ci-runner start` the machine's copy of the spec; '' for the bundled spec."""
    return "" if spec.document.file == BUNDLED_SHOWN else f" --spec {SPEC}"


def copy_spec(spec: Spec, target: str) -> str:
    """The shell command that copies the spec to `target`, run in the repository's root; '' for the bundled spec."""
    return f"install -D -m 0644 {shlex.quote(spec.document.file)} {target}\n" if spec_option(spec) else ""


def title(spec: Spec, pool: Pool) -> str:
    """A pool on one line: `x86-builder (x86-64: build, cpu-test, publish)`."""
    has = f"{spec.hardware.systems[pool.system].title}{f', {pool.gpu}' if pool.gpu else ''}"
    return f"{pool.name} ({has}: {', '.join(map(str, pool.stages))})"
