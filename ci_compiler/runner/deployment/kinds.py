"""Deployment files for the spec's pools: which pools a target serves, and the facts that its templates show.

`systemd` runs controllers (`ci-runner start POOL`) on machines with rootless podman. Only the controller gets the
credential and the engine's socket; the containers of jobs get neither.

`arc` configures the Actions Runner Controller (gha-runner-scale-set) in Kubernetes, one Helm release per pool. There, a
pool whose `runs-on` is a name is a runner scale set of that name. On request, or if there is no such pool, a pool with
labels becomes one too: it is named after the pool and gets the labels when it is created. `containerMode` stays unset:
jobs run in the pool's own image, and the chart then keeps its entry point.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ci_compiler import __version__
from ci_compiler.codes import Code
from ci_compiler.errors import ExitCode, Finding, InputError
from ci_compiler.files.drift import MARK
from ci_compiler.hardware.families import DEFAULT, facts, has_facts
from ci_compiler.hardware.families.machines import machines_of
from ci_compiler.plan.pins import named_commits
from ci_compiler.runner.controller.containers import TOOLKIT_PREFIX
from ci_compiler.runner.controller.store_daemon import CAPABILITIES, DAEMON
from ci_compiler.runner.deployment.release_pins import ARCHITECTURES, pins
from ci_compiler.runner.deployment.rendering import FOLDER, Facts, render, text_of
from ci_compiler.runner.fence import METADATA
from ci_compiler.runner.host_health import SOCKET
from ci_compiler.runner.limits import builds_in, longest, room_of, trusted_keys
from ci_compiler.runner.scale_sets import WITHOUT_CACHE, needs_cache, scale_set_of
from ci_compiler.spec.build import BUNDLED_SHOWN
from ci_compiler.spec.model import Pool, Spec
from ci_compiler.workflows.writer import dump, quoted

ARC = "arc"
"""The target that serves runner scale sets."""

CONFIGURATION = "/etc/ci-runner"
"""The folder of the controllers' configuration on a machine: spec, repository, credential."""

SPEC = f"{CONFIGURATION}/ci-matrix.yaml"
"""The path of the spec on a machine."""

STOPPING = 3600
"""Seconds that a controller gets after the longest job, to remove its container and its registration."""

USER = 1001
"""The id of the user and the group in the images."""

IMAGE = 10
"""GB of the store in an image, and of what a test needs beside closures."""

BESIDE_CORES, BESIDE_MEMORY = 2, 8
"""Cores and GB of memory of a pod beyond the pool's: for the job where the daemon builds, else for the daemon."""

SHARED_MEMORY = 8
"""One part in so many of a pod's memory may be shared memory, through which torch's data loaders pass batches."""

AND_HASHES = ", and `nixpkgs-hash` beside each `nixpkgs`, which `ci-compile hash` fills in"
"""What a spec with a cache needs besides."""

RESTART = {"Restart": "always", "RestartSec": "30", "RestartPreventExitStatus": str(ExitCode.RUNNER_DEPRECATED.value)}
"""run.sh exits with 0 after most failures, so the policy is `always`; a restart cannot fix a version that GitHub no
longer serves (actions/runner, run-helper.sh)."""


class Deployment(NamedTuple):
    """The files of a deployment by their path in its folder, and findings about the pools that it leaves out."""

    files: Mapping[str, str]
    findings: tuple[Finding, ...] = ()


