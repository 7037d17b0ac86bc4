"""`ci-compile adopt`: makes a spec from existing recipes."""

from __future__ import annotations

import argparse
from pathlib import Path

from ci_compiler.adoption.adopt import adopt
from ci_compiler.cli.console import note, print_findings
from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.files.atomic import cannot_write


def run(arguments: argparse.Namespace) -> int:
    """Prints or writes the spec; returns 1 if a recipe is left out. Raises InputError if none can be adopted."""
    output: Path | None = arguments.output
    if output is not None and (output.exists() or output.is_symlink()):
        raise wrong(output, Code.IN_THE_WAY, "exists already; move it away first, or name another file")
    adopted = adopt(arguments.folders)
    print_findings(adopted.findings)
    if output is None:
        print(adopted.text, end="")
    else:
        try:
            output.parent.mkdir(parents=True, exist_ok=True)
            output.write_text(adopted.text, "utf-8", newline="\n")
        except OSError as error:
            raise cannot_write(output, error) from error
    count, branches = sum(map(len, adopted.names.values())), ", ".join(adopted.names)
    note(f"{count} of {adopted.read} recipes in {len(adopted.text.splitlines())} lines, for {branches}")
    return 0 if adopted.complete else 1
