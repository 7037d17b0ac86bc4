"""`ci-compile status`: shows the last result of every variant as a grid."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from ci_compiler.cli import options
from ci_compiler.cli.console import note, print_findings, print_json, table
from ci_compiler.cli.pauses import pause_lines
from ci_compiler.cli.remote import client_of
from ci_compiler.cli.where import filter_of, root_of, spec_of
from ci_compiler.clock import day_of
from ci_compiler.errors import Finding
from ci_compiler.github.benchmarks import benchmark_row, benchmark_tables, benchmarks, measured
from ci_compiler.github.client import Client
from ci_compiler.github.errors import GitHubError, Trouble
from ci_compiler.github.status import (
    BuildOutcome,
    LastBuild,
    completeness,
    expectation_lines,
    expectation_rows,
    grid,
    status,
)
from ci_compiler.github.variables import read_variable
from ci_compiler.github.waves import waves_progress
from ci_compiler.github.workflows import disabled
from ci_compiler.plan.document import variant_row
from ci_compiler.plan.expected import dated_findings
from ci_compiler.plan.needs import Needs
from ci_compiler.plan.pause import PAUSE_VARIABLE
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.spec.model import Spec
from ci_compiler.stages import BENCHMARK
from ci_compiler.units import counted

Last = TypeVar("Last")


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    options.shared(parser, "only-branch", "only-toolkit")
    parser.add_argument(
        "--json", action="store_true", help="print JSON, one entry per variant, or with --complete per branch"
    )
    options.shared(parser, "quiet")
    parser.add_argument(
        "--result",
        metavar="RESULT",
        action="append",
        choices=[one.value for one in BuildOutcome],
        help="only variants with this result (%(choices)s); may be repeated",
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--complete",
        action="store_true",
        help="print how many variants of each branch passed from one commit; exit 1 unless all did",
    )
    group.add_argument(
        "--benchmarks", action="store_true", help="print what the last benchmarks found, a table per package"
    )
    options.shared(parser, "repository", "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Prints one row per branch and GPU, with one column per ISA.

    Notes name disabled workflows, waves, and what is paused.
    """
    spec = spec_of(arguments)
    branch = filter_of(arguments, "branch", spec.branches)
    decided = plan(spec)
    client = client_of(arguments, root_of(arguments))
    if arguments.benchmarks:
        return _print_benchmarks(arguments, decided, client, branch)
    shards = sum(branch in {None, shard.branch} for shard in decided.shards)
    toolkit = filter_of(arguments, "toolkit", spec.every_toolkit)
    lasts = [
        last
        for shard in _shown(status(client, decided, branch), shards)
        for last in shard
        if toolkit in {None, last.cell.toolkit}
    ]
    if arguments.complete:
        return _print_completeness(lasts, as_json=arguments.json)
    lasts = [last for last in lasts if not arguments.result or last.result.value in arguments.result]
    if arguments.quiet:
        print(*(last.variant.name for last in lasts), sep="\n", end="\n" * bool(lasts))
        return 0
    _print_pauses(spec, client)
    today = day_of(client.clock.now())
    print_findings(dated_findings(spec, today))
    if arguments.json:
        needs = Needs(spec, decided.judged.cells)
        print_json([_as_json(needs, last, today) for last in lasts])
        return 0
    _print_grid(decided, client, lasts, today)
    return 0


def _print_grid(decided: Plan, client: Client, lasts: Sequence[LastBuild], today: str) -> None:
    """Prints the grid, and notes on what is disabled, on waves, and on failures that the spec expects."""
    headers, rows = grid(decided, lasts)
    table(headers, rows, states=headers[2:])
    for line in (*disabled(client, decided), *waves_progress(client, decided)):
        note(str(line))
    for one in expectation_lines(decided.spec, lasts, today):
        if isinstance(one, Finding):
            print_findings([one])
        else:
            note(one)
    counts = Counter(last.result for last in lasts)
    note(", ".join(f"{counts[result]} {result.value}" for result in BuildOutcome if counts[result]))


def _print_benchmarks(arguments: argparse.Namespace, decided: Plan, client: Client, branch: str | None) -> int:
    """Prints what the last benchmarks found: a table per package, or JSON."""
    spec, toolkit = decided.spec, filter_of(arguments, "toolkit", decided.spec.every_toolkit)
    if BENCHMARK not in spec.stages:
        note(f"the spec switches {BENCHMARK} off; `tests: {{{BENCHMARK}: where-routed}}` switches it on")
    shards = [shard for shard in decided.shards if branch in {None, shard.branch} and measured(shard)]
    lasts = [benchmark for found in _shown(benchmarks(client, decided, branch), len(shards)) for benchmark in found]
    lasts = [benchmark for benchmark in lasts if toolkit in {None, benchmark.cell.toolkit}]
    if arguments.quiet:
        print(*(benchmark.variant.name for benchmark in lasts), sep="\n", end="\n" * bool(lasts))
    elif arguments.json:
        needs = Needs(spec, decided.judged.cells)
        print_json([benchmark_row(needs, benchmark) for benchmark in lasts])
    else:
        headers, tables = benchmark_tables(spec, lasts)
        for index, rows in enumerate(tables):
            print("\n" * bool(index), end="")
            table(headers, rows, spare=headers[-1:])
        count = sum(len(measured(shard)) for shard in shards)
        note(f"{len(lasts):,} of {counted(count, 'variant')} that a pool measures have a result")
    return 0


def _as_json(needs: Needs, last: LastBuild, today: str) -> dict[str, Any]:
    expected = expectation_rows(needs.spec, last, today)
    return {
        **variant_row(needs, last.cell, last.variant),
        "result": last.result.value,
        "stages": dict(last.stages),
        "started": last.started,
        "run": last.url,
        **({"expected": expected} if expected else {}),
    }


def _print_completeness(lasts: Iterable[LastBuild], *, as_json: bool) -> int:
    builds = completeness(lasts)
    if as_json:
        print_json([{**asdict(one), "complete": one.complete} for one in builds])
    else:
        print("\n".join(map(str, builds)))
    return 0 if all(one.complete for one in builds) else 1


def _print_pauses(spec: Spec, client: Client) -> None:
    """Prints what is paused on standard error; a token that may not read variables is no reason to show nothing."""
    try:
        value = read_variable(client, PAUSE_VARIABLE)
    except GitHubError as error:
        if error.trouble is not Trouble.FORBIDDEN:
            raise
        note(f"warning: {error.findings[0]}")
    else:
        for line in pause_lines(spec, value):
            note(line)


def _shown(shards: Iterable[Last], count: int) -> Iterable[Last]:
    """The shards, with a progress bar on a terminal while GitHub is asked for them."""
    if not sys.stderr.isatty():
        return shards
    from rich.console import Console
    from rich.progress import track

    return track(shards, "asking GitHub", total=count, console=Console(stderr=True), transient=True)
