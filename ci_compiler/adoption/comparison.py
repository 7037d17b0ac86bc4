"""How existing recipes differ from those that the spec would compile to.

Of each kind of recipe, one is compared. It is *equal* if the compiled recipe is the same derivation, *different* if it
is not, with what differs in groups, or *opaque* if it cannot be evaluated here. There is one finding for each cause,
with the number of recipes that it stands for.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci_compiler.adoption.evaluation import PHASES, Evaluation
from ci_compiler.adoption.evaluator import evaluate
from ci_compiler.adoption.facts import Facts
from ci_compiler.adoption.names import Row
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, Place
from ci_compiler.hardware.features import UnknownFlagError, features
from ci_compiler.plan.rules import Judged
from ci_compiler.recipes.render import recipe
from ci_compiler.spec.model import Spec

MOST_PACKAGES = 10
"""The packages from which on findings tell no packages apart."""

_SECONDS = 20.0
_NAME_OR_NUMBER = re.compile(r"/\S+|'[^']*'|\b[0-9a-f]{32,}\b|\d+")
_INPUTS = ("buildInputs", "nativeBuildInputs", "propagatedBuildInputs", "depsBuildBuild", "patches")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Something that differs: the group, the attribute, what the recipe has and what the compiled one has."""

    group: str
    what: str
    here: str
    there: str

    def __str__(self) -> str:
        return f"{self.what} is {_short(self.here)}; compiled, it is {_short(self.there)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """An existing recipe of `package` and the compiled one, which stand for `count` recipes."""

    package: str
    path: Path
    count: int
    here: Evaluation
    there: Evaluation


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What makes `count` recipes of a package differ from the compiled ones, the first of which is at `path`."""

    package: str
    path: Path
    count: int
    differences: tuple[Difference, ...]

    def __str__(self) -> str:
        what = ", ".join(dict.fromkeys(one.what for one in self.differences))
        first = self.differences[0]
        verb = "differ" if self.count > 1 else "differs"
        return f"{_recipes(self.count)} of {self.package} {verb} in {first.group} ({what}): {first}"


def causes(pairs: Sequence[Pair]) -> tuple[int, list[Cause]]:
    """How many recipes are equal to the compiled ones, and what makes the others differ, by package and group."""
    packages = {pair.package for pair in pairs}
    found: dict[tuple[str, str], dict[int, list[Difference]]] = {}
    for index, pair in enumerate(pairs):
        if pair.here.drv_path != pair.there.drv_path:
            for one in list(differences(pair.here, pair.there)) or [_inner(pair.here, pair.there)]:
                package = pair.package if len(packages) <= MOST_PACKAGES else f"{len(packages)} packages"
                found.setdefault((package, one.group), {}).setdefault(index, []).append(one)
    equal = sum(pair.count for pair in pairs if pair.here.drv_path == pair.there.drv_path)
    return equal, [
        Cause(
            package=package,
            path=pairs[next(iter(differing))].path,
            count=sum(pairs[index].count for index in differing),
            differences=tuple(one for several in differing.values() for one in several),
        )
        for (package, _), differing in found.items()
    ]


def compared(facts: Facts, spec: Spec, judged: Judged) -> tuple[int, list[Finding]]:
    """How many recipes are equal to what `spec` compiles, and a finding for each group in which others differ."""
    alike = {(rows[0].branch, rows[0].name): rows for rows in facts.kinds.values()}
    rows = [rows[0] for place, rows in alike.items() if place in facts.evaluations]
    wanted = compiled_evaluations(spec, judged, rows)
    pairs = [
        Pair(
            package=row.package,
            path=row.path,
            count=len(alike[place]),
            here=facts.evaluations[place],
            there=wanted[place],
        )
        for row in rows
        if (place := (row.branch, row.name)) in wanted
    ]
    equal, found = causes(pairs)
    return equal, [
        Finding(place=Place(file=str(one.path)), code=Code.RECIPE_DIFFERS, message=str(one)) for one in found
    ]


def opaque(facts: Facts) -> list[Finding]:
    """A finding for each cause for which recipes cannot be evaluated, with the number of recipes."""
    counts = {(alike[0].branch, alike[0].name): len(alike) for alike in facts.kinds.values()}
    causes: dict[str, list[tuple[int, Finding]]] = {}
    for place, finding in facts.opaque.items():
        cause = _NAME_OR_NUMBER.sub("", finding.message)
        causes.setdefault(cause, []).append((counts[place], finding))
    return [
        Finding(
            place=all_[0][1].place,
            code=Code.RECIPE_OPAQUE,
            message=f"{_recipes(sum(count for count, _ in all_))} cannot be evaluated here: {all_[0][1].message}",
        )
        for all_ in causes.values()
    ]


def _recipes(count: int) -> str:
    return f"{count} recipes" if count > 1 else "1 recipe"


