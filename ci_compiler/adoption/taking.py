"""Own recipes become compiled ones: the edit of the spec, and what differs between the recipes before and after."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ci_compiler.adoption.comparison import Pair, causes
from ci_compiler.adoption.evaluation import Evaluation
from ci_compiler.adoption.evaluator import evaluate, name_of
from ci_compiler.adoption.spec_yaml import scalar
from ci_compiler.codes import Code
from ci_compiler.errors import InputError, wrong
from ci_compiler.plan.rules import Judged
from ci_compiler.spec.model import Spec
from ci_compiler.spec.packages import RecipeKind
from ci_compiler.spec.patterns import matcher
from ci_compiler.variant import recipe_name, recipe_path

MOST_EVALUATED = 60
"""The recipes of a package that are compared at most; they stand for the others."""


def matching(spec: Spec, judged: Judged, pattern: str) -> dict[str, dict[str, str]]:
    """The package of each own recipe that `pattern` matches, by branch and name; listed variants cannot be compiled.

    Raises InputError for a pattern that is wrong or matches no such recipe.
    """
    try:
        test = matcher(pattern)
    except ValueError as error:
        raise wrong("--adopt", Code.WRONG_PATTERN, str(error)) from None
    found: dict[str, dict[str, str]] = {}
    for cell in judged.cells:
        for variant in cell.variants if not cell.listed else ():
            if test(variant.name) and spec.packages[variant.package].kind_of(variant.name) is RecipeKind.OWN:
                found.setdefault(cell.branch, {})[variant.name] = variant.package
    if not found:
        raise wrong(
            "--adopt", Code.UNKNOWN_VARIANT, f"{pattern!r} matches no recipe of the repository's own in the matrix"
        )
    return found


def edited(text: str, spec: Spec, packages: Iterable[str], pattern: str) -> str:
    """The spec's text, in which the recipes of `packages` that `pattern` matches are compiled; all else as it was.

    Raises InputError where the spec has the pattern already.
    """
    lines = text.splitlines(keepends=True)
    places = [(package, spec.place("packages", package, "recipes")) for package in packages]
    for package, place in sorted(places, key=lambda one: (one[1].line, one[1].column), reverse=True):
        value = spec.document.value["packages"][package]["recipes"]
        if pattern in value and not isinstance(value, str):
            message = f"`recipes` of {package} has the pattern {pattern!r} already; change it there"
            raise InputError([spec.finding(("packages", package, "recipes"), Code.WRONG_PATTERN, message)])
        line, column = place.line - 1, place.column - 1
        before, after = lines[line][:column], lines[line][column:]
        entry = f"{scalar(pattern)}: {RecipeKind.COMPILED}"
        if isinstance(value, str):
            given = next((one for one in (f'"{value}"', f"'{value}'", value) if after.startswith(one)), None)
            if given is None:
                message = f"`recipes` of {package} cannot be edited here; write it as a plain word or a mapping"
                raise InputError([spec.finding(("packages", package, "recipes"), Code.WRONG_PATTERN, message)])
            made = str(RecipeKind.COMPILED) if pattern == "*" else f'{{{entry}, "*": {value}}}'
            lines[line] = f"{before}{made}{after[len(given) :]}"
        elif after.startswith("{"):
            lines[line] = f"{before}{{{entry}, {after[1:].lstrip()}"
        else:
            lines.insert(line, f"{' ' * column}{entry}\n")
    return "".join(lines)


def differing(before: Mapping[str, str], after: Mapping[str, str], packages: Mapping[str, str]) -> list[str]:
    """How recipes that are taken over differ from the compiled ones, as lines of text.

    before: the recipes and the files that they read, by path from the repository's root. after: the compiled recipes
    that replace some of them. packages: the package of each recipe, by name.
    """
    chosen: dict[str, list[str]] = {}
    for name in map(recipe_name, after):
        chosen.setdefault(packages[name], []).append(name)
    names = [name for all_ in chosen.values() for name in all_[:: -(-len(all_) // MOST_EVALUATED)]]
    with tempfile.TemporaryDirectory(prefix="ci-compile-") as folder:
        old, new = (_evaluated(Path(folder) / side, files, names) for side, files in (("old", before), ("new", after)))
    both = [name for name in names if name in old and name in new]
    pairs = [
        Pair(package=packages[name], path=Path(recipe_path(name)), count=1, here=old[name], there=new[name])
        for name in both
    ]
    equal, found = causes(pairs)
    lines = [f"{equal} of the {len(pairs)} recipes that were compared stay the same derivations", *map(str, found)]
    if lacking := len(names) - len(both):
        lines.append(f"{lacking} recipes cannot be evaluated here, so that nothing is known of their differences")
    return lines


def _evaluated(root: Path, files: Mapping[str, str], names: Sequence[str]) -> dict[str, Evaluation]:
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    there = [file for name in names if (file := root / recipe_path(name)).is_file()]
    found, _ = evaluate(root, there) if there else ((), ())
    return {name_of(one.path): one for one in found}