def deployment(spec: Spec, target: str, *, scale_set_labels: bool = False) -> Deployment:
    """The files of `target`, with a warning for each pool that it does not serve. Raises InputError if it serves none.

    `scale_set_labels`: with `arc`, pools with labels become scale sets even if other pools are scale sets.
    """
    pools = [pool for pool in spec.pools if pool.system in ARCHITECTURES]
    if target == ARC and not any(pool.runs_on.scale_set for pool in pools):
        scale_set_labels = True
    served = [pool for pool in pools if scale_set_labels or bool(pool.runs_on.scale_set) is (target == ARC)]
    if not served and target == ARC:
        raise InputError(_left_out(spec, pool, target) for pool in spec.pools)
    if not served:
        message = "every pool is a runner scale set; `ci-runner deploy arc` writes their files"
        raise InputError([spec.finding(("runners",), Code.NO_LABEL_SET, message, key=True)])
    if target == ARC and needs_cache(spec):
        hashes = "" if all(pin.hash for pin in named_commits(spec)) else AND_HASHES
        message = f"{WITHOUT_CACHE}; add `cache: {{url: URL, public-key: KEY}}`{hashes}"
        raise InputError([spec.finding(("runners",), Code.PODS_WITHOUT_CACHE, message, key=True)])
    files = render(target, _facts(spec, target, served), [_pool_facts(spec, pool) for pool in served])
    left_out = tuple(_left_out(spec, pool, target) for pool in spec.pools if pool not in served)
    return Deployment(files=dict(files), findings=left_out)


def _left_out(spec: Spec, pool: Pool, target: str) -> Finding:
    path = ("runners", pool.name, "runs-on")
    if pool.system not in ARCHITECTURES:
        message = (
            f"{pool.name} has {pool.system} machines, which run no containers; install actions/runner there by hand"
        )
        return spec.finding(("runners", pool.name), Code.NO_CONTAINERS, message, key=True)
    if target == ARC:
        why = "is addressed by labels, so arc leaves it out; give it `runs-on: NAME`, or use --scale-set-labels"
        return spec.finding(path, Code.LABEL_SET, f"{pool.name} {why}")
    why = f"is a runner scale set, so {target} leaves it out; `ci-runner deploy arc` writes its files"
    return spec.finding(path, Code.SCALE_SET, f"{pool.name} {why}", tolerated=True)


def _facts(spec: Spec, target: str, pools: Iterable[Pool]) -> Facts:
    """The facts about the deployment as a whole. `spec-option` is '' for the bundled spec, which needs no copy."""
    file = spec.document.file
    hardening, health = (text_of(FOLDER / f"{name}.conf").strip() for name in ("hardening", "health"))
    strict, own = (dict(line.split("=", 1) for line in text.splitlines()) for text in (hardening, health))
    settings, watching = RESTART | strict, strict | own
    gpus = " ".join(filter(None, (pool.gpu for pool in pools)))
    words = _words(spec, gpus.partition(" ")[0])
    return {
        "heading": f"{MARK} from {file}. Do not edit: change the spec, then run `ci-runner deploy {target}`.",
        **words,
        "labelled-gpus": words["gpu-labels"],
        "unlabelled-gpus": "" if words["gpu-labels"] else words["gpu-resource"],
        "example": next(pool.name for pool in pools),
        "gpus": gpus,
        "labels": " ".join(pool.name for pool in pools if not pool.runs_on.scale_set),
        "spec": SPEC,
        "spec-file": shlex.quote(file),
        "spec-option": "" if file == BUNDLED_SHOWN else f" --spec {SPEC}",
        "prefix": TOOLKIT_PREFIX,
        "configuration": CONFIGURATION,
        "toolkit": f"ci-compiler=={__version__}",
        "user": str(USER),
        "longest-stop": str(max(longest(spec, pool) for pool in spec.pools) + STOPPING),
        "hardening": hardening,
        "metadata-4": "\n".join(f"- {address}/32" for address in METADATA if ":" not in address),
        "metadata-6": "\n".join(f"- {address}/128" for address in METADATA if ":" in address),
        "service": _in_unit(settings),
        "health": SOCKET,
        "health-service": _in_unit(watching),
        "controller-chart": pins().controller_chart,
        "chart": pins().scale_set_chart,
        "version": pins().chart_version,
    }


def _in_unit(settings: Mapping[str, str]) -> str:
    return "\n".join(f"{name}={value}" for name, value in settings.items())


