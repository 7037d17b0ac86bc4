"""The reference pages match the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_compiler.cli.reference import pages

FOLDER = Path(__file__).parents[2] / ".github/docs/reference"


@pytest.mark.parametrize("name", sorted(pages()))
def test_the_page_is_as_the_code_says(name: str) -> None:
    said = (FOLDER / name).read_text("utf-8") if (FOLDER / name).is_file() else ""
    assert said == pages()[name], "`python -m ci_compiler.cli.reference .github/docs/reference` rewrites it"
