"""`ci-compile sync`: brings recipes, workflows, documents and spec to every branch, one commit per branch."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from ci_compiler.cli.console import note, print_findings, table
from ci_compiler.cli.where import SCHEMA_BESIDE, SPEC, root_of, spec_of, templates_of
from ci_compiler.git import Git
from ci_compiler.plan.pipeline import plan
from ci_compiler.plan.rules import Judged
from ci_compiler.recipes.render import recipes, territory
from ci_compiler.spec.model import Spec
from ci_compiler.sync.branches import BranchPlan, check_push, heads_of, plan_branch, summary, write
from ci_compiler.sync.compiled import compile_files

REMOTE = "origin"


def run(arguments: argparse.Namespace) -> int:
    """Brings every branch up to date."""
    root, spec = root_of(arguments), spec_of(arguments)
    decided = plan(spec)
    print_findings(decided.warnings)
    git = Git(root)
    templates = templates_of(root, spec)
    common = {**compile_files(decided), **_carried(root, spec), **templates}
    plans = tuple(
        plan_branch(
            git,
            branch,
            head,
            {**common, **recipes(spec, decided.judged, branch, templates)},
            territory(spec, decided.judged, branch),
            adopt=arguments.adopt,
        )
        for branch, head in heads_of(git, spec).items()
    )
    if arguments.push:
        check_push(git, REMOTE, plans)
    table(["branch", "added", "changed", "removed"], summary(plans))
    taken = {plan.branch: _taken(git, plan, decided.judged) for plan in plans if plan.taken}
    for branch, lines in taken.items():
        print(f"{branch} takes over recipes:", *lines, sep="\n  ")
    if arguments.dry_run:
        return 0
    message = f"Compile from {spec.document.file}\n\nWritten by `ci-compile sync`; the spec says why."
    messages = {plan.branch: "\n".join([message, *_told(taken.get(plan.branch, []))]) for plan in plans}
    commits = write(git, plans, messages, remote=REMOTE if arguments.push else "")
    for branch, commit in commits.items():
        print(f"{branch} is now {commit[:12]}")
    folders, parents = git.checked_out(), {plan.branch: plan.parent for plan in plans}
    for branch in sorted(folders.keys() & commits.keys()):
        there = "" if folders[branch] == Path.cwd() else f" -C {shlex.quote(str(folders[branch]))}"
        note(
            f"{branch} is checked out, and its files did not change; to update them to the new commit, run "
            f"`git{there} diff --name-only {parents[branch][:12]} {commits[branch][:12]} | "
            f"git{there} restore --staged --worktree --pathspec-from-file=-`"
        )
    print("every branch is up to date" if not commits else f"{len(commits)} of {len(plans)} branches moved")
    return 0


def _taken(git: Git, plan: BranchPlan, judged: Judged) -> list[str]:
    """How the recipes that `plan` takes over differ from the compiled ones."""
    from ci_compiler.adoption.taking import differing  # only `--adopt` needs it
    from ci_compiler.variant import RECIPES

    tree = git.tree(plan.parent, RECIPES)
    before = zip(tree, git.blobs(list(tree.values())), strict=True)
    packages = {
        variant.name: variant.package
        for cell in judged.cells
        if cell.branch == plan.branch
        for variant in cell.variants
    }
    return differing({path: data.decode(errors="replace") for path, data in before}, plan.taken, packages)


def _told(lines: list[str]) -> list[str]:
    return ["", "Recipes that were the repository's own are compiled from now on:", *lines] if lines else []


def _carried(root: Path, spec: Spec) -> dict[str, str]:
    """The repository's own spec, its schema and its overlays, which are the same on every branch."""
    overlays = {Path(path): None for package in spec.packages.values() for path in package.overlays}
    own = (SPEC, SCHEMA_BESIDE) if spec.document.file == SPEC.as_posix() else ()
    files = (path for path in (*own, *overlays) if (root / path).is_file())
    return {path.as_posix(): (root / path).read_text("utf-8") for path in files}
