"""The entry point of both commands: a table of subcommands, each in its own module, imported only when it runs.

The module of a subcommand has `run(arguments)`, which does the work and returns the exit code: 0 done, 1 findings or
drift, 2 wrong input. Anything else is a bug. It raises InputError if the input is wrong.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

from ci_compiler import __version__
from ci_compiler.cli import quiet_interrupts
from ci_compiler.cli.program import CommandParser, Program, add_options


class _Completion(argparse.Action):
    """`--print-completion SHELL`: prints the completion script."""

    def __call__(self, parser: argparse.ArgumentParser, *arguments: object) -> None:
        from ci_compiler.cli.completion import script

        print(script(parser.prog, str(arguments[1])), end="")
        parser.exit()


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
    if words[:1] == ["--complete"]:  # a completion script asks
        from ci_compiler.cli.completion import candidates

        print(*candidates(program, words[1:]), sep="\n")
        return 0
    if words[:1] == ["help"] and len(words) < 3:  # with more, it is parsed, and refused
        words = [*words[1:], "--help"]
    parser = _parser(program, words)
    parser.program, parser.words = program, words
    arguments = parser.parse_args(words, argparse.Namespace(words=words))
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
        module = import_module(f"{program.package}.{command.replace('-', '_')}")
        code: int = module.run(arguments)
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


def _parser(program: Program, words: Sequence[str]) -> CommandParser:
    """The parser, with the options of the subcommand that `words` name."""
    named = set(words)
    unnamed = CommandParser(add_help=False)  # stands for each that is not named: to make them all takes a while

    def made(**more: object) -> CommandParser:
        return CommandParser(**more) if more["add_help"] else unnamed

    parser = CommandParser(prog=program.name, description=program.purpose)
    parser.add_argument("--version", action="version", version=f"{program.name} {__version__}")
    parser.add_argument(
        "--print-completion",
        action=_Completion,
        choices=("bash", "zsh", "fish"),
        metavar="SHELL",
        help="print the completion script for bash, zsh or fish",
    )
    add_options(parser, program.options)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", parser_class=made)  # type: ignore[call-overload]
    for name, command in program.commands.items():
        sub = commands.add_parser(name, help=command["help"], description=command["help"], add_help=name in named)
        if name in named:
            add_options(sub, command["options"])
            sub.words = words[words.index(name) + 1 :]
    return parser
