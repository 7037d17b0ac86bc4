"""`ci-runner`: its subcommands, a module each."""

from __future__ import annotations

from ci_compiler.cli.app import Program, run

PROGRAM = Program(
    name="ci-runner",
    purpose="Detects, proves, starts and watches the self-hosted machines that run the compiled workflows.",
    package="ci_compiler.cli.runner",
    commands={
        "detect": "tell what this machine is",
        "labels": "tell the pools that this machine may join, and the labels to give its runner",
        "doctor": "prove that this machine can do the work, or say how to mend it",
        "build": "build a variant, and keep its log and its manifest",
        "fetch": "bring a build's closure into this machine's store",
        "smoke": "test a built variant on this machine",
        "publish": "publish a build, unless it is published already",
        "coverage": "tell whether every label set of the compiled workflows is served by a machine",
        "start": "run just-in-time runners of a pool, one job each, until told to stop",
        "list": "list the runners that start made, and what they left over",
        "prune": "remove what runners left over",
        "deploy": "write deployment files of the pools: arc, systemd, quadlet or nixos",
    },
)


def main() -> int:
    """The entry point of `ci-runner`."""
    return run(PROGRAM)
