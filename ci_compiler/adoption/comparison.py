"""How existing recipes differ from those that the spec would compile to.

Of each kind of recipe, one is compared. It is *equal* if the compiled recipe is the same derivation, *different* if it
is not, with what differs in groups, or *opaque* if it cannot be evaluated here. There is one finding for each cause,
with the number of recipes that it stands for.

Two texts with one meaning are no difference: flags in another order, `gpuArch` in another notation, another form of
overlay, further variables that the build exports.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ci_compiler.adoption.evaluation import Evaluation
from ci_compiler.adoption.evaluator import evaluate
from ci_compiler.adoption.facts import MOST_EVALUATED, Facts
from ci_compiler.adoption.names import Row
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, Place
from ci_compiler.hardware.features import UnknownFlagError, features
from ci_compiler.plan.rules import Judged
from ci_compiler.recipes.proof import ARRIVED
from ci_compiler.recipes.render import recipe
from ci_compiler.recipes.shell_variables import PHASES
from ci_compiler.spec.build import bundled_spec
from ci_compiler.spec.model import Spec
from ci_compiler.spec.packages import RecipeKind
from ci_compiler.units import counted

MOST_PACKAGES = 10
"""The packages from which on findings tell no packages apart."""

_NAME_OR_NUMBER = re.compile(r"/\S+|'[^']*'|\b[0-9a-f]{32,}\b|\d+")
_PYTHON_SET = re.compile(r"pythonPackagesExtensions|python3\d*(?:Packages)?")
_INPUTS = ("buildInputs", "nativeBuildInputs", "propagatedBuildInputs", "depsBuildBuild", "patches")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Something that differs: the group, the attribute, what the recipe has and what the compiled one has."""

    group: str
    what: str
    here: str
    there: str

    def __str__(self) -> str:
        return f"{self.what} is {short(self.here)}; compiled, it is {short(self.there)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """An existing recipe of `package` and the compiled one, which stand for `count` recipes."""

    package: str
    path: Path
    count: int
    here: Evaluation
    there: Evaluation


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceCause:
    """What makes `count` recipes of a package differ from the compiled ones: the differences by path."""

    package: str
    count: int
    by_path: Mapping[Path, tuple[Difference, ...]]

    @property
    def path(self) -> Path:
        """The first recipe."""
        return next(iter(self.by_path))

    def __str__(self) -> str:
        what = ", ".join(dict.fromkeys(one.what for several in self.by_path.values() for one in several))
        first = self.by_path[self.path][0]
        verb = "differ" if self.count > 1 else "differs"
        return f"{_recipes(self.count)} of {self.package} {verb} in {first.group} ({what}): {first}"


def causes(pairs: Sequence[Pair]) -> tuple[int, list[DifferenceCause]]:
    """How many recipes are equal to the compiled ones, and what makes the others differ, by package and group."""
    packages = {pair.package for pair in pairs}
    found: dict[tuple[str, str], dict[int, list[Difference]]] = {}
    for index, pair in enumerate(pairs):
        for one in differences(pair.here, pair.there):
            package = pair.package if len(packages) <= MOST_PACKAGES else f"{len(packages)} packages"
            found.setdefault((package, one.group), {}).setdefault(index, []).append(one)
    equal = sum(pair.count for pair in pairs if pair.here.drv_path == pair.there.drv_path)
    return equal, [
        DifferenceCause(
            package=package,
            count=sum(pairs[index].count for index in differing),
            by_path={pairs[index].path: tuple(several) for index, several in differing.items()},
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
    """A finding for each cause for which recipes cannot be evaluated, and for those that were not tried."""
    counts = {(alike[0].branch, alike[0].name): len(alike) for alike in facts.kinds.values()}
    causes: dict[str, list[tuple[int, Finding]]] = {}
    for place, finding in facts.opaque.items():
        cause = _NAME_OR_NUMBER.sub("", finding.message)
        causes.setdefault(cause, []).append((counts[place], finding))
    found = [
        Finding(
            place=all_[0][1].place,
            code=Code.RECIPE_OPAQUE,
            message=f"{_recipes(sum(count for count, _ in all_))} cannot be evaluated here: {all_[0][1].message}",
        )
        for all_ in causes.values()
    ]
    if facts.left:
        message = (
            f"{_recipes(sum(map(len, facts.left)))} of {counted(len(facts.left), 'kind')} (branch, package, toolkit, "
            f"GPU or CPU) were not evaluated, after {MOST_EVALUATED} others; what they alone would tell stays open"
        )
        found.append(Finding(place=Place(file=str(facts.left[0][0].path)), code=Code.RECIPE_OPAQUE, message=message))
    return found


def as_compiled(spec: Spec, branch: str) -> Spec:
    """`spec` with compiled recipes for each package of `branch` whose versions and nixpkgs it states."""
    on = spec.branches[branch]
    known = {one.attribute for one in bundled_spec().packages.values()}
    pinned = all(pin.nixpkgs for pin in (on, *on.toolkits.values()))
    return replace(
        spec,
        packages={
            name: replace(one, recipes=(("*", RecipeKind.COMPILED),))
            if pinned and one.attribute in known and {name, *one.needs} <= on.versions.keys()
            else one
            for name, one in spec.packages.items()
        },
    )


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
        done, _ = evaluate(Path(folder), list(paths)) if paths else ((), ())
        return {paths[one.path]: one for one in done}


# What differs.


def differences(here: Evaluation, there: Evaluation) -> list[Difference]:
    """What differs between an existing recipe and the compiled one, by group; nothing where both mean the same."""
    if here.drv_path == there.drv_path:
        return []
    found = [row for row in _rows(here, there) if not _means_the_same(row)]
    if here.torch and there.torch:
        nested = differences(here.torch, there.torch)
        found += [replace(row, what=f"torch: {row.what}") for row in nested if row.group not in {"pin", "meta"}]
    if not found and _written(here) == _written(there):
        found.append(Difference(group="inputs", what="derivation", here=here.drv_path, there=there.drv_path))
    return found


def _written(one: Evaluation) -> Evaluation:
    """An evaluation without where it is from and what it is built with."""
    return replace(one, path=Path(), drv_path="", torch=None, places={}, imports=(), reads=(), fetched=())


def _rows(here: Evaluation, there: Evaluation) -> Iterator[Difference]:
    """Each attribute whose text differs."""
    for group, of in _GROUPS.items():
        mine, theirs = of(here), of(there)
        for what in dict.fromkeys([*mine, *theirs]):
            one, other = mine.get(what) or "", theirs.get(what) or ""
            if one != other:
                yield Difference(group=group, what=what, here=str(one), there=str(other))


def _means_the_same(row: Difference) -> bool:
    """Whether an attribute differs in its text alone."""
    what = row.what
    if not row.there and row.here and (what.startswith("passthru.") or (row.group == "exports" and what.isupper())):
        return True  # nothing asks for it in the build
    if what == "passthru.gpuArch":
        return _digits(row.here) == _digits(row.there)
    return False


def _digits(text: str) -> str:
    return re.sub(r"\D", "", text)


def _pin(one: Evaluation) -> dict[str, object]:
    config = {f"config.{key}": value for key, value in one.config.items()} if one.pin else {}
    overlaid = {
        "overlay of Python packages" if _PYTHON_SET.fullmatch(key) else f"overlay of {key}": value
        for key, value in one.overlaid.items()
    }
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
    found["changed packages"] = " ".join(sorted(one.changes))
    found |= {name: _packages(one, one.attributes[name]) for name in _INPUTS if name in one.attributes}
    return found | {"patches": " ".join(patch.name for patch in one.patches)}


def _packages(one: Evaluation, values: object) -> object:
    """A list of packages by name, each once; the torch that a package is built with is "torch"."""
    if not isinstance(values, list):
        return values
    torches = {one.torch.drv_path} if one.torch else set()
    shown = (
        "torch" if value.get("derivation") in torches else value.get("name") or value
        for value in (value if isinstance(value, Mapping) else {"name": value} for value in values)
    )
    return " ".join(dict.fromkeys(map(str, shown)))


def _exports(one: Evaluation) -> dict[str, object]:
    exports: dict[str, object] = {name: value for name, value in one.exports.items() if name not in one.flags}
    ninja = [flag for flag in one.ninja_flags if flag != f"-j{one.max_jobs}"]  # MAX_JOBS says the same
    return exports | {"cmakeFlags": " ".join(_in_effect(one.cmake_flags)), "ninjaFlags": " ".join(ninja)}


def _in_effect(flags: Sequence[str]) -> list[str]:
    """CMake's flags without an order: of several definitions of a variable, the last counts."""
    last = {flag.partition("=")[0].partition(":")[0] if flag.startswith("-D") else flag: flag for flag in flags}
    return sorted(last.values())


