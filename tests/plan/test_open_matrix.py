"""Open matrices: axes, rows, conditions, packages that ignore axes, values that serve others, platforms and pools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from ci_compiler.errors import InputError
from ci_compiler.plan.matrix import axis_values
from ci_compiler.plan.needs import Needs
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.reports.costs import machine_price
from ci_compiler.spec.axes import Accelerator, to_when
from ci_compiler.spec.build import parse_spec
from ci_compiler.stages import BUILD, CPU_TEST, GPU_TEST

COMMAND = {"build": "ci/build.sh", "files": ["dist/*"], "install": "pip install x", "publish": "upload"}
X86, ARM = "x86_64-linux", "aarch64-linux"


def document(matrix: Mapping[str, Any], packages: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    named = packages or {"ext": {}}
    pools = {
        "x86": {"runs-on": ["self-hosted", "linux", "x64", "builder"]},
        "arm": {"runs-on": ["self-hosted", "linux", "arm64", "builder"]},
    }
    return {
        "version": 1,
        "owner": "my-org",
        "backend": "command",
        "branches": {"main": {"versions": dict.fromkeys(named, "1.0.0")}},
        "packages": {name: {"command": COMMAND, **package} for name, package in named.items()},
        "matrix": matrix,
        "publish": {"on-shared-machines": True},
        "runners": pools,
        **more,
    }


def decided(*args: Any, **more: Any) -> Plan:
    return plan(parse_spec(json.dumps(document(*args, **more)).encode(), shown="ci-matrix.yaml"))


def names(made: Plan) -> list[str]:
    return [variant.name for cell in made.judged.cells for variant in cell.variants]


def refusals(*args: Any, **more: Any) -> dict[str, str]:
    with pytest.raises(InputError) as raised:
        decided(*args, **more)
    return {finding.code: finding.message for finding in raised.value.findings}


def test_rows_are_multiplied_with_the_values_and_override_them() -> None:
    made = decided(
        {
            "values": {"python": ["3.12", "3.13"], "platform": [X86, ARM]},
            "rows": [{"accelerator": "cpu"}, {"accelerator": "cuda 13.0", "python": "3.13", "platform": X86}],
        }
    )
    assert names(made) == [
        f"ext-python312-cpu-{X86}",
        f"ext-python312-cpu-{ARM}",
        f"ext-python313-cpu-{X86}",
        f"ext-python313-cpu-{ARM}",
        f"ext-python313-cuda13_0-{X86}",
    ]


def test_a_combination_that_two_rows_select_is_built_once() -> None:
    rows = [{"platform": [X86, ARM]}, {"platform": X86}]
    assert names(decided({"rows": rows})) == [f"ext-{X86}", f"ext-{ARM}"]


def test_a_family_stands_for_its_toolkits_and_targets_on_each_branch() -> None:
    branches = {
        "main": {"versions": {"ext": "2.0"}},
        "old": {"versions": {"ext": "1.0"}, "accelerators": {"rocm": {"toolkits": ["6.4"]}}},
    }
    table = {"rocm": {"toolkits": ["7.1", "7.2"], "targets": ["gfx942", "gfx1100"], "tag": "rocm{digits}"}}
    made = decided({"values": {"accelerator": "rocm"}}, branches=branches, accelerators=table)
    assert [(cell.branch, cell.suffix) for cell in made.judged.cells] == [
        ("main", "rocm71-gfx942"),
        ("main", "rocm71-gfx1100"),
        ("main", "rocm72-gfx942"),
        ("main", "rocm72-gfx1100"),
        ("old", "rocm64-gfx942"),
        ("old", "rocm64-gfx1100"),
    ]


def test_rows_and_conditions_may_name_branches() -> None:
    branches = {name: {"versions": {"ext": version}} for name, version in (("main", "2.0"), ("old", "1.0"))}
    made = decided(
        {
            "values": {"accelerator": ["cpu", "rocm"]},
            "rows": [{"platform": X86}, {"platform": ARM, "branch": "main"}],
            "exclude": [{"when": {"branch": "old", "accelerator": "rocm"}, "because": "It came later."}],
        },
        branches=branches,
    )
    assert [(cell.branch, cell.suffix) for cell in made.judged.cells] == [
        ("main", f"cpu-{X86}"),
        ("main", f"rocm-{X86}"),
        ("main", f"cpu-{ARM}"),
        ("main", f"rocm-{ARM}"),
        ("old", f"cpu-{X86}"),
    ]


@pytest.mark.parametrize(
    ("when", "holds"),
    [
        ({"accelerator": "cuda"}, True),
        ({"accelerator": "cuda 13.0"}, True),
        ({"accelerator": "cuda 13.0 sm90"}, True),
        ({"accelerator": "cuda sm90"}, True),
        ({"accelerator": ["rocm", "cuda 13.0"]}, True),
        ({"accelerator": "cuda 12.8"}, False),
        ({"accelerator": "rocm"}, False),
        ({"toolkit": "13.0", "abi": "new"}, True),
        ({"toolkit": "13.0", "abi": "old"}, False),
        ({"python": "3.13"}, False),
        ({"branch": ["main", "old"]}, True),
    ],
)
def test_a_condition_holds_if_the_cell_has_one_of_the_values_of_each_axis(when: dict[str, Any], holds: bool) -> None:
    cell = {"branch": "main", "family": "cuda", "toolkit": "13.0", "target": "sm90", "abi": "new"}
    assert to_when(when).holds(cell) is holds


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("cpu", ("cpu", "", "")),
        ("cuda 12.8", ("cuda", "12.8", "")),
        ("cuda sm90", ("cuda", "", "sm90")),
        ("rocm 7.1 gfx942:sramecc+:xnack-", ("rocm", "7.1", "gfx942:sramecc+:xnack-")),
        ("sycl 2025.3.3", ("sycl", "2025.3.3", "")),
    ],
)
def test_an_accelerator_is_a_family_with_a_toolkit_and_a_target(text: str, parts: tuple[str, ...]) -> None:
    assert Accelerator.parse(text) == parts
    assert str(Accelerator.parse(text)) == text


def test_what_a_package_ignores_is_neither_in_its_cells_nor_in_its_names() -> None:
    packages = {
        "lib": {"ignores": ["python"]},
        "docs": {"ignores": ["python", "platform", "accelerator"]},
        "gpu": {"ignores": ["target"], "when": {"accelerator": "cuda"}},
    }
    values = {"python": ["3.12", "3.13"], "platform": X86, "accelerator": ["cpu", "cuda 13.0 sm80", "cuda 13.0 sm90"]}
    assert sorted(names(decided({"values": values}, packages))) == [
        "docs-any",
        f"gpu-python312-cuda13_0-{X86}",
        f"gpu-python313-cuda13_0-{X86}",
        f"lib-cpu-{X86}",
        f"lib-cuda13_0-sm80-{X86}",
        f"lib-cuda13_0-sm90-{X86}",
    ]


def test_a_package_of_the_short_form_may_ignore_axes_as_well() -> None:
    matrix = {"python": ["3.12", "3.13"], "isas": ["avx2"], "gpus": ["cpu"]}
    pools = {"x86": {"runs-on": ["self-hosted", "linux", "x64"], "cpu": ["avx2"]}}
    made = decided(matrix, {"lib": {"ignores": ["python"]}, "ext": {"needs": ["lib"]}}, runners=pools)
    assert names(made) == ["lib-cpu-avx2", "ext-python312-cpu-avx2", "ext-python313-cpu-avx2"]
    needs = Needs(made.spec, made.judged.cells)
    for cell in made.judged.cells[1:]:
        assert [variant.name for _, variant in needs.of(cell, "ext")] == ["lib-cpu-avx2"]


SERVING = {
    "python": {"serves": {"abi3": ["3.11", "3.12", "3.13"]}},
    "toolkit": {"serves": {"13.x": ["13.0", "13.1"]}},
    "platform": {"serves": {"universal-darwin": ["aarch64-darwin", "x86_64-darwin"]}},
}
"""A value of three axes that stands for several others."""


@pytest.mark.parametrize(
    ("needed", "dependent", "fits"),
    [
        ({"python": "abi3"}, {"python": "3.12"}, True),
        ({"python": "abi3"}, {"python": "3.10"}, False),
        ({"accelerator": "cuda 13.x"}, {"accelerator": "cuda 13.1"}, True),
        ({"accelerator": "cuda 13.x"}, {"accelerator": "cuda 12.8"}, False),
        ({"accelerator": "cuda 13.0 sm80"}, {"accelerator": "cuda 13.0 sm86"}, True),
        ({"accelerator": "cuda 13.0 sm90"}, {"accelerator": "cuda 13.0 sm86"}, False),
        ({"accelerator": "rocm 7.1 gfx11-generic"}, {"accelerator": "rocm 7.1 gfx1100"}, True),
        ({"accelerator": "rocm 7.1 gfx1100"}, {"accelerator": "rocm 7.1 gfx1101"}, False),
        ({"platform": "universal-darwin"}, {"platform": "aarch64-darwin"}, True),
        ({}, {"python": "3.12"}, True),
    ],
)
def test_a_need_is_met_by_a_variant_whose_values_equal_or_serve(
    needed: dict[str, str], dependent: dict[str, str], fits: bool
) -> None:
    pools = {
        **document({})["runners"],
        "mac": {"runs-on": ["self-hosted", "macos", "arm64"]},
    }
    usual = {} if "platform" in needed else {"platform": X86}
    packages = {
        "lib": {"matrix": {"values": usual | needed}, "command": {**COMMAND, "fetch": "true"}},
        "ext": {"matrix": {"values": usual | dependent}, "needs": ["lib"]},
    }
    text = json.dumps(document({"values": {"platform": X86}}, packages, axes=SERVING, runners=pools)).encode()
    if not fits:
        with pytest.raises(InputError, match="which main does not build"):
            plan(parse_spec(text, shown="ci-matrix.yaml"))
        return
    made = plan(parse_spec(text, shown="ci-matrix.yaml"))
    (cell,) = (cell for cell in made.judged.cells if cell.variants[0].package == "ext")
    assert [variant.package for _, variant in Needs(made.spec, made.judged.cells).of(cell, "ext")] == ["lib"]


def test_the_nearest_of_several_variants_serves_and_two_that_are_as_near_are_an_error() -> None:
    packages = {
        "lib": {"matrix": {"values": {"python": ["abi3", "3.12"]}}},
        "ext": {"needs": ["lib"]},
    }
    made = decided({"values": {"python": ["3.12", "3.13"]}}, packages, axes=SERVING)
    needs = Needs(made.spec, made.judged.cells)
    served = {
        cell.python: [variant.name for _, variant in needs.of(cell, "ext")]
        for cell in made.judged.cells
        if any(variant.package == "ext" for variant in cell.variants)
    }
    assert served == {"3.12": ["lib-python312"], "3.13": ["lib-abi3"]}
    packages["ext"] = {"needs": ["lib"], "ignores": ["python"]}
    assert (
        "several serve it alike"
        in refusals({"values": {"python": "3.12"}}, packages, axes=SERVING)["needs-missing-variant"]
    )


def test_the_first_row_of_a_setting_that_applies_counts() -> None:
    settings = {
        "exact": [
            {"when": {"accelerator": "cuda 13.0", "platform": ARM}, "value": "13.0.1"},
            {"when": {"accelerator": "cuda"}, "value": "13.0.2"},
            {"value": "none"},
        ],
        "pool": [{"when": {"accelerator": "cpu"}, "value": "second"}],
        "image": "alma",
    }
    pools = {**document({})["runners"], "second": {"runs-on": ["self-hosted", "linux", "x64", "second"]}}
    values = {"platform": [X86, ARM], "accelerator": ["cpu", "cuda 13.0"]}
    excluded = [{"when": {"accelerator": "cpu", "platform": ARM}, "because": "Nobody asked."}]
    made = decided({"values": values, "exclude": excluded}, settings=settings, runners=pools)
    found = {cell.suffix: axis_values(made.spec, cell) for cell in made.judged.cells}
    assert {name: (row["exact"], row["image"]) for name, row in found.items()} == {
        f"cpu-{X86}": ("none", "alma"),
        f"cuda13_0-{X86}": ("13.0.2", "alma"),
        f"cuda13_0-{ARM}": ("13.0.1", "alma"),
    }
    routed = {cell.suffix: route.pools[BUILD].name for cell, route in zip(made.judged.cells, made.routes, strict=True)}
    assert routed == {f"cpu-{X86}": "second", f"cuda13_0-{X86}": "x86", f"cuda13_0-{ARM}": "arm"}


def test_names_follow_a_pattern_and_two_alike_are_an_error() -> None:
    axes = {"torch": {"values": ["2.9", "2.10"], "tag": "torch{digits}"}}
    values = {"torch": ["2.9", "2.10"], "accelerator": "cpu", "platform": X86}
    made = decided({"values": values}, axes=axes, names="{torch}-{accelerator}-{platform}")
    assert names(made) == [f"ext-torch29-cpu-{X86}", f"ext-torch210-cpu-{X86}"]
    assert (
        "differ in torch" in refusals({"values": values}, axes=axes, names="{accelerator}-{platform}")["duplicate-name"]
    )
    several = {"values": {"torch": ["2.11", "21.1"]}}
    alike = {"torch": {"values": ["2.11", "21.1"], "tag": "torch{digits}"}}
    assert "ext-torch211 is the name of two variants" in refusals(several, axes=alike)["duplicate-name"]


def test_names_that_differ_in_case_alone_are_an_error() -> None:
    abi = ["TRUE", "true"]
    refused = refusals({"values": {"abi": abi, "accelerator": "cpu"}}, axes={"abi": {"values": abi}})
    message = "the variant 'ext-abitrue-cpu' and 'ext-abiTRUE-cpu' cannot be told apart in file names"
    assert refused == {"duplicate-name": message}


POOLS = {
    "x86": {"hosted": "ubuntu-24.04", "runs": ["x86_64-musl"], "builds": ["aarch64-android"]},
    "mi300": {
        "runs-on": ["self-hosted", "linux", "x64", "mi300"],
        "accelerator": "rocm gfx942",
        "stages": ["gpu-test"],
    },
    "mac": {"hosted": "macos-26"},
}


def test_pools_build_and_run_platforms_and_families_without_facts() -> None:
    rows = [
        {"platform": X86, "accelerator": ["rocm 7.1", "npu 1.0"]},
        {"platform": ["x86_64-musl", "aarch64-android"], "accelerator": "cpu"},
        {"platform": "aarch64-darwin", "accelerator": "metal"},
    ]
    hardware = {"families": {"npu": {}, "metal": {}}, "platforms": {"x86_64-musl": {"title": "Alpine"}}}
    made = decided({"rows": rows}, {"ext": {"memory": 6}}, hardware=hardware, runners=POOLS)
    found = {
        cell.suffix: tuple(
            route.pools[stage].name if stage in route.pools else "-" for stage in (BUILD, CPU_TEST, GPU_TEST)
        )
        for cell, route in zip(made.judged.cells, made.routes, strict=True)
    }
    assert found == {
        f"rocm7_1-{X86}": ("x86", "x86", "mi300"),
        f"npu1_0-{X86}": ("x86", "x86", "-"),
        "cpu-x86_64-musl": ("x86", "x86", "-"),
        "cpu-aarch64-android": ("x86", "-", "-"),
        "metal-aarch64-darwin": ("mac", "mac", "-"),
    }


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"matrix": {"values": {"platform": "x86_64-linus"}}}, "unknown-system"),
        ({"matrix": {"values": {"accelerator": "cuda 12.7.1"}}}, "unknown-toolkit"),
        ({"matrix": {"values": {"accelerator": "rocm 7.1 sm90"}}}, "unknown-gpu"),
        ({"matrix": {"values": {"isa": "avx3"}}}, "unknown-isa"),
        ({"matrix": {"values": {"branch": "mian", "platform": X86}}}, "unknown-branch"),
        ({"axes": {"torch": {"tag": "{value}"}}, "matrix": {"values": {"platform": X86}}}, "unknown-axis"),
        ({"names": "{phyton}", "matrix": {"values": {"platform": X86}}}, "unknown-axis"),
        ({"packages": {"ext": {"command": COMMAND, "ignores": ["pyton"]}}}, "unknown-axis"),
        ({"packages": {"ext": {"command": COMMAND, "joins": [{"with": "other"}]}}}, "unknown-package"),
        ({"settings": {"isa": "avx2"}}, "duplicate-name"),
        ({"settings": {"platform": "x"}}, "duplicate-name"),
        ({"runners": {"a": {"hosted": "ubuntu-25.04"}}}, "unknown-value"),
        ({"runners": {"a": {"hosted": "ubuntu-24.04", "builds": ["s390-linux"]}}}, "unknown-system"),
        ({"matrix": {"python": ["3.12"]}}, "missing-key"),
    ],
)
def test_what_is_unknown_is_an_error(more: dict[str, Any], code: str) -> None:
    assert code in refusals(**{"matrix": {"values": {"platform": X86}}, **more})


@pytest.mark.parametrize("axis", ["python", "torch", "platform", "accelerator"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_further_value_moves_no_variant_to_another_file(axis: str, place: int) -> None:
    values: dict[str, list[str]] = {
        "python": ["3.12", "3.13"],
        "torch": ["2.8", "2.9"],
        "platform": [X86, ARM],
        "accelerator": ["cpu", "cuda 13.0"],
    }
    further = {"python": "3.14", "torch": "2.10", "platform": "x86_64-musl", "accelerator": "rocm 7.1"}[axis]
    more = {**values, axis: [*values[axis][:place], further, *values[axis][place:]]}
    common: dict[str, Any] = {
        "axes": {"torch": ["2.8", "2.9", "2.10"]},
        "hardware": {"platforms": {"x86_64-musl": {}}},
        "runners": {"x86": {"hosted": "ubuntu-24.04", "runs": ["x86_64-musl"]}, "arm": {"hosted": "ubuntu-24.04-arm"}},
    }
    before, after = decided({"values": values}, **common), decided({"values": more}, **common)
    files = {name: shard.name for shard in after.shards for name in shard.variants}
    assert len(files) > len(names(before))
    for shard in before.shards:
        assert {files[name] for name in shard.variants} == {shard.name}


@pytest.mark.parametrize(
    ("prices", "amount"),
    [
        ({"currency": "USD"}, "0.36"),  # 0.006 a minute
        ({"currency": "USD", "machine-hour": {"x86": "0.30"}}, "0.30"),
        ({"currency": "USD", "machine-hour": {"mi300": "2.00"}}, "0.36"),
        ({"currency": "EUR"}, "0"),
    ],
)
def test_machines_that_github_hosts_have_githubs_price_in_dollars(prices: dict[str, Any], amount: str) -> None:
    values = {"platform": X86, "accelerator": ["cpu", "rocm 7.1"]}
    pools = {"x86": {"hosted": "ubuntu-24.04"}, "mi300": POOLS["mi300"]}
    made = decided({"values": values}, runners=pools, prices=prices)
    assert machine_price(made.spec, "x86", 3600) == Decimal(amount)


def hosted(**package: Any) -> list[str]:
    """The warnings about a build for a GPU on a machine of GitHub, and for the CPU on one of one's own."""
    pools = {"x86": {"hosted": "ubuntu-24.04"}, "arm": document({})["runners"]["arm"]}
    rows = [{"platform": X86, "accelerator": "cuda 13.0"}, {"platform": ARM, "accelerator": "cpu"}]
    more = {"timeouts": package.pop("timeouts")} if "timeouts" in package else {}
    made = decided(
        {"rows": rows}, {"ext": {"memory": 6, "untested": "There is no GPU.", **package}}, runners=pools, **more
    )
    return [one.message for one in made.warnings if one.code == "hosted-hours"]


