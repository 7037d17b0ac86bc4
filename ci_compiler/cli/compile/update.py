"""`ci-compile update`: finds newer releases, and edits the spec."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

from ci_compiler.adoption.spec_forms import fits
from ci_compiler.backends.checkout import REMOTE, JobCheckout
from ci_compiler.checkout import head_branch
from ci_compiler.cli import options
from ci_compiler.cli.console import note, print_findings, print_json, print_markdown, table
from ci_compiler.cli.progress import progress
from ci_compiler.cli.where import carried_of, check_branches, editable_spec, nixpkgs_of, root_of, spec_of, templates_of
from ci_compiler.clock import Clock, day_of
from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.files.atomic import write_text
from ci_compiler.git import Git
from ci_compiler.outside import bytes_of, decoded, text_of
from ci_compiler.plan.expected import dated_findings
from ci_compiler.plan.pipeline import plan
from ci_compiler.plan.rules import errors_among
from ci_compiler.reports.diff import diff
from ci_compiler.reports.diff_markdown import markdown
from ci_compiler.spec.build import BUNDLED
from ci_compiler.spec.carried import default_branch
from ci_compiler.spec.model import Spec
from ci_compiler.units import counted, markdown_table
from ci_compiler.update.changes import Nixpkgs
from ci_compiler.update.choice import Asked, Move, is_on, is_written, leads, not_looked_up, own_recipes
from ci_compiler.update.pins import StalePin
from ci_compiler.update.release_pins import ACTIONS, FILE
from ci_compiler.update.remote import Remote
from ci_compiler.update.updating import Checked, TrueNixpkgs, Updated, checked, judged, needless, updated

HEAD = "ci-compile-update"
"""The branch of the pull request. At most one such pull request is open, whatever it updates."""

_HEADERS = ["branch", "package", "before", "after"]


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "packages",
        metavar="PACKAGE",
        nargs="*",
        help="only these packages (default: all whose releases are known), or the pins called "
        "nixpkgs, actions and images, or the values of axes that a command lists (values)",
    )
    parser.add_argument(
        "--to",
        metavar="VERSION",
        default="",
        help="go to this release, or to the newest of this line (2.11), not to the newest of the branch's own line",
    )
    parser.add_argument(
        "--branch",
        metavar="B",
        action="append",
        default=[],
        help="only this branch; may be repeated. With --new-branch: the branch to copy",
    )
    parser.add_argument(
        "--revision",
        metavar="OWNER/NAME=REV",
        action="append",
        default=[],
        help="own recipes: this other source, or NixOS/nixpkgs, goes to this tag or commit; may be repeated",
    )
    parser.add_argument(
        "--new-branch",
        metavar="NAME",
        default="",
        help="leave the branches as they are; add a branch with the release to the spec",
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--dry-run", action="store_true", help="print what would change, and write nothing")
    group.add_argument(
        "--check", action="store_true", help="list what is stale and why, and write nothing; exit 1 if anything is"
    )
    group.add_argument(
        "--pull-request", action="store_true", help="write nothing here; open or update one pull request on GitHub"
    )
    parser.add_argument(
        "--nixpkgs",
        metavar="PATH",
        help="also evaluate samples with the true nixpkgs: `real` for the one "
        "that the recipes fetch, or a folder that takes its place",
    )
    options.shared(parser, "json", "repository", "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Edits the spec, and prints what changes. Raises InputError, and writes nothing then."""
    root, spec = root_of(arguments), spec_of(arguments)
    if spec.bundled and (root / FILE).exists():
        file = root / "ci_compiler/spec" / BUNDLED.name  # the compiler's own repository
    else:
        file = editable_spec(arguments, spec)
    asked, here = _asked(arguments, spec), head_branch(root)
    with Remote(os.environ, goes_on=arguments.check, folder=root) as remote, ExitStack() as trees:
        if arguments.check:
            return _check(spec, asked, remote, _tables(root), as_json=arguments.json)
        text = decoded(bytes_of(file))
        tables, now = _tables(root), Clock().now()
        asked = asked._replace(checkouts=_checkouts(arguments, spec, here, trees))
        with progress("looking for releases"):
            done = updated(
                text, spec, asked, remote, new_branch=arguments.new_branch, tables=tables, now=now, here=here
            )
        print_findings(done.findings)
        if not done.moves and not done.pins:
            return _nothing(spec, asked, kept=bool(done.findings), as_json=arguments.json)
        with progress("judging the change"):
            meaning = _meaning(arguments, root, spec, done, remote)
    if arguments.json:
        print_json({"changes": _as_json(_rows(done.moves, done.pins)), "meaning": meaning})
    else:
        table(_HEADERS, _rows(done.moves, done.pins))
        print_markdown(f"\n{meaning}\n")
    if arguments.dry_run:
        return 0
    if arguments.pull_request:
        if done.files and (done.files.keys() & {FILE, ACTIONS} or here != default_branch(done.spec)):
            message = f"edits the default branch alone, and no tables of the compiler; edit {', '.join(done.files)}"
            raise wrong("--pull-request", Code.WRONG_OPTION, message)
        return _open(arguments, root, done, meaning)
    _write(root, file, spec, done, was=text)
    return 0


