"""Findings about names that the hardware tables lack: the nearest ones, or why a plausible name is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from ci_compiler.codes import Code
from ci_compiler.errors import Finding
from ci_compiler.hardware import UnknownHardwareError
from ci_compiler.spec.load import Path_
from ci_compiler.spec.model import Spec
from ci_compiler.spec.shorthand.hardware import TOOLKIT, ToolkitRow, declaration


def look_up(
    spec: Spec, path: Path_, table: Callable[[str], object], name: str, *, key: bool = False, extra: str = ""
) -> Iterator[Finding]:
    """An error if `table` does not know `name`; `extra` is another name that is valid in the same place."""
    try:
        table(name)
    except UnknownHardwareError as error:
        message = f"{error} (or {extra})" if extra else str(error)
        if error.code is Code.UNKNOWN_TOOLKIT and re.fullmatch(TOOLKIT, name):
            message += f"{'' if message.endswith('?') else '.'} To declare it: {declaration(name, ToolkitRow)}"
        hint = _of_product(spec, name) if error.code is Code.UNKNOWN_GPU else ""
        yield spec.finding(path, error.code, hint or why_unknown(path, name) or message, key=key)


def look_up_toolkit(spec: Spec, path: Path_, name: str, *, key: bool = False) -> Iterator[Finding]:
    """An error if `name` is not a toolkit with facts; what a matrix names of another family has a row without."""
    known = {one: row for one, row in spec.hardware.toolkits.items() if row.attribute}
    yield from look_up(spec, path, replace(spec.hardware, toolkits=known).toolkit, name, key=key)


def isa_of_system(spec: Spec, path: Path_, isa: str, system: str) -> Iterator[Finding]:
    """An error if `isa` is not known, or is not one of `system`."""
    unknown = list(look_up(spec, path, spec.hardware.isa, isa))
    yield from unknown
    if not unknown and spec.hardware.isa(isa).system != system and system in spec.hardware.systems:
        message = f"{isa} is an ISA of {spec.hardware.isa(isa).system}, not of {system}"
        yield spec.finding(path, Code.ISA_SYSTEM, message)


def known_branches(spec: Spec, path: Path_, names: Iterable[str], *, key: bool = False) -> Iterator[Finding]:
    """An error for each of `names` that is not a branch."""
    for index, name in enumerate(names):
        at = path if key else (*path, index)
        yield from spec.unless_known(at, Code.UNKNOWN_BRANCH, name, spec.branches, key=key)


def why_unknown(path: Path_, name: str) -> str:
    """Why a plausible name is wrong; '' if the table of reasons has none."""
    from ci_compiler.spec.reasons import reason_for_name  # only a wrong spec needs it

    return reason_for_name(path, name)


def _of_product(spec: Spec, name: str) -> str:
    """What to write instead of a product's name (`h100`); '' if `name` is not a product."""
    from ci_compiler.hardware.products import device  # only a wrong spec needs it

    try:
        known = device(spec.hardware, name)
    except (UnknownHardwareError, ValueError):  # the latter for a product of another vendor
        return ""
    of = [gpu.name for gpu in spec.hardware.gpus.values() if known and gpu.capability == known.capability]
    if not of:
        return ""
    written = name.lower().removeprefix("sm").removeprefix("compute").lstrip("_").rstrip("abcdefghijklmnopqrstuvwxyz")
    if written.replace(".", "").isdigit():
        return f"{name!r} is called {of[0]} here"
    return f"{name!r} is a product; write its architecture, {of[0]}"
