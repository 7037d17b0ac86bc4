"""`ci-compile recipes`: writes or checks the recipes of a branch."""

from __future__ import annotations

import argparse
from pathlib import Path

from ci_compiler.cli.drift import write_or_check
from ci_compiler.cli.where import branch_of, root_of, spec_of, templates_of
from ci_compiler.codes import Code
from ci_compiler.errors import InputError, wrong
from ci_compiler.files.drift import FLOX, Territory
from ci_compiler.plan.rules import errors_among, judge
from ci_compiler.recipes.render import recipes


def run(arguments: argparse.Namespace) -> int:
    """Writes the recipes; with `--check` returns 1 on drift."""
    spec, root = spec_of(arguments), root_of(arguments)
    branch = branch_of(arguments, spec, root)
    if not spec.backend.has_recipes:
        print(f"the backend {spec.backend} builds no recipes")
        return 0
    judged = judge(spec)
    if errors := errors_among(judged.findings):
        raise InputError(errors)
    files = recipes(spec, judged, branch, templates_of(root, spec))
    territory = FLOX
    if arguments.output is not None:
        output = arguments.output.resolve()
        root, folder = output.parent, output.name
        if not folder:
            message = f"{output} cannot be replaced in one step; name a folder below it"
            raise wrong("--output", Code.WRONG_VALUE, message)
        files = {f"{folder}/{Path(path).name}": text for path, text in files.items()}
        territory = Territory(folder=folder, patterns=FLOX.patterns)
    made = f"{len(files) - 1} recipes of {branch} and their .gitattributes" if files else f"no recipes of {branch}"
    what = f"{made} from {spec.document.file}"
    command = ["ci-compile", "recipes"]
    return write_or_check(arguments, command, root, files, [territory], lambda counts: print(f"{what}: {counts}"))
