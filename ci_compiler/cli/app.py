"""The entry point of both commands: a table of subcommands, each in its own module, imported only when it runs.

The module of a subcommand has `configure(parser)`, which adds its arguments, and `run(arguments) -> int`, which does
the work and returns the exit code: 0 done, 1 findings or drift, 2 wrong input. Anything else is a bug.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Never, Protocol, cast

from ci_compiler import __version__
from ci_compiler.codes import Code
from ci_compiler.errors import ExitCode, InputError, wrong


class CommandModule(Protocol):
    """The interface of a subcommand's module."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Adds the subcommand's arguments to `parser`."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Does the work and returns the exit code. Raises InputError if the input is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A command: its subcommands with one line of help each, and the default one ('': none)."""

    name: str
    purpose: str
    package: str
    commands: Mapping[str, str]
    default: str = ""

    def module(self, command: str) -> CommandModule:
        """The module of a subcommand: `status` is `status.py`, `import` would be `import_.py`."""
        name = command.replace("-", "_")
        return cast("CommandModule", import_module(f"{self.package}.{name}"))

    def parser(self, command: str, prog: str) -> argparse.ArgumentParser:
        """The parser of one subcommand alone, called `prog`."""
        parser = _Parser(prog=prog)
        self.module(command).configure(parser)
        return parser


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line that points to the help."""

    def error(self, message: str) -> Never:
        print(f"{self.prog}: {message}; see {self.prog} --help", file=sys.stderr)
        raise SystemExit(2)


class _Completion(argparse.Action):
    """`--print-completion SHELL`: prints the completion script, which shtab generates from the parser."""

    def __call__(self, parser: argparse.ArgumentParser, *arguments: object) -> None:
        import shtab

        print(shtab.complete(parser, str(arguments[1])))
        parser.exit()


def run(program: Program, argv: Sequence[str] | None = None) -> int:
    """Runs `program` with `argv` (None: sys.argv) and returns its exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the parent process
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
    words = list(sys.argv[1:] if argv is None else argv)
    parser = _parser(program, words)
    arguments = parser.parse_args(words)
    command = arguments.command or program.default
    if not command:
        parser.print_help()
        return 2
    try:
        code = program.module(command).run(arguments)
        sys.stdout.flush()
    except InputError as error:
        from ci_compiler.cli.console import print_findings

        print_findings(error.findings)
        return 2
    except BrokenPipeError:
        _close_output()
        return 0
    except OSError as error:
        from ci_compiler.cli.console import print_findings

        _close_output()
        print_findings(wrong(str(error.filename or program.name), Code.SYSTEM, error.strerror or str(error)).findings)
        return 2
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    return code


def _close_output() -> None:
    """Discards what is still to be printed, so that the interpreter's exit does not fail on it."""
    with suppress(OSError, ValueError):  # not a file of the operating system
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser(program: Program, words: Iterable[str]) -> argparse.ArgumentParser:
    """The parser; imports only the subcommand that `words` name, or all of them for a completion script."""
    named = set(words)
    everything = any(word.startswith("--print-completion") for word in named)
    parser = _Parser(prog=program.name, description=program.purpose)
    parser.add_argument("--version", action="version", version=f"{program.name} {__version__}")
    parser.add_argument(
        "--print-completion",
        action=_Completion,
        choices=("bash", "zsh", "tcsh"),
        metavar="SHELL",
        help="print the completion script for bash, zsh or tcsh",
    )
    if program.default:
        program.module(program.default).configure(parser)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", parser_class=_Parser)
    for name, purpose in program.commands.items():
        sub = commands.add_parser(name, help=purpose, description=purpose)
        if everything or name in named:
            program.module(name).configure(sub)
    return parser
