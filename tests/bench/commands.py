"""The benchmarks: each command that works on the whole fleet, or on a whole branch, as a process."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci_compiler.cli.where import SPEC
from tests.bench.measure import CI_COMPILE, PYTHON, Figure, process
from tests.bench.repository import Repository

_EVALUATE = """
import sys
from pathlib import Path
from ci_compiler.adoption.evaluator import evaluate, find_recipes
for root in map(Path, sys.argv[1:]):
    evaluations, findings = evaluate(root, find_recipes(root), timeout=3600)
    assert evaluations and not findings
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A command in a repository; `statuses` are its exit codes on success.

    `writes`: the folder that it fills, which is emptied before each run. `nix`: it starts Nix, which takes seconds per
    branch, so it is measured fewer times. `every`: it needs the recipes of every branch.
    """

    what: str
    words: Callable[[Repository], Sequence[str | Path]]
    writes: Callable[[Repository], Path | None] = lambda _: None
    statuses: tuple[int, ...] = (0,)
    nix: bool = False
    every: bool = False

    def measure(self, repository: Repository, *, runs: int) -> Figure:
        """Measures the command. Raises RuntimeError if it fails."""
        written = self.writes(repository)

        def empty() -> None:
            if written is not None:
                shutil.rmtree(written, ignore_errors=True)
                written.mkdir()

        command = list(map(str, self.words(repository)))
        return process(command, runs=runs, statuses=self.statuses, before=empty, warm=not (self.nix and runs == 1))


def _compile(*words: str) -> Callable[[Repository], Sequence[str | Path]]:
    """`ci-compile` with `words` in the repository with recipes."""
    return lambda made: [*CI_COMPILE, *words, "--root", made.root]


def _fresh(made: Repository) -> Sequence[str | Path]:
    return [*CI_COMPILE, "--root", made.scratch, "--spec", made.root / SPEC]


def _recipes(made: Repository) -> Sequence[str | Path]:
    return [*CI_COMPILE, "recipes", "--branch", made.branch, "--root", made.root, "-o", made.scratch / "pkgs"]


BENCHMARKS: Mapping[str, Benchmark] = {
    "compile": Benchmark(what="all files into an empty folder", words=_fresh, writes=lambda made: made.scratch),
    "check": Benchmark(
        what="--check, the workflows alone", words=lambda made: [*CI_COMPILE, "--check", "--root", made.bare]
    ),
    "check-recipes": Benchmark(what="--check with the recipes of a branch", words=_compile("--check")),
    "recipes": Benchmark(what="the recipes of a branch, new", words=_recipes, writes=lambda made: made.scratch),
    "evaluate": Benchmark(
        what="every branch's recipes with Nix",
        words=lambda made: [PYTHON, "-c", _EVALUATE, *made.branches],
        nix=True,
        every=True,
    ),
    "audit": Benchmark(
        what="the recipes of a branch with Nix",
        words=lambda made: [*CI_COMPILE, "audit", made.root, "--root", made.root, "--timeout", "3600"],
        nix=True,
    ),
    "adopt": Benchmark(
        what="every branch's recipes",
        words=lambda made: [*CI_COMPILE, "adopt", *made.branches],
        nix=True,
        every=True,
    ),
    "affected": Benchmark(what="a commit that edits ten recipes", words=_compile("affected", "--base", "HEAD~1")),
    "diff": Benchmark(
        what="another nixpkgs on a branch", words=lambda made: [*CI_COMPILE, "diff", made.before, "--root", made.root]
    ),
    "forecast": Benchmark(what="everything, as a table", words=_compile("forecast")),
}
"""Name -> what is measured, in the order of the report."""
