"""Exclusions: few and short name patterns that take out exactly the variants without a recipe.

A pattern with its branches is a box: some values of each axis. A box starts at a variant without a recipe and grows
along one axis after another, in every order, as long as it takes in no variant with a recipe. The boxes that take out
most variants per character are kept. Sets of variants are the bits of an integer, so growing a box takes a few
operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from os.path import commonprefix
from typing import NamedTuple

from ci_compiler.hardware import BASELINE, CPU
from ci_compiler.hardware.families import DEFAULT, family_of
from ci_compiler.variant import cell_suffix, python_tag, toolkit_tag, variant_name

BECAUSE = "no recipe"
"""The reason that an exclusion gives."""

LONGEST = 200
"""The characters of a pattern in a spec (`spec.forms.VariantPattern`)."""


class VariantKey(NamedTuple):
    """A variant, as its value on each axis; `toolkit` is '' for a CPU variant."""

    branch: str
    package: str
    python: str
    toolkit: str
    gpu: str
    isa: str

    @property
    def name(self) -> str:
        """The variant's name."""
        suffix = cell_suffix(python=self.python, toolkit=self.toolkit, target=self.gpu, isa=self.isa)
        return variant_name(self.package, suffix)


_AXES = range(len(VariantKey._fields))
_BRANCH, _PACKAGE, _PYTHON, _TOOLKIT, _GPU, _ISA = _AXES


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """An exclusion: its pattern, its branches (none: all), and the variants that it takes out, as bits."""

    pattern: str
    branches: tuple[str, ...]
    takes: int

    @property
    def text(self) -> str:
        """The line as written in a spec."""
        branches = f", branches: [{', '.join(self.branches)}]" if self.branches else ""
        return f'    - {{variants: "{self.pattern}"{branches}, because: {BECAUSE}}}'


_Masks = tuple[int, ...]


