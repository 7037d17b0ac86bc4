"""Compiled workflows in the model of GitHub: whole runs, all interleavings, seeded faults, and what was in doubt."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from ci_compiler.canary.assumptions import assumptions
from tests.github_model.explore import explore
from tests.github_model.faults import FAULTS
from tests.github_model.scenarios import Stack, bundled, miniature, scenarios
from tests.github_model.switches import AS_REGISTERED, not_registered

AS = "as registered"
"""How the names of scenarios end that are searched with the switches as the register has them, in one stack."""

STACKS = {"bundled": bundled, "miniature": miniature}

SEARCHES = [
    (stack, name) for stack in STACKS for name in scenarios(miniature()) if stack == "bundled" or AS not in name
]

Found = set[tuple[str, frozenset[str]]]
"""Kinds of violations, each with the rows of the register that do not hold then."""

RELIED_ON: Found = {
    ("fails although nothing went wrong", frozenset({"called-secret"})),  # in its preflight: nothing is built
    ("a pause ignored", frozenset({"variables-rerun"})),
}
"""What goes wrong where a row does not hold: the files can do nothing about it."""


@pytest.fixture(params=STACKS)
def stack(request: pytest.FixtureRequest) -> Stack:
    return STACKS[request.param]()


@cache
def found_in(stack: Stack, name: str) -> Found:
    """What is wrong in a scenario, each with the fewest rows that do not hold.

    The stacks differ in names alone where jobs are re-run, so that one of them shows what the switches do there.
    """
    registered = name.endswith(AS) or ("re-run" in name and stack is not bundled())
    stories = explore(scenarios(stack)[name], AS_REGISTERED if registered else None).stories
    every = {(one.kind, frozenset(row for row, holds in one.settings.items() if not holds)) for one in stories}
    return {(kind, rows) for kind, rows in every if not any(kind == other and less < rows for other, less in every)}


def test_every_switch_is_a_row_of_the_canary() -> None:
    assert not_registered() == []


def test_what_depends_on_a_row_is_a_row_that_the_register_says_is_used() -> None:
    assert [row for _, rows in RELIED_ON for row in rows if assumptions()[row].unused] == []


@pytest.mark.parametrize(("stack", "name"), SEARCHES, indirect=["stack"])
def test_no_interleaving_of_the_compiled_files_goes_wrong_however_github_behaves(stack: Stack, name: str) -> None:
    assert found_in(stack, name) <= RELIED_ON


def test_nothing_else_depends_on_how_github_behaves() -> None:
    """Every other row may hold or not: then, runs fail visibly, or end as they should."""
    assert set().union(*(found_in(bundled(), name) for name in scenarios(bundled()))) == RELIED_ON


@pytest.mark.parametrize("fault", FAULTS)
def test_the_model_finds_a_seeded_fault(stack: Stack, fault: str) -> None:
    seeded = FAULTS[fault]
    scenario = seeded.scenario(stack)
    assert explore(scenario, AS_REGISTERED).kinds == set()
    world = replace(scenario.world, tree=stack.tree.changed(seeded.edit))
    found = explore(replace(scenario, world=world), AS_REGISTERED, first=True)
    assert seeded.kind in found.kinds
    assert str(found.stories[0]).startswith(f"{found.stories[0].kind}:\n1. ")
