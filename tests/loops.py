"""Loops of tests that assert something in each round."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

Item = TypeVar("Item")


def each(items: Iterable[Item]) -> list[Item]:
    """All `items`, of which there must be some: a loop without a round asserts nothing."""
    found = [*items]
    assert found, "there is nothing to loop over"
    return found
