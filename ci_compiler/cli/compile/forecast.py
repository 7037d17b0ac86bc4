"""`ci-compile forecast`: what building everything costs and how long it takes, pool by pool."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from ci_compiler.cli import options
from ci_compiler.cli.console import note, print_json, table
from ci_compiler.cli.where import plan_of, profiled
from ci_compiler.codes import Code
from ci_compiler.errors import nearest, wrong
from ci_compiler.hardware.families import family_of, files_of, nixpkgs
from ci_compiler.plan.limits import limit
from ci_compiler.plan.pipeline import Plan
from ci_compiler.reports.accuracy import Accuracy, accuracy
from ci_compiler.reports.costs import bill_row
from ci_compiler.reports.forecast import NO_HISTORY, Forecast, PoolForecast, Spread, forecast, pool_table
from ci_compiler.reports.history import History, read_history
from ci_compiler.reports.without import Substitute, axis_values, substitutes, without
from ci_compiler.spec.model import Spec
from ci_compiler.spec.triggers import PUSH
from ci_compiler.units import counted, duration, grouped, guess, machine_hours, size


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "--history",
        metavar="PATH",
        type=options.path,
        help="`history.json` of the status page, or a folder with manifests "
        "of builds: their times replace the spec's minutes",
    )
    parser.add_argument("--no-publish", action="store_true", help="assume that nothing is published")
    parser.add_argument(
        "--without",
        metavar="VALUE",
        help="also say what dropping a value of an axis (`avx512vnni`, `sm120`, "
        "`3.11`, `12.8`) saves, and what its users get instead",
    )
    options.shared(parser, "profile", "json", "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Prints the forecast. Raises InputError if the history cannot be read."""
    decided = profiled(arguments, plan_of(arguments))
    publish = not arguments.no_publish and _publishes(decided.spec, arguments.profile)
    history = read_history(arguments.history) if arguments.history is not None else NO_HISTORY
    found = forecast(decided, history=history, publish=publish)
    off = accuracy(decided, history.records) if history.records else None
    dropped = _dropped(arguments, decided)
    less = forecast(dropped, history=history, publish=publish) if dropped else None
    instead = substitutes(decided, arguments.without) if less else ()
    if arguments.json:
        print_json(
            _as_json(found, off) | ({"without": _without_json(arguments.without, less, instead)} if less else {})
        )
    else:
        _print(found, history, off)
        if less:
            _print_without(arguments.without, found, less, instead)
    document = decided.spec.document
    for line in document.guessed:
        note(f"{document.file}:{line}: guessed, and so is what follows from it")
    return 0


def _publishes(spec: Spec, profile: str | None) -> bool:
    """Whether a run of the profile publishes. A dispatch may, and so may what builds what a push leaves out."""
    return profile in {None, PUSH} or spec.profiles.publishes(str(profile), on_push=True)


def _print(found: Forecast, history: History, off: Accuracy | None) -> None:
    source = "the spec's minutes"
    if history.source:
        source = f"{history.source} for {found.measured:,} variants, the spec's minutes for the others"
    hours = f"{machine_hours(found.seconds)} machine-hours, by {source}{guess(found.guessed)}"
    print(f"{found.variants:,} variants in {len(found.jobs):,} jobs on your machines, {hours}")
    print()
    table(*pool_table(found))
    print()
    for key, value in (*_lines(found), *_recorded_lines(found, off), *_path_lines(found)):
        print(f"{key:<16} {value}")


def _dropped(arguments: argparse.Namespace, decided: Plan) -> Plan | None:
    """The plan without the value that `--without` names; None without the option."""
    value, known = arguments.without, axis_values(decided)
    if value is None:
        return None
    if value not in known:
        raise wrong("--without", Code.WRONG_VALUE, f"{value!r} is on no axis of the spec{nearest(value, known)}")
    plan = without(decided, value)
    if not plan.shards:
        raise wrong("--without", Code.WRONG_VALUE, f"without {value!r} there is no variant left to build")
    return plan


def _print_without(value: str, found: Forecast, less: Forecast, instead: Sequence[Substitute]) -> None:
    print()
    saved = 1 - less.seconds / found.seconds
    print(
        f"Without {value}: {less.variants:,} of {found.variants:,} variants, {machine_hours(less.seconds)} of", end=" "
    )
    money = f", {found.bill.shown(found.bill.total - less.bill.total)}" if found.bill and less.bill else ""
    whole, told = machine_hours(found.seconds), guess(found.guessed)
    print(f"{whole} machine-hours ({saved:.1%}{money} saved), {duration(less.end)} for a full build{told}.")
    print("Its users get instead, without a measurement of what that costs them:")
    print()
    rows = [
        (substitute.variants, substitute.instead or "nothing", substitute.lost, ", ".join(substitute.gpus))
        for substitute in instead
    ]
    table(("variants", "instead", "lost", "on"), rows)


def _without_json(value: str, less: Forecast, instead: Sequence[Substitute]) -> dict[str, Any]:
    return {
        "value": value,
        "variants": less.variants,
        "seconds": less.seconds,
        "full_build": less.end,
        "instead": [
            {
                "variants": substitute.variants,
                "gpus": substitute.gpus,
                "instead": substitute.instead or None,
                "lost": substitute.lost,
            }
            for substitute in instead
        ],
    }


