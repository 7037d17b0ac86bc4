"""`ci-compile adopt`: a spec out of recipes that exist."""

from __future__ import annotations

import argparse
from pathlib import Path

from ci_compiler.codes import Code


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the folders and `-o`."""
    parser.add_argument(
        "folders", nargs="+", type=Path, metavar="DIR", help="a checkout, or a folder of recipes; a branch each"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the spec to write; standard output")


def run(arguments: argparse.Namespace) -> int:
    """Prints or writes the spec; returns 1 where a recipe is left out. Raises InputError where none can be adopted."""
    from ci_compiler.adoption.adopt import adopt
    from ci_compiler.cli.console import note, print_findings

    output: Path | None = arguments.output
    if output is not None:
        _refuse_to_overwrite(output)
    adopted = adopt(arguments.folders)
    print_findings(adopted.findings)
    if output is None:
        print(adopted.text, end="")
    else:
        _write(output, adopted.text)
    count, branches = sum(map(len, adopted.names.values())), ", ".join(adopted.names)
    note(f"{count} of {adopted.read} recipes in {len(adopted.text.splitlines())} lines, for {branches}")
    return 0 if adopted.complete else 1


def _refuse_to_overwrite(path: Path) -> None:
    from ci_compiler.errors import wrong

    if path.exists() or path.is_symlink():
        message = "stands here already; move it away first, or name another file"
        raise wrong(path, Code.IN_THE_WAY, message)


def _write(path: Path, text: str) -> None:
    from ci_compiler.files.atomic import cannot_write

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8", newline="\n")
    except OSError as error:
        raise cannot_write(path, error) from error
