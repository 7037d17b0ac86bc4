"""`ci-compile audit`: what is wrong with existing recipes."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from ci_compiler.adoption.audit import audit
from ci_compiler.cli.console import note, print_findings, print_json
from ci_compiler.cli.where import branch_of, checkout_around, nixpkgs_of, spec_of, templates_of
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, wrong
from ci_compiler.register import url
from ci_compiler.spec.model import Spec
from ci_compiler.units import counted


def run(arguments: argparse.Namespace) -> int:
    """Prints the findings, one per line; returns 1 if there are any."""
    spec = spec_of(arguments)
    if not spec.backend.has_recipes:
        note(f"the backend {spec.backend} builds no recipes")
        return 0
    if not arguments.folder.is_dir():
        raise wrong(arguments.folder, Code.RECIPES_MISSING, "the folder does not exist")
    checkout = checkout_around(arguments.folder)
    branch = branch_of(arguments, spec, checkout)
    templates = templates_of(checkout, spec)
    findings = audit(arguments.folder, spec, branch, timeout=arguments.timeout, templates=templates, say=note)
    if arguments.nixpkgs is not None:
        findings = _with_real(arguments, spec, branch, checkout, findings)
    elif arguments.since is not None:
        raise wrong("--since", Code.WRONG_OPTION, "it chooses what --nixpkgs evaluates; give --nixpkgs as well")
    if arguments.json:
        print_json(
            [asdict(one.place) | {"code": one.code, "message": one.message, "url": url(one.code)} for one in findings]
        )
    elif findings:
        print_findings(findings)
        note(counted(len(findings), "finding"))
    return 1 if findings else 0


def _with_real(
    arguments: argparse.Namespace, spec: Spec, branch: str, checkout: Path, found: tuple[Finding, ...]
) -> tuple[Finding, ...]:
    """The findings with what the true nixpkgs says of the branch, or of what changed since `--since`."""
    from ci_compiler.adoption.audit_real import evaluate_branch, with_real
    from ci_compiler.cli.changes import changed_since
    from ci_compiler.git import Git
    from ci_compiler.plan.pipeline import plan

    folder, decided = nixpkgs_of(arguments), plan(spec)
    names = None if arguments.since is None else changed_since(Git(checkout), decided, arguments.since, branch)
    if names is not None and not names:
        note(f"nothing to evaluate: no variant of {branch} changed since {arguments.since}")
        return found
    real = evaluate_branch(arguments.folder, decided, branch, folder, names)
    done = real.done
    note(f"evaluated with nixpkgs: {counted(len(done.derivations), 'recipe')}")
    if done.late:
        note(f"the time was over before {counted(len(done.late), 'recipe')}: {', '.join(done.late)}")
    return with_real(decided, real, found)
