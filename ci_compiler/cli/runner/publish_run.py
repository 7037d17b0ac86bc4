"""`ci-runner publish-run SHARD`: publishes the variants of a run that may be."""

from __future__ import annotations

import argparse
from dataclasses import replace

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
    every = [cell for cell, _ in shard.cells]
    reported_there = reported_outputs(every, decided.spec, arguments.needs)
    results = read_results(arguments.results, shard.branch, arguments.commit, reported_there)
    results = replace(results, well=ended_well(every, arguments.needs))
    found = list(candidates(decided.spec, cells, chosen_of(arguments).get("", []), results, shard.cells))
    lines, failures = publish_run(StageJob(decided.spec, root, secrets), found, arguments.out, again=arguments.again)
    print("\n".join(lines) or "nothing to publish")
    if failures:
        raise StageError(failures)
    return 0
