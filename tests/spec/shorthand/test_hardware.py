"""Rows of hardware refine the bundled tables or are added to them, and each problem has its place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ci_compiler.hardware import Hardware, Version, tables
from ci_compiler.spec.read import read
from ci_compiler.spec.shorthand.hardware import (
    FamilyRow,
    GpuRow,
    HardwareRows,
    IsaRow,
    PlatformRow,
    ToolkitRow,
    declaration,
    merged,
)
from tests.spec.published import assert_published


def test_the_schema_has_these_keys() -> None:
    assert_published(FamilyRow, GpuRow, HardwareRows, IsaRow, PlatformRow, ToolkitRow)


def rows_of(hardware: Hardware) -> Any:
    return hardware.gpus, hardware.toolkits, hardware.isas


def with_rows(**rows: dict[str, Any]) -> tuple[Hardware, list[tuple[Any, ...]]]:
    """The tables with `rows`, and what is wrong: the place below `hardware`, the code, the message, whether a key."""
    hardware, problems = merged(read(HardwareRows, rows), tables())
    assert {path[0] for path, *_ in problems} <= {"hardware"}
    return hardware, [(".".join(map(str, one.path[1:])), str(one.code), one.message, one.key) for one in problems]


TOOLKIT = {"attribute": "cudaPackages_13_9", "shipped-driver": 640, "lowest-driver": 580}
GPU = {"capability": "13.0", "architecture": "Next", "first-cuda": "13.9", "systems": ["x86_64-linux"]}
ISA = {"system": "x86_64-linux", "flags": ["-mavx2"], "cpuinfo": ["avx2"], "cpus": "some CPUs"}


@pytest.mark.parametrize("rows", [{}, {"gpus": {"sm90": None}, "isas": {"avx2": {}}, "toolkits": {"12.8": None}}])
def test_rows_without_keys_leave_the_bundled_tables_as_they_are(rows: Any) -> None:
    hardware, problems = with_rows(**rows)
    assert (rows_of(hardware), problems) == (rows_of(tables()), [])


def test_new_rows_are_complete() -> None:
    hardware, problems = with_rows(
        toolkits={"13.9": TOOLKIT},
        gpus={"sm130": GPU, "sm131": GPU | {"capability": "13.1", "products": ["X1", "X2"], "last-cuda": "14.0"}},
        isas={"new": ISA},
    )
    assert problems == []
    toolkit = hardware.toolkit("13.9")
    assert (toolkit.version, toolkit.attribute) == (Version(13, 9), "cudaPackages_13_9")
    assert (toolkit.shipped_driver, toolkit.lowest_driver) == (640, 580)
    first, second = hardware.gpu("sm130"), hardware.gpu("sm131")
    assert (first.name, first.capability, first.first_toolkit) == ("sm130", Version(13, 0), Version(13, 9))
    assert (first.summary, first.systems, first.dnn, first.last_toolkit) == ("sm130", ("x86_64-linux",), True, None)
    assert (second.summary, second.last_toolkit) == ("X1, X2", Version(14, 0))
    isa = hardware.isa("new")
    assert (isa.name, isa.title, isa.includes, isa.flags) == ("new", "new", ("baseline",), ("-mavx2",))


def test_toolkits_stay_in_the_order_of_their_versions() -> None:
    hardware, _ = with_rows(toolkits={"12.10": TOOLKIT, "9.9": TOOLKIT})
    versions = [row.version for row in hardware.toolkits.values()]
    assert versions == sorted(versions)
    assert versions[0] == Version(9, 9)
    assert list(hardware.toolkits).index("12.10") == list(hardware.toolkits).index("12.9") + 1


def test_rows_refine_bundled_ones_key_by_key() -> None:
    hardware, problems = with_rows(
        toolkits={"12.8": {"lowest-driver": 1}},
        gpus={"sm90": {"products": ["H100"], "last-cuda": "20.0", "summary": "Hopper"}, "sm100": {"cudnn": False}},
        isas={"avx512": {"title": "A", "includes": ["avx2"]}, "avx2": {"flags": ["-mavx2"]}},
    )
    known = tables()
    assert problems == []
    assert hardware.toolkit("12.8") == replace(known.toolkit("12.8"), lowest_driver=1)
    sm90 = replace(known.gpu("sm90"), products=("H100",), last_toolkit=Version(20, 0), summary="Hopper")
    assert hardware.gpu("sm90") == sm90
    assert hardware.gpu("sm100") == replace(known.gpu("sm100"), dnn=False)
    assert hardware.isa("avx512") == replace(known.isa("avx512"), title="A", includes=("avx2",))
    flags = hardware.isa("avx2")
    assert (flags.flags, flags.qemu, flags.sde, flags.smallest) == (("-mavx2",), "", "", ())
    assert known.isa("avx2").qemu


def test_models_beside_new_flags_are_kept() -> None:
    hardware, _ = with_rows(isas={"avx2": {"flags": ["-mavx2"], "qemu": "Haswell", "sde": "hsw"}})
    assert (hardware.isa("avx2").qemu, hardware.isa("avx2").sde) == ("Haswell", "hsw")


@pytest.mark.parametrize(
    ("name", "row", "lines"),
    [
        (
            "13.9",
            ToolkitRow,
            'hardware: {toolkits: {"13.9": {attribute: cudaPackages_13_9, shipped-driver: N, lowest-driver: N}}}',
        ),
        (
            "sm130",
            GpuRow,
            (
                'hardware: {gpus: {sm130: {capability: "13.0", architecture: NAME, first-cuda: "VERSION", '
                "systems: [x86_64-linux]}}}"
            ),
        ),
        (
            "new",
            IsaRow,
            'hardware: {isas: {new: {system: x86_64-linux, flags: [-mFLAG], cpuinfo: [FLAG], cpus: "FIRST CPUS"}}}',
        ),
    ],
)
def test_a_new_row_that_lacks_keys_is_left_out_and_shown_complete(name: str, row: Any, lines: str) -> None:
    assert declaration(name, row) == lines
    section = lines.removeprefix("hardware: {").partition(":")[0]
    hardware, problems = with_rows(**{section: {name: {}}})
    lacking = {"toolkits": "attribute, shipped-driver, lowest-driver", "isas": "system, flags, cpuinfo, cpus"}
    lacks = lacking.get(section, "capability, architecture, first-cuda, systems")
    message = f"{name} is not in the bundled tables and lacks {lacks}; a complete row: {lines}"
    assert (rows_of(hardware), problems) == (rows_of(tables()), [(f"{section}.{name}", "missing-key", message, True)])


KNOWN_SYSTEMS = "known are aarch64-darwin, aarch64-linux, x86_64-linux"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (
            {"gpus": {"sm90": {"capability": "9.1"}}},
            [("gpus.sm90.capability", "wrong-hardware", "sm90 is the name of the compute capability 9.0, not of 9.1")],
        ),
        (
            {"gpus": {"sm90": {"first-cuda": "12.8", "last-cuda": "12.6"}}},
            [
                (
                    "gpus.sm90.last-cuda",
                    "wrong-hardware",
                    "the last toolkit for sm90, 12.6, is older than the first, 12.8",
                )
            ],
        ),
        ({"gpus": {"sm90": {"first-cuda": "12.8", "last-cuda": "12.8"}}}, []),
        (
            {"gpus": {"sm90": {"driver": 570, "last-driver": 569}}},
            [
                (
                    "gpus.sm90.last-driver",
                    "wrong-hardware",
                    "the last driver for sm90, 569, is older than the lowest, 570",
                )
            ],
        ),
        ({"gpus": {"sm90": {"driver": 570, "last-driver": 570}, "sm100": {"driver": 1, "last-driver": 0}}}, []),
        (
            {"gpus": {"sm90": {"systems": ["x86_64-linux", "x86_64-linx"]}}},
            [("gpus.sm90.systems.1", "unknown-system", "unknown system 'x86_64-linx'; did you mean x86_64-linux?")],
        ),
        (
            {"isas": {"new": ISA | {"system": "s390x"}}},
            [("isas.new.system", "unknown-system", f"unknown system 's390x'; {KNOWN_SYSTEMS}")],
        ),
        (
            {"isas": {"new": ISA | {"includes": ["avx3", "armv9"]}}},
            [
                ("isas.new.includes", "unknown-isa", "unknown ISA 'avx3'; did you mean avx or avx2"),
                ("isas.new.includes", "isa-system", "armv9 is an ISA of aarch64-linux, not of x86_64-linux"),
            ],
        ),
        (
            {"isas": {"new": ISA | {"flags": ["-mavx2", "-march=nothing"]}}},
            [("isas.new.flags", "unknown-flag", "-march=nothing: unknown 'nothing'")],
        ),
        (
            {"isas": {"new": ISA | {"flags": ["-mavx2", "-mfma"]}}},
            [
                (
                    "isas.new.cpuinfo",
                    "unproved-isa",
                    "the flags of new turn on fma, which its `cpuinfo` does not prove; add fma",
                )
            ],
        ),
        ({"families": {"opencl": {"targets": ["a*"], "aliases": ["cl"]}, "rocm": {"title": "HIP"}}}, []),
        (
            {"families": {"rocm": {"targets": ["gfx*"]}}},
            [("families.rocm.targets", "wrong-hardware", "the targets of rocm are those of its table")],
        ),
        (
            {"families": {"opencl": {"aliases": ["cl", "cuda"]}, "gl": {"aliases": ["cl"]}}},
            [
                ("families.opencl.aliases.1", "duplicate-name", "cuda is the name of another family"),
                ("families.gl.aliases.0", "duplicate-name", "cl is the name of another family"),
            ],
        ),
    ],
)
def test_a_row_that_contradicts_itself_is_a_problem(rows: Any, expected: list[tuple[str, str, str]]) -> None:
    _, problems = with_rows(**rows)
    assert [(path, code) for path, code, *_ in problems] == [(path, code) for path, code, _ in expected]
    for (*_, message, key), (*_, part) in zip(problems, expected, strict=True):
        assert part in message
        assert not key


@pytest.mark.parametrize("own", [{"flags": ["-mavx"]}, {"cpuinfo": ["avx"]}])
def test_what_every_cpu_runs_has_no_flags(own: dict[str, Any]) -> None:
    message = "baseline is what every CPU of x86_64-linux runs, so it has no flags; declare another ISA with them"
    _, problems = with_rows(isas={"baseline": own})
    assert problems[0] == ("isas.baseline", "wrong-hardware", message, True)
    assert with_rows(isas={"baseline": {"title": "plain"}})[1] == []
