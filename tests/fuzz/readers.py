"""The readers of what comes from outside: each takes any bytes. Wrong ones raise InputError, or count as none."""

from __future__ import annotations

import io
import json
import zipfile
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from ci_compiler.backends.floxhub_token import claims
from ci_compiler.canary import table
from ci_compiler.canary.assumptions import assumptions
from ci_compiler.cli.compile import canary
from ci_compiler.cli.where import chosen_of, texts_of
from ci_compiler.codes import Code
from ci_compiler.errors import InputError
from ci_compiler.github.artifacts import files
from ci_compiler.hardware import UnknownHardwareError, pasted, tables
from ci_compiler.hardware.families.cuda.libcuda import attempt_of
from ci_compiler.hardware.texts import Answer
from ci_compiler.outside import UnreadableError, json_of, object_of, reading, text_of, xml_of
from ci_compiler.plan.benchmarks import BenchmarkResult, read_benchmark
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.plan.selection import Facts, GitHubEvent, decide, question
from ci_compiler.reports.history import read_history
from ci_compiler.reports.history_file import text_of as history_text
from ci_compiler.reports.summary import SummarisedRun
from ci_compiler.reports.summary import table as summary
from ci_compiler.runner.detect.recorded import nix_config
from ci_compiler.runner.jobs.benchmark.lines import read_output
from ci_compiler.runner.jobs.junit import read_junit
from ci_compiler.runner.jobs.manifest import read_manifest
from ci_compiler.runner.jobs.publish_run import read_results, reported_outputs
from ci_compiler.spec.build import parse_spec
from tests.reports.test_history_file import history
from tests.runner.jobs.test_manifest import MANIFEST
from tests.specs import small, spec_of

NAME = "pytorch-python313-cpu-avx2"


class Reader(NamedTuple):
    """A reader of bytes, and inputs that it takes, from which others are made."""

    read: Callable[[bytes], object]
    seeds: tuple[bytes, ...]


@contextmanager
def file_with(data: bytes, name: str = "it") -> Iterator[Path]:
    """A file with `data`, in a folder of its own below the one for all inputs."""
    path = _folder() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    yield path
    path.unlink()


_FOLDERS: list[TemporaryDirectory[str]] = []


def _folder() -> Path:
    """The folder of this process for the inputs."""
    if not _FOLDERS:
        _FOLDERS.append(TemporaryDirectory(prefix="ci-compiler-readers-"))
    return Path(_FOLDERS[0].name)


@cache
def _plan() -> Plan:
    return plan(spec_of(small()))


def _json(data: bytes) -> None:
    with suppress(UnreadableError):
        json.dumps(json_of(data), ensure_ascii=False, allow_nan=False).encode()


def _xml(data: bytes) -> None:
    with suppress(UnreadableError):
        xml_of(data)


def _text(data: bytes) -> None:
    with file_with(data) as path, suppress(UnreadableError):
        text_of(path, 1000).encode()


def _template(data: bytes) -> None:
    with file_with(data) as path:
        texts_of(path.parent, [path.name])


def _manifest(data: bytes) -> None:
    with file_with(data) as path:
        read_manifest(path)


def _manifests(data: bytes) -> None:
    with file_with(data, "builds/manifest.json") as path:
        _ = read_history(path.parent).source


def _history(data: bytes) -> None:
    with file_with(data, "history.json") as path:
        history_text(read_history(path).records)  # type: ignore[arg-type]  # a file has records


def _benchmark(data: bytes) -> None:
    with suppress(UnreadableError):
        found = read_benchmark(json_of(data))
        assert str(found).isprintable()
        assert found is None or isinstance(found, BenchmarkResult)


def _summary(data: bytes) -> None:
    folder = _folder() / "results"
    run = SummarisedRun(event="push", ref="main", publish=True)
    for artifact, name in (("build", "manifest.json"), ("cpu-test", "result.json"), ("benchmark", "benchmark.json")):
        path = folder / f"{artifact}-{NAME}@main" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (folder / NAME).mkdir(exist_ok=True)
    for name in ("published.json", "suite.json"):
        (folder / NAME / name).write_bytes(data)
    assert summary(_plan(), run, "main", [NAME], folder).count("\n") == 3


def _publish(data: bytes) -> None:
    shard = next(shard for shard in _plan().shards if NAME in shard.variants)
    reported = reported_outputs(shard, _plan().spec, data.decode("utf-8", "replace"))
    for name in ("manifest.json", "result.json"):
        with file_with(data, f"published/{name}") as path:
            read_results(path.parent, "main", "c" * 40, reported)


def _junit(data: bytes) -> None:
    with file_with(data) as path, suppress(UnreadableError):
        read_junit(path)


def _canary(data: bytes) -> None:
    found = table.read_tables(data.decode("utf-8", "replace"))
    for one in found:
        table.verdicts([one])
        assert f"{one.version} {one.kind}".isprintable()
    assert ", ".join(table.unknown(found)).isprintable()


def _judge(data: bytes) -> None:
    with file_with(data, "judged/jobs.json") as path, file_with(data, "judged/a.facts"), redirect_stdout(io.StringIO()):
        canary.run(Namespace(read=None, judge=path.parent, needs="{}", results=""))
        canary.run(Namespace(read=None, judge=path.parent, needs=data.decode("utf-8", "replace"), results=""))


def _chosen(data: bytes) -> None:
    chosen_of(Namespace(chosen=data.decode("utf-8", "replace")))


def _event(data: bytes) -> None:
    with reading("event", Code.UNKNOWN_EVENT):
        payload = object_of(data)
    happened = GitHubEvent(name="pull_request", payload=payload)
    question(_plan(), happened)
    decide(_plan(), happened, Facts())


