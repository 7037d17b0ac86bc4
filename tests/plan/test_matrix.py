"""The axes multiplied out: candidates, cells with their names and values, and what depends on a cell's values."""

from __future__ import annotations

from typing import Any

import pytest

from ci_compiler.plan.matrix import (
    Cell,
    Cells,
    Variant,
    axis_values,
    candidates,
    command_values,
    first_system,
    grammar_of,
    listed_cells,
    machine_of,
    values_in,
    version_in,
)
from ci_compiler.plan.rules import judge
from ci_compiler.spec.model import Spec
from tests.plan.test_open_matrix import ARM, COMMAND, X86, document
from tests.specs import MAIN, small, spec_of

AXES = {"python": "3.13", "family": "cuda", "toolkit": "12.8", "target": "sm90", "isa": "avx2"}
HOST = {"python": "3.13", "family": "cpu", "isa": "avx2"}
ONE, TWO = Variant(name="a-x", package="a"), Variant(name="b-x", package="b")


def cell(values: dict[str, str] | None = None, **changes: Any) -> Cell:
    own = {"branch": "main", "system": X86, "isa": "avx2", "suffix": "x", "variants": (ONE,)}
    return Cell(**own | {"values": tuple((HOST if values is None else values).items())} | changes)


@pytest.mark.parametrize(
    ("changes", "called", "key"),
    [
        ({}, "", "x"),
        ({"alone": True}, "a-x", "a-x"),
        ({"values": {"platform": X86}}, "a-x", "x"),
        ({"values": {"platform": X86}, "variants": (ONE, TWO)}, "", "x"),
        ({"values": {}, "joined": "both"}, "", "both"),
        ({"values": {}, "joined": "both", "alone": True}, "", "both"),
        ({"values": {"platform": X86}, "suffix": "a-x"}, "a-x", "a-x"),
    ],
)
def test_a_cell_has_the_name_of_its_values_its_variant_or_its_build(
    changes: dict[str, Any], called: str, key: str
) -> None:
    one = cell(**changes)
    assert (one.called, one.key) == (called, key)


OPEN = {"family": "rocm", "toolkit": "7.1"}


@pytest.mark.parametrize(
    ("values", "machine", "implied", "usual"),
    [
        (AXES, ("3.13", "cuda", "12.8", "sm90"), {"platform": X86}, True),
        (HOST, ("3.13", "cpu", "", "cpu"), {"platform": X86}, True),
        ({"platform": ARM}, ("", "cpu", "", "cpu"), {}, False),
        ({**AXES, "platform": ARM}, ("3.13", "cuda", "12.8", "sm90"), {}, False),
        (OPEN, ("", "rocm", "7.1", "rocm"), {}, False),
        ({**OPEN, "isa": "avx2"}, ("", "rocm", "7.1", "rocm"), {"platform": X86}, False),
        ({}, ("", "cpu", "", "cpu"), {}, False),
    ],
)
def test_the_values_of_a_cell_and_what_conditions_see(
    values: dict[str, str], machine: tuple[str, ...], implied: dict[str, str], *, usual: bool
) -> None:
    one = cell(values)
    assert (one.python, one.family, one.toolkit, one.target) == machine
    assert one.axes == {"branch": "main", **values}
    assert one.conditions == {"branch": "main", **values, **implied}
    assert one.is_usual is usual


def opened(matrix: dict[str, Any], packages: dict[str, Any] | None = None, **more: Any) -> Spec:
    return spec_of(document(matrix, packages, **more))


def chosen(spec: Spec) -> list[tuple[str, dict[str, str], tuple[str | int, ...]]]:
    assert spec.matrix is not None
    every = list(candidates(spec, ("matrix",), spec.matrix))
    return [(one.branch, dict(one.values), one.row) for one in every]


