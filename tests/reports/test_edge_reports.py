"""Reports on variants that are built with variants of other cells: diff, affected, recall, and a run's summary."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.plan.lookup import built_variants
from ci_compiler.plan.pipeline import Plan
from ci_compiler.reports.diff import diff
from ci_compiler.reports.recalls import built_with
from ci_compiler.reports.summary import SummarisedRun, table
from tests.plan.test_open_matrix import X86, decided, document
from tests.recipes.test_affected import Repository
from tests.recipes.test_affected import affected as affected_by

LIB = f"lib-cpu-{X86}"
KERNELS = [f"kernels-{accelerator}-{X86}" for accelerator in ("cpu", "cuda13_0")]
ARCHIVE = f"archive-{X86}"
PACKAGES: dict[str, Any] = {
    "lib": {"when": {"accelerator": "cpu"}},
    "kernels": {"needs": [{"package": "lib", "accelerator": "cpu"}]},
    "archive": {"ignores": ["accelerator"], "gathers": ["kernels"]},
    "other": {"ignores": ["accelerator"]},
}
MATRIX = {"values": {"platform": X86, "accelerator": ["cpu", "cuda 13.0"]}}


def image(value: str) -> dict[str, Any]:
    """The setting that the builds of the cell of the library have alone, and so the kernels of that cell."""
    return {"settings": {"image": [{"when": {"accelerator": "cpu"}, "value": value}, {"value": "same"}]}}


def rebuilt(before: Plan, after: Plan) -> dict[str, tuple[str, ...]]:
    return {name: group.reasons for group in diff(before, after).rebuilt for name in group.names}


def test_a_variant_is_rebuilt_with_what_it_is_built_with() -> None:
    found = rebuilt(decided(MATRIX, PACKAGES, **image("one")), decided(MATRIX, PACKAGES, **image("two")))
    assert found.keys() == {LIB, *KERNELS, ARCHIVE}
    assert found[ARCHIVE] == found[KERNELS[1]] == ("what it is built with",)


def test_another_edge_rebuilds_the_variants_of_the_package() -> None:
    fewer = PACKAGES | {"archive": {"ignores": ["accelerator"], "gathers": [{"package": "kernels", "family": "cpu"}]}}
    found = rebuilt(decided(MATRIX, fewer), decided(MATRIX, PACKAGES))
    assert list(found) == [ARCHIVE]
    assert found[ARCHIVE][0].startswith("gathers of archive")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path)
    made.write(".github/ci-matrix.yaml", json.dumps(document(MATRIX, PACKAGES, **image("one"))))
    made.commit()
    return made


def test_explain_names_what_a_variant_is_built_with(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    assert repository.ci("explain", KERNELS[1]) == 0
    assert f"needs        {LIB}" in capsys.readouterr().out
    assert repository.ci("explain", ARCHIVE) == 0
    assert f"gathers      {', '.join(KERNELS)}" in capsys.readouterr().out


def test_a_change_affects_what_needs_and_gathers_the_variant(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.write(".github/ci-matrix.yaml", json.dumps(document(MATRIX, PACKAGES, **image("two"))))
    repository.commit()
    assert affected_by(repository, capsys).keys() == {LIB, *KERNELS, ARCHIVE}


def test_what_contains_a_recalled_variant_is_found_in_other_cells() -> None:
    made = decided(MATRIX, PACKAGES)
    recalled = [one for one in built_variants(made) if one.variant.name == LIB]
    assert built_with(made.spec, made.judged.cells, recalled) == {(name, "main"): LIB for name in (*KERNELS, ARCHIVE)}


def test_a_variant_that_waited_for_one_of_another_cell_was_not_reached(tmp_path: Path) -> None:
    made = decided(MATRIX, PACKAGES)
    (tmp_path / "something").mkdir()
    run = SummarisedRun(event="workflow_dispatch", ref="main", publish=False)
    chosen = [LIB, KERNELS[0], ARCHIVE]
    lines = table(made, run, "main", chosen, tmp_path).splitlines()[-3:]
    assert [line.split(" | ")[1] for line in lines] == ["**failed**", "not reached", "not reached"]
