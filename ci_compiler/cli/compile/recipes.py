"""`ci-compile recipes`: writes or checks the recipes of a branch."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from ci_compiler.cli import options
from ci_compiler.cli.console import note, print_findings
from ci_compiler.cli.drift import missing_recipes, write_or_check
from ci_compiler.cli.where import branch_of, editable_spec, root_of, spec_of, templates_of
from ci_compiler.codes import Code
from ci_compiler.errors import InputError, wrong
from ci_compiler.files.atomic import change_folders, reporting
from ci_compiler.files.drift import FLOX, Territory, compare, writing
from ci_compiler.outside import text_of
from ci_compiler.plan.rules import Judged, errors_among, judge
from ci_compiler.recipes.render import recipes, territories
from ci_compiler.spec.build import parse_spec
from ci_compiler.spec.model import Spec
from ci_compiler.units import counted
from ci_compiler.variant import RECIPES, SHARED, recipe_names, recipe_path


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    options.shared(parser, "own-branch")
    parser.add_argument("-o", "--output", metavar="DIR", type=options.path, help="the folder (default: .flox/pkgs)")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a recipe is not as compiled")
    parser.add_argument(
        "--adopt",
        metavar="PATTERN",
        help="compile own recipes that PATTERN matches from now on: edits the spec, prints what differs",
    )
    options.shared(parser, "diff", "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Writes the recipes; with `--check` returns 1 on drift."""
    spec, root = spec_of(arguments, compiles=True), root_of(arguments)
    writes = not arguments.check and arguments.output is None
    branch = branch_of(arguments, spec, root, source=True, writes=writes)
    if not spec.backend.has_recipes:
        print(f"the backend {spec.backend} builds no recipes")
        return 0
    judged = judge(spec)
    if errors := errors_among(judged.findings):
        raise InputError(errors)
    if arguments.adopt is not None:
        return _adopt(arguments, spec, judged, root, branch)
    files = recipes(spec, judged, branch, templates_of(root, spec), self_contained=arguments.output is not None)
    count = len(recipe_names(files))
    places: Sequence[Territory] = territories(spec, judged, branch)
    if arguments.output is not None:
        output = arguments.output.resolve()
        root, folder = output.parent, output.name
        if not folder:
            message = f"{output} cannot be replaced in one step; name a folder below it"
            raise wrong("--output", Code.WRONG_VALUE, message)
        files = {f"{folder}/{Path(path).name}": text for path, text in files.items()}
        places = (Territory(folder=folder, patterns=FLOX.patterns),)
    made = f"{counted(count, 'recipe')} of {branch} and their .gitattributes" if count else f"no recipes of {branch}"
    what = f"{made} from {spec.document.file}"
    command = ["ci-compile", "recipes"]
    code = write_or_check(arguments, command, root, files, places, lambda counts: print(f"{what}: {counts}"))
    check = arguments.check and arguments.output is None
    print_findings(missing := missing_recipes(spec, judged.cells, branch, root) if check else [])
    return 1 if missing else code


def _adopt(arguments: argparse.Namespace, spec: Spec, judged: Judged, root: Path, branch: str) -> int:
    """Edits the spec so that the recipes that match are compiled, prints what differs, and writes them.

    Other branches get theirs by `ci-compile sync --adopt`. With `--check`, nothing is written.
    """
    from ci_compiler.adoption.taking import differing, edited, matching  # only `--adopt` needs these
    from ci_compiler.recipes.named import reached

    file = editable_spec(arguments, spec)
    found = matching(spec, judged, arguments.adopt)
    packages = {package for names in found.values() for package in names.values()}
    text = edited(text_of(file), spec, sorted(packages), arguments.adopt)
    after = parse_spec(text.encode(), shown=spec.document.file)
    if errors := errors_among((decided := judge(after)).findings):
        raise InputError(errors)
    made, mine = recipes(after, decided, branch, templates_of(root, after)), found.get(branch, {})
    taken = {recipe_path(name): made[recipe_path(name)] for name in mine}
    if taken:
        there, base = [path for path in (root / RECIPES).resolve().rglob("*") if path.is_file()], root.resolve()
        read = dict.fromkeys(path for recipe in there for path in (recipe, *reached(recipe, base)))
        texts = {path.relative_to(base).as_posix(): text_of(path, errors="replace") for path in read}
        shared = {path: text for path, text in made.items() if path.startswith(f"{SHARED}/")}
        print(*differing(texts, {**taken, **shared}, mine), sep="\n")
    if arguments.check:
        return 1
    others = {path: recipe for path, recipe in made.items() if path not in taken}
    compare(root, others, [])  # what is in the way of them stops it
    written: dict[Path, Mapping[str, str | None]] = {file.parent: {file.name: text}, **_by_folder(root, made)}
    with reporting(file), writing(*written):
        change_folders(written)
    print(f"{counted(len(taken), 'recipe')} of {branch} compiled from {spec.document.file} from now on")
    if found.keys() - {branch}:
        note("`ci-compile sync --adopt` brings the other branches up to date")
    return 0


def _by_folder(root: Path, made: Mapping[str, str]) -> dict[Path, Mapping[str, str | None]]:
    """The texts of the compiled files, by folder and path below it."""
    return {
        root / folder: {
            path.removeprefix(f"{folder}/"): text for path, text in made.items() if path.startswith(f"{folder}/")
        }
        for folder in (RECIPES, SHARED)
    }
