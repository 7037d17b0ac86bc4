"""What the last benchmarks found: read from the artifacts of the last runs, of which nothing is believed unread."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.github import benchmarks as reader
from ci_compiler.github.benchmarks import LastBenchmark, benchmarks, benchmarks_of_run
from ci_compiler.github.errors import GitHubError
from ci_compiler.plan.benchmarks import read_benchmark
from ci_compiler.plan.pipeline import Plan, plan
from tests.output import checked
from tests.specs import small, spec_of

from .state import Fault, GitHub
from .talk import talk

SHARD = ".github/workflows/build-main-sm90.yml"
NAME = "{}-python313-cuda12_8-sm90-{}"
OWN, LOWER = NAME.format("pytorch", "avx512"), NAME.format("pytorch", "avx2")


@pytest.fixture(scope="module")
def stack() -> Plan:
    """A branch whose variants are measured."""
    return plan(spec_of(small(tests={"benchmark": "where-routed"})))


def found(name: str = OWN, beside: str = LOWER, **changes: Any) -> dict[str, Any]:
    """A result as a benchmark writes it, in the parts that are read."""
    return {
        "schema": 1,
        "name": name,
        "branch": "main",
        "beside": beside,
        "machine": {"cpu": "AMD EPYC 9354", "gpu": "NVIDIA H100", "cores": [2, 3], "clocks": "locked"},
        "overall": {
            "cpu": {"percent": 0.4, "error": 0.6},
            "gpu": {"percent": -0.04, "error": 0.2},
            "cpu-held": {"percent": 12, "error": 1.25},
        },
    } | changes


def archive(*results: Any) -> bytes:
    """An archive as upload-artifact makes it: a folder for each result, or bytes in place of a file's JSON."""
    content = BytesIO()
    with ZipFile(content, "w", ZIP_DEFLATED) as files:
        for index, one in enumerate(results):
            files.writestr(f"benchmark-{index}/benchmark.json", one if isinstance(one, bytes) else json.dumps(one))
            files.writestr(f"benchmark-{index}/result.json", json.dumps(found(name="another")))
    return content.getvalue()


def lasts(github: GitHub, stack: Plan) -> dict[str, LastBenchmark]:
    return {one.variant.name: one for shard in benchmarks(talk(github).client, stack) for one in shard}


def test_the_newest_run_that_measured_a_variant_counts(served: GitHub, stack: Plan) -> None:
    first, second, third = (served.add_run(SHARD, []) for _ in range(3))
    served.add_artifact(first["id"], "benchmarks", archive(found(beside=""), found(LOWER, LOWER)))
    served.add_artifact(second["id"], "benchmarks", archive(found()))
    served.add_artifact(third["id"], "build-pytorch@main", archive(found(beside="")))
    read = lasts(served, stack)
    gains = "CPU +0.4 % ± 0.6, GPU +0.0 % ± 0.2, CPU with equal kernels +12.0 % ± 1.2"
    assert {name: (str(one.result), one.url) for name, one in read.items()} == {
        OWN: (f"avx512 over avx2: {gains}", second["html_url"]),
        LOWER: (f"this build over the last publication: {gains}", first["html_url"]),
    }


def test_a_result_on_one_device_is_one_number(served: GitHub, stack: Plan) -> None:
    run_ = served.add_run(SHARD, [])
    one = found(overall={"gpu": {"percent": 0.4, "error": 0.6}})
    served.add_artifact(run_["id"], "benchmarks", archive(one, found(LOWER, "")))
    read = lasts(served, stack)
    assert str(read[OWN].result) == "avx512 over avx2: +0.4 % ± 0.6"
    assert str(read[LOWER].result) == "measured alone"


ODD: tuple[Any, ...] = (
    b"[1]",
    b'{"schema": 1',
    b"[" * 100_000,
    found(schema=2),
    found(name="../../etc"),
    found(name=f"{OWN}\n## title"),
    found(branch="x\x1b[2J"),
    found(machine={"cpu": "x" * 1000, "gpu": ""}),
    found(overall={"cpu": {"percent": "0.4", "error": 0.1}}),
    found(overall={"cpu": {"percent": 1e300, "error": 0.1}}),
    json.dumps(found(overall={"cpu": {"percent": float("nan"), "error": 0.1}})).encode(),
    found(overall={"cpu": {"percent": True, "error": 0.1}}),
    found(overall=[1]),
    found(branch="cuda-13_0"),
    found(name=NAME.format("torchaudio", "avx2")),
)
"""Files that are no results, or results of other variants or branches."""


