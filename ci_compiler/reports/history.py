"""The durations of recorded builds and tests, and the memory of builds: from manifests, or from `history.json`.

A duration stands for several as their median, with the spread from the tenth to the ninetieth percentile. What a build
took that found its result in a store does not count.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from statistics import median, quantiles
from typing import Any, NamedTuple

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, wrong
from ci_compiler.outside import bytes_of, object_of, reading, why
from ci_compiler.plan.job_graph import Recorded
from ci_compiler.plan.records import Records
from ci_compiler.reports.history_file import LARGEST, parsed
from ci_compiler.stages import BUILD
from ci_compiler.workflows.artifacts import MANIFEST

NAME = PurePosixPath(MANIFEST).name
"""The name of the manifest file of a build."""

_MOST_SECONDS, _MOST_BYTES = 10**9, 10**15
"""More than any build takes."""


class SeedHits(NamedTuple):
    """How many host objects builds found in their compiler seeds, and of how many."""

    found: int = 0
    of: int = 0

    def plus(self, other: SeedHits) -> SeedHits:
        """Both together."""
        return SeedHits(self.found + other.found, self.of + other.of)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Median durations in seconds with their spread, and the most memory in bytes by branch and variant name.

    `low`, `high`: the durations that a tenth of the records is below, and above. `seeds`: what all manifests together
    found in compiler seeds. `manifests` is the number of manifests, `records` what `history.json` has.
    """

    seconds: Recorded = field(default_factory=dict)
    low: Recorded = field(default_factory=dict)
    high: Recorded = field(default_factory=dict)
    memory: Mapping[tuple[str, str], int] = field(default_factory=dict)
    seeds: Mapping[tuple[str, str], SeedHits] = field(default_factory=dict)
    manifests: int = 0
    records: Records | None = None

    @property
    def source(self) -> str:
        """Where the durations come from, in words; '' for nowhere."""
        if self.records is not None:
            results = sum(len(trace.records) for trace in self.records.variants.values())
            return f"{results:,} results"
        return f"{self.manifests:,} manifests" if self.manifests else ""


def read_history(path: Path) -> History:
    """Reads `history.json`, or the manifests in a folder and below.

    Raises InputError if there are none, or if a file is invalid.
    """
    if path.is_dir():
        return _of_manifests(path)
    try:
        return history_of(parsed(bytes_of(path, LARGEST)))
    except FileNotFoundError:
        raise wrong(path, Code.HISTORY_MISSING, "no such folder, and no such file") from None
    except OSError as error:
        raise wrong(path, Code.BROKEN_HISTORY, why(error)) from None
    except ValueError as error:
        raise wrong(path, Code.BROKEN_HISTORY, str(error)) from None


def read_records(path: Path) -> Records:
    """The results in `history.json`. Raises InputError."""
    if (records := read_history(path).records) is None:
        raise wrong(path, Code.BROKEN_HISTORY, "has manifests, which say nothing of tests; name a `history.json`")
    return records


def history_of(records: Records, *, before: int | None = None) -> History:
    """The durations of `records`: of those `before` a time, if it is given."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for (branch, name), trace in records.variants.items():
        for record in trace.records:
            if before is not None and record.run.started >= before:
                continue
            for stage, seconds in record.seconds.items():
                if record.ends.get(stage) == "success" and (record.built or stage != BUILD.name):
                    found.setdefault((branch, name, stage), []).append(seconds)
    return replace(_medians(found), records=records)


def _medians(found: Mapping[tuple[str, str, str], Sequence[float]]) -> History:
    """The median of each duration, and its spread."""
    spreads = {key: spread(times) for key, times in sorted(found.items())}
    return History(
        seconds={key: round(one[1]) for key, one in spreads.items()},
        low={key: round(one[0]) for key, one in spreads.items()},
        high={key: round(one[2]) for key, one in spreads.items()},
    )


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """The tenth percentile, the median and the ninetieth percentile; between two values, the line between them."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    tenths = quantiles(values, n=10, method="inclusive")
    return tenths[0], median(values), tenths[-1]


def _of_manifests(folder: Path) -> History:
    found: dict[tuple[str, str, str], list[float]] = {}
    memory: dict[tuple[str, str], int] = {}
    seeds: dict[tuple[str, str], SeedHits] = {}
    findings: list[Finding] = []
    paths = list(_manifests(folder))
    for path in paths:
        try:
            branch, name, seconds, used, hits = _read(path)
            if used:
                memory[branch, name] = max(used, memory.get((branch, name), 0))
            if hits.of:
                seeds[branch, name] = hits.plus(seeds.get((branch, name), SeedHits()))
            if seconds is not None:
                found.setdefault((branch, name, BUILD.name), []).append(seconds)
        except InputError as error:
            findings += error.findings
    if not paths:
        message = f"no {NAME} in it or below; builds leave them in their artifacts"
        findings += wrong(folder, Code.HISTORY_EMPTY, message).findings
    if findings:
        raise InputError(findings)
    return replace(_medians(found), memory=dict(sorted(memory.items())), seeds=seeds, manifests=len(paths))


def _manifests(folder: Path) -> Iterator[Path]:
    for parent, below, files in os.walk(folder):
        below.sort()
        if NAME in files:
            yield Path(parent, NAME)


def _read(path: Path) -> tuple[str, str, float | None, int, SeedHits]:
    """The branch, the name, the seconds (None if the store already had it) and the memory (0: unknown) of a build.

    The last value is what it found in its compiler seed. Raises InputError.
    """
    with reading(path, Code.BROKEN_MANIFEST):
        content = object_of(bytes_of(path))
    known: list[Any] = [content.get(key) for key in ("branch", "name", "seconds")]
    branch, name, seconds = known
    memory, hits = content.get("memory", 0), _hits(content.get("seed", {}))
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    checks = {
        "'branch' is not text": isinstance(branch, str),
        "'name' is not text": isinstance(name, str),
        "'seconds' is not a number of seconds": is_number and 0 <= seconds < _MOST_SECONDS,
        "'memory' is not a number of bytes": type(memory) is int and 0 <= memory < _MOST_BYTES,
        "'seed' is not what it found of how many objects": hits is not None,
    }
    if broken := next((check for check, holds in checks.items() if not holds), ""):
        raise wrong(path, Code.BROKEN_MANIFEST, f"not the manifest of a build: {broken}")
    return branch, name, None if content.get("built") is False else float(seconds), memory, hits or SeedHits()


def _hits(value: Any) -> SeedHits | None:
    """What a manifest says that the build found in its compiler seed; None if that is wrong."""
    hits = SeedHits(**value) if isinstance(value, dict) and set(value) in ({"found", "of"}, set()) else None
    is_right = hits is not None and all(type(count) is int for count in hits) and 0 <= hits.found <= hits.of
    return hits if is_right else None
