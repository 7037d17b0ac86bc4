"""What an event builds: pushes, dispatches and pull requests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_compiler.errors import InputError
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.plan.selection import (
    OWN_JOBS,
    Facts,
    GitHubEvent,
    Question,
    Rebuilt,
    RunSelection,
    Selection,
    asks_again,
    decide,
    in_profile,
    in_request,
    may_publish,
    most_cells,
    names_of_profile,
    night_of,
    profile_of,
    question,
    representatives,
    within_limit,
    without,
)
from ci_compiler.spec.build import bundled_spec
from ci_compiler.workflows import pull_request
from ci_compiler.workflows.common import CELL
from ci_compiler.workflows.model import Job
from tests.adoption.test_audit import CPU, V90, X90
from tests.merges import merge_request
from tests.plan.test_open_matrix import X86
from tests.plan.test_open_matrix import decided as open_plan
from tests.plan.test_profiles import COMMAND, PROFILES, STARTED
from tests.plan.test_profiles import decided as profiled
from tests.recipes.test_affected import PKGS, Repository, repository  # noqa: F401  (a fixture)
from tests.specs import documents, small, spec_of

SHA = "1" * 40
BRANCHES = ("main", "cuda-12_9", "cuda-13_0")


@pytest.fixture(scope="module")
def decided() -> Plan:
    return plan(spec_of(small()))


def chosen(
    decided: Plan, event: str, payload: dict[str, Any], affected: Sequence[str] = (), published: Sequence[str] = ()
) -> RunSelection:
    """What an event builds in the GPU shard of the small spec."""
    shard = next(shard for shard in decided.shards if shard.target == "sm90")
    happened = GitHubEvent(name=event, payload=payload)
    asked = question(decided, happened, shard)
    assert asked.branch == "main"
    assert asked.base in {"", SHA}
    rebuilt = {"main": Rebuilt(affected)} if asked.base else {}
    facts = Facts(rebuilt, {name for name in asked.names if name in published})
    (made,) = decide(decided, happened, facts, shard).branches
    return made


GPU = [
    f"{package}-python313-cuda12_8-sm90-{isa}" for isa in ("avx2", "avx512") for package in ("pytorch", "torchvision")
]


def test_a_dispatch_builds_what_it_names(decided: Plan) -> None:
    one = chosen(
        decided, "workflow_dispatch", {"ref": "refs/heads/main", "inputs": {"variant": GPU[1], "publish": "true"}}
    )
    assert (one.variants, one.suffixes) == ((GPU[1],), ["python313-cuda12_8-sm90-avx2"])
    everything = chosen(decided, "workflow_dispatch", {"inputs": {"variant": "all"}})
    assert list(everything.variants) == GPU


@pytest.mark.parametrize("ref", ["refs/heads/topic", "refs/heads/main-2", "refs/tags/main", "main", ""])
@pytest.mark.parametrize("publish", ["true", True])
def test_a_dispatch_that_asks_to_publish_from_elsewhere_is_refused(decided: Plan, ref: str, publish: object) -> None:
    inputs = {"variant": "all", "publish": publish}
    with pytest.raises(InputError, match=r"^event: .* build-main-sm90 publishes only from main"):
        chosen(decided, "workflow_dispatch", {"ref": ref, "inputs": inputs})
    assert chosen(decided, "workflow_dispatch", {"ref": ref, "inputs": inputs | {"publish": "false"}}).variants


@pytest.mark.parametrize("inputs", [{"variant": "pytorch-python313-cpu-avx2"}, {"variant": ""}, {}, None])
def test_a_dispatch_of_a_variant_outside_the_shard_is_an_error(decided: Plan, inputs: dict[str, str] | None) -> None:
    named = (inputs or {}).get("variant", "")
    with pytest.raises(InputError, match=rf"^event: '{named}' is not in build-main-sm90"):
        chosen(decided, "workflow_dispatch", {"inputs": inputs})


def test_a_push_builds_what_it_changed_of_the_shard(decided: Plan) -> None:
    made = chosen(decided, "push", {"before": SHA}, affected=["pytorch-python313-cpu-avx2", GPU[2]])
    assert made.variants == (GPU[2],)
    assert chosen(decided, "push", {"before": SHA}).variants == ()
    assert list(chosen(decided, "push", {"before": "0" * 40}).variants) == GPU


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({"variant": "unpublished"}, GPU[1:]),
        ({"variant": "unpublished", "only": f"{GPU[0]} {GPU[2]}"}, [GPU[2]]),
        ({"variant": "all", "only": "torchvision-*"}, [name for name in GPU if name.startswith("torchvision")]),
        ({"variant": GPU[1], "only": ""}, [GPU[1]]),
    ],
)
def test_a_dispatch_takes_what_is_not_published_and_patterns(
    decided: Plan, inputs: dict[str, str], expected: list[str]
) -> None:
    assert list(chosen(decided, "workflow_dispatch", {"inputs": inputs}, published=GPU[:1]).variants) == expected


@pytest.mark.parametrize(("only", "says"), [("*-sm91-*", "'.*' matches no"), ("{a", "'{a' opens a brace")])
def test_a_pattern_that_chooses_nothing_is_an_error(decided: Plan, only: str, says: str) -> None:
    with pytest.raises(InputError, match=f"^event: {says}"):
        chosen(decided, "workflow_dispatch", {"inputs": {"variant": "all", "only": only}})


def test_other_events_start_no_shard(decided: Plan) -> None:
    with pytest.raises(InputError, match="no shard runs on 'pull_request'"):
        chosen(decided, "pull_request", {})
    with pytest.raises(InputError, match="'push' is neither a pull request nor a merge group"):
        question(decided, GitHubEvent(name="push", payload={"pull_request": None}))


def of_request(decided: Plan, event: GitHubEvent, names: Sequence[str]) -> Selection:
    """What a change builds that rebuilds `names` on the base branch alone."""
    asked = question(decided, event, base=SHA)
    return decide(decided, event, Facts({asked.branch: Rebuilt(names)} if asked.base else {}))


def request(base: str = "main") -> GitHubEvent:
    return GitHubEvent(name="pull_request", payload={"pull_request": {"base": {"ref": base}}})


BUILDER = {"pool": "builder", "runs-on": ["self-hosted", "linux", "x64", "nix-builder"]}
H100 = {"pool": "h100", "runs-on": ["self-hosted", "linux", "x64", "gpu-sm90"]}


def test_a_pull_request_builds_affected_cells_on_the_pools_of_each_stage(decided: Plan) -> None:
    (made,) = of_request(decided, request(), GPU[:2]).branches
    assert made.variants == tuple(GPU[:2])
    assert pull_request.matrices(decided, [made], SHA)["matrix"] == [
        {
            "cell": "python313-cuda12_8-sm90-avx2",
            "chosen": json.dumps(GPU[:2]),
            "branch": "main",
            "onto": "",
            "commit": SHA,
            "machines": json.dumps({"build": BUILDER, "cpu-test": BUILDER, "gpu-test": H100}),
        }
    ]
    assert made.left == ()


def test_a_merge_group_builds_what_its_pull_requests_build(decided: Plan) -> None:
    refs = {"base_ref": "refs/heads/main", "head_ref": "refs/heads/gh-readonly-queue/main/pr-7-abc"}
    event = GitHubEvent(name="merge_group", payload={"merge_group": {**refs, "base_sha": SHA, "head_sha": "1" * 40}})
    made = of_request(decided, event, GPU[:2])
    assert made.branches == of_request(decided, request(), GPU[:2]).branches
    assert (question(decided, event, base=SHA), made.ref) == (Question("main", SHA), "gh-readonly-queue/main/pr-7-abc")


def test_a_pull_request_into_another_branch_builds_nothing(decided: Plan) -> None:
    assert of_request(decided, request("topic"), GPU) == Selection()


# Inputs, profiles, labels, and what is complete.


def dispatch(**inputs: object) -> GitHubEvent:
    return GitHubEvent("workflow_dispatch", {"ref": "refs/heads/main", "inputs": {"variant": "all"} | inputs})


PUSHED = GitHubEvent("push", {"before": SHA})


@pytest.mark.parametrize(
    ("event", "again", "night", "profile"),
    [
        (dispatch(again="true", night="20261123", profile="nightly"), True, "20261123", "nightly"),
        (dispatch(again=True), True, "", ""),
        (dispatch(again="false", night=None, profile=None), False, "", ""),
        (dispatch(), False, "", ""),
        (PUSHED, False, "", "push"),
        (GitHubEvent("workflow_dispatch", {"inputs": None}), False, "", ""),
    ],
)
def test_what_the_inputs_of_a_dispatch_say(event: GitHubEvent, again: bool, night: str, profile: str) -> None:
    assert (asks_again(event), night_of(event), profile_of(event)) == (again, night, profile)


@pytest.mark.parametrize(
    ("event", "publish", "branch", "may"),
    [
        (dispatch(publish="true"), {}, {}, True),
        (dispatch(publish=True), {}, {}, True),
        (dispatch(publish="false"), {}, {}, False),
        (dispatch(), {}, {}, False),
        (dispatch(publish="true"), {}, {"publish": False}, False),
        (PUSHED, {"on-push": True}, {}, True),
        (PUSHED, {"on-push": False}, {}, False),
        (PUSHED, {"on-push": True}, {"publish": False}, False),
        (GitHubEvent("pull_request", {}), {"on-push": True}, {}, False),
    ],
)
def test_a_run_publishes_if_it_is_asked_to_or_is_a_push_that_may(
    event: GitHubEvent, publish: dict[str, Any], branch: dict[str, Any], may: bool
) -> None:
    document = small(publish=publish)
    document["branches"]["main"] |= branch
    made = plan(spec_of(document))
    assert may_publish(made.spec, made.shards[0], event) is may


def test_a_question_names_what_matters_to_the_answer(decided: Plan) -> None:
    (shard,) = (shard for shard in decided.shards if shard.target == "sm90")
    assert question(decided, dispatch(), shard) == Question("main")
    assert question(decided, dispatch(variant="unpublished"), shard) == Question("main", names=tuple(GPU))
    only = dispatch(variant="unpublished", only="*-avx2")
    assert question(decided, only, shard) == Question("main", names=tuple(GPU[:2]))
    assert question(decided, PUSHED, shard) == Question("main", SHA)
    assert question(decided, GitHubEvent("push", {}), shard) == Question("main")
    assert question(decided, request("topic"), base=SHA) == Question("topic")
    batches = profiled(STARTED)
    since = dispatch(profile="push", since=f"{SHA} {'0' * 40} {'2' * 40}")
    assert question(batches, since, batches.shards[0]) == Question("main", since=(SHA, "2" * 40))


FAST = [f"fast-python{python}-cuda13_0-sm90-{isa}" for python in ("312", "313") for isa in ("avx2", "avx512")]


def of_shard(made: Plan, event: GitHubEvent, facts: Facts) -> list[str]:
    (shard,) = (shard for shard in made.shards if shard.name == "build-main-sm90")
    question(made, event, shard)
    return sorted(decide(made, event, facts, shard).branches[0].variants)


def test_a_run_of_a_profile_builds_what_it_says_and_of_a_batch_what_changed() -> None:
    made = profiled(STARTED)
    everything, some = Facts(), Facts({"main": Rebuilt([*FAST[1:], "another"])})
    assert of_shard(made, dispatch(), everything) == FAST
    assert of_shard(made, dispatch(profile="push", since=SHA), some) == FAST[2:]
    assert of_shard(made, dispatch(profile="release"), Facts(published=FAST[:1])) == FAST[1:]
    assert of_shard(made, PUSHED, some) == FAST[2:]
    assert of_shard(made, GitHubEvent("push", {}), everything) == FAST[2:]
    assert of_shard(made, PUSHED, Facts({"other": Rebuilt([])})) == FAST[2:]


def test_a_night_builds_representatives_of_what_its_profile_says() -> None:
    made = profiled(STARTED)
    names = names_of_profile(made, "nightly", "main")
    assert len(names) == 2
    assert all(name.endswith("avx512") for name in names)
    every = profiled({"nightly": {"schedule": {"days": ["sun"]}}, "release": {"tags": ["v*"]}})
    assert len(names_of_profile(every, "nightly", "main")) == len(names_of_profile(every, "release", "main")) == 12
    assert names_of_profile(every, "nightly", "other") == set()
    with pytest.raises(InputError, match="the spec has no profile 'nigthly'; did you mean nightly"):
        names_of_profile(made, "nigthly", "main")


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ({"profile": "nigthly"}, "no run is of the profile 'nigthly'; did you mean nightly?"),
        ({"profile": "pull-request"}, "no run is of the profile 'pull-request'"),
        (
            {"profile": "nightly", "night": "20261123", "since": SHA},
            "the input since, a commit, belongs to a profile",
        ),
        ({"since": SHA}, "the input since, a commit, belongs to a profile that builds what changed"),
        ({"profile": "push", "publish": "true"}, "it asks to publish, which the profile push does not"),
        ({"profile": "release", "night": "20261123"}, "the input night, a date, belongs to the profile nightly and"),
        ({"profile": "nightly"}, "the input night, a date, belongs to the profile nightly and to no other"),
    ],
)
def test_inputs_that_do_not_belong_to_the_profile_of_a_run_are_an_error(inputs: dict[str, Any], says: str) -> None:
    night = {"fast": {"command": COMMAND | {"version": {"night": "{version}.dev{date}"}}}}
    quiet = {"on-push": False, "on-shared-machines": True}
    made = profiled(STARTED, packages=night, publish=quiet)
    with pytest.raises(InputError) as raised:
        question(made, dispatch(**inputs), made.shards[0])
    assert says in str(raised.value)
    for fine in ({"profile": "nightly", "night": "20261123", "publish": "true"}, {"night": "20261123"}):
        assert question(made, dispatch(**fine), made.shards[0]) == Question("main")


def test_the_routes_of_a_run_are_those_of_its_profile() -> None:
    made = profiled(PROFILES)
    (shard,) = (shard for shard in made.shards if shard.name == "build-main-sm90")
    assert in_profile(made.spec, shard, "pull-request") == in_request(made.spec, shard)
    tests = {stage.name for _, route in in_request(made.spec, shard) for stage in route.pools if stage.is_test}
    assert tests == {"cpu-test"}
    assert in_profile(made.spec, shard, "") == in_profile(made.spec, shard, "push") == shard.cells


def test_what_is_complete_is_left_out_unless_it_is_of_another_branch_or_lands_elsewhere(decided: Plan) -> None:
    whole = of_request(decided, request(), GPU)
    complete = {GPU[0]: "7", GPU[2]: "8", GPU[3]: "8", "unknown": "9"}
    rest, gone = without(decided, whole, "main", complete)
    assert [one.variants for one in rest.branches] == [(GPU[1],)]
    assert gone == {"7": [GPU[0]], "8": [GPU[2], GPU[3]]}
    assert without(decided, whole, "other", complete) == (whole, {})
    onto = whole._replace(branches=tuple(one._replace(onto="x", left=("y",)) for one in whole.branches))
    assert without(decided, onto, "main", complete) == (onto, {})
    left = whole._replace(branches=tuple(one._replace(left=("y",)) for one in whole.branches))
    assert [one.left for one in without(decided, left, "main", complete)[0].branches] == [("y",)]


def test_a_request_says_whose_branch_it_comes_from_and_a_fork_has_none(decided: Plan) -> None:
    def ref(head: dict[str, Any] | None, base: dict[str, Any]) -> str:
        asked = {"pull_request": {"base": {"ref": "main", **base}, **({"head": head} if head else {})}}
        return of_request(decided, GitHubEvent("pull_request", asked), GPU).ref

    own = {"repo": {"full_name": "o/r"}}
    assert ref({"ref": "topic", **own}, own) == "topic"
    assert ref({"ref": "topic", "repo": {"full_name": "f/r"}}, own) == ""
    assert ref({"ref": "topic", "repo": None}, own) == ""
    assert ref(None, {}) == ""


@pytest.mark.parametrize(
    "payload",
    [
        {"pull_request": {}},
        {"pull_request": {"base": {"sha": SHA}}},
        {"merge_group": {"base_ref": "refs/heads/main"}},
        {"pull_request": {"base": {"ref": "main"}, "labels": [{}]}},
    ],
)
def test_an_event_of_another_form_is_an_error(decided: Plan, payload: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="event: "):
        of_request(decided, GitHubEvent("pull_request", payload), GPU)


def test_labels_add_variants_and_what_the_profile_leaves_out_is_left() -> None:
    made = profiled(PROFILES)
    names = [variant.name for cell in made.judged.cells for variant in cell.variants]

    def built(*labels: str) -> RunSelection:
        event = request()
        event.payload["pull_request"]["labels"] = [{"name": label} for label in labels]
        (one,) = of_request(made, event, names).branches
        assert sorted([*one.variants, *one.left]) == sorted(names)
        return one

    small_ones = ("fast-python313-cpu-avx2", "fast-python313-cuda13_0-sm90-avx2")
    assert built().variants == built("documentation").variants == small_ones
    blackwell = tuple(f"fast-python313-cuda13_0-sm100-{isa}" for isa in ("avx2", "avx512"))
    assert built("ciflow/blackwell").variants == (*small_ones, *blackwell)


def test_a_branch_of_which_nothing_is_rebuilt_is_no_part_of_a_request(decided: Plan) -> None:
    assert of_request(decided, request(), []).branches == ()
    assert of_request(decided, request(), ["unknown"]).branches == ()


HANDED = {"lib": {"when": {"python": "3.12"}}, "ext": {"needs": [{"package": "lib", "python": "3.12"}]}}


@pytest.mark.parametrize(("most", "pythons"), [(9, 3), (4, 3), (2, 1), (1, 1)])
def test_what_variants_need_is_built_with_them_and_counts(most: int, pythons: int) -> None:
    values = {"platform": X86, "python": ["3.11", "3.12", "3.13"]}
    made = open_plan({"values": values}, HANDED, **{"pull-request": {"cells": most}})
    names = [f"ext-python{tag}-{X86}" for tag in ("311", "312", "313")]
    (one,) = of_request(made, request(), names).branches
    assert f"lib-python312-{X86}" in one.variants
    assert len(one.variants) == pythons + 1
    assert sorted(one.left) == sorted({*names} - {*one.variants})
    pushed = decide(made, GitHubEvent("push", {}), Facts({"main": Rebuilt(names[:1])}), made.shards[0]).branches[0]
    assert set(pushed.variants) == {names[0], f"lib-python312-{X86}"}


def test_representatives_of_listed_variants_and_of_open_matrices_are_one_of_each() -> None:
    document = small()
    document["packages"]["pytorch"]["variants"] = {name: {"system": X86} for name in ("a-own", "b-own")}
    listed = [part for shard in plan(spec_of(document)).shards for part in shard.cells if part[0].listed]
    assert representatives(listed, 9) == tuple(listed)
    values = {"platform": X86, "python": ["3.12", "3.13"], "accelerator": ["cpu", "cuda 13.0"]}
    made = open_plan({"values": values}, {"a": {}, "b": {}})
    cells = [part for shard in made.shards for part in shard.cells]
    some = representatives(cells, 8)
    assert len(some) == 2
    for axis in ("python", "family"):
        assert len({cell.axes[axis] for cell, _ in some}) == 2


def test_above_the_limit_representatives_of_every_value_are_built_and_the_rest_is_listed() -> None:
    decided = plan(bundled_spec())
    names = [name for shard in decided.shards if shard.branch == "main" for name in shard.variants]
    (made,) = of_request(decided, request(), names).branches
    assert len(made.cells) <= decided.spec.pull_request.cells
    cells = [cell for cell, _ in made.cells]
    everything = [cell for cell in decided.judged.cells if cell.branch == "main"]
    for axis in ("target", "isa", "python", "system"):
        assert {getattr(cell, axis) for cell in cells} == {getattr(cell, axis) for cell in everything}
    assert sorted([*made.variants, *made.left]) == sorted(names)


def test_one_limit_holds_for_all_branches_and_each_of_them_is_represented() -> None:
    decided = plan(bundled_spec())
    whole = {
        branch: [name for shard in decided.shards if shard.branch == branch for name in shard.variants]
        for branch in BRANCHES
    }
    made = decide(decided, request(), Facts({b: Rebuilt(names, b) for b, names in whole.items()}))
    assert sum(len(one.cells) for one in made.branches) <= decided.spec.pull_request.cells
    assert [(one.branch, one.onto) for one in made.branches] == [(branch, branch) for branch in BRANCHES]
    assert all(one.cells for one in made.branches)
    for one in made.branches:
        assert sorted([*one.variants, *one.left]) == sorted(whole[one.branch])
        assert {cell.branch for cell, _ in one.cells} == {one.branch}


@pytest.mark.slow
@given(document=documents(), most=st.integers(0, 30))
def test_representatives_are_few_and_cover_as_many_values_as_possible(document: dict[str, Any], most: int) -> None:
    decided = plan(spec_of(document))
    cells = tuple(part for shard in decided.shards for part in shard.cells)
    some = representatives(cells, most)
    assert len(some) <= most
    assert list(some) == [part for part in cells if part in some]

    def values(parts: Sequence[Any]) -> set[tuple[str, str]]:
        return {(axis, getattr(cell, axis)) for cell, _ in parts for axis in ("target", "isa", "python")}

    if len(some) < most:
        assert values(some) == values(cells)
    assert representatives(cells, most) == some


def test_all_cells_are_built_up_to_the_limit_and_above_it_only_those_that_add_a_value(decided: Plan) -> None:
    cells = tuple(part for shard in decided.shards for part in shard.cells)
    assert [cell.suffix for cell, _ in cells] == [
        *("python313-cpu-avx2", "python313-cpu-avx512"),
        *("python313-cuda12_8-sm90-avx2", "python313-cuda12_8-sm90-avx512"),
    ]
    assert within_limit(cells, 4) == cells
    assert within_limit(cells, 3) == representatives(cells, 4) == (cells[0], cells[3])
    assert within_limit(cells, 1) == cells[:1]


def test_a_pull_request_fits_into_one_run_of_github() -> None:
    document = small(**{"pull-request": {"cells": 64}})
    assert most_cells(plan(spec_of(document))) == (256 - OWN_JOBS) // (2 * 3)
    assert most_cells(plan(spec_of(small(**{"pull-request": {"cells": 3}})))) == 3
    jobs = pull_request.workflow(spec_of(document), {CELL}, ()).jobs
    assert [name for name, job in jobs.items() if isinstance(job, Job)] == [*jobs][:4] + [*jobs][-1:]
    assert len(jobs) == OWN_JOBS + 1


# The command, with a repository and GitHub's event.


def outputs(
    repository: Repository,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    payload: dict[str, Any],
    *words: str,
) -> dict[str, Any]:
    event, output = repository.root.parent / "event.json", repository.root.parent / "output"
    event.write_text(json.dumps(payload), "utf-8")
    output.write_text("", "utf-8")
    monkeypatch.setenv("GITHUB_EVENT_NAME", name)
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(event))
    monkeypatch.setenv("GITHUB_OUTPUT", str(output))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(repository.root.parent / "summary.md"))
    assert repository.ci("choose", *words) == 0
    lines = dict(line.split("=", 1) for line in output.read_text("utf-8").splitlines())
    return {key: value if key in {"commit", "onto", "pausable"} else json.loads(value) for key, value in lines.items()}


def test_the_command_writes_the_outputs_of_a_select_job(
    repository: Repository,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = repository.git("rev-parse", "HEAD")
    repository.git("checkout", "-qb", "topic")
    repository.append(f"{PKGS}/{X90}.nix")
    head = repository.commit()
    push = outputs(repository, monkeypatch, "push", {"before": before}, "--shard", "build-main-sm90")
    assert push["commit"] == head
    assert push["chosen"] == [X90, V90]
    assert push["cells"] == ["python313-cuda12_8-sm90-avx2"]
    other = outputs(repository, monkeypatch, "push", {"before": before}, "--shard", "build-main-cpu")
    assert (other["chosen"], other["cells"], other["onto"], other["pausable"]) == ([], [], "", "")
    assert push["pausable"].split() == ["all", "branch:main", "pool:x86", "pool:x86@main"]
    gone = outputs(repository, monkeypatch, "push", {"before": "2" * 40}, "--shard", "build-main-cpu")
    assert CPU in gone["chosen"]
    repository.git("checkout", "-q", "main")
    repository.append(f"{PKGS}/{CPU}.nix")
    repository.commit()
    payload = merge_request(repository.git, head)
    request = outputs(repository, monkeypatch, "pull_request", payload, "--pull-request")
    assert request["chosen"] == {"main": [X90, V90]}
    (leg,) = request["matrix"]
    assert (leg["cell"], leg["branch"], leg["onto"]) == ("python313-cuda12_8-sm90-avx2", "main", "")
    assert json.loads(leg["chosen"]) == [X90, V90]


@pytest.mark.parametrize(
    ("repo", "commands"),
    [
        (
            "my-org/stack",
            [
                "gh workflow run build-main-cpu.yml --ref 'bump$(x)' -f variant=all",
                f"gh workflow run build-main-sm90.yml --ref 'bump$(x)' -f variant={V90}",
            ],
        ),
        ("a-stranger/stack", []),
    ],
)
def test_what_a_pull_request_leaves_is_listed_once_per_shard_with_its_own_branch(
    repository: Repository,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    repo: str,
    commands: list[str],
) -> None:
    spec = repository.root / ".github/ci-matrix.yaml"
    repository.write(".github/ci-matrix.yaml", f"{spec.read_text('utf-8')}pull-request: {{cells: 0}}\n")
    repository.commit()
    repository.git("checkout", "-qb", "topic")
    for name in (CPU, CPU.replace("pytorch", "torchvision"), V90):
        repository.append(f"{PKGS}/{name}.nix")
    commit = repository.commit()
    summary = repository.root.parent / "summary.md"
    summary.unlink(missing_ok=True)
    payload = merge_request(repository.git, commit, ref="bump$(x)", owner=repo)
    made = outputs(repository, monkeypatch, "pull_request", payload, "--pull-request")
    assert made["chosen"] == {"main": []}
    text = summary.read_text("utf-8") if summary.exists() else ""
    assert [line for line in text.splitlines() if line.startswith("gh ")] == commands


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--shard", "build-main-sm9"], "unknown shard 'build-main-sm9'; did you mean build-main-sm90"),
        (["--pull-request"], "'push' is neither a pull request nor a merge group"),
    ],
)
def test_the_command_refuses_wrong_input(
    repository: Repository,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    said: str,
) -> None:
    event = repository.root.parent / "event.json"
    event.write_text("{}", "utf-8")
    monkeypatch.setenv("GITHUB_EVENT_NAME", "push")
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(event))
    assert repository.ci("choose", *words) == 2
    assert said in capsys.readouterr().err
    monkeypatch.delenv("GITHUB_EVENT_PATH")
    assert repository.ci("choose", *words) == 2
    assert "names no event" in capsys.readouterr().err
