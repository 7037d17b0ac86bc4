"""The plan as a whole: rows of suites bound to the variants that they install, and the findings of all parts."""

from __future__ import annotations

from typing import Any

import pytest

from ci_compiler.errors import InputError
from ci_compiler.plan.pipeline import Plan, installed, plan, with_rows
from ci_compiler.plan.rules import judge
from tests.plan.test_open_matrix import ARM, SERVING, X86, document
from tests.specs import SMALL, builder, excluding, matrix, small, spec_of

UNIT = {"command": "ci/unit.sh", "minutes": 5}


def planned(
    rows: list[dict[str, Any]], values: dict[str, Any], packages: dict[str, Any] | None = None, **suite: Any
) -> Plan:
    """The plan of the package `ext` with a suite that has `rows`, and of further packages."""
    made = {"ext": {"suites": {"unit": UNIT | suite | {"matrix": {"rows": rows}}}}} | (packages or {})
    gpu = {"runs-on": ["self-hosted", "linux", "x64", "gpu"], "accelerator": "cuda sm90"}
    runners = document({})["runners"] | {"gpu": gpu}
    return plan(spec_of(document({"values": values}, made, axes=SERVING | {"abi": ["old"]}, runners=runners)))


def bound(made: Plan) -> dict[str, list[str] | None]:
    """The variants that each row installs, without the package; None for all."""
    suites = made.spec.packages["ext"].suites
    return {
        name: None if suite.installs is None else sorted(one.removeprefix("ext-") for _, one in suite.installs)
        for name, suite in suites.items()
    }


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        ({"driver": "old"}, {}),
        ({"python": "3.12", "driver": "old"}, {"python": "3.12"}),
        ({"abi": "old", "isa": "avx2"}, {"abi": "old", "isa": "avx2"}),
        ({"toolkit": "13.0"}, {"toolkit": "13.0"}),
        ({"accelerator": "cuda sm90"}, {}),
        ({"accelerator": "cuda sm90", "driver": "old"}, {}),
        ({"accelerator": "cuda 13.0 sm90"}, {"family": "cuda", "toolkit": "13.0", "target": "sm90"}),
        ({"accelerator": "cuda sm90", "python": "3.12"}, {"python": "3.12", "family": "cuda", "target": "sm90"}),
    ],
)
def test_a_row_installs_what_serves_its_values_on_axes_of_variants(row: dict[str, str], wanted: dict[str, str]) -> None:
    suites = {"unit": UNIT | {"on": "gpu", "matrix": {"values": row}}}
    spec = spec_of(
        document({"values": {"platform": X86}}, {"ext": {"suites": suites}}, axes=SERVING | {"abi": ["old"]})
    )
    (suite,) = spec.packages["ext"].suites.values()
    assert installed(spec, suite) == wanted


@pytest.mark.parametrize(
    ("python", "rows", "names"),
    [
        (["3.12", "3.13"], [{"python": "3.12"}], {"unit-3-12": ["python312"]}),
        (["abi3", "3.13"], [{"python": ["3.12", "3.13"]}], {"unit-3-12": ["abi3"], "unit-3-13": ["python313"]}),
        (["abi3"], [{"driver": "old"}], {"unit-old": None}),
        (["abi3"], [{"driver": "old", "python": "3.11"}], {"unit-old-3-11": ["abi3"]}),
    ],
)
def test_a_row_is_bound_to_the_nearest_variants(
    python: list[str], rows: list[dict[str, Any]], names: dict[str, list[str] | None]
) -> None:
    found = bound(planned(rows, {"python": python, "platform": X86}))
    assert found == {name: one and [f"{held}-{X86}" for held in one] for name, one in names.items()}


def test_each_variant_that_is_a_result_of_its_own_is_tested_and_each_branch_for_itself() -> None:
    values = {"python": ["abi3", "3.12"], "platform": [X86, ARM]}
    assert bound(planned([{"python": "3.12"}], values)) == {"unit-3-12": [f"python312-{ARM}", f"python312-{X86}"]}
    assert bound(planned([{"python": "3.12", "platform": ARM}], values)) == {
        "unit-3-12-aarch64-linux": [f"python312-{ARM}"]
    }
    suites = {"unit": UNIT | {"matrix": {"values": {"python": "3.12"}}}}
    matrix = {"rows": [{"python": "abi3", "branch": "old"}, {"python": ["3.12", "abi3"], "branch": "main"}]}
    branches = {name: {"versions": {"ext": version}} for name, version in (("main", "2"), ("old", "1"))}
    given = document(matrix, {"ext": {"suites": suites}}, axes=SERVING, branches=branches)
    (suite,) = plan(spec_of(given)).spec.packages["ext"].suites.values()
    assert suite.installs == {("main", "ext-python312"), ("old", "ext-abi3")}


def test_of_interchangeable_variants_the_one_that_serves_the_fewest_values_is_installed() -> None:
    serves = {"wide": ["3.11", "3.12"], "narrow": ["3.12"], "twin": ["3.12"]}
    suites = {"unit": UNIT | {"matrix": {"values": {"python": "3.12"}}}}
    for order in (["wide", "narrow", "twin"], ["narrow", "twin", "wide"]):
        matrix = {"values": {"python": order, "platform": X86}}
        given = document(matrix, {"ext": {"suites": suites}}, axes={"python": {"serves": serves}})
        assert bound(plan(spec_of(given))) == {"unit-3-12": [f"narrow-{X86}"]}


