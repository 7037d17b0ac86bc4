"""`ci-runner start`: just-in-time runners of a pool on this machine, one job each."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ci_compiler.backends.protocol import NixUse
from ci_compiler.cli import options
from ci_compiler.cli.console import note, print_findings
from ci_compiler.cli.engines import engine_of, this_machine
from ci_compiler.cli.remote import client_of
from ci_compiler.cli.where import filter_of, root_of, spec_of
from ci_compiler.clock import Clock
from ci_compiler.codes import Code
from ci_compiler.errors import ExitCode, wrong
from ci_compiler.github.client import AT_ONCE
from ci_compiler.github.registration import Registrar
from ci_compiler.hardware.families import DEFAULT
from ci_compiler.hardware.machine import NOMINAL
from ci_compiler.plan.routing import labels_of
from ci_compiler.runner.controller.loop import Controller
from ci_compiler.runner.controller.slots import RunnerPlan
from ci_compiler.runner.limits import builds_in, longest, room_of, trusted_keys
from ci_compiler.spec.model import Pool, Spec
from ci_compiler.units import GB

SLACK = 1800.0
"""Seconds that a job may take to end after the timeout of its stage."""


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("pool", metavar="POOL", help="a pool of the spec")
    parser.add_argument("--count", metavar="N", type=int, default=1, help="runners at a time (default: %(default)s)")
    parser.add_argument("--organisation", action="store_true", help="register in the organisation, not the repository")
    options.shared(parser, "engine", "host")
    parser.add_argument(
        "--health",
        metavar="SOCKET",
        default="",
        help="before each registration, read the verdict of the host's health service",
    )
    parser.add_argument(
        "--public-repository",
        action="store_true",
        help="with --host: accept that pull requests of a public repository may reach this machine without a container",
    )
    options.shared(parser, "repository", "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Runs until SIGTERM or SIGINT; returns 7 if GitHub serves no runner of this version any more.

    A runner itself exits with 7 then, and the deployed units do not restart after it.
    """
    spec = spec_of(arguments)
    pool = _pool(spec, arguments)
    engine = engine_of(arguments)
    in_organisation = arguments.organisation or bool(pool.runs_on.group)
    patient = Registrar(client_of(arguments, root_of(arguments)), organisation=in_organisation)
    with only_one(pool.name):
        work = _work(spec, pool, patient, arguments)
        _refuse_public(patient, work, arguments)
        github = Registrar(client_of(arguments, root_of(arguments), AT_ONCE), organisation=in_organisation)
        controller = Controller(work, engine, github, Clock(), note)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: controller.drain())
        stopped = controller.run()
    print_findings([stopped] if stopped else [])
    return ExitCode.RUNNER_DEPRECATED if stopped else ExitCode.DONE


def _pool(spec: Spec, arguments: argparse.Namespace) -> Pool:
    pools = {pool.name: pool for pool in spec.pools}
    filter_of(arguments, "pool", pools, option="POOL")
    pool = pools[arguments.pool]
    if pool.runs_on.scale_set:
        raise wrong(
            "POOL", Code.SCALE_SET, f"{pool.name} is a runner scale set; `ci-runner deploy arc` writes its files"
        )
    if arguments.count < 1 or (arguments.host and arguments.count > 1):
        right = "--host runs one runner per folder" if arguments.host else "at least 1"
        raise wrong("--count", Code.RUNNER_COUNT, f"{arguments.count} runners: {right}")
    return pool


def _work(spec: Spec, pool: Pool, github: Registrar, arguments: argparse.Namespace) -> RunnerPlan:
    return RunnerPlan(
        pool=pool.name,
        scope=github.scope,
        labels=labels_of(spec.hardware, pool),
        group=github.group(pool.runs_on.group),
        image="" if arguments.host else pool.image,
        gpu=pool.gpu,
        family=spec.hardware.gpu(pool.gpu).family if pool.gpu else DEFAULT,
        gpus=pool.gpus if pool.gpu and not arguments.host else 0,
        builds=builds_in(spec, pool),
        store=spec.backend.nix is not NixUse.NONE,
        fresh_store=pool.only_publishes,
        trusted_keys=trusted_keys(spec),
        cores=pool.cores,
        memory=0 if arguments.host else int(pool.memory * GB * NOMINAL),
        count=arguments.count,
        fleet=sum(one.count for one in spec.pools),
        host=this_machine(),
        room=room_of(spec, pool) * GB,
        longest=longest(spec, pool) + SLACK,
        spec=json.dumps(spec.document.value),
        health=arguments.health,
        disk=0 if arguments.host else pool.disk * GB // arguments.count,
    )


def _refuse_public(github: Registrar, work: RunnerPlan, arguments: argparse.Namespace) -> None:
    """Refuses to run the jobs of a public repository without a container, unless the user says so."""
    if arguments.host and not arguments.public_repository and github.serves_public(work.group):
        message = (
            f"a public repository may use the runners of {work.scope}, and anyone can open a pull request there; "
            "without a container, a job can change this machine for all later jobs; run containers, or accept this "
            "with --public-repository"
        )
        raise wrong("--host", Code.PUBLIC_REPOSITORY, message)


@contextlib.contextmanager
def only_one(pool: str) -> Iterator[None]:
    """Refuses a second controller of `pool` on this machine, which would take over the first one's containers."""
    if sys.platform == "win32":  # `engine_of` refuses it
        return
    import fcntl

    folder = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
    path = folder / f"ci-runner-{pool}-{os.getuid()}.lock"
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise wrong(path, Code.CANNOT_WRITE, f"the lock cannot be created: {error.strerror}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise wrong(
            "POOL", Code.RUNS_ALREADY, f"a controller of {pool} is already running here; stop it first"
        ) from None
    try:
        yield
    finally:
        os.close(file)
