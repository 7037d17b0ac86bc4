"""Axes and their values: accelerators, conditions, settings, and the combinations of a matrix."""

from __future__ import annotations

from typing import Any

import pytest

from ci_compiler.spec.axes import (
    AXES,
    PARTS,
    Accelerator,
    AcceleratorRow,
    AxisRow,
    Exclusion,
    Join,
    Matrix,
    SettingRow,
    When,
    joins,
    python_order,
    setting_rows,
    to_when,
    value_lists,
)
from tests.spec.published import assert_published


def test_the_schema_has_these_keys() -> None:
    assert_published(AcceleratorRow, AxisRow, Exclusion, Join, SettingRow)
    assert (AXES, PARTS) == (("python", "accelerator", "isa", "platform"), ("family", "toolkit", "target"))


@pytest.mark.parametrize(
    ("text", "parts", "label"),
    [
        ("metal", ("metal", "", ""), "metal"),
        ("rocm 7.1", ("rocm", "7.1", ""), "rocm"),
        ("cuda 12.8 sm90", ("cuda", "12.8", "sm90"), "sm90"),
        ("rocm gfx90a:xnack-", ("rocm", "", "gfx90a:xnack-"), "gfx90a:xnack-"),
        ("x 1 a b", ("x", "1", "a b"), "a b"),
    ],
)
def test_an_accelerator_is_a_family_a_toolkit_and_a_target(text: str, parts: tuple[str, str, str], label: str) -> None:
    parsed = Accelerator.parse(text)
    assert (tuple(parsed), parsed.label, str(parsed)) == (parts, label, text)


CELL = {"python": "3.13", "family": "cuda", "toolkit": "12.8", "target": "sm90"}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"python": "3.13"}, True),
        ({"python": ["3.12", "3.13"]}, True),
        ({"python": "3.12"}, False),
        ({"python": "3.13", "target": "sm80"}, False),
        ({"abi": "old"}, False),
        ({"accelerator": "cuda"}, True),
        ({"accelerator": "cuda 12.8"}, True),
        ({"accelerator": "cuda 12.8 sm90"}, True),
        ({"accelerator": "cuda sm90"}, True),
        ({"accelerator": ["rocm", "cuda 12.9"]}, False),
        ({"accelerator": "cuda 12.8 sm80"}, False),
    ],
)
def test_a_condition_holds_for_a_cell_with_one_value_of_each_axis(values: dict[str, Any], *, expected: bool) -> None:
    assert to_when(values).holds(CELL) is expected


def test_a_condition_in_words() -> None:
    assert str(When(values=(("python", ("3.12", "3.13")), ("isa", ("avx2",))))) == "python 3.12 or 3.13, isa avx2"


def test_values_may_be_written_as_one() -> None:
    assert value_lists({"a": "1", "b": ["2", "3"]}) == {"a": ("1",), "b": ("2", "3")}


def test_joins_may_be_written_as_axes() -> None:
    assert joins(["python", "isa"]) == (Join(index=0, axes=("python", "isa")),)
    rows = joins([{"with": "torch"}, {"axes": ["python"], "when": {"isa": "avx2"}}])
    assert [(row.index, row.package, row.axes, row.when) for row in rows] == [
        (0, "torch", (), None),
        (1, "", ("python",), When(values=(("isa", ("avx2",)),))),
    ]


def test_a_setting_may_be_written_as_its_value() -> None:
    assert setting_rows("x") == (SettingRow(index=0, value="x"),)
    rows = setting_rows([{"value": "a", "when": {"isa": "avx2"}}, {"value": "b"}])
    assert [(row.index, row.value, row.when is None) for row in rows] == [(0, "a", False), (1, "b", True)]


OPEN = Matrix(
    values={"python": ("3.12",), "accelerator": ("cpu",)},
    rows=({"accelerator": ("cuda 13.0", "metal")}, {"python": ("3.13", "abi3")}),
)


def test_rows_take_the_place_of_values() -> None:
    assert list(OPEN.combinations) == [
        (("rows", 0), {"python": ("3.12",), "accelerator": ("cuda 13.0", "metal")}),
        (("rows", 1), {"python": ("3.13", "abi3"), "accelerator": ("cpu",)}),
    ]
    alone = Matrix(values={"python": ("3.12",)})
    assert list(alone.combinations) == [(("values",), {"python": ("3.12",)})]


def test_accelerators_have_their_place_in_the_matrix() -> None:
    assert [(path, str(accelerator)) for path, accelerator in OPEN.accelerators] == [
        (("values", "accelerator"), "cpu"),
        (("rows", 0, "accelerator"), "cuda 13.0"),
        (("rows", 0, "accelerator"), "metal"),
    ]


def test_the_values_on_an_axis_are_those_of_every_row() -> None:
    assert list(OPEN.of("python")) == ["3.12", "3.13", "abi3"]
    assert list(OPEN.of("isa")) == []
    assert list(Matrix(rows=({"python": ("3.9",)},)).of("python")) == ["3.9"]
    assert list(Matrix().combinations) == []


def test_pythons_are_ordered_by_their_minor_version() -> None:
    assert sorted(["3.14t", "3.9", "3.14", "abi3", "3.10"], key=python_order) == [
        "abi3",
        "3.9",
        "3.10",
        "3.14",
        "3.14t",
    ]