def test_a_gpu_serves_by_what_its_code_runs_on_and_a_narrower_one_is_nearer() -> None:
    suites = {"unit": UNIT | {"on": "gpu", "matrix": {"values": {"accelerator": "cuda 13.0 sm89"}}}}
    accelerators = ["cpu", "cuda 13.0 sm80", "cuda 13.0 sm86", "cuda 13.0 sm90"]
    matrix = {"values": {"accelerator": accelerators, "platform": X86}}
    made = plan(spec_of(document(matrix, {"ext": {"suites": suites}})))
    assert bound(made) == {"unit-cuda-13-0-sm89": [f"cuda13_0-sm86-{X86}"]}


def test_a_suite_without_rows_runs_for_all_and_the_spec_stays_as_it_is() -> None:
    plain = spec_of(document({"values": {"platform": X86}}, {"ext": {"suites": {"unit": UNIT}}}))
    assert with_rows(plain, judge(plain).cells) == (plain, ())
    none = spec_of(small())
    assert with_rows(none, judge(none).cells) == (none, ())
    other = planned(
        [{"python": "3.12"}], {"python": "3.12", "platform": X86}, {"lib": {"suites": {"all": UNIT}}, "no": {}}
    )
    assert other.spec.packages["lib"].suites["all"].installs is None


@pytest.mark.parametrize(
    ("row", "values", "more", "said"),
    [
        (
            {"python": "3.9"},
            {"python": ["3.12", "abi3"], "platform": X86},
            {},
            (
                "packages.ext.suites.unit-3-9 has a row for python 3.9, which no variant of ext serves; the nearest "
                f"is ext-python312-{X86}, whose python 3.12 does not serve 3.9 (`axes: {{python: {{serves: …}}}}` says "
                "what does)"
            ),
        ),
        (
            {"python": "3.9", "platform": ARM},
            {"python": ["3.12"], "platform": [X86, ARM]},
            {},
            (
                "packages.ext.suites.unit-3-9-aarch64-linux has a row for python 3.9, platform aarch64-linux, which no "
                f"variant of ext serves; the nearest is ext-python312-{ARM}, whose python 3.12 does not serve 3.9 ("
            ),
        ),
        (
            {"python": "3.9", "platform": ARM},
            {"python": ["3.12"], "platform": X86},
            {},
            "whose python 3.12 does not serve 3.9 and platform x86_64-linux does not serve aarch64-linux (`axes: {",
        ),
        (
            {"python": "3.12"},
            {"python": "3.12", "platform": X86},
            {"on": "gpu"},
            "has a row for python 3.12, and no variant of ext is built that it could install",
        ),
    ],
)
def test_a_row_that_nothing_serves_is_an_error(
    row: dict[str, Any], values: dict[str, Any], more: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError) as raised:
        planned([row], values, **more)
    (finding,) = raised.value.findings
    assert finding.code == "wrong-test"
    assert said in finding.message
    assert finding.place.column > 1


def test_the_plan_has_a_route_for_each_cell_and_each_cell_in_a_shard() -> None:
    spec = spec_of(small())
    made = plan(spec)
    assert made.judged == judge(spec)
    assert len(made.routes) == len(made.judged.cells)
    routes = dict(zip(made.judged.cells, made.routes, strict=True))
    assert {cell: route for shard in made.shards for cell, route in shard.cells} == routes
    assert [shard.name for shard in made.shards] == ["build-main-cpu", "build-main-sm90"]


EXPECTED = {"variants": "nothing-*", "stage": "cpu-test", "because": "no kernels", "until": "2027-03-31"}
UNTESTED = builder(stages=["build", "publish"]) | matrix(gpus={"cpu": {}})
HOSTED = {
    "timeouts": {"build": 600},
    "runners": {
        "builder": {"hosted": "ubuntu-24.04", "cpu": ["avx512"]},
        "publisher": {"runs-on": ["self-hosted", "linux", "x64", "p"], "stages": ["publish"]},
    },
}


@pytest.mark.parametrize(
    ("changes", "codes"),
    [({}, ["no-cache"]), (UNTESTED, ["no-test", "no-test"]), (HOSTED, ["no-cache", "hosted-hours"])],
)
def test_warnings_are_those_of_all_parts(changes: dict[str, Any], codes: list[str]) -> None:
    packages = {"pytorch": {"attribute": "torch", "memory": 8}, "torchvision": {"memory": 8}}
    found = plan(spec_of(small(packages=packages, **changes))).warnings
    assert [finding.code for finding in found] == codes


def test_errors_are_raised_together_in_the_order_of_their_places() -> None:
    given = small(**excluding({"variants": "zzz"}), **{"expected-failures": [EXPECTED]})
    given["runners"]["other"] = {**SMALL["runners"]["builder"]}
    given["packages"]["pytorch"]["suites"] = {"unit": UNIT | {"matrix": {"values": {"python": "3.9"}}}}
    with pytest.raises(InputError) as raised:
        plan(spec_of(given))
    codes = [finding.code for finding in raised.value.findings]
    assert codes == ["wrong-test", "unused-exclusion", "pool-steals", "pool-steals", "unused-expectation"]