def test_rows_are_multiplied_and_each_combination_comes_once() -> None:
    rows = [{"platform": [X86, ARM]}, {"platform": ARM, "python": ["3.12", "3.13"]}, {"platform": ARM, "branch": "b"}]
    versions = {"versions": {"ext": "1"}}
    spec = opened({"values": {"python": "3.12"}, "rows": rows}, branches={"a": versions, "b": versions})
    combinations = [(X86, "3.12", 0), (ARM, "3.12", 0), (ARM, "3.13", 1)]
    assert chosen(spec) == [
        (branch, {"python": python, "platform": platform}, ("matrix", "rows", at))
        for branch in ("a", "b")
        for platform, python, at in combinations
    ]


@pytest.mark.parametrize(
    ("named", "accelerators"),
    [
        ("cpu", ["cpu"]),
        ("rocm", ["rocm 7.1 gfx942", "rocm 7.1 gfx1100", "rocm 7.2 gfx942", "rocm 7.2 gfx1100"]),
        ("rocm 7.2", ["rocm 7.2 gfx942", "rocm 7.2 gfx1100"]),
        ("rocm gfx90a", ["rocm 7.1 gfx90a", "rocm 7.2 gfx90a"]),
        ("rocm 6.4 gfx90a", ["rocm 6.4 gfx90a"]),
        ("cuda", ["cuda 12.8", "cuda 13.0"]),
        ("gl", ["gl"]),
        (["rocm 7.1 gfx942", "rocm 7.1"], ["rocm 7.1 gfx942", "rocm 7.1 gfx1100"]),
    ],
)
def test_a_family_stands_for_what_the_branch_lists_for_it_else_the_spec(
    named: str | list[str], accelerators: list[str]
) -> None:
    spec = opened(
        {"values": {"platform": X86, "accelerator": named}},
        accelerators={"rocm": {"toolkits": ["7.0"], "targets": ["gfx942", "gfx1100"]}},
        hardware={"families": {"gl": {"targets": []}}},
        branches={
            "main": {
                "cuda": ["12.8", "13.0"],
                "versions": {"ext": "1"},
                "accelerators": {"rocm": {"toolkits": ["7.1", "7.2"]}},
            }
        },
    )
    parts = ("family", "toolkit", "target")
    assert [" ".join(values[part] for part in parts if part in values) for _, values, _ in chosen(spec)] == accelerators


DARWIN = {"platform": {"serves": {"universal": ["aarch64-darwin", "x86_64-darwin"]}}}


@pytest.mark.parametrize(
    ("values", "usual", "machine"),
    [
        ({}, X86, (X86, "baseline")),
        ({"platform": ARM, "python": "3.13"}, X86, (ARM, "baseline")),
        ({"isa": "armv9"}, X86, (ARM, "armv9")),
        ({"platform": "universal"}, X86, ("aarch64-darwin", "baseline")),
        ({"family": "rocm", "toolkit": "7.1"}, ARM, (ARM, "baseline")),
        ({"platform": "riscv64-linux"}, X86, ("riscv64-linux", "")),
    ],
)
def test_what_a_cell_needs_of_a_machine(values: dict[str, str], usual: str, machine: tuple[str, ...]) -> None:
    spec = opened({"values": {"platform": X86}}, axes=DARWIN, hardware={"platforms": {"s390x-linux": {}}})
    system, isa = machine
    baseline = spec.hardware.systems[system].baseline if system in spec.hardware.systems else ""
    assert machine_of(spec, values, usual) == (system, baseline if isa == "baseline" else isa)


@pytest.mark.parametrize(
    ("matrix", "axes", "system"),
    [
        ({"values": {"accelerator": "cpu"}}, {}, X86),
        ({"rows": [{"python": "3.12"}, {"platform": [ARM, X86]}]}, {}, ARM),
        ({"values": {"platform": "universal"}}, DARWIN, "aarch64-darwin"),
    ],
)
def test_what_is_for_no_platform_is_built_on_the_first_of_the_matrix(
    matrix: dict[str, Any], axes: dict[str, Any], system: str
) -> None:
    spec = opened(matrix, axes=axes)
    assert spec.matrix is not None
    assert first_system(spec, spec.matrix) == system


