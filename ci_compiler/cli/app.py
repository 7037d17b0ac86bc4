"""The entry point of both programs: parses the words, and runs the command that they name.

Its exit code is 0 if it is done, 1 for findings or drift, and 2 for wrong input, for which it raises InputError.
Anything else is a bug.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from ci_compiler.cli import quiet_interrupts
from ci_compiler.cli.program import Program

_ALLOCATIONS = 100_000
"""Objects between two searches for garbage in cycles: most commands end before one would pay."""


@quiet_interrupts()
def run(program: Program, argv: Sequence[str] | None = None) -> int:
    """Runs `program` with `argv` (None: sys.argv) and returns its exit code; Ctrl-C raises SystemExit."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the parent process
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123
        elif sys.platform == "win32":  # without `ci_compiler.system`, which takes longer to import than all else here
            getattr(sys, name).reconfigure(encoding="utf-8", newline="\n")
        elif getattr(sys, name).errors == "strict":  # what the encoding of a terminal lacks is escaped
            getattr(sys, name).reconfigure(errors="backslashreplace")
    gc.set_threshold(_ALLOCATIONS)
    atexit.register(gc.freeze)  # spares the interpreter's last search for garbage, a tenth of the time of a check
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["help"] and len(words) < 3:  # with more, it is parsed, and refused
        words = [*words[1:], "--help"]
    parser = program.parser(words)
    arguments = parser.parse_args(words)
    command = arguments.command or program.default
    if not command:
        parser.print_help()
        return 2
    return _ran(program, command, arguments)


def _ran(program: Program, command: str, arguments: argparse.Namespace) -> int:
    """Runs a subcommand and returns the exit code."""
    from ci_compiler.cli.console import print_findings  # `--help` needs none of them
    from ci_compiler.codes import Code
    from ci_compiler.errors import InputError, wrong

    try:
        code = program.run(command, arguments)
        sys.stdout.flush()
    except InputError as error:
        print_findings(error.findings, root=getattr(arguments, "root", None))
        return 2
    except BrokenPipeError:
        _close_output()
        return 0
    except OSError as error:
        _close_output()
        print_findings(wrong(str(error.filename or program.name), Code.SYSTEM, error.strerror or str(error)).findings)
        return 2
    return code


def _close_output() -> None:
    """Discards what is still to be printed, so that the interpreter's exit does not fail on it."""
    with suppress(OSError, ValueError):  # not a file of the operating system
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
