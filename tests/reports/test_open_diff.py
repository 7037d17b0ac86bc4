"""Differences and what dropping a value saves, in open matrices: every axis and setting counts."""

from __future__ import annotations

from typing import Any

from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.reports.diff import diff
from ci_compiler.reports.without import axis_values, substitutes, without
from ci_compiler.spec.build import parse_spec
from tests.plan.test_public_matrices import GOOD, planned


def changed(name: str, old: str, new: str, *, times: int = 1) -> Plan:
    text = (GOOD / name / "ci-matrix.yaml").read_text("utf-8")
    assert text.count(old) == times
    return plan(parse_spec(text.replace(old, new).encode(), shown="spec.yaml"))


def groups(before: Plan, after: Plan) -> list[tuple[str, tuple[str, ...], int]]:
    found: Any = diff(before, after)
    return [
        (kind, group.scope, len(group.names))
        for kind in ("added", "removed", "rebuilt")
        for group in getattr(found, kind)
    ]


def test_specs_that_are_equal_differ_in_nothing() -> None:
    for name in ("flash-attention", "llama-cpp", "hf-kernels"):
        assert groups(planned(name), planned(name)) == []


def test_a_setting_rebuilds_the_variants_that_have_it() -> None:
    after = changed("flash-attention", "12.9.1", "12.9.2")
    assert groups(planned("flash-attention"), after) == [("rebuilt", ("toolkit 12.9",), 40)]


def test_a_value_of_a_declared_axis_is_named() -> None:
    after = changed("hf-kernels", '["2.12", "2.13"]', '["2.12", "2.13", "2.14"]', times=2)
    assert groups(planned("hf-kernels"), after) == [("added", ("torch 2.14",), 12)]


def test_users_of_a_declared_value_get_nothing_instead() -> None:
    kernels = planned("hf-kernels")
    assert "2.12" in axis_values(kernels)
    assert len(without(kernels, "2.12").judged.cells) == 13
    assert [(one.instead, one.variants) for one in substitutes(kernels, "2.12")] == [("", 13)]
    (toolkit,) = substitutes(kernels, "7.2")
    assert (toolkit.instead, toolkit.lost, toolkit.variants) == ("7.1", "ROCm 7.2", 2)