def test_a_result_of_another_form_counts_as_none(served: GitHub, stack: Plan) -> None:
    run_ = served.add_run(SHARD, [])
    served.add_artifact(run_["id"], "benchmarks", archive(*ODD, found(LOWER, LOWER)))
    assert set(lasts(served, stack)) == {LOWER}
    assert {str(one) for one in ODD if read_benchmark(_value(one))} == {str(one) for one in ODD[-2:]}


def _value(one: Any) -> Any:
    """The JSON value of a file; None if it is no JSON."""
    try:
        return json.loads(one) if isinstance(one, bytes) else one
    except (ValueError, RecursionError):
        return None


def test_an_archive_that_is_none_has_expired_or_is_too_large_counts_as_none(
    served: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = archive(found())
    number = served.add_run(SHARD, [])["id"]
    for content, more in (
        (b"no archive", {}),
        (good[:-30], {}),
        (good, {"expired": True}),
        (good, {"size_in_bytes": reader.LARGEST + 1}),
    ):
        served.artifacts[number] = []
        served.add_artifact(number, "benchmarks", content, **more)
        assert benchmarks_of_run(talk(served).client, number) == ()
    served.artifacts[number] = []
    served.add_artifact(number, "benchmarks", archive(b" " * 100_000, found()))
    assert len(benchmarks_of_run(talk(served).client, number)) == 1
    monkeypatch.setattr(reader, "LARGEST", 50_000)  # the archive is smaller, its files are not
    assert benchmarks_of_run(talk(served).client, number) == ()


def test_trouble_of_the_storage_is_an_error(served: GitHub) -> None:
    number = served.add_run(SHARD, [])["id"]
    served.add_artifact(number, "benchmarks", archive(found()))
    served.faults += [Fault(500, path="/zip"), Fault(410, path="/zip", message="Artifact has expired")]
    with pytest.raises(GitHubError, match=r"read the benchmarks of the run \d+: .*\(410\): Artifact has expired"):
        benchmarks_of_run(talk(served).client, number)
    served.storage.clear()
    with pytest.raises(GitHubError, match="it does not exist"):
        benchmarks_of_run(talk(served).client, number)


def test_the_command_prints_a_table_per_package_and_the_same_as_json(
    served: GitHub, commands: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    vision = found(NAME.format("torchvision", "avx2"), "", overall={})
    served.add_artifact(served.add_run(SHARD, [])["id"], "benchmarks", archive(vision, found()))
    assert run(PROGRAM, ["status", "--benchmarks", *commands]) == 0
    out, err = capsys.readouterr()
    assert [" ".join(line.split()) for line in out.splitlines()] == [
        f"{OWN} avx512 over avx2 +0.4 % ± 0.6 +0.0 % ± 0.2 +12.0 % ± 1.2 AMD EPYC 9354, NVIDIA H100",
        "",
        f"{NAME.format('torchvision', 'avx2')} measured alone - - - AMD EPYC 9354, NVIDIA H100",
    ]
    assert err == "2 of 8 variants that a pool measures have a result\n"
    assert run(PROGRAM, ["status", "--benchmarks", "--json", *commands]) == 0
    rows = checked("ci-compile status", capsys.readouterr().out)
    assert [(one["name"], one["beside"], one["title"]) for one in rows] == [
        (NAME.format("torchvision", "avx2"), "", ""),
        (OWN, LOWER, "avx512 over avx2"),
    ]
    assert rows[1]["gains"]["cpu"] == {"percent": 0.4, "error": 0.6}
    assert run(PROGRAM, ["status", "--benchmarks", "-q", *commands]) == 0
    assert capsys.readouterr().out.splitlines() == [one["name"] for one in rows]
