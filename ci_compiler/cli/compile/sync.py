"""`ci-compile sync`: brings recipes, workflows, documents and spec to every branch, one commit per branch."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ci_compiler.backends.checkout import REMOTE
from ci_compiler.cli import options
from ci_compiler.cli.console import note, print_findings, print_rows
from ci_compiler.cli.progress import progress
from ci_compiler.cli.where import check_branches, root_of, schema_text, spec_of, texts_of
from ci_compiler.codes import Code
from ci_compiler.errors import InputError, wrong
from ci_compiler.git import Git
from ci_compiler.plan.pipeline import Plan, plan
from ci_compiler.plan.rules import Judged
from ci_compiler.spec.build import parse_spec
from ci_compiler.spec.carried import SPEC, carried_paths, default_branch
from ci_compiler.spec.model import Spec
from ci_compiler.spec.revision import base_spec
from ci_compiler.sync.branches import WRITTEN, BranchPlan, behind_remote, check_push, commit_plans, heads_of, summary
from ci_compiler.sync.carried import other_edits, refuse, take
from ci_compiler.sync.checkouts import Checkout, checkouts, write
from ci_compiler.sync.landing import branch_plans

SKIP = "[skip ci]"  # Assumes `skip-ci`.
"""The line of a commit's message with which a push starts no workflow (GitHub Docs, "Skipping workflow runs")."""


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--dry-run", action="store_true", help="print the plan for each branch and write nothing")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--push", action="store_true", help="push the branches to origin, all of them or none")
    group.add_argument(
        "--pull-request", action="store_true", help="move no branch; open one pull request per branch on GitHub"
    )
    parser.add_argument(
        "--waves",
        action="store_true",
        help="with --push: start the builds in waves on GitHub, so that no job waits for a day",
    )
    parser.add_argument(
        "--take",
        metavar="BRANCH",
        action="append",
        default=[],
        help="merge the change of the spec that was made on BRANCH; may be repeated",
    )
    parser.add_argument(
        "--drop",
        metavar="BRANCH",
        action="append",
        default=[],
        help="overwrite the change of the spec that was made on BRANCH; may be repeated",
    )
    parser.add_argument("--adopt", action="store_true", help="take over recipes that ci-compile did not write")
    parser.add_argument("--json", action="store_true", help="with --dry-run: print JSON, one entry per branch")
    options.shared(parser, "repository", "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Brings every branch up to date, or opens pull requests that do."""
    root, spec = root_of(arguments), spec_of(arguments, compiles=True)
    if arguments.waves and not arguments.push:
        raise wrong("--waves", Code.WRONG_OPTION, "needs --push: without it, nothing is started")
    if arguments.json and not arguments.dry_run:
        raise wrong("--json", Code.WRONG_OPTION, "needs --dry-run: the plan is printed, and nothing is written")
    git, online = Git(root), arguments.push or arguments.pull_request
    remote = REMOTE if online else ""
    spec, carried = _carried(git, root, spec, heads_of(git, spec, remote), arguments)
    decided = plan(spec)
    print_findings(decided.warnings)
    common = {**schema_text(root, spec), **carried}
    heads = heads_of(git, spec, remote)
    with progress("comparing the branches"):
        plans = branch_plans(git, decided, common, heads, adopt=arguments.adopt)
    credential = _credential(arguments)
    pushed = check_push(git, REMOTE, plans, credential) if arguments.push else {}
    updated = [] if arguments.pull_request else _checkouts(git, plans, arguments)
    taken = {one.branch: _taken(git, one, decided.judged) for one in plans if one.taken}
    _print_plans(plans, taken, as_json=arguments.json)
    if arguments.push:
        _check_starts(decided, plans, waves=arguments.waves)
    if arguments.dry_run:
        return 0
    message = f"Compile from {spec.document.file}\n\n{WRITTEN}" + (f"\n\n{SKIP}" if arguments.waves else "")
    messages = {one.branch: "\n".join([message, *_told(taken.get(one.branch, []))]) for one in plans}
    if arguments.pull_request:
        return _open(arguments, git, decided, plans, messages)
    commits = commit_plans(git, plans, messages, pushed)
    write(git, plans, commits, updated, remote=REMOTE if arguments.push else "", environment=credential)
    for branch, commit in commits.items():
        print(f"{branch} is now {commit[:12]}")
    if arguments.waves:
        _start_in_waves(arguments, decided, plans)
    print("every branch is up to date" if not commits else f"{len(commits)} of {len(plans)} branches moved")
    return 0


def _print_plans(plans: Sequence[BranchPlan], taken: Mapping[str, list[str]], *, as_json: bool) -> None:
    columns = ("branch", "added", "changed", "removed")
    counts = [dict(zip(columns, row, strict=True)) for row in summary(tuple(plans))]
    rows = [{**row, "taken": taken.get(str(row["branch"]), [])} for row in counts]
    print_rows(rows, dict(zip(columns, columns, strict=True)), as_json=as_json)
    for branch, lines in ({} if as_json else taken).items():
        print(f"{branch} takes over recipes:", *lines, sep="\n  ")


def _check_starts(decided: Plan, plans: Sequence[BranchPlan], *, waves: bool) -> None:
    from ci_compiler.sync.starts import check_starts  # only a push needs it

    check_starts(decided, plans, note, waves=waves)


def _start_in_waves(arguments: argparse.Namespace, decided: Plan, plans: Sequence[BranchPlan]) -> None:
    from ci_compiler.cli.remote import client_of
    from ci_compiler.sync.starts import start_in_waves, started_by

    client = client_of(arguments, root_of(arguments))
    for url in start_in_waves(client, decided, started_by(decided, plans)):
        print(url)


def _carried(
    git: Git, root: Path, spec: Spec, heads: Mapping[str, str], arguments: argparse.Namespace
) -> tuple[Spec, dict[str, str]]:
    """The spec and the carried files, with the edits of `--take`. Raises InputError for edits that would be lost."""
    check_branches(spec, take=arguments.take, drop=arguments.drop)
    default = default_branch(spec)
    known = dict.fromkeys(heads, heads[default]) | {default: git.resolve("HEAD")}
    files = texts_of(root, carried_paths(spec))
    edits = [edit for edit in other_edits(git, heads, known, files) if edit.branch not in arguments.drop]
    refuse((edit for edit in edits if edit.branch not in arguments.take), default)
    if not edits:
        return spec, files
    taken = take(git, files, edits)
    return (parse_spec(taken[SPEC].encode(), shown=SPEC) if SPEC in taken else spec), taken


def _credential(arguments: argparse.Namespace) -> dict[str, str]:
    """The variables with which git uses the token of a GitHub App, if the environment names one."""
    if not (arguments.push and os.environ.get("GITHUB_APP_ID")):
        return {}
    from ci_compiler.cli.remote import client_of

    return client_of(arguments, root_of(arguments)).git_environment()


def _open(
    arguments: argparse.Namespace, git: Git, decided: Plan, plans: Sequence[BranchPlan], messages: Mapping[str, str]
) -> int:
    """Opens the pull requests, and prints the URL of each."""
    from ci_compiler.cli.remote import client_of
    from ci_compiler.sync.pull_requests import open_pull_requests

    client, opened = client_of(arguments, git.root), 0
    bodies = {one.branch: _difference(git, decided, one) for one in plans if one.changes}
    for branch, address in open_pull_requests(client, git, REMOTE, plans, messages, bodies):
        print(branch, address, flush=True)
        opened += 1
    if not opened:
        print("every branch is up to date")
    return 0


def _difference(git: Git, decided: Plan, one: BranchPlan) -> str:
    """What the change means for the branch, as Markdown."""
    from ci_compiler.reports.diff import diff
    from ci_compiler.reports.diff_markdown import markdown

    try:
        before = plan(base_spec(git.root, one.parent))
    except InputError as error:
        return f"The spec of {one.branch} is wrong, so that the change cannot be compared with it: {error.findings[0]}"
    return markdown(diff(before, decided, one.branch))


def _checkouts(git: Git, plans: Sequence[BranchPlan], arguments: argparse.Namespace) -> list[Checkout]:
    """The checkouts to update. Raises InputError for branches that must not move, which a dry run only prints."""
    found, findings = checkouts(git, plans)
    findings += () if arguments.push else behind_remote(git, REMOTE, plans)
    if findings and not arguments.dry_run:
        raise InputError(findings)
    print_findings(replace(finding, tolerated=True) for finding in findings)
    return found


def _taken(git: Git, one: BranchPlan, judged: Judged) -> list[str]:
    """How the recipes that `one` takes over differ from the compiled ones."""
    from ci_compiler.adoption.taking import differing  # only `--adopt` needs it
    from ci_compiler.variant import RECIPES, SHARED

    tree = {
        path: blob
        for path, blob in git.tree(one.parent).items()
        if path.startswith(f"{RECIPES}/") or path.endswith(".nix")  # recipes may read files elsewhere
    }
    before = zip(tree, git.blobs(list(tree.values())), strict=True)
    packages = {
        variant.name: variant.package for cell in judged.cells if cell.branch == one.branch for variant in cell.variants
    }
    shared = {path: text for path, text in one.files.items() if path.startswith(f"{SHARED}/")}
    return differing({path: data.decode(errors="replace") for path, data in before}, {**shared, **one.taken}, packages)


def _told(lines: list[str]) -> list[str]:
    return ["", "Recipes that were the repository's own are compiled from now on:", *lines] if lines else []
