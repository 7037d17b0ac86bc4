"""GitHub's limits by name, and what path filters do not see."""

from __future__ import annotations

import pytest

from ci_compiler.plan.limits import Limit, beyond_filters, limit


def test_a_limit_has_a_gate_at_or_below_it() -> None:
    assert limit("filtered-files") == Limit(gate=300, limit=300)
    assert limit("hosted-minutes").limit == 360
    with pytest.raises(KeyError, match="nothing"):
        limit("nothing")


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (300, ""),
        (301, "a push changes 301 files, and GitHub's path filters see 300"),
        (1234, "a push changes 1,234 files, and GitHub's path filters see 300"),
    ],
)
def test_what_changes_more_files_than_path_filters_see(files: int, expected: str) -> None:
    assert beyond_filters("a push", files) == expected
