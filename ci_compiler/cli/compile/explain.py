"""`ci-compile explain NAME`: all about one variant."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ci_compiler.cli.where import add_spec, spec_of

if TYPE_CHECKING:
    from ci_compiler.plan.lookup import BuiltVariant


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the name."""
    parser.add_argument("name", metavar="NAME", help="a variant's name")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_spec(parser)


def run(arguments: argparse.Namespace) -> int:
    """Explains; 0 for a variant that is built, 1 for one that is not, 2 for a name that is none."""
    from ci_compiler.cli.console import print_json
    from ci_compiler.errors import wrong
    from ci_compiler.plan.lookup import explain
    from ci_compiler.plan.pipeline import plan

    found = explain(plan(spec_of(arguments)), arguments.name)
    if found.unknown:
        raise wrong("NAME", "unknown-variant", found.unknown)
    if arguments.json:
        absent = [{"reason": one.reason, "place": str(one.place)} for one in found.absent]
        print_json({"name": found.name, "built": [dict(_lines(one)) for one in found.built], "absent": absent})
    else:
        for index, one in enumerate(found.built):
            print("\n" * bool(index) + found.name)
            for key, value in _lines(one):
                print(f"  {key:<12} {value}")
        for gone in found.absent:
            print(f"{found.name} is not built: {gone.reason}\n  {'spec':<12} {gone.place}")
    return 0 if found.built else 1


def _lines(one: BuiltVariant) -> list[tuple[str, str]]:
    return [
        ("branch", one.cell.branch),
        ("version", one.version),
        ("spec", str(one.selected_by)),
        ("recipe", one.recipe),
        ("workflow", one.workflow),
        ("job", one.job),
        *((stage.value, where) for stage, where in one.stages()),
        ("dispatch", one.dispatch),
    ]
