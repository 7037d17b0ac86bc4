"""`ci-runner health`: one verdict on the health of the machine's GPUs, as its host sees it."""

from __future__ import annotations

import argparse

from ci_compiler.cli.console import print_json
from ci_compiler.clock import Clock
from ci_compiler.errors import ExitCode
from ci_compiler.runner.detect.this_machine import ROOT
from ci_compiler.runner.host_health import as_json, verdict_of


def run(_: argparse.Namespace) -> int:
    """Prints the verdict; returns 1 if a GPU has a fault, or does not respond."""
    verdict = verdict_of(ROOT, Clock().now())
    print_json(as_json(verdict))
    return ExitCode.FINDINGS if verdict.sick else ExitCode.DONE
