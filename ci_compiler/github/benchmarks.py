"""What the last benchmarks of the variants found: from the artifact that each run of a shard keeps of them.

A run's artifact takes two requests, whatever the number of its variants. The newest runs of a shard are read until
every variant of the shard that is measured at all has a result, or until a depth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ci_compiler.github.actions import stamp
from ci_compiler.github.artifacts import files, newest
from ci_compiler.github.client import Client
from ci_compiler.github.status import last_runs
from ci_compiler.outside import json_of
from ci_compiler.plan.benchmarks import DEVICES, BenchmarkResult, read_benchmark
from ci_compiler.plan.document import variant_row
from ci_compiler.plan.matrix import Cell, Variant
from ci_compiler.plan.needs import Needs
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.records import Key, Records
from ci_compiler.plan.sharding import Shard
from ci_compiler.spec.model import Spec
from ci_compiler.stages import BENCHMARK
from ci_compiler.workflows import artifacts

LARGEST = 50_000_000
"""The most bytes of an artifact, and of all the files in it that are read: a file has about 20 kB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastBenchmark:
    """The last result of a variant that was measured; of the run, the URL and the start."""

    variant: Variant
    cell: Cell
    result: BenchmarkResult
    url: str
    started: str


def benchmarks(client: Client, plan: Plan, branch: str | None = None) -> Iterator[tuple[LastBenchmark, ...]]:
    """The last results, shard by shard in the order of the plan, of `branch` or of all. Raises GitHubError."""
    for shard in plan.shards:
        if branch in {None, shard.branch}:
            yield tuple(_of_shard(client, plan, shard))


def measured(shard: Shard) -> dict[str, tuple[Cell, Variant]]:
    """The variants of `shard` that a pool measures, by name."""
    return {
        variant.name: (cell, variant)
        for cell, route in shard.cells
        if BENCHMARK in route.pools
        for variant in cell.variants
    }


def lasts_of(plan: Plan, records: Records, web_host: str) -> Iterator[LastBenchmark]:
    """The last comparison of each variant that has one in `records`."""
    for shard in plan.shards:
        for name, (cell, variant) in measured(shard).items():
            trace = records.variants.get((cell.branch, name))
            for last in trace.records if trace else ():
                if result := last.benchmark:
                    url, started = records.address(web_host, last.run), stamp(last.run.started)
                    yield LastBenchmark(variant=variant, cell=cell, result=result, url=url, started=started)
                    break


def benchmarks_of_run(client: Client, run: int) -> tuple[BenchmarkResult, ...]:
    """What the benchmarks of a run found; () if it kept nothing, or no longer does. Raises GitHubError."""
    archive = newest(client, run, artifacts.BENCHMARKS, LARGEST)
    found = map(_read, files(archive, artifacts.BENCHMARK, LARGEST)) if archive else ()
    return tuple(filter(None, found))


def gains_of_run(client: Client, run: int) -> dict[Key, BenchmarkResult]:
    """The comparisons of a run, by branch and variant. Raises GitHubError."""
    return {(result.branch, result.name): result for result in benchmarks_of_run(client, run) if result.gains}


def benchmark_row(needs: Needs, last: LastBenchmark) -> dict[str, Any]:
    """The row of a result as plain JSON."""
    result = last.result
    return variant_row(needs, last.cell, last.variant) | {
        "beside": result.beside,
        "title": result.over,
        "gains": {device: gain._asdict() for device, gain in result.gains.items()},
        "machine": result.machine,
        "started": last.started,
        "run": last.url,
    }


def benchmark_tables(spec: Spec, lasts: Iterable[LastBenchmark]) -> tuple[list[str], list[list[list[str]]]]:
    """The headers, and the rows of a table per package."""
    tables: dict[str, list[list[str]]] = {package: [] for package in spec.packages}
    for last in lasts:
        gains = [str(last.result.gains.get(device, "-")) for device in DEVICES]
        row = [last.variant.name, last.result.over or "measured alone", *gains, last.result.machine]
        tables[last.variant.package].append(row)
    return ["variant", "compared", *DEVICES.values(), "machine"], list(filter(None, tables.values()))


def _of_shard(client: Client, plan: Plan, shard: Shard) -> Iterator[LastBenchmark]:
    wanted = measured(shard)
    found: dict[str, LastBenchmark] = {}
    for run in last_runs(client, plan, shard) if wanted else ():
        for result in benchmarks_of_run(client, run["id"]):
            if result.branch == shard.branch and result.name in wanted.keys() - found.keys():
                (cell, variant), url, started = wanted[result.name], run["html_url"], run["created_at"]
                last = LastBenchmark(cell=cell, variant=variant, result=result, url=url, started=started)
                found[result.name] = last
        if len(found) == len(wanted):
            break
    yield from (found[name] for name in wanted if name in found)


def _read(content: bytes) -> BenchmarkResult | None:
    try:
        return read_benchmark(json_of(content))
    except OSError:
        return None
