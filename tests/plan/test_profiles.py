"""What an event builds of what a change rebuilds: profiles of pull requests, with labels, and of pushes."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ci_compiler.errors import InputError
from ci_compiler.github.batches import standing
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.plan.profiles import builds, names_built, unused
from ci_compiler.plan.selection import Facts, GitHubEvent, Rebuilt, decide, names_of_profile, question
from ci_compiler.reports.profiles import of_profile_in_both, profile_changes
from ci_compiler.reports.summary import SummarisedRun, unfinished
from ci_compiler.reports.without import of_profile
from ci_compiler.spec.build import parse_spec
from ci_compiler.stages import BUILD, GPU_TEST
from ci_compiler.workflows.artifacts import MANIFEST_FILE, RESULT, artifact_name
from ci_compiler.workflows.common import CELL
from ci_compiler.workflows.pull_request import workflow
from ci_compiler.workflows.shard import workflow as shard_workflow
from ci_compiler.workflows.tasks import profiles as profile_files

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
    assert said == "the profile pull-request leaves it out"


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


# Runs that `ci-compile start` starts: nights, releases, and batches of pushes.

NIGHT = {"schedule": {"days": ["mon", "fri"], "at": "01:30", "timezone": "Europe/Berlin"}, "publish": True}
STARTED = {
    "push": {"batch": "60m", "variants": [{"python": "3.13"}]},
    "nightly": NIGHT | {"variants": [{"isa": "avx512"}], "representatives": 2},
    "release": {"tags": ["v*"]},
}


def dispatched(made: Plan, shard: str, names: list[str] | None = None, **inputs: str) -> tuple[str, ...]:
    (part,) = (one for one in made.shards if one.name == shard)
    event = GitHubEvent("workflow_dispatch", {"ref": "refs/heads/main", "inputs": {"variant": "all"} | inputs})
    question(made, event, part)
    facts = Facts({} if names is None else {"main": Rebuilt(names)})
    return decide(made, event, facts, part).branches[0].variants


def test_a_run_builds_what_its_profile_says() -> None:
    made = decided(STARTED)
    whole = [name for shard in made.shards for name in dispatched(made, shard.name, profile="nightly")]
    assert whole == sorted(names_of_profile(made, "nightly", "main"))
    assert len(whole) == 2
    assert all(name.endswith("avx512") for name in whole)
    assert len(dispatched(made, "build-main-sm90", profile="release", publish="true")) == 4
    assert len(dispatched(made, "build-main-sm90")) == 4
    changed = ["fast-python313-cuda13_0-sm90-avx2", "fast-python312-cuda13_0-sm90-avx2"]
    assert dispatched(made, "build-main-sm90", changed, profile="push", since="1" * 40) == tuple(changed[:1])


QUIET = {
    "push": {"tests": []},
    "nightly": {"schedule": {"days": ["sun"]}, "tests": ["gpu-test"]},
    "release": {"tags": ["v*"]},
}


@pytest.mark.parametrize(("profile", "tests"), [("nightly", {"gpu-test"}), ("release", {"cpu-test", "gpu-test"})])
def test_a_run_has_the_tests_of_its_profile(profile: str, tests: set[str]) -> None:
    made = decided(QUIET, publish={"on-push": False, "on-shared-machines": True})
    for shard in (one for one in made.shards if one.name == "build-main-sm90"):
        inputs = {"variant": "all", "profile": profile}
        event = GitHubEvent("workflow_dispatch", {"ref": "refs/heads/main", "inputs": inputs})
        (own,) = decide(made, event, Facts(), shard).branches
        (pushed,) = decide(made, GitHubEvent("push", {}), Facts(), shard).branches
        assert {stage.name for _, route in own.cells for stage in route.pools if stage.is_test} == tests
        assert not {stage for _, route in pushed.cells for stage in route.pools if stage.is_test}
    assert {
        stage.name for shard in of_profile(made, profile).shards for _, one in shard.cells for stage in one.pools
    } >= tests


def test_a_test_that_a_profile_leaves_out_is_not_missing_from_its_run(tmp_path: Path) -> None:
    made = decided(QUIET, publish={"on-push": False, "on-shared-machines": True})
    (name,) = (one for one in every(made) if one == "fast-python313-cuda13_0-sm90-avx2")
    for stage, file in ((BUILD, MANIFEST_FILE), (GPU_TEST, RESULT)):
        place = tmp_path / artifact_name(stage, name, "main") / file
        place.parent.mkdir()
        place.write_text(json.dumps({"name": name, "passed": True}), "utf-8")
    for profile, lacks in (("nightly", 0), ("", 1), ("release", 1)):
        run = SummarisedRun(event="workflow_dispatch", ref="main", publish=False, profile=profile)
        found = [str(one) for one in unfinished(made, run, "main", [name], tmp_path)]
        assert len(found) == lacks
        assert all("cpu-test left no result" in one for one in found)


@pytest.mark.parametrize("profile", ["push", "nightly", "release"])
def test_a_profile_that_publishes_runs_every_test(profile: str) -> None:
    profiles = QUIET | {"release": QUIET["release"] | {"tests": ["cpu-test"]}, "push": {"tests": ["cpu-test"]}}
    own = {profile: profiles[profile] | ({} if profile == "push" else {"publish": True})}
    with pytest.raises(InputError, match=rf"profiles\.{profile}\.tests|but the profile publishes"):
        decided(own)
    nowhere = {"main": {"cuda": "13.0", "versions": {"fast": "1.0.0"}, "publish": False}}
    assert decided(own, branches=nowhere)


def test_a_profile_that_the_spec_lacks_has_no_plan() -> None:
    with pytest.raises(InputError, match=r"the spec has no profile 'nightly'; .*unknown-profile"):
        of_profile(decided(), "nightly")


@pytest.mark.parametrize(
    ("profiles", "path", "key", "said"),
    [
        (
            {"push": {"variants": [{"isa": "avx2"}, {"python": "3.14"}]}},
            ("profiles", "push", "variants", 1),
            False,
            "python 3.14 holds for no variant",
        ),
        (
            {"pull-request": {**REQUEST, "labels": {"slow": [{"isa": "avx"}]}}},
            ("profiles", "pull-request", "labels", "slow", 0),
            False,
            "isa avx holds for no variant",
        ),
        (
            {"pull-request": {"labels": {"fast": [{"isa": "avx2"}]}}},
            ("profiles", "pull-request", "labels"),
            True,
            "a pull request builds all variants already; say with `variants` which it builds without a label",
        ),
    ],
)
def test_a_condition_of_a_profile_that_changes_nothing_is_an_error_at_its_place(
    profiles: dict[str, Any], path: tuple[str | int, ...], key: bool, said: str
) -> None:
    spec, cells = decided().spec, decided().judged.cells
    changed = parse_spec(json.dumps({**spec.document.value, "profiles": profiles}).encode(), shown="ci-matrix.yaml")
    (finding,) = unused(changed, cells)
    assert (finding.code, finding.message) == ("unused-condition", said)
    assert finding.place == changed.place(*path, key=key)
    assert list(unused(spec, cells)) == []


def test_labels_add_variants_to_a_pull_request_and_to_nothing_else() -> None:
    made = decided()
    names = every(made)
    cells = made.judged.cells
    label = "ciflow/blackwell"
    assert tuple(names_built(made.spec, "pull-request", cells, names, [label])) == (*SMALL, *BLACKWELL)
    assert names_built(made.spec, "pull-request", cells, names[:1], ["other"]) == []
    assert names_built(made.spec, "pull-request", cells[:0], names) == []
    whole = decided({"pull-request": {"tests": ["cpu-test"]}})
    assert names_built(whole.spec, "pull-request", (), [*names, "unknown"]) == [*names, "unknown"]
    assert all(builds(whole.spec, "push", cell) for cell in whole.judged.cells)


def test_runs_of_profiles_are_started_by_files_of_their_own() -> None:
    made = decided(STARTED)
    files = dict(profile_files(made.spec))
    assert files["push-batch.yml"].on["schedule"] == [{"cron": "17 * * * *"}]
    assert files["nightly.yml"].on["schedule"] == [{"cron": "30 1 * * 1,5", "timezone": "Europe/Berlin"}]
    assert files["release.yml"].on["push"] == {"tags": ["v*"]}
    for shard in made.shards:
        on = shard_workflow(made.spec, shard).on
        assert list(on) == ["workflow_dispatch"]
        assert {"profile", "since"} <= on["workflow_dispatch"]["inputs"].keys()
    without = decided({"nightly": NIGHT})
    assert [name for name, _ in profile_files(without.spec)] == ["nightly.yml"]
    on = shard_workflow(without.spec, without.shards[0]).on
    assert "push" in on
    assert "since" not in on["workflow_dispatch"]["inputs"]


class Batches:
    """A branch with three variants, and GitHub's runs of the profile `push` in its shard, the newest first."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311
        self.history = [dict.fromkeys("abc", 0)]
        self.runs: list[dict[str, Any]] = []
        self.built: dict[str, int] = {}

    def push(self, **contents: int) -> None:
        self.history.append(self.history[-1] | contents)

    def tick(self) -> None:
        """The schedule: starts a run for what changed, as `ci-compile start push` does."""
        tip, stand = len(self.history) - 1, standing(self.runs, "push")
        others = [self.history[int(commit)] for commit in stand.since] or [{}]
        now = self.history[-1].items()
        names = [name for name, content in now if any(content != before.get(name) for before in others)]
        if stand.is_due(str(tip)) and names:
            self.add(f"main (all) push since {' '.join(stand.since)}", names)

    def add(self, title: str, names: list[str]) -> None:
        run = {"display_title": title, "head_sha": str(len(self.history) - 1), "names": names}
        self.runs.insert(0, run | {"status": "queued", "conclusion": ""})

    def end(self, *, passing: float) -> None:
        """The newest run ends, or is repeated if it failed. Each variant is built with the probability `passing`."""
        run = self.runs[0]
        if run["conclusion"] != "success":
            passed = [name for name in run["names"] if self.random.random() < passing]
            run |= {"status": "completed", "conclusion": "success" if passed == run["names"] else "failure"}
            self.built |= {name: self.history[int(run["head_sha"])][name] for name in passed}


