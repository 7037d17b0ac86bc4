"""`ci-compile audit`: what is wrong with existing recipes."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from ci_compiler.adoption.audit import Audited, audit
from ci_compiler.adoption.causes import Cause, causes_of, tally
from ci_compiler.checkout import checkout_around
from ci_compiler.cli import options
from ci_compiler.cli.console import note, print_findings, print_json, table
from ci_compiler.cli.progress import progress
from ci_compiler.cli.where import branch_of, event_of_run, nixpkgs_of, spec_of, templates_of
from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.register import url
from ci_compiler.spec.model import Spec
from ci_compiler.units import counted


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("folder", metavar="DIR", type=options.path, help="a checkout, or a folder of recipes")
    parser.add_argument("--timeout", metavar="SECONDS", type=float, default=120.0, help="in all (default: 120)")
    parser.add_argument(
        "--nixpkgs",
        metavar="PATH",
        help="also evaluate with the true nixpkgs: `real` for those that the "
        "recipes fetch, or a folder that takes their place",
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--since", metavar="REV", help="with --nixpkgs, only the variants that changed since this commit"
    )
    group.add_argument(
        "--pull-request",
        action="store_true",
        help="with --nixpkgs, only those that the pull request or the merge group of this run changes",
    )
    parser.add_argument(
        "--self-test",
        action="store_true",
        help="plant defects in a copy of the recipes, and print which kinds the audit sees",
    )
    parser.add_argument(
        "--differences",
        action="store_true",
        help="also show what the compiler would write in another way, in "
        "own recipes too; only defects make the exit code 1",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the defects, the notes, the differences and all their places as JSON"
    )
    options.shared(parser, "own-branch", "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Prints what is wrong, one line per cause; returns 1 if there is a defect."""
    spec = spec_of(arguments)
    if not spec.backend.has_recipes:
        note(f"the backend {spec.backend} builds no recipes")
        return 0
    if not arguments.folder.is_dir():
        raise wrong(arguments.folder, Code.RECIPES_MISSING, "the folder does not exist")
    checkout = Path(checkout_around(arguments.folder))
    branch = branch_of(arguments, spec, checkout, source=True)
    if arguments.self_test:
        return _self_test(arguments, spec, branch)
    templates = templates_of(checkout, spec)
    shows = arguments.differences
    audited = audit(
        arguments.folder,
        spec,
        branch,
        timeout=arguments.timeout,
        templates=templates,
        compares_own=shows,
        say=note,
    )
    if arguments.nixpkgs is not None:
        audited = _with_real(arguments, spec, branch, checkout, audited)
    elif arguments.since is not None or arguments.pull_request:
        option = "--pull-request" if arguments.pull_request else "--since"
        raise wrong(option, Code.WRONG_OPTION, "it chooses what --nixpkgs evaluates; give --nixpkgs as well")
    if arguments.json:
        print_json({which: _rows(getattr(audited, which)) for which in ("defects", "notes", "differences")})
    else:
        _print(audited, shows_differences=shows)
    return 1 if audited.defects else 0


def _self_test(arguments: argparse.Namespace, spec: Spec, branch: str) -> int:
    """Prints which kinds of planted defects the audit sees; returns 0, whatever the share."""
    from ci_compiler.adoption.self_test import self_test

    with progress("planting defects"):
        planted = self_test(arguments.folder, spec, branch, timeout=arguments.timeout)
    plants, absent = [plant for plant in planted if plant.recipe], [plant.kind for plant in planted if not plant.recipe]
    rows = [{"kind": plant.kind, "recipe": plant.recipe, "seen": list(plant.seen)} for plant in planted]
    if arguments.json:
        print_json({"planted": rows})
        return 0
    table(["kind", "seen", "recipe"], [[plant.kind, ", ".join(plant.seen) or "no", plant.recipe] for plant in plants])
    if absent:
        note(f"not planted, since nothing in these recipes can have it: {', '.join(absent)}")
    seen = sum(bool(plant.seen) for plant in plants)
    note(f"{seen} of {counted(len(plants), 'kind')} seen" + (f" ({seen / len(plants):.0%})" if plants else ""))
    return 0


def _rows(causes: Iterable[Cause]) -> list[dict[str, object]]:
    return [
        {
            "code": cause.code,
            "message": cause.message,
            "url": url(cause.code),
            "count": len(cause.files),
            "places": [finding.place._asdict() | {"message": finding.message} for finding in cause.findings],
        }
        for cause in causes
    ]


def _print(audited: Audited, *, shows_differences: bool) -> None:
    print_findings(cause.line for cause in (*audited.defects, *audited.notes))
    if shows_differences:
        print_findings(cause.line for cause in audited.differences)
    found = {"defect": audited.defects, "note": audited.notes}
    sums = [tally(causes, noun) for noun, causes in found.items() if causes]
    if audited.differences:
        hint = "" if shows_differences else "; `--differences` shows what the compiler would write in another way"
        sums.append(f"{tally(audited.differences, 'difference')}{hint}")
    if sums:
        note(", ".join(sums))


def _with_real(arguments: argparse.Namespace, spec: Spec, branch: str, checkout: Path, audited: Audited) -> Audited:
    """The audit with the defects that the true nixpkgs shows on the branch, or in what changed since `--since`."""
    from ci_compiler.adoption.audit_real import evaluate_branch, with_real
    from ci_compiler.git import Git
    from ci_compiler.plan.pipeline import plan
    from ci_compiler.plan.selection import Question
    from ci_compiler.sync.events import changed_since, request_base

    folder, decided = nixpkgs_of(arguments), plan(spec)
    names, since = None, arguments.since
    if arguments.pull_request:
        since = request_base(Git(checkout), event_of_run())
    if since is not None:
        names, remark = changed_since(Git(checkout), decided, Question(branch, since))
        if remark:
            note(remark)
    if names is not None and not names:
        note(f"nothing to evaluate: no variant of {branch} changed since {since}")
        return audited
    with progress("evaluating with nixpkgs") as show:
        real = evaluate_branch(arguments.folder, decided, branch, folder, names, show=show)
    done = real.done
    note(f"evaluated with nixpkgs: {counted(len(done.derivations), 'recipe')}")
    if done.late:
        note(f"the time was over before {counted(len(done.late), 'recipe')}: {', '.join(done.late)}")
    findings = [finding for cause in audited.defects for finding in cause.findings]
    return replace(audited, defects=causes_of(with_real(decided, real, findings)))
