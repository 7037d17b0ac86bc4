"""`ci-runner labels`: the spec's pools that this machine may join, and the labels for its runner."""

from __future__ import annotations

import argparse

from ci_compiler.cli import options
from ci_compiler.cli.console import note, print_json, table
from ci_compiler.cli.progress import progress
from ci_compiler.cli.where import spec_of
from ci_compiler.plan.machine_fit import PoolFit, fit, fit_as_json
from ci_compiler.runner.detect.this_machine import this_machine


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    options.shared(parser, "json", "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Lists every pool with its labels, or with what is missing; returns 1 if the machine fits none."""
    spec = spec_of(arguments)
    with progress("examining this machine"):
        machine = this_machine(spec.hardware)
    fits = [fit(spec.hardware, machine, pool) for pool in spec.pools]
    if arguments.json:
        print_json([fit_as_json(one) for one in fits])
    else:
        headers = ["pool", "fits", "labels, or what is missing"]
        table(
            headers,
            ([one.pool.name, "yes" if one.fits else "no", _labels_or_missing(one)] for one in fits),
            states=["fits"],
        )
        for one in fits:
            for remark in one.remarks:
                note(f"{one.pool.name}: {remark}")
    if not any(one.fits for one in fits):
        note("this machine fits no pool of the spec")
        return 1
    return 0


def _labels_or_missing(one: PoolFit) -> str:
    if one.missing:
        return "; ".join(one.missing)
    runs_on = one.pool.runs_on
    if runs_on.scale_set:
        return f"runner scale set {runs_on.scale_set}"
    group = f" in the runner group {runs_on.group}" if runs_on.group else ""
    return f"{', '.join(runs_on.labels) or 'no label'}{group}"
