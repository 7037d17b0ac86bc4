"""`ci-compile adopt`: makes a spec from existing recipes."""

from __future__ import annotations

import argparse
from pathlib import Path

from ci_compiler.adoption.adopt import SHOWN, adopt
from ci_compiler.adoption.spec_text import UNTESTED
from ci_compiler.cli import options
from ci_compiler.cli.console import note, print_findings
from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.files.atomic import reporting
from ci_compiler.units import counted


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "folders",
        metavar="DIR",
        type=options.path,
        nargs="+",
        help="a checkout, or a folder of recipes; one per branch",
    )
    parser.add_argument("-o", "--output", metavar="FILE", type=options.path, help="the spec (default: standard output)")


def run(arguments: argparse.Namespace) -> int:
    """Prints or writes the spec; returns 1 if it does not have exactly the recipes. Raises InputError without any."""
    output: Path | None = arguments.output
    if output is not None and (output.exists() or output.is_symlink()):
        raise wrong(output, Code.IN_THE_WAY, "exists already; move it away first, or name another file")
    adopted = adopt(arguments.folders, shown=output.as_posix() if output else SHOWN, progress=note)
    print_findings(adopted.findings)
    if output is None:
        print(adopted.text, end="")
    else:
        with reporting(output, always=True):
            output.parent.mkdir(parents=True, exist_ok=True)
            output.write_text(adopted.text, "utf-8", newline="\n")
    for branch, names in adopted.read.items():
        note(f"{branch}: {len(names & adopted.names[branch]):,} of {counted(len(names), 'recipe')}")
    count, lines = sum(map(len, adopted.read.values())), len(adopted.text.splitlines())
    note(f"{counted(count, 'recipe')} in {lines} lines; equal to what the spec would compile: {adopted.equal}")
    if adopted.untested:
        note(f"untested: {counted(adopted.untested, 'variant')}, since {UNTESTED}; state what your machines have")
    return 0 if adopted.complete else 1
