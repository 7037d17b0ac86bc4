"""`ci-compile variants`: lists the variants, narrowed down by patterns, branch and package."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ci_compiler.cli.where import add_spec, spec_of
from ci_compiler.codes import Code
from ci_compiler.errors import nearest, wrong

if TYPE_CHECKING:
    from ci_compiler.plan.matrix import Cell, Variant
    from ci_compiler.plan.rules import Judged
    from ci_compiler.spec.model import Spec


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the patterns and filters."""
    parser.add_argument("patterns", nargs="*", metavar="PATTERN", help="names, with the wildcards * ? [] and {a,b}")
    parser.add_argument("--branch", help="only this branch")
    parser.add_argument("--package", help="only this package")
    parser.add_argument("--left-out", action="store_true", help="selected combinations that cannot be built, and why")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_spec(parser)


def run(arguments: argparse.Namespace) -> int:
    """Lists the variants; returns 1 if none matches."""
    from ci_compiler.cli.console import note, print_json, table
    from ci_compiler.plan.rules import judge

    spec = spec_of(arguments)
    _known("branch", Code.UNKNOWN_BRANCH, arguments.branch, spec.branches)
    _known("package", Code.UNKNOWN_PACKAGE, arguments.package, spec.packages)
    judged = judge(spec)
    if arguments.left_out:
        return _left_out(spec, judged, arguments)
    chosen = list(_chosen(judged, arguments))
    if arguments.json:
        print_json([row(spec, cell, variant) for cell, variant in chosen])
    else:
        headers = ["variant", "branch", "version", "system"]
        table(headers, ([v.name, c.branch, version(spec, c, v), c.system] for c, v in chosen))
    if not chosen:
        note("no variant matches")
    return 0 if chosen else 1


def row(spec: Spec, cell: Cell, variant: Variant) -> dict[str, str]:
    """A variant as JSON shows it."""
    return {
        "name": variant.name,
        "package": variant.package,
        "version": version(spec, cell, variant),
        "branch": cell.branch,
        "cuda": spec.branches[cell.branch].cuda,
        "python": cell.python,
        "gpu": cell.gpu,
        "isa": cell.isa,
        "system": cell.system,
    }


def version(spec: Spec, cell: Cell, variant: Variant) -> str:
    """The variant's version on its branch."""
    return spec.branches[cell.branch].versions[variant.package]


def _chosen(judged: Judged, arguments: argparse.Namespace) -> Iterator[tuple[Cell, Variant]]:
    from ci_compiler.spec.patterns import matcher_of_any

    try:
        matches = matcher_of_any(arguments.patterns or ["*"])
    except ValueError as error:
        raise wrong("PATTERN", Code.WRONG_PATTERN, str(error)) from None
    for cell in judged.cells:
        if arguments.branch in {None, cell.branch}:
            for variant in cell.variants:
                if arguments.package in {None, variant.package} and matches(variant.name):
                    yield cell, variant


def _left_out(spec: Spec, judged: Judged, arguments: argparse.Namespace) -> int:
    from ci_compiler.cli.console import print_json, table
    from ci_compiler.register import url

    rows = [
        {
            "branch": one.branch,
            "gpu": one.gpu,
            "isa": one.isa,
            "python": one.python or "all",
            "package": one.package or "all",
            "code": one.code,
            "url": url(one.code),
            "reason": one.reason,
            "place": str(spec.place(*one.path)),
        }
        for one in judged.left_out
        if arguments.branch in {None, one.branch} and arguments.package in {None, "", one.package or arguments.package}
    ]
    if arguments.json:
        print_json(rows)
    else:
        headers = ["branch", "gpu", "isa", "python", "package", "reason"]
        table(headers, ([line[header] for header in headers] for line in rows))
    return 0


def _known(kind: str, code: Code, name: str | None, known: Iterable[str]) -> None:
    names = list(known)
    if name is not None and name not in names:
        message = f"unknown {kind} {name!r}{nearest(name, names)}"
        raise wrong(f"--{kind}", code, message)