@pytest.mark.parametrize("seed", range(8))
def test_batches_miss_nothing_that_was_pushed(seed: int) -> None:
    """Truth by content: after a complete run, each variant was built from the content that it has."""
    branch = Batches(seed)
    branch.tick()
    random = branch.random
    for _ in range(150):
        branch.push(**{random.choice("abc"): random.randrange(4)})
        if random.random() < 0.2:  # a dispatch of other variants, or of one, is no batch
            branch.end(passing=0.5)
            branch.add(random.choice(["main (all)", "main (a selection) push since 0"]), [random.choice("abc")])
            branch.end(passing=0.7)
        if random.random() < 0.7:  # GitHub drops some ticks
            branch.tick()
        if random.random() < 0.5:
            branch.end(passing=0.5)
        if branch.runs[0]["conclusion"] == "success" and "(all) push" in branch.runs[0]["display_title"]:
            assert branch.built == branch.history[int(branch.runs[0]["head_sha"])]
    branch.end(passing=0.0)
    branch.push(a=9)
    branch.tick()
    branch.end(passing=1.0)
    assert branch.built == branch.history[-1]


def test_a_change_says_what_each_profile_builds_and_publishes() -> None:
    before, after = decided({}), decided(STARTED)
    assert profile_changes(before, before) == ()
    assert list(map(str, profile_changes(before, after))) == [
        "the profile pull-request: 12 variants, not published",
        "the profile push: 6 variants, published (before: 12 variants, published)",
        "the profile nightly: 2 variants, published (before: not declared)",
        "the profile release: 12 variants, published (before: not declared)",
    ]
    for one, other in [(before, after), (after, before)]:
        plans = of_profile_in_both(one, other, "nightly")
        assert [sum(len(shard.variants) for shard in made.shards) for made in plans] == [
            2 if made is after else 0 for made in (one, other)
        ]
    with pytest.raises(InputError, match="no profile 'release'"):
        of_profile_in_both(before, before, "release")


