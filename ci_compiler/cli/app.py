"""The entry point of both commands: a table of subcommands, each in its own module, imported only when it runs.

The module of a subcommand has `run(arguments)`, which does the work and returns the exit code: 0 done, 1 findings or
drift, 2 wrong input. Anything else is a bug. It raises InputError if the input is wrong.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any, Never

from ci_compiler import __version__
from ci_compiler.cli import quiet_interrupts
from ci_compiler.cli.console import print_findings
from ci_compiler.codes import Code
from ci_compiler.errors import ExitCode, InputError, wrong
from ci_compiler.record import record

COMMANDS = Path(__file__).with_name("commands.json")
"""The subcommands of both programs with their help, and their options: the keyword arguments of argparse.

A word in a list of options names one of the `shared` options; `one_of` holds options of which exactly one is given, or
at most one if it is not `required`. An option that `inherits` may also come before the subcommand. A word as `choices`
is a key of `CHOICES`.
"""

TYPES: Mapping[str, type] = {"path": Path, "int": int, "float": float}

CHOICES: Mapping[str, Callable[[], list[str]]] = {
    "results": lambda: [one.value for one in import_module("ci_compiler.github.status").BuildResult],
    "stages": lambda: [stage.name for stage in import_module("ci_compiler.stages").stages()],
    "starters": lambda: import_module("ci_compiler.spec.build").starters(),
    "test-stages": lambda: [one.name for one in import_module("ci_compiler.stages").stages_that_test() if one.proves],
    "workloads": lambda: [one.value for one in import_module("ci_compiler.hardware.workloads").Workload],
}
"""Choices that other modules know; with `"default": "first"`, the first one is the default."""


@record
class Program:
    """A command: its subcommands, each with its help and options, and the default one ('': none) with its options."""

    name: str
    purpose: str
    package: str
    default: str
    options: Sequence[Any]
    commands: Mapping[str, Mapping[str, Any]]

    @classmethod
    def load(cls, name: str) -> Program:
        """The program called `name`, from `COMMANDS`."""
        return cls(name=name, **_declared()[name])

    @staticmethod
    def expanded(options: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
        """The options in a list of `COMMANDS`, one by one."""
        for option in _shared(options):
            yield from option.get("one_of", [option])

    def parser(self, command: str, prog: str) -> argparse.ArgumentParser:
        """The parser of one subcommand alone, called `prog`."""
        parser = _Parser(prog=prog)
        _add(parser, self.options if command == self.default else self.commands[command]["options"])
        return parser


@cache
def _declared() -> Mapping[str, Any]:
    return json.loads(COMMANDS.read_bytes())  # type: ignore[no-any-return]


def _add(parser: argparse.ArgumentParser, options: Iterable[Any]) -> None:
    """Adds the declared `options` to `parser`."""
    for option in _shared(options):
        required = option.get("required", True)
        target = parser.add_mutually_exclusive_group(required=required) if "one_of" in option else parser
        for one in option.get("one_of", [option]):
            target.add_argument(*one["flags"].split(), **_keywords(one))


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


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one finding that points to the help; `program` is what it is a parser of."""

    program: Program | None = None
    words: Sequence[str] = ()

    def __init__(self, **more: Any) -> None:
        super().__init__(formatter_class=_NARROW, **more)

    def format_usage(self) -> str:
        self.formatter_class = argparse.HelpFormatter
        return super().format_usage()

    def format_help(self) -> str:
        self.formatter_class = argparse.HelpFormatter
        return super().format_help()

    def error(self, message: str) -> Never:
        from ci_compiler.cli.usage import explained

        if self.program is None and (typo := self._unknown()):  # matters more than what is missing because of it
            message = f"unrecognized arguments: {typo}"
        commands = self.program.commands if self.program else {}
        named = next((word for word in self.words if word in commands), "")
        prog = f"{self.prog} {named}".strip()
        own = {"": self._option_string_actions}
        said = explained(message, commands, _options(self.program, named) if self.program else own)
        more = "" if said.endswith("?") else f"; see `{prog} --help`"
        print_findings(wrong(prog, Code.WRONG_OPTION, f"{said}{more}").findings)
        raise SystemExit(2)

    def _unknown(self) -> str:
        """The first long option in the words that the parser does not know; '' if there is none."""
        names = [word.partition("=")[0] for word in takewhile(lambda word: word != "--", self.words)]
        known = tuple(self._option_string_actions)
        return next((one for one in names if one[:2] == "--" and not any(k.startswith(one) for k in known)), "")


def _options(program: Program, named: str) -> Mapping[str, Collection[str]]:
    """The options of each subcommand; '' stands for the one that is `named`, or else for the default one."""
    found = {
        name: {flag for option in _each(command["options"]) for flag in option["flags"].split() if flag[0] == "-"}
        for name, command in program.commands.items()
    }
    own = {flag for option in _each(program.options) for flag in option["flags"].split()}
    return {**found, "": (found[named] if named else own) | {"--help", "--version", "--print-completion"}}


def _each(options: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    """The declared `options`, each alone."""
    for word in options:
        option = _declared()["shared"][word] if isinstance(word, str) else word
        yield from option.get("one_of", [option])


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
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
    gc.set_threshold(_ALLOCATIONS)
    atexit.register(gc.freeze)  # spares the interpreter's last search for garbage, a tenth of the time of a check
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["--complete"]:  # a completion script asks
        from ci_compiler.cli.completion import candidates

        print(*candidates(program, words[1:]), sep="\n")
        return ExitCode.DONE
    parser = _parser(program, words)
    parser.program, parser.words = program, words
    arguments = parser.parse_args(words, argparse.Namespace(words=words))
    command = arguments.command or program.default
    if not command:
        parser.print_help()
        return 2
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


def _parser(program: Program, words: Sequence[str]) -> _Parser:
    """The parser, with the options of the subcommand that `words` name."""
    named = set(words)
    parser = _Parser(prog=program.name, description=program.purpose)
    parser.add_argument("--version", action="version", version=f"{program.name} {__version__}")
    parser.add_argument(
        "--print-completion",
        action=_Completion,
        choices=("bash", "zsh", "fish"),
        metavar="SHELL",
        help="print the completion script for bash, zsh or fish",
    )
    _add(parser, program.options)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", parser_class=_Parser)
    for name, command in program.commands.items():
        sub = commands.add_parser(name, help=command["help"], description=command["help"], add_help=name in named)
        if name in named:
            _add(sub, command["options"])
            sub.words = words[words.index(name) + 1 :]
    return parser
