"""`ci-compile audit`: what is wrong with existing recipes."""

from __future__ import annotations

import argparse

from ci_compiler.adoption.audit import audit
from ci_compiler.cli.console import note, print_findings, print_json
from ci_compiler.cli.where import branch_of, checkout_around, spec_of, templates_of
from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.register import url
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
    findings = audit(arguments.folder, spec, branch, timeout=arguments.timeout, templates=templates)
    if arguments.json:
        print_json(
            [one.place._asdict() | {"code": one.code, "message": one.message, "url": url(one.code)} for one in findings]
        )
    elif findings:
        print_findings(findings)
        note(counted(len(findings), "finding"))
    return 1 if findings else 0
