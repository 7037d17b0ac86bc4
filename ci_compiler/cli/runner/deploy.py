"""`ci-runner deploy TARGET -o DIR`: writes or checks deployment files for the spec's pools."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from ci_compiler.cli.console import print_findings
from ci_compiler.cli.drift import counts_of, report_drift
from ci_compiler.cli.where import spec_of
from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.files.drift import Territory, apply, compare, differences
from ci_compiler.plan.pipeline import plan
from ci_compiler.runner.deployment import arc, nixos, quadlet, systemd
from ci_compiler.runner.deployment.service import Deployment
from ci_compiler.spec.model import Spec

TARGETS = ("arc", "systemd", "quadlet", "nixos")

PATTERNS = ("*", "*/*")
"""Where compiled files may be in a target's folder."""


def run(arguments: argparse.Namespace) -> int:
    """Writes the files; with `--check` returns 1 on drift."""
    spec = spec_of(arguments)
    plan(spec)
    made = _deployment(spec, arguments)
    print_findings(made.findings)
    target: str = arguments.target
    files = {f"{target}/{path}": text for path, text in made.files.items()}
    territories = [Territory(folder=target, patterns=PATTERNS)]
    changes = compare(arguments.output, files, territories)
    if arguments.diff:
        for line in differences(changes):
            print(line)
    if arguments.check:
        labels = ["--scale-set-labels"] if arguments.scale_set_labels else []
        return report_drift(changes, arguments, ["deploy", target, *labels], program="ci-runner")
    apply(arguments.output, files, changes, territories)
    where, counts = (arguments.output / target).as_posix(), counts_of(changes, len(files))
    print(f"{len(files)} files in {where} from {spec.document.file}: {counts}; see install.md there")
    return 0


def _deployment(spec: Spec, arguments: argparse.Namespace) -> Deployment:
    if arguments.target == arc.TARGET:
        return arc.deployment(spec, scale_set_labels=arguments.scale_set_labels)
    if arguments.scale_set_labels:
        raise wrong("--scale-set-labels", Code.WRONG_OPTION, f"applies only to arc, not to {arguments.target}")
    made: dict[str, Callable[[Spec], Deployment]] = {one.TARGET: one.deployment for one in (systemd, quadlet, nixos)}
    return made[arguments.target](spec)
