"""`ci-compile dispatch NAME…`: starts builds of variants on GitHub, and waits for them."""

from __future__ import annotations

import argparse
import sys
from collections import deque
from collections.abc import Iterable, Iterator

from ci_compiler.cli.console import note
from ci_compiler.cli.remote import client_of
from ci_compiler.cli.where import plan_of, root_of
from ci_compiler.github.dispatch import SUCCESS, Progress, Started, follow, start, targets


def run(arguments: argparse.Namespace) -> int:
    """Prints the URL of each run; with `--wait`, returns 1 if one does not succeed."""
    wanted = targets(plan_of(arguments), arguments.names, arguments.branch)
    client = client_of(arguments, root_of(arguments))
    for name in dict.fromkeys(arguments.names):
        branches = [target.cell.branch for target in wanted if target.variant.name == name]
        if len(branches) > 1:
            note(f"{name} is built on {' and '.join(branches)}: all are started; --branch starts one")
    started: list[Started] = []
    for one in start(client, wanted, publish=arguments.publish, again=arguments.again):
        print(one.target.variant.name, one.target.cell.branch, one.url, flush=True)
        started.append(one)
    if not arguments.wait:
        return 0
    looks = follow(client, started)
    ended = deque(_bars(looks) if sys.stderr.isatty() else _lines(looks), maxlen=1).pop()
    for progress in ended:
        if progress.conclusion != SUCCESS:
            note(f"{progress}; {progress.started.url}")
    return 0 if all(progress.conclusion == SUCCESS for progress in ended) else 1


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
