"""Packages and branches: their keys, and what they say of recipes, edges, branches and listed variants."""

from __future__ import annotations

from typing import Any

import pytest

from ci_compiler.spec.packages import ListedVariant, Package, Pin, RecipeKind, Repository, Source
from tests.spec.published import assert_published
from tests.specs import MAIN, branches, small, spec_of

COMPILED, TEMPLATE, OWN = RecipeKind.COMPILED, RecipeKind.TEMPLATE, RecipeKind.OWN


def test_the_schema_has_these_keys() -> None:
    assert_published(ListedVariant, Package, Pin, Repository, Source)


def package(**keys: Any) -> Package:
    """The package `vllm` with these keys, beside those of the small spec, on two branches."""
    branch = MAIN | {"versions": MAIN["versions"] | {"vllm": "0.1"}}
    document = small(branches={"main": branch, "next": branch})
    document["packages"]["vllm"] = keys
    return spec_of(document).packages["vllm"]


@pytest.mark.parametrize("cuda", [["12.9", "12.8"], {"12.9": {}, "12.8": None}])
def test_the_toolkits_of_a_branch_are_a_list_or_a_mapping(cuda: Any) -> None:
    assert list(spec_of(small(**branches(cuda=cuda))).branches["main"].toolkits) == ["12.9", "12.8"]


LISTED = {"recipes": "own", "variants": {"vllm-x": {"system": "x86_64-linux", "branches": ["next"]}}}


@pytest.mark.parametrize(
    ("keys", "name", "kind", "kinds"),
    [
        ({}, "vllm-a", COMPILED, {COMPILED}),
        ({"recipes": "own"}, "vllm-a", OWN, {OWN}),
        ({"recipes": {"*-cpu-*": "own"}}, "vllm-python313-cpu-avx2", OWN, {OWN, COMPILED}),
        ({"recipes": {"*-cpu-*": "own"}}, "vllm-python313-cuda12_8-sm90-avx2", COMPILED, {OWN, COMPILED}),
        (
            {"recipes": {"*-cpu-*": "own", "*": "template"}, "template": "nix/a.nix"},
            "vllm-b",
            TEMPLATE,
            {OWN, TEMPLATE},
        ),
        (LISTED, "vllm-x", OWN, {OWN}),
        (LISTED | {"recipes": "compiled"}, "vllm-x", OWN, {COMPILED}),
        ({"system": "x86_64-linux"}, "vllm", OWN, set()),
    ],
)
def test_where_the_recipe_of_a_variant_comes_from(
    keys: dict[str, Any], name: str, kind: RecipeKind, kinds: set[RecipeKind]
) -> None:
    made = package(**keys)
    assert made.kind_of(name) is kind
    assert {one for one in RecipeKind if made.may_be(one)} == kinds


def test_a_listed_variant_is_on_its_branches() -> None:
    made = package(**LISTED)
    assert [[one.name for one in made.listed(branch)] for branch in ("main", "next")] == [[], ["vllm-x"]]
    alone = package(system="x86_64-linux", branches=["main"])
    assert [[one.name for one in alone.listed(branch)] for branch in ("main", "next")] == [["vllm"], []]
    assert [one.system for one in alone.listed("main")] == ["x86_64-linux"]


@pytest.mark.parametrize(("branches", "on"), [([], [True, True]), (["next"], [False, True])])
def test_a_package_is_on_all_branches_or_those_that_it_names(branches: list[str], on: list[bool]) -> None:
    made = package(branches=branches) if branches else package()
    assert [made.on("main"), made.on("next")] == on


def test_edges_and_what_they_lead_to() -> None:
    made = package(
        needs=["pytorch", {"package": "torchvision", "when": {"python": "3.13"}}, {"package": "pytorch", "isa": "avx2"}]
    )
    assert [kind for kind, _ in made.edges_by_kind] == ["needs", "gathers"]
    assert [[edge.package for edge in edges] for _, edges in made.edges_by_kind] == [
        ["pytorch", "torchvision", "pytorch"],
        [],
    ]
    assert made.needs == ("pytorch",)
    assert made.built_after() == ("pytorch", "torchvision")
    assert made.built_after(always=True) == ("pytorch",)


def test_the_first_reason_that_fits_counts_for_what_is_untested() -> None:
    made = package(untested={"*-sm90-*": "no machine", "*": "nothing to test"})
    assert made.why_untested("vllm-python313-cuda12_8-sm90-avx2") == "no machine"
    assert made.why_untested("vllm-python313-cpu-avx2") == "nothing to test"
    assert package().why_untested("vllm-python313-cpu-avx2") == ""


def test_the_file_that_builds_a_variant() -> None:
    assert package().source("vllm-a") == ".flox/pkgs/vllm-a.nix"
