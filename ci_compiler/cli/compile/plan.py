"""`ci-compile plan`: the plan of the spec, as a summary or as the public document in JSON."""

from __future__ import annotations

import argparse

from ci_compiler.cli import options
from ci_compiler.cli.console import print_findings, print_json, table
from ci_compiler.cli.where import filter_of, profiled, spec_of
from ci_compiler.plan.document import document, plan_schema
from ci_compiler.plan.pipeline import plan


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--json", action="store_true", help="print the whole plan as JSON")
    parser.add_argument("--schema", action="store_true", help="print the JSON Schema of `--json`, and read no spec")
    options.shared(parser, "profile", "only-branch", "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Prints the plan, or the schema."""
    if arguments.schema:
        print_json(plan_schema())
        return 0
    spec = spec_of(arguments)
    branch = filter_of(arguments, "branch", spec.branches)
    decided = profiled(arguments, plan(spec))
    if arguments.json:
        print_json(document(decided, branch))
        return 0
    print_findings(decided.warnings)
    shards = [shard for shard in decided.shards if branch in {None, shard.branch}]
    counts = [(len(shard.cells), len(shard.variants), shard.jobs) for shard in shards]
    rows = [(shard.name, *own) for shard, own in zip(shards, counts, strict=True)]
    table(["shard", "cells", "variants", "jobs"], [*rows, ("all", *map(sum, zip(*counts, strict=True)))])
    return 0
