"""`ci-compile plan`: the plan of the spec, as a summary or as the public document in JSON; and its rows as YAML."""

from __future__ import annotations

import argparse

from ci_compiler.adoption.spec_yaml import entry
from ci_compiler.cli import options
from ci_compiler.cli.console import print_findings, print_json, table
from ci_compiler.cli.where import filter_of, profiled, spec_of
from ci_compiler.plan.document import document, plan_schema
from ci_compiler.plan.pipeline import plan
from ci_compiler.spec.build import expanded_value


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--json", action="store_true", help="print the whole plan as JSON")
    parser.add_argument(
        "--expanded",
        action="store_true",
        help="print the spec as YAML, with rows in place of the short form of a matrix",
    )
    options.shared(parser, "schema", "profile", "only-branch", "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Prints the plan, the schema, or the spec with rows."""
    if arguments.schema:
        print_json(plan_schema())
        return 0
    spec = spec_of(arguments)
    if arguments.expanded:
        print("\n".join(line for key, value in expanded_value(spec).items() for line in entry(key, value)))
        return 0
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
