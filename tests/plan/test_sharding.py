"""Sharding: one file per branch and GPU, split by Python and then by ISA only if GitHub's limit requires it."""

from __future__ import annotations

from typing import Any

import pytest

from ci_compiler.errors import InputError
from ci_compiler.plan.matrix import Cell, Variant
from ci_compiler.plan.pipeline import plan
from ci_compiler.plan.routing import Route
from ci_compiler.plan.rules import judge
from ci_compiler.plan.sharding import (
    Shard,
    cell_packages,
    job_counter,
    shards,
    stages_of,
    waits_for,
)
from ci_compiler.stages import BENCHMARK, BUILD, CPU_TEST, GPU_TEST, PUBLISH
from tests.plan.test_open_matrix import ARM, COMMAND, X86, decided, refusals
from tests.specs import MAIN, SOURCE, small, spec_of

PYTHONS = ["3.12", "3.13"]
OWN = 4
"""The selection, the preflight, the publishing and the verdict."""


def sharded(packages: int, pythons: list[str], isas: list[str], without: str = "", **tests: str) -> dict[str, Shard]:
    """The shards of CPU cells with that many packages each, built and tested on the CPU unless `tests` says so."""
    names = [f"p{number}" for number in range(packages)]
    document: dict[str, Any] = small(
        packages={name: {} for name in names},
        matrix={
            "python": pythons,
            "isas": {"x86_64-linux": isas},
            "gpus": {"cpu": {}},
            "exclude": [{"variants": without, "because": "nobody wants it"}] if without else [],
        },
        tests={"cpu-test": "required", "gpu-test": "never"} | tests,
    )
    document["branches"]["main"]["versions"] = dict.fromkeys(names, "1.0")
    return {shard.name: shard for shard in plan(spec_of(document)).shards}


def test_a_file_has_at_most_as_many_jobs_as_github_accepts() -> None:
    (shard,) = sharded(126, ["3.13"], ["avx2"]).values()
    assert (shard.name, shard.title, shard.branch, shard.target) == ("build-main-cpu", "main CPU", "main", "cpu")
    assert shard.jobs == OWN + 126 * 2 == 256
    assert shard.variants == [f"p{number}-python313-cpu-avx2" for number in range(126)]


def test_the_tests_that_a_spec_has_count_as_jobs() -> None:
    (shard,) = sharded(10, ["3.13"], ["avx2"], **{CPU_TEST.name: "never"}).values()
    assert shard.jobs == OWN + 10


@pytest.mark.parametrize(
    ("packages", "isas", "expected"),
    [
        (31, ["avx2", "avx512"], {"build-main-cpu": 252}),
        (32, ["avx2", "avx512"], {"build-main-cpu": 132, "build-main-cpu-python313": 132}),
        (63, ["avx2", "avx512"], {"build-main-cpu": 256, "build-main-cpu-python313": 256}),
        (
            64,
            ["avx2", "avx512"],
            {f"build-main-cpu{part}": 132 for part in ("", "-python312-avx512", "-python313", "-python313-avx512")},
        ),
    ],
)
def test_a_file_takes_pythons_and_then_isas_until_it_is_full(
    packages: int, isas: list[str], expected: dict[str, int]
) -> None:
    found = sharded(packages, PYTHONS, isas)
    assert {name: shard.jobs for name, shard in found.items()} == expected
    for name, shard in found.items():
        assert name == f"build-{shard.title.replace(' ', '-').replace('CPU', 'cpu')}"


@pytest.mark.parametrize("packages", [1, 16, 20, 40, 63, 64])
@pytest.mark.parametrize("place", [0, 2])
def test_a_newer_python_moves_no_variant_to_another_file(packages: int, place: int) -> None:
    newer = [*PYTHONS]
    newer.insert(place, "3.14")  # wherever the list names it
    before, after = sharded(packages, PYTHONS, ["avx2", "avx512"]), sharded(packages, newer, ["avx2", "avx512"])
    assert before.keys() <= after.keys()
    for name, shard in before.items():
        assert set(shard.variants) <= set(after[name].variants)
        assert [one for one in after[name].variants if "python314" not in one] == shard.variants