def _phases(one: Evaluation) -> dict[str, object]:
    return {phase: _commands(one.attributes[phase]) for phase in PHASES if phase in one.attributes}


def _commands(script: object) -> str:
    """The lines of a script that do something: neither comments nor messages, nor checks of what other values say."""
    lines = (line.strip() for line in str(script).splitlines())
    return "\n".join(line for line in lines if line and not line.startswith(("#", "echo ", f"{ARRIVED} ")))


def _meta(one: Evaluation) -> dict[str, object]:
    passthru = {f"passthru.{key}": value for key, value in one.passthru.items()}
    texts = {"description": one.description, "longDescription": one.long_description}
    required = set(one.required_system_features)
    if one.package == "torch" and "requiredSystemFeatures" not in one.sets:
        required.add("big-parallel")  # nixpkgs' own
    listed = {"platforms": " ".join(sorted(one.platforms)), "requiredSystemFeatures": " ".join(sorted(required))}
    return {"pname": one.pname, **listed, **texts, **passthru}


_GROUPS: Mapping[str, Callable[[Evaluation], Mapping[str, object]]] = {
    "pin": _pin,
    "flags": _flags,
    "inputs": _inputs,
    "exports": _exports,
    "phases": _phases,
    "meta": _meta,
}


def short(text: str) -> str:
    """A text on one line, cut after 80 characters."""
    line = " ".join(text.split()) or "not set"
    return line if len(line) <= 80 else f"{line[:79]}…"
