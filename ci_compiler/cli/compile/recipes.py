"""`ci-compile recipes`: writes or checks the recipes of a branch."""

from __future__ import annotations

import argparse
from pathlib import Path

from ci_compiler.cli.where import add_branch, add_spec, branch_of, root_of, spec_of
from ci_compiler.codes import Code


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds `--branch`, `-o`, `--check` and `--diff`."""
    add_branch(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="the folder (default: .flox/pkgs)")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a recipe is not as compiled")
    parser.add_argument("--diff", action="store_true", help="show what changes")
    add_spec(parser)


def run(arguments: argparse.Namespace) -> int:
    """Writes the recipes; with `--check` returns 1 on drift."""
    from ci_compiler.cli.drift import counts_of, report_drift
    from ci_compiler.errors import InputError, wrong
    from ci_compiler.files.drift import FLOX, Territory, apply, compare, differences
    from ci_compiler.plan.rules import errors_among, judge
    from ci_compiler.recipes.render import recipes

    spec, root = spec_of(arguments), root_of(arguments)
    branch = branch_of(arguments, spec, root)
    if not spec.backend.has_recipes:
        print(f"the backend {spec.backend} builds no recipes")
        return 0
    judged = judge(spec)
    if errors := errors_among(judged.findings):
        raise InputError(errors)
    files = recipes(spec, judged, branch)
    territory = FLOX
    if arguments.output is not None:
        output = arguments.output.resolve()
        root, folder = output.parent, output.name
        if not folder:
            message = f"{output} cannot be replaced in one step; name a folder below it"
            raise wrong("--output", Code.WRONG_VALUE, message)
        files = {f"{folder}/{Path(path).name}": text for path, text in files.items()}
        territory = Territory(folder=folder, patterns=FLOX.patterns)
    changes = compare(root, files, [territory])
    if arguments.diff:
        print("\n".join(differences(changes)))
    if arguments.check:
        return report_drift(changes, arguments, ["recipes"])
    apply(root, files, changes, [territory])
    what = f"{len(files) - 1} recipes of {branch} and their .gitattributes"
    print(f"{what} from {spec.document.file}: {counts_of(changes, len(files))}")
    return 0