def test_each_cell_too_large_for_a_file_is_an_error() -> None:
    with pytest.raises(InputError) as raised:
        sharded(128, PYTHONS, ["avx2"])
    said = [finding.message for finding in raised.value.findings]
    assert [finding.code for finding in raised.value.findings] == ["too-many-jobs"] * 2
    assert said[0] == (
        "build-main-cpu.yml would have 260 jobs for the 128 packages of one cell; a file can "
        "have 256; split the packages between two specs"
    )


def test_a_python_that_fits_is_not_split_where_another_one_does_not() -> None:
    found = sharded(64, PYTHONS, ["avx2", "avx512"], without="*-python312-*-avx512")
    parts = ("", "-python313", "-python313-avx512")
    assert {name: shard.jobs for name, shard in found.items()} == {f"build-main-cpu{part}": 132 for part in parts}


def test_a_package_that_a_cell_lacks_counts_because_its_jobs_are_skipped() -> None:
    packages = {"p": {}, "q": {"matrix": {"python": ["3.12"], "isas": {"x86_64-linux": ["avx"]}, "gpus": {"cpu": {}}}}}
    document = small(packages=packages)
    document["branches"]["main"]["versions"] = dict.fromkeys(packages, "1.0")
    found = {shard.name: (len(shard.variants), shard.jobs) for shard in plan(spec_of(document)).shards}
    assert found == {"build-main-cpu": (3, OWN + 3 * 2 * 3), "build-main-sm90": (2, OWN + 2 * 2 * 3)}


# What the jobs of a cell are called, and how many it has.


PLAIN = {"python": "3.13", "family": "cpu", "isa": "avx2"}


def cell(values: dict[str, str] = PLAIN, **changes: Any) -> Cell:
    own = {"suffix": "x", "isa": "avx2", "system": X86, "variants": (Variant(name="lib-x", package="lib"),)}
    return Cell(**{"branch": "main", "values": tuple(values.items()), **own, **changes})


def shard(*cells: Cell, plain: bool = False) -> Shard:
    parts = tuple((one, Route(pools={}, skipped={}, neighbours={}, suites={}, skipped_suites={})) for one in cells)
    return Shard(name="s", title="s", branch="main", toolkit="", target="cpu", jobs=1, cells=parts, is_plain=plain)


@pytest.mark.parametrize(
    ("changes", "job", "shown"),
    [
        ({"suffix": "python3.13t-x"}, "python3_13t-x", "python3.13t-x"),
        ({"suffix": "3.13-x"}, "cell-3_13-x", "3.13-x"),
        ({"suffix": "any", "joined": "lib-all"}, "lib-all", "lib-all"),
        ({"suffix": "any", "alone": True}, "lib-x", "lib-x"),
        ({"joined": "lib.all"}, "lib_all", "lib.all"),
        ({"suffix": "lib-x"}, "lib-x", "lib-x"),
    ],
)
def test_the_job_of_a_cell_is_called_by_its_name(changes: dict[str, Any], job: str, shown: str) -> None:
    one = cell(**changes)
    assert (shard(one).job_id(one), shard(one).job_name(one)) == (job, shown)


def test_a_job_is_called_by_its_python_and_isa_where_those_of_its_file_differ_in_nothing_else() -> None:
    one = cell()
    plain = shard(one, plain=True)
    assert (plain.job_id(one), plain.job_name(one)) == ("python313-avx2", "3.13 avx2")
    ignoring = {"pytorch": {"attribute": "torch"}, "torchvision": {"ignores": ["accelerator"]}}
    for packages, names in (
        ({}, {"build-main-cpu": True, "build-main-sm90": True}),
        ({"packages": ignoring}, {"build-main-cpu": False, "build-main-sm90": True}),
    ):
        made = plan(spec_of(small(**packages))).shards
        assert {one.name: one.is_plain for one in made} == names
        for own in made:
            assert len({own.job_id(cell) for cell, _ in own.cells}) == len(own.cells)


