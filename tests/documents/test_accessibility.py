"""axe finds nothing wrong on the finder page, on a phone and a desktop, in light and dark."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_compiler.documents.site.page import page as finder
from ci_compiler.github.runs import lasts_of
from ci_compiler.plan.pipeline import plan
from tests.documents.browser import Page
from tests.histories import history
from tests.specs import small, spec_of


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_axe_finds_nothing(page: Page, tmp_path: Path, width: int, scheme: str) -> None:
    decided = plan(spec_of(small()))
    failing = history(decided, days=6, failures=0.8)
    lasts = list(lasts_of(decided, failing, "github.com"))
    assert any(one.result == "failed" for one in lasts)
    (tmp_path / "finder.html").write_text(finder(decided, "my-org/stack", lasts, records=failing), "utf-8")
    page.open(f"file://{tmp_path}/finder.html#gpu=H100&cpu=Zen+4", width=width, scheme=scheme, touch=width < 800)
    assert page.violations() == []
    assert page.run("document.querySelectorAll('#answer li.failing').length") > 0
    for summary in ("#answer .others summary", "#answer .verify summary", ".paste summary"):
        page.click(summary)
    assert page.violations() == [], "everything open"
    page.click(".cell.best")
    assert page.violations() == [], "a cell open"