def compiled_evaluations(spec: Spec, judged: Judged, rows: Iterable[Row]) -> dict[tuple[str, str], Evaluation]:
    """What the recipes that the spec compiles to in place of `rows` evaluate to."""
    cells = {(cell.branch, variant.name): (cell, variant) for cell in judged.cells for variant in cell.variants}
    with tempfile.TemporaryDirectory(prefix="ci-compile-") as folder:
        paths: dict[Path, tuple[str, str]] = {}
        for row in rows:
            found = cells.get((row.branch, row.name))
            versions = spec.branches[row.branch].versions.keys()
            needs = spec.packages[row.package].needs
            if found is None or row.listed or not versions >= {row.package, *needs}:
                continue
            path = Path(folder) / row.branch.replace("/", "-") / f"{row.name}.nix"
            path.parent.mkdir(exist_ok=True)
            for need in (one for one in found[0].variants if one.package in needs):
                (path.parent / f"{need.name}.nix").write_text(recipe(spec, found[0], need), "utf-8")
            path.write_text(recipe(spec, *found), "utf-8")
            paths[path] = (row.branch, row.name)
        done, _ = evaluate(Path(folder), list(paths), timeout=_SECONDS) if paths else ((), ())
        return {paths[one.path]: one for one in done}


# What differs.


def differences(here: Evaluation, there: Evaluation) -> Iterator[Difference]:
    """What differs between an existing recipe and the compiled one, by group."""
    yield from _of_group("pin", _pin(here), _pin(there))
    yield from _of_group("flags", _flags(here), _flags(there))
    yield from _of_group("inputs", _inputs(here), _inputs(there))
    yield from _of_group("exports", _exports(here), _exports(there))
    yield from _of_group("phases", _phases(here), _phases(there))
    yield from _of_group("meta", _meta(here), _meta(there))


def _inner(here: Evaluation, there: Evaluation) -> Difference:
    """The difference of derivations that are alike themselves: in what they are built with."""
    what, one, other = "derivation", here, there
    if here.torch and there.torch:
        what, one, other = "torch", here.torch, there.torch
    return Difference(group="inputs", what=what, here=one.drv_path, there=other.drv_path)


def _of_group(group: str, here: Mapping[str, object], there: Mapping[str, object]) -> Iterator[Difference]:
    for what in dict.fromkeys([*here, *there]):
        mine, theirs = here.get(what) or "", there.get(what) or ""
        if mine != theirs:
            yield Difference(group=group, what=what, here=str(mine), there=str(theirs))


def _pin(one: Evaluation) -> dict[str, object]:
    config = {f"config.{key}": value for key, value in one.config.items()}
    overlaid = {f"overlay of {key}": value for key, value in one.overlaid.items()}
    return {"nixpkgs": one.pin, "python": one.python, "cudaPackages": one.cuda_attribute, **config, **overlaid}


def _flags(one: Evaluation) -> dict[str, object]:
    found: dict[str, object] = {name: _turned_on(words) for name, words in one.flags.items()}
    return found | {"gpuTargets": " ".join(one.gpu_targets)}


def _turned_on(flags: Sequence[str]) -> str:
    """Flags by what they do: the CPU features that they turn on, and all others as they are."""
    chosen = [flag for flag in flags if flag.startswith("-m")]
    try:
        names = sorted(features(chosen))
    except UnknownFlagError:
        return " ".join(sorted(flags))
    return " ".join([*names, *sorted(flag for flag in flags if flag not in chosen)])


def _inputs(one: Evaluation) -> dict[str, object]:
    found: dict[str, object] = {"source": " ".join(f"{src.owner}/{src.repo} {src.rev}" for src in one.sources)}
    found |= {name: one.attributes[name] for name in _INPUTS if name in one.attributes}
    if one.torch:
        found["torch"] = " ".join(f"{key}={value}" for key, value in _flags(one.torch).items())
    return found | {"patches": " ".join(patch.name for patch in one.patches)}


def _exports(one: Evaluation) -> dict[str, object]:
    exports: dict[str, object] = {name: value for name, value in one.exports.items() if name not in one.flags}
    ninja = [flag for flag in one.ninja_flags if flag != f"-j{one.max_jobs}"]  # MAX_JOBS says the same
    return exports | {"cmakeFlags": " ".join(one.cmake_flags), "ninjaFlags": " ".join(ninja)}


def _phases(one: Evaluation) -> dict[str, object]:
    return {phase: one.attributes[phase] for phase in PHASES if phase in one.attributes}


def _meta(one: Evaluation) -> dict[str, object]:
    passthru = {f"passthru.{key}": value for key, value in one.passthru.items()}
    texts = {"description": one.description, "longDescription": one.long_description}
    features = " ".join(one.required_system_features)
    return {"pname": one.pname, "platforms": one.platforms, "requiredSystemFeatures": features, **texts, **passthru}


def _short(text: str) -> str:
    line = " ".join(text.split()) or "not set"
    return line if len(line) <= 80 else f"{line[:79]}…"
