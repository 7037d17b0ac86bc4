"""What the last benchmarks found: read from the artifacts of the last runs, of which nothing is believed unread."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_LZMA, ZipFile

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.documents.site.page import NAME as FINDER
from ci_compiler.documents.site.page import STATUS
from ci_compiler.github import benchmarks as reader
from ci_compiler.github.benchmarks import LastBenchmark, benchmarks, benchmarks_of_run
from ci_compiler.github.errors import GitHubError
from ci_compiler.github.runs import read_runs
from ci_compiler.plan.benchmarks import BenchmarkResult, read_benchmark
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.plan.records import Records
from ci_compiler.reports.history_file import NAME as HISTORY
from ci_compiler.reports.history_file import parsed
from tests.output import checked
from tests.specs import small, spec_of

from .state import NOW, REPOSITORY, Fault, GitHub, Json
from .talk import talk
from .test_runs import ran

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
        },
    } | changes


def archive(*results: Any, packed: int = ZIP_DEFLATED) -> bytes:
    """An archive as upload-artifact makes it: a folder for each result, or bytes in place of a file's JSON."""
    content = BytesIO()
    with ZipFile(content, "w", packed) as files:
        for index, one in enumerate(results):
            files.writestr(f"benchmark-{index}/benchmark.json", one if isinstance(one, bytes) else json.dumps(one))
            files.writestr(f"benchmark-{index}/result.json", json.dumps(found(name="another")))
    return content.getvalue()


def misnamed(content: bytes) -> bytes:
    """The archive with names that claim to be UTF-8 and are not."""
    at = content.index(b"PK\x01\x02")
    entry = bytearray(content[at:])
    entry[9] |= 0x08
    return content[:at] + bytes(entry).replace(b"benchmark-0", b"benchmark\xff0")


def lasts(github: GitHub, stack: Plan) -> dict[str, LastBenchmark]:
    return {one.variant.name: one for shard in benchmarks(talk(github).client, stack) for one in shard}


def test_the_newest_run_that_measured_a_variant_counts(served: GitHub, stack: Plan) -> None:
    first, second, third, *others = (served.add_run(SHARD, []) for _ in range(6))
    for other, change in zip(
        others, ({"event": "pull_request"}, {"head_branch": "x"}, {"head_branch": None}), strict=True
    ):
        served.runs[served.runs.index(other)] |= change
        served.add_artifact(other["id"], "benchmarks", archive(found(machine={"cpu": "a fork's"})))
    served.add_artifact(first["id"], "benchmarks", archive(found(beside=""), found(LOWER, LOWER)))
    served.add_artifact(second["id"], "benchmarks", archive(found()))
    served.add_artifact(third["id"], "build-pytorch@main", archive(found(beside="")))
    read = lasts(served, stack)
    gains = "CPU +0.4 % ± 0.6, GPU +0.0 % ± 0.2"
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
        (good.replace(good[80:90], b"\xff" * 10), {}),
        (archive(found(), packed=ZIP_LZMA), {}),
        (archive(found(), packed=ZIP_BZIP2), {}),
        (misnamed(good), {}),
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
    with pytest.raises(GitHubError, match=r"download benchmarks of the run \d+: .*\(410\): Artifact has expired"):
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
        f"{OWN} avx512 over avx2 +0.4 % ± 0.6 +0.0 % ± 0.2 AMD EPYC 9354, NVIDIA H100",
        "",
        f"{NAME.format('torchvision', 'avx2')} measured alone - - AMD EPYC 9354, NVIDIA H100",
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


# In the history.


def ran_with(github: GitHub, days_ago: float, *results: Any) -> Json:
    """A run whose benchmarks found `results`."""
    made = ran(github, days_ago)
    github.jobs[made["id"]] = [
        one | {"name": one["name"].replace("avx2", isa)}
        for one in github.jobs[made["id"]]
        for isa in ("avx2", "avx512")
    ]
    job = next(job for job in github.jobs[made["id"]] if job["name"] == "3.13 avx512 / pytorch / cpu-test")
    github.jobs[made["id"]].append(job | {"name": "3.13 avx512 / pytorch / benchmark"})
    github.add_artifact(made["id"], "benchmarks", archive(*results))
    return made