@pytest.mark.parametrize(
    ("conclusion", "due"),
    [("failure", False), ("timed_out", False), ("cancelled", True), ("startup_failure", True), ("skipped", True)],
)
def test_a_batch_that_was_lost_is_started_again_and_one_that_failed_is_not(conclusion: str, due: bool) -> None:
    title = "main (all) push since 1"
    complete = {"display_title": title, "head_sha": "1", "status": "completed", "conclusion": "success"}
    last = complete | {"head_sha": "2", "conclusion": conclusion}
    found = standing([last, complete], "push")
    assert found.is_due("2") is due
    assert found.is_due("3")
    assert found.since == ("1", "2")  # it may have published something


@pytest.mark.parametrize(
    "title",
    [
        "main [7 (all) push since 1] (a selection)",
        "main [7] (a selection) (all) push since 1",
        "main [7 (all) push since 1] (unpublished)",
        "main (all) nightly since 1",
        "main (all) push since 1, or what I say",
    ],
)
def test_text_in_an_input_makes_no_run_one_of_a_profile(title: str) -> None:
    run = {"display_title": title, "head_sha": "1", "status": "completed", "conclusion": "success"}
    assert standing([run], "push").complete == ""
    own = run | {"display_title": "main [7] (all) push since 1"}
    assert standing([own], "push").complete == "1"
