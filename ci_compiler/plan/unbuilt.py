"""What the matrices select, whether it is built or not; and why a name is not built."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from ci_compiler.codes import Code
from ci_compiler.errors import Place, nearest
from ci_compiler.plan.matrix import Candidate, Cell, Cells, candidates, grammar_of
from ci_compiler.plan.rules import Judged, LeftOut
from ci_compiler.spec.load import Path_
from ci_compiler.spec.model import Matrix, Package, Spec, in_build_order
from ci_compiler.spec.patterns import matcher
from ci_compiler.variant import VariantName


class _Selected(NamedTuple):
    """A variant that a matrix selects, whether it is built or not: the only one of `cell`."""

    path: Path_
    matrix: Matrix
    candidate: Candidate
    cell: Cell


class SelectedVariants:
    """The variants that the matrices of a spec select, and why some are not built."""

    def __init__(self, spec: Spec, judged: Judged) -> None:
        self.spec, self.judged = spec, judged
        self.built = {(cell.branch, variant.name) for cell in judged.cells for variant in cell.variants}

    @cached_property
    def every(self) -> list[_Selected]:
        """All of them, each once; those that their package's `when` leaves out as well."""
        found: dict[tuple[str, str], _Selected] = {}
        for path, matrix, packages in self.spec.matrices:
            maker = Cells(self.spec, matrix)
            anywhere = [
                replace(package, when=None)
                for package in in_build_order({package.name: package for package in packages})
            ]
            here = [package for package in anywhere if package.repository is None]
            for candidate in candidates(self.spec, path, matrix):
                on = [package for package in here if package.on(candidate.branch)]
                for cell in maker.of(candidate, on):
                    found.setdefault((cell.branch, cell.variants[0].name), _Selected(path, matrix, candidate, cell))
        return list(found.values())

    @property
    def packages(self) -> set[str]:
        """The packages of the matrices."""
        return {selected.cell.variants[0].package for selected in self.every}

    def has_usual_names(self, package: str) -> bool:
        """Whether the variants of `package`, or of all packages, have names from which their values can be parsed."""
        own = [selected.cell for selected in self.every if package in {"", selected.cell.variants[0].package}]
        return all(
            cell.is_usual and str(VariantName.parse(cell.variants[0].name)) == cell.variants[0].name for cell in own
        )

    def wanted(self, selected: _Selected) -> bool:
        """Whether the package's `when` holds for it."""
        when = self._package(selected).when
        return when is None or when.holds(selected.candidate.conditions)

    def reason(self, selected: _Selected) -> tuple[Code, str, Path_]:
        """Why it is not built although its package wants it: an exclusion, or a rule about its hardware."""
        name, axes = selected.cell.variants[0].name, selected.cell.conditions
        for exclusion in selected.matrix.exclude:
            here = not exclusion.branches or selected.cell.branch in exclusion.branches
            if here and (exclusion.when is None or exclusion.when.holds(axes)) and matcher(exclusion.pattern)(name):
                return Code.EXCLUDED, exclusion.because, (*selected.path, "exclude", exclusion.index)
        wanted = _accelerator(selected.candidate)
        out = next(
            left_out
            for left_out in self.judged.left_out
            if _accelerator(left_out) == wanted and left_out.code != Code.EXCLUDED
        )
        return out.code, out.reason, out.path

    def _package(self, selected: _Selected) -> Package:
        return self.spec.packages[selected.cell.variants[0].package]

    def absent(self, name: str) -> Iterator[tuple[str, Place]]:
        """Why the variant `name`, which the matrix selects, is not built on each branch; nothing for any other name."""
        for selected in self.every:
            if selected.cell.variants[0].name == name:
                branch, package = selected.cell.branch, self._package(selected)
                if self.wanted(selected):
                    code, reason, path = self.reason(selected)
                    yield f"left out on {branch}: {reason} ({code})", self.spec.place(*path)
                else:
                    message = f"{package.name} is built only when {package.when}"
                    yield message, self.spec.place("packages", package.name, "when")

    def unknown(self, name: str) -> str:
        """Which part of `name` no variant can have; '' if it spells values of the matrix."""
        package, form = self._package_in(name), "-".join(("PACKAGE", *grammar_of(self.spec).parts))
        if not package:
            near = nearest(name, (one for _, one in self.built), only_near=True) or "; `ci-compile variants` lists them"
            return f"{name!r} is not a variant's name ({form}){near}"
        spelled = self._spelled(package)
        word = _read(name.removeprefix(f"{package}-"), spelled)[1].split("-")[0]
        wrong = f"{word!r} is no value of an axis{nearest(word, spelled)}"
        return f"{name!r} is not a variant's name ({form}): {wrong}" if word else ""

    def unselected(self, name: str) -> tuple[str, Place]:
        """Why the matrix does not select `name`, which spells values of it: what the nearest variant has."""
        package, tags = self._package_in(name), grammar_of(self.spec).spellings
        read = _read(name.removeprefix(f"{package}-"), self._spelled(package))[0]
        own = [selected for selected in self.every if selected.cell.variants[0].package == package]
        near = min(own, key=lambda selected: len(set(tags(selected.cell.axes).items()) ^ set(read)))
        has = tags(near.cell.axes)
        others = [f"{axis} {tag}" for axis, tag in has.items() if (axis, tag) not in read]
        others += [f"no {axis}" for axis, _ in read if axis not in has]
        message = (
            f"the matrix does not have these values together; the nearest, {near.cell.variants[0].name}, has "
            f"{', '.join(others) or 'them in another order'}"
        )
        return message, self.spec.place(*near.path, key=True)

    def _package_in(self, name: str) -> str:
        return max((package for package in self.packages if name.startswith(f"{package}-")), key=len, default="")

    def _spelled(self, package: str) -> dict[str, str]:
        """The axis of each spelling of a value in the names of `package`."""
        tags = grammar_of(self.spec).spellings
        cells = (selected.cell for selected in self.every if selected.cell.variants[0].package == package)
        return {tag: axis for cell in cells for axis, tag in tags(cell.axes).items()}


def _accelerator(one: LeftOut | Candidate) -> tuple[str, ...]:
    return one.branch, one.toolkit, one.target, one.isa


def _read(text: str, spelled: Mapping[str, str]) -> tuple[list[tuple[str, str]], str]:
    """The values that `text` spells, from its beginning, and the rest from the first word that spells none."""
    read = []
    while text:
        tag = max((one for one in spelled if f"{text}-".startswith(f"{one}-")), key=len, default="")
        if not tag:
            break
        read.append((spelled[tag], tag))
        text = text[len(tag) + 1 :]
    return read, text
