"""`ci-compile dispatch PATTERN…`: starts builds of variants on GitHub, and waits for them."""

from __future__ import annotations

import argparse
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from ci_compiler.cli import options
from ci_compiler.cli.console import note, print_json
from ci_compiler.cli.orders import load_of_orders, wanted_of, waves_inputs
from ci_compiler.cli.remote import client_of
from ci_compiler.cli.where import plan_of, root_of
from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.github.dispatch import SUCCESS, Progress, ShardOrder, Started, Terms, follow, start
from ci_compiler.github.waves import start_waves
from ci_compiler.spec.versions import has_nights
from ci_compiler.units import counted


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    options.shared(parser, "patterns")
    parser.add_argument("--branch", metavar="B", help="only this branch (default: every branch that has the variants)")
    parser.add_argument("--shard", metavar="NAME", help="only this shard")
    parser.add_argument("--all", action="store_true", help="every variant")
    options.shared(parser, "unpublished")
    parser.add_argument(
        "--waves", action="store_true", help="on GitHub, start the shards in waves, so that no job waits for a day"
    )
    options.shared(parser, "publish")
    parser.add_argument(
        "--again",
        action="store_true",
        help="test what passed before, and with --publish publish even what is already published",
    )
    options.shared(parser, "night")
    parser.add_argument("--wait", action="store_true", help="follow the runs; exit 1 if one fails")
    options.shared(parser, "quiet", "json", "repository", "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Prints the URL of each run; with `--wait`, returns 1 if one does not succeed."""
    decided = plan_of(arguments)
    if not (arguments.patterns or arguments.branch or arguments.shard or arguments.all or arguments.unpublished):
        message = "nothing is chosen; name variants, or give --branch, --shard, --unpublished or --all"
        raise wrong("PATTERN", Code.WRONG_OPTION, message)
    if arguments.night and not has_nights(decided.spec):
        message = "no package has versions of nights; `command.version.night` declares them"
        raise wrong("--night", Code.WRONG_OPTION, message)
    wanted = wanted_of(arguments, decided)
    load = load_of_orders(decided, wanted, publish=arguments.publish)
    if load.variants > 1 and not arguments.quiet:
        note(str(load))
    if load.refusal and not arguments.waves:
        raise wrong("--waves", Code.QUEUE_TOO_LONG, load.refusal)
    client = client_of(arguments, root_of(arguments))
    if not arguments.quiet:
        _note_branches(arguments.patterns, wanted)
    if arguments.waves:
        about = f"{counted(len(wanted), 'shard')} in {counted(len(load.waves), 'wave')}"
        _print_waves(
            arguments,
            wanted,
            start_waves(client, decided, waves_inputs(arguments, " ".join(arguments.patterns), about)),
        )
        return 0
    started: list[Started] = []
    for one in start(client, wanted, Terms(publish=arguments.publish, again=arguments.again, night=arguments.night)):
        _print_started(arguments, one)
        started.append(one)
    ended = _followed(follow(client, started)) if arguments.wait else ()
    if arguments.json:
        print_json(_rows(started, ended))
    return 0 if all(progress.conclusion == SUCCESS for progress in ended) else 1


def _note_branches(patterns: Iterable[str], wanted: Iterable[ShardOrder]) -> None:
    """Notes the variants that are started on several branches."""
    wanted = list(wanted)
    for name in dict.fromkeys(patterns):
        branches = [order.shard.branch for order in wanted if name in order.chosen]
        if len(branches) > 1:
            note(f"{name} is built on {' and '.join(branches)}: all are started; --branch starts one")


def _print_started(arguments: argparse.Namespace, one: Started) -> None:
    line = f"{one.order.label} {one.order.shard.branch} {one.url}"
    if arguments.json:
        note(line)
    else:
        print(*(one.order.chosen if arguments.quiet else [line]), sep="\n", flush=True)


def _print_waves(arguments: argparse.Namespace, wanted: Iterable[ShardOrder], url: str) -> None:
    names = [name for order in wanted for name in order.chosen]
    if arguments.json:
        print_json({"url": url, "variants": names})
    else:
        print(*(names if arguments.quiet else [url]), sep="\n")


def _rows(started: Iterable[Started], ended: Iterable[Progress]) -> list[dict[str, Any]]:
    conclusions = {progress.started.run: progress.conclusion for progress in ended}
    return [
        {
            "shard": one.order.shard.name,
            "branch": one.order.shard.branch,
            "variants": list(one.order.chosen),
            "run": one.run,
            "url": one.url,
            "conclusion": conclusions.get(one.run, ""),
        }
        for one in started
    ]


def _followed(looks: Iterator[tuple[Progress, ...]]) -> tuple[Progress, ...]:
    """Shows the runs until they have ended, and returns how they did."""
    ended = deque(_bars(looks) if sys.stderr.isatty() else _lines(looks), maxlen=1).pop()
    for progress in ended:
        if progress.conclusion != SUCCESS:
            note(f"{progress}; {progress.started.url}")
    return ended


def _lines(looks: Iterable[tuple[Progress, ...]]) -> Iterator[tuple[Progress, ...]]:
    """Passes the states on, and prints the line of a run whenever it changes."""
    said: dict[int, str] = {}
    for look in looks:
        for progress in look:
            if said.get(progress.started.run) != str(progress):
                said[progress.started.run] = str(progress)
                note(str(progress))
        yield look


def _bars(looks: Iterable[tuple[Progress, ...]]) -> Iterator[tuple[Progress, ...]]:
    """Passes the states on, and shows one progress bar per run."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    tasks: dict[int, TaskID] = {}
    with Bars(*columns, console=Console(stderr=True)) as bars:
        for look in looks:
            for progress in look:
                run = progress.started.run
                if run not in tasks:
                    tasks[run] = bars.add_task(str(progress))
                task = tasks[run]
                bars.update(task, description=str(progress), completed=progress.ended, total=progress.jobs or None)
                if progress.done:
                    bars.stop_task(task)
            yield look
