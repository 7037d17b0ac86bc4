"""What the last benchmarks of the variants found: from the artifact that each run of a shard keeps of them.

A run's artifact takes two requests, whatever the number of its variants. The newest runs of a shard are read until
every variant of the shard that is measured at all has a result, or until a depth.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any
from zipfile import BadZipFile, ZipFile

from ci_compiler.github.client import Client
from ci_compiler.github.status import DEPTH, last_runs
from ci_compiler.plan.benchmarks import DEVICES, BenchmarkResult, read_benchmark
from ci_compiler.plan.document import variant_row
from ci_compiler.plan.matrix import Cell, Variant
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.sharding import Shard
from ci_compiler.spec.model import Spec
from ci_compiler.stages import BENCHMARK
from ci_compiler.workflows import artifacts

LARGEST = 50_000_000
"""The most bytes of an artifact, and of all the files in it that are read: a file has about 20 kB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastBenchmark:
    """The last result of a variant that was measured; of the run, the URL, start and commit."""

    variant: Variant
    cell: Cell
    result: BenchmarkResult
    url: str
    started: str
    commit: str


def benchmarks(
    client: Client, plan: Plan, branch: str | None = None, depth: int = DEPTH
) -> Iterator[tuple[LastBenchmark, ...]]:
    """The last results, shard by shard in the order of the plan, of `branch` or of all. Raises GitHubError."""
    for shard in plan.shards:
        if branch in {None, shard.branch}:
            yield tuple(_of_shard(client, shard, depth))


def measured(shard: Shard) -> dict[str, tuple[Cell, Variant]]:
    """The variants of `shard` that a pool measures, by name."""
    return {
        variant.name: (cell, variant)
        for cell, route in shard.cells
        if BENCHMARK in route.pools
        for variant in cell.variants
    }


def benchmarks_of_run(client: Client, run: int) -> tuple[BenchmarkResult, ...]:
    """What the benchmarks of a run found; () if it kept nothing, or no longer does. Raises GitHubError.

    Any job of a run can upload an artifact, so that nothing here is more than a claim of the run about itself.
    """
    path = f"/repos/{client.access.repository}/actions/runs/{run}/artifacts?name={artifacts.BENCHMARKS}"
    kept = [one for one in client.pages(f"list the artifacts of the run {run}", path, "artifacts", _artifact) if one]
    if not kept:
        return ()
    _, number = max(kept)
    path = f"/repos/{client.access.repository}/actions/artifacts/{number}/zip"
    return tuple(_results(client.download(f"read the benchmarks of the run {run}", path, most=LARGEST)))


def gains_of_run(client: Client, run: int) -> dict[tuple[str, str], dict[str, Any]]:
    """What a history keeps of the benchmarks of a run, by branch and variant. Raises GitHubError."""
    return {
        (one.branch, one.name): {
            "over": one.beside,
            **{at: list(one.gains[at]) for at in ("cpu", "gpu") if at in one.gains},
        }
        for one in benchmarks_of_run(client, run)
        if one.beside
    }


def benchmark_row(spec: Spec, last: LastBenchmark) -> dict[str, Any]:
    """The row of a result as plain JSON."""
    result = last.result
    return variant_row(spec, last.cell, last.variant) | {
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


def _of_shard(client: Client, shard: Shard, depth: int) -> Iterator[LastBenchmark]:
    wanted, workflow = measured(shard), client.workflows.get(shard.path)
    if not wanted or workflow is None:
        return
    found: dict[str, LastBenchmark] = {}
    for run in last_runs(client, shard, workflow, depth):
        of_run = {one.name: one for one in benchmarks_of_run(client, run.id) if one.branch == shard.branch}
        for name in wanted.keys() & of_run.keys() - found.keys():
            found[name] = LastBenchmark(
                cell=wanted[name][0],
                variant=wanted[name][1],
                result=of_run[name],
                url=run.html_url,
                started=f"{run.created_at:%Y-%m-%dT%H:%M:%SZ}",
                commit=run.head_sha,
            )
        if len(found) == len(wanted):
            break
    yield from (found[name] for name in wanted if name in found)


def _artifact(entry: Mapping[str, Any]) -> tuple[str, int] | None:
    """When an artifact was made, and its id; None if it is another one, has expired or is too large."""
    is_it = entry["name"] == artifacts.BENCHMARKS and not entry["expired"] and entry["size_in_bytes"] <= LARGEST
    return (str(entry["created_at"]), int(entry["id"])) if is_it else None


def _results(archive: bytes) -> Iterator[BenchmarkResult]:
    """The results in an archive, whose names and contents may be anything."""
    left = LARGEST
    try:
        with ZipFile(BytesIO(archive)) as files:
            for info in files.infolist():
                if info.filename.rpartition("/")[2] != artifacts.BENCHMARK:
                    continue
                with files.open(info) as file:
                    content = file.read(left + 1)
                left -= len(content)
                if left < 0:
                    return
                if result := _read(content):
                    yield result
    except (BadZipFile, zlib.error, NotImplementedError, RuntimeError, OSError, EOFError):
        return


def _read(content: bytes) -> BenchmarkResult | None:
    try:
        return read_benchmark(json.loads(content))
    except (ValueError, RecursionError):
        return None