def _lines(found: Forecast) -> Iterator[tuple[str, str]]:
    if found.overdue:
        hours = limit("queued-hours").limit
        yield "full build", f"{duration(found.in_waves)} in {counted(len(found.waves), 'wave')} (--json lists them)"
        cancelled = f"{found.overdue:,} jobs would queue for more than {hours} h, after which GitHub cancels them"
        yield "not at once", f"all shards together need {duration(found.end)}, but {cancelled}"
    else:
        yield "full build", f"{duration(found.end)}, all shards dispatched at once"
    above = found.end / found.lower_bound - 1
    yield "lower bound", f"{duration(found.lower_bound)}, which all shards at once are {above:.1%} above"
    yield "bottleneck", found.bound.pool or "the longest chain of needs"
    best = min((found.better_end, "the jobs in the better order"), (found.longest_end, "the longest job first"))
    yield "other orders", f"{duration(best[0])} with {best[1]}" if best[0] < found.end else "none ends sooner"
    slowest = max(found.shards, key=found.shards.__getitem__)
    yield "one shard", f"up to {duration(found.shards[slowest])} ({slowest})"
    one = found.pull_request
    yield "pull request", f"up to {duration(one.seconds)} ({len(one.cells)} cells of {one.branch})"
    for package, memory in found.memory.items():
        yield "memory", f"{size(memory)} in the largest recorded build of {package}"
    for package, hits in found.seeds.items():
        share = f"{hits.found / hits.of:.1%} of the host objects of recorded builds of {package}"
        yield "seeds", f"{share}, {hits.found:,} of {hits.of:,}, came from compiler seeds"
    for family, gpus in grouped(found.capabilities, _family_with).items():
        count = f"{sum(found.capabilities[gpu] for gpu in gpus):,} variants"
        option = nixpkgs(family)["capabilities"]
        why = f"{count} set config.{option}" if option else f"nixpkgs has none for the target of {count} alone"
        yield (
            f"{family_of(family).toolkit} libraries",
            f"built again for {', '.join(gpus)}, because {why}; not in the times",
        )
    saved = f"{machine_hours(found.alone_seconds - found.seconds)} machine-hours"
    yield "shared builds", f"save {saved} and {duration(found.alone_end - found.end)} of a full build"


def _family_with(target: str) -> str:
    """The family of those that nixpkgs builds for that has `target`."""
    return next(family for family in files_of("nixpkgs.json") if family_of(family).is_target(target))


def _path_lines(found: Forecast) -> Iterator[tuple[str, str]]:
    yield "critical path", duration(sum(job.seconds for job in found.path))
    for job in found.path:
        stage = f"{job.stage} {job.suite}".rstrip()
        yield "", f"{job.variant.name} {stage} on {job.pool}, {duration(job.seconds)}"


def _recorded_lines(found: Forecast, off: Accuracy | None) -> Iterator[tuple[str, str]]:
    """What records and prices add."""
    if one := found.spread:
        hours = f"{machine_hours(one.least)} to {machine_hours(one.most)} machine-hours"
        ends = f"a full build of {duration(one.first_end)} to {duration(one.last_end)}"
        yield "spread", f"{hours} and {ends}, from the 10th to the 90th percentile of every recorded job"
    if off:
        yield "was off by", f"{off.work} in the machine-hours of {counted(off.runs, 'recorded run')} of whole shards"
        yield "", f"{off.time} in their duration, with the time that they waited for machines"
    if found.bill:
        yield "cost", str(found.bill)


def _as_json(found: Forecast, off: Accuracy | None) -> dict[str, Any]:
    return {
        "variants": found.variants,
        "measured": found.measured,
        "memory": dict(found.memory),
        "jobs": len(found.jobs),
        "seconds": found.seconds,
        "pools": list(map(_pool_json, found.pools)),
        "full_build": {
            "as_written": found.end,
            "better_order": found.better_end,
            "longest_first": found.longest_end,
            "lower_bound": found.lower_bound,
            "bottleneck": found.bound.pool or None,
            "longest_wait": found.schedule.longest_wait,
            "overdue": found.overdue,
        },
        "waves": [{"shards": list(wave.shards), "seconds": wave.seconds} for wave in found.waves],
        "shards": dict(found.shards),
        "pull_request": {
            "branch": found.pull_request.branch,
            "cells": [cell.suffix for cell in found.pull_request.cells],
            "seconds": found.pull_request.seconds,
        },
        "capabilities": dict(found.capabilities),
        "critical_path": [
            {
                "variant": job.variant.name,
                "branch": job.cell.branch,
                "stage": job.stage.name,
                "pool": job.pool,
                "seconds": job.seconds,
            }
            for job in found.path
        ],
        "every_package_builds_its_needs": {"seconds": found.alone_seconds, "full_build": found.alone_end},
        **_recorded_json(found, off),
    }


def _recorded_json(found: Forecast, off: Accuracy | None) -> dict[str, Any]:
    """What records, prices and guesses add."""
    return {
        **({"guessed": found.guessed} if found.guessed else {}),
        **({"compiler_seeds": {name: one._asdict() for name, one in found.seeds.items()}} if found.seeds else {}),
        **({"spread": _spread_json(found.spread)} if found.spread else {}),
        **({"off": {"runs": off.runs, "work": off.work, "time": off.time}} if off else {}),
        **({"cost": bill_row(found.bill)} if found.bill else {}),
    }


def _spread_json(one: Spread) -> dict[str, Any]:
    return {"seconds": [one.least, one.most], "full_build": [one.first_end, one.last_end]}


def _pool_json(one: PoolForecast) -> dict[str, Any]:
    return {
        "name": one.pool.name,
        "machines": one.pool.count,
        "jobs": one.jobs,
        "seconds": one.seconds,
        "busy": round(one.busy, 4),
        "lower_bound": one.bound,
        "build_disk_gb": one.build_disk,
        "disk_peak_gb": one.disk_peak,
        "disk_gb": one.pool.disk,
        "one_more_saves": one.one_more,
    }