@pytest.mark.parametrize(
    ("package", "suffix", "values", "system"),
    [
        ({}, f"python312-rocm7_1-gfx942-{ARM}", "python platform family toolkit target", ARM),
        ({"ignores": ["python"]}, f"rocm7_1-gfx942-{ARM}", "platform family toolkit target", ARM),
        ({"ignores": ["accelerator"]}, f"python312-{ARM}", "python platform", ARM),
        ({"ignores": ["family"]}, f"python312-{ARM}", "python platform", ARM),
        ({"ignores": ["target"]}, f"python312-rocm7_1-{ARM}", "python platform family toolkit", ARM),
        ({"ignores": ["platform"]}, "python312-rocm7_1-gfx942", "python family toolkit target", X86),
        ({"ignores": ["python", "platform", "accelerator"]}, "any", "", X86),
        ({"when": {"python": "3.13"}}, None, "", ""),
        ({"when": {"branch": "main"}}, f"python312-rocm7_1-gfx942-{ARM}", "python platform family toolkit target", ARM),
    ],
)
def test_a_cell_has_the_values_that_its_package_does_not_ignore(
    package: dict[str, Any], suffix: str | None, values: str, system: str
) -> None:
    rows = [{"platform": X86}, {"platform": ARM, "python": "3.12", "accelerator": "rocm 7.1 gfx942"}]
    spec = opened({"rows": rows}, {"ext": package})
    assert spec.matrix is not None
    *_, candidate = candidates(spec, ("matrix",), spec.matrix)
    found = list(Cells(spec, spec.matrix).of(candidate, list(spec.packages.values())))
    if suffix is None:
        assert found == []
        return
    (made,) = found
    assert (made.suffix, made.variants) == (suffix, (Variant(name=f"ext-{suffix}", package="ext"),))
    assert {axis for axis, _ in made.values} == {*values.split()}
    assert made.system == system


@pytest.mark.parametrize(
    ("platform", "ignored", "names", "suffix", "system"),
    [
        ({"platform": ARM}, ["python"], None, "cpu-armv9", ARM),
        ({"platform": ARM}, ["python", "isa"], None, f"cpu-{ARM}", ARM),
        ({"platform": ARM}, ["python", "isa", "platform"], None, "cpu", X86),
        ({"platform": ARM}, ["python"], "{isa}-{platform}", f"armv9-{ARM}", ARM),
        ({}, ["python"], None, "cpu-armv9", ARM),
        ({}, ["python", "isa"], None, "cpu", ARM),
    ],
)
def test_names_leave_out_the_platform_that_an_isa_implies_unless_the_spec_writes_them(
    platform: dict[str, str], ignored: list[str], names: str | None, suffix: str, system: str
) -> None:
    values = {**platform, "isa": "armv9", "python": "3.12", "accelerator": "cpu"}
    more = {"names": names} if names else {}
    spec = opened({"rows": [{"platform": X86}, values]}, {"ext": {"ignores": ignored}}, **more)
    assert spec.matrix is not None
    *_, candidate = candidates(spec, ("matrix",), spec.matrix)
    (made,) = Cells(spec, spec.matrix).of(candidate, list(spec.packages.values()))
    assert (made.suffix, made.system) == (suffix, system)


SETTINGS = {"exact": [{"when": {"accelerator": "cuda"}, "value": "13.0.2"}], "image": "alma"}
LOCAL = [{"when": {"accelerator": "cuda"}, "value": "cu@toolkit@"}]


def made(values: dict[str, Any], command: dict[str, Any] | None = None, **more: Any) -> tuple[Spec, Cell]:
    """A spec with one cell, and that cell."""
    spec = opened({"values": {"platform": X86, **values}}, {"ext": {"command": COMMAND | (command or {})}}, **more)
    (one,) = judge(spec).cells
    return spec, one


def test_the_values_of_a_cell_are_those_of_its_axes_and_settings() -> None:
    axes = {"cxx_abi": ["old"], "unused": ["x"]}
    rows = {"accelerator": "cpu", "cxx_abi": "old"}
    spec, one = made(rows, axes=axes, settings=SETTINGS)
    accelerator = {"family": "cpu", "toolkit": "", "target": ""}
    others = {"platform": X86, "cxx-abi": "old", "unused": "", "exact": "", "image": "alma"}
    assert axis_values(spec, one) == accelerator | others