class Cover:
    """Finds exclusions among the variants of `universe`."""

    def __init__(self, universe: Sequence[VariantKey]) -> None:
        self.universe = universe
        self.bits = {key: 1 << index for index, key in enumerate(universe)}
        self.masks: list[dict[str, int]] = [{} for _ in _AXES]
        for key, bit in self.bits.items():
            for axis in _AXES:
                self.masks[axis][key[axis]] = self.masks[axis].get(key[axis], 0) | bit
        self.everything = (1 << len(universe)) - 1
        self.cpu = self.masks[_GPU].get(CPU, 0)

    def mask(self, keys: Iterable[VariantKey]) -> int:
        """`keys` as bits."""
        return reduce(or_, map(self.bits.__getitem__, keys), 0)

    def lines(self, wanted: int, most: int) -> tuple[Line, ...] | None:
        """Exclusions that leave `wanted`, none superfluous, sorted by pattern; None if `most` are not enough."""
        excess = left = self.everything & ~wanted
        found: list[Line] = []
        while left:
            if len(found) == most:
                return None
            seed = self.universe[(left & -left).bit_length() - 1]
            now = left
            lines = [line for masks in self._grown(seed, wanted) for line in self._said(masks, wanted)]
            found.append(min(lines, key=lambda line: _rank(line, now)))
            left &= ~found[-1].takes
        for line in sorted(found, key=lambda line: ((line.takes & excess).bit_count(), line.text)):
            others = reduce(or_, (other.takes for other in found if other is not line), 0)
            if not line.takes & excess & ~others:
                found.remove(line)
        return tuple(sorted(found, key=lambda line: (line.pattern, line.branches)))

    # Boxes, by their masks on each axis.

    def _grown(self, seed: VariantKey, wanted: int) -> Iterator[_Masks]:
        """The boxes that `seed` grows into, along the axes in every order; the same box is followed once."""
        several = frozenset(axis for axis in _AXES if len(self.masks[axis]) > 1)
        first = tuple(self.masks[axis][seed[axis]] if axis in several else self.everything for axis in _AXES)
        states = {(first, several): None}
        yield first
        for _ in several:
            states = {
                (self._along(masks, axis, wanted), waiting - {axis}): None
                for masks, waiting in states
                for axis in sorted(waiting)
            }
        yield from dict.fromkeys(masks for masks, _ in states)

    def _along(self, masks: _Masks, axis: int, wanted: int) -> _Masks:
        """A box grown as far as possible along one axis."""
        there = self._others(masks, axis)
        grown = self.everything
        if there & wanted:
            table = self.masks[axis].values()
            grown = reduce(or_, (mask for mask in table if there & mask and not there & mask & wanted))
        return (*masks[:axis], grown, *masks[axis + 1 :])

    def _others(self, masks: _Masks, axis: int) -> int:
        """The variants that the box holds on every axis but one."""
        held = self.everything
        for other in _AXES:
            if other != axis:
                held &= masks[other]
        return held

    # Boxes as text.

    def _said(self, masks: _Masks, wanted: int) -> Iterator[Line]:
        """The ways to write a box, with what each takes out; none takes out any of `wanted`."""
        branches = () if masks[_BRANCH] == self.everything else self._values(_BRANCH, masks)
        package, on_package = self._package(masks)
        python, on_python = self._python(masks, package)
        rest = masks[_BRANCH] & on_package & on_python
        for middle, on_middle in self._middles(masks, any_python=not python):
            parts = [package or "*", python or "*", *middle]
            start = "-".join(
                part for at, part in enumerate(parts) if part != "*" or not at or not parts[at - 1].endswith("*")
            )
            for isa, with_isa in self._isas(masks, open_end=start.endswith("*")):
                takes = rest & on_middle & with_isa
                if takes and not takes & wanted and len(start + isa) <= LONGEST:
                    yield Line(pattern=start + isa, branches=branches, takes=takes)

    def _values(self, axis: int, masks: _Masks) -> tuple[str, ...]:
        """The values of a box on an axis, as far as the box holds a variant with them."""
        held = self._others(masks, axis)
        return tuple(value for value, mask in self.masks[axis].items() if mask & masks[axis] == mask and mask & held)

    def _package(self, masks: _Masks) -> tuple[str, int]:
        if masks[_PACKAGE] == self.everything:
            return "", self.everything
        return _braces(self._values(_PACKAGE, masks)), masks[_PACKAGE]

    def _python(self, masks: _Masks, package: str) -> tuple[str, int]:
        if masks[_PYTHON] != self.everything:
            return _braces([python_tag(value) for value in self._values(_PYTHON, masks)], "python"), masks[_PYTHON]
        starts = tuple(f"{value}-" for value in self._values(_PACKAGE, masks))
        # `torch-*` would take out `torch-audio` as well.
        ambiguous = package and any(value.startswith(starts) for value in self.masks[_PACKAGE])
        return python_tag("*") if ambiguous else "", self.everything

    def _middles(self, masks: _Masks, *, any_python: bool) -> Iterator[tuple[tuple[str, ...], int]]:
        """Ways to write the toolkit and GPU of a box, with what each matches, which may be more."""
        if masks[_TOOLKIT] == masks[_GPU] == self.everything:
            yield ("*",), self.everything
        on_cpu = bool(self.cpu & masks[_TOOLKIT] & masks[_GPU])
        if on_cpu:
            yield (CPU,), self.cpu
        gpus = tuple(value for value in self._values(_GPU, masks) if value != CPU)
        kits = tuple(value for value in self._values(_TOOLKIT, masks) if value)
        if not gpus or not kits:
            return
        named, toolkits = _braces(gpus, family_of(DEFAULT).prefix), _braces(list(map(toolkit_tag, kits)), DEFAULT)
        on_gpus, on_toolkits = self._any(_GPU, gpus), self._any(_TOOLKIT, kits)
        yield (toolkits, named), on_toolkits & on_gpus
        yield (toolkits, "*"), on_toolkits
        yield ("*", named), on_gpus
        yield (f"{DEFAULT}*",), self.everything & ~self.cpu
        if on_cpu and any_python:
            yield ("*", _braces([CPU, *gpus])), on_gpus | self.cpu

    def _isas(self, masks: _Masks, *, open_end: bool) -> Iterator[tuple[str, int]]:
        """The end of a pattern: any ISA, some by name, or those with a common prefix. Names leave out the baseline."""
        baseline = BASELINE in self.masks[_ISA]
        if masks[_ISA] == self.everything:
            yield "" if open_end else "*" if baseline else "-*", self.everything
            return
        values = self._values(_ISA, masks)
        if BASELINE not in values:
            yield f"-{_braces(values)}", self._any(_ISA, values)
            start = commonprefix(values)  # noqa: RUF071 - names, not paths
            if start and len(values) > 1:
                yield f"-{start}*", self._any(_ISA, [isa for isa in self.masks[_ISA] if isa.startswith(start)])
        elif not open_end:
            yield _braces(["" if isa == BASELINE else f"-{isa}" for isa in values]), self._any(_ISA, values)

    def _any(self, axis: int, values: Iterable[str]) -> int:
        return reduce(or_, (self.masks[axis].get(value, 0) for value in values), 0)


def _rank(line: Line, left: int) -> tuple[float, int, str]:
    """Sort key of lines: most variants per character first, then the shortest."""
    size = len(line.text)
    return (-(line.takes & left).bit_count() / size, size, line.text)


def _braces(values: Sequence[str], start: str = "") -> str:
    """`values` in shell braces, after `start` if all begin with it."""
    if len(values) == 1:
        return values[0]
    if start and all(value.startswith(start) for value in values):
        return f"{start}{{{','.join(value.removeprefix(start) for value in values)}}}"
    return f"{{{','.join(values)}}}"
