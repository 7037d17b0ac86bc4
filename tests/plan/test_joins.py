"""Builds that make several variants: how they are named, and what no build can join."""

from __future__ import annotations

from typing import Any

import pytest

from ci_compiler.errors import Finding
from ci_compiler.plan.joins import Build, builds, cells_by_build, with_joins
from ci_compiler.plan.matrix import Cell, Variant
from ci_compiler.plan.rules import judge
from tests.plan.test_open_matrix import ARM, COMMAND, X86, document
from tests.specs import small, spec_of

VALUES = {"platform": X86, "python": ["3.12", "3.13"]}


def cell(*packages: str, branch: str = "main", joined: str = "", suffix: str = "x") -> Cell:
    return Cell(
        branch=branch,
        values=(),
        **dict.fromkeys(("isa", "system"), ""),
        variants=tuple(Variant(name=f"{package}-{suffix}", package=package) for package in packages),
        suffix=suffix,
        joined=joined,
    )


def test_a_build_makes_a_variant_or_those_of_the_cells_that_name_it() -> None:
    cells = [
        cell("a", "b"),
        cell("c", joined="all", suffix="1"),
        cell("c", branch="old", joined="all"),
        cell("c", "d", joined="all", suffix="2"),
    ]
    made = [(one.name, one.branch, [variant.name for _, variant in one.variants]) for one in builds(cells)]
    assert made == [
        ("a-x", "main", ["a-x"]),
        ("b-x", "main", ["b-x"]),
        ("all", "main", ["c-1", "c-2", "d-2"]),
        ("all", "old", ["c-x"]),
    ]
    assert builds(cells[:1])[0] == Build(name="a-x", branch="main", variants=((cells[0], cells[0].variants[0]),))
    assert list(cells_by_build(cells)) == [("all", cells[1:])]
    assert list(cells_by_build(cells[:1])) == []


def joined(packages: dict[str, Any], matrix: dict[str, Any] | None = None, **more: Any) -> dict[str, list[str]]:
    """The variants of each build, by its name."""
    judged = judge(spec_of(document(matrix or {"values": VALUES}, packages, **more)))
    assert judged.findings == ()
    return {one.name: [variant.name for _, variant in one.variants] for one in builds(judged.cells)}


@pytest.mark.parametrize(
    ("packages", "made"),
    [
        ({"lib": {"joins": ["python"]}}, {f"lib-{X86}": ["lib-python312", "lib-python313"]}),
        (
            {"lib": {"joins": [{"axes": ["python"], "when": {"python": "3.12"}}]}},
            {f"lib-python312-{X86}": ["lib-python312"], f"lib-python313-{X86}": ["lib-python313"]},
        ),
        (
            {"lib": {}, "ext": {"joins": [{"with": "lib"}]}},
            {f"lib-python{tag}-{X86}": [f"lib-python{tag}", f"ext-python{tag}"] for tag in ("312", "313")},
        ),
        (
            {"lib": {"joins": ["python"]}, "ext": {"joins": [{"with": "lib"}]}},
            {f"lib-{X86}": ["lib-python312", "ext-python312", "lib-python313", "ext-python313"]},
        ),
        (
            {"lib": {}, "ext": {"joins": [{"with": "lib", "axes": ["python"]}]}},
            {
                "lib-python312": ["lib-python312"],
                "lib-python313": ["lib-python313"],
                "lib": ["ext-python312", "ext-python313"],
            },
        ),
        (
            {"lib": {}, "ext": {"joins": [{"with": "lib", "when": {"python": "3.13"}}, {"axes": ["python"]}]}},
            {
                "lib-python312": ["lib-python312"],
                "lib-python313": ["lib-python313", "ext-python313"],
                "ext-python312": ["ext-python312"],
            },
        ),
    ],
)
def test_what_a_build_makes_follows_from_the_first_row_that_applies(
    packages: dict[str, Any], made: dict[str, list[str]]
) -> None:
    found = joined(packages)
    assert {name.removesuffix(f"-{X86}"): names for name, names in found.items()} == {
        name.removesuffix(f"-{X86}"): [f"{one}-{X86}" for one in names] for name, names in made.items()
    }