@pytest.fixture
def site(commands: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], dict[int, str]]:
    """Runs `ci-compile site`, and returns what the history says of the benchmarks of one variant by run."""
    monkeypatch.setattr("ci_compiler.clock.Clock.now", lambda _: NOW)

    def made() -> dict[int, str]:
        argv = ["site", str(tmp_path / "site"), "--repository", REPOSITORY, "--history", "--status", *commands]
        assert run(PROGRAM, argv) == 0
        trace = parsed((tmp_path / "site" / HISTORY).read_bytes()).variants["main", OWN]
        return {one.run.number: str(one.benchmark) for one in trace.records}

    return made


def test_a_result_reaches_the_history_and_both_pages(
    served: GitHub, tmp_path: Path, site: Callable[[], dict[int, str]]
) -> None:
    older, newer = ran_with(served, 3, found()), ran_with(served, 1, found(beside=""), found(LOWER, LOWER, overall={}))
    said = "avx512 over avx2: CPU +0.4 % ± 0.6, GPU +0.0 % ± 0.2"
    assert site() == {newer["id"]: "None", older["id"]: said}
    assert said in (tmp_path / "site" / STATUS).read_text("utf-8")
    finder = (tmp_path / "site" / FINDER).read_text("utf-8")
    assert f'{{"says":"{said}","machine":"AMD EPYC 9354, NVIDIA H100","run":"https://' in finder
    assert f'/my-org/stack/actions/runs/{older["id"]}","started":"2026-09-28T12:00:00Z"}}' in finder
    assert len([path for _, path, _ in served.asked if "/artifacts?name=benchmarks" in path]) == 2  # for both pages


@pytest.mark.parametrize(
    "claim",
    [
        {"overall": {"cpu": {"percent": 1_000_000, "error": 1_000_000}}},
        {"beside": "_"},
        {"beside": "x" * 200},
        {"machine": {"cpu": "C" * 200, "gpu": "</script><b>"}},
    ],
)
def test_what_a_run_claims_of_itself_can_be_read_again(
    served: GitHub, capsys: pytest.CaptureFixture[str], site: Callable[[], dict[int, str]], claim: dict[str, Any]
) -> None:
    made = ran_with(served, 1, found(**claim))
    assert "over" in site()[made["id"]]
    capsys.readouterr()
    assert "over" in site()[made["id"]]
    assert "history: 0 runs read" in capsys.readouterr().err


@pytest.mark.parametrize("status", [404, 410])
def test_benchmarks_that_cannot_be_read_do_not_hold_up_the_history(
    served: GitHub, capsys: pytest.CaptureFixture[str], site: Callable[[], dict[int, str]], status: int
) -> None:
    older, newer = ran_with(served, 3, found()), ran_with(served, 1, found())
    served.faults += [Fault(status, path="/zip")]
    assert site() == {newer["id"]: "None", older["id"]: site()[older["id"]]}
    assert "warning: the benchmarks of 1 run could not be read" in capsys.readouterr().err


def test_a_failure_of_github_amid_the_benchmarks_ends_the_reading_until_the_next_one(
    served: GitHub, capsys: pytest.CaptureFixture[str], site: Callable[[], dict[int, str]]
) -> None:
    older, newer = ran_with(served, 3, found()), ran_with(served, 1, found())
    served.faults += [Fault(500, path=f"/runs/{older['id']}/artifacts") for _ in range(4)]
    assert set(site()) == {newer["id"]}
    assert "the history lacks what was not read" in capsys.readouterr().err
    assert set(site()) == {newer["id"], older["id"]}


def test_the_requests_for_benchmarks_count_towards_the_limit(served: GitHub, stack: Plan) -> None:
    made = [ran_with(served, days, found())["id"] for days in (1, 2, 3)]
    client = talk(served).client

    def ask(run: int) -> dict[tuple[str, str], BenchmarkResult]:
        return reader.gains_of_run(client, run)

    records, readings, complete = Records(), 0, False
    while not complete and readings < 20:
        served.asked.clear()
        reading = read_runs(client, stack, records, most=5, measured=ask)
        assert len([path for _, path, _ in served.asked if "/storage" not in path]) <= 5
        records, readings, complete = reading.records, readings + 1, reading.complete
    assert complete
    assert readings > 2
    assert [one.run.number for one in records.variants["main", OWN].records] == made
    assert all(one.benchmark for one in records.variants["main", OWN].records)
