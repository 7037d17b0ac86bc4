"""`history.json`: the history of the variants as a file, a column per fact rather than an object per result.

The file comes back from an artifact, so that reading it trusts nothing: whatever is not as `text_of` writes it raises
ValueError, which says what.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from ci_compiler.outside import json_of
from ci_compiler.plan.benchmarks import BenchmarkResult, kept, of_kept
from ci_compiler.plan.records import SUITES, Key, Record, Records, Run, Trace
from ci_compiler.stages import stages
from ci_compiler.workflows.tasks import HISTORY

NAME = HISTORY

SCHEMA = 1
"""The version of the format. A file with another one is not read, and the history starts again from nothing."""

LARGEST = 8_000_000
"""The most bytes of the file; that of 459 variants after a year has a tenth."""

RESULTS = ("failed", "cancelled", "running", "passed")
"""The results of a record; each is written as its first letter."""

ENDS = {
    "s": "success",
    "n": "success",  # of a build that found its result in a store
    "f": "failure",
    "c": "cancelled",
    "t": "timed_out",
    "r": "running",
    "o": "other",
    "-": "",
}
"""The conclusions of a stage by the letter that stands for them; `-`: it did not run."""

_MARK = "history of ci-compile"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/@+-]{0,250}")
_LABELS = re.compile(r"[\w .,:@/+-]{1,3000}", re.ASCII)
_COMMIT = re.compile(r"([0-9a-f]{12})?")
_REPOSITORY = re.compile(r"([A-Za-z0-9-]+/[A-Za-z0-9._-]+)?")
_LETTERS = {word: letter for letter, word in ENDS.items() if letter != "n"}
_GOING = frozenset({"queued", "in_progress", "waiting", "pending", "requested"})
_Item = TypeVar("_Item")


def text_of(records: Records) -> str:
    """The content of the file: a line for each variant, so that it can be read and compared."""
    runs = list(records.runs.values())
    at = {run.number: index for index, run in enumerate(runs)}
    shards = sorted({run.shard for run in runs})
    head = {
        "is": _MARK,
        "schema": SCHEMA,
        "repository": records.repository,
        "since": records.since,
        "through": records.through,
        "stages": stage_names(),
        "shards": shards,
        "runs": {
            "id": [run.number for run in runs],
            "shard": [shards.index(run.shard) for run in runs],
            "started": [run.started for run in runs],
            "attempt": [run.attempt for run in runs],
            "going": [int(run.going) for run in runs],
            "seconds": [run.seconds for run in runs],
            "commit": [run.commit for run in runs],
        },
    }
    lines = [
        _dumped({"branch": branch, "name": name, "gone": trace.gone} | columns(trace.records, at) | _further(trace))
        for (branch, name), trace in records.variants.items()
    ]
    return f'{_dumped(head)[:-1]},"variants":[\n{f",{chr(10)}".join(lines)}\n]}}\n'


def stage_names() -> list[str]:
    """The stages of a record, in the order of their letters."""
    return [*(stage.name for stage in stages()), SUITES]


def columns(records: Sequence[Record], at: Mapping[int, int]) -> dict[str, Any]:
    """The results of a variant, one entry per result in each column; `at`: the index of each run."""
    names = stage_names()
    return {
        "run": [at[record.run.number] for record in records],
        "result": "".join(record.result[0] for record in records),
        "ends": "".join(_letter(record, stage) for record in records for stage in names),
        "waited": [record.waited for record in records],
        "seconds": {
            stage: [record.seconds.get(stage, 0) for record in records]
            for stage in names
            if any(record.seconds.get(stage) for record in records)
        },
    }


def _further(trace: Trace) -> dict[str, Any]:
    """What benchmarks of a variant found, by run, and the labels of the machine of each stage, with its last run."""
    found = {str(record.run.number): kept(record.benchmark) for record in trace.records if record.benchmark}
    machines = {
        stage: [record.run.number, record.machines[stage]]
        for stage in stage_names()
        for record in reversed(trace.records)
        if stage in record.machines
    }
    return ({"benchmarks": found} if found else {}) | ({"machines": machines} if machines else {})


def _letter(record: Record, stage: str) -> str:
    end = _end(record, stage)
    if stage == stages()[0].name and end == "success" and not record.built:
        return "n"
    return _LETTERS.get(end, "r" if end in _GOING else "o")


def _end(record: Record, stage: str) -> str:
    """The conclusion of `stage`: for the suites, the one that is not a success, if there is any."""
    if stage != SUITES:
        return record.ends.get(stage, "")
    suites = [end for name, end in record.ends.items() if name not in stage_names()]
    return next((end for end in suites if end != "success"), suites[0] if suites else record.ends.get(SUITES, ""))


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


# Reading it.


def begins_as_history(data: bytes) -> bool:
    """Whether `data` is the beginning of a file as `text_of` writes it, however little of it."""
    mark = _dumped({"is": _MARK})[:-1].encode()
    return data.startswith(mark) or mark.startswith(data)


def parsed(data: bytes) -> Records:
    """The history in a file. Raises ValueError."""
    if len(data) > LARGEST:
        raise ValueError(f"is larger than {LARGEST:,} bytes")
    content = json_of(data)
    if not isinstance(content, dict) or content.get("is") != _MARK:
        raise ValueError("is not a history")
    if content.get("schema") != SCHEMA:
        raise ValueError(f"has schema {str(content.get('schema'))[:20]}, not {SCHEMA}")
    try:
        return _records(content)
    except (KeyError, TypeError, AttributeError, IndexError):
        raise ValueError("lacks what a history has") from None


def _records(content: Mapping[str, Any]) -> Records:
    repository = content["repository"]
    _check(isinstance(repository, str) and _REPOSITORY.fullmatch(repository), "repository")
    shards, names = _all(_name, content["shards"]), _all(_name, content["stages"])
    written = content["runs"]
    keys = ("id", "shard", "started", "attempt", "going", "seconds")
    rows = list(zip(*(_all(_moment if key == "started" else _whole, written[key]) for key in keys), strict=False))
    commits = _all(_commit, written.get("commit", [""] * len(rows)))  # a history of 0.1.0 has none
    _check(all(len(written[key]) == len(rows) == len(commits) for key in keys), "runs")
    runs = [
        Run(
            number=number,
            shard=shards[shard],
            started=started,
            attempt=attempt,
            going=bool(going),
            seconds=seconds,
            commit=commit,
        )
        for (number, shard, started, attempt, going, seconds), commit in zip(rows, commits, strict=True)
    ]
    traces: dict[Key, Trace] = {}
    for row in content["variants"]:
        key = _name(row["branch"]), _name(row["name"])
        traces[key] = Trace(records=_records_of(key, row, runs, names), gone=_moment(row["gone"]))
    return Records(
        repository=repository,
        since=_moment(content["since"]),
        through=_moment(content["through"]),
        runs={run.number: run for run in runs},
        variants=traces,
    )


def _records_of(key: Key, row: Mapping[str, Any], runs: Sequence[Run], names: Sequence[str]) -> tuple[Record, ...]:
    at, waited = _all(_whole, row["run"]), _all(_whole, row["waited"])
    results, ends, benchmarks = row["result"], row["ends"], row.get("benchmarks", {})
    machines = [(_name(stage), _whole(one[0]), _labels(one[1])) for stage, one in row.get("machines", {}).items()]
    seconds = {_name(stage): _all(_duration, values) for stage, values in row["seconds"].items()}
    every = [waited, results, *seconds.values()]
    _check(all(len(one) == len(at) for one in every) and len(ends) == len(at) * len(names), "columns of a variant")
    words = {word[0]: word for word in RESULTS}
    records = []
    for index, run in enumerate(map(runs.__getitem__, at)):
        letters = dict(zip(names, ends[index * len(names) : (index + 1) * len(names)], strict=True))
        records.append(
            Record(
                run=run,
                result=words[results[index]],
                ends={stage: ENDS[letter] for stage, letter in letters.items() if letter != "-"},
                seconds={stage: values[index] for stage, values in seconds.items() if values[index]},
                waited=waited[index],
                built="n" not in letters.values(),
                benchmark=_benchmark(key, benchmarks.get(str(run.number))),
                machines={stage: text for stage, number, text in machines if number == run.number},
            )
        )
    return tuple(records)


def _benchmark(key: Key, value: Any) -> BenchmarkResult | None:
    """What a benchmark of the variant `key` found; None if there was none."""
    branch, name = key
    try:
        return None if value is None else of_kept(name, branch, value)
    except (KeyError, TypeError, ValueError):
        raise ValueError("has a wrong benchmark") from None


def _all(read: Callable[[Any], _Item], values: Any) -> list[_Item]:
    _check(isinstance(values, list), "list")
    return [read(value) for value in values]


def _name(value: Any) -> str:
    _check(isinstance(value, str) and _NAME.fullmatch(value), "name")
    return str(value)


def _labels(value: Any) -> str:
    _check(isinstance(value, str) and _LABELS.fullmatch(value), "machine")
    return str(value)


def _commit(value: Any) -> str:
    _check(isinstance(value, str) and _COMMIT.fullmatch(value), "commit")
    return str(value)


def _below(end: int, what: str, value: Any) -> int:
    _check(type(value) is int and 0 <= value < end, what)
    return int(value)


_whole = partial(_below, 10**13, "number")
_moment = partial(_below, 253_402_300_800, "time")  # of a year with four digits
_duration = partial(_below, 40 * 86_400, "duration")


def _check(holds: object, what: str) -> None:
    if not holds:
        raise ValueError(f"has a wrong {what}")
