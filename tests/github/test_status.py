"""The state of the matrix: last results from the jobs of the latest runs."""

from __future__ import annotations

import pytest
import yaml

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.github.status import BuildOutcome, LastBuild, grid, in_words, status
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.stages import PUBLISH
from ci_compiler.sync.compiled import compile_files
from tests.output import checked
from tests.plan.test_public_matrices import planned
from tests.specs import small, spec_of

from .state import Fault, GitHub
from .talk import talk

SHARD = ".github/workflows/build-main-sm90.yml"
Jobs = list[tuple[str, str, str | None]]


def ran(isa: str, package: str, **stages: str) -> Jobs:
    """The jobs of one variant by stage; a status instead of a conclusion means that the job has not ended."""
    jobs: Jobs = []
    for stage, how in stages.items():
        ended = how in {"success", "failure", "cancelled", "skipped", "timed_out"}
        jobs.append(
            (
                f"3.13 {isa} / {package} / {stage.replace('_', '-')}",
                "completed" if ended else how,
                how if ended else None,
            )
        )
    return jobs


def lasts(github: GitHub, stack: Plan, branch: str | None = "main") -> dict[str, LastBuild]:
    found = [last for shard in status(talk(github).client, stack, branch) for last in shard]
    assert len({(last.variant.name, last.cell.branch) for last in found}) == len(found)
    return {last.variant.name: last for last in found}


def results(github: GitHub, stack: Plan) -> dict[str, str]:
    """The results of the GPU variants, by package and ISA."""
    known = lasts(github, stack)
    return {
        f"{last.variant.package} {last.cell.isa}": last.result.value
        for last in known.values()
        if last.cell.target == "sm90"
    }


def test_job_titles_are_those_of_the_compiled_workflows(stack: Plan) -> None:
    """`status` reads job names from GitHub; this test takes them from the compiled files."""
    files = {path: yaml.safe_load(text) for path, text in compile_files(stack).items() if path.endswith(".yml")}
    for shard in stack.shards:
        jobs = files[f".github/workflows/{shard.name}.yml"]["jobs"]
        assert [jobs[shard.job_id(cell)]["name"] for cell, _ in shard.cells] == [
            shard.job_name(cell) for cell, _ in shard.cells
        ]
    called = files[".github/workflows/cell.yml"]["jobs"]
    assert [job["name"] for job in called.values()] == [
        f"{package} / {stage}" for package in stack.spec.packages for stage in stack.spec.stages if stage is not PUBLISH
    ]


@pytest.mark.parametrize(("published", "result"), [("success", "passed"), ("failure", "failed"), ("skipped", "passed")])
def test_the_job_that_publishes_counts_for_the_variants_that_passed(
    served: GitHub, stack: Plan, published: str, result: str
) -> None:
    (pool,) = {pool.name for shard in stack.shards for pool in shard.publish_pools}
    jobs = [*ran("avx2", "pytorch", build="success"), *ran("avx2", "torchvision", build="failure")]
    served.add_run(SHARD, [*jobs, (f"Publish on {pool}", "completed", published)])
    found = results(served, stack)
    assert (found["pytorch avx2"], found["torchvision avx2"]) == (result, "failed")
    stages_of = lasts(served, stack)["torchvision-python313-cuda12_8-sm90-avx2"].stages
    assert stages_of == {"build": "failure"}


def test_the_newest_run_that_selected_a_variant_counts(served: GitHub, stack: Plan) -> None:
    served.add_run(
        SHARD,
        [
            ("Select", "completed", "success"),
            *ran("avx2", "pytorch", build="success", cpu_test="success", gpu_test="failure"),
            *ran("avx2", "torchvision", build="success", cpu_test="success", gpu_test="success"),
            *ran("avx512", "pytorch", build="success", cpu_test="success"),
            ("Verdict", "completed", "failure"),
        ],
    )
    newer = served.add_run(
        SHARD,
        [
            ("Select", "completed", "success"),
            *ran("avx2", "pytorch", build="success", cpu_test="success", gpu_test="skipped"),
            ("3.13 avx2 / torchvision", "completed", "skipped"),
            ("3.13 avx512", "completed", "skipped"),
        ],
    )
    assert results(served, stack) == {
        "pytorch avx2": "passed",
        "torchvision avx2": "passed",
        "pytorch avx512": "passed",
        "torchvision avx512": "never",
    }
    last = lasts(served, stack)["pytorch-python313-cuda12_8-sm90-avx2"]
    assert last.stages == {"build": "success", "cpu-test": "success"}
    assert (last.url, last.started) == (newer["html_url"], "2026-10-01T12:00:00Z")


