"""The workflows that others call: each that is called is written, and no other."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.workflows.render import render
from tests.plan.test_open_matrix import X86, decided
from tests.plan.test_public_matrices import planned
from tests.specs import small, spec_of

ALONE = {"values": {"platform": X86, "python": ["3.12", "3.13"]}}


def short(**changes: Any) -> Plan:
    return plan(spec_of(small(**changes)))


@pytest.mark.parametrize(
    ("made", "files"),
    [
        (short(), ["cell.yml"]),
        (short(settings={"image": "alma"}), ["cell.yml"]),
        (planned("llama-cpp"), ["cell.yml", "variant.yml"]),
        (planned("flash-attention"), ["variant.yml"]),
        (decided(ALONE), ["variant.yml"]),
        (decided(ALONE, {"ext": {}, "other": {}}), ["cell.yml"]),
        (decided(ALONE, {"ext": {}, "other": {"ignores": ["python"]}}), ["variant.yml"]),
        (decided(ALONE, {"ext": {"joins": ["python"]}}), ["joined.yml"]),
        (decided(ALONE, {"ext": {}, "other": {"needs": [{"package": "ext", "python": "3.12"}]}}), ["variant.yml"]),
    ],
)
def test_what_is_called_is_written_and_nothing_else(made: Plan, files: list[str]) -> None:
    texts = render(made.spec, made.shards)
    called = {
        name for text in texts.values() for name in re.findall(r"uses: \./\.github/workflows/([a-z-]+\.yml)", text)
    }
    written = {path.rpartition("/")[2] for path in texts}
    assert sorted(called & {"cell.yml", "joined.yml", "variant.yml"}) == files
    assert sorted(written & {"cell.yml", "joined.yml", "variant.yml"}) == files
    assert called <= written