def _words(spec: Spec, gpu: str) -> Mapping[str, str]:
    """What machines with `gpu` need, by the names that its family has for it; '' for what is not known or needed."""
    default: dict[str, str] = facts(DEFAULT, "deployment")["words"]
    none = dict.fromkeys(default, "")
    if not gpu:
        return none | {"gpu-variable": default["gpu-variable"]}
    family = spec.hardware.gpu(gpu).family
    return none | (facts(family, "deployment")["words"] if has_facts(family, "deployment") else {})


def _pool_facts(spec: Spec, pool: Pool) -> Facts:
    """The facts about `pool`. Its cores, memory and disk are those of a pod."""
    runs_on, seconds = pool.runs_on, longest(spec, pool)
    labels = [] if runs_on.scale_set else list(runs_on.labels)
    group = f"group {runs_on.group}, " if runs_on.group else ""
    gpu = spec.hardware.gpu(pool.gpu).capability if pool.gpu else ("", "")
    builds = builds_in(spec, pool)
    return _sizes(spec, pool, builds=builds) | {
        **_words(spec, pool.gpu),
        "pool": pool.name,
        "title": _title(spec, pool),
        "gpu": pool.gpu,
        "gpu-count": str(pool.gpus),
        "no-gpu": "" if pool.gpu else "true",
        "health-option": f" --health {SOCKET}" if _shows_faults(spec, pool) else "",
        "capability-major": str(gpu[0]),
        "capability-minor": str(gpu[1]),
        "builds": "true" if builds else "",
        "longest": str(seconds),
        "stop": str(seconds + STOPPING),
        "runs-on": runs_on.scale_set or f"{group}[{', '.join(runs_on.labels)}]",
        "scale-set": quoted(runs_on.scale_set or scale_set_of(pool.name)),
        "scale-set-labels": dump({"scaleSetLabels": labels}).rstrip() if labels else "",
        "group": quoted(f'"{runs_on.group}"') if runs_on.group else "",  # the chart prints it without quotes
        "count": str(pool.count),
        "architecture": ARCHITECTURES[pool.system],
        "image": quoted(pool.image),
    }


def _shows_faults(spec: Spec, pool: Pool) -> bool:
    """Whether the host of a machine of `pool` sees faults of its GPUs."""
    return bool(pool.gpu and machines_of(spec.hardware.gpu(pool.gpu).family).signs)


def _sizes(spec: Spec, pool: Pool, *, builds: bool) -> dict[str, str]:
    """The facts about what a pod of `pool` gets, and where it may run."""
    return {
        "cores": str(pool.cores),
        "daemon": DAEMON,
        "capabilities": ", ".join(CAPABILITIES),
        "trusted-keys": " ".join(trusted_keys(spec)),
        "job-cores": str(BESIDE_CORES if builds else pool.cores),
        "job-memory": str(BESIDE_MEMORY if builds else pool.memory),
        "daemon-cores": str(pool.cores if builds else BESIDE_CORES),
        "daemon-memory": str(pool.memory if builds else BESIDE_MEMORY),
        "memory": str(pool.memory),
        "shared-memory": str(max(1, pool.memory // SHARED_MEMORY)),
        "disk": str(_volume(spec, pool)),
        "room": str(room_of(spec, pool)),
        "tolerations": "true" if pool.gpu or ARCHITECTURES[pool.system] == "arm64" else "",
        "arm": "true" if ARCHITECTURES[pool.system] == "arm64" else "",
    }


def _volume(spec: Spec, pool: Pool) -> int:
    """GB of the volume at /nix: the pool's disk where it is declared or where jobs build, else enough for closures."""
    if builds_in(spec, pool) or "disk" in spec.document.value["runners"][pool.name]:
        return pool.disk
    return min(pool.disk, IMAGE + 2 * room_of(spec, pool))


def _title(spec: Spec, pool: Pool) -> str:
    """A pool on one line: `x86-builder (x86-64: build, cpu-test, publish)`."""
    has = f"{spec.hardware.systems[pool.system].title}{f', {pool.gpu}' if pool.gpu else ''}"
    return f"{pool.name} ({has}: {', '.join(map(str, pool.stages))})"
