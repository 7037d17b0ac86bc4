"""The files of the canary, by the checkers of workflows; what the command does to a repository."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci_compiler import __version__
from ci_compiler.canary.repository import WRITTEN, files, places
from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.plan.pipeline import plan
from ci_compiler.spec.build import parse_spec
from ci_compiler.workflows.cell import workflow as compiled_cell
from tests.checkers import (
    actionlint_problems,
    expression_value,
    jsonschema_problems,
    language_service_problems,
    zizmor_problems,
)
from tests.specs import small, spec_of

POOLS = {
    "builder": {"runs-on": ["self-hosted", "linux", "x64", "builder"], "cpu": ["avx2"]},
    "grouped": {"runs-on": {"group": "gpu", "labels": ["self-hosted", "linux", "arm64"]}, "cpu": ["armv8_2"]},
    "scaled": {"runs-on": "arc-builders", "system": "x86_64-linux", "cpu": ["avx2"]},
}
UNKNOWN_TO_ACTIONLINT = (
    'unexpected key "deployment" for "environment" section',
    'element of "schedule" section must be mapping and must contain one key "cron"',  # beside it: `timezone`
)


def wide() -> dict[str, Any]:
    """The files of a repository with pools of each form of address."""
    isas = {"x86_64-linux": ["avx2"], "aarch64-linux": ["armv8_2"]}
    return dict(files(spec_of(small(runners=POOLS, matrix={"python": ["3.13"], "isas": isas, "gpus": {"cpu": {}}}))))


@pytest.fixture(params=["alone", "wide"])
def written(request: pytest.FixtureRequest, tmp_path: Path) -> list[Path]:
    """The workflows and the action in a folder, without a spec and with pools of each form."""
    texts = files(None) if request.param == "alone" else wide()
    for path, text in texts.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, "utf-8")
    (tmp_path / ".github/actionlint.yaml").write_text("self-hosted-runner:\n  labels: [builder]\n", "utf-8")
    again = {path.name for path in WRITTEN.glob("*.yml")} if request.param == "wide" else set()  # the same for both
    found = (path for path in sorted(tmp_path.glob(".github/workflows/*.yml")) if path.name not in again)
    return [*found, tmp_path / ".github/canary/setup/action.yml"]


@pytest.mark.slow
def test_the_checkers_of_workflows_find_nothing(written: list[Path]) -> None:
    assert jsonschema_problems(written) == []
    assert language_service_problems(written) == []
    found = actionlint_problems(written)
    assert [line for line in found if not any(known in line for known in UNKNOWN_TO_ACTIONLINT)] == []
    assert [line for line in zizmor_problems(written) if " self-repository " not in line] == []


def test_the_choice_of_a_machine_is_json_for_runs_on() -> None:
    start = yaml.safe_load(wide()[".github/workflows/canary.yml"])["jobs"]["start"]
    chosen = start["outputs"]["machine"]
    for name, on, cell in (
        ("", ["ubuntu-24.04"], "python313-cpu-avx2"),
        ("builder", POOLS["builder"]["runs-on"], "python313-cpu-avx2"),
        ("grouped", POOLS["grouped"]["runs-on"], "python313-cpu-armv8_2"),
        ("scaled", "arc-builders", "python313-cpu-avx2"),
    ):
        row = yaml.safe_load(expression_value(chosen, {"inputs": {"machine": name}}))
        assert (row["on"], row["cell"]) == (on, cell)
        assert row["kind"] == ("self-hosted" if name else "hosted")


def test_the_spec_of_the_canary_has_a_plan_without_findings() -> None:
    for texts in (files(None), wide()):
        decided = plan(parse_spec(texts[".github/canary/ci-matrix.yaml"].encode(), shown="spec"))
        assert not decided.warnings
        assert {variant for shard in decided.shards for variant in shard.variants}


def test_the_cell_is_the_compiled_one_with_the_canarys_spec() -> None:
    texts = files(None)
    spec = parse_spec(texts[".github/canary/ci-matrix.yaml"].encode(), shown="spec")
    compiled = compiled_cell(spec).node()["jobs"]
    written = yaml.safe_load(texts[".github/workflows/canary-cell.yml"])["jobs"]
    assert written.keys() == compiled.keys()
    for name, job in written.items():
        added = " --spec .github/canary/ci-matrix.yaml"
        steps = [
            step | ({"run": _without_spec(step["run"], added)} if "run" in step else {})
            for step in job["steps"]
            if step["name"] != "Set up ci-compiler"
        ]
        plain = yaml.safe_load(yaml.safe_dump(_plain(compiled[name])))
        assert {**job, "steps": steps} == plain


def _without_spec(run: str, added: str) -> str:
    """The script of a step without the canary's spec, which the commands of ci-runner have, and nothing else."""
    assert run.endswith(added) == run.startswith("ci-runner "), run
    return run.removesuffix(added)


