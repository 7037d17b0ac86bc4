"""The canary under act: what act can hold is held, the rest is not tried, and what is made to break is broken."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ci_compiler.canary.assumptions import Verdict
from ci_compiler.canary.repository import PYTHON
from ci_compiler.canary.table import read_tables, verdicts
from tests.backends import wheel

from .world import HERE, World, in_a_folder

pytestmark = pytest.mark.weekly

if TYPE_CHECKING:
    from .act import Run

HELD = {
    "compiled-cell",
    "nested-calls",
    "skipped-needs",
    "implicit-success",
    "always-verdict",
    "artifact-names",
    "workflow-env",
    "matrix-from-output",
    "runs-on-json",
}
"""The assumptions that act shares with GitHub, whatever starts the run."""


UNKNOWN_TO_ACT = re.compile(r"\n *(deployment: false|artifact-metadata: write|timezone: ).*(?=\n)")


class CanaryWorld(World):
    """A repository with nothing but the canary, on machines without a Nix store."""

    word = ""
    """The value of the secret."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, backend="command", apart=False)

    def _make_stores(self) -> None:
        """There are none."""

    def _make_repository(self) -> None:
        self._make_origin()
        wheel.interpreter(self.root / "python", PYTHON, own_pip=True)
        self._run(HERE / "bin/installed/ci-compile", "canary", at=self.clone)
        (self.clone / ".gitignore").write_text("*-output/\ncanary-dist/\nfacts/\n", "utf-8")
        self.commit("Add the canary")
        self.git("push", "--quiet", "origin", "main")

    def _secrets(self) -> dict[str, str]:
        return {"CANARY_SECRET": self.word} if self.word else {}

    def _nix(self) -> str:
        return str(self.root / "python")

    def _tree(self, folder: Path, commit: str) -> Path:
        tree = super()._tree(folder, commit)
        for path in (tree / ".github/workflows").glob("canary*.yml"):  # act does not know these keys
            path.write_text(UNKNOWN_TO_ACT.sub("", path.read_text("utf-8")), "utf-8")
        return tree

    @cached_property
    def environment(self) -> dict[str, str]:
        """The environment, in which jobs that wait do not."""
        return super().environment | {"CANARY_SECONDS": "0"}


def found(run: Run) -> Mapping[str, Verdict]:
    """The verdicts of the table at the end of a run."""
    return verdicts(read_tables(run.log.summary))


def named(run: Run, verdict: Verdict) -> set[str]:
    """The assumptions with a verdict."""
    return {name for name, one in found(run).items() if one is verdict}


@pytest.fixture(scope="module")
def world() -> Iterator[CanaryWorld]:
    yield from in_a_folder(CanaryWorld)


@pytest.fixture(scope="module")
def dispatched(world: CanaryWorld) -> Run:
    return world.dispatch("canary.yml", "main", machine="hosted")


def test_a_dispatched_run_holds_what_act_shares_with_github(dispatched: Run) -> None:
    assert named(dispatched, Verdict.HELD) == HELD | {"dispatch-commit"}, dispatched.log.said
    assert named(dispatched, Verdict.BROKEN) == set()


def test_a_push_that_changes_the_file_of_the_path_filter_holds_it(world: CanaryWorld) -> None:
    world.edit(".github/canary/touch", ": 1", ": 2")
    world.commit("Touch the canary")
    run = world.push("canary.yml", "main")
    assert found(run)["path-filters"] is Verdict.HELD, run.log.said
    assert found(run)["dispatch-commit"] is Verdict.NOT_TRIED


def test_the_runs_of_the_other_workflows_hold_what_act_shares_with_github(world: CanaryWorld) -> None:
    run = world.dispatch("canary-runs.yml", "main")
    held = {"artifact-overwrite", "artifact-patterns", "artifact-merged", "artifact-alone"}
    assert (named(run, Verdict.HELD), named(run, Verdict.BROKEN)) == (held, set()), run.log.said
    run = world.act("push", "canary-events.yml", {"ref": "refs/heads/canary-pushed"}, world.git("rev-parse", "HEAD"))
    assert (named(run, Verdict.HELD), named(run, Verdict.BROKEN)) == ({"push-branches"}, set()), run.log.said


def test_a_secret_that_every_job_sees_breaks_the_assumption_about_it(world: CanaryWorld, dispatched: Run) -> None:
    assert found(dispatched)["environment-secret"] is Verdict.NOT_TRIED
    world.word = "gossamer"  # act has no environments, and so gives it to each job
    run = world.dispatch("canary.yml", "main", machine="hosted")
    world.word = ""
    assert found(run)["environment-secret"] is Verdict.BROKEN, run.log.said
    assert "gossamer" not in run.log.summary


AFTER_START = "if: ${{ !cancelled() && needs.start.result == 'success' }}"
CELL = "./.github/workflows/canary-cell.yml"
BREAKS = (
    ("canary-outer.yml", "if: ${{ !cancelled() }}", "if: ${{ false }}", {"nested-calls", "skipped-needs"}),
    (
        "canary.yml",
        "needs: [never]\n    runs-on",
        "needs: [never]\n    if: ${{ always() }}\n    runs-on",
        {"implicit-success"},
    ),
    ("canary.yml", "${{ join(needs.*.result, ' ') }}", "success", {"always-verdict"}),
    ("canary.yml", "CANARY_ENV: set", "CANARY_ENV: ''", {"workflow-env"}),
    ("canary.yml", "@a~2fb", ":a~2fb", {"artifact-names"}),
    ("canary.yml", '{"leg": "b"}', '{"leg": "c"}', {"matrix-from-output"}),
    (
        "canary.yml",
        "runs-on: ${{ fromJSON(needs.start",
        "if: ${{ false }}\n    runs-on: ${{ fromJSON(needs.start",
        {"runs-on-json"},
    ),
    ("canary.yml", f"{AFTER_START}\n    uses: {CELL}", f"if: ${{{{ false }}}}\n    uses: {CELL}", {"compiled-cell"}),
)
"""Changes of the workflows that stand for a GitHub that does otherwise, with what they break.

The cell is skipped, because act ends a run when a job of a called workflow fails."""


def test_each_probe_that_act_holds_says_broken_when_it_is_made_to_break(world: CanaryWorld) -> None:
    for file, old, new, _ in BREAKS:
        world.edit(f".github/workflows/{file}", old, new)
    broken = world.commit("Break the canary")
    world.edit(".github/canary/touch", ": 2", ": 3")
    world.commit("Move the tip of the branch, which the dispatch does not get")
    world.git("push", "--quiet", "origin", "main")
    payload = {"ref": "refs/heads/main", "inputs": {"machine": "hosted"}}
    run = world.act("workflow_dispatch", "canary.yml", payload, broken)
    assert set().union(*(names for *_, names in BREAKS)) == HELD
    assert named(run, Verdict.BROKEN) == HELD | {"dispatch-commit"}, run.log.said