@pytest.mark.parametrize(
    ("stages", "result"),
    [
        ({"build": "success", "cpu_test": "success", "gpu_test": "skipped"}, "passed"),
        ({"build": "failure", "cpu_test": "skipped"}, "failed"),
        ({"build": "success", "cpu_test": "timed_out"}, "failed"),
        ({"build": "cancelled"}, "cancelled"),
        ({"build": "success", "cpu_test": "queued"}, "running"),
        ({"build": "in_progress"}, "running"),
        ({"build": "success", "cpu_test": "failure", "gpu_test": "in_progress"}, "failed"),
        ({"build": "skipped"}, "never"),
    ],
)
def test_a_result_is_that_of_its_stages(served: GitHub, stack: Plan, stages: dict[str, str], result: str) -> None:
    served.add_run(SHARD, ran("avx2", "pytorch", **stages))
    assert results(served, stack)["pytorch avx2"] == result


def test_runs_of_code_that_is_not_merged_do_not_count(served: GitHub, stack: Plan) -> None:
    served.add_run(SHARD, ran("avx2", "pytorch", build="success"))
    for more in ({"event": "pull_request"}, {"event": "workflow_dispatch", "head_branch": "topic"}):
        for _ in range(10):
            served.add_run(SHARD, ran("avx2", "pytorch", build="failure"), **more)
    assert results(served, stack)["pytorch avx2"] == "passed"


def test_all_pages_of_jobs_are_read(served: GitHub, stack: Plan) -> None:
    other: Jobs = [(f"other {number}", "completed", "success") for number in range(230)]
    served.add_run(SHARD, [*other, *ran("avx2", "pytorch", build="failure")])
    assert results(served, stack)["pytorch avx2"] == "failed"


def test_no_more_runs_are_read_than_needed(served: GitHub, stack: Plan) -> None:
    for _ in range(30):
        jobs = [
            job for isa in ("avx2", "avx512") for name in stack.spec.packages for job in ran(isa, name, build="success")
        ]
        served.add_run(SHARD, jobs)
    for _ in range(30):
        served.add_run(".github/workflows/build-main-cpu.yml", [("Select", "completed", "failure")])
    lasts(served, stack)
    asked = [path for _, path, _ in served.asked if "/jobs" in path]
    assert len(asked) == 1 + 10


