"""Recalled variants: what `select`, the finder page and the build matrix name instead, and `ci-compile recall`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.documents.build_matrix import text
from ci_compiler.documents.site.data import data
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.reports.evidence import proofs
from ci_compiler.reports.offers import Wishes
from ci_compiler.reports.recalls import recalled_variants
from ci_compiler.reports.select import Recommendation, select
from tests.documents.test_finder import answers, as_question, looked_up, shown
from tests.output import checked
from tests.reports.machines import Case
from tests.specs import small, spec_of

NAME = "pytorch-python313-cuda12_8-sm90-avx512"
INSTEAD = "pytorch-python313-cuda12_8-sm90-avx2"
DERIVED = "torchvision-python313-cuda12_8-sm90-avx512"
WHY = "its convolutions return NaN"
H100 = Case(gpu="H100", cpu="Zen 4", driver="580", best=None, branch="").machine


def recalling(**entry: Any) -> Plan:
    return plan(spec_of(small(recalls={NAME: {"because": WHY} | entry})))


def chosen(decided: Plan, package: str = "pytorch") -> Recommendation:
    known = proofs(decided.spec, decided.judged.cells, decided.routes)
    return select(decided.spec, decided.judged.cells, H100, Wishes(package=package), known=known)


def test_select_names_another_variant_and_says_why() -> None:
    choice = chosen(recalling())
    assert choice.best is not None
    assert choice.best.name == INSTEAD
    assert choice.problems == (f"{NAME} (main) would be better, but it is recalled: {WHY}",)
    assert NAME not in {one.offer.name for one in (*choice.runners_up, *choice.better)}


@pytest.mark.parametrize("entry", [{"branches": ["main"]}, {"versions": ["2.7.1", "2.8.0"]}])
def test_a_recall_may_be_limited_to_branches_and_versions(entry: dict[str, Any]) -> None:
    assert chosen(recalling(**entry)).problems


def test_a_recall_of_another_version_or_package_changes_nothing() -> None:
    plain = chosen(plan(spec_of(small())))
    assert plain.best is not None
    assert plain.best.name == NAME
    assert chosen(recalling(versions=["2.7.1"])) == plain
    assert chosen(recalling(), "torchvision").problems == ()


def test_a_recalled_variant_that_is_not_the_best_is_not_mentioned() -> None:
    decided = plan(spec_of(small(recalls={INSTEAD: {"because": WHY}})))
    choice = chosen(decided)
    assert choice.best is not None
    assert (choice.best.name, choice.problems) == (NAME, ())
    assert INSTEAD not in {one.offer.name for one in choice.runners_up}


def test_the_page_gives_the_same_answer_and_marks_the_variant() -> None:
    decided = recalling()
    questions = [as_question(H100, Wishes(package=package)) for package in ("pytorch", "torchvision")]
    first, second = answers(data(decided), questions)
    assert looked_up(first) == shown(chosen(decided))
    assert looked_up(second) == shown(chosen(decided, "torchvision"))
    assert [cell["recalled"] for cell in data(decided)["cells"] if "recalled" in cell] == [{"pytorch": WHY}]


def test_the_build_matrix_names_what_to_use_instead() -> None:
    row = f"| `{NAME}` | main | 2.8.0 | {WHY} | `{INSTEAD}` (main) |"
    assert row in text(recalling()).splitlines()
    assert "Recalled" not in text(plan(spec_of(small())))


def test_where_nothing_is_left_nothing_is_named() -> None:
    every = plan(spec_of(small()))
    names = [one.name for cell in every.judged.cells for one in cell.variants if one.package == "pytorch"]
    decided = plan(spec_of(small(recalls={name: {"because": WHY} for name in names})))
    assert {one.instead for one in recalled_variants(decided)} == {None}
    assert chosen(decided).best is None


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """A spec in YAML, with a comment."""
    file = tmp_path / "ci-matrix.yaml"
    lines = "\n".join(f"{key}: {json.dumps(value)}" for key, value in small().items())
    file.write_text(f"# The fleet.\n{lines}\n", "utf-8")
    return file


def recall(spec: Path, *words: str) -> int:
    return run(PROGRAM, ["recall", *words, "--root", str(spec.parent), "--spec", str(spec)])


def test_the_command_edits_the_spec_and_lists_what_was_built_with_it(
    spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = spec.read_text("utf-8")
    assert recall(spec, NAME, "--because", WHY) == 0
    out = capsys.readouterr().out
    after = spec.read_text("utf-8")
    assert after == (f'{before}\nrecalls:\n  {NAME}:\n    because: "{WHY}"\n    versions: ["2.8.0"]\n')
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert f"{NAME} main 2.8.0 {INSTEAD} (main)" in lines
    assert f"{DERIVED} main {NAME} unknown" in lines
    assert "to take them back: flox has no command that removes a published package" in out
    assert lines[-1] == f"once the fault is fixed: ci-compile dispatch --publish --again {NAME} {DERIVED}"
    assert (
        run(PROGRAM, ["select", "--gpu", "H100", "--cpu", "Zen 4", "--root", str(spec.parent), "--spec", str(spec)])
        == 0
    )
    assert capsys.readouterr().out.splitlines()[0] == INSTEAD
    assert run(PROGRAM, ["explain", NAME, "--root", str(spec.parent), "--spec", str(spec)]) == 0
    assert WHY in capsys.readouterr().out


def test_a_second_recall_joins_the_first_one(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert recall(spec, NAME, "--because", WHY, "--json") == 0
    found = checked("ci-compile recall", capsys.readouterr().out)
    assert [one["name"] for one in found["recalled"]] == [NAME]
    assert [one["name"] for one in found["built_with"]] == [DERIVED]
    assert recall(spec, DERIVED, "--because", 'it contains "it"') == 0
    assert spec.read_text("utf-8").count("recalls:") == 1
    capsys.readouterr()
    assert recall(spec, NAME, "--because", WHY) == 2
    assert (
        capsys.readouterr().err
        == f"error: NAME: {NAME} is recalled already; edit `recalls` in the spec [wrong-value]\n"
    )


def test_what_cannot_be_recalled_changes_no_byte(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = spec.read_text("utf-8")
    assert recall(spec, f"{NAME}x", "--because", WHY) == 2
    assert recall(spec, NAME, "--because", "a {brace}") == 2
    assert spec.read_text("utf-8") == before
    assert "unknown-variant" in capsys.readouterr().err
