"""`ci-compile audit`: what is wrong with existing recipes."""

from __future__ import annotations

import argparse
from pathlib import Path

from ci_compiler.cli.where import add_branch, add_spec, branch_of, checkout_around, spec_of
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, wrong


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the folder."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="a checkout, or a folder of recipes")
    parser.add_argument("--timeout", type=float, default=120.0, metavar="SECONDS", help="in all (default: 120)")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    add_branch(parser)
    add_spec(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the findings, one per line; returns 1 if there are any."""
    from ci_compiler.adoption.audit import audit
    from ci_compiler.cli.console import note, print_findings, print_json

    spec = spec_of(arguments)
    if not spec.backend.has_recipes:
        note(f"the backend {spec.backend} builds no recipes")
        return 0
    if not arguments.folder.is_dir():
        raise wrong(arguments.folder, Code.RECIPES_MISSING, "the folder does not exist")
    branch = branch_of(arguments, spec, checkout_around(arguments.folder))
    findings = audit(arguments.folder, spec, branch, timeout=arguments.timeout)
    if arguments.json:
        print_json([_as_json(finding) for finding in findings])
    else:
        print_findings(findings)
    if findings and not arguments.json:
        note(f"{len(findings)} finding{'s' if len(findings) > 1 else ''}")
    return 1 if findings else 0


def _as_json(finding: Finding) -> dict[str, object]:
    from ci_compiler.register import url

    place = {"file": finding.place.file, "line": finding.place.line, "column": finding.place.column}
    return {**place, "code": finding.code, "message": finding.message, "url": url(finding.code)}
