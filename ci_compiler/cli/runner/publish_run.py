"""`ci-runner publish-run SHARD`: publishes the variants of a run that may be."""

from __future__ import annotations

import argparse
from dataclasses import replace

from ci_compiler.cli import options
from ci_compiler.cli.stage import reported
from ci_compiler.cli.where import chosen_of, filter_of, plan_of, root_of
from ci_compiler.errors import StageError
from ci_compiler.runner.jobs.publish_run import (
    candidates,
    cells_of_pool,
    ended_well,
    publish_run,
    read_results,
    reported_outputs,
)
from ci_compiler.runner.jobs.setting import Secrets, StageJob


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("shard", metavar="SHARD", help="the shard of the run")
    parser.add_argument("--pool", metavar="POOL", required=True, help="the pool whose variants are published")
    parser.add_argument("--chosen", metavar="NAMES", required=True, help="the variants of the run, as a JSON list")
    parser.add_argument("--commit", metavar="SHA", required=True, help="the commit that they were built from")
    parser.add_argument(
        "--needs",
        metavar="JSON",
        required=True,
        help="the context `needs` of the job, which has what builds and tests reported",
    )
    parser.add_argument(
        "--results",
        metavar="DIR",
        type=options.path,
        default="results",
        help="folder of the artifacts of the run (default: %(default)s)",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=options.path,
        default="publish-output",
        help="folder for the outcomes (default: %(default)s)",
    )
    parser.add_argument("--again", action="store_true", help="publish even what is already published")
    options.shared(parser, "root", "spec")


@reported
def run(arguments: argparse.Namespace, secrets: Secrets) -> int:
    """Prints what was published or held back; variants that failed are findings, and the result is 1."""
    decided, root = plan_of(arguments), root_of(arguments)
    shards = {shard.name: shard for shard in decided.shards}
    filter_of(arguments, "shard", shards, option="SHARD")
    shard = shards[arguments.shard]
    pools = {pool.name: pool for pool in shard.publish_pools}
    filter_of(arguments, "pool", pools)
    cells = cells_of_pool(shard, pools[arguments.pool])
    reported_there = reported_outputs(shard, decided.spec, arguments.needs)
    results = read_results(arguments.results, shard.branch, arguments.commit, reported_there)
    results = replace(results, well=ended_well(shard, arguments.needs))
    found = list(candidates(decided.spec, cells, chosen_of(arguments).get("", []), results, shard.cells))
    lines, failures = publish_run(StageJob(decided.spec, root, secrets), found, arguments.out, again=arguments.again)
    print("\n".join(lines) or "nothing to publish")
    if failures:
        raise StageError(failures)
    return 0
