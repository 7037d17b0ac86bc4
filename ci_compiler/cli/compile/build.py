"""`ci-compile`: compile into the repository, or with `--check` say what is no longer as compiled."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from ci_compiler.cli.where import add_spec, root_of, spec_of

if TYPE_CHECKING:
    from ci_compiler.output import Change
    from ci_compiler.pipeline import Plan


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds `--check`, `--diff`, `--root` and `--spec`."""
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where a file is not as compiled")
    parser.add_argument("--diff", action="store_true", help="show what changes")
    add_spec(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compiles; with `--check` returns 1 on drift."""
    from ci_compiler.cli.console import print_findings
    from ci_compiler.output import GITHUB, apply, compare, differences
    from ci_compiler.pipeline import compile_files, plan

    root = root_of(arguments)
    decided = plan(spec_of(arguments))
    print_findings(decided.warnings)
    files = compile_files(decided)
    changes = compare(root, files, GITHUB)
    if arguments.diff:
        for line in differences(changes):
            print(line)
    if arguments.check:
        return _report_drift(changes, arguments)
    apply(root, changes, GITHUB)
    _summary(decided, dict(files), changes, root)
    return 0


def _report_drift(changes: tuple[Change, ...], arguments: argparse.Namespace) -> int:
    from ci_compiler.cli.console import note
    from ci_compiler.output import Kind

    for change in changes:
        what = {Kind.ADDED: "is missing", Kind.CHANGED: "is not as compiled", Kind.REMOVED: "is no longer compiled"}
        note(f"{change.path}: drift {what[change.kind]}")
    if changes:
        words = ["ci-compile"]
        for option in ("root", "spec"):
            if (value := getattr(arguments, option, None)) is not None:
                words += [f"--{option}", str(value)]
        count = f"{len(changes)} file{'s' if len(changes) > 1 else ''}"
        note(f"{count} drifted; `{shlex.join(words)}` mends it")
    return 1 if changes else 0


def _summary(decided: Plan, files: dict[str, str], changes: tuple[Change, ...], root: Path) -> None:
    """What was written, a line a branch: the fewest variants of room to each limit are the shard's nearest to it."""
    from collections import Counter

    from ci_compiler.cli.console import table
    from ci_compiler.output import Kind
    from ci_compiler.workflows.common import FOLDER
    from ci_compiler.workflows.github import limit

    jobs, size = limit("jobs").limit, limit("file-bytes").limit
    rows: list[list[object]] = []
    totals = Counter[str]()
    for branch in decided.spec.branches:
        shards = [shard for shard in decided.shards if shard.branch == branch]
        largest = max(len(files[f"{FOLDER}/{shard.name}.yml"].encode()) for shard in shards)
        count = {
            "shards": len(shards),
            "variants": sum(len(shard.variants) for shard in shards),
            "jobs": sum(shard.jobs for shard in shards),
        }
        totals.update(count)
        most = max(shard.jobs for shard in shards)
        rows.append([branch, *count.values(), f"{most} of {jobs}", f"{largest / 1000:.0f} of {size / 1000:.0f} kB"])
    rows.append(["all", *totals.values(), "", ""])
    table(["branch", *totals, "most jobs in a file", "largest file"], rows)
    kinds = Counter(change.kind for change in changes)
    counts = ", ".join(f"{kinds[kind]} {kind}" for kind in Kind if kinds[kind])
    unchanged = len(files) - kinds[Kind.ADDED] - kinds[Kind.CHANGED]
    said = f"{counts}, {unchanged} unchanged" if counts else f"all {unchanged} unchanged"
    where = root if root != Path.cwd() else Path()
    print(f"{len(files)} files under {(where / '.github').as_posix()} from {decided.spec.document.file}: {said}")
    left = len(decided.judged.left_out)
    if left:
        print(f"{left} combinations left out; `ci-compile variants --left-out` lists them with their reasons")
