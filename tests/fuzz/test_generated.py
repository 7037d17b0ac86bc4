"""Some hundred generated inputs break no reader of what comes from outside; `tests.fuzz.generated` makes more."""

from __future__ import annotations

import pytest

from tests.fuzz.generated import inputs, outcome
from tests.fuzz.readers import READERS, Reader

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", READERS)
def test_generated_inputs_break_no_reader(name: str) -> None:
    found = outcome(READERS[name], 400)
    assert (dict(found.broken), found.examples) == ({}, {})


def test_the_inputs_are_the_same_each_time_and_differ_from_one_another() -> None:
    first, second = (list(inputs(READERS["manifest"], 200)) for _ in range(2))
    assert first == second
    assert len(set(first)) > 100


def test_a_reader_that_breaks_is_found() -> None:
    def careless(data: bytes) -> float:
        return float(len(data) / (b"\xff" not in data))

    found = outcome(Reader(careless, (b'{"a": 1}',)), 400)
    assert set(found.broken) == {"ZeroDivisionError"}
