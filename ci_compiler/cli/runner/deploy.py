"""`ci-runner deploy TARGET -o DIR`: deployment files out of the spec's pools, written or checked."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ci_compiler.cli.where import add_spec, spec_of
from ci_compiler.codes import Code

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_compiler.runner.deployment.service import Deployment
    from ci_compiler.spec.model import Spec

TARGETS = ("arc", "systemd", "quadlet", "nixos")

PATTERNS = ("*", "*/*")
"""Where files of ours may stand in a target's folder."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the target, `-o`, `--check` and `--diff`."""
    parser.add_argument("target", choices=TARGETS, metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="the folder that gets a folder TARGET"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where a file is not as compiled")
    parser.add_argument("--diff", action="store_true", help="show what changes")
    parser.add_argument(
        "--scale-set-labels", action="store_true", help="arc: make scale sets of the pools with labels too"
    )
    add_spec(parser)


def run(arguments: argparse.Namespace) -> int:
    """Writes the files; with `--check` returns 1 on drift."""
    from ci_compiler.cli.console import print_findings
    from ci_compiler.cli.drift import report_drift, told
    from ci_compiler.files.drift import Territory, apply, compare, differences
    from ci_compiler.plan.pipeline import plan

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
    where = (arguments.output / target).as_posix()
    print(f"{len(files)} files in {where} from {spec.document.file}: {told(changes, len(files))}; see install.md there")
    return 0


def _deployment(spec: Spec, arguments: argparse.Namespace) -> Deployment:
    from ci_compiler.errors import wrong
    from ci_compiler.runner.deployment import arc, nixos, quadlet, systemd

    if arguments.target == arc.TARGET:
        return arc.deployment(spec, scale_set_labels=arguments.scale_set_labels)
    if arguments.scale_set_labels:
        message = f"means something to arc alone, not to {arguments.target}"
        raise wrong("--scale-set-labels", Code.WRONG_OPTION, message)
    made: dict[str, Callable[[Spec], Deployment]] = {one.TARGET: one.deployment for one in (systemd, quadlet, nixos)}
    return made[arguments.target](spec)
