"""`ci-compile waves`: in a job of `waves.yml`, starts wave after wave, and hands over to a new run in time."""

from __future__ import annotations

import argparse
import os

from ci_compiler.cli import options
from ci_compiler.cli.console import note
from ci_compiler.cli.orders import load_of_orders, wanted_of, waves_inputs
from ci_compiler.cli.remote import client_of
from ci_compiler.cli.where import plan_of, root_of
from ci_compiler.github.dispatch import Terms
from ci_compiler.github.waves import run_waves, start_waves
from ci_compiler.plan.pause import PAUSE_VARIABLE


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "--patterns", metavar="PATTERNS", default="", help="names with wildcards, separated by blanks (default: all)"
    )
    parser.add_argument("--branch", metavar="B", default="", help="only this branch")
    parser.add_argument("--shard", metavar="NAME", default="", help="only this shard")
    parser.add_argument("--about", metavar="TEXT", default="", help="what the run is for")
    parser.add_argument("--request", metavar="ID", required=True, help="what marks the runs of the shards")
    parser.add_argument("--minutes", metavar="N", type=int, required=True, help="when to hand over to a new run")
    options.shared(parser, "unpublished", "publish")
    parser.add_argument(
        "--again", action="store_true", help="test what passed before, and publish even what is already published"
    )
    options.shared(parser, "night")
    parser.add_argument(
        "--profile", metavar="NAME", default="", help="only what this profile of the spec builds, in runs of it"
    )
    options.shared(parser, "repository", "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Returns when every wave has ended, or when a new run goes on with them."""
    decided, patterns = plan_of(arguments), arguments.patterns
    arguments.patterns = patterns.split()
    wanted = {order.shard.name: order for order in wanted_of(arguments, decided)}
    load = load_of_orders(decided, wanted.values(), publish=arguments.publish)
    waves = [[wanted[name] for name in wave.shards] for wave in load.waves]
    note(f"{load}; {len(waves)} waves")
    client = client_of(arguments, root_of(arguments))
    terms = Terms(
        publish=arguments.publish,
        again=arguments.again,
        request=arguments.request,
        night=arguments.night,
        profile=arguments.profile,
    )
    until, paused = client.clock.passed() + arguments.minutes * 60, os.environ.get(PAUSE_VARIABLE, "")
    if run_waves(client, decided, waves, terms, until=until, paused=paused):
        print("every wave has ended")
        return 0
    inputs = waves_inputs(arguments, patterns, arguments.about, arguments.request)
    print("the next run goes on:", start_waves(client, decided, inputs))
    return 0
