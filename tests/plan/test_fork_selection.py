"""Pools for untrusted code: only builds of forks go there, in jobs that need nothing from any other machine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci_compiler.cli.app import run
from ci_compiler.cli.runner import PROGRAM
from ci_compiler.codes import Code
from ci_compiler.errors import InputError
from ci_compiler.plan.fork_selection import ForkSelection, fork_minutes, fork_stages, of_fork
from ci_compiler.plan.job_graph import jobs_of
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.runner.deployment.kinds import deployment
from ci_compiler.runner.limits import longest
from ci_compiler.stages import BUILD, CPU_TEST, GPU_TEST
from ci_compiler.sync.compiled import compile_files
from ci_compiler.workflows import fork
from tests.plan.test_open_matrix import decided as open_plan
from tests.specs import CACHE, SMALL, small, spec_of

CPU, GPU = "python313-cpu-avx2", "python313-cuda12_8-sm90-avx2"
FORKS: dict[str, Any] = {
    "runs-on": ["self-hosted", "linux", "x64", "forks"],
    "cpu": ["avx512"],
    "count": 2,
    "untrusted": True,
}
FORKS_GPU: dict[str, Any] = FORKS | {
    "runs-on": ["self-hosted", "linux", "x64", "forks-gpu"],
    "gpu": "sm90",
    "stages": ["build", "cpu-test", "gpu-test"],
}
PLAIN = {"runs-on": ["self-hosted", "linux", "x64"], "stages": ["publish"]}
PUBLIC = CACHE["cache"] | {"public": True, "push": "own"}


def decided(runners: dict[str, Any], **changes: Any) -> Plan:
    return plan(spec_of(small(runners=SMALL["runners"] | runners, **changes)))


def chosen(made: Plan, *names: str, paused: str = "") -> ForkSelection:
    return of_fork(made, "main", names, paused)


def test_no_other_job_goes_to_such_a_pool_and_nothing_else_changes() -> None:
    without, with_them = decided({}), decided({"forks": FORKS | {"count": 99}, "forks-gpu": FORKS_GPU})
    assert {pool.name for route in with_them.routes for pool in route.pools.values()} == {"builder", "h100"}
    assert [one.code for one in with_them.warnings] == [one.code for one in without.warnings]
    before, after = compile_files(without), compile_files(with_them)
    differing = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert differing == {
        ".github/workflows/fork.yml",
        ".github/actionlint.yaml",
        ".github/zizmor.yml",
        ".github/BUILD_MATRIX.md",
    } & (before.keys() | after.keys())
    assert ".github/workflows/fork.yml" not in before


def test_a_pool_for_untrusted_code_alone_builds_nothing_else() -> None:
    with pytest.raises(InputError, match="no-pool"):
        plan(spec_of(small(runners={"forks": FORKS})))


def joined() -> Plan:
    packages = {"lib": {"joins": ["python"]}, "docs": {"ignores": ["python"]}}
    values = {"platform": "x86_64-linux", "python": ["3.12", "3.13"]}
    pools = {"x86": {"runs-on": ["self-hosted", "linux", "x64", "builder"]}, "forks": FORKS}
    return open_plan({"values": values}, packages, runners=pools)


def test_a_build_that_makes_several_variants_is_one_job_that_tests_the_chosen_ones() -> None:
    made, changed = joined(), "lib-python312-x86_64-linux"
    found = chosen(made, changed, "docs-x86_64-linux")
    every = (changed, "lib-python313-x86_64-linux")
    assert {(leg.title, leg.chosen, leg.built) for leg in found.legs} == {
        ("main lib-x86_64-linux", (changed,), every),
        ("main x86_64-linux", ("docs-x86_64-linux",), ("docs-x86_64-linux",)),
    }
    rows = {row["title"]: row for row in fork.legs(found.legs, "main", "", "")}
    assert (rows["main lib-x86_64-linux"]["built"], rows["main lib-x86_64-linux"]["into"]) == (changed, "/")
    assert "into" not in rows["main x86_64-linux"]
    jobs = jobs_of(made.spec, made.shards, publish=False)
    assert (len(jobs), found.work) == (2 + 3, sum(job.seconds for job in jobs))
    steps = compile_files(made)[".github/workflows/fork.yml"]
    assert '--out "fork-output${INTO:-/$NAME}" --unshared' in steps
    single = replace(made.spec, packages={"docs": made.spec.packages["docs"]})
    assert fork_minutes(made.spec) == 2 * 2 * fork_minutes(single)  # two packages, one with two Pythons


def test_tests_that_a_job_for_a_fork_cannot_run_are_counted_with_the_reason() -> None:
    suites = {"unit": {"command": "x", "minutes": 5}}
    packages = {"pytorch": {"attribute": "torch", "suites": suites}, "torchvision": {"needs": ["pytorch"]}}
    made = decided({"forks": FORKS}, packages=packages, tests={"benchmark": "where-routed"})
    assert fork_stages(made.spec) == (CPU_TEST, GPU_TEST)
    found = chosen(made, f"pytorch-{CPU}", f"torchvision-{CPU}", f"pytorch-{GPU}")
    assert dict(found.left) == {
        "without gpu-test, because no pool for untrusted code runs it after their build": 1,
        "without their test suites, which builds of forks do not run": 3,
    }


def test_a_job_builds_what_its_variants_need_and_tests_the_chosen_ones() -> None:
    made = decided({"forks": FORKS})
    found = chosen(made, f"torchvision-{CPU}", f"pytorch-{GPU}")
    assert [(leg.title, leg.chosen, leg.built) for leg in found.legs] == [
        (f"main {CPU}", (f"torchvision-{CPU}",), (f"pytorch-{CPU}", f"torchvision-{CPU}")),
        (f"main {GPU}", (f"pytorch-{GPU}",), (f"pytorch-{GPU}",)),
    ]
    assert {leg.pool.name for leg in found.legs} == {"forks"}
    assert {leg.tests for leg in found.legs} == {(CPU_TEST,)}
    assert found.left == (("without gpu-test, because no pool for untrusted code runs it after their build", 1),)
    assert found.variants == 2
    assert 0 < found.end < found.work


def test_what_everybody_may_fetch_is_not_built_again() -> None:
    (leg,) = chosen(decided({"forks": FORKS}, cache=PUBLIC), f"torchvision-{CPU}").legs
    assert leg.built == (f"torchvision-{CPU}",)
    (leg,) = chosen(decided({"forks": FORKS}, **CACHE), f"torchvision-{CPU}").legs
    assert leg.built == (f"pytorch-{CPU}", f"torchvision-{CPU}")


def test_the_machine_that_runs_the_most_tests_is_taken() -> None:
    found = chosen(decided({"forks": FORKS, "forks-gpu": FORKS_GPU}), f"pytorch-{CPU}", f"pytorch-{GPU}")
    assert [(leg.pool.name, leg.tests) for leg in found.legs] == [
        ("forks", (CPU_TEST,)),
        ("forks-gpu", (CPU_TEST, GPU_TEST)),
    ]
    assert found.left == ()


@pytest.mark.parametrize("words", ["all", "x POOL:forks", "branch:main", "pool:forks@main"])
def test_what_is_paused_is_left_out(words: str) -> None:
    made = decided({"forks": FORKS})
    assert chosen(made, f"pytorch-{CPU}", paused=words).left == (("builds are paused (`ci-compile resume`)", 1),)
    assert chosen(made, f"pytorch-{CPU}", paused="pool:builder branch:x").left == ()


def test_what_no_machine_builds_or_is_too_much_is_left_out_and_counted() -> None:
    made = decided({"forks": FORKS | {"disk": 1}})
    found = chosen(made, f"pytorch-{CPU}")
    assert (found.legs, found.left) == ((), (("no pool for untrusted code builds them", 1),))
    few = decided({"forks-gpu": FORKS_GPU}, **{"pull-request": {"cells": 1}})
    found = chosen(few, f"pytorch-{CPU}", f"pytorch-{GPU}")
    assert len(found.legs) == 1
    assert dict(found.left) == {"a pull request builds at most 1 cells (`pull-request.cells`)": 1}


def test_the_limit_of_a_job_is_that_of_all_that_it_may_do() -> None:
    spec = decided({"forks": FORKS}).spec
    assert fork_minutes(spec) == 2 * (spec.timeouts[BUILD] + spec.timeouts[CPU_TEST] + spec.timeouts[GPU_TEST])
    assert longest(spec, spec.pools[-1]) == 60 * fork_minutes(spec)
    huge = decided({"forks": FORKS}, timeouts={"build": 7200}).spec
    assert fork_minutes(huge) == 7200


@pytest.mark.parametrize(
    ("runners", "code"),
    [
        ({"forks": FORKS | {"stages": ["build", "publish"]}}, Code.UNTRUSTED_POOL),
        ({"forks": FORKS | {"runs-on": ["self-hosted", "linux", "x64"]}}, Code.POOL_STEALS),
        ({"forks": FORKS | {"runs-on": ["self-hosted", "linux", "x64", "nix-builder", "y"]}}, Code.POOL_STEALS),
    ],
    ids=["publishes", "jobs-reach-others", "takes-jobs-of-others"],
)
def test_its_machines_publish_nothing_and_share_no_jobs(runners: dict[str, Any], code: Code) -> None:
    with pytest.raises(InputError) as raised:
        decided(runners)
    assert {one.code for one in raised.value.findings} == {code}


def test_its_machines_take_no_other_job_by_the_labels_that_every_runner_has() -> None:
    runners = {"publisher": PLAIN, "forks": FORKS | {"runs-on": ["forks"], "system": "x86_64-linux"}}
    with pytest.raises(InputError, match="jobs for publisher would run on forks as well"):
        decided(runners)


def test_its_runners_have_a_container_a_fresh_store_and_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = decided({"forks": FORKS}).spec
    assert [pool.fresh_store for pool in spec.pools] == [False, False, True]
    (tmp_path / "spec.yaml").write_text(json.dumps(spec.document.value), "utf-8")
    words = ["start", "forks", "--root", str(tmp_path), "--spec", str(tmp_path / "spec.yaml")]
    assert run(PROGRAM, [*words, "--host", str(tmp_path)]) == 2
    monkeypatch.setenv("CI_RUNNER_BUILDER_KEY_FILE", str(tmp_path / "key"))
    assert run(PROGRAM, words) == 2
    refused = capsys.readouterr().err.splitlines()
    assert ["needs a new container for each job" in refused[0], "are not signed" in refused[1]] == [True, True]


def test_its_pods_know_what_they_are_for_and_get_no_key() -> None:
    runners = SMALL["runners"] | {"forks": FORKS}
    files = deployment(spec_of(small(runners=runners, **CACHE)), "arc", scale_set_labels=True).files
    pods = {path: yaml.safe_load(text) for path, text in files.items() if path.endswith(".yaml")}
    texts = {path: json.dumps(one) for path, one in pods.items() if one.get("template")}
    for path, text in texts.items():
        assert ("CI_RUNNER_UNTRUSTED" in text) is ("forks" in path), path
        assert ("CI_RUNNER_BUILDER_KEY" in text) is ("forks" not in path), path
    assert len(texts) == 3
