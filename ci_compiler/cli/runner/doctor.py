"""`ci-runner doctor`: proves whether this machine can do the work."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ci_compiler.cli.where import add_spec, spec_of
from ci_compiler.codes import Code

if TYPE_CHECKING:
    from ci_compiler.errors import Finding
    from ci_compiler.judgement import Judgement


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the stage, the variant, `--json` and the spec."""
    from ci_compiler.stages import stages

    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="the variant (default: any)")
    parser.add_argument(
        "--for",
        dest="stage",
        choices=[stage.name for stage in stages()],
        help="the stage (default: those of the machine's pools)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_spec(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints every check; one that failed is also a finding on standard error with its fix. Returns 1 if any failed."""
    from ci_compiler.cli.console import print_findings, print_json, table
    from ci_compiler.runner.doctor.diagnosis import as_json, examine, work_of
    from ci_compiler.runner.doctor.probes import gather
    from ci_compiler.stages import stage_of

    stage = stage_of(arguments.stage) if arguments.stage else None
    work = work_of(spec_of(arguments), stage=stage, name=arguments.name)
    results = examine(work, gather(work))
    if arguments.json:
        print_json(as_json(work, results))
    else:
        rows = ([name, one.verdict.value, one.message] for name, one in results.items())
        table(["check", "verdict", "found"], rows)
    print_findings(_failures(results))
    return 1 if any(one.failed for one in results.values()) else 0


def _failures(results: Mapping[str, Judgement]) -> Iterator[Finding]:
    from ci_compiler.errors import Finding, Place

    for name, one in results.items():
        if one.failed:
            message = f"{name}: {one.message}; to fix it: {one.fix}"
            yield Finding(place=Place(file="this machine"), code=Code.CHECK_FAILED, message=message)
