"""Values of axes that a tool decides: `update` runs the command that the spec declares, and writes what it lists."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ci_compiler.backends.command_programs import shell
from ci_compiler.codes import Code
from ci_compiler.errors import InputError
from ci_compiler.outside import json_of, why
from ci_compiler.spec.axes import AxisRow
from ci_compiler.spec.load import Path_
from ci_compiler.spec.model import Spec
from ci_compiler.spec.schema import schema
from ci_compiler.update.changes import Nixpkgs
from ci_compiler.update.editing import Edit
from ci_compiler.update.pins import StalePin
from ci_compiler.update.remote import Remote

_MOST = 200
"""The most values that a command may list."""


def stale_values(spec: Spec, remote: Remote, _: Nixpkgs) -> Iterator[StalePin]:
    """The axes whose values are not those that their command lists.

    A matrix that has all values of the axis gets the new ones. A matrix that has some of them was chosen by a person.
    """
    for axis in spec.axes.values():
        if axis.values_from:
            listed = _listed(spec, axis, remote)
            edits = tuple(Edit(path, list(listed)) for path, now in _places(spec, axis) if now != listed)
            if edits:
                now = next(now for _, now in _places(spec, axis) if now != listed)
                why = f"{axis.values_from} lists other values"
                yield StalePin(f"values of {axis.name}", "", ", ".join(now), ", ".join(listed), why, edits)


def _places(spec: Spec, axis: AxisRow) -> Iterator[tuple[Path_, tuple[str, ...]]]:
    """Where the spec has all values of `axis`, and what it has there."""
    if axis.values:
        yield ("axes", axis.name, "values"), axis.values
    for path, matrix, _ in spec.matrices:
        if (now := matrix.values.get(axis.name)) and now == (axis.values or now):
            yield (*path, "values", axis.name), now
        if axis.name == "python" and matrix.pythons:
            yield (*path, "python"), matrix.pythons


def _listed(spec: Spec, axis: AxisRow, remote: Remote) -> tuple[str, ...]:
    """What the command of `axis` lists: JSON, or a value on each line. Raises InputError."""
    ended = remote.output(shell(axis.values_from))
    if ended.status:
        raise _wrong(spec, axis, f"ended with status {ended.status}: {ended.said or 'it printed nothing'}")
    text = ended.out.strip()
    try:
        values: Sequence[object] = json_of(text) if text.startswith("[") else text.split("\n")
    except OSError as error:
        raise _wrong(spec, axis, f"printed no list in JSON: it {why(error)}") from error
    if not text or not values:
        raise _wrong(spec, axis, "printed no value")
    words = tuple(value.strip() if isinstance(value, str) else "" for value in values)
    form = re.compile(schema()["$defs"]["axis-value"]["pattern"])
    if (bad := next((at for at, word in enumerate(words) if not form.search(word)), None)) is not None:
        raise _wrong(spec, axis, f"printed {str(values[bad])[:80]!r}, which is not a value of an axis")
    if len(words) > _MOST or len({*words}) < len(words):
        raise _wrong(spec, axis, f"must print at most {_MOST} values, each once")
    return words


def _wrong(spec: Spec, axis: AxisRow, problem: str) -> InputError:
    path = ("axes", axis.name, "values-from")
    return InputError([spec.finding(path, Code.WRONG_VALUE, f"the command {axis.values_from!r} {problem}")])
