"""Recalled variants: what to use instead of each, and what was built with it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ci_compiler.codes import Code
from ci_compiler.errors import InputError, wrong
from ci_compiler.hardware import CPU
from ci_compiler.plan.lookup import BuiltVariant
from ci_compiler.plan.matrix import Cell, version_in
from ci_compiler.plan.needs import Needs
from ci_compiler.plan.pipeline import Plan
from ci_compiler.reports.evidence import proofs
from ci_compiler.reports.finder import Finder
from ci_compiler.reports.offers import Offer, Profile, Wishes, recalled
from ci_compiler.spec.build import parse_spec
from ci_compiler.spec.model import Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """A recalled variant on a branch: why, and what a machine that runs it uses instead (None: nothing runs there)."""

    name: str
    package: str
    branch: str
    version: str
    because: str
    instead: Offer | None


def recalled_variants(plan: Plan) -> Iterator[Recalled]:
    """The recalled variants."""
    spec, cells = plan.spec, plan.judged.cells
    if not spec.recalls:
        return
    known = proofs(spec, cells, plan.routes)
    finders: dict[str, Finder] = {}
    for cell in cells:
        for variant in cell.variants:
            if because := recalled(spec, cell.branch, variant):
                finder = finders.setdefault(variant.package, Finder(spec, cells, variant.package, known))
                yield Recalled(
                    name=variant.name,
                    package=variant.package,
                    branch=cell.branch,
                    version=version_in(spec, cell, variant),
                    because=because,
                    instead=_instead(finder, cell),
                )


def _instead(finder: Finder, cell: Cell) -> Offer | None:
    """What is chosen for a machine that has exactly what `cell` needs."""
    if cell.listed:
        return None
    hardware = finder.hardware
    gpu = None if cell.target == CPU else hardware.gpus.get(cell.target)
    isas = tuple(isa for isa in hardware.isas if isa in hardware.runs([cell.isa], cell.system))
    profile = Profile(system=cell.system, isas=isas, gpu=gpu, has_gpu=gpu is not None)
    return finder.answer(profile, Wishes(package=finder.package)).unknown.best


def built_with(spec: Spec, cells: Sequence[Cell], variants: Iterable[BuiltVariant]) -> dict[tuple[str, str], str]:
    """The variants of a plan's `cells` that contain one of `variants`, by name and branch, each with that one."""
    needs, names = Needs(spec, cells), {(built.variant.name, built.cell.branch) for built in variants}
    return {
        (other.name, cell.branch): held.name
        for cell in cells
        for other in cell.variants
        for within, held in needs.every(cell, other.package)
        if (held.name, within.branch) in names and (other.name, cell.branch) not in names
    }


def with_recalls(text: str, spec: Spec, variants: Sequence[BuiltVariant], because: str, branch: str | None) -> str:
    """The text of `spec` with a recall of `variants` in their present versions, on `branch` (None: on every branch).

    Raises InputError if one of them is recalled already, or if the text cannot be edited.
    """
    names = dict.fromkeys(built.variant.name for built in variants)
    if twice := [name for name in names if name in spec.recalls]:
        raise wrong("NAME", Code.WRONG_VALUE, f"{twice[0]} is recalled already; edit `recalls` in the spec")
    lines: list[str] = []
    for name in names:
        versions = dict.fromkeys(built.version for built in variants if built.variant.name == name and built.version)
        lines += [f"  {name}:\n", f"    because: {json.dumps(because, ensure_ascii=False)}\n"]
        lines += [f"    branches: [{branch}]\n"] if branch else []
        lines += [f"    versions: {json.dumps(list(versions))}\n"] if versions else []
    made = _inserted(text, spec, lines)
    if not set(names) <= _recalls_in(made, spec):
        message = f"cannot be edited here; write `recalls:` with {''.join(lines)}"
        raise wrong(spec.document.file, Code.WRONG_VALUE, message)
    return made


def _inserted(text: str, spec: Spec, lines: Sequence[str]) -> str:
    """The text with `lines` at the beginning of its `recalls`, or in new ones at its end."""
    if "recalls" not in spec.document.value:
        return f"{text.rstrip()}\n\nrecalls:\n{''.join(lines)}"
    before = text.splitlines(keepends=True)
    at = spec.place("recalls", key=True).line
    return "".join([*before[:at], *lines, *before[at:]])


def _recalls_in(text: str, spec: Spec) -> set[str]:
    try:
        return set(parse_spec(text.encode(), shown=spec.document.file).recalls)
    except InputError:
        return set()