def _pasted(data: bytes) -> None:
    with suppress(UnknownHardwareError, ValueError):
        found = pasted.read(tables(), data.decode("utf-8", "replace"))
        pasted.machine(tables(), found)


def _lines(data: bytes) -> None:
    for problem in read_output(data, "cpu").problems:
        assert problem.isprintable()


def _answers(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    nix_config(text)
    attempt_of("libcuda.so.1", Answer(status=0, out=text), linked=True)
    claims(text)


def _archive(data: bytes) -> None:
    list(files(data, "a.json", 10_000))


def _zip(content: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("a/a.json", content)
    return made.getvalue()


def _bytes(value: object) -> bytes:
    return json.dumps(value, default=str).encode()


_MANIFEST: dict[str, Any] = asdict(MANIFEST) | {"backend": "nix"}
_BENCHMARK = {
    "schema": 1,
    "name": NAME,
    "branch": "main",
    "beside": "pytorch-python313-cpu-avx",
    "machine": {"cpu": "x", "gpu": None},
    "overall": {"cpu": {"percent": 0.4, "error": 0.6}, "gpu": None},
    "passed": True,
    "result": "published",
    "suite": "ops",
    "failures": ["a"],
    "tests": {"passed": 1},
}
_NEEDS = {
    "build": {"result": "success", "outputs": {"digest": "x"}},
    "outer": {"result": "x", "outputs": {"result": "y"}},
}
_LEG = {"conclusion": "success", "started_at": "2026-01-01T00:00:00Z", "completed_at": "2026-01-01T00:01:00Z"}
_JOBS = {
    "jobs": [
        {"name": "queued (1)", "runner_id": 1, **_LEG},
        {"name": "queued (2)", "runner_id": 2, **_LEG},
        {"name": "machine", "runner_name": "a-1", "runner_id": 1, "steps": [{"name": "Set up runner"}]},
        {"name": "again", "runner_id": 1},
    ]
}
_EVENT = {
    "pull_request": {"base": {"ref": "main", "sha": "0" * 40}, "head": {"ref": "x", "repo": {"full_name": "a/b"}}},
    "repository": {"full_name": "a/b"},
}
_TABLE = table.written_table({fact: "1" for one in assumptions().values() for fact in one.facts})
_JUNIT = (
    '<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite name="a"><testcase classname="a" name="b"/>'
    '<testcase name="c"><failure message="x">y</failure></testcase></testsuite></testsuites>'
)
_MACHINES = [
    {"name": "a", "gpu": "8x H100", "cpu": "AMD EPYC 9554", "driver": "580", "count": 2},
    {
        "gpus": [{"name": "H100", "capability": "9.0", "driver": "580"}],
        "system": "x86_64-linux",
        "cpu": {"model": "x", "flags": ["avx2"]},
    },
]
_ROWS = (
    {"import": 1.5, "size": 100, "dispatch": "AVX2"},
    {"name": "a.b", "device": "cpu", "seconds": [0.1, 0.2], "first": 0.3},
    {"name": "c", "device": "cpu", "skipped": "why"},
)
_ANSWER = {"devices": [{"name": "H100", "capability": "9.0"}], "problem": "", "sandbox": {"value": True}}

READERS: Mapping[str, Reader] = {
    "json": Reader(_json, (_bytes(_MANIFEST), _bytes(_MACHINES), b'["\\ud800", -1.5e300, "\xc3\xa9"]')),
    "xml": Reader(_xml, (_JUNIT.encode(),)),
    "text": Reader(_text, ("é\n".encode(),)),
    "template": Reader(_template, ("{ torch }: é\n".encode(),)),
    "spec": Reader(lambda data: parse_spec(data, shown="it"), (_bytes(small()),)),
    "manifest": Reader(_manifest, (_bytes(_MANIFEST),)),
    "manifests": Reader(_manifests, (_bytes(_MANIFEST),)),
    "history": Reader(_history, (history_text(history()).encode(),)),
    "benchmark": Reader(_benchmark, (_bytes(_BENCHMARK),)),
    "summary": Reader(_summary, (_bytes(_MANIFEST | _BENCHMARK), _bytes(_BENCHMARK))),
    "publish": Reader(_publish, (_bytes(_NEEDS), _bytes(_MANIFEST), _bytes(_BENCHMARK | {"stage": "cpu-test"}))),
    "junit": Reader(_junit, (_JUNIT.encode(),)),
    "canary": Reader(_canary, (_TABLE.encode(),)),
    "judge": Reader(_judge, (_bytes(_NEEDS), _bytes(_JOBS), b"a=1\nb=x\n")),
    "chosen": Reader(_chosen, (b'["a", "b"]', b'{"main": ["a"]}')),
    "event": Reader(_event, (_bytes(_EVENT), b'{"merge_group": {"base_ref": "a", "head_ref": "b", "base_sha": "c"}}')),
    "pasted": Reader(_pasted, (b"Architecture: x86_64\nModel name: x\nFlags: avx2\nGPU 0: NVIDIA H100 (UUID: x)\n",)),
    "lines": Reader(_lines, (b"\n".join(map(_bytes, _ROWS)), _bytes(_ROWS[1]))),
    "answers": Reader(_answers, (_bytes(_ANSWER), b"sandbox = true\n", b"eyJhIjoxfQ.eyJleHAiOjF9.x")),
    "archive": Reader(_archive, (_zip('{"a": 1}'),)),
}
"""Every reader, by a short name."""


def broken_by(reader: Reader, data: bytes) -> str:
    """The exception that `data` causes beyond InputError, or what is wrong with that; '' for nothing."""
    try:
        reader.read(data)
    except InputError as error:
        return "" if all(str(one).isprintable() for one in error.findings) else "an unprintable finding"
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what this looks for
        return f"{type(error).__name__}: {str(error)[:200]}"
    return ""
