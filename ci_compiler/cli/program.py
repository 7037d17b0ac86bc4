"""The two commands as `commands.json` declares them, their subcommands and options, and the parser made from them."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from itertools import takewhile

# The help of a command does without `typing`, `pathlib` and `dataclasses`, which are slow to import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Never

COMMANDS = os.path.join(os.path.dirname(__file__), "commands.json")  # noqa: PTH118, PTH120
"""The subcommands of both programs with their help, and their options: the keyword arguments of argparse.

A word in a list of options names one of the `shared` options; `one_of` holds options of which exactly one is given, or
at most one if it is not `required`. An option that `inherits` may also come before the subcommand. A word as `choices`
is a key of `CHOICES`.
"""

TYPES: Mapping[str, Callable[[str], object]] = {
    "path": lambda text: import_module("pathlib").Path(text),
    "int": int,
    "float": float,
}

CHOICES: Mapping[str, Callable[[], list[str]]] = {
    "stages": lambda: [stage.name for stage in import_module("ci_compiler.stages").stages()],
    "test-stages": lambda: [one.name for one in import_module("ci_compiler.stages").stages_that_test() if one.proves],
}
"""Choices that modules know which are quickly imported; with `"default": "first"`, the first one is the default. Other
choices are declared, and a test compares them with the code."""


class Program:
    """A command: its subcommands, each with its help and options, and the default one ('': none) with its options."""

    def __init__(
        self,
        *,
        name: str,
        purpose: str,
        package: str,
        default: str,
        options: Sequence[Any],
        commands: Mapping[str, Mapping[str, Any]],
    ) -> None:
        self.name, self.purpose, self.package, self.default = name, purpose, package, default
        self.options, self.commands = options, commands

    @classmethod
    def load(cls, name: str) -> Program:
        """The program called `name`, from `COMMANDS`."""
        return cls(name=name, **_declared()[name])

    @staticmethod
    def expanded(options: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
        """The options in a list of `COMMANDS`, one by one."""
        for option in _shared(options):
            yield from option.get("one_of", [option])

    def options_of(self, command: str) -> Sequence[Any]:
        """The declared options of a subcommand, of the default one, or of the call itself ('')."""
        return self.options if command in {"", self.default} else self.commands[command]["options"]

    def parser(self, command: str, prog: str) -> argparse.ArgumentParser:
        """The parser of one subcommand alone, called `prog`."""
        parser = CommandParser(prog=prog)
        add_options(parser, self.options_of(command))
        return parser

    def flags(self, named: str) -> Mapping[str, Collection[str]]:
        """The flags of each subcommand; '' stands for the one that is `named`, or else for the default one."""
        found = {
            name: {flag for option in self.expanded(command["options"]) for flag in option["flags"].split()}
            for name, command in self.commands.items()
        }
        found = {name: {flag for flag in flags if flag[0] == "-"} for name, flags in found.items()}
        own = {flag for option in self.expanded(self.options) for flag in option["flags"].split()}
        return {**found, "": (found[named] if named else own) | {"--help", "--version", "--print-completion"}}


@cache
def _declared() -> Mapping[str, Any]:
    with open(COMMANDS, "rb") as file:  # noqa: PTH123
        return json.load(file)  # type: ignore[no-any-return]


def add_options(parser: argparse.ArgumentParser, options: Iterable[Any]) -> None:
    """Adds the declared `options` to `parser`."""
    for option in _shared(options):
        required = option.get("required", True)
        target = parser.add_mutually_exclusive_group(required=required) if "one_of" in option else parser
        for own in option.get("one_of", [option]):
            target.add_argument(*own["flags"].split(), **_keywords(own))


def _shared(options: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    """The `options`, with the shared ones in place of their names."""
    for word in options:
        yield _declared()["shared"][word] if isinstance(word, str) else word


def _keywords(option: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of `add_argument` for `option`."""
    keywords = {key: value for key, value in option.items() if key not in {"flags", "inherits"}}
    if "type" in option:
        keywords["type"] = TYPES[option["type"]]
    if "inherits" in option:
        keywords["default"] = argparse.SUPPRESS
    if isinstance(option.get("choices"), str):
        keywords["choices"] = CHOICES[option["choices"]]()
        if option.get("default") == "first":
            keywords["default"] = keywords["choices"][0]
    return keywords


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
        own = {"": self._option_string_actions}
        said = explained(message, commands, self.program.flags(named) if self.program else own)
        more = "" if said.endswith("?") else f"; see `{prog} --help`"
        print_findings(wrong(prog, Code.WRONG_OPTION, f"{said}{more}").findings)
        raise SystemExit(2)

    def _unknown(self) -> str:
        """The first long option in the words that the parser does not know; '' if there is none."""
        names = [word.partition("=")[0] for word in takewhile(lambda word: word != "--", self.words)]
        known = tuple(self._option_string_actions)
        return next((name for name in names if name[:2] == "--" and not any(k.startswith(name) for k in known)), "")