def _plain(node: Any) -> Any:
    """A node with strings in place of the writer's own."""
    if isinstance(node, dict):
        return {key: _plain(value) for key, value in node.items()}
    if isinstance(node, (list, tuple)):
        return [_plain(value) for value in node]
    return str(node) if isinstance(node, str) else node


# The command.


def canary(root: Path) -> int:
    return run(PROGRAM, ["canary", "--root", str(root)])


def test_a_compile_and_a_first_spec_leave_the_canary_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert canary(tmp_path) == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert run(PROGRAM, ["init", "--template", "wheel", "--root", str(tmp_path)]) == 0
    assert run(PROGRAM, ["--root", str(tmp_path)]) == 0
    assert run(PROGRAM, ["--check", "--root", str(tmp_path)]) == 0
    assert {path: path.read_bytes() for path in before} == before
    capsys.readouterr()


COMMIT = "git+https://github.com/flox-cuda/ci-compiler@0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("given", "installed", "requirement", "says"),
    [
        ("", COMMIT, COMMIT, f"will install ci-compiler from {COMMIT}, which must be there"),
        ("", "", f"ci-compiler=={__version__}", "and fail if the package index has no such release"),
        (".github/ci-compiler.txt", COMMIT, ".github/ci-compiler.txt", "from .github/ci-compiler.txt, "),
    ],
)
def test_a_fresh_repository_gets_what_its_hosted_machines_can_install_or_is_warned(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    given: str,
    installed: str,
    requirement: str,
    says: str,
) -> None:
    monkeypatch.setattr("ci_compiler.cli.compile.canary.toolkit", lambda _: installed)
    if given:
        (tmp_path / ".github").mkdir()
        (tmp_path / ".github/ci-matrix.yaml").write_text(json.dumps(small(toolkit=given)), "utf-8")
    assert canary(tmp_path) == 0
    assert says in capsys.readouterr().err
    setup = yaml.safe_load((tmp_path / ".github/canary/setup/action.yml").read_text("utf-8"))
    assert setup["runs"]["steps"][-1]["env"]["REQUIREMENT"] == requirement


def test_a_second_run_changes_nothing_and_takes_up_the_pools_of_the_spec(tmp_path: Path) -> None:
    assert canary(tmp_path) == 0
    workflow = tmp_path / ".github/workflows/canary.yml"
    first = workflow.read_text("utf-8")
    assert canary(tmp_path) == 0
    assert workflow.read_text("utf-8") == first
    assert run(PROGRAM, ["init", "--template", "wheel", "--root", str(tmp_path)]) == 0
    assert canary(tmp_path) == 0
    assert "x86-builder" in workflow.read_text("utf-8")


def test_a_workflow_of_that_name_that_is_not_the_canarys_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workflow = tmp_path / ".github/workflows/canary.yml"
    workflow.parent.mkdir(parents=True)
    workflow.write_text("name: mine\n", "utf-8")
    assert canary(tmp_path) == 2
    assert workflow.read_text("utf-8") == "name: mine\n"
    assert not (tmp_path / ".github/canary").exists()
    assert "in-the-way" in capsys.readouterr().err


def test_pools_of_machines_that_github_hosts_count_as_hosted_and_other_platforms_are_left_out() -> None:
    pools = {"own": POOLS["builder"], "arm": {"hosted": "ubuntu-24.04-arm"}, "mac": {"hosted": "macos-26"}}
    matrix = {"values": {"platform": ["x86_64-linux", "aarch64-linux"], "accelerator": ["cpu", "rocm"]}}
    command = {"build": "b.sh", "files": ["*.whl"], "install": "pip install a", "publish": "true"}
    document = small(
        runners=pools,
        matrix=matrix,
        backend="command",
        packages={"pytorch": {"command": command}},
        branches={"main": {"versions": {"pytorch": "2.9.1"}}},
    )
    kinds = {place.name: place.node()["kind"] for place in places(spec_of(document))}
    assert kinds == {"hosted": "hosted", "own": "self-hosted", "arm": "hosted"}
