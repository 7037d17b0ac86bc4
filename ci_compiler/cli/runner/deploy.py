"""`ci-runner deploy TARGET -o DIR`: writes or checks deployment files for the spec's pools."""

from __future__ import annotations

import argparse

from ci_compiler.cli import options
from ci_compiler.cli.console import print_findings
from ci_compiler.cli.drift import write_or_check
from ci_compiler.cli.where import plan_of
from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.files.drift import Territory
from ci_compiler.runner.deployment.kinds import ARC, deployment
from ci_compiler.runner.deployment.request_budget import over_budget

PATTERNS = ("*", "*/*")
"""Where compiled files may be in a target's folder."""


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("target", metavar="TARGET", choices=["arc", "systemd"], help="%(choices)s")
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        type=options.path,
        required=True,
        help="the folder in which to write the folder TARGET",
    )
    options.shared(parser, "check", "diff")
    parser.add_argument(
        "--scale-set-labels",
        action="store_true",
        help="arc: also create scale sets for the pools with labels, as is done if no pool is a scale set",
    )
    options.shared(parser, "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Writes the files; with `--check` returns 1 on drift."""
    plan = plan_of(arguments)
    spec = plan.spec
    target: str = arguments.target
    if arguments.scale_set_labels and target != ARC:
        raise wrong("--scale-set-labels", Code.WRONG_OPTION, f"applies only to arc, not to {target}")
    made = deployment(spec, target, scale_set_labels=arguments.scale_set_labels)
    print_findings([*made.findings, *(over_budget(plan) if target != ARC else ())])
    files = {f"{target}/{path}": text for path, text in made.files.items()}
    territories = [Territory(folder=target, patterns=PATTERNS)]
    labels = ["--scale-set-labels"] if arguments.scale_set_labels else []
    command = ["ci-runner", "deploy", target, *labels]
    what = f"{len(files)} files in {(arguments.output / target).as_posix()} from {spec.document.file}"

    def done(counts: str) -> None:
        print(f"{what}: {counts}; see install.md there")

    return write_or_check(arguments, command, arguments.output, files, territories, done)
