"""Sharding: one file per branch and GPU, split by Python and then by ISA only if GitHub's limit requires it."""

from __future__ import annotations

from typing import Any

import pytest

from ci_compiler.errors import InputError
from ci_compiler.plan.pipeline import plan
from ci_compiler.plan.sharding import Shard
from ci_compiler.stages import CPU_TEST
from tests.specs import small, spec_of

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
