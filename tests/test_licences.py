"""The page of licences names every dependency with the licence that its metadata names."""

from __future__ import annotations

import re
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.licences import dependencies, licence

PAGE = Path(__file__).parents[1] / ".github/docs/reference/licences.md"


def test_the_page_lists_every_dependency_that_is_installed() -> None:
    rows: dict[str, str] = dict(re.findall(r"^\| ([a-z0-9-]+) \| (.+) \|$", PAGE.read_text("utf-8"), re.MULTILINE))
    installed = dependencies()
    direct = {
        canonicalize_name(needed.name)
        for needed in map(Requirement, distribution("ci-compiler").requires or ())
        if needed.marker is None
    }
    assert direct <= set(installed)
    assert set(installed) <= set(rows)
    assert {"not named", ""}.isdisjoint(map(licence, installed.values()))
