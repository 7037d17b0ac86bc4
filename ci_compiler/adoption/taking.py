"""Own recipes become compiled ones: the edit of the spec, and what differs between the recipes before and after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ci_compiler.adoption.audit_checks import label
from ci_compiler.adoption.comparison import Pair, causes
from ci_compiler.adoption.evaluation import Evaluation
from ci_compiler.adoption.evaluator import evaluate, name_of, written
from ci_compiler.adoption.spec_yaml import scalar
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, about, wrong
from ci_compiler.plan.rules import Judged
from ci_compiler.spec.model import Spec
from ci_compiler.spec.packages import RecipeKind
from ci_compiler.spec.patterns import matcher
from ci_compiler.units import counted, grouped
from ci_compiler.variant import recipe_name, recipe_path, recipe_paths


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
        message = f"{pattern!r} matches no recipe of the repository's own in the matrix"
        raise wrong("--adopt", Code.UNKNOWN_VARIANT, message)
    return found


def edited(text: str, spec: Spec, packages: Iterable[str], pattern: str) -> str:
    """The spec's text, in which the recipes of `packages` that `pattern` matches are compiled; all else as it was.

    Raises InputError where the spec has the pattern already.
    """
    lines = text.splitlines(keepends=True)
    places = [(package, spec.place("packages", package, "recipes")) for package in packages]
    for package, place in sorted(places, key=lambda pair: (pair[1].line, pair[1].column), reverse=True):
        value = spec.document.value["packages"][package]["recipes"]
        line, column = place.line - 1, place.column - 1
        before, after = lines[line][:column], lines[line][column:]
        entry = f"{scalar(pattern)}: {RecipeKind.COMPILED}"
        if isinstance(value, str):
            given = next((word for word in (f'"{value}"', f"'{value}'", value) if after.startswith(word)), None)
            if given is None:
                raise _wrong(spec, package, "cannot be edited here; write it as a plain word or a mapping")
            kinds = str(RecipeKind.COMPILED) if pattern == "*" else f'{{{entry}, "*": {value}}}'
            lines[line] = f"{before}{kinds}{after[len(given) :]}"
        elif pattern in value:
            raise _wrong(spec, package, f"has the pattern {pattern!r} already; change it there")
        elif after.startswith("{"):
            lines[line] = f"{before}{{{entry}, {after[1:].lstrip()}"
        else:
            lines.insert(line, f"{' ' * column}{entry}\n")
    return "".join(lines)


def _wrong(spec: Spec, package: str, problem: str) -> InputError:
    message = f"`recipes` of {package} {problem}"
    return InputError([spec.finding(("packages", package, "recipes"), Code.WRONG_PATTERN, message)])


def differing(before: Mapping[str, str], after: Mapping[str, str], packages: Mapping[str, str]) -> list[str]:
    """How recipes that are taken over differ from the compiled ones, as lines of text.

    before: the recipes and the files that they read, by path from the repository's root. after: the compiled recipes
    that replace some of them. packages: the package of each recipe, by name. Raises InputError where a recipe does
    something that the compiled one would not do, or where that is not known.
    """
    names = [name for name in map(recipe_name, after) if before.keys() & {*recipe_paths(name)}]
    old, new = _evaluated(before, names), _evaluated({**before, **after}, names)
    lost = {name: problem for name in names if (problem := _lost(old.get(name), new.get(name)))}
    if lost:
        raise InputError(_refused(problem, same) for problem, same in grouped(lost, lost.__getitem__).items())
    pairs = [Pair(packages[name], Path(recipe_path(name)), old[name], new[name]) for name in names]
    equal, found = causes(pairs)
    return [
        f"{equal} of the {len(pairs)} recipes that were compared stay the same derivations",
        *(cause.message for cause in found),
    ]


def _lost(own: Evaluation | None, compiled: Evaluation | None) -> str:
    """What a recipe does that would be lost with the compiled one; '' for nothing."""
    if own is None or compiled is None:
        return "cannot be evaluated here, so that nothing is known of what it does"
    parts = ((own, compiled), (own.torch, compiled.torch))
    lost = [name for old, new in parts if old for name in old.changes if not new or name not in new.changes]
    there = set(map(label, compiled.nodes))
    deeper = {label(node): node for node in own.inner if label(node) not in there}
    lost += [name for name in deeper if name not in lost]
    names = " and ".join(f"{name}{_where(deeper.get(name), own.path)}" for name in dict.fromkeys(lost))
    return f"changes {names}, with which it is built, and the compiled recipe does not" if lost else ""


def _where(node: Evaluation | None, recipe: Path) -> str:
    """Where a package inside a recipe is written, if another file does it."""
    place = next(iter(node.places.values()), None) if node else None
    return f" ({Path(place.file).name}:{place.line})" if place and Path(place.file) != recipe else ""


def _refused(problem: str, names: Sequence[str]) -> Finding:
    more = f" ({counted(len(names) - 1, 'more recipe')} too)" if names[1:] else ""
    message = f"it {problem}{more}; take a pattern that leaves it the repository's own"
    return about(recipe_path(names[0]), Code.RECIPE_DOES_MORE, message)


def _evaluated(files: Mapping[str, str], names: Sequence[str]) -> dict[str, Evaluation]:
    paths = (path for name in names for path in recipe_paths(name))
    with written(files) as root:
        there = [root / path for path in paths if path in files]
        evaluations, _ = evaluate(root, there) if there else ((), ())
    return {name_of(recipe.path): recipe for recipe in reversed(evaluations)}
