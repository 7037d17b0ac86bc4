"""`ci-compile settings`: compares the repository's settings with what the compiled files rely on; changes nothing."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import asdict

from ci_compiler.cli import options
from ci_compiler.cli.console import print_findings, print_rows
from ci_compiler.cli.remote import client_of
from ci_compiler.cli.where import root_of, spec_of
from ci_compiler.codes import Code
from ci_compiler.errors import about, escaped
from ci_compiler.github.settings import Setting, SettingState, settings
from ci_compiler.plan.pipeline import plan

_COLUMNS = {"name": "setting", "state": "state", "expected": "expected", "found": "on GitHub"}


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--check",
        action="store_true",
        help="print what is wrong; exit 1 if anything is, else 2 if the token may not read everything",
    )
    group.add_argument(
        "--write", action="store_true", help="print the shell commands that would set what is wrong; nothing is changed"
    )
    group.add_argument("--json", action="store_true", help="print JSON")
    options.shared(parser, "repository", "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Prints every setting, or what is wrong, or what would set it. Raises InputError."""
    decided = plan(spec_of(arguments))
    client = client_of(arguments, root_of(arguments))
    found = list(settings(client, decided))
    if arguments.write:
        _write(found)
        return 0
    if arguments.check:
        return _check(client.access.repository, found)
    print_rows(
        [asdict(setting) for setting in found], _COLUMNS, as_json=arguments.json, states=["state"], spare=["expected"]
    )
    return 0


def _check(repository: str, found: Iterable[Setting]) -> int:
    """Prints what is wrong, and what the token may not read, as findings. Returns the exit code."""
    states = set()
    for setting in found:
        states.add(setting.state)
        if setting.state is SettingState.WRONG:
            message = f"{setting.name}: {setting.found}; expected: {setting.expected}; {setting.because}"
            print_findings([about(repository, Code.WRONG_SETTING, message)])
        elif setting.state is SettingState.UNREAD:
            print_findings([about(repository, Code.UNREAD_SETTING, f"{setting.name}: not readable: {setting.found}")])
    return 1 if SettingState.WRONG in states else 2 if SettingState.UNREAD in states else 0


def _write(found: Iterable[Setting]) -> None:
    """Prints a script that would set what is wrong: each call once, after remarks on what it is for."""
    done: set[str] = set()
    for setting in found:
        if setting.state is SettingState.RIGHT:
            continue
        print(f"# {escaped(f'{setting.name}: {setting.state}: {setting.found}; expected: {setting.expected}')}")
        for call in setting.calls:
            if call not in done:
                print(call)
        done.update(setting.calls)
