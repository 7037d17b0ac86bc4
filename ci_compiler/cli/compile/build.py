"""`ci-compile`: compiles into the repository; with `--check`, reports files that are not as compiled."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ci_compiler.cli.where import add_branch, add_spec, branch_of, root_of, spec_of

if TYPE_CHECKING:
    from ci_compiler.files.drift import FileChange, Territory
    from ci_compiler.plan.pipeline import Plan


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds `--check`, `--diff`, `--branch`, `--root` and `--spec`."""
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is not as compiled")
    parser.add_argument("--diff", action="store_true", help="show what changes")
    add_branch(parser)
    add_spec(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compiles; with `--check` returns 1 on drift."""
    from ci_compiler.cli.console import print_findings
    from ci_compiler.cli.drift import report_drift
    from ci_compiler.files.drift import GITHUB, apply, compare, differences
    from ci_compiler.plan.pipeline import plan
    from ci_compiler.sync.compiled import compile_files

    root = root_of(arguments)
    decided = plan(spec_of(arguments))
    print_findings(decided.warnings)
    files = dict(compile_files(decided))
    own, recipes = _recipes(decided, root, arguments)
    territories = (GITHUB, *own)
    everything = {**files, **recipes}
    changes = compare(root, everything, territories)
    if arguments.diff:
        for line in differences(changes):
            print(line)
    if arguments.check:
        return report_drift(changes, arguments)
    apply(root, everything, changes, territories)
    _summary(decided, files, recipes, changes, root)
    return 0


def _recipes(decided: Plan, root: Path, arguments: argparse.Namespace) -> tuple[Sequence[Territory], dict[str, str]]:
    """The recipes of the branch that is checked out, if it has compiled ones (`ci-compile recipes`)."""
    from ci_compiler.cli.console import note
    from ci_compiler.files.drift import FLOX, holds_ours
    from ci_compiler.git import head_branch

    asked = getattr(arguments, "branch", None) is not None
    branch = branch_of(arguments, decided.spec, root) if asked else head_branch(root)
    if not holds_ours(root, FLOX):
        return (), {}
    if branch not in decided.spec.branches:
        what = f"{branch} is not a branch of the spec" if branch else "no branch is checked out"
        choices = " or ".join(f"--branch {name}" for name in decided.spec.branches)
        note(f"the recipes are left out: {what}; {choices} includes them")
        return (), {}
    from ci_compiler.recipes.render import recipes, territory

    own = territory(decided.spec, decided.judged, branch)
    return [own], recipes(decided.spec, decided.judged, branch)


def _summary(
    decided: Plan, files: dict[str, str], recipes: dict[str, str], changes: Sequence[FileChange], root: Path
) -> None:
    """Prints what was written, one line per branch, with the shards that are nearest to GitHub's limits."""
    from collections import Counter

    from ci_compiler.cli.console import table
    from ci_compiler.cli.drift import counts_of
    from ci_compiler.plan.limits import limit
    from ci_compiler.units import size

    jobs, most_bytes = limit("jobs").limit, limit("file-bytes").limit
    rows: list[list[object]] = []
    totals = Counter[str]()
    for branch in decided.spec.branches:
        shards = [shard for shard in decided.shards if shard.branch == branch]
        largest = max(len(files[shard.path].encode()) for shard in shards)
        count = {
            "shards": len(shards),
            "variants": sum(len(shard.variants) for shard in shards),
            "jobs": sum(shard.jobs for shard in shards),
        }
        totals.update(count)
        most = max(shard.jobs for shard in shards)
        rows.append([branch, *count.values(), f"{most} of {jobs}", f"{size(largest)} of {size(most_bytes)}"])
    rows.append(["all", *totals.values(), "", ""])
    table(["branch", *totals, "most jobs in a file", "largest file"], rows)
    where = root if root != Path.cwd() else Path()
    kept = f", {len(recipes) - 1} recipes and their .gitattributes" if recipes else ""
    said = counts_of(changes, len(files) + len(recipes))
    print(f"{len(files)} files under {(where / '.github').as_posix()}{kept} from {decided.spec.document.file}: {said}")
    left = len(decided.judged.left_out)
    if left:
        print(f"{left} combinations left out; `ci-compile variants --left-out` lists them with their reasons")
