"""Packages whose names tell of other families than the short form's: their variants as the rows of an open matrix.

A name is read part by part: a Python, a platform, an ISA, and a family with its toolkit and target. It is used only if
the grammar of the spec makes the very name of what was read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ci_compiler.adoption.names import Row
from ci_compiler.adoption.spec_forms import fits
from ci_compiler.hardware import BASELINE, CPU, Hardware
from ci_compiler.hardware.families import DEFAULT, FAMILIES, NONE, facts, family_of, has_facts
from ci_compiler.spec.axes import PARTS, Accelerator
from ci_compiler.units import grouped
from ci_compiler.variant import Grammar, variant_name

_MOST_ROWS = 6
"""The rows that an open matrix may always have; it may have more for as many names of other families."""

_FAMILIES = tuple(name for name in FAMILIES if name not in {DEFAULT, NONE})
"""The families that the short form lacks."""

_SYSTEM_WORDS = {"darwin": "aarch64-darwin", "macos": "aarch64-darwin", "linux": "x86_64-linux"}
Combination = Mapping[str, tuple[str, ...]]
"""A row of an open matrix: the values of each axis."""


class _Read(NamedTuple):
    """What a name tells: the package, the values, the axes in the order of the name, and how the platform is spelled.

    `compact`: the toolkit is spelled without dots, as `rocm71`.
    """

    package: str
    values: Mapping[str, str]
    order: Sequence[str]
    platform: str
    compact: bool


def opened(rows: Sequence[Row], hardware: Hardware) -> tuple[list[Row], dict[str, Any]]:
    """`rows`, those of packages that need an open matrix with their values; the keys of the spec about their names."""
    every = {row: read for row in rows if row.listed and (read := _read(row.name, hardware))}
    hidden = not any(read.platform for read in every.values())
    every = {row: _with_machine(row, read, hidden=hidden) for row, read in every.items()}
    keys, grammar = _spelling(list(every.values()), hidden=hidden)
    fitting = {
        row: read
        for row, read in every.items()
        if variant_name(read.package, grammar.suffix(read.values)) == row.name and fits("package-name", read.package)
    }
    found: dict[Row, Row] = {row: _placed(row, read) for row, read in fitting.items()}
    packages = {row.package for row in found.values()}
    found |= {row: replace(row, values=_short(row)) for row in rows if not row.listed and row.package in packages}
    kept: set[str] = set()
    for package, own in grouped(found.values(), lambda row: row.package).items():
        gained = sum(row.family not in {DEFAULT, NONE} for row in own)
        if len(combinations(own)) <= max(_MOST_ROWS, gained) and all(_is_spelled(row, grammar) for row in own):
            kept.add(package)
    made = [found[row] if row in found and found[row].package in kept else row for row in rows]
    return made, keys if kept else {}


def closed(row: Row) -> Row:
    """`row` as without an open matrix."""
    return replace(row, values=(), listed=row.listed or bool(row.values and row.family not in {DEFAULT, NONE}))


def combinations(rows: Iterable[Row]) -> list[Combination]:
    """The rows of an open matrix that has exactly the variants `rows` of one package."""
    own = list(rows)
    branches = tuple(dict.fromkeys(row.branch for row in own))
    found: list[Combination] = [{"branch": (row.branch,), **_written(row)} for row in own]
    for axis in ("accelerator", "isa", "python", "platform", "branch"):
        found = _merged(found, axis)
    return [{axis: values for axis, values in one.items() if axis != "branch" or values != branches} for one in found]


def _merged(rows: Sequence[Combination], axis: str) -> list[Combination]:
    """`rows` with one for those that differ in `axis` alone."""
    found: dict[tuple[Any, ...], Combination] = {}
    for row in rows:
        key = tuple((name, values) for name, values in row.items() if name != axis)
        one = found.setdefault((axis in row, *key), row)
        if one is not row and axis in row:
            found[True, *key] = {**one, axis: tuple(dict.fromkeys((*one[axis], *row[axis])))}
    return list(found.values())


def _written(row: Row) -> Combination:
    values = dict(row.values)
    accelerator = str(Accelerator(**{part: values.pop(part, "") for part in PARTS}))
    return {axis: (value,) for axis, value in values.items()} | {"accelerator": (accelerator,)}


def _with_machine(row: Row, read: _Read, *, hidden: bool) -> _Read:
    """`read` with what tells its machine; the platform if names leave it out, `hidden`."""
    if read.values.keys() & {"platform", "isa"}:
        return read
    more = {"platform": row.system} if hidden else {"isa": BASELINE}
    return read._replace(values={**read.values, **more})


def _short(row: Row) -> tuple[tuple[str, str], ...]:
    parts = {"family": NONE} if row.gpu == CPU else {"family": DEFAULT, "toolkit": row.toolkit, "target": row.gpu}
    return tuple({"python": row.python, "isa": row.isa, **parts}.items())


def _placed(row: Row, read: _Read) -> Row:
    accelerator = Accelerator(**{part: read.values.get(part, "") for part in PARTS})
    return replace(
        row,
        package=read.package,
        python=read.values.get("python", ""),
        gpu=str(accelerator),
        isa=read.values.get("isa", ""),
        listed=False,
        values=tuple(read.values.items()),
    )


def _is_spelled(row: Row, grammar: Grammar) -> bool:
    return variant_name(row.package, grammar.suffix(dict(row.values))) == row.name


def _read(name: str, hardware: Hardware) -> _Read | None:
    """What `name` tells, if it is of a family that the short form lacks."""
    words = "|".join(_FAMILIES)
    start = re.search(rf"-(?:python\d|(?:{words})\d*(?:_\d+)*(?:-|$)|(?:{'|'.join(_SYSTEM_WORDS)})-(?:{words}))", name)
    if not start:
        return None
    package, rest = name[: start.start()], name[start.start() + 1 :]
    platforms = {**{system: system for system in hardware.systems}, **_SYSTEM_WORDS}
    part = re.compile(
        rf"(?:python(?P<python>\d\d+)|(?P<platform>{'|'.join(platforms)})|(?P<isa>{'|'.join(hardware.isas)})"
        rf"|(?P<family>{words})(?P<toolkit>\d+(?:_\d+)*)?|(?P<target>[a-z][A-Za-z0-9]*))(?:-|$)"
    )
    said: dict[str, str] = {}
    at = 0
    while at < len(rest):
        match = part.match(rest, at)
        if match is None or match.lastgroup is None:
            return None
        for axis, text in match.groupdict().items():
            if text:
                if axis in said:
                    return None
                said[axis] = text
        at = match.end()
    return _values(package, said, platforms)


def _values(package: str, said: Mapping[str, str], platforms: Mapping[str, str]) -> _Read | None:
    if "family" not in said:
        return None
    family = family_of(said["family"])
    if "target" in said and not family.is_target(said["target"]):
        return None
    values = dict(said)
    if "python" in said:
        values["python"] = f"{said['python'][0]}.{said['python'][1:]}"
    if "toolkit" in said:
        values["toolkit"] = _toolkit(family.name, said["toolkit"])
    if "platform" in said:
        values["platform"] = platforms[said["platform"]]
    compact = values.get("toolkit", "") != said.get("toolkit", "").replace("_", ".")
    return _Read(package, values, list(said), said.get("platform", ""), compact)


def _toolkit(family: str, text: str) -> str:
    """The version of a toolkit that is spelled `text`: 7.1 for 7_1, and for 71 if the family has such a toolkit."""
    series = facts(family, "toolkits")["toolkits"] if has_facts(family, "toolkits") else ()
    known = next((one for one in series if one.replace(".", "") == text), "")
    return known or text.replace("_", ".")


def _spelling(reads: Sequence[_Read], *, hidden: bool) -> tuple[dict[str, Any], Grammar]:
    """The keys of the spec about names, and the grammar that they give; names leave the platform out if `hidden`."""
    keys: dict[str, Any] = {}
    words = {read.platform for read in reads if read.platform}
    tags = {"platform": words.pop()} if len(words) == 1 and words <= _SYSTEM_WORDS.keys() else {}
    if tags:
        keys["axes"] = {"platform": {"tag": tags["platform"]}}
    named = {family: f"{family}{{digits}}" for read in reads if read.compact for family in [read.values["family"]]}
    if named:
        keys["accelerators"] = {family: {"tag": word} for family, word in named.items()}
    order = ["python", "accelerator", "isa", *["platform"] * (not hidden)]
    if any("platform" in read.order and read.order.index("platform") < read.order.index("family") for read in reads):
        order = ["python", "platform", "accelerator", "isa"]
    parts = tuple(f"{{{axis}}}" for axis in order)
    return {**keys, "names": "-".join(parts)}, Grammar(parts=parts, tags=tags | named)