SUITES = {
    "ops": {"command": "x", "minutes": 5, "on": "gpu", "shards": 3},
    "unit": {"command": "x", "minutes": 5, "shards": 2},
}


def counted(packages: dict[str, Any], **tests: str) -> set[int]:
    """The numbers of jobs that the cells of the small spec with these packages have."""
    branch = MAIN | {"versions": dict.fromkeys(packages, "1.0")}
    spec = spec_of(small(packages=packages, branches={"main": branch}, tests=tests))
    return set(map(job_counter(spec), judge(spec).cells))


def test_a_cell_has_a_job_for_each_stage_of_each_package_and_each_shard_of_their_suites() -> None:
    assert counted({"a": {}, "b": {}}) == {2 * 3}
    assert counted({"a": {}, "b": {}}, **{"gpu-test": "never"}) == {2 * 2}
    assert counted({"a": {}, "b": {}}, benchmark="where-routed") == {2 * 4}
    assert counted({"a": {}, "b": {"suites": SUITES}}) == {2 * 3 + 5}
    elsewhere = {"name": "o/r", "rev": {"main": "1" * 40}, "hash": {"main": SOURCE["hash"]}}
    assert counted({"a": {"repository": elsewhere}, "b": {}}) == {3}


def test_a_listed_variant_has_its_own_jobs_and_skipped_ones_for_the_suites_of_others() -> None:
    listed = {"recipes": "own", "variants": {"a-own": {"system": X86}}}
    assert counted({"a": listed, "b": {}}) == {2 * 3, 3}
    assert counted({"a": listed | {"suites": SUITES}, "b": {}}) == {2 * 3 + 5, 3 + 5}
    assert counted({"a": listed, "b": {"suites": SUITES}}) == {2 * 3 + 5, 3}


def test_a_joined_build_counts_the_tests_and_suites_of_each_of_its_variants() -> None:
    suites = {"unit": {"command": "x", "minutes": 5, "shards": 2}}
    packages = {"lib": {"joins": ["python"], "suites": suites}, "ext": {}}
    made = decided({"values": {"platform": X86, "python": ["3.12", "3.13"]}}, packages)
    count = job_counter(made.spec)
    assert {one.variants[0].package: count(one) for one in made.judged.cells} == {"lib": 3 + 2, "ext": 3 + 1}


def test_packages_with_jobs_in_a_cell_are_those_of_matrices_built_here_in_build_order() -> None:
    elsewhere = {"name": "o/r", "rev": {"main": "1" * 40}, "hash": {"main": SOURCE["hash"]}}
    packages = {"c": {"needs": ["b"]}, "b": {"needs": ["a"]}, "a": {"repository": elsewhere}, "tool": {"system": X86}}
    branch = MAIN | {"versions": dict.fromkeys("abc", "1.0")}
    spec = spec_of(small(packages=packages, branches={"main": branch}))
    assert [package.name for package in cell_packages(spec)] == ["b", "c"]


@pytest.mark.parametrize(
    ("tests", "after", "publishing"),
    [
        ({}, ["cpu-test", "gpu-test"], (BUILD, CPU_TEST, GPU_TEST)),
        ({"gpu-test": "never"}, ["cpu-test"], (BUILD, CPU_TEST)),
        ({}, ["gpu-test"], (BUILD, GPU_TEST)),
        ({}, [], (BUILD,)),
    ],
)
def test_a_job_waits_for_the_build_and_the_stages_that_it_follows(
    tests: dict[str, str], after: list[str], publishing: tuple[Any, ...]
) -> None:
    spec = spec_of(small(tests=tests | {"benchmark": "where-routed"}, publish={"after": after}))
    every = (BUILD, CPU_TEST, *([] if tests else [GPU_TEST]))
    assert stages_of(spec) == (*every, BENCHMARK)
    assert [waits_for(spec, stage) for stage in (BUILD, CPU_TEST, BENCHMARK)] == [(), (BUILD,), every]
    assert waits_for(spec, PUBLISH) == publishing


