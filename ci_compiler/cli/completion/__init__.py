"""Completion in bash, zsh and fish: a script for the shell, and the words that it asks for.

The script calls `ci-compile --complete WORD…` with the words up to the cursor, the last of which may be incomplete, and
gets one candidate per line. `:files` and `:folders` stand for the shell's own completion of paths. The names come from
the spec of the repository in which the user is.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise

from ci_compiler.cli.program import CHOICES, Program

TYPE_CHECKING = False  # a shell waits for the answer
if TYPE_CHECKING:
    from typing import Any

    from ci_compiler.spec.model import Spec

SHELLS = ("bash", "zsh", "fish")

FILES, FOLDERS = ":files", ":folders"


def script(name: str, shell: str) -> str:
    """The script for `shell` that completes the command `name`."""
    with open(os.path.join(os.path.dirname(__file__), f"complete.{shell}"), encoding="utf-8") as file:  # noqa: PTH118, PTH120, PTH123
        text = file.read()
    return text.replace("@name@", name).replace("@function@", f"_{name.replace('-', '_')}")


def candidates(program: Program, words: Sequence[str]) -> list[str]:
    """What can stand in place of the last of `words`, those after the name of the command."""
    *before, current = [word for word in words if word != "="] or [""]  # bash makes a word of the = in --option=value
    at = next((at for at, word in enumerate(before) if word in program.commands), None)
    command = program.default if at is None else before[at]
    flags, positionals = _sorted(program.expanded(program.options_of(command)))
    before = before if at is None else before[:at] + before[at + 1 :]
    asked, _, rest = current.partition("=")
    if asked in flags and rest != current and "=" in current:
        return [f"{asked}={one}" for one in _values(flags[asked], asked, before) if one.startswith(rest)]
    if before and _takes_value(flags.get(before[-1])):
        found = _values(flags[before[-1]], before[-1], before)
    elif current.startswith("-"):
        general = ["--help", *(["--version", "--print-completion"] if at is None else [])]
        found = iter([*(flag for flag in flags if flag.startswith("--") and flag not in before), *general])
    elif at is None or command == "help":
        found = iter(program.commands) if before[-1:] != ["--print-completion"] else iter(SHELLS)
    else:
        found = _positional(positionals, flags, before)
    return [one for one in found if one in {FILES, FOLDERS} or one.startswith(current)]


def _sorted(options: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Mapping[str, Any]], list[Mapping[str, Any]]]:
    """The options by flag, and the positional arguments."""
    flags: dict[str, Mapping[str, Any]] = {}
    positionals = []
    for option in options:
        if option["flags"].startswith("-"):
            flags |= dict.fromkeys(option["flags"].split(), option)
        else:
            positionals.append(option)
    return flags, positionals


def _takes_value(option: Mapping[str, Any] | None) -> bool:
    return option is not None and option.get("action") != "store_true"


def _positional(
    positionals: Sequence[Mapping[str, Any]], flags: Mapping[str, Mapping[str, Any]], before: Sequence[str]
) -> Iterator[str]:
    """The values of the positional argument that comes next, if there is one."""
    pairs = zip(["", *before], before, strict=False)
    given = [word for last, word in pairs if not word.startswith("-") and not _takes_value(flags.get(last))]
    repeated = [option for option in positionals if option.get("nargs") in {"*", "+"}]
    following = positionals[len(given) :] or repeated
    if following:
        yield from _values(following[0], following[0]["flags"], before)


def _values(option: Mapping[str, Any], name: str, before: Sequence[str]) -> Iterator[str]:
    """The values of an option that are known."""
    choices = option.get("choices")
    if choices:
        yield from CHOICES[choices]() if isinstance(choices, str) else choices
    elif option.get("type") == "path":
        yield FOLDERS if option.get("metavar") == "DIR" else FILES
    else:
        yield from _in_spec(name, before)


def _in_spec(name: str, before: Sequence[str]) -> Iterator[str]:
    """The names in the spec that an option or an argument takes; none if there is no valid spec."""
    from ci_compiler.errors import InputError
    from ci_compiler.hardware.families import DEFAULT

    names = _NAMES.get(name) or (_toolkits if name == f"--{DEFAULT}" else None)
    with suppress(InputError, OSError):
        yield from names(_spec(before)) if names else ()


def _toolkits(spec: Spec) -> Iterable[str]:
    return spec.every_toolkit


def _spec(before: Sequence[str]) -> Spec:
    """The spec that the words ask for. Raises InputError."""
    from pathlib import Path

    from ci_compiler.cli.where import spec_of

    given = {flag: Path(value) for flag, value in pairwise(before) if flag in {"--root", "--spec"}}
    return spec_of(argparse.Namespace(**{flag.removeprefix("--"): path for flag, path in given.items()}))


def _variants(spec: Spec) -> Iterable[str]:
    from ci_compiler.plan.rules import judge

    return dict.fromkeys(variant.name for cell in judge(spec).cells for variant in cell.variants)


def _shards(spec: Spec) -> Iterable[str]:
    from ci_compiler.plan.pipeline import plan

    return (shard.name for shard in plan(spec).shards)


_NAMES: Mapping[str, Callable[[Spec], Iterable[str]]] = {
    **dict.fromkeys(("--branch", "--take", "--drop", "base"), lambda spec: spec.branches),
    **dict.fromkeys(("--pool", "pool"), lambda spec: (pool.name for pool in spec.pools)),
    **dict.fromkeys(("--shard", "shard"), _shards),
    **dict.fromkeys(("--package", "packages"), lambda spec: spec.packages),
    **dict.fromkeys(("name", "names", "patterns"), _variants),
    "--python": lambda spec: spec.pythons,
    "--gpu": lambda spec: ["none", *spec.hardware.gpus],
    "--cpu": lambda spec: spec.hardware.isas,
}
"""The names in a spec that an option or an argument takes, by its flag or its own name."""