def _write(root: Path, file: Path, spec: Spec, done: Updated, *, was: str) -> None:
    for path, new in done.files.items():
        write_text(root / path, new)
    if done.files:
        note(f"{counted(len(done.files), 'file')} edited{'; build the images again' if FILE in done.files else ''}")
    if done.text != was:
        write_text(file, done.text)
        note(f"{spec.document.file} is edited; `ci-compile` and `ci-compile recipes` write what it compiles to")


def _nothing(spec: Spec, asked: Asked, *, kept: bool, as_json: bool) -> int:
    """Says that there is nothing to update, or that warnings say what is kept, and what was not looked up."""
    branches = [branch for branch in spec.branches.values() if asked.covers(branch.name)]
    led = [branch.name for branch in branches if any(leads(spec, branch, asked))]
    which = "" if len(led) == len(branches) else f" that was looked up ({', '.join(led)})"
    newest = f"every branch{which} has the newest release of its line" if led else "no release was looked up"
    message = "nothing is stale" if asked.packages else newest
    _print_nothing("nothing can be updated" if kept else message, as_json=as_json)
    for why, names in not_looked_up(spec, asked).items():
        if names and not asked.packages:
            note(f"not looked up, since {why}: {', '.join(names)}")
    return 0


def _tables(root: Path) -> dict[str, str]:
    """The compiler's own tables of pins, if `root` is a checkout of it."""
    return {path: text_of(root / path) for path in (FILE, ACTIONS) if (root / path).is_file()}


def _check(spec: Spec, asked: Asked, remote: Remote, tables: dict[str, str], *, as_json: bool) -> int:
    """Prints what is stale and why; returns 1 if anything is."""
    from ci_compiler.runner.deployment.release_pins import pins

    known = pins()
    programs = {"chart": known.chart_version, **{name: one.version for name, one in known.archives.items()}}
    with progress("looking for releases"):
        found = checked(spec, asked, remote, tables, programs)
    dated = [] if asked.packages else list(dated_findings(spec, day_of(Clock().now())))
    expired = errors_among(dated)
    print_findings([*found.findings, *dated])
    rows = _rows(found.moves, found.pins)
    if rows and as_json:
        changes = zip(_as_json(rows), _reasons(found), strict=True)
        print_json({"changes": [{**row, "why": why} for row, why in changes], "meaning": ""})
    elif rows:
        table([*_HEADERS, "why"], [(*row, why) for row, why in zip(rows, _reasons(found), strict=True)])
    elif not found.findings and not expired:
        _print_nothing("nothing is stale", as_json=as_json)
    return 1 if rows or found.findings or expired else 0


def _print_nothing(message: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"changes": [], "meaning": ""})
    else:
        print(message)


def _as_json(rows: Iterable[Sequence[str]]) -> list[dict[str, str]]:
    return [dict(zip(_HEADERS, row, strict=True)) for row in rows]


def _reasons(found: Checked) -> list[str]:
    return ["a newer release" for _ in found.moves] + [pin.why for pin in found.pins]


def _asked(arguments: argparse.Namespace, spec: Spec) -> Asked:
    """What the options ask for. Raises InputError for options that contradict each other."""
    check_branches(spec, branch=arguments.branch)
    if arguments.new_branch and len(arguments.branch) != 1:
        raise wrong("--new-branch", Code.WRONG_OPTION, "name the one branch to copy with --branch")
    revisions: dict[str, str] = {}
    for given in arguments.revision:
        repository, _, revision = given.partition("=")
        if not (fits("repository-name", repository) and revision):
            raise wrong("--revision", Code.WRONG_OPTION, f"{given!r} is not OWNER/NAME=REVISION")
        revisions[repository] = revision
    packages, branches = tuple(arguments.packages), tuple(arguments.branch)
    return Asked(packages, arguments.to.removeprefix("v"), branches, revisions=revisions)


