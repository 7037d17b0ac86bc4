"""Every input of the corpus, and some thousand more that hypothesis makes of them, break no target."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.__main__ import CORPUS
from tests.fuzz.targets import CUT, TARGETS

INPUTS = sorted(path for folder in CORPUS.iterdir() for path in folder.iterdir())


def test_every_target_has_a_corpus_and_every_corpus_a_target() -> None:
    assert {path.parent.name for path in INPUTS} == set(TARGETS)
    assert all(path.stat().st_size <= 8_000 for path in INPUTS)


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_an_input_of_the_corpus_breaks_nothing(path: Path) -> None:
    TARGETS[path.parent.name](path.read_bytes())


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_mutants_of_the_corpus_break_nothing(target: str) -> None:
    known = [path.read_bytes() for path in INPUTS if path.parent.name == target]
    words = sorted({word for data in known for word in data.split()} | {CUT, b"\n", b"\xff", b"\0", b"{", b'"'})

    @settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(
        st.sampled_from(known),
        st.lists(
            st.tuples(st.floats(0, 1), st.integers(0, 30), st.sampled_from(words) | st.binary(max_size=8)), max_size=4
        ),
    )
    def mutate(data: bytes, changes: list[tuple[float, int, bytes]]) -> None:
        for where, length, new in changes:
            at = int(where * len(data))
            data = data[:at] + new + data[at + length :]
        TARGETS[target](data)

    mutate()
