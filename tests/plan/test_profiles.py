"""What an event builds of what a change rebuilds: profiles of pull requests, with labels, and of pushes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.plan.selection import Facts, GitHubEvent, Rebuilt, decide
from ci_compiler.reports.without import of_profile
from ci_compiler.spec.build import parse_spec
from ci_compiler.stages import BUILD
from ci_compiler.workflows.common import CELL
from ci_compiler.workflows.pull_request import workflow

COMMAND = {"build": "ci/build.sh", "files": ["dist/*"], "install": "pip install x", "publish": "upload"}
REQUEST = {
    "variants": [{"accelerator": ["cpu", "cuda 13.0 sm90"], "isa": "avx2", "python": "3.13"}],
    "tests": ["cpu-test"],
    "labels": {"ciflow/blackwell": [{"accelerator": "cuda 13.0 sm100", "python": "3.13"}]},
}
PROFILES = {"pull-request": REQUEST, "push": {"variants": [{"python": "3.13"}]}}


def decided(profiles: dict[str, Any] = PROFILES, **more: Any) -> Plan:
    document = {
        "version": 1,
        "owner": "my-org",
        "backend": "command",
        "branches": {"main": {"cuda": "13.0", "versions": {"fast": "1.0.0"}}},
        "packages": {"fast": {"command": COMMAND}},
        "matrix": {
            "python": ["3.12", "3.13"],
            "isas": {"x86_64-linux": ["avx2", "avx512"]},
            "gpus": {"cpu": {}, "sm90": {}, "sm100": {}},
        },
        "publish": {"on-shared-machines": True},
        "runners": {
            "builder": {"runs-on": ["self-hosted", "linux", "x64", "b"], "cpu": ["avx512"]},
            "h100": {"runs-on": ["self-hosted", "linux", "x64", "g"], "gpu": "sm90", "cpu": ["avx512"]},
        },
        **({"profiles": profiles} if profiles else {}),
        **more,
    }
    return plan(parse_spec(json.dumps(document).encode(), shown="ci-matrix.yaml"))


def every(made: Plan) -> list[str]:
    return [variant.name for cell in made.judged.cells for variant in cell.variants]


def request(*labels: str) -> GitHubEvent:
    base, named = {"ref": "main", "sha": "0" * 40}, [{"name": name} for name in labels]
    return GitHubEvent("pull_request", {"pull_request": {"base": base, "head": {"ref": "a"}, "labels": named}})


def chosen(made: Plan, event: GitHubEvent) -> tuple[str, ...]:
    (branch,) = decide(made, event, Facts({"main": Rebuilt(every(made))})).branches
    assert {*branch.variants, *branch.left} == set(every(made))
    return branch.variants


SMALL = ("fast-python313-cpu-avx2", "fast-python313-cuda13_0-sm90-avx2")
BLACKWELL = tuple(f"fast-python313-cuda13_0-sm100-{isa}" for isa in ("avx2", "avx512"))


def test_a_pull_request_builds_what_its_profile_says_and_its_labels_add() -> None:
    assert chosen(decided(), request()) == SMALL
    assert chosen(decided(), request("documentation")) == SMALL
    assert chosen(decided(), request("documentation", "ciflow/blackwell")) == (*SMALL, *BLACKWELL)


def test_it_runs_the_tests_of_its_profile() -> None:
    (branch,) = decide(decided(), request(), Facts({"main": Rebuilt(every(decided()))})).branches
    for _, route in branch.cells:
        assert [stage.name for stage in route.pools if stage.is_test] == ["cpu-test"]
        assert BUILD in route.pools
    (said,) = {why for _, route in branch.cells for stage, why in route.skipped.items() if stage.name == "gpu-test"}
    assert said == "the profile of pull requests leaves it out"


def test_a_push_builds_what_its_profile_says_and_a_dispatch_what_it_names() -> None:
    made = decided()
    (shard,) = (one for one in made.shards if one.name == "build-main-sm90")
    facts = Facts({"main": Rebuilt(every(made))})
    pushed = decide(made, GitHubEvent("push", {"before": "0" * 40}), facts, shard).branches[0].variants
    assert pushed == ("fast-python313-cuda13_0-sm90-avx2", "fast-python313-cuda13_0-sm90-avx512")
    form = {"ref": "refs/heads/main", "inputs": {"variant": "all"}}
    assert len(decide(made, GitHubEvent("workflow_dispatch", form), Facts(), shard).branches[0].variants) == 4


def test_a_condition_may_name_the_platform_that_an_isa_implies() -> None:
    profiles = {"pull-request": {"variants": [{"platform": "x86_64-linux", "accelerator": "cpu", "isa": "avx2"}]}}
    assert chosen(decided(profiles), request()) == tuple(f"fast-python{one}-cpu-avx2" for one in ("312", "313"))


def test_without_profiles_everything_is_as_before() -> None:
    made = decided({})
    assert len(chosen(made, request("ciflow/blackwell"))) == 12
    on = workflow(made.spec, {CELL}, made.shards).on
    assert on["pull_request"] == {"branches": ["main"]}


def test_a_label_that_adds_variants_starts_a_run() -> None:
    types = workflow(decided().spec, {CELL}, ()).on["pull_request"]["types"]
    assert types == ["opened", "synchronize", "reopened", "labeled"]
    without = {"pull-request": {"variants": REQUEST["variants"]}}
    assert "types" not in workflow(decided(without).spec, {CELL}, ()).on["pull_request"]


@pytest.mark.parametrize(("profile", "variants"), [("pull-request", 2), ("push", 6)])
def test_the_plan_of_a_profile_holds_what_it_builds(profile: str, variants: int) -> None:
    made = of_profile(decided(), profile)
    assert sum(len(shard.variants) for shard in made.shards) == variants
    stages = {stage.name for shard in made.shards for _, route in shard.cells for stage in route.pools}
    assert ("gpu-test" in stages) is (profile == "push")


def test_a_profile_builds_what_its_variants_need_and_cannot_fetch() -> None:
    packages = {"lib": {"command": COMMAND}, "fast": {"command": COMMAND, "needs": ["lib"]}}
    branches = {"main": {"cuda": "13.0", "versions": {"fast": "1.0.0", "lib": "1.0.0"}}}
    made = decided(packages=packages, branches=branches)
    facts = Facts({"main": Rebuilt(["fast-python313-cpu-avx2"])})
    (branch,) = decide(made, request(), facts).branches
    assert set(branch.variants) == {"fast-python313-cpu-avx2", "lib-python313-cpu-avx2"}
