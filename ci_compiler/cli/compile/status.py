"""`ci-compile status`: shows the last result of every variant as a grid."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ci_compiler.cli.where import add_spec, filter_of, root_of, spec_of

if TYPE_CHECKING:
    from ci_compiler.github.status import LastBuild
    from ci_compiler.spec.model import Spec


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the branch."""
    from ci_compiler.cli.remote import add_repository

    parser.add_argument("--branch", metavar="B", help="only this branch")
    parser.add_argument("--json", action="store_true", help="print JSON, one entry per variant")
    add_repository(parser)
    add_spec(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints one row per branch and GPU, with one column per ISA."""
    from collections import Counter

    from ci_compiler.cli.console import note, print_json, table
    from ci_compiler.cli.remote import client_of
    from ci_compiler.github.status import BuildResult, grid, status
    from ci_compiler.plan.pipeline import plan

    spec = spec_of(arguments)
    branch = filter_of(arguments, "branch", spec.branches)
    decided = plan(spec)
    client = client_of(arguments, root_of(arguments))
    shards = sum(branch in {None, shard.branch} for shard in decided.shards)
    lasts = [last for shard in _shown(status(client, decided, branch), shards) for last in shard]
    if arguments.json:
        print_json([_row(spec, last) for last in lasts])
        return 0
    table(*grid(decided, lasts))
    counts = Counter(last.result for last in lasts)
    note(", ".join(f"{counts[result]} {result.value}" for result in BuildResult if counts[result]))
    return 0


def _shown(shards: Iterable[tuple[LastBuild, ...]], count: int) -> Iterable[tuple[LastBuild, ...]]:
    """The shards, with a progress bar on a terminal while GitHub is asked for them."""
    if not sys.stderr.isatty():
        return shards
    from rich.console import Console
    from rich.progress import track

    return track(shards, "asking GitHub", total=count, console=Console(stderr=True), transient=True)


def _row(spec: Spec, last: LastBuild) -> dict[str, object]:
    from ci_compiler.plan.document import variant_row

    return {
        **variant_row(spec, last.cell, last.variant),
        "result": last.result.value,
        "stages": dict(last.stages),
        "started": last.started,
        "run": last.url,
    }
