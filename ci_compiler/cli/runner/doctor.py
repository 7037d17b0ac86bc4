"""`ci-runner doctor`: proves whether this machine can do the work."""

from __future__ import annotations

import argparse
from dataclasses import replace

from ci_compiler.cli import options
from ci_compiler.cli.console import print_findings, print_json, table
from ci_compiler.cli.progress import progress
from ci_compiler.cli.where import filter_of, spec_of
from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.runner.doctor.diagnosis import as_json, examine, work_of
from ci_compiler.runner.doctor.probes import gather
from ci_compiler.stages import stage_of, stages


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("name", metavar="NAME", nargs="?", default="", help="the variant (default: any)")
    parser.add_argument(
        "--for",
        dest="stage",
        choices=[stage.name for stage in stages()],
        help="the stage (default: those of the machine's pools)",
    )
    parser.add_argument("--pool", metavar="POOL", help="check what the jobs of this pool need, and what it declares")
    parser.add_argument(
        "--deep", action="store_true", help="also write to the disk and to much memory of the GPUs, and read it back"
    )
    options.shared(parser, "json", "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Prints every check; one that failed is also a finding on standard error with its fix. Returns 1 if any failed."""
    spec, stage = spec_of(arguments), stage_of(arguments.stage) if arguments.stage else None
    pools = {pool.name: pool for pool in spec.pools}
    if arguments.name in pools:
        raise wrong("NAME", Code.UNKNOWN_VARIANT, f"{arguments.name!r} is a pool; write --pool {arguments.name}")
    pool = pools.get(filter_of(arguments, "pool", pools) or "")
    work = replace(work_of(spec, stage=stage, name=arguments.name, pool=pool), deep=arguments.deep)
    with progress("examining this machine"):
        results = examine(work, gather(work))
    if arguments.json:
        print_json(as_json(work, results))
    else:
        rows = ([name, one.verdict.value, one.message] for name, one in results.items())
        table(["check", "verdict", "found"], rows, states=["verdict"])
    failed = {name: one for name, one in results.items() if one.failed}
    for name, one in failed.items():
        message = f"{name}: {one.message}; to fix it: {one.fix}"
        print_findings(wrong("this machine", Code.CHECK_FAILED, message).findings)
    return 1 if failed else 0
