"""Exclusions: few and short name patterns that take out exactly the variants without a recipe.

A pattern with its branches is a box: some values of each axis. A box starts at a variant without a recipe and grows
along one axis after another, in every order, as long as it takes in no variant with a recipe. The boxes that take out
most variants per character are kept. Sets of variants are the bits of an integer, so growing a box takes a few
operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from os.path import commonprefix
from typing import NamedTuple

from ci_compiler.hardware import CPU
from ci_compiler.variant import cuda_tag, python_tag

BECAUSE = "no recipe"
"""The reason that an exclusion gives."""


class Key(NamedTuple):
    """A variant, as its value on each axis."""

    branch: str
    package: str
    python: str
    gpu: str
    isa: str


_AXES = range(len(Key._fields))
_BRANCH, _PACKAGE, _PYTHON, _GPU, _ISA = _AXES


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Box:
    """The values on each axis, whether any value matches there, and the variants with these values, as bits."""

    values: tuple[tuple[str, ...], ...]
    free: tuple[bool, ...]
    masks: _Masks


class Cover:
    """Finds exclusions among the variants of `universe`; `cudas` is the CUDA version of each branch."""

    def __init__(self, universe: Sequence[Key], cudas: Mapping[str, str]) -> None:
        self.universe, self.cudas = universe, cudas
        self.bits = {key: 1 << index for index, key in enumerate(universe)}
        self.axes = [list(dict.fromkeys(key[axis] for key in universe)) for axis in _AXES]
        self.masks = [
            {value: self.mask(key for key in universe if key[axis] == value) for value in self.axes[axis]}
            for axis in _AXES
        ]
        self.everything = (1 << len(universe)) - 1
        self.steps = 0
        self._known: dict[tuple[int, int], tuple[Line, ...]] = {}

    def mask(self, keys: Iterable[Key]) -> int:
        """`keys` as bits."""
        return reduce(or_, map(self.bits.__getitem__, keys), 0)

    def lines(self, product: int, wanted: int) -> tuple[Line, ...]:
        """Exclusions that leave `wanted` of `product`, none superfluous, sorted by pattern."""
        if (product, wanted) not in self._known:
            self._known[product, wanted] = tuple(self._lines(product, wanted))
        return self._known[product, wanted]

    def _lines(self, product: int, wanted: int) -> list[Line]:
        excess = left = product & ~wanted
        found: list[Line] = []
        while left:
            seed = self.universe[(left & -left).bit_length() - 1]
            now = left
            found.append(min(self._through(seed, product, wanted), key=lambda line: _rank(line, now)))
            left &= ~found[-1].takes
            self.steps += 1
        for line in sorted(found, key=lambda line: ((line.takes & excess).bit_count(), line.text)):
            others = reduce(or_, (other.takes for other in found if other is not line), 0)
            if not line.takes & excess & ~others:
                found.remove(line)
        return sorted(found, key=lambda line: (line.pattern, line.branches))

    def _through(self, seed: Key, product: int, wanted: int) -> Iterator[Line]:
        """Lines that take out `seed` and none of `wanted`."""
        for masks in self._grown(seed, product, wanted):
            yield from self._said(self._box(masks, product), product, wanted)

    # Boxes, by their masks on each axis.

    def _grown(self, seed: Key, product: int, wanted: int) -> Iterable[_Masks]:
        """The boxes that `seed` grows into: along the axes in every order, then along each once more.

        Orders that lead to the same box are followed once.
        """
        several = frozenset(axis for axis in _AXES if len(self.axes[axis]) > 1)
        first = tuple(self.masks[axis][seed[axis]] if axis in several else self.everything for axis in _AXES)
        states = {(first, several): None}
        for _ in several:
            states = {
                (self._along(masks, axis, product, wanted), waiting - {axis}): None
                for masks, waiting in states
                for axis in sorted(waiting)
            }
        for grown, _ in states:
            masks = grown
            for axis in sorted(several):
                masks = self._along(masks, axis, product, wanted)
            yield masks

    def _along(self, masks: _Masks, axis: int, product: int, wanted: int) -> _Masks:
        """A box grown as far as possible along one axis."""
        there = self._others(masks, axis, product)
        grown = self.everything
        if there & wanted:
            table = self.masks[axis].values()
            grown = reduce(or_, (mask for mask in table if there & mask and not there & mask & wanted))
        return (*masks[:axis], grown, *masks[axis + 1 :])

    def _box(self, masks: _Masks, product: int) -> _Box:
        """The values of a box. If only one GPU or ISA is possible, it is named, since it says more than `*`."""
        free = [mask == self.everything for mask in masks]
        for axis in (_GPU, _ISA):
            there = self._others(masks, axis, product)
            only = [mask for mask in self.masks[axis].values() if there & mask]
            if free[axis] and len(only) == 1 < len(self.axes[axis]):
                free[axis], masks = False, (*masks[:axis], only[0], *masks[axis + 1 :])
        values = (
            tuple(value for value, mask in self.masks[axis].items() if mask & masks[axis] == mask) for axis in _AXES
        )
        return _Box(values=tuple(values), free=tuple(free), masks=masks)

    def _others(self, masks: _Masks, axis: int, product: int) -> int:
        """The part of `product` that the box holds on every axis but one."""
        for other in _AXES:
            if other != axis:
                product &= masks[other]
        return product

    # Boxes as text.

    def _said(self, box: _Box, product: int, wanted: int) -> Iterator[Line]:
        """The ways to write a box, with what each takes out of `product`; none takes out any of `wanted`."""
        packages = "" if box.free[_PACKAGE] else _braces(box.values[_PACKAGE])
        if not box.free[_PYTHON]:
            pythons = _braces([python_tag(value) for value in box.values[_PYTHON]], "python")
        else:  # `torch-*` would take out `torch-audio` as well
            starts = tuple(f"{value}-" for value in box.values[_PACKAGE])
            ambiguous = packages and any(value.startswith(starts) for value in self.axes[_PACKAGE])
            pythons = python_tag("*") if ambiguous else ""
        rest = product & box.masks[_PACKAGE] & box.masks[_PYTHON]
        for branches, cuda, on_branch in self._branches(box):
            for any_cuda, gpu, on_gpu in self._gpus(box):
                for isa, with_isa in self._isas(box):
                    takes = rest & on_branch & on_gpu & with_isa
                    if takes and not takes & wanted:
                        pattern = _pattern(packages, pythons, cuda or any_cuda, gpu, isa)
                        yield Line(pattern=pattern, branches=branches, takes=takes)

    def _branches(self, box: _Box) -> Iterator[tuple[tuple[str, ...], str, int]]:
        """Branches by name, or by the CUDA version in the names of their GPU variants."""
        if box.free[_BRANCH]:
            yield (), "", box.masks[_BRANCH]
            return
        named = box.values[_BRANCH]
        yield named, "", box.masks[_BRANCH]
        cudas = dict.fromkeys(self.cudas[branch] for branch in named)
        alike = [branch for branch in self.axes[_BRANCH] if self.cudas[branch] in cudas]
        if box.free[_GPU] or CPU not in box.values[_GPU]:
            tags = _braces(list(map(cuda_tag, cudas)), "cuda")
            yield (), tags, self._any(_BRANCH, alike) & ~self._any(_GPU, [CPU])

    def _gpus(self, box: _Box) -> Iterator[tuple[str, str, int]]:
        """GPUs by name, or as all GPUs without the CPU variants."""
        if box.free[_GPU]:
            yield "", "", box.masks[_GPU]
            return
        yield "", _braces(box.values[_GPU], "sm"), box.masks[_GPU]
        if CPU not in box.values[_GPU] and len(box.values[_GPU]) > 1:
            yield "cuda*", "", ~self._any(_GPU, [CPU])

    def _isas(self, box: _Box) -> Iterator[tuple[str, int]]:
        """ISAs by name, or by a common prefix."""
        if box.free[_ISA]:
            yield "", box.masks[_ISA]
            return
        values = box.values[_ISA]
        yield _braces(values), box.masks[_ISA]
        start = commonprefix(values)  # noqa: RUF071 - names, not paths
        if start and len(values) > 1:
            yield f"{start}*", self._any(_ISA, [isa for isa in self.axes[_ISA] if isa.startswith(start)])

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


def _pattern(package: str, python: str, cuda: str, gpu: str, isa: str) -> str:
    """A name pattern from patterns of its parts, '' for any. A CPU variant's name has no CUDA version."""
    pattern = package or "*"
    parts = [python, cuda, gpu, isa]
    if not cuda and gpu.startswith(("cpu", "{cpu")):
        parts = [python, f"*{gpu}" if python and gpu != CPU else gpu, isa]
    for part in parts:
        if part:
            pattern += f"-{part}"
        elif not pattern.endswith("*"):
            pattern += "-*"
    return pattern