def _checkouts(arguments: argparse.Namespace, spec: Spec, here: str, trees: ExitStack) -> dict[str, Path]:
    """The folders of own recipes that can be edited, by branch: what is checked out, and for pull requests the others.

    Those are in `trees`. Raises InputError.
    """
    root = root_of(arguments)
    found = {here: root} if here else {}
    others = {name for package in own_recipes(spec) for name in spec.branches if is_on(spec, package, name)} - {here}
    if arguments.pull_request and here == default_branch(spec) and others:
        from ci_compiler.sync.landing import tips

        tree = JobCheckout(root).tree
        known = {branch: tip for branch, tip in tips(Git(root), spec).items() if branch in others}
        found |= {branch: trees.enter_context(tree(tip)) for branch, tip in known.items()}
    return found


def _rows(moves: Iterable[Move], pins: Iterable[StalePin]) -> list[tuple[str, str, str, str]]:
    return [
        *((move.branch, move.package, move.before, move.release.version) for move in moves),
        *((pin.branch or "-", pin.what, pin.now[:12], pin.right[:12]) for pin in pins),
    ]


def _meaning(arguments: argparse.Namespace, root: Path, spec: Spec, done: Updated, remote: Remote) -> str:
    """What the change means, as Markdown. Raises InputError if the edited spec does not compile."""
    true = TrueNixpkgs(nixpkgs_of(arguments)) if arguments.nixpkgs is not None else None
    before, after = plan(spec), plan(done.spec)
    judgement = judged(after, done, templates_of(root, done.spec), true)
    return "\n\n".join([markdown(diff(before, after)), *judgement, *needless(after, done, Nixpkgs(remote))])


def _open(arguments: argparse.Namespace, root: Path, done: Updated, meaning: str) -> int:
    """Opens the pull request, or updates the one that is open, and prints its URL."""
    from ci_compiler.cli.remote import client_of
    from ci_compiler.sync.branches import WRITTEN, recipes_plan
    from ci_compiler.sync.landing import branch_plans, tips
    from ci_compiler.sync.pull_requests import open_pull_requests

    git, decided = Git(root), plan(done.spec)
    default = default_branch(done.spec)
    texts = {**carried_of(root, done.spec), **done.files, done.spec.document.file: done.text}
    plans = branch_plans(git, decided, texts, {default: git.resolve("HEAD")}, adopt=False)
    title = f"Update {', '.join(_names(done))}"
    client = client_of(arguments, root)
    messages = {default: f"{title}\n\n{WRITTEN}"}
    bodies = {default: f"{_list(done)}\n\n{meaning}\n"}
    head = "-".join([HEAD, *arguments.packages])
    for _, address in open_pull_requests(client, git, REMOTE, plans, messages, bodies, head=head):
        print(address)
    if done.elsewhere:
        heads, own = tips(git, done.spec), {branch: _of(done, branch) for branch in done.elsewhere}
        plans = tuple(recipes_plan(branch, heads[branch], texts) for branch, texts in done.elsewhere.items())
        messages = {branch: f"Update {', '.join(_names(part))}\n\n{WRITTEN}" for branch, part in own.items()}
        also = f"The pull request of {default} has the spec that says so: merge it too."
        bodies = {branch: f"{_list(part)}\n\n{also}\n" for branch, part in own.items()}
        for _, address in open_pull_requests(client, git, REMOTE, plans, messages, bodies, head=f"{head}@{{branch}}"):
            print(address)
    return 0


def _of(done: Updated, branch: str) -> Updated:
    """What changes in the recipes of another branch alone."""
    moves = (move for move in done.moves if move.branch == branch)
    return done._replace(
        moves=tuple(move for move in moves if not is_written(done.spec.packages[move.package])), pins=()
    )


def _names(done: Updated) -> Iterable[str]:
    """The packages with their new versions, and the pins, each once."""
    moved = (f"{move.package} to {move.release.version}" for move in done.moves)
    return dict.fromkeys([*moved, *(pin.what for pin in done.pins)])


def _list(done: Updated) -> str:
    return markdown_table(_HEADERS, _rows(done.moves, done.pins))
