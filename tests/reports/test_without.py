"""`forecast --without`: what dropping a value of an axis saves, and what the users of its variants get instead."""

from __future__ import annotations

import json

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.reports.forecast import forecast
from ci_compiler.reports.without import axis_values, substitutes, without
from ci_compiler.spec.build import bundled_spec


@pytest.fixture(scope="module")
def bundled() -> Plan:
    return plan(bundled_spec())


@pytest.mark.parametrize("value", ["avx512vnni", "sm86", "13.0", "cpu"])
def test_the_rest_of_the_plan_stays_as_it_is(bundled: Plan, value: str) -> None:
    made = without(bundled, value)
    dropped = [cell for cell in bundled.judged.cells if value in {cell.target, cell.isa, cell.toolkit}]
    assert dropped
    assert set(made.judged.cells) == set(bundled.judged.cells) - set(dropped)
    routes = dict(zip(bundled.judged.cells, bundled.routes, strict=True))
    assert {cell: route for shard in made.shards for cell, route in shard.cells} == {
        cell: routes[cell] for cell in made.judged.cells
    }
    assert sum(one.variants for one in substitutes(bundled, value)) == sum(len(cell.variants) for cell in dropped)


@pytest.mark.parametrize(
    ("value", "instead", "lost"),
    [
        ("avx512vnni", {"avx512"}, {"instructions: avx512_vnni"}),
        ("sm86", {"sm80"}, {"code for sm86 itself"}),
        ("sm120", {"cpu"}, {"the GPU"}),
        ("cpu", {""}, {"everything: no other variant of the branch runs there"}),
    ],
)
def test_users_get_the_best_variant_that_their_machines_run(
    bundled: Plan, value: str, instead: set[str], lost: set[str]
) -> None:
    found = substitutes(bundled, value)
    assert ({one.instead for one in found}, {one.lost for one in found}) == (instead, lost)


def test_the_command_prints_both(bundled: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(PROGRAM, ["forecast", "--without", "avx512vnni", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    less = forecast(without(bundled, "avx512vnni"))
    assert (found["without"]["variants"], found["without"]["seconds"]) == (less.variants, less.seconds)
    assert less.seconds < found["seconds"]
    assert [one["instead"] for one in found["without"]["instead"]] == ["avx512"]


def test_a_value_on_no_axis_is_an_error(bundled: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    assert {"3.13", "12.8", "sm90", "avx2", "cpu"} <= set(axis_values(bundled))
    assert run(PROGRAM, ["forecast", "--without", "avx51"]) == 2
    assert "'avx51' is on no axis of the spec; did you mean avx512" in capsys.readouterr().err
    assert run(PROGRAM, ["forecast", "--without", "3.13"]) == 2
    assert "without '3.13' there is no variant left to build" in capsys.readouterr().err
