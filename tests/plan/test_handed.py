"""Whose files reach whom: what is built as well, in which order, and what is out of reach."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.plan.handed import HandedFiles
from ci_compiler.plan.needs import hands_files
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.plan.selection import Facts, GitHubEvent, Rebuilt, decide
from ci_compiler.spec.build import load_spec, parse_spec
from ci_compiler.workflows.common import VARIANT
from ci_compiler.workflows.pull_request import matrices, workflow
from ci_compiler.workflows.shard import workflow as shard_workflow

GOOD = Path(__file__).parents[1] / "examples/good"
COMMAND = {"build": "ci/build.sh", "files": ["dist/*"], "install": "pip install x", "publish": "upload"}
EVENT = GitHubEvent(
    name="pull_request",
    payload={"pull_request": {"base": {"ref": "main", "sha": "0" * 40}, "head": {"ref": "topic"}}},
)


def decided(fetch: str = "", **more: Any) -> Plan:
    """A library for all ABIs, extensions of it for each, and an application of these for each."""
    library = COMMAND | ({"fetch": fetch} if fetch else {})
    document = {
        "version": 1,
        "owner": "my-org",
        "backend": "command",
        "branches": {"main": {"versions": dict.fromkeys(("lib", "ext", "app"), "1.0.0")}},
        "axes": {"abi": {"values": ["new", "old"], "tag": "{value}"}, "side": {"values": ["a"], "tag": "{value}"}},
        "packages": {
            "lib": {"ignores": ["abi", "side"], "command": library},
            "ext": {"ignores": ["side"], "needs": ["lib"], "command": COMMAND},
            "app": {"needs": ["ext"], "command": COMMAND},
        },
        "matrix": {"values": {"abi": ["new", "old"], "side": "a", "accelerator": "cpu", "platform": "x86_64-linux"}},
        "publish": {"on-shared-machines": True},
        "runners": {"builder": {"runs-on": ["self-hosted", "linux", "x64", "builder"]}},
        **more,
    }
    return plan(parse_spec(json.dumps(document).encode(), shown="ci-matrix.yaml"))


def handed(made: Plan) -> HandedFiles:
    return HandedFiles(made.spec, made.judged.cells)


LIB = "lib-cpu-x86_64-linux"
EXT, APP = "ext-new-cpu-x86_64-linux", "app-new-a-cpu-x86_64-linux"


def test_what_nothing_fetches_is_built_as_well() -> None:
    assert handed(decided()).built_as_well("main", [APP]) == (APP, EXT, LIB)
    assert handed(decided(fetch="true")).built_as_well("main", [APP]) == (APP, EXT)
    assert handed(decided(fetch="true")).built_as_well("main", [EXT]) == (EXT,)
    assert handed(decided()).built_as_well("elsewhere", [APP]) == (APP,)


def test_what_is_needed_through_something_that_is_fetched_is_built_as_well() -> None:
    packages = {
        "lib": {"ignores": ["abi", "side", "accelerator"], "command": COMMAND},
        "ext": {"ignores": ["side", "accelerator"], "needs": ["lib"], "command": COMMAND | {"fetch": "true"}},
        "app": {"needs": ["ext"], "command": COMMAND},
    }
    values = {"abi": "new", "side": "a", "accelerator": ["cpu", "cuda 13.0"], "platform": "x86_64-linux"}
    made = decided(packages=packages, matrix={"values": values})
    lib = "lib-x86_64-linux"
    assert handed(made).built_as_well("main", [APP]) == (APP, lib)
    (shard,) = [shard for shard in made.shards if APP in shard.variants]
    assert lib in shard.variants


def test_a_variant_gets_what_it_needs_directly_and_through_others_in_build_order() -> None:
    made = decided()
    (cell,) = (cell for cell in made.judged.cells if cell.variants[0].name == APP)
    assert list(handed(made).needed(cell, "app")) == [LIB, EXT]


def test_what_is_gathered_is_told_apart_from_what_is_needed() -> None:
    gathering = {"needs": ["lib"], "gathers": [{"package": "ext", "abi": "all"}], "command": COMMAND}
    made = decided()
    packages = {**made.spec.document.value["packages"], "app": gathering}
    app = handed(decided(packages=packages))
    (cell,) = (cell for cell in decided(packages=packages).judged.cells if cell.variants[0].name == APP)
    assert app.gathered(cell, "app") == {EXT, EXT.replace("new", "old")}
    (of_ext,) = (cell for cell in made.judged.cells if cell.variants[0].name == EXT)
    assert handed(made).gathered(of_ext, "ext") == set()
    assert handed(made).needed(of_ext, "ext") == [LIB]


def test_jobs_wait_for_as_many_others_as_must_make_files_before() -> None:
    levels = handed(decided()).levels()
    assert sorted(levels.values()) == [1, 1, 2, 2]
    jobs = workflow(decided().spec, {VARIANT}, decided().shards).jobs
    assert [name for name in jobs if name.startswith("listed")] == ["listed", "listed-2", "listed-3"]
    for name in ("listed", "listed-2", "listed-3"):
        node = jobs[name].node()
        assert node["strategy"]["matrix"]["include"] == f"${{{{ fromJSON(needs.select.outputs.{name}) }}}}"
        assert f"needs.select.outputs.{name} != '[]'" in node["if"]
    assert set(jobs["listed-3"].needs or ()) >= {"select", "compiled", "listed", "listed-2"}


def selected(made: Plan, *names: str) -> dict[str, list[dict[str, Any]]]:
    branches = decide(made, EVENT, Facts({"main": Rebuilt(names)})).branches
    return {output: legs for output, legs in matrices(made, branches, "c0ffee").items() if legs}


def test_a_pull_request_builds_in_steps_and_says_which_needed_files_are_new() -> None:
    legs = selected(decided(), APP)
    found = {output: [(leg["name"], json.loads(leg["chosen"])) for leg in of] for output, of in legs.items()}
    assert found == {"listed": [(LIB, [])], "listed-2": [(EXT, [LIB])], "listed-3": [(APP, [LIB, EXT])]}
    fetched = selected(decided(fetch="true"), EXT)
    assert [(leg["name"], leg["chosen"]) for leg in fetched["listed-2"]] == [(EXT, "[]")]


def test_legs_of_a_matrix_name_what_other_legs_build() -> None:
    """Their outputs would overwrite each other, so that a job after them sees no digest."""
    legs = selected(decided(), APP)
    assert {output: [leg.get("legs") for leg in of] for output, of in legs.items()} == {
        "listed": [None],
        "listed-2": [json.dumps([LIB])],
        "listed-3": [json.dumps([LIB, EXT])],
    }


def test_a_job_of_a_shard_sees_what_every_job_reported_whose_files_it_gets() -> None:
    made = decided()
    jobs = {job: cell for shard in made.shards for cell, _ in shard.cells for job in [shard.job_id(cell)]}
    by_name = {cell.variants[0].name: job for job, cell in jobs.items()}
    (text,) = (shard_workflow(made.spec, shard) for shard in made.shards if APP in shard.variants)
    for name, needed in ((LIB, set()), (EXT, {LIB}), (APP, {LIB, EXT})):
        call = text.jobs[by_name[name]].node()
        assert {*call["needs"]} & {*jobs} == {by_name[need] for need in needed}
        assert call["with"].get("reported") == ("${{ toJSON(needs) }}" if needed else None)


@pytest.mark.parametrize(("most", "built"), [(5, 5), (4, 4), (3, 3), (2, 3), (1, 3)])
def test_fewer_cells_are_built_but_never_one_without_what_it_needs(most: int, built: int) -> None:
    made = decided(**{"pull-request": {"cells": most}})
    names = [variant.name for cell in made.judged.cells for variant in cell.variants]
    (branch,) = decide(made, EVENT, Facts({"main": Rebuilt(names)})).branches
    assert len(branch.variants) == built
    assert set(handed(made).built_as_well("main", branch.variants)) == set(branch.variants)


def test_what_gets_files_from_one_another_is_in_one_file_unless_they_are_fetched() -> None:
    matrix = {"values": {"abi": ["new"], "side": "a", "accelerator": ["cpu", "cuda 13.0"], "platform": "x86_64-linux"}}
    packages = {"lib": {"ignores": ["abi", "side", "accelerator"], "command": COMMAND}}
    packages |= {"ext": {"needs": ["lib"], "command": COMMAND}}
    branches = {"main": {"versions": {"lib": "1.0.0", "ext": "1.0.0"}}}
    together = decided(matrix=matrix, packages=packages, branches=branches)
    assert [(shard.name, len(shard.variants)) for shard in together.shards] == [("build-main", 3)]
    packages["lib"]["command"] = COMMAND | {"fetch": "true"}
    apart = decided(matrix=matrix, packages=packages, branches=branches)
    assert sorted(shard.name for shard in apart.shards) == ["build-main-cpu", "build-main-cuda13_0"]


def test_a_backend_whose_closures_travel_otherwise_hands_over_no_files() -> None:
    made = plan(load_spec(GOOD / "everything/ci-matrix.yaml", shown="everything"))
    assert any(package.needs for package in made.spec.packages.values())
    assert not hands_files(made.spec)
    assert (handed(made).levels(), handed(made).built_as_well("main", ["a"])) == ({}, ("a",))


def test_a_change_of_the_cpp_library_of_cudf_builds_it_eight_times() -> None:
    made = plan(load_spec(GOOD / "cudf/ci-matrix.yaml", shown="cudf"))
    every = [variant.name for cell in made.judged.cells for variant in cell.variants]
    wanted = [name for name in every if name.startswith(("pylibcudf-", "cudf-wheel", "cudf-conda"))]
    built = handed(made).built_as_well("main", wanted)
    assert len([name for name in built if name.startswith("libcudf-") and "streaming" not in name]) >= 8
    assert len(set(built)) == len(built)
