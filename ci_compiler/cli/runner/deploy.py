"""`ci-runner deploy TARGET -o DIR`: writes or checks deployment files for the spec's pools."""

from __future__ import annotations

import argparse
from pathlib import Path

from ci_compiler.cli.where import add_spec, spec_of
from ci_compiler.codes import Code

TARGETS = ("arc", "systemd", "quadlet", "nixos")

PATTERNS = ("*", "*/*")
"""Where compiled files may be in a target's folder."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the target, `-o`, `--check` and `--diff`."""
    parser.add_argument("target", choices=TARGETS, metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="the folder in which to write the folder TARGET"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is not as compiled")
    parser.add_argument("--diff", action="store_true", help="show what changes")
    parser.add_argument(
        "--scale-set-labels", action="store_true", help="arc: also create scale sets for the pools with labels"
    )
    add_spec(parser)


def run(arguments: argparse.Namespace) -> int:
    """Writes the files; with `--check` returns 1 on drift."""
    from ci_compiler.cli.console import print_findings
    from ci_compiler.cli.drift import counts_of, report_drift
    from ci_compiler.errors import wrong
    from ci_compiler.files.drift import Territory, apply, compare, differences
    from ci_compiler.plan.pipeline import plan
    from ci_compiler.runner.deployment.kinds import ARC, deployment

    spec = spec_of(arguments)
    plan(spec)
    target: str = arguments.target
    if arguments.scale_set_labels and target != ARC:
        raise wrong("--scale-set-labels", Code.WRONG_OPTION, f"applies only to arc, not to {target}")
    made = deployment(spec, target, scale_set_labels=arguments.scale_set_labels)
    print_findings(made.findings)
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
