"""The compile of the whole repository, with or without `--check`, for the commands that make one."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ci_compiler import __version__
from ci_compiler.cli.console import note, print_findings, table
from ci_compiler.cli.drift import missing_recipes, write_or_check
from ci_compiler.cli.where import branch_of, plan_of, root_of, templates_of
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, nearest, wrong
from ci_compiler.files.compiled_by import compiled_by, is_older
from ci_compiler.files.drift import FLOX, GITHUB, Territory, holds_ours
from ci_compiler.plan.limits import limit
from ci_compiler.plan.pipeline import Plan
from ci_compiler.spec.carried import default_branch
from ci_compiler.spec.model import Spec
from ci_compiler.sync.compiled import compile_files
from ci_compiler.units import size
from ci_compiler.variant import RECIPES, recipe_names


def compile_or_check(arguments: argparse.Namespace, command: Sequence[str]) -> int:
    """Compiles; with `--check` returns 1 on drift, and prints `command` as what fixes it.

    Raises InputError if a newer version compiled the tree.
    """
    root = root_of(arguments)
    before = _compiled_before(root)
    decided = plan_of(arguments, compiles=True)
    branch = _branch(arguments, decided.spec, root)
    known = [*decided.warnings, *_toolkit(decided.spec, root), *_scripts(decided, root, branch)]
    print_findings(known, root=root)
    files, (recipes, own) = dict(compile_files(decided)), _recipes(decided, root, branch)
    territories = [GITHUB, *own]

    def done(counts: str) -> None:
        _table(decided, files)
        where = root if root != Path.cwd() else Path()
        kept = f", {len(recipe_names(recipes))} recipes and their .gitattributes" if recipes else ""
        source = decided.spec.document.file
        print(f"{len(files)} files under {(where / '.github').as_posix()}{kept} from {source}: {counts}")
        if left := len(decided.judged.left_out):
            print(f"{left} combinations left out; `ci-compile variants --left-out` lists them with their reasons")

    code = write_or_check(arguments, command, root, files | recipes, territories, done)
    if code and before != __version__ and len(command) == 1:
        note(f"{before} compiled these files, and this is {__version__}: `ci-compile upgrade` shows what changes")
    missing = missing_recipes(decided.spec, decided.judged.cells, branch, root) if arguments.check else ()
    edited = _edited(decided, root, branch) if arguments.check else ()
    print_findings([*missing, *edited])
    return 1 if missing or edited else code


def _toolkit(spec: Spec, root: Path) -> Sequence[Finding]:
    """A warning if hosted jobs would install ci-compiler from a path that the repository lacks."""
    path = root / spec.toolkit
    if not spec.toolkit.startswith(".") or path.is_file() or (path / "pyproject.toml").is_file():
        return ()
    message = (
        f"hosted jobs install ci-compiler from {spec.toolkit}, which is no Python project here; write `toolkit: "
        "git+https://HOST/PATH@COMMIT` or another source of it"
    )
    return (spec.finding(("toolkit",), Code.TOOLKIT_MISSING, message),)


def _declared_scripts(spec: Spec) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The files of the repository that jobs run, and where the spec has each."""
    for name, package in spec.packages.items():
        if package.command:
            yield package.command.build, ("packages", name, "command", "build")
        smoke = package.smoke
        tests = {(): smoke, ("cpu",): smoke.cpu, ("gpu",): smoke.gpu} if smoke else {}
        yield from ((test.python, ("packages", name, "smoke", *at, "python")) for at, test in tests.items() if test)


def _scripts(decided: Plan, root: Path, branch: str) -> Iterator[Finding]:
    """A warning for each script that a job of the branch would not find."""
    spec = decided.spec
    absent = [(path, at) for path, at in _declared_scripts(spec) if path and not (root / path).is_file()]
    cells = [cell for cell in decided.judged.cells if absent and cell.branch == branch]
    built = {variant.package for cell in cells for variant in cell.variants}
    for path, at in absent:
        if at[1] in built:
            beside = (root / path).parent
            names = [one.relative_to(root).as_posix() for one in beside.iterdir()] if beside.is_dir() else []
            message = f"{path} is not a file of this checkout; the jobs of {branch} run it"
            yield spec.finding(at, Code.SCRIPT_MISSING, message + nearest(path, names, only_near=True))


def _compiled_before(root: Path) -> str:
    """The version that compiled the tree, or this one. Raises InputError if it is newer than this one."""
    before = compiled_by(root) or __version__
    if is_older(__version__, before):
        message = f"{before} compiled these files, and this is {__version__}; install ci-compiler=={before}"
        raise wrong(GITHUB.folder, Code.OLDER_COMPILER, message)
    return before


def _edited(decided: Plan, root: Path, branch: str) -> Sequence[Finding]:
    """The findings about a spec that another branch than the default one edits, as far as the history is here."""
    spec = decided.spec
    if branch not in spec.branches or branch == default_branch(spec) or not (root / ".git").exists():
        return ()
    from ci_compiler.git import Git  # the default branch does not need them
    from ci_compiler.sync.carried import edits_of_request

    git = Git(root)
    default = {**git.heads(), **git.heads("remotes/origin")}.get(default_branch(spec))
    return edits_of_request(git, spec, branch, default) if default else ()


def _branch(arguments: argparse.Namespace, spec: Spec, root: Path) -> str:
    """The branch whose files the checkout has; '' where no branch is given or known, and none is needed.

    Raises InputError if the branch of a checkout's recipes is not known, or if they are those of another one. A folder
    that is no checkout has no branch: its recipes are left out, which is printed.
    """
    recipes = spec.backend.has_recipes and (root / RECIPES).is_dir()
    given = getattr(arguments, "branch", None) is not None
    if not given and not (root / ".git").exists():
        if recipes:
            choices = " or ".join(f"--branch {name}" for name in spec.branches)
            note(f"the recipes are left out, since this folder is no checkout; {choices} includes them")
        return ""
    try:
        return branch_of(arguments, spec, root, source=True, writes=recipes and not arguments.check)
    except InputError:
        if recipes or given:
            raise
        return ""


def _recipes(decided: Plan, root: Path, branch: str) -> tuple[dict[str, str], list[Territory]]:
    """The recipes of the branch, and their folder; empty if the checkout has no compiled ones."""
    if not decided.spec.backend.has_recipes or not holds_ours(root, FLOX):
        return {}, []
    from ci_compiler.recipes.render import recipes, territories

    own = territories(decided.spec, decided.judged, branch)
    return recipes(decided.spec, decided.judged, branch, templates_of(root, decided.spec)), [*own]


def _table(decided: Plan, files: Mapping[str, str]) -> None:
    """Prints what was written, one line per branch, with the shards that are nearest to GitHub's limits."""
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
