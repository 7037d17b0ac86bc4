"""`ci-runner`: its subcommands, one module each."""

from __future__ import annotations

import os

from ci_compiler import __version__
from ci_compiler.cli import quiet_interrupts
from ci_compiler.files import COMPILED_BY

with quiet_interrupts():
    from ci_compiler.cli.app import run
    from ci_compiler.cli.program import Program

    PROGRAM = Program(
        name="ci-runner",
        purpose="Detects, checks, starts and watches the self-hosted machines that run the compiled workflows.",
        package=__name__,
        commands={
            "detect": "show what this machine is",
            "health": "print a dated verdict on the health of the GPUs, on the "
            "host of the runners; exit 1 if one is sick",
            "labels": "list the pools that this machine may join, and the labels for its runner",
            "doctor": "prove that this machine can do the work, or say what to fix",
            "checkout": "check out what `ci-compile sync` would commit to a branch, without the branch",
            "build": "build a variant, and keep its log and its manifest",
            "needs": "print the artifacts of the run that hold the files that a variant is built and tested with",
            "fetch": "fetch the closure of a build into this machine's store",
            "smoke": "test a built variant on this machine",
            "suite": "run a test suite of a built variant on this machine",
            "benchmark": "measure a built variant on this machine, beside a second build",
            "publish": "publish a build, unless it is already published",
            "publish-run": "publish the variants of a run that passed their tests, as its workflow does",
            "withdraw": "mark what ready publishers published of a version as not to be installed",
            "verify": "verify what was published: signature, content, tests, attestation and recipe",
            "coverage": "check that a machine serves every label set of the compiled workflows",
            "rerun": "run the failed jobs of shards again, once, where each of them lost its runner",
            "start": "run just-in-time runners of a pool, one job each, until stopped",
            "list": "list the runners that `start` created, and what they left behind",
            "prune": "remove what runners left behind",
            "deploy": "write deployment files for the pools: arc or systemd",
            "images": "write the files that the runner images are built from, in a new folder",
            "join-images": "join container images of several platforms into one archive, by an image index",
        },
    )


def main() -> int:
    """The entry point of `ci-runner`. It refuses a job that a newer version of ci-compile compiled."""
    compiler = os.environ.get(COMPILED_BY, "")
    return run(PROGRAM) if not compiler or _is_served(compiler) else 2


def _is_served(compiler: str) -> bool:
    """Whether this version runs what the version `compiler` compiled; if not, it says what would."""
    from ci_compiler.cli.console import print_findings  # only a job needs them, not `--help`
    from ci_compiler.codes import Code
    from ci_compiler.errors import wrong
    from ci_compiler.files.compiled_by import is_older

    if older := is_older(__version__, compiler):
        message = (
            f"ci-runner {__version__} is older than ci-compile {compiler}, which compiled this workflow; to fix it: "
            f"install ci-compiler=={compiler} on the machine, or start its runners from the images of {compiler}"
        )
        print_findings(wrong("this machine", Code.OLDER_RUNNER, message).findings)
    return not older
