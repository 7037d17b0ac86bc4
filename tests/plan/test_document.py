"""The plan as a document: complete, valid, the same each time, and enough to rebuild the plan's decisions."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator

from ci_compiler import stages
from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.plan.document import VERSION, axes_row, document, plan_schema, renamed, variant_row
from ci_compiler.plan.needs import Needs
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.spec.build import bundled_spec, load_spec
from ci_compiler.stages import CPU_TEST
from tests.plan.test_open_matrix import X86
from tests.plan.test_open_matrix import decided as opened
from tests.specs import HASH, PIN, documents, small, spec_of

GOOD = Path(__file__).parents[1] / "examples/good"
SPECS = sorted(GOOD.glob("*/ci-matrix.yaml"))


@pytest.fixture(scope="module", params=[None, *SPECS], ids=lambda path: path.parent.name if path else "bundled")
def decided(request: pytest.FixtureRequest) -> Plan:
    path: Path | None = request.param
    return plan(load_spec(path, shown=path.name) if path else bundled_spec())


def written(decided: Plan, branch: str | None = None) -> Any:
    """The document as a reader gets it."""
    return json.loads(json.dumps(document(decided, branch)))


def problems(value: Any) -> list[str]:
    return [error.message for error in Draft202012Validator(plan_schema()).iter_errors(value)]


def cells(value: Any) -> Iterator[Any]:
    return (cell for shard in value["shards"] for cell in shard["cells"])


SUITES = {
    "unit": {"command": "x", "minutes": 5},
    "wide": {"command": "x", "minutes": 5, "on": "gpu", "gpus": 4},
}
NAME = "pytorch-python313-cuda12_8-sm90-avx2"


def few() -> Any:
    """The document of a small spec with a cell for a GPU, one whose like is left out, and a suite that no pool runs."""
    excluded = [{"variants": "*-cpu-avx2", "because": "nobody wants it"}]
    gpus = {"sm90": {}, "cpu": {"also": {"main": ["avx"]}}}
    matrix = {"python": ["3.13"], "isas": {X86: ["avx2"]}, "gpus": gpus, "exclude": excluded}
    given = small(matrix=matrix, tests={"cpu-test": "never"})
    given["packages"]["pytorch"]["suites"] = {"wide": SUITES["wide"]}
    return written(plan(spec_of(given)))


def test_the_rows_of_a_spec_its_branches_its_packages_and_its_stages() -> None:
    value = few()
    assert value["spec"] == {"file": "ci-matrix.yaml", "owner": "my-org", "backend": "flox"}
    versions = {"pytorch": "2.8.0", "torchvision": "0.23.0"}
    branch = {"name": "main", "toolkits": ["12.8"], "nixpkgs": PIN, "publish": True, "versions": versions}
    assert value["branches"] == [branch]
    assert value["packages"] == [{"name": name, "title": name, "repository": ""} for name in ("pytorch", "torchvision")]
    assert [(stage["name"], stage["kind"], stage["policy"], stage["waits-for"]) for stage in value["stages"]] == [
        ("build", "build", "required", []),
        ("cpu-test", "test", "never", ["build"]),
        ("gpu-test", "test", "where-routed", ["build"]),
        ("publish", "publish", "required", ["build", "gpu-test"]),
    ]
    (pool, _) = value["pools"]
    assert (pool["name"], pool["group"], pool["scale-set"], pool["count"], pool["gpu"]) == ("builder", "", "", 2, "")
    assert pool["stages"] == ["build", "cpu-test", "publish"]


def test_the_rows_of_a_cell_its_variants_and_their_builds_and_tests() -> None:
    value = few()
    (shard,) = (one for one in value["shards"] if one["target"] == "sm90")
    assert (shard["name"], shard["path"]) == ("build-main-sm90", ".github/workflows/build-main-sm90.yml")
    (cell,) = shard["cells"]
    suffix = NAME.removeprefix("pytorch-")
    axes = {"python": "3.13", "family": "cuda", "toolkit": "12.8", "target": "sm90", "isa": "avx2"}
    own = {"branch": "main", **axes, "system": "x86_64-linux", "listed": "", "suffix": suffix}
    assert {key: cell[key] for key in own} == own
    assert cell["axes"] == {"branch": "main", **axes}
    assert (cell["job"], cell["beside"]) == ("3.13 avx2", {})
    off = {"skipped": "the spec switches cpu-test off"}
    assert list(cell["route"].items()) == [
        ("build", "builder"), ("cpu-test", off), ("gpu-test", "h100"), ("publish", "builder"),
    ]  # fmt: skip
    why = "no pool for gpu-test on x86_64-linux has 4 GPUs that run sm90 beside a CPU that runs avx2"
    assert cell["suites"] == {"gpu-test-suites-4": {"skipped": why}}
    other = NAME.replace("pytorch", "torchvision")
    assert [(one["name"], one["package"], one["version"], one["needs"], one["build"]) for one in cell["variants"]] == [
        (NAME, "pytorch", "2.8.0", [], NAME),
        (other, "torchvision", "0.23.0", [NAME], other),
    ]
    assert [one["recipe"] for one in cell["variants"]] == [f".flox/pkgs/{name}.nix" for name in (NAME, other)]
    edge = {"kind": "needs", "variant": NAME, "build": NAME}
    built = {build["name"]: build for build in value["builds"]}
    assert built[NAME] == {"name": NAME, "branch": "main", "variants": [NAME], "edges": []}
    assert built[other]["edges"] == [edge]
    tests = [test for test in value["tests"] if test["variant"] == NAME]
    assert tests == [{"name": "gpu-test", "variant": NAME, "branch": "main", "pool": "h100"}]


def test_the_rows_of_what_is_left_out_and_of_warnings() -> None:
    value = few()
    rows = {row["package"]: row for row in value["left-out"]}
    assert list(rows) == ["pytorch", "torchvision"]
    row = rows["pytorch"]
    assert row.pop("place").startswith("ci-matrix.yaml:1:")
    assert row.pop("url").endswith("#excluded")
    axes = {"branch": "main", "python": "3.13", "family": "cpu", "isa": "avx2"}
    whose = {"branch": "main", "toolkit": "", "target": "cpu", "isa": "avx2", "python": "3.13", "package": "pytorch"}
    assert row == {**whose, "axes": axes, "code": "excluded", "reason": "nobody wants it"}
    (warning,) = (one for one in value["warnings"] if one["code"] == "no-cache")
    assert warning["url"].endswith("#no-cache")
    assert warning["place"].startswith("ci-matrix.yaml:1:")
    assert warning["message"].startswith("what builder builds, h100 tests or publishes: ")


def test_suites_that_a_pool_runs_are_tests_of_their_variants() -> None:
    given = small(matrix={"python": ["3.13"], "isas": {"x86_64-linux": ["avx2"]}, "gpus": {"sm90": {}}})
    given["packages"]["pytorch"]["suites"] = SUITES
    value = written(plan(spec_of(given)))
    tests = [(one["name"], one["pool"]) for one in value["tests"] if one["variant"] == NAME]
    assert tests == [("cpu-test", "builder"), ("gpu-test", "h100"), ("suite unit", "builder")]
    (cell,) = value["shards"][0]["cells"]
    assert cell["suites"]["cpu-test-suites"] == "builder"


def test_a_variant_needs_one_of_another_repository_and_gathers_those_of_other_cells() -> None:
    repository = {"name": "o/r", "rev": {"main": "1" * 40}, "hash": {"main": HASH}}
    given = small()
    given["packages"]["pytorch"]["repository"] = repository
    value = written(plan(spec_of(given)))
    assert value["packages"][0]["repository"] == "o/r"
    needs = [one["needs"] for cell in cells(value) for one in cell["variants"]]
    assert needs == [[f"pytorch-{cell['suffix']}"] for cell in cells(value)]
    packages = {"lib": {}, "docs": {"ignores": ["python"], "gathers": ["lib"], "needs": ["tool"]}}
    packages["tool"] = {"ignores": ["python"]}
    made = opened({"values": {"platform": X86, "python": ["3.12", "3.13"]}}, packages)
    rows = {one["name"]: one for cell in cells(written(made)) for one in cell["variants"]}
    libs = [f"lib-python{tag}-{X86}" for tag in ("312", "313")]
    assert rows[libs[0]]["gathers"] == rows[libs[0]]["needs"] == []
    assert (rows[f"docs-{X86}"]["gathers"], rows[f"docs-{X86}"]["needs"]) == (libs, [f"tool-{X86}"])


def test_a_row_of_a_list_has_the_variant_and_the_axes_of_its_cell() -> None:
    made = plan(spec_of(small()))
    needs, cell = Needs(made.spec, made.judged.cells), made.judged.cells[-1]
    row = variant_row(needs, cell, cell.variants[1])
    assert row["name"] == f"torchvision-{cell.suffix}"
    assert row["needs"] == [f"pytorch-{cell.suffix}"]
    assert axes_row(cell) == {
        "branch": "main",
        "python": "3.13",
        "family": "cuda",
        "toolkit": "12.8",
        "target": "sm90",
        "isa": "avx512",
        "system": X86,
        "listed": "",
        "suffix": "python313-cuda12_8-sm90-avx512",
        "axes": dict(cell.axes),
    }
    assert axes_row(cell).items() <= row.items()


def test_a_version_that_readers_must_know_says_since_when_and_what_changed() -> None:
    since, description = renamed()
    assert since.count(".") == 2
    assert description
    stages_known = plan_schema()["$defs"]["stage"]["properties"]
    assert set(stages_known["kind"]["enum"]) == {"build", "test", "publish"}
    assert set(stages_known["policy"]["enum"]) == {"required", "where-routed", "never"}
    assert plan_schema()["properties"]["version"]["const"] == VERSION
    assert plan_schema()["title"] == "the plan of ci-compiler"


def test_the_document_is_valid(decided: Plan) -> None:
    Draft202012Validator.check_schema(plan_schema())
    value = written(decided)
    assert problems(value) == []
    assert value["version"] == VERSION == 2


def test_every_variant_is_in_it_once(decided: Plan) -> None:
    found = [(cell["branch"], variant["name"]) for cell in cells(written(decided)) for variant in cell["variants"]]
    assert len(found) == len(set(found))
    assert set(found) == {(cell.branch, variant.name) for cell in decided.judged.cells for variant in cell.variants}


def assert_rebuilt(decided: Plan) -> None:
    """Asserts that the document alone says which variants each shard builds and where each stage runs."""
    value = written(decided)
    pools = {pool["name"]: pool for pool in value["pools"]}
    rebuilt = {
        shard["path"]: [
            (variant["name"], stage, pools[where]["labels"] if isinstance(where, str) else where["skipped"])
            for cell in shard["cells"]
            for variant in cell["variants"]
            for stage, where in cell["route"].items()
        ]
        for shard in value["shards"]
    }
    assert rebuilt == {
        f".github/workflows/{shard.name}.yml": [
            (
                variant.name,
                stage.name,
                list(route.pools[stage].runs_on.labels) if stage in route.pools else route.skipped[stage],
            )
            for cell, route in shard.cells
            for variant in cell.variants
            for stage in stages.stages()
            if stage in route.pools or stage in route.skipped
        ]
        for shard in decided.shards
    }
    assert [shard["jobs"] for shard in value["shards"]] == [shard.jobs for shard in decided.shards]
    assert len(value["left-out"]) == len(decided.judged.left_out)
    assert [one["message"] for one in value["warnings"]] == [one.message for one in decided.warnings]


def test_the_document_alone_rebuilds_shards_and_routes(decided: Plan) -> None:
    assert_rebuilt(decided)


@pytest.mark.slow
@given(documents())
@settings(max_examples=30, deadline=None)
def test_the_document_of_any_spec_is_valid_and_complete(spec: dict[str, Any]) -> None:
    decided = plan(spec_of(spec))
    assert problems(written(decided)) == []
    assert_rebuilt(decided)


def test_names_refer_to_rows_of_the_document(decided: Plan) -> None:
    value = written(decided)
    names = {kind: {row["name"] for row in value[kind]} for kind in ("branches", "pools", "stages", "packages")}
    elsewhere = {package["name"] for package in value["packages"] if package["repository"]}
    every = {variant["name"] for cell in cells(value) for variant in cell["variants"]}
    for cell in cells(value):
        assert cell["branch"] in names["branches"]
        assert cell["route"].keys() <= names["stages"]
        assert {where for where in cell["route"].values() if isinstance(where, str)} <= names["pools"]
        built = {f"{package}-{cell['suffix']}" for package in elsewhere}
        own = {variant["name"] for variant in cell["variants"]}
        for variant in cell["variants"]:
            assert set(variant["needs"]) & own <= built
            assert {*variant["needs"], *variant["gathers"]} <= every | built
            built.add(variant["name"])
    made = [name for build in value["builds"] for name in build["variants"]]
    assert sorted(made) == sorted(variant["name"] for cell in cells(value) for variant in cell["variants"])
    assert {test["variant"] for test in value["tests"]} <= every
    making = {name: build["name"] for build in value["builds"] for name in build["variants"]}
    for edge in (edge for build in value["builds"] for edge in build["edges"]):
        assert edge["build"] == making[edge["variant"]]


def test_the_schema_refuses_what_it_does_not_know() -> None:
    value = written(plan(spec_of(small())))
    assert problems(value) == []
    for path in (
        (),
        ("spec",),
        ("branches", 0),
        ("packages", 0),
        ("pools", 0),
        ("stages", 0),
        ("shards", 0),
        ("shards", 0, "cells", 0),
        ("shards", 0, "cells", 0, "route"),
        ("shards", 0, "cells", 0, "variants", 0),
    ):
        changed = copy.deepcopy(value)
        row = changed
        for step in path:
            row = row[step]
        row["unknown"] = "x"
        assert problems(changed) != [], path
    assert problems(value | {"version": 1}) == ["2 was expected"]
    assert problems({key: row for key, row in value.items() if key != "stages"}) == ["'stages' is a required property"]


def test_every_key_is_described() -> None:
    schema = plan_schema()
    for name, rule in [("", schema), *schema["$defs"].items()]:
        for key, one in rule.get("properties", {}).items():
            assert "description" in one or "$ref" in one, f"{name}.{key}"
        assert "properties" not in rule or rule["required"] == list(rule["properties"])


def test_a_stage_that_takes_another_variant_names_its_cell() -> None:
    decided = plan(spec_of(small()))
    *others, shard = decided.shards
    changed = tuple(
        (
            cell,
            replace(
                route, neighbours={CPU_TEST: cell.suffix.replace("avx512", "avx2")} if cell.isa == "avx512" else {}
            ),
        )
        for cell, route in shard.cells
    )
    value = written(replace(decided, shards=(*others, replace(shard, cells=changed))))
    assert problems(value) == []
    by_isa = {cell["isa"]: cell for cell in cells(value) if cell["target"] == "sm90"}
    assert by_isa["avx512"]["beside"] == {"cpu-test": by_isa["avx2"]["suffix"]}
    assert by_isa["avx2"]["beside"] == {}


def test_the_document_of_a_branch_has_that_branch_alone() -> None:
    decided = plan(bundled_spec())
    whole, part = written(decided), written(decided, "main")
    assert problems(part) == []
    assert [branch["name"] for branch in part["branches"]] == ["main"]
    assert part["shards"] == [shard for shard in whole["shards"] if shard["branch"] == "main"] != whole["shards"]
    assert part["left-out"] == [row for row in whole["left-out"] if row["branch"] == "main"]
    assert {key for key in whole if whole[key] != part[key]} <= {"branches", "shards", "builds", "tests", "left-out"}


def test_the_command_prints_the_document_and_its_schema(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(PROGRAM, ["plan", "--json", "--root", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out) == written(plan(bundled_spec()))
    assert run(PROGRAM, ["plan", "--schema", "--spec", str(tmp_path / "none.yaml")]) == 0
    assert json.loads(capsys.readouterr().out) == plan_schema()
    assert run(PROGRAM, ["plan", "--branch", "mian", "--root", str(tmp_path)]) == 2
    assert "--branch: unknown branch 'mian'; did you mean main?" in capsys.readouterr().err


def test_the_summary_counts_shard_by_shard(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "ci-matrix.yaml").write_text(json.dumps(small()))
    assert run(PROGRAM, ["plan", "--spec", str(tmp_path / "ci-matrix.yaml")]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["build-main-cpu", "2", "4", "16"],
        ["build-main-sm90", "2", "4", "16"],
        ["all", "4", "8", "32"],
    ]


def test_the_bytes_do_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ci_compiler", "plan", "--json", "--root", str(tmp_path)]
    first, second = (
        subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True).stdout
        for seed in ("1", "77")
    )
    assert first == second
    assert json.loads(first)["spec"]["file"] == "torch.yaml (bundled)"
