"""One browser for all tests of the page. After each test, the page must not have printed or requested anything."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.documents.browser import Page, browser


@pytest.fixture(scope="session")
def chromium() -> Iterator[Page]:
    with browser() as page:
        yield page


@pytest.fixture
def page(chromium: Page) -> Iterator[Page]:
    """A page that must print nothing on its console and request nothing but itself during the test."""
    yield chromium
    seen = chromium.seen
    assert seen["console"] == []
    assert len(set(seen["requests"])) <= 1
    assert all(address.startswith("file://") for address in seen["requests"])
