"""The Python API: the page lists its names, and importing the package stays cheap."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from ci_compiler import api

PAGE = Path(__file__).parents[1] / ".github/docs/python-api.md"


def test_the_page_lists_every_stable_name_once() -> None:
    table = PAGE.read_text("utf-8").partition("## All names")[2]
    assert sorted(re.findall(r"`(\w+)`", table)) == sorted(api.__all__)


def test_every_stable_name_that_can_be_called_is_documented() -> None:
    assert [name for name in api.__all__ if callable(getattr(api, name)) and not getattr(api, name).__doc__] == []


def test_the_examples_use_no_other_names() -> None:
    imports = re.findall(r"^from (ci_compiler\S*) import (.+)$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert {module for module, _ in imports} == {"ci_compiler.api"}
    assert {name for _, names in imports for name in names.split(", ")} <= set(api.__all__)


def test_importing_the_package_imports_nothing_else() -> None:
    script = "import sys; before = set(sys.modules); import ci_compiler; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, encoding="utf-8")
    assert done.stdout == "ci_compiler\n"
