"""The scripts with which shells complete the words of a command, made by shtab."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import shtab

from ci_compiler.cli import options


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The script for `shell` that completes the call that `parser`, which has the options of all commands, parses."""
    for action in _actions(parser):
        if action.type is options.path:
            action.complete = shtab.DIRECTORY if action.metavar == "DIR" else shtab.FILE  # type: ignore[attr-defined]
    return shtab.complete(parser, shell)


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:  # noqa: SLF001  (argparse has no other way)
        yield action
        for sub in action.choices.values() if isinstance(action, argparse._SubParsersAction) else ():  # noqa: SLF001
            yield from _actions(sub)
