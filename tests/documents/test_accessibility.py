"""axe finds nothing wrong on the finder page and on the forecast's, on a phone (light) and a desktop (dark)."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_compiler.documents.site.page import page as finder
from ci_compiler.plan.pipeline import plan
from ci_compiler.reports.forecast import forecast
from ci_compiler.reports.gantt import gantt
from tests.documents.browser import Page
from tests.specs import small, spec_of


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1440, "dark")])
def test_axe_finds_nothing(page: Page, tmp_path: Path, width: int, scheme: str) -> None:
    decided = plan(spec_of(small()))
    (tmp_path / "finder.html").write_text(finder(decided), "utf-8")
    (tmp_path / "forecast.html").write_text(gantt(forecast(decided)), "utf-8")
    for name in ("finder.html#gpu=H100&cpu=Zen+4", "forecast.html"):
        page.open(f"file://{tmp_path}/{name}", width=width, scheme=scheme, touch=width < 800)
        assert page.violations() == [], name
