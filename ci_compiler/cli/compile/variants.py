"""`ci-compile variants`: lists the variants, narrowed down by patterns, branch and package."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ci_compiler.cli import options
from ci_compiler.cli.console import note, print_json, print_rows, table
from ci_compiler.cli.where import filter_of, spec_of
from ci_compiler.errors import nearest
from ci_compiler.plan.document import left_out_row, variant_row
from ci_compiler.plan.matrix import Cell, Variant
from ci_compiler.plan.needs import Needs
from ci_compiler.plan.rules import Judged, judge
from ci_compiler.spec.model import Spec
from ci_compiler.spec.patterns import matcher, matcher_of_any


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    options.shared(parser, "patterns", "only-branch", "only-toolkit")
    parser.add_argument("--package", metavar="P", help="only this package")
    parser.add_argument("--left-out", action="store_true", help="selected combinations that cannot be built, and why")
    options.shared(parser, "quiet", "json", "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Lists the variants; returns 1 if none matches."""
    spec = spec_of(arguments)
    filter_of(arguments, "branch", spec.branches)
    filter_of(arguments, "package", spec.packages)
    filter_of(arguments, "toolkit", spec.every_toolkit)
    judged = judge(spec)
    if arguments.left_out:
        return _left_out(spec, judged, arguments)
    needs = Needs(spec, judged.cells)
    rows = [variant_row(needs, cell, variant) for cell, variant in _chosen(judged, arguments)]
    if arguments.quiet:
        for row in rows:
            print(row["name"])
    else:
        _print(rows, as_json=arguments.json)
    if not rows and not arguments.quiet:
        note(f"no variant matches{_unknown_word(judged, arguments.patterns)}")
    return 0 if rows else 1


def _print(rows: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    columns = {"name": "variant", "branch": "branch", "version": "version", "system": "system"}
    print_rows(rows, columns, as_json=as_json, spare=["system"])


def _unknown_word(judged: Judged, patterns: Sequence[str]) -> str:
    """The clause about the first word of `patterns` that no variant's name has."""
    names = [variant.name for cell in judged.cells for variant in cell.variants]
    words = {word for name in names for word in name.split("-")}
    given = [word for pattern in patterns for word in pattern.split("-") if re.fullmatch(r"[\w.]+", word)]
    unknown = next((word for word in given if not any(word in name for name in names)), "")
    none = f"; `{unknown}` is in no variant's name{nearest(unknown, words, only_near=True)}" if unknown else ""
    part = next((one for one in patterns if any(map(matcher(f"*{one}*"), names))), "")
    if part:
        return f"; a pattern stands for a whole name: write '*{part}*' for those that have it somewhere"
    more = "; `ci-compile variants` lists them, and with --left-out why others are not"
    return none if none.endswith("?") else none + more


def _chosen(judged: Judged, arguments: argparse.Namespace) -> Iterator[tuple[Cell, Variant]]:
    matches = matcher_of_any(arguments.patterns or ["*"])
    for cell in judged.cells:
        if arguments.branch in {None, cell.branch} and arguments.toolkit in {None, cell.toolkit}:
            for variant in cell.variants:
                if arguments.package in {None, variant.package} and matches(variant.name):
                    yield cell, variant


def _left_out(spec: Spec, judged: Judged, arguments: argparse.Namespace) -> int:
    rows = [
        left_out_row(spec, left_out)
        for left_out in judged.left_out
        if arguments.branch in {None, left_out.branch}
        and arguments.toolkit in {None, left_out.toolkit}
        and arguments.package in {None, "", left_out.package or arguments.package}
    ]
    if arguments.json:
        print_json(rows)
    else:
        headers = ["branch", "toolkit", "target", "isa", "python", "package"]
        own = list(dict.fromkeys(axis for row in rows for axis in row["axes"] if axis in {*spec.axes, "platform"}))
        lines = (
            [*(row[head] or "all" for head in headers), *(row["axes"].get(axis, "") for axis in own), row["reason"]]
            for row in rows
        )
        table([*headers, *own, "reason"], lines)
    return 0