def test_a_branch_is_complete_if_every_variant_passed_from_one_commit(
    served: GitHub, stack: Plan, commands: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    shards = [shard for shard in stack.shards if shard.branch == "main"]
    count = sum(len(shard.variants) for shard in shards)
    for end, commit, said in (
        ("success", "a" * 40, f"main: {count} of {count} variants passed from commit {'a' * 40}"),
        ("failure", "a" * 40, f"main: {count - 4} of {count} variants passed from commit {'a' * 40}"),
        ("success", "b" * 40, f"main: {count - 4} of {count} variants passed from commit {'b' * 40}"),
    ):
        for shard in shards[:1] if served.runs else shards:
            jobs = [
                job for cell, _ in shard.cells for v in cell.variants for job in ran(cell.isa, v.package, build=end)
            ]
            served.add_run(shard.path, jobs, head_sha=commit)
        code = run(PROGRAM, ["status", "--complete", "--branch", "main", *commands])
        assert (capsys.readouterr().out.strip(), code) == (said, 0 if f"{count} of {count}" in said else 1)


def test_shards_that_were_never_pushed_never_ran(github: GitHub, stack: Plan) -> None:
    assert {last.result for last in lasts(github, stack).values()} == {BuildOutcome.NEVER}


def test_the_worst_result_of_a_cell_is_shown_with_its_share() -> None:
    passed, failed, never = BuildOutcome.PASSED, BuildOutcome.FAILED, BuildOutcome.NEVER
    assert in_words([passed, passed]) == "passed"
    assert in_words([passed, failed, never]) == "1 of 3 failed"
    assert in_words([never, passed]) == "1 of 2 passed"
    assert in_words([]) == ""


def test_each_of_several_pythons_has_its_own_row(github: GitHub) -> None:
    document = small()
    document["matrix"]["python"] = ["3.12", "3.13"]
    decided = plan(spec_of(document))
    found = [last for shard in status(talk(github).client, decided) for last in shard]
    headers, rows = grid(decided, found)
    assert headers == ["branch", "target", "python", "avx2", "avx512"]
    assert [row[:3] for row in rows] == [
        ["main", gpu, python] for gpu in ("cpu", "sm90") for python in ("3.12", "3.13")
    ]


def test_cells_of_an_open_matrix_that_differ_in_any_axis_have_rows_of_their_own(github: GitHub) -> None:
    decided = planned("flash-attention")
    headers, rows = grid(decided, [last for shard in status(talk(github).client, decided) for last in shard])
    assert headers[:2] + headers[-2:] == ["branch", "target", "x86_64-linux", "aarch64-linux"]
    assert {*headers[2:-2]} == {"python", "toolkit", "torch", "cxx11abi"}
    assert sum(one == "never" for row in rows for one in row) == 56
    assert len({tuple(row[:6]) for row in rows}) == len(rows)


def test_the_command_shows_a_grid(served: GitHub, commands: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    served.add_run(SHARD, [*ran("avx2", "pytorch", build="failure"), *ran("avx512", "pytorch", build="queued")])
    assert run(PROGRAM, ["status", *commands]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "main       cpu   never          never",
        "main       sm90  1 of 2 failed  1 of 2 running",
        "cuda-13_0  cpu   never          never",
        "cuda-13_0  sm90  never          never",
    ]
    assert err == "1 failed, 1 running, 14 never\n"


def test_the_command_prints_json(served: GitHub, commands: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    made = served.add_run(SHARD, ran("avx2", "pytorch", build="success", cpu_test="failure"))
    assert run(PROGRAM, ["status", "--json", "--branch", "main", *commands]) == 0
    rows = checked("ci-compile status", capsys.readouterr().out)
    assert len(rows) == 8
    assert [row for row in rows if row["result"] != "never"] == [
        {
            "name": "pytorch-python313-cuda12_8-sm90-avx2",
            "package": "pytorch",
            "version": "2.8.0",
            "recipe": ".flox/pkgs/pytorch-python313-cuda12_8-sm90-avx2.nix",
            "needs": [],
            "gathers": [],
            "build": "pytorch-python313-cuda12_8-sm90-avx2",
            "branch": "main",
            "python": "3.13",
            "family": "cuda",
            "toolkit": "12.8",
            "target": "sm90",
            "isa": "avx2",
            "system": "x86_64-linux",
            "listed": "",
            "suffix": "python313-cuda12_8-sm90-avx2",
            "axes": {
                "branch": "main",
                "python": "3.13",
                "family": "cuda",
                "toolkit": "12.8",
                "target": "sm90",
                "isa": "avx2",
            },
            "result": "failed",
            "stages": {"build": "success", "cpu-test": "failure"},
            "started": "2026-10-01T12:00:00Z",
            "run": made["html_url"],
        }
    ]


def test_the_command_prints_bare_names_of_a_result(
    served: GitHub, commands: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    served.add_run(SHARD, ran("avx2", "pytorch", build="success", cpu_test="failure"))
    assert run(PROGRAM, ["status", "-q", "--result", "failed", *commands]) == 0
    assert capsys.readouterr() == ("pytorch-python313-cuda12_8-sm90-avx2\n", "")
    assert run(PROGRAM, ["status", "-q", "--result", "passed", "--result", "cancelled", *commands]) == 0
    assert capsys.readouterr() == ("", "")
    assert run(PROGRAM, ["status", "--complete", "--json", *commands]) == 1
    found = checked("ci-compile status", capsys.readouterr().out)
    assert [(one["branch"], one["passed"], one["complete"]) for one in found] == [
        ("main", 0, False),
        ("cuda-13_0", 0, False),
    ]


def test_the_command_reports_unknown_branches_and_failures_of_github(
    served: GitHub, commands: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(PROGRAM, ["status", "--branch", "mian", *commands]) == 2
    assert capsys.readouterr().err == "error: --branch: unknown branch 'mian'; did you mean main? [unknown-branch]\n"
    served.faults += [Fault(503, path="/runs")] * 4
    assert run(PROGRAM, ["status", *commands]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[-1].startswith("error: 127.0.0.1: list the runs of build-main-cpu.yml: ")
