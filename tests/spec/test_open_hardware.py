"""Platforms, accelerators and toolkits that an open matrix names get rows in the tables."""

from __future__ import annotations

from typing import Any

import pytest

from ci_compiler.hardware import Hardware, Version, tables
from ci_compiler.spec.model import Spec
from ci_compiler.spec.open_hardware import hosted, known_platforms, with_open_rows
from tests.specs import MAIN, small, spec_of

PLATFORMS = {"loongarch64-linux": {"label": "loong64"}, "sparc64-linux": {"os": "Linux", "title": "SPARC"}}
FAMILIES = {"opencl": {"title": "OpenCL"}, "gl": {}, "rocm": {"title": "HIP"}}


def open_spec(values: dict[str, Any] | None = None, **changes: Any) -> Spec:
    """A spec with an open matrix that has `values`."""
    own = {"python": "3.13", "platform": "x86_64-linux", "accelerator": "cpu"}
    return spec_of(small(**({"matrix": {"values": own | (values or {})}} | changes)))


def added(hardware: Hardware) -> dict[str, list[str]]:
    """The names of the rows that the bundled tables do not have."""
    known = tables()
    pairs = {
        "systems": (hardware.systems, known.systems),
        "isas": (hardware.isas, known.isas),
        "gpus": (hardware.gpus, known.gpus),
        "toolkits": (hardware.toolkits, known.toolkits),
    }
    assert all([row for row in own if row in old] == list(old) for own, old in pairs.values())
    return {table: new for table, (own, old) in pairs.items() if (new := [name for name in own if name not in old])}


def pools(**changes: Any) -> dict[str, Any]:
    return {"runners": small()["runners"] | {"further": {"runs-on": ["linux", "x64", "further"]} | changes}}


ROWS: list[tuple[dict[str, Any], dict[str, Any], dict[str, list[str]]]] = [
    ({}, {}, {}),
    ({"accelerator": ["cpu", "cuda 12.8 sm90", "cuda 12.8 all"]}, {}, {}),
    ({"platform": ["x86_64-linux", "s390x-linux"]}, {}, {"systems": ["s390x-linux"]}),
    (
        {"platform": "loongarch64-linux"},
        {"hardware": {"platforms": PLATFORMS}},
        {"systems": ["loongarch64-linux"]},
    ),
    (
        {"platform": "linux"},
        {"axes": {"platform": {"serves": {"linux": ["x86_64-linux", "i686-linux", "ppc64le-linux"]}}}},
        {"systems": ["i686-linux", "ppc64le-linux"]},
    ),
    (
        {},
        {"runners": small()["runners"] | {"mac": {"hosted": "macos-15-intel"}, "windows": {"hosted": "windows-2025"}}},
        {"systems": ["x86_64-darwin", "x86_64-windows"]},
    ),
    ({}, pools(runs=["wasm32-wasi"], builds=["aarch64-android"]), {"systems": ["wasm32-wasi", "aarch64-android"]}),
    ({}, pools(system="riscv64-linux", **{"runs-on": ["riscv"]}), {"systems": ["riscv64-linux"]}),
    (
        {"accelerator": ["rocm 7.1 gfx942", "rocm gfx90a", "gl"]},
        {"hardware": {"families": FAMILIES}},
        {"gpus": ["gfx942", "gfx90a", "gl"], "toolkits": ["7.1"]},
    ),
    (
        {"accelerator": ["rocm"]},
        {"accelerators": {"rocm": {"toolkits": ["7.1", "7.2"], "targets": ["gfx942", "gfx90a"]}}},
        {"gpus": ["rocm", "gfx942", "gfx90a"], "toolkits": ["7.1", "7.2"]},
    ),
    (
        {"accelerator": "rocm"},
        {"accelerators": {"rocm": {"toolkits": ["7.1"]}}},
        {"gpus": ["rocm"], "toolkits": ["7.1"]},
    ),
    ({}, pools(accelerator="rocm gfx942"), {"gpus": ["gfx942"]}),
    (
        {},
        {"branches": {"main": MAIN | {"accelerators": {"rocm": {"targets": ["gfx942"]}}}}},
        {"gpus": ["gfx942"]},
    ),
]


@pytest.mark.parametrize(("values", "changes", "rows"), ROWS, ids=[str(number) for number in range(len(ROWS))])
def test_what_the_tables_lack_is_added(
    values: dict[str, Any], changes: dict[str, Any], rows: dict[str, list[str]]
) -> None:
    found = added(open_spec(values, **changes).hardware)
    assert found == rows | ({"isas": rows["systems"]} if "systems" in rows else {})