# Files of other kinds of matrices.


GL = {"families": {"gl": {"title": "OpenGL", "targets": []}}}


def named(matrix: dict[str, Any], packages: dict[str, Any] | None = None, **more: Any) -> dict[str, tuple[str, int]]:
    """The title and the number of variants of each shard."""
    made = decided(matrix, packages, hardware=GL, **more)
    return {shard.name: (shard.title, len(shard.variants)) for shard in made.shards}


def test_a_file_of_an_open_matrix_has_the_name_of_its_accelerator() -> None:
    accelerators = ["cpu", "gl", "cuda 13.0", "cuda 13.0 sm90", "rocm 7.1 gfx942:xnack+"]
    assert named({"values": {"platform": [X86, ARM], "accelerator": accelerators}}) == {
        "build-main-cpu": ("main CPU", 2),
        "build-main-gl": ("main gl", 2),
        "build-main-cuda13_0": ("main CUDA 13.0", 2),
        "build-main-cuda13_0-sm90": ("main CUDA 13.0 sm90", 2),
        "build-main-rocm7_1-gfx942_xnack_": ("main ROCm 7.1 gfx942:xnack+", 2),
    }


def test_where_a_branch_has_several_toolkits_each_has_a_file() -> None:
    branches = {"release/1": MAIN | {"cuda": ["12.8", "12.9"]}, "old": MAIN | {"publish": False}}
    matrix = {"python": ["3.13"], "isas": {X86: ["avx2"]}, "gpus": {"cpu": {}, "sm90": {}}}
    made = plan(spec_of(small(branches=branches, matrix=matrix)))
    assert {shard.name: (shard.title, shard.toolkit, shard.path, shard.jobs) for shard in made.shards} == {
        f"build-{name}": (title, toolkit, f".github/workflows/build-{name}.yml", jobs)
        for name, title, toolkit, jobs in (
            ("release-1-cpu", "release/1 CPU", "", OWN + 6),
            ("release-1-cuda12_8-sm90", "release/1 CUDA 12.8 sm90", "12.8", OWN + 6),
            ("release-1-cuda12_9-sm90", "release/1 CUDA 12.9 sm90", "12.9", OWN + 6),
            ("old-cpu", "old CPU", "", 2 + 6),
            ("old-sm90", "old sm90", "12.8", 2 + 6),
        )
    }


ACCELERATORS = {"platform": X86, "accelerator": ["cpu", "cuda 13.0", "gl"]}
ON_CPU = {"needs": [{"package": "lib", "accelerator": "cpu"}], "when": {"accelerator": ["cpu", "cuda"]}}


@pytest.mark.parametrize(
    ("lib", "ext", "found"),
    [
        (
            {},
            {"needs": ["lib"]},
            {"build-main-cpu": ("main CPU", 2), "build-main-cuda13_0": ("main CUDA 13.0", 2)}
            | {"build-main-gl": ("main gl", 2)},
        ),
        ({}, ON_CPU, {"build-main": ("main", 4), "build-main-gl": ("main gl", 1)}),
        (
            {"command": {**COMMAND, "fetch": "pip download lib"}},
            ON_CPU,
            {"build-main-cpu": ("main CPU", 2), "build-main-cuda13_0": ("main CUDA 13.0", 2)}
            | {"build-main-gl": ("main gl", 1)},
        ),
    ],
)
def test_variants_that_get_files_from_one_another_are_in_one_file(
    lib: dict[str, Any], ext: dict[str, Any], found: dict[str, tuple[str, int]]
) -> None:
    assert named({"values": ACCELERATORS}, {"lib": lib, "ext": ext}) == found


def test_each_branch_has_a_file_of_its_own_for_what_gets_files() -> None:
    branches = {name: {"versions": {"lib": name, "ext": name}} for name in ("1", "2")}
    made = decided({"values": ACCELERATORS}, {"lib": {}, "ext": ON_CPU}, branches=branches, hardware=GL)
    assert [shard.name for shard in made.shards] == ["build-1", "build-1-gl", "build-2", "build-2-gl"]
    assert [(shard.toolkit, shard.target) for shard in made.shards[:2]] == [("", ""), ("", "gl")]


