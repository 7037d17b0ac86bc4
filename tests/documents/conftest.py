"""One browser for all tests of the page, and a page that must have kept quiet when a test is over."""

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
    """A page that says nothing on its console and asks for nothing but itself, whatever the test does with it."""
    yield chromium
    seen = chromium.seen
    assert seen["console"] == []
    assert len(set(seen["requests"])) <= 1
    assert all(address.startswith("file://") for address in seen["requests"])
