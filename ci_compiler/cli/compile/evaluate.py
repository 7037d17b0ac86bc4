"""`ci-compile evaluate`: what recipes evaluate to, as Hydra lists its jobs."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from ci_compiler.adoption.audit_real import BranchEvaluation, evaluate_branch, evaluate_pins
from ci_compiler.cli import options
from ci_compiler.cli.console import note, print_findings, print_rows
from ci_compiler.cli.progress import progress
from ci_compiler.cli.where import branch_of, nixpkgs_of, plan_of, root_of
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, wrong
from ci_compiler.plan.pipeline import Plan
from ci_compiler.spec.patterns import matcher_of_any
from ci_compiler.units import counted


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    options.shared(parser, "patterns")
    parser.add_argument(
        "--nixpkgs",
        metavar="PATH",
        default="real",
        help="`real` for the nixpkgs that the recipes fetch (default), or a folder that takes its place",
    )
    parser.add_argument(
        "--patch",
        action="store_true",
        help="also unpack and patch each source, and compile nothing: does every patch and replacement still apply?",
    )
    parser.add_argument(
        "--pins",
        action="store_true",
        help="evaluate one compiled recipe of each branch and toolkit, with the "
        "nixpkgs that it is pinned to; reads no checkout of the branches",
    )
    options.shared(parser, "json", "own-branch", "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Prints the derivation of each variant; returns 1 if one cannot be evaluated or none matches."""
    root, decided = root_of(arguments), plan_of(arguments)
    if arguments.pins:
        return _pins(arguments, decided)
    branch = branch_of(arguments, decided.spec, root, source=True)
    matches = matcher_of_any(arguments.patterns or ["*"])
    names = [variant.name for cell in decided.judged.cells for variant in cell.variants if matches(variant.name)]
    with progress(f"evaluating {counted(len(names), 'recipe')}") as show:
        evaluated = evaluate_branch(root, decided, branch, nixpkgs_of(arguments), names, show=show)
    built, _, done = evaluated
    rows = _rows(branch, evaluated)
    columns = {"name": "variant", "version": "version", "derivation": "derivation"}
    print_rows(rows, columns, as_json=arguments.json)
    print_findings(_below(root, finding) for finding in done.findings.values())
    for name in done.late:
        note(f"{name} was not evaluated, because the time was over")
    if not built:
        note("no recipe of the branch matches")
    fits = not arguments.patch or _patched(root, decided, branch, evaluated, nixpkgs_of(arguments))
    return 0 if fits and len(rows) == len(built) > 0 else 1


def _pins(arguments: argparse.Namespace, decided: Plan) -> int:
    """Prints the derivation of one recipe per branch and toolkit; returns 1 if one cannot be evaluated."""
    if arguments.patterns or arguments.patch or "branch" in arguments:
        raise wrong("--pins", Code.WRONG_OPTION, "it takes one recipe of each branch; leave out all other choices")
    with progress("evaluating one recipe per branch and toolkit"):
        evaluated = list(evaluate_pins(decided, nixpkgs_of(arguments)))
    rows = [row for branch, evaluation in evaluated for row in _rows(branch, evaluation)]
    columns = {"branch": "branch", "name": "variant", "version": "version", "derivation": "derivation"}
    print_rows(rows, columns, as_json=arguments.json)
    print_findings(finding for _, evaluation in evaluated for finding in evaluation.done.findings.values())
    if not evaluated:
        note("the spec compiles no recipe")
    return 0 if len(rows) == len(evaluated) else 1


def _rows(branch: str, evaluated: BranchEvaluation) -> list[dict[str, object]]:
    return [
        {
            "name": name,
            "branch": branch,
            "version": derivation.version,
            "system": derivation.system,
            "derivation": derivation.path,
            "outputs": {**derivation.outputs},
        }
        for name in evaluated.built
        if (derivation := evaluated.done.derivations.get(name))
    ]


def _patched(root: Path, decided: Plan, branch: str, evaluated: BranchEvaluation, folder: Path | None) -> bool:
    """Prints which sources cannot be patched as their recipes say; whether all can."""
    from ci_compiler.adoption.patching import patched  # only `--patch` needs it

    with progress("patching sources"):
        found = list(patched(root, decided, evaluated, branch, folder))
    for one in found:
        for text in one.idle:
            note(f"{one.recipes[0]}: {text}; the source may have it already")
        if one.left_out:
            note(f"{one.recipes[0]}: {one.left_out}")
    found = [one for one in found if not one.left_out]
    failed = [one for one in found if one.problems]
    print_findings(_below(root, one.finding(evaluated.paths[one.recipes[0]])) for one in failed)
    note(f"patched: {counted(len(found) - len(failed), 'source')} of {len(found)}")
    return not failed


def _below(root: Path, finding: Finding) -> Finding:
    """The finding with the path of its file from the repository's root."""
    file = Path(finding.place.file).relative_to(root).as_posix()
    return replace(finding, place=finding.place._replace(file=file))