AXES = {"abi": [f"v{number}" for number in range(60)]}
MANY = {"platform": X86, "python": ["3.12", "3.13"], "abi": AXES["abi"]}


def test_a_large_file_of_an_open_matrix_is_split_by_python_and_then_by_jobs() -> None:
    found = named({"values": MANY}, axes=AXES)
    assert found == {
        "build-main-cpu": ("main CPU", 60),
        "build-main-cpu-python313": ("main CPU python313", 60),
    }
    one = named({"values": {**MANY, "python": "3.12"}}, {"a": {}, "b": {}}, axes=AXES)
    assert sum(count for _, count in one.values()) == 120
    assert next(iter(one)) == "build-main-cpu"
    assert len(one) == 2


def test_what_needs_one_another_stays_in_one_file_with_the_first_of_its_pythons() -> None:
    packages = {"lib": {"when": {"python": "3.12"}}, "ext": {"needs": [{"package": "lib", "python": "3.12"}]}}
    made = decided({"values": {**MANY, "abi": AXES["abi"][:50]}}, packages, axes=AXES)
    where = {name: shard.name for shard in made.shards for name in shard.variants}
    assert [len(shard.cells) for shard in made.shards] == [28 * 3, 22 * 3]
    for abi in AXES["abi"][:50]:
        of_abi = {where[f"{name}-abi{abi}-{X86}"] for name in ("lib-python312", "ext-python312", "ext-python313")}
        assert len(of_abi) == 1
    assert max(shard.jobs for shard in made.shards) <= 256


def test_what_cannot_be_split_is_an_error_with_the_way_out() -> None:
    packages = {"lib": {"ignores": ["abi", "python"]}, "ext": {"needs": ["lib"]}}
    said = refusals({"values": MANY}, packages, axes=AXES)["too-many-jobs"]
    assert said == (
        "build-main-cpu.yml would have 367 jobs for the 121 variants that get files from one another; a file can have "
        "256; declare `command.fetch` of what many of them need"
    )


def of_listed(names: list[str]) -> dict[str, list[str]]:
    """The listed variants of each shard but the others."""
    document = small(
        packages={"lib": {"recipes": "own", "variants": {name: {"system": X86} for name in names}}},
        branches={"main": MAIN | {"versions": {"lib": "1.0"}}},
        matrix={"python": ["3.13"], "isas": {X86: ["avx2"]}, "gpus": {"cpu": {}}},
    )
    return {shard.name: shard.variants for shard in plan(spec_of(document)).shards if "listed" in shard.name}


def test_listed_variants_share_a_file_and_else_are_split_by_the_beginnings_of_their_names() -> None:
    few = ["Alpha-1", "beta-1"]
    assert of_listed(few) == {"build-main-listed": few}
    many = [f"a-{number:02}" for number in range(80)] + [f"b-{number:02}" for number in range(80)]
    assert of_listed(many) == {"build-main-listed-a": many[:80], "build-main-listed-b": many[80:]}
    alike = [f"A-long-beginning-{number}" for number in range(100)]
    assert of_listed(alike) == {f"build-main-listed-{name.lower()}": [name] for name in alike}


def test_a_file_that_just_fits_keeps_the_order_of_its_cells() -> None:
    (shard,) = sharded(63, ["3.13", "3.12"], ["avx2"]).values()
    assert shard.jobs == 256
    names = [f"p{number}" for number in range(63)]
    document = small(
        packages={name: {} for name in names},
        matrix={"python": ["3.13", "3.12"], "isas": {X86: ["avx2"]}, "gpus": {"cpu": {}}},
        branches={"main": MAIN | {"versions": dict.fromkeys(names, "1.0")}},
        tests={"gpu-test": "never"},
    )
    made = plan(spec_of(document))
    (whole,) = shards(made.spec, made.judged.cells, made.routes)
    assert [one.python for one, _ in whole.cells] == ["3.13", "3.12"]
