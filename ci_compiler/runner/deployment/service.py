"""What the kinds of deployment share: the heading, which pools they are for, how long a job may take to end."""

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
"""The page that says how the files of a deployment are put to work."""

PREFIX = "/opt/ci-compiler"
"""Where a machine's toolkit is installed, as in the images."""

CONFIGURATION = "/etc/ci-runner"
"""Where a machine keeps what its controllers are told: the spec, the repository, the credential."""

SPEC = f"{CONFIGURATION}/ci-matrix.yaml"
"""The spec on a machine."""

STOPPING = 3600
"""Seconds that a controller gets above the longest job, to remove the container and the registration behind it."""

USER = 1001
"""The images' user and group."""

RESTART = {"Restart": "always", "RestartSec": "30", "RestartPreventExitStatus": str(ExitCode.RUNNER_DEPRECATED.value)}
"""run.sh ends most failures with 0, so only `always` starts again; no restart mends a version that GitHub no longer
takes (actions/runner, run-helper.sh)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """The files of a deployment by their path in its folder, and what is to be said of pools that it leaves out."""

    files: Mapping[str, str]
    findings: tuple[Finding, ...] = ()


def heading(spec: Spec, target: str) -> str:
    """The line that every file begins with, without a comment sign."""
    return f"{MARK} from {spec.document.file}. Do not edit: change the spec, then run `ci-runner deploy {target}`."


def page(spec: Spec, target: str, text: str) -> str:
    """A page of Markdown with the heading."""
    return f"<!-- {heading(spec, target)} -->\n\n{text}"


def listed(spec: Spec, target: str) -> tuple[tuple[Pool, ...], tuple[Finding, ...]]:
    """The pools that `ci-runner start` serves, and a warning for each that it cannot: runner scale sets.

    Raises InputError where they all are.
    """
    pools = tuple(pool for pool in spec.pools if not pool.runs_on.scale_set)
    if not pools:
        message = "every pool is a runner scale set; `ci-runner deploy arc` makes their files"
        raise InputError([spec.finding(("runners",), Code.NO_LABEL_SET, message, key=True)])
    message = "{0} is a runner scale set and left out of {1}; `ci-runner deploy arc` makes its files"
    left_out = tuple(
        spec.finding(
            ("runners", pool.name, "runs-on"), Code.SCALE_SET, message.format(pool.name, target), tolerated=True
        )
        for pool in spec.pools
        if pool not in pools
    )
    return pools, left_out


def longest(spec: Spec, pool: Pool) -> int:
    """Seconds that a job of `pool` may take."""
    return 60 * max(spec.timeouts[stage] for stage in pool.stages)


def most_disk(spec: Spec) -> int:
    """GB of disk that the largest build takes, which a job is to find free."""
    return max(package.disk for package in spec.packages.values())


def controller_image(spec: Spec) -> str:
    """The image of a controller in a container, as the owner publishes it (registries know small letters only)."""
    return pins().controller.format(owner=spec.owner.lower(), version=__version__)


def toolkit() -> str:
    """The requirement that pip installs this very toolkit by."""
    return f"ci-compiler=={__version__}"


def spec_option(spec: Spec) -> str:
    """The words that give `ci-runner start` the machine's copy of the spec; the bundled one it has."""
    return "" if spec.document.file == BUNDLED_SHOWN else f" --spec {SPEC}"


def copy_spec(spec: Spec, target: str) -> str:
    """The line of a shell script, for the repository's root, that makes the machine's copy of the spec; maybe ''."""
    return f"install -D -m 0644 {shlex.quote(spec.document.file)} {target}\n" if spec_option(spec) else ""


def title(spec: Spec, pool: Pool) -> str:
    """A pool in a line: `x86-builder (x86-64: build, cpu-test, publish)`."""
    has = f"{spec.hardware.systems[pool.system].title}{f', {pool.gpu}' if pool.gpu else ''}"
    return f"{pool.name} ({has}: {', '.join(pool.stages)})"
