"""`ci-compile start PROFILE`: starts the runs of a profile of the spec, as its compiled workflow does."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache

from ci_compiler.cli import options
from ci_compiler.cli.console import note
from ci_compiler.cli.orders import load_of_orders
from ci_compiler.cli.remote import client_of
from ci_compiler.cli.where import plan_of, root_of
from ci_compiler.codes import Code
from ci_compiler.errors import nearest, wrong
from ci_compiler.git import Git
from ci_compiler.github.batches import standing_of
from ci_compiler.github.client import Client
from ci_compiler.github.dispatch import ShardOrder, Terms, start
from ci_compiler.github.waves import has_waves, start_waves
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.plan.selection import Question, names_of_profile
from ci_compiler.plan.sharding import ALL, UNPUBLISHED
from ci_compiler.spec.revision import base_spec
from ci_compiler.spec.triggers import NIGHTLY, PROFILE, RELEASE
from ci_compiler.spec.versions import NIGHT, has_nights
from ci_compiler.sync.events import changed_since, released_tag
from ci_compiler.sync.landing import tips


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("started", metavar="PROFILE", help="`push` (with `batch`), `nightly` or `release`")
    options.shared(parser, "repository", "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Prints the URL of each run that it starts. Raises InputError for a profile that no run is of, and GitHubError."""
    decided, name = plan_of(arguments), arguments.started
    started = decided.spec.profiles.started
    if name not in started:
        message = (
            f"no run is of the profile {name!r}{nearest(name, started) or '; `profiles` of the spec declares them'}"
        )
        raise wrong("PROFILE", Code.UNKNOWN_PROFILE, message)
    root = root_of(arguments)
    git, client = Git(root), client_of(arguments, root)
    night = ""
    if name == NIGHTLY and has_nights(decided.spec):
        night = f"{datetime.fromtimestamp(client.clock.now(), tz=UTC):%Y%m%d}"
    if started[name]:
        _start_changed(git, client, decided, name, night)
    else:
        for branch in _tagged(git, decided) if name == RELEASE else [""]:
            print(start_waves(client, decided, _inputs(decided, name, branch, night)))
    return 0


def _start_changed(git: Git, client: Client, decided: Plan, name: str, night: str) -> None:
    """Starts a run for each shard of which something changed: at once, or in waves if these are too many."""
    if has_waves(client, _about(name)):
        note(f"the waves for the profile {name} go on; what changes meanwhile is built by a later start")
        return
    wanted = list(_changed(git, client, decided, name, night))
    load = load_of_orders(decided, (order for order, _ in wanted), publish=_publishes(decided, name))
    if load.refusal:
        note(f"{load}; {len(load.waves)} waves")
        print(start_waves(client, decided, _inputs(decided, name, "", night)))
        return
    for order, terms in wanted:
        for run in start(client, [order], terms):
            print(f"{order.label} {order.shard.branch} {run.url}")


def _about(name: str) -> str:
    """What the waves of a profile are about, by which they are found."""
    return f"the profile {name}"


def _inputs(decided: Plan, name: str, branch: str, night: str) -> dict[str, str]:
    """The inputs of `waves.yml` for the runs of a profile on `branch` ('': on all), with the date of a night."""
    spec = decided.spec
    unpublished = name == NIGHTLY and spec.profiles.nightly and spec.profiles.nightly.build == UNPUBLISHED
    switches = {"publish": _publishes(decided, name), UNPUBLISHED: unpublished}
    texts = {PROFILE: name, "branch": branch, "about": _about(name), NIGHT: night}
    return {key: text for key, text in texts.items() if text} | {key: "true" for key, on in switches.items() if on}


def _publishes(decided: Plan, name: str) -> bool:
    return decided.spec.profiles.publishes(name, on_push=decided.spec.publish.on_push)


def _tagged(git: Git, decided: Plan) -> list[str]:
    """The branches whose tip is what is checked out, which has a tag of releases. Raises InputError."""
    tag, head = released_tag(git, decided.spec), git.resolve("HEAD")
    found = [branch for branch, tip in tips(git, decided.spec).items() if tip == head]
    if not found:
        message = f"{tag} is at the tip of no branch of the spec; a run builds and publishes the tip of a branch"
        raise wrong("PROFILE", Code.WRONG_REF, message)
    return found


def _changed(git: Git, client: Client, default: Plan, name: str, night: str) -> Iterator[tuple[ShardOrder, Terms]]:
    """An order for each shard of which something changed since its last complete run, and its terms."""
    heads = tips(git, default.spec)
    for branch, decided in _branches(git, default, heads):
        if name not in decided.spec.profiles.started:
            note(f"{branch} has a spec without the profile {name}; `ci-compile sync` carries it there")
            continue

        @cache
        def rebuilt(since: tuple[str, ...], branch: str = branch, decided: Plan = decided) -> frozenset[str]:
            names, remark = changed_since(git, decided, Question(branch, since=since), heads[branch])
            if remark:
                note(remark)
            return frozenset(names)

        own = names_of_profile(decided, name, branch)
        for shard in decided.shards:
            if shard.branch != branch or not (stand := standing_of(client, shard, name)).is_due(heads[branch]):
                continue
            among = rebuilt(stand.since) if stand.since else frozenset(shard.variants)
            if chosen := tuple(variant for variant in shard.variants if variant in among and variant in own):
                publishes = decided.spec.branches[branch].publish
                order = ShardOrder(shard=shard, choice=ALL, chosen=chosen, publishes=publishes)
                publish = _publishes(decided, name)
                yield order, Terms(publish=publish, night=night, profile=name, since=stand.since_input)


def _branches(git: Git, default: Plan, heads: Mapping[str, str]) -> Iterator[tuple[str, Plan]]:
    """The branches that the repository has, each with the plan of the spec at its tip."""
    head = git.resolve("HEAD")
    for branch, tip in heads.items():
        yield branch, default if tip == head else plan(base_spec(git.root, tip))
