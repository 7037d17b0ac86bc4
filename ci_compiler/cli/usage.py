"""What argparse says about a command line, in words for people, with the nearest names."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from difflib import get_close_matches
from pathlib import Path

from ci_compiler.errors import nearest

_FEW = 3
"""The most commands that a message lists."""

_TYPO = 0.8
"""How like an option a word must be to be taken for a slip of it, before other commands are asked for theirs."""

_INSTEAD = {
    "build": "`ci-compile` alone compiles; `ci-runner build` builds a variant",
    "check": "`ci-compile --check` compares and writes nothing",
    "compile": "`ci-compile` alone compiles",
    "generate": "`ci-compile` alone compiles",
    "lint": "`ci-compile --check` compares and writes nothing",
    "list": "`ci-compile variants` lists the variants",
    "validate": "`ci-compile --check` compares and writes nothing",
    "version": "`--version` prints it",
}
"""What to write in place of commands that other tools have."""


_ALSO = {"helm": "arc", "k8s": "arc", "kubernetes": "arc", "podman": "systemd", "quadlet": "systemd"}
"""What other tools call some of the values of options."""


def explained(
    message: str, commands: Collection[str], options: Collection[str], others: Callable[[str], Sequence[str]]
) -> str:
    """`message` of argparse about a call of a program with `commands`.

    `options` are those of the call, and `others` finds the commands that have an option.
    """
    if match := re.match(r"argument COMMAND: invalid choice: '(?P<name>.*)' \(choose", message):
        return _command(match["name"], commands)
    if match := re.match(r"unrecognized arguments: (?P<words>.*)", message):
        return _words(match["words"], options, others)
    for pattern, text in _TEXTS:
        if match := re.fullmatch(pattern, message, re.DOTALL):
            return text(match)
    return message


def _command(name: str, commands: Collection[str]) -> str:
    if Path(name).suffix in {".yaml", ".yml"} and Path(name).exists():
        return f"{name} is a file; --spec {name} takes it as the spec"
    meant = next(iter(get_close_matches(name, [*commands, *_INSTEAD], n=1, cutoff=0.6)), "")
    hint = f"; {_INSTEAD[meant]}" if meant in {*_INSTEAD} - {*commands} else nearest(name, commands, only_near=True)
    return f"unknown command {name!r}{hint}"


def _words(words: str, options: Collection[str], others: Callable[[str], Sequence[str]]) -> str:
    """About words that the call has no place for, of which the first counts."""
    first = words.split(maxsplit=1)[0].partition("=")[0]
    if not first.startswith("-"):
        return f"{first!r} is one word too many"
    if not get_close_matches(first, options, cutoff=_TYPO) and (have := others(first)):
        named = "many commands" if len(have) > _FEW else " and ".join(have)
        return f"no option {first} here; {named} {'have' if have[1:] else 'has'} it"
    return f"unknown option {first}{nearest(first, options, only_near=True)}"


def _choice(found: re.Match[str]) -> str:
    choices = re.findall(r"'([^']*)'", found["choices"])
    near = nearest(_ALSO.get(found["value"].lower(), found["value"]), choices, only_near=True)
    return f"{found['name']}: {found['value']!r} is not one of {', '.join(choices)}{near}"


_KINDS = {"int": "a whole number", "float": "a number"}

_TEXTS: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    (r"argument (?P<name>\S+): invalid choice: '(?P<value>.*)' \(choose from (?P<choices>.*)\)", _choice),
    (
        r"argument (?P<name>\S+): invalid (?P<kind>\w+) value: '(?P<value>.*)'",
        lambda found: f"{found['name']}: {found['value']!r} is not {_KINDS.get(found['kind'], found['kind'])}",
    ),
    (r"argument (?P<name>\S+): expected (?:at least )?one argument", lambda found: f"{found['name']} needs a value"),
    (r"argument (?P<name>\S+): ignored explicit argument .*", lambda found: f"{found['name']} takes no value"),
    (
        r"argument (?P<one>\S+): not allowed with argument (?P<other>\S+)",
        lambda found: f"{found['one']} and {found['other']} exclude each other; give one of them",
    ),
    (
        r"the following arguments are required: (?P<names>.*)",
        lambda found: (
            f"{' and '.join(found['names'].rsplit(', ', 1))} {'are' if ', ' in found['names'] else 'is'} missing"
        ),
    ),
    (
        r"one of the arguments (?P<names>.*) is required",
        lambda found: f"give {' or '.join(found['names'].split())}",
    ),
    (
        r"ambiguous option: (?P<name>\S+) could match (?P<names>.*)",
        lambda found: f"{found['name']} may be {' or '.join(found['names'].split(', '))}; write it out",
    ),
)
"""The messages of argparse (Python 3.11 to 3.14), and what is said in their place."""
