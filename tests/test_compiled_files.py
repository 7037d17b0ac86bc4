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

GOOD = Path(__file__).parent / "examples/good"
CASES = ["bundled", *sorted(path.name for path in GOOD.iterdir())]


@pytest.fixture(scope="module", params=CASES)
def tree(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root: Path = tmp_path_factory.mktemp(request.param)
    spec = (
        bundled_spec() if request.param == "bundled" else load_spec(GOOD / request.param / "ci-matrix.yaml", shown="s")
    )
    files = compile_files(plan(spec))
    apply(root, files, compare(root, files, [GITHUB]), [GITHUB])
    return root


@pytest.fixture(scope="module")
def judged(tree: Path) -> list[Path]:
    """The workflows and the action of a compiled tree."""
    return sorted([*tree.glob(".github/workflows/*.yml"), *tree.glob(".github/actions/*/action.yml")])


def test_the_schema_of_workflows_finds_nothing(judged: list[Path]) -> None:
    assert jsonschema_problems(judged) == []


def test_githubs_own_parser_finds_nothing(judged: list[Path]) -> None:
    assert language_service_problems(judged) == []


def test_actionlint_finds_nothing(judged: list[Path]) -> None:
    assert actionlint_problems(judged) == []


def test_shellcheck_finds_nothing_in_the_scripts(judged: list[Path]) -> None:
    assert shellcheck_problems(judged) == []


@pytest.mark.parametrize("persona", ["regular", "pedantic"])
def test_zizmor_finds_nothing(tree: Path, judged: list[Path], persona: str) -> None:
    assert zizmor_problems(judged, persona, config=tree / ".github/zizmor.yml") == []  # type: ignore[arg-type]