def test_a_time_limit_that_is_declared_beyond_githubs_own_is_a_warning() -> None:
    assert hosted() == hosted(timeouts={"build": 360}) == []
    (said,) = hosted(timeouts={"build": 600})
    assert said == (
        "GitHub ends a job on x86 (ubuntu-24.04) after 6 h, before the 10 h that `timeouts` gives to build; run it "
        "on machines of your own, or lower it to 360"
    )


def test_a_build_that_takes_longer_than_githubs_machines_give_is_a_warning() -> None:
    assert hosted(minutes={"gpu": 45, "cpu": 6000}) == []  # 45 minutes with 32 cores are 6 hours with 4
    (said,) = hosted(minutes={"gpu": 60})
    assert said.startswith(
        "a build of ext takes about 8 h on x86 (ubuntu-24.04, 4 cores), and GitHub ends its job after 6 h"
    )
    assert hosted(minutes={"gpu": 60}, jobs=4) == []


@pytest.mark.parametrize(("what", "size", "has"), [("memory", 32, "16 GB of memory"), ("disk", 100, "14 GB of disk")])
def test_what_a_machine_of_github_has_is_said_where_a_build_takes_more(what: str, size: int, has: str) -> None:
    found = refusals({"values": {"platform": X86}}, {"ext": {what: size}}, runners={"x86": {"hosted": "ubuntu-24.04"}})
    assert f"; x86 (ubuntu-24.04) has {has} (" in found["no-pool"]
