"""Thin recipes: what the compiled recipes of a branch share stands once, and a recipe says what is its own.

The variants of a package that differ in nothing but their own values (`recipes.parameters`) share a function of these
values. Its file depends on none of them, so that a variant that comes or goes changes no file of another one.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from ci_compiler.files.folders import FUNCTIONS
from ci_compiler.hardware.families import family_of
from ci_compiler.plan.job_graph import needs_of
from ci_compiler.plan.sources import shared_stem
from ci_compiler.recipes import compiled, parameters, proof, seeds
from ci_compiler.recipes import nix_text as nix
from ci_compiler.recipes.capabilities import sets_capabilities
from ci_compiler.recipes.subject import Subject
from ci_compiler.spec.model import Spec
from ci_compiler.variant import RECIPES, SHARED

_IMPORTED = re.compile(rf"\./{FUNCTIONS}/([\w-]+)\.nix")

_OF_HARDWARE = frozenset({"isa", "dnn"})
"""The traits by which a piece is in some recipes of a package, branch and toolkit, and not in others."""


class Shared(NamedTuple):
    """What variants share: the file's path from the root, its text, and the values of OWN that a recipe gives to it."""

    path: str
    text: str
    given: tuple[str, ...]


def is_thin(subject: Subject) -> bool:
    """Whether the recipe is thin: unless the spec wants it whole, or has Nix code of the variant's own."""
    code = [piece.overlay for piece in subject.pieces]
    code += [package for packages in subject.override.inputs.values() for package in packages]
    return not (subject.package.self_contained or parameters.named_in(code))


def shared_path(subject: Subject) -> str:
    """The path of the file that the variant shares with those like it."""
    cell = subject.cell
    parts = [shared_stem(cell, subject.package.name)]
    if len(subject.capabilities) > 1:
        parts += [re.sub(r"[^\w.+-]", "_", cell.target), cell.system]  # what a path of Nix may have
    parts += [piece.name for piece in subject.pieces if _OF_HARDWARE & piece.when.keys()]
    by_gpu = subject.package.capabilities is None and subject.override.architecture
    parts += ["capability"] if by_gpu and sets_capabilities(subject.spec, subject.package, cell) else []
    parts += ["seed"] if subject.seeded_by else []
    return f"{'-'.join(parts)}.nix"


def shared(subject: Subject) -> Shared:
    """What the variant shares with those like it."""
    own = [key for key in parameters.OWN if len(subject.capabilities) < 2 or key not in parameters.OF_ONE_GPU]
    values = parameters.marked(subject.values, own)
    marked = "\n".join(compiled.expression(replace(subject, values=values, is_shared=True)))
    text = parameters.expanded(marked)
    names = parameters.marks_in(marked) | set(re.findall(rf"\b{compiled.CAPABILITY}\b", text))
    derived = {name: how for name, how in parameters.DERIVED.items() if name in names}
    names |= {name for name in parameters.OWN.values() if any(name in how.split() for how in derived.values())}
    given = [name for name in parameters.OWN.values() if name in names - derived.keys()]
    needs = [compiled.NEEDS] if _needs(subject) else []
    without_default = dict.fromkeys([*given, compiled.FLAGS, *needs, compiled.DESCRIPTION, compiled.RUNS_ON], "")
    defaults = {**without_default, **derived, **seeds.parameters(subject)}
    formals = (f"{name} ? {default}" if default else name for name, default in defaults.items())
    note = f"What recipes of {subject.package.title} {subject.version} for {_kind(subject)} share."
    head = [compiled.origin(subject.spec), nix.comment(note), ""]
    return Shared(
        path=shared_path(subject),
        text="\n".join([*head, f"{{ {', '.join(formals)} }}:", "", text, ""]),
        given=tuple(given),
    )


def _kind(subject: Subject) -> str:
    python = f"Python {subject.cell.python} and " if subject.package.set == "python" else ""
    if subject.gpu is None:
        return f"{python}CPUs"
    return f"{python}{family_of(subject.gpu.family).kit} {subject.cell.toolkit}".rstrip()


def _needs(subject: Subject) -> tuple[str, ...]:
    """The packages that the recipe imports."""
    in_a_set = subject.package.at == "set"
    return tuple(needs_of(subject.spec, subject.package.name)) if in_a_set else tuple(subject.package.needs)


def recipe(subject: Subject, common: Shared) -> str:
    """The recipe of a variant: a call of what it shares with its own values."""
    own = {parameters.OWN[key]: nix.string(subject.values[key]) for key in parameters.OWN}
    why = {compiled.CAPABILITY: f" {compiled.capability_comment(subject)}"} if subject.gpu else {}
    needs = (
        f"{compiled.NEEDS}.{compiled.attribute(subject, need)} = {compiled.imported(subject, need)};"
        for need in _needs(subject)
    )
    arguments = [
        *(f"{name} = {own[name]};{why.get(name, '')}" for name in common.given),
        f"{compiled.FLAGS} = [ {' '.join(map(nix.string, subject.isa.flags))} ];",
        *needs,
        *seeds.arguments(subject),
        f"{compiled.DESCRIPTION} = {nix.string(compiled.description(subject))};",
        nix.block(f"{compiled.RUNS_ON} = [", map(nix.string, compiled.runs_on_lines(subject)), "];"),
    ]
    file = posixpath.relpath(common.path, RECIPES)
    call = nix.block(f"{seeds.head(subject)} import {file} {{", arguments, "}")
    return "\n".join([*compiled.head(subject), "", call, ""])


def functions(spec: Spec, texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The files of the shell functions that shared texts import, by path."""
    for name in sorted({name for text in texts for name in _IMPORTED.findall(text)}):
        head = [compiled.origin(spec), nix.comment("Functions of the shell, which phases of builds define."), ""]
        text = "\n".join([*head, "''", nix.indent(proof.function(name))])
        yield f"{SHARED}/{FUNCTIONS}/{name}.nix", f"{text}''\n"
