"""One test over a table: it tries every row, and its message has each one that fails."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from typing import Any

import pytest

Check = Callable[..., None]


def for_each_row(rows: Iterable[Any], name: Callable[[Any], str] = repr) -> Callable[[Check], Callable[[], None]]:
    """A decorator that calls a test with each row; one that is a tuple is its arguments. A table without rows fails."""

    table = list(rows)

    def decorate(check: Check) -> Callable[[], None]:
        def test() -> None:
            assert table, "there is no row"
            failed = []
            for row in table:
                try:
                    check(*row) if isinstance(row, tuple) else check(row)
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001  (`pytest.raises` fails with the second)
                    at = traceback.extract_tb(error.__traceback__)[1]
                    failed.append(f"{name(row)[:200]}: line {at.lineno}: {type(error).__name__}: {error}")
            assert not failed, "\n\n".join([f"{len(failed)} of {len(table)} rows fail", *failed])

        test.__name__, test.__qualname__, test.__doc__ = check.__name__, check.__qualname__, check.__doc__
        test.__module__ = check.__module__
        return test

    return decorate
