"""The variants that a variant is built with: the nearest of those that serve it, and all that it gathers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from ci_compiler.plan.matrix import Cell, Variant
from ci_compiler.plan.needs import Link, Needs, hands_files, is_fetched, serves
from ci_compiler.plan.rules import judge
from ci_compiler.spec.edges import GATHERS, NEEDS, to_edges
from ci_compiler.spec.model import Spec
from tests.plan.test_open_matrix import COMMAND, SERVING, X86, document
from tests.specs import small, spec_of

Values = dict[str, str]


def opened(**packages: Any) -> Spec:
    return spec_of(document({"values": {"platform": X86}}, packages, axes=SERVING))


SPEC = opened(lib={}, ext={"needs": ["lib"]})


def held(package: str, branch: str = "main", **values: str) -> Cell:
    """A cell with one variant, which has these values."""
    suffix = "-".join(values.values()) or "any"
    return Cell(
        branch=branch,
        **dict.fromkeys(("isa", "system"), ""),
        variants=(Variant(name=f"{package}-{suffix}", package=package),),
        suffix=suffix,
        values=tuple(values.items()),
    )


def names(found: Iterable[tuple[Cell, Variant]]) -> list[str]:
    return [variant.name for _, variant in found]


@pytest.mark.parametrize(
    ("axis", "value", "wanted", "fits"),
    [
        ("python", "3.12", "3.12", True),
        ("python", "", "3.12", True),
        ("python", "3.12", "3.13", False),
        ("python", "abi3", "3.13", True),
        ("python", "abi3", "3.10", False),
        ("python", "3.13", "abi3", False),
        ("toolkit", "13.x", "13.1", True),
        ("isa", "avx", "avx2", False),
        ("target", "sm80", "sm86", True),
        ("target", "sm86", "sm80", False),
        ("target", "sm80", "sm90", False),
        ("target", "all", "sm90", True),
        ("target", "sm90", "all", False),
        ("target", "own", "sm90", False),
        ("family", "sm80", "sm86", False),
    ],
)
def test_a_value_serves_itself_what_the_spec_says_and_what_the_hardware_runs(
    axis: str, value: str, wanted: str, fits: bool
) -> None:
    assert serves(SPEC, axis, value, wanted) is fits


WANTED = {"python": "3.12", "family": "cuda", "toolkit": "13.0", "target": "sm86"}


@pytest.mark.parametrize(
    ("libs", "nearest"),
    [
        ([], []),
        ([{"python": "3.12"}], [0]),
        ([{"python": "abi3"}], [0]),
        ([{"python": "3.13"}], []),
        ([{}], [0]),
        ([{}, {"python": "3.12"}], [1]),
        ([{"python": "abi3"}, {"python": "3.12"}], [1]),
        ([{"python": "abi3"}, {"python": "3.13"}], [0]),
        ([{"python": "3.12"}, {"family": "cuda"}], [0, 1]),
        ([{"python": "3.12"}, {"family": "rocm"}], [0]),
        ([{"python": "3.12"}, {"python": "3.12", "isa": "avx2"}], [0, 1]),
        ([{"python": "3.12", "toolkit": "12.8"}, {"python": "3.12"}], [1]),
        ([{"python": "3.12", "toolkit": "13.x"}, {"python": "3.12", "toolkit": "13.0"}], [1]),
        ([{"target": "sm80"}, {"target": "sm90"}], [0]),
        ([{"target": "sm80"}, {"target": "sm86"}], [1]),
        ([{"target": "sm80", "python": "3.12"}, {"target": "sm86"}], [0, 1]),
    ],
)
def test_the_nearest_variant_that_serves_is_found(libs: list[Values], nearest: list[int]) -> None:
    cells = [held("lib", **values) for values in libs]
    dependent = held("ext", **WANTED)
    needs = Needs(SPEC, [held("lib", "other", **WANTED), *cells, dependent])
    assert [cells.index(cell) for cell, _ in needs.found(dependent, "lib")] == nearest


def test_a_cell_that_holds_the_package_has_its_own_and_a_listed_one_takes_no_other() -> None:
    lib, ext = Variant(name="lib-x", package="lib"), Variant(name="ext-x", package="ext")
    axes = {"branch": "main", "values": (("python", "3.12"),), "isa": "avx2", "system": X86}
    both, listed = Cell(**axes, suffix="x", variants=(lib, ext)), Cell(**axes, suffix="ext-x", variants=(ext,))
    needs = Needs(SPEC, [held("lib"), both, listed])
    assert needs.found(both, "lib") == [(both, lib)]
    assert needs.found(listed, "lib") == []


LIBS = [{"python": "3.12", "isa": "avx2"}, {"python": "3.13", "isa": "avx2"}, {"python": "abi3", "isa": "avx"}]


@pytest.mark.parametrize(
    ("kind", "edge", "reached"),
    [
        (GATHERS, {}, [0]),
        (GATHERS, {"python": "all"}, [0, 1]),
        (GATHERS, {"python": "all", "isa": "all"}, [0, 1, 2]),
        (GATHERS, {"isa": "all"}, [0, 2]),
        (GATHERS, {"python": ["3.12", "3.13"]}, [0, 1]),
        (GATHERS, {"isa": "avx512"}, []),
        (NEEDS, {}, [0]),
        (NEEDS, {"python": "3.13"}, [1]),
        (NEEDS, {"python": "3.13", "isa": "all"}, [1]),
        (NEEDS, {"python": "3.11", "isa": "all"}, [2]),
        (NEEDS, {"python": "all"}, [0, 1]),
        (NEEDS, {"python": ["3.12", "3.13"]}, [0, 1]),
        (NEEDS, {"python": ["3.11", "3.13"], "isa": "all"}, [1]),
    ],
)
def test_an_edge_reaches_every_match_or_the_nearest(kind: str, edge: dict[str, Any], reached: list[int]) -> None:
    cells = [held("lib", **values) for values in LIBS]
    dependent = held("ext", python="3.12", isa="avx2")
    (one,) = to_edges([{"package": "lib", **edge}])
    found = Needs(SPEC, [*cells, dependent]).reached(dependent, kind, one)
    assert [cells.index(cell) for cell, _ in found] == reached


def test_a_variant_has_the_links_of_the_edges_that_hold_for_it() -> None:
    needed = [{"package": "lib", "python": "all"}, {"package": "tool", "when": {"python": "3.13"}}]
    spec = opened(lib={}, tool={}, ext={"needs": needed, "gathers": ["tool", {"package": "lib", "python": "all"}]})
    libs = [held("lib", python=python) for python in ("3.12", "3.13")]
    tool, old, new = held("tool"), held("ext", python="3.12"), held("ext", python="3.13")
    needs = Needs(spec, [*libs, tool, old, new])
    gathered = [Link(GATHERS, cell, cell.variants[0]) for cell in (tool, *libs)]
    first, other = (Link(NEEDS, cell, cell.variants[0]) for cell in (libs[0], tool))
    assert list(needs.links(old, "ext")) == [first, *gathered]
    assert list(needs.links(new, "ext")) == [first, other, *gathered]
    assert names(needs.of(old, "ext")) == ["lib-3.12", "tool-any", "lib-3.12", "lib-3.13"]
    listed = replace(old, suffix=old.variants[0].name)
    assert list(needs.edges(listed, "ext")) == []


def test_an_edge_to_the_variant_itself_does_not_hold_for_it() -> None:
    entry = {"package": "lib", "python": "3.12"}
    spec = opened(lib={"needs": [entry], "gathers": [{"package": "lib", "python": "all"}]})
    old, new = held("lib", python="3.12"), held("lib", python="3.13")
    needs = Needs(spec, [old, new])
    assert [(link.kind, link.variant.name) for link in needs.links(old, "lib")] == [(GATHERS, "lib-3.13")]
    both = [(NEEDS, "lib-3.12"), (GATHERS, "lib-3.12")]
    assert [(link.kind, link.variant.name) for link in needs.links(new, "lib")] == both


def test_all_that_a_variant_is_built_with_comes_once_and_in_build_order() -> None:
    spec = opened(a={}, b={"needs": ["a"]}, c={"needs": ["a"], "gathers": ["b"]}, d={"needs": ["c", "b"]}, e={})
    cells = {name: held(name) for name in "edcba"}
    needs = Needs(spec, cells.values())
    assert names(needs.every(cells["d"], "d")) == ["a-any", "b-any", "c-any"]
    assert needs.every(cells["a"], "a") == ()
    assert [cell.variants[0].package for cell in needs.cells_before(cells["d"])] == ["c", "b"]
    assert needs.cells_before(cells["a"]) == []


def test_cells_before_are_the_others_each_once() -> None:
    spec = opened(lib={}, ext={"needs": ["lib"]}, app={"needs": ["lib", "ext"]})
    ext, app = Variant(name="ext-x", package="ext"), Variant(name="app-x", package="app")
    lib = held("lib")
    both = replace(lib, variants=(ext, app), suffix="x")
    needs = Needs(spec, [lib, both])
    assert needs.cells_before(both) == [lib]


def test_cells_that_hold_what_they_need_have_none_before_them() -> None:
    spec = spec_of(small())
    cells = judge(spec).cells
    needs = Needs(spec, cells)
    assert [needs.cells_before(cell) for cell in cells] == [[]] * len(cells)
    assert names(needs.of(cells[0], "torchvision")) == [cells[0].variants[0].name]


def test_the_variants_and_the_values_of_a_package_on_a_branch() -> None:
    cells = [held("lib", python="3.12"), held("lib", isa="avx2"), held("lib", "old", python="3.9"), held("ext")]
    needs = Needs(SPEC, cells)
    assert [cell for cell, _ in needs.holding("main", "lib")] == cells[:2]
    assert list(needs.holding("main", "tool")) == []
    assert needs.values_of("main", "lib", "python") == {"3.12"}
    assert needs.values_of("old", "lib", "python") == {"3.9"}
    assert needs.values_of("old", "lib", "isa") == set()


def test_files_are_handed_where_the_backend_makes_some_and_an_edge_leads_to_them() -> None:
    spec = opened(lib={}, ext={"needs": ["lib"]}, all={"gathers": ["lib"]})
    assert [hands_files(spec, name) for name in ("", "lib", "ext", "all")] == [True, False, True, True]
    assert not hands_files(opened(lib={}, ext={}))
    assert not hands_files(spec_of(small()))
    fetched = opened(lib={"command": {**COMMAND, "fetch": "pip download lib"}}, ext={})
    assert [is_fetched(fetched, name) for name in fetched.packages] == [True, False]
    assert not is_fetched(spec_of(small()), "pytorch")
