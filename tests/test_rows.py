"""A test over a table fails with all rows that fail, and with none if there are none."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rows import for_each_row


def said(rows: list[Any]) -> str:
    """The message with which a test over `rows` fails: of each, the first number must be the smaller one."""

    @for_each_row(rows)
    def check(one: int, other: int) -> None:
        with pytest.raises(ZeroDivisionError):
            one / (one // other)
        assert one != 3

    with pytest.raises(AssertionError) as caught:
        check()
    return str(caught.value)


def test_all_rows_that_fail_are_named() -> None:
    message = said([(1, 2), (4, 2), (3, 4), (5, 6), ("x", 1)])
    assert message.startswith("3 of 5 rows fail\n\n(4, 2): line 17: Failed: DID NOT RAISE")
    assert "\n\n(3, 4): line 19: AssertionError: assert 3 != 3" in message
    assert "\n\n('x', 1): line 18: TypeError: " in message


def test_a_table_without_rows_fails() -> None:
    assert said([]).startswith("there is no row")


def test_a_skip_is_a_skip() -> None:
    @for_each_row([1])
    def check(_: int) -> None:
        pytest.skip("no")

    with pytest.raises(pytest.skip.Exception):
        check()
    assert check.__name__ == "check"
