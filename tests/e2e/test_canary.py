"""The canary under act: what act can hold is held, the rest is not tried, and what is made to break is broken."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ci_compiler.canary.assumptions import Verdict
from ci_compiler.canary.repository import PYTHON
from ci_compiler.canary.table import read_tables, verdicts
from tests.backends import wheel
from tests.checkers import require

from .world import HERE, World

if TYPE_CHECKING:
    from .act import Run

HELD = {
    "compiled-cell",
    "nested-calls",
    "skipped-needs",
    "implicit-success",
    "always-verdict",
    "artifact-names",
    "matrix-from-output",
    "runs-on-json",
}
"""The assumptions that act shares with GitHub, whatever starts the run."""


class CanaryWorld(World):
    """A repository with nothing but the canary, on machines without a Nix store."""

    secret = ""

    def __init__(self, root: Path) -> None:
        super().__init__(root, backend="command", apart=False)

    def _make_stores(self) -> None:
        """There are none."""

    def _make_repository(self) -> None:
        self._make_origin()
        wheel.interpreter(self.root / "python", PYTHON)
        self._run(HERE / "bin/installed/ci-compile", "canary", at=self.clone)
        (self.clone / ".gitignore").write_text("*-output/\ncanary-dist/\nfacts/\n", "utf-8")
        self.commit("Add the canary")
        self.git("push", "--quiet", "origin", "main")

    def _secrets(self) -> dict[str, str]:
        return {"CANARY_SECRET": self.secret} if self.secret else {}

    def _nix(self) -> str:
        return str(self.root / "python")

    def _tree(self, folder: Path, commit: str) -> Path:
        tree = super()._tree(folder, commit)
        path = tree / ".github/workflows/canary.yml"  # act does not know `deployment`
        path.write_text(re.sub(r"\n *deployment: false(?=\n)", "", path.read_text("utf-8")), "utf-8")
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
    for tool in ("act", "git", "bash"):
        require(tool)
    root = Path(tempfile.mkdtemp(prefix="ci-compiler-", dir="/var/tmp"))
    yield CanaryWorld(root)
    shutil.rmtree(root)


@pytest.fixture(scope="module")
def dispatched(world: CanaryWorld) -> Run:
    return world.dispatch("canary.yml", "main", machine="hosted")


def test_a_dispatched_run_holds_what_act_shares_with_github(dispatched: Run) -> None:
    assert named(dispatched, Verdict.HELD) == HELD | {"dispatch-commit"}, dispatched.log.said
    assert named(dispatched, Verdict.BROKEN) == set()
