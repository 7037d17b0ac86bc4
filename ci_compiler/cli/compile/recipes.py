"""`ci-compile recipes`: writes or checks the recipes of a branch."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ci_compiler.cli.where import SPEC, add_branch, add_spec, branch_of, root_of, spec_of
from ci_compiler.codes import Code

if TYPE_CHECKING:
    from ci_compiler.plan.rules import Judged
    from ci_compiler.spec.model import Spec


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds `--branch`, `-o`, `--check`, `--diff` and `--adopt`."""
    add_branch(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="the folder (default: .flox/pkgs)")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a recipe is not as compiled")
    parser.add_argument("--diff", action="store_true", help="show what changes")
    parser.add_argument(
        "--adopt",
        metavar="PATTERN",
        help="compile own recipes that PATTERN matches from now on: edits the spec, prints what differs",
    )
    add_spec(parser)


def run(arguments: argparse.Namespace) -> int:
    """Writes the recipes; with `--check` returns 1 on drift."""
    from ci_compiler.cli.drift import counts_of, report_drift
    from ci_compiler.errors import InputError, wrong
    from ci_compiler.files.drift import FLOX, Territory, apply, compare, differences
    from ci_compiler.plan.rules import errors_among, judge
    from ci_compiler.recipes.render import recipes, territory

    spec, root = spec_of(arguments), root_of(arguments)
    branch = branch_of(arguments, spec, root)
    judged = judge(spec)
    if errors := errors_among(judged.findings):
        raise InputError(errors)
    if arguments.adopt is not None:
        return _adopt(arguments, spec, judged, root, branch)
    files = recipes(spec, judged, branch)
    place = territory(spec, judged, branch)
    if arguments.output is not None:
        output = arguments.output.resolve()
        root, folder = output.parent, output.name
        if not folder:
            message = f"{output} cannot be replaced in one step; name a folder below it"
            raise wrong("--output", Code.WRONG_VALUE, message)
        files = {f"{folder}/{Path(path).name}": text for path, text in files.items()}
        place = Territory(folder=folder, patterns=FLOX.patterns)
    changes = compare(root, files, [place])
    if arguments.diff:
        print("\n".join(differences(changes)))
    if arguments.check:
        return report_drift(changes, arguments, ["recipes"])
    apply(root, files, changes, [place])
    what = f"{sum(path.endswith('.nix') for path in files)} recipes of {branch}"
    print(f"{what} from {spec.document.file}: {counts_of(changes, len(files))}")
    return 0


def _adopt(arguments: argparse.Namespace, spec: Spec, judged: Judged, root: Path, branch: str) -> int:
    """Edits the spec so that the recipes that match are compiled, prints what differs, and writes them.

    Other branches get theirs by `ci-compile sync --adopt`.
    """
    from ci_compiler.adoption.taking import differing, edited, matching
    from ci_compiler.cli.console import note
    from ci_compiler.errors import InputError
    from ci_compiler.files.atomic import change_folder, write_file
    from ci_compiler.files.drift import compare
    from ci_compiler.plan.rules import errors_among, judge
    from ci_compiler.recipes.render import recipes
    from ci_compiler.spec.build import parse_spec
    from ci_compiler.variant import RECIPES, recipe_path

    found = matching(spec, judged, arguments.adopt)
    file = _spec_file(arguments, root)
    packages = {package for names in found.values() for package in names.values()}
    text = edited(file.read_text("utf-8"), spec, sorted(packages), arguments.adopt)
    after = parse_spec(text.encode(), shown=spec.document.file)
    if errors := errors_among((decided := judge(after)).findings):
        raise InputError(errors)
    made = recipes(after, decided, branch)
    mine = found.get(branch, {})
    taken = {recipe_path(name): made[recipe_path(name)] for name in mine}
    if taken:
        texts = {
            path.relative_to(root).as_posix(): path.read_text("utf-8", errors="replace")
            for path in (root / RECIPES).rglob("*")
            if path.is_file()
        }
        print(*differing(texts, taken, mine), sep="\n")
    if arguments.check:
        return 1
    others = {path: text for path, text in made.items() if path not in taken}
    compare(root, others, [])
    change_folder(
        root / RECIPES, {path.removeprefix(f"{RECIPES}/"): recipe for path, recipe in (others | taken).items()}
    )
    write_file(file, text)
    print(f"{len(taken)} recipes of {branch} are compiled from {spec.document.file} now")
    if found.keys() - {branch}:
        note("`ci-compile sync --adopt` brings the other branches up to date")
    return 0


def _spec_file(arguments: argparse.Namespace, root: Path) -> Path:
    from ci_compiler.errors import wrong

    file: Path = getattr(arguments, "spec", None) or root / SPEC
    if not file.is_file():
        raise wrong(SPEC, Code.SPEC_MISSING, "the bundled spec has no recipes of the repository's own")
    return file