@pytest.mark.parametrize(
    ("accelerator", "local", "version"),
    [
        ("cuda 13.0", {"local": LOCAL}, "1.0.0+cu13.0"),
        ("cpu", {"local": LOCAL}, "1.0.0"),
        ("cuda 13.0", {}, "1.0.0"),
    ],
)
def test_a_version_has_the_local_part_of_its_cell(accelerator: str, local: dict[str, Any], version: str) -> None:
    spec, one = made({"accelerator": accelerator}, {"version": local} if local else {})
    (variant,) = one.variants
    assert version_in(spec, one, variant) == version
    assert values_in(spec, one, *reversed(variant))["version"] == version
    assert values_in(spec, one, *reversed(variant))["family"] == accelerator.split(maxsplit=1)[0]


def test_a_variant_without_a_declared_version_has_none() -> None:
    ruled = {"version": {"local": LOCAL, "command": "cat VERSION"}}
    spec, one = made({"accelerator": "cuda 13.0"}, ruled, branches={"main": {}})
    assert version_in(spec, one, one.variants[0]) == ""


def test_the_variables_and_the_image_of_a_command_are_those_of_the_first_row_that_applies() -> None:
    image = "registry.example/a@sha256:" + "0" * 64
    env = {
        "KIND": [{"when": {"accelerator": "cpu"}, "value": "cpu"}, {"value": "@gpu@ of @name@"}],
        "NEVER": [{"when": {"accelerator": "rocm"}, "value": "x"}],
    }
    container = [{"when": {"accelerator": "cuda"}, "value": image}]
    for accelerator, kind, where in (("cpu", "cpu", ""), ("cuda 13.0 sm90", "sm90 of me", image)):
        spec, one = made({"accelerator": accelerator}, {"env": env, "container": container})
        command = spec.packages["ext"].command
        assert command is not None
        values = {"gpu": one.target, "name": "me"}
        assert command_values(command, one, values) == ({"KIND": kind}, where)


@pytest.mark.parametrize(
    ("more", "parts", "tags"),
    [
        ({}, "{python} {accelerator} {isa} {platform}", {}),
        (
            {
                "axes": {"abi": {"values": ["old"], "tag": "abi{value}"}, "platform": {"serves": {"u": [X86]}}},
                "accelerators": {"rocm": {"toolkits": ["7.1"], "tag": "roc{digits}"}, "cuda": {"toolkits": ["13.0"]}},
            },
            "{python} {abi} {accelerator} {isa} {platform}",
            {"abi": "abi{value}", "rocm": "roc{digits}"},
        ),
        ({"names": "{platform}-{isa}"}, "{platform} {isa}", {}),
    ],
)
def test_the_grammar_of_names_has_the_declared_axes_before_the_accelerator(
    more: dict[str, Any], parts: str, tags: dict[str, str]
) -> None:
    grammar = grammar_of(opened({"values": {"platform": X86}}, **more))
    assert (grammar.parts, grammar.tags) == (tuple(parts.split()), tags)


def test_a_variant_that_fits_no_axis_has_a_cell_of_its_own_on_each_of_its_branches() -> None:
    listed = {"a": {"system": ARM}, "b": {"system": "aarch64-darwin", "branches": ["two"]}}
    document = small(branches={"one": MAIN, "two": MAIN | {"cuda": "12.9"}})
    document["packages"]["pytorch"]["variants"] = listed
    spec = spec_of(document)
    found = {(one.branch, one.listed): one for one in listed_cells(spec)}
    assert list(found) == [("one", "a"), ("two", "a"), ("two", "b")]
    assert found["two", "b"] == Cell(
        branch="two",
        values=(("platform", "aarch64-darwin"),),
        isa=spec.hardware.systems["aarch64-darwin"].baseline,
        system="aarch64-darwin",
        variants=(Variant(name="b", package="pytorch"),),
        suffix="b",
    )
