"""The handwritten workflows of this repository, checked by the tools that check the compiled ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci_compiler.files.drift import is_ours
from ci_compiler.workflows.pins import pinned
from tests.checkers import (
    actionlint_problems,
    jsonschema_problems,
    language_service_problems,
    shellcheck_problems,
    zizmor_problems,
)

FOLDER = Path(__file__).parents[1] / ".github/workflows"
OWN = [path for path in sorted(FOLDER.glob("*.yml")) if not is_ours(path)]
RELEASE = FOLDER / "release.yml"

PUBLISHER = ("pypa/gh-action-pypi-publish", "dc37677b2e1c63e2034f94d8a5b11f265b73ba33", "v1.14.2")
"""The one action that no compiled workflow uses; its releases are at github.com/pypa/gh-action-pypi-publish."""


def jobs(path: Path) -> dict[str, Any]:
    """The jobs of a workflow."""
    found: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))["jobs"]
    return found


def test_these_are_written_by_hand() -> None:
    assert [path.name for path in OWN] == ["release.yml", "test.yml"]


@pytest.mark.parametrize(
    "problems", [jsonschema_problems, language_service_problems, actionlint_problems, shellcheck_problems]
)
def test_the_checkers_find_nothing(problems: Callable[[list[Path]], list[str]]) -> None:
    assert problems(OWN) == []


def test_zizmor_finds_nothing_however_pedantic() -> None:
    assert zizmor_problems(OWN, "pedantic") == []


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_actions_are_pinned_as_in_the_compiled_workflows(path: Path) -> None:
    used = re.findall(r"uses: (\S+)@(\S+) # (\S+)$", path.read_text("utf-8"), re.MULTILINE)
    assert len(used) == path.read_text("utf-8").count("uses: ")
    for action, commit, tag in used:
        if action == PUBLISHER[0]:
            assert (action, commit, tag) == PUBLISHER
        else:
            known = pinned(action)
            assert (f"{action}@{commit}", tag) == (known, known.remark)


def test_only_jobs_that_run_no_code_of_the_repository_get_an_identity() -> None:
    for name, job in jobs(RELEASE).items():
        steps = job["steps"]
        own_code = any("run" in step or step["uses"].startswith("actions/checkout@") for step in steps)
        assert own_code == (job["permissions"].get("id-token") != "write"), name
    assert jobs(RELEASE)["publish"]["environment"]["name"] == "pypi"
    assert jobs(RELEASE)["publish"]["needs"] == ["build", "attest"]


def test_only_a_tag_releases_and_no_secret_is_asked_for() -> None:
    text = RELEASE.read_text("utf-8")
    assert yaml.safe_load(text)[True] == {"push": {"tags": ["v*"]}}  # YAML 1.1 reads the key `on` as true
    assert "secrets" not in text
