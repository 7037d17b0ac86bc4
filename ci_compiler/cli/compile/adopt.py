"""`ci-compile adopt`: makes a spec from existing recipes."""

from __future__ import annotations

import argparse
from pathlib import Path

from ci_compiler.codes import Code


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the folders and `-o`."""
    parser.add_argument(
        "folders", nargs="+", type=Path, metavar="DIR", help="a checkout, or a folder of recipes; one per branch"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the spec (default: standard output)")


def run(arguments: argparse.Namespace) -> int:
    """Prints or writes the spec; returns 1 if it does not have exactly the recipes. Raises InputError without any."""
    from ci_compiler.adoption.adopt import SHOWN, adopt
    from ci_compiler.cli.console import note, print_findings

    output: Path | None = arguments.output
    if output is not None:
        _refuse_to_overwrite(output)
    adopted = adopt(arguments.folders, shown=output.as_posix() if output else SHOWN, progress=note)
    print_findings(adopted.findings)
    if output is None:
        print(adopted.text, end="")
    else:
        _write(output, adopted.text)
    for branch, names in adopted.read.items():
        note(f"{branch}: {len(names & adopted.names[branch])} of {len(names)} recipes")
    count, lines = sum(map(len, adopted.read.values())), len(adopted.text.splitlines())
    said = "1 recipe" if count == 1 else f"{count} recipes"
    note(f"{said} in {lines} lines; equal to what the spec would compile: {adopted.equal}")
    return 0 if adopted.complete else 1


def _refuse_to_overwrite(path: Path) -> None:
    from ci_compiler.errors import wrong

    if path.exists() or path.is_symlink():
        raise wrong(path, Code.IN_THE_WAY, "exists already; move it away first, or name another file")


def _write(path: Path, text: str) -> None:
    from ci_compiler.files.atomic import cannot_write

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8", newline="\n")
    except OSError as error:
        raise cannot_write(path, error) from error