def test_a_variant_that_fits_no_axis_has_its_platform() -> None:
    packages = small()["packages"]
    packages["torchvision"] |= {"variants": {"torchvision-ios": {"system": "aarch64-ios"}}, "ignores": ["python"]}
    assert added(open_spec(packages=packages).hardware)["systems"] == ["aarch64-ios"]


def test_a_platform_without_facts_has_one_instruction_set() -> None:
    hardware = open_spec(
        {"platform": ["s390x-linux", "loongarch64-linux", "sparc64-linux", "aarch64-ios"]},
        hardware={"platforms": PLATFORMS},
    ).hardware
    rows = {
        name: (row.label, row.os, row.title) for name, row in hardware.systems.items() if name not in tables().systems
    }
    assert rows == {
        "s390x-linux": ("s390x", "Linux", "IBM Z"),
        "loongarch64-linux": ("loong64", "Linux", "loongarch64-linux"),
        "sparc64-linux": ("X64", "Linux", "SPARC"),
        "aarch64-ios": ("ARM64", "macOS", "iOS"),
    }
    for name in rows:
        system, isa = hardware.systems[name], hardware.isas[name]
        assert (system.name, system.baseline, system.undecided) == (name, name, name)
        assert (isa.name, isa.system, isa.title, isa.cpus) == (
            name,
            name,
            system.title,
            f"every CPU of {system.title}",
        )
        assert (isa.flags, isa.cpuinfo, isa.includes) == ((), (), ())


def test_a_target_and_a_family_without_one_have_rows() -> None:
    values = {"accelerator": ["rocm 7.1 gfx942", "opencl"], "platform": ["x86_64-linux", "s390x-linux"]}
    spec = open_spec(values, hardware={"families": FAMILIES})
    target, family = spec.hardware.gpu("gfx942"), spec.hardware.gpu("opencl")
    assert (target.name, target.architecture, target.summary, target.family) == (
        "gfx942", f"{target.summary} gfx942", "HIP", "rocm",
    )  # fmt: skip
    assert (family.name, family.architecture, family.family) == ("opencl", "OpenCL", "opencl")
    for row in (target, family):
        assert (row.dnn, row.systems) == (False, (*tables().systems, "s390x-linux"))


@pytest.mark.parametrize(
    ("toolkit", "serves", "version", "attribute"),
    [
        ("7.1", {}, Version(7, 1), ""),
        ("7", {}, Version(7, 0), ""),
        ("7.1.25", {}, Version(7, 1), ""),
        ("2026-lts", {}, Version(2026, 0), ""),
        ("12", {}, min(row.version for row in tables().toolkits.values() if row.version.major == 12), None),
        ("99", {"99": ["12.9", "12.8", "13.0"]}, Version(12, 8), None),
        ("99", {"98": ["12.9"]}, Version(99, 0), ""),
    ],
)
def test_a_toolkit_is_the_oldest_that_it_stands_for_or_has_no_facts(
    toolkit: str, serves: dict[str, list[str]], version: Version, attribute: str | None
) -> None:
    axes = {"axes": {"toolkit": {"serves": serves}}} if serves else {}
    row = open_spec({"accelerator": f"rocm {toolkit}"}, **axes).hardware.toolkit(toolkit)
    known = tables().toolkits.get(str(version))
    assert row.version == version
    if attribute is None:
        assert row == known
    else:
        assert (row.attribute, row.shipped_driver, row.lowest_driver) == ("", 0, 0)


def test_a_spec_may_name_known_and_declared_platforms() -> None:
    names = known_platforms(open_spec(hardware={"platforms": PLATFORMS}))
    assert names[: len(tables().systems)] == list(tables().systems)
    assert names[-2:] == list(PLATFORMS)
    assert {"s390x-linux", "wasm32-wasi", "x86_64-windows"} <= set(names)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(("family", "title"), [("opencl", "OpenCL"), ("rocm", "HIP"), ("gl", "gl"), ("cuda", "CUDA")])
def test_a_family_has_its_declared_title_or_the_known_one(family: str, title: str) -> None:
    assert open_spec(hardware={"families": FAMILIES}).hardware.family(family).title == title


def test_hosted_machines_have_a_known_platform_a_size_and_a_price() -> None:
    spec = open_spec()
    for label, row in hosted().items():
        assert row["system"] in known_platforms(spec), label
        assert min(row["cores"], row["memory"], row["disk"]) > 0, label
        assert float(row["minute"]) > 0, label
    assert hosted()["ubuntu-24.04-arm"]["system"] == "aarch64-linux"


def test_the_rows_of_a_complete_spec_are_there_already() -> None:
    spec = open_spec({"platform": "s390x-linux", "accelerator": "rocm 7.1 gfx942"})
    again = with_open_rows(spec)
    assert (again.systems, again.gpus, again.toolkits) == (
        spec.hardware.systems,
        spec.hardware.gpus,
        spec.hardware.toolkits,
    )
