"""Lists of names in a matrix become mappings, and each name keeps its place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ci_compiler.spec.accept import accepts
from ci_compiler.spec.load import parse_document
from ci_compiler.spec.schema import schema
from ci_compiler.spec.shorthand.lists import spelled_out
from tests.spec.published import FILE


def spelled(text: str) -> Any:
    return spelled_out(parse_document(text.encode(), shown="s"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("matrix: {gpus: [cpu, sm90]}", {"matrix": {"gpus": {"cpu": None, "sm90": None}}}),
        (
            "matrix: {isas: [avx2, armv9, avx512]}",
            {"matrix": {"isas": {"x86_64-linux": ["avx2", "avx512"], "aarch64-linux": ["armv9"]}}},
        ),
        ("matrix: {isas: [armv9, nothing]}", {"matrix": {"isas": {"aarch64-linux": ["armv9", "nothing"]}}}),
        ("matrix: {isas: [nothing]}", {"matrix": {"isas": {"x86_64-linux": ["nothing"]}}}),
        (
            "hardware: {isas: {mine: {system: aarch64-linux}, odd: {}}}\nmatrix: {isas: [mine, odd]}",
            {
                "hardware": {"isas": {"mine": {"system": "aarch64-linux"}, "odd": {}}},
                "matrix": {"isas": {"aarch64-linux": ["mine", "odd"]}},
            },
        ),
        (
            "packages: {a: {matrix: {gpus: [sm90]}}, b: 1}\nmatrix: {gpus: {cpu: }}",
            {"packages": {"a": {"matrix": {"gpus": {"sm90": None}}}, "b": 1}, "matrix": {"gpus": {"cpu": None}}},
        ),
        ("matrix: {gpus: [], isas: [1]}", {"matrix": {"gpus": [], "isas": [1]}}),
        ("matrix: {gpus: cpu}", {"matrix": {"gpus": "cpu"}}),
        ("matrix: [gpus]\npackages: [a]\nhardware: 3", {"matrix": ["gpus"], "packages": ["a"], "hardware": 3}),
        (
            "hardware: {isas: 3}\nmatrix: {isas: [avx]}",
            {"hardware": {"isas": 3}, "matrix": {"isas": {"x86_64-linux": ["avx"]}}},
        ),
        ("- matrix", ["matrix"]),
    ],
)
def test_lists_of_names_become_mappings_and_other_values_stay(text: str, expected: Any) -> None:
    assert spelled(text).value == expected


def test_each_name_keeps_its_place() -> None:
    document = spelled("matrix:\n  gpus: [cpu, sm90, cpu]\n  isas:\n    - avx2\n    - armv9\n    - avx512\n")
    places = {path: (place.line, place.column) for path, place in document.values.items()}
    assert (places["matrix", "gpus", "cpu"], places["matrix", "gpus", "sm90"]) == ((2, 10), (2, 15))
    assert (places["matrix", "isas", "x86_64-linux", 1], places["matrix", "isas", "aarch64-linux", 0]) == (
        (6, 7),
        (5, 7),
    )
    keys = {path: (place.line, place.column) for path, place in document.keys.items()}
    assert (keys["matrix", "gpus", "cpu"], keys["matrix", "gpus", "sm90"]) == ((2, 10), (2, 15))
    assert ("matrix", "isas", "x86_64-linux", 1) not in keys


@pytest.mark.parametrize(
    ("version", "accepted"),
    [("12.8", True), ("9.10", True), ("12", False), ("12.8.1", False), ("v12.8", False), ("123.4", False)],
)
def test_a_toolkit_has_two_numbers(version: str, *, accepted: bool) -> None:
    rule = schema()["$defs"]["cuda-version"]
    assert accepts(rule, version) is accepted
    assert rule == json.loads(FILE.read_text("utf-8"))["$defs"]["cuda-version"]
