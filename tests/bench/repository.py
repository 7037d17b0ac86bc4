"""A repository with a fleet for the benchmarks."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ci_compiler.cli.where import SPEC
from ci_compiler.plan.pipeline import plan
from ci_compiler.recipes.render import recipes
from ci_compiler.spec.build import parse_spec
from ci_compiler.sync.compiled import compile_files
from tests.bench.fleets import fleet

EDITED = 10
"""The number of recipes that differ in the commit before the last."""

_AUTHOR = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "gc.auto=0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """The folders that the commands work on.

    `root` is a git repository on the first branch with the spec, the compiled files and the branch's recipes, as
    compiled; `bare` has the spec and the compiled files alone. `branches` are folders with a branch's recipes each, of
    the first branch alone where no more are needed. `before` is a spec that differs in a nixpkgs revision, `scratch`
    an empty folder.
    """

    variants: int
    branch: str
    root: Path
    bare: Path
    branches: tuple[Path, ...]
    before: Path
    scratch: Path

    @property
    def own(self) -> int:
        """The recipes of the branch that is checked out."""
        return len(list(self.branches[0].glob(".flox/pkgs/*.nix")))


def repository(folder: Path, size: int, *, every: bool) -> Repository:
    """Makes the repository of a fleet of about `size` variants in an empty folder.

    every: whether `branches` are all of them, or the first alone.
    """
    text = fleet(size)
    spec = parse_spec(text, shown=SPEC.as_posix())
    decided = plan(spec)
    common = {SPEC.as_posix(): text.decode(), **compile_files(decided)}
    made = {branch: recipes(spec, decided.judged, branch) for branch in list(spec.branches)[: None if every else 1]}
    for branch, files in made.items():
        _write(folder / "branches" / branch, files)
    first = next(iter(made))
    root, bare, before, scratch = (folder / name for name in ("root", "bare", "before.yaml", "scratch"))
    _write(bare, common)
    edited = {path: f"{text}# edited\n" for path, text in list(made[first].items())[:EDITED]}
    _write(root, {**common, **made[first], **edited})
    _git(root, "init", "--quiet", "--initial-branch", first)
    _commit(root)
    _write(root, made[first])
    _commit(root)
    before.write_text(re.sub(r"[0-9a-f]{40}", "f" * 40, text.decode(), count=1), "utf-8")
    scratch.mkdir()
    return Repository(
        variants=sum(len(shard.variants) for shard in decided.shards),
        branch=first,
        root=root,
        bare=bare,
        branches=tuple(folder / "branches" / branch for branch in made),
        before=before,
        scratch=scratch,
    )


def _write(root: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")


def _git(root: Path, *words: str) -> None:
    subprocess.run(["git", *_AUTHOR, "-C", root, *words], check=True, stdout=subprocess.DEVNULL)


def _commit(root: Path) -> None:
    _git(root, "add", "--all", "--force")
    _git(root, "commit", "--quiet", "--message", "x")
