"""Builds that make several variants: one run of the script, a manifest for each, and nothing that belongs to none."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci_compiler.plan.joins import builds
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.plan.sharding import job_counter
from ci_compiler.runner.jobs.publish_run import candidates, read_results, reported_outputs
from ci_compiler.spec.build import parse_spec
from ci_compiler.sync.compiled import compile_files
from ci_compiler.workflows.common import result_of
from tests.backends.project import Project
from tests.checkers import condition_values

PYTHONS = ("3.11", "3.12")
NAMES = tuple(f"ext-python{python.replace('.', '')}-cpu-x86_64-linux" for python in PYTHONS)
BUILD = "ext-cpu-x86_64-linux"

SCRIPT = """#!/bin/bash -e
echo "$VARIANT_NAME/$VARIANT_PYTHON/$VARIANT_PLATFORM/$VARIANT_MODE" >out.log
for name in $VARIANT_NAME; do mkdir -p "out/$name"; echo "made $name" >"out/$name/ext.txt"; done
"""


def declared(**package: Any) -> dict[str, Any]:
    command = {"build": "ci/build.sh", "files": ["out/@name@/*.txt"], "install": "echo @name@", "publish": "cat"}
    return {
        "version": 1,
        "owner": "my-org",
        "backend": "command",
        "branches": {"main": {"versions": {"ext": "1.0.0"}}},
        "settings": {"mode": [{"when": {"accelerator": "cpu"}, "value": "fast"}]},
        "packages": {"ext": {"command": command, "joins": ["python"], **package}},
        "matrix": {"values": {"python": list(PYTHONS), "accelerator": "cpu", "platform": "x86_64-linux"}},
        "publish": {"on-shared-machines": True},
        "runners": {"builder": {"runs-on": ["self-hosted", "linux", "x64", "builder"]}},
    }


@pytest.fixture
def joined(project: Project) -> Project:
    (project.root / ".github/ci-matrix.yaml").write_text(json.dumps(declared()), "utf-8")
    project.write("ci/build.sh", SCRIPT)
    return project


def built(project: Project, status: int = 0, *options: str, **env: str) -> Any:
    output = project.root.parent / "github-output"
    output.write_text("", "utf-8")
    words = ("build", NAMES[1], "--branch", "main", "--out", "build-output", *options)
    done = project.job(*words, status=status, GITHUB_OUTPUT=str(output), **env)
    return done, output.read_text("utf-8")


def manifest(project: Project, name: str) -> Any:
    return json.loads((project.root / "build-output" / name / "manifest.json").read_text("utf-8"))


@pytest.mark.slow
def test_one_run_of_the_script_makes_all_variants_of_a_build(joined: Project) -> None:
    _, output = built(joined)
    logged = (joined.root / "out.log").read_text("utf-8").strip().split("/")
    assert logged == [" ".join(NAMES), " ".join(PYTHONS), "x86_64-linux", "fast"]
    digests = json.loads(output.removeprefix("manifests="))
    assert tuple(digests) == NAMES
    for name in NAMES:
        assert manifest(joined, name)["outputs"] == ["files/ext.txt"]
        kept = joined.root / "build-output" / name / "files/ext.txt"
        assert kept.read_text("utf-8") == f"made {name}\n"
        path = f"build-output/{name}/manifest.json"
        assert joined.job("fetch", path, "--digest", json.dumps(digests)).returncode == 0
        other = json.dumps({**digests, name: digests[NAMES[0]][:-1] + "x"})
        assert "is not the file that the build wrote" in joined.job("fetch", path, "--digest", other, status=2).stderr
        kept.write_text("another file", "utf-8")
        assert "is another file than the one that was built" in joined.job("fetch", path, status=1).stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            SCRIPT.replace("$VARIANT_NAME; do", "${VARIANT_NAME%% *}; do"),
            f"{NAMES[1]}: the build succeeded, but wrote no",
        ),
        (
            f"{SCRIPT}mkdir out/other; echo more >out/other/ext.txt\n",
            "out/other/ext.txt is a file of none of its variants",
        ),
        (f"{SCRIPT}exit 7\n", "the build ended with status 7"),
    ],
)
def test_a_build_that_leaves_other_results_fails(joined: Project, script: str, message: str) -> None:
    joined.write("ci/build.sh", script)
    done, output = built(joined, status=1)
    assert message in done.stderr
    assert output == ""
    assert not list((joined.root / "build-output").glob("*/manifest.json"))


def test_patterns_must_tell_the_variants_apart(joined: Project) -> None:
    document = declared()
    document["packages"]["ext"]["command"]["files"] = ["out/*/*.txt"]
    (joined.root / ".github/ci-matrix.yaml").write_text(json.dumps(document), "utf-8")
    joined.commit()
    assert f"is a file of {NAMES[0]} as well; give them patterns apart" in built(joined, status=1)[0].stderr


def decided(**package: Any) -> Plan:
    return plan(parse_spec(json.dumps(declared(**package)).encode(), shown="ci-matrix.yaml"))


def test_a_build_is_named_after_the_values_that_its_variants_share() -> None:
    (build,) = builds(decided().judged.cells)
    assert (build.name, build.branch) == (BUILD, "main")
    assert tuple(variant.name for _, variant in build.variants) == NAMES
    assert [cell.key for cell, _ in build.variants] == [BUILD, BUILD]
    alone = builds(decided(joins=[{"axes": ["python"], "when": {"python": "3.11"}}]).judged.cells)
    assert [build.name for build in alone] == list(NAMES)


SUITES = {"unit": {"command": "ci/unit.sh", "minutes": 9, "on": "cpu", "shards": 2}}


def test_the_suites_of_a_build_run_for_each_of_its_variants_after_their_stage() -> None:
    made = decided(suites=SUITES)
    files = compile_files(made)
    called = yaml.safe_load(files[".github/workflows/joined.yml"])
    job = called["jobs"]["cpu-test-suites"]
    assert job["needs"] == ["build", "cpu-test"]
    assert called[True]["workflow_call"]["outputs"]["cpu-test-suites"]["value"] == result_of("cpu-test-suites")
    legs = [{"name": name, "suite": "unit", "shard": f"{shard}/2"} for name in NAMES for shard in (1, 2)]
    shard = yaml.safe_load(files[".github/workflows/build-main-cpu.yml"])
    assert json.loads(shard["jobs"][BUILD]["with"]["cpu-test-suites"]) == legs
    request = yaml.safe_load(files[".github/workflows/pull-request.yml"])
    (call,) = (one for one in request["jobs"].values() if str(one.get("uses")).endswith("/joined.yml"))
    assert call["with"]["cpu-test-suites"] == "${{ matrix.cpu-test-suites }}"
    cases, wanted = [], []
    for result, given, on in product(("success", "failure", "skipped"), ("[]", json.dumps(legs)), (True, False)):
        machines = {"cpu-test": {"pool": "builder"}} if on else {}
        inputs = {"selected": '{"branch": "main"}', "machines": json.dumps(machines), "cpu-test-suites": given}
        push = {"event_name": "push", "repository": "o/r", "event": {}}
        needs = {"build": {"result": "success"}, "cpu-test": {"result": result}}
        cases.append((job["if"], {"github": push, "inputs": inputs, "needs": needs, "vars": {}, "status()": "success"}))
        wanted.append(result == "success" and given != "[]" and on)
    assert condition_values(cases) == wanted
    assert {job_counter(made.spec)(cell) for cell in made.judged.cells} == {3 + 2}


@pytest.mark.slow
@pytest.mark.parametrize("ended", ["success", "failure", ""])
@pytest.mark.parametrize("suites", [{}, SUITES])
def test_variants_of_a_build_are_published_only_if_their_tests_all_ended_well(
    joined: Project, tmp_path: Path, ended: str, suites: dict[str, Any]
) -> None:
    _, output = built(joined)
    made = decided(suites=suites) if suites else decided()
    results = tmp_path / "results" / f"build-{BUILD}@main"
    results.parent.mkdir()
    (joined.root / "build-output").rename(results)
    for name in NAMES:
        content = json.loads((results / name / "manifest.json").read_text("utf-8"))
        folder = results.parent / f"cpu-test-{name}@main"
        folder.mkdir()
        record = {"name": name, "branch": "main", "stage": "cpu-test", "passed": True}
        path = folder / "result.json"
        path.write_text(json.dumps(record | {"content": _content(content)}), "utf-8")
    last = "cpu-test-suites" if suites else "cpu-test"
    outputs = {"manifests": output.removeprefix("manifests=").strip(), "cpu-test": "success", last: ended}
    needs = json.dumps({BUILD: {"outputs": outputs}})
    commit = content["commit"]
    found = read_results(results.parent, "main", commit, reported_outputs(made.shards[0], made.spec, needs))
    parts = list(zip(made.judged.cells, made.routes, strict=True))
    held = {one.name: one.because for one in candidates(made.spec, parts, NAMES, found)}
    expected = "" if ended == "success" else f"{{}} did not pass {'suite unit' if suites else last}"
    assert held == {name: expected.format(name) for name in NAMES}


def _content(content: Any) -> str:
    from ci_compiler.backends.nar import closure_digest

    return closure_digest(content["closure"])


def test_the_script_of_the_package_that_others_join_runs_whatever_they_are_called(joined: Project) -> None:
    document = declared()
    document["packages"]["ext-cpu"] = {
        "joins": [{"with": "ext"}, {"axes": ["python"]}],
        "command": {**document["packages"]["ext"]["command"], "build": "ci/other.sh"},
    }
    document["branches"]["main"]["versions"]["ext-cpu"] = "1.0.0"
    (joined.root / ".github/ci-matrix.yaml").write_text(json.dumps(document), "utf-8")
    joined.commit()
    built(joined)
    assert "ext-cpu-python311-cpu-x86_64-linux" in (joined.root / "out.log").read_text("utf-8")
