"""`ci-compile recipes`: writes or checks the recipes of a branch."""

from __future__ import annotations

import argparse
from pathlib import Path

from ci_compiler.cli.drift import counts_of, report_drift
from ci_compiler.cli.where import branch_of, root_of, spec_of
from ci_compiler.codes import Code
from ci_compiler.errors import InputError, wrong
from ci_compiler.files.drift import FLOX, Territory, apply, compare, differences
from ci_compiler.plan.rules import errors_among, judge
from ci_compiler.recipes.render import recipes


def run(arguments: argparse.Namespace) -> int:
    """Writes the recipes; with `--check` returns 1 on drift."""
    spec, root = spec_of(arguments), root_of(arguments)
    branch = branch_of(arguments, spec, root)
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
