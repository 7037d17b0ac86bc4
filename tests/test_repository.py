"""The files around the code: Dependabot, issue forms, hooks, and the table of places in CONTRIBUTING."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.files.drift import is_ours
from tests.checkers import schema_problems, zizmor_problems
from tests.loops import each

ROOT = Path(__file__).parents[1]
GITHUB = ROOT / ".github"
DEPENDABOT = GITHUB / "dependabot.yml"
CONFIG = GITHUB / "ISSUE_TEMPLATE/config.yml"


def updates() -> dict[str, Any]:
    """The entries of `dependabot.yml` by package ecosystem."""
    return {entry["package-ecosystem"]: entry for entry in yaml.safe_load(DEPENDABOT.read_text("utf-8"))["updates"]}


def excluded(path: str, entry: dict[str, Any]) -> bool:
    """Whether Dependabot ignores a file of the repository."""
    return any(fnmatchcase(path, pattern) for pattern in entry["exclude-paths"])


@pytest.mark.parametrize(
    ("schema", "paths"),
    [
        ("dependabot", [DEPENDABOT]),
        ("github-issue-config", [CONFIG]),
        ("github-issue-forms", sorted({*CONFIG.parent.glob("*.yml")} - {CONFIG})),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_github_accepts_the_file(schema: str, paths: list[Path]) -> None:
    assert paths
    assert schema_problems(schema, paths) == []


def test_zizmor_finds_nothing_in_the_dependabot_file() -> None:
    assert zizmor_problems([DEPENDABOT], "pedantic") == []


def test_dependabot_updates_the_handwritten_workflows_and_no_compiled_file() -> None:
    entry = updates()["github-actions"]
    files = [*GITHUB.glob("workflows/*.yml"), *GITHUB.glob("actions/*/action.yml")]
    compiled = {path for path in files if is_ours(path)}
    assert {path for path in files if excluded(path.relative_to(ROOT).as_posix(), entry)} == compiled
    assert compiled
    assert compiled != set(files)


def test_every_pattern_that_dependabot_excludes_matches_a_file() -> None:
    excluding = [entry for entry in updates().values() if "exclude-paths" in entry]
    for entry, pattern in each((one, path) for one in excluding for path in one["exclude-paths"]):
        assert list((ROOT / entry["directory"].lstrip("/")).glob(pattern)), pattern


def test_every_hook_runs_a_command_of_the_gate() -> None:
    """The compiled files are checked by a test in the gate, and by a command of their own in the hooks."""
    gate = [line.strip() for line in (ROOT / ".ci/run").read_text("utf-8").splitlines()]
    [repository] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    commands = [hook["entry"] for hook in repository["hooks"]]
    assert len(commands) > 1
    assert [command for command in commands if command not in gate] == [".venv/bin/ci-compile --check"]


def test_every_place_that_contributing_names_exists() -> None:
    text = (GITHUB / "CONTRIBUTING.md").read_text("utf-8")
    named = re.findall(r"`((?:ci_compiler|tests|\.github|\.flox|\.ci)/[\w./-]*|pyproject\.toml)`", text)
    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_compiled_files_of_this_repository_are_as_compiled(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(PROGRAM, ["--check", "--root", str(ROOT), "--branch", "main"]) == 0, capsys.readouterr().err
