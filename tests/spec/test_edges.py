"""Edges of the spec: which values a variant must have that another one is built with, and the order of packages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ci_compiler.spec.edges import circle, circle_in_words, in_build_order, to_edges
from ci_compiler.spec.model import Spec
from ci_compiler.spec.schema import schema
from tests.spec.published import FILE
from tests.specs import small, spec_of

CELL = {
    "python": "3.13",
    "family": "cuda",
    "toolkit": "12.8",
    "target": "sm90",
    "platform": "x86_64-linux",
    "isa": "avx2",
}


@pytest.mark.parametrize(
    ("written", "axes", "wanted"),
    [
        ("torch", CELL, [CELL]),
        ({"package": "torch", "python": "3.12"}, CELL, [CELL | {"python": "3.12"}]),
        ({"package": "torch", "python": "all"}, CELL, [{axis: CELL[axis] for axis in CELL if axis != "python"}]),
        (
            {"package": "torch", "python": ["3.12", "3.13"], "isa": ["avx", "avx2"]},
            {"python": "3.13", "isa": "avx2"},
            [
                {"python": "3.12", "isa": "avx"},
                {"python": "3.12", "isa": "avx2"},
                {"python": "3.13", "isa": "avx"},
                {"python": "3.13", "isa": "avx2"},
            ],
        ),
        (
            {"package": "torch", "accelerator": "cpu"},
            CELL,
            [{"python": "3.13", "family": "cpu", "platform": "x86_64-linux", "isa": "avx2"}],
        ),
        (
            {"package": "torch", "family": "cuda"},
            {"family": "cpu", "target": "cpu", "isa": "avx2"},
            [{"isa": "avx2", "family": "cuda"}],
        ),
        (
            {"package": "torch", "platform": "aarch64-linux"},
            CELL,
            [{axis: CELL[axis] for axis in CELL if axis != "isa"} | {"platform": "aarch64-linux"}],
        ),
    ],
)
def test_an_edge_wants_the_values_of_the_dependent_but_for_those_that_it_names(
    written: Any, axes: dict[str, str], wanted: list[dict[str, str]]
) -> None:
    (edge,) = to_edges([written])
    assert edge.wanted(axes) == wanted


@pytest.mark.parametrize(
    ("written", "plain", "shown"),
    [
        ("torch", True, "torch"),
        ({"package": "torch", "python": "3.12"}, False, "torch (python 3.12)"),
        ({"package": "torch", "when": {"python": "3.12"}}, False, "torch"),
    ],
)
def test_an_edge_is_plain_if_it_names_neither_values_nor_cells(written: Any, plain: bool, shown: str) -> None:
    _, edge = to_edges(["other", written])
    assert (edge.index, edge.package, edge.is_plain, str(edge)) == (1, "torch", plain, shown)


def test_an_edge_holds_for_the_cells_of_its_condition() -> None:
    (edge,) = to_edges([{"package": "torch", "when": {"python": "3.12"}, "isa": "avx"}])
    assert edge.when is not None
    assert (edge.when.values, edge.values) == ((("python", ("3.12",)),), (("isa", ("avx",)),))


def spec_with(**needs: list[str]) -> Spec:
    """Packages and what they need, in one shell's order."""
    document = small()
    document["branches"]["main"]["versions"] = dict.fromkeys(needs, "1.0")
    return spec_of(document | {"packages": {name: {"needs": others} for name, others in needs.items()}})


@pytest.mark.parametrize(
    ("needs", "order"),
    [
        ({"a": [], "b": [], "c": []}, "abc"),
        ({"a": ["c"], "b": [], "c": ["b"]}, "bca"),
        ({"a": ["d"], "b": ["a"], "c": [], "d": []}, "cdab"),
    ],
)
def test_a_package_comes_after_those_that_it_needs(needs: dict[str, list[str]], order: str) -> None:
    assert "".join(package.name for package in in_build_order(spec_with(**needs).packages)) == order


REMEDY = "one of them must not need the next"


class Needing:
    """A package, as far as the order of packages asks."""

    def __init__(self, name: str, *needs: str, sometimes: str = "") -> None:
        self.name, self.needs, self.sometimes = name, needs, tuple(sometimes)

    def built_after(self, *, always: bool = False) -> tuple[str, ...]:
        return self.needs if always else self.needs + self.sometimes


@pytest.mark.parametrize(
    ("needs", "expected", "words"),
    [
        ({"a": "a"}, ("a",), "a needs itself"),
        ({"a": "b", "b": "c", "c": "b"}, ("b", "c"), f"b needs c, which needs b; {REMEDY}"),
        ({"a": "bc", "b": "d", "c": "a", "d": "a"}, ("a", "c"), f"a needs c, which needs a; {REMEDY}"),
    ],
)
def test_the_shortest_circle_is_named(needs: dict[str, str], expected: tuple[str, ...], words: str) -> None:
    packages: Any = {name: Needing(name, *others) for name, others in needs.items()}
    assert circle(packages) == expected
    assert circle_in_words(expected) == words
    with pytest.raises(ValueError, match=words.replace(".", r"\.")):
        in_build_order(packages)


def test_packages_without_a_circle_have_none() -> None:
    packages: Any = {"a": Needing("a", "b", "gone"), "b": Needing("b")}
    assert circle(packages) == ()


@pytest.mark.parametrize(
    ("packages", "order"),
    [
        ([Needing("a", sometimes="b"), Needing("b"), Needing("c")], "bca"),
        ([Needing("a", sometimes="b"), Needing("b", sometimes="a"), Needing("c")], "cab"),
        ([Needing("a", "b"), Needing("b", sometimes="a")], "ba"),
    ],
)
def test_a_condition_yields_where_packages_need_each_other(packages: Any, order: str) -> None:
    made: Any = {package.name: package for package in packages}
    assert circle(made) == ()
    assert "".join(package.name for package in in_build_order(made)) == order


def test_the_published_schema_has_the_form_of_edges() -> None:
    published = json.loads(FILE.read_text("utf-8"))["$defs"]
    for definition in ("edge", "package"):
        assert published[definition] == schema()["$defs"][definition]
    assert (
        published["package"]["properties"]["needs"]["items"]["title"] == "a package, or a mapping with the key package"
    )
