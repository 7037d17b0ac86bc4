"""Every compiled file under the tools that judge workflows: none of them has a word to say."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_compiler.files.drift import GITHUB, apply, compare
from ci_compiler.plan.pipeline import plan
from ci_compiler.spec.build import bundled_spec, load_spec
from ci_compiler.sync.compiled import compile_files
from tests.checkers import (
    actionlint_problems,
    jsonschema_problems,
    language_service_problems,
    shellcheck_problems,
    zizmor_problems,
)
from tests.loops import each

GOOD = Path(__file__).parent / "examples/good"
CASES = ["bundled", *sorted(path.name for path in GOOD.iterdir())]


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The compiled tree of each case."""
    return {case: _compiled(case, tmp_path_factory.mktemp(case)) for case in CASES}


def _compiled(case: str, root: Path) -> Path:
    spec = bundled_spec() if case == "bundled" else load_spec(GOOD / case / "ci-matrix.yaml", shown="s")
    files = compile_files(plan(spec))
    apply(root, files, compare(root, files, [GITHUB]), [GITHUB])
    return root


@pytest.fixture(scope="module")
def every(trees: dict[str, Path]) -> list[Path]:
    """The workflows and the actions of all trees: a checker starts once for all, as its start takes longer."""
    return [path for tree in trees.values() for path in _judged(tree)]


def _judged(tree: Path) -> list[Path]:
    """The workflows and the action of a compiled tree."""
    return sorted([*tree.glob(".github/workflows/*.yml"), *tree.glob(".github/actions/*/action.yml")])


@pytest.mark.slow
def test_the_schema_of_workflows_finds_nothing(every: list[Path]) -> None:
    assert jsonschema_problems(every) == []


def test_githubs_own_parser_finds_nothing(every: list[Path]) -> None:
    assert language_service_problems(every) == []


def test_actionlint_finds_nothing(every: list[Path]) -> None:
    assert actionlint_problems(every) == []


def test_shellcheck_finds_nothing_in_the_scripts(every: list[Path]) -> None:
    assert shellcheck_problems(every) == []


def test_zizmor_finds_nothing(trees: dict[str, Path]) -> None:
    """As a pedant, who finds whatever a regular reader does."""
    by_config: dict[bytes, list[Path]] = {}
    for tree in trees.values():
        by_config.setdefault((tree / ".github/zizmor.yml").read_bytes(), []).append(tree)
    for alike in each(by_config.values()):
        judged = [path for tree in alike for path in _judged(tree)]
        assert zizmor_problems(judged, "pedantic", config=alike[0] / ".github/zizmor.yml") == []