def test_a_build_of_all_values_is_called_any_and_each_branch_has_its_own() -> None:
    matrix = {"values": {"python": ["3.12", "3.13"]}}
    branches = {name: {"versions": {"lib": version}} for name, version in (("main", "2"), ("old", "1"))}
    found = builds(judge(spec_of(document(matrix, {"lib": {"joins": ["python"]}}, branches=branches))).cells)
    names = ["lib-python312", "lib-python313"]
    assert [(one.branch, one.name, [variant.name for _, variant in one.variants]) for one in found] == [
        (branch, "lib-any", names) for branch in ("main", "old")
    ]


def test_a_variant_that_no_other_is_made_with_keeps_its_cell() -> None:
    values = {"platform": X86, "python": "3.12"}
    spec = spec_of(document({"values": values}, {"lib": {"joins": ["python"]}, "ext": {}}))
    assert [one.joined for one in judge(spec).cells] == [""]
    both = spec_of(document({"values": values}, {"lib": {}, "ext": {"joins": [{"with": "lib"}]}, "own": {}}))
    parts = [(one.joined, [variant.package for variant in one.variants]) for one in judge(both).cells]
    assert parts == [(f"lib-python312-{X86}", ["lib", "ext"]), ("", ["own"])]


ENV = {"command": {**COMMAND, "env": {"TAG": [{"when": {"abi": "old", "python": "3.12"}, "value": "x"}]}}}
CONTAINER = {
    "command": {
        **COMMAND,
        "container": [
            {"when": {"abi": "old"}, "value": "registry.example/a@sha256:" + "0" * 64},
        ],
    }
}
APART = "its variants are built on different machines"
DEPENDS = "its `env` or `container` depends on it"


@pytest.mark.parametrize(
    ("lib", "problem"),
    [
        ({"joins": ["platform"]}, f"lib cannot join platform: {APART}"),
        ({"joins": ["target", "python", "family"]}, f"lib cannot join family and target: {APART}"),
        ({"joins": ["accelerator"]}, f"lib cannot join accelerator: {APART}"),
        ({"joins": ["isa"]}, f"lib cannot join isa: {APART}"),
        ({"joins": ["abi"], **ENV}, f"lib cannot join abi: {DEPENDS}"),
        ({"joins": ["python", "abi"], **ENV}, f"lib cannot join abi and python: {DEPENDS}"),
        ({"joins": ["abi"], **CONTAINER}, f"lib cannot join abi: {DEPENDS}"),
        ({"joins": [{"with": "lib"}]}, "lib joins itself"),
        (
            {"joins": [{"with": "ext"}]},
            f"lib joins builds of ext, which is not built for python313-abiold-{X86} on main",
        ),
        ({"joins": ["python"], **CONTAINER}, ""),
    ],
)
def test_a_build_that_cannot_join_is_an_error_at_its_package_and_said_once(lib: dict[str, Any], problem: str) -> None:
    packages = {"lib": lib, "ext": {"when": {"python": "3.12"}}}
    axes = {"abi": {"values": ["old", "new"], "tag": "abi{value}"}}
    spec = spec_of(document({"values": {**VALUES, "abi": ["old", "new"]}}, packages, axes=axes))
    found = judge(spec).findings
    assert [(one.code, one.message) for one in found if one.code == "join-unusable"] == (
        [("join-unusable", problem)] if problem else []
    )
    assert all(one.place == spec.place("packages", "lib", "joins", key=True) for one in found)
    assert bool(found) is bool(problem)


def test_recipes_are_built_one_by_one() -> None:
    given = small(backend="nix")
    given["packages"]["pytorch"]["joins"] = ["python"]
    found = judge(spec_of(given)).findings
    said = "backend nix builds each recipe by itself; only build scripts make several variants"
    assert [one.message for one in found] == [said]


def test_cells_that_join_nothing_stay_as_they_are() -> None:
    spec = spec_of(document({"values": {"platform": [X86, ARM]}}, {"lib": {}, "ext": {}}))
    cells, findings = list(judge(spec).cells), list[Finding]()
    assert with_joins(spec, cells, findings) == cells
    assert findings == []
