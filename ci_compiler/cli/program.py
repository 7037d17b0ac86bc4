"""The two programs: their commands, each of which is a module that declares its options, and the parsers of both."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from importlib import import_module
from itertools import takewhile

from ci_compiler import __version__

# The help of a program does without `typing`, `pathlib` and `dataclasses`, which are slow to import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Never

SHELLS = ("bash", "zsh", "fish")
"""The shells for which there is a completion script."""


class Program:
    """A program: what it is for, its commands with the purpose of each, and the one that is the default ('': none).

    `package` has a module for each command but `help`. It has `run(arguments)`, and `declare(parser)` if the command
    has options. It is imported only if the command is called, or to list its options.
    """

    def __init__(
        self, *, name: str, purpose: str, package: str, commands: Mapping[str, str], default: str = ""
    ) -> None:
        self.name, self.purpose, self.package, self.default = name, purpose, package, default
        self.commands = {"help": "show this overview, or the help of a command", **commands}

    def run(self, command: str, arguments: argparse.Namespace) -> int:
        """Runs a command and returns its exit code. Raises InputError if the input is wrong."""
        code: int = self._module(command).run(arguments)
        return code

    def declare(self, command: str, parser: argparse.ArgumentParser) -> None:
        """Declares the options of a command."""
        if command == "help":
            parser.add_argument("about", metavar="COMMAND", nargs="?", help="a command")
        elif declare := getattr(self._module(command), "declare", None):
            declare(parser)

    def _module(self, command: str) -> Any:
        return import_module(f"{self.package}.{command.replace('-', '_')}")

    def parser_of(self, command: str, prog: str) -> CommandParser:
        """The parser of one command alone, called `prog`."""
        parser = CommandParser(prog=prog)
        self.declare(command, parser)
        return parser

    def parser(self, words: Sequence[str], named: Collection[str] | None = None) -> CommandParser:
        """The parser of a call with `words`, with the options of the commands that are `named`: those in the words."""
        named = set(words) if named is None else named
        unnamed = CommandParser(add_help=False)  # stands for each that is not named: to make them all takes a while

        def made(**more: object) -> CommandParser:
            return CommandParser(**more) if more["add_help"] else unnamed

        parser = CommandParser(prog=self.name, description=self.purpose)
        parser.program, parser.words = self, words
        parser.add_argument("--version", action="version", version=f"{self.name} {__version__}")
        parser.add_argument(
            "--print-completion",
            action=_Completion,
            choices=SHELLS,
            metavar="SHELL",
            help="print the completion script for bash, zsh or fish",
        )
        if self.default:
            self.declare(self.default, parser)
        commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", parser_class=made)  # type: ignore[call-overload]
        for name, purpose in self.commands.items():
            sub = commands.add_parser(name, help=purpose, description=purpose, add_help=name in named)
            if name in named:
                self.declare(name, sub)
                sub.words = words[words.index(name) + 1 :] if name in words else ()
        return parser


class _Completion(argparse.Action):
    """`--print-completion SHELL`: prints the completion script."""

    def __call__(self, parser: argparse.ArgumentParser, *arguments: object) -> None:
        try:
            from ci_compiler.cli.completion import script
        except ImportError:
            parser.error("completion needs shtab, which `pip install 'ci-compiler[completion]'` installs")
        program = parser.program  # type: ignore[attr-defined]
        print(script(program.parser((), program.commands), str(arguments[1])))
        parser.exit()


_NARROW = partial(argparse.HelpFormatter, width=80)
"""The formatter while options are added: argparse makes one for each option, and each asks for the terminal's width."""


def _columns() -> int:
    """The width of the terminal, or 80: what `shutil` says, whose import takes longer than the help."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):  # closed, or no terminal
        return 80


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors are one finding that points to the help; `program` is what it is a parser of."""

    program: Program | None = None
    words: Sequence[str] = ()

    def __init__(self, **more: Any) -> None:
        super().__init__(formatter_class=_NARROW, **more)

    def format_usage(self) -> str:
        """The usage, as wide as the terminal."""
        self.formatter_class = partial(argparse.HelpFormatter, width=_columns() - 2)
        return super().format_usage()

    def format_help(self) -> str:
        """The help, as wide as the terminal."""
        self.formatter_class = partial(argparse.HelpFormatter, width=_columns() - 2)
        return super().format_help()

    @property
    def flags(self) -> Collection[str]:
        """The options, as they are written."""
        return self._option_string_actions

    def error(self, message: str) -> Never:
        """Prints the finding for `message` of argparse, and ends the program with 2."""
        from ci_compiler.cli.console import print_findings
        from ci_compiler.cli.usage import explained
        from ci_compiler.codes import Code
        from ci_compiler.errors import wrong

        if self.program is None and (typo := self._unknown()):  # matters more than what is missing because of it
            message = f"unrecognized arguments: {typo}"
        commands = self.program.commands if self.program else {}
        named = next((word for word in self.words if word in commands), "")
        prog = f"{self.prog} {named}".strip()
        own = self.program.parser_of(named, prog).flags if self.program and named else self.flags
        said = explained(message, commands, {*own, "--help", "--version", "--print-completion"}, self._others)
        more = "" if said.endswith("?") else f"; see `{prog} --help`"
        print_findings(wrong(prog, Code.WRONG_OPTION, f"{said}{more}").findings)
        raise SystemExit(2)

    def _others(self, flag: str) -> Sequence[str]:
        """The commands that have the option `flag`, for which all are imported."""
        program = self.program
        return (
            sorted(name for name in program.commands if flag in program.parser_of(name, name).flags) if program else ()
        )

    def _unknown(self) -> str:
        """The first long option in the words that the parser does not know; '' if there is none."""
        names = [word.partition("=")[0] for word in takewhile(lambda word: word != "--", self.words)]
        known = tuple(self.flags)
        return next((name for name in names if name[:2] == "--" and not any(k.startswith(name) for k in known)), "")
