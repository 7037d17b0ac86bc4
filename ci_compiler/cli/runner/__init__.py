"""`ci-runner`: its subcommands, one module each."""

from __future__ import annotations

from ci_compiler.cli.app import Program, run

PROGRAM = Program(
    name="ci-runner",
    purpose="Detects, checks, starts and watches the self-hosted machines that run the compiled workflows.",
    package="ci_compiler.cli.runner",
    commands={
        "detect": "show what this machine is",
        "labels": "list the pools that this machine may join, and the labels for its runner",
        "doctor": "prove that this machine can do the work, or say what to fix",
        "build": "build a variant, and keep its log and its manifest",
        "fetch": "fetch the closure of a build into this machine's store",
        "smoke": "test a built variant on this machine",
        "publish": "publish a build, unless it is already published",
        "coverage": "check that a machine serves every label set of the compiled workflows",
        "start": "run just-in-time runners of a pool, one job each, until stopped",
        "list": "list the runners that `start` created, and what they left behind",
        "prune": "remove what runners left behind",
        "deploy": "write deployment files for the pools: arc, systemd, quadlet or nixos",
    },
)


def main() -> int:
    """The entry point of `ci-runner`."""
    return run(PROGRAM)
