"""How existing recipes differ from those that the spec would compile to.

Of each kind of recipe, one is compared. It is *equal* if the compiled recipe is the same derivation, *different* if it
is not, with what differs in groups, or *opaque* if it cannot be evaluated here. There is one finding for each cause,
with the number of recipes that it stands for.

Two texts with one meaning are no difference: flags in another order, `gpuArch` in another notation, another form of
overlay, further variables that the build exports.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ci_compiler.adoption.causes import Cause
from ci_compiler.adoption.evaluation import Evaluation
from ci_compiler.adoption.evaluator import evaluate, written
from ci_compiler.adoption.facts import MOST_EVALUATED, FleetFacts
from ci_compiler.adoption.names import Row
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, about
from ci_compiler.hardware.families import DEFAULT, nixpkgs
from ci_compiler.hardware.features import UnknownFlagError, features
from ci_compiler.plan.rules import Judged
from ci_compiler.recipes.proof import ARRIVED
from ci_compiler.recipes.render import recipe
from ci_compiler.recipes.shell_variables import PHASES
from ci_compiler.spec.build import bundled_spec
from ci_compiler.spec.model import Spec
from ci_compiler.spec.packages import RecipeKind
from ci_compiler.units import counted, grouped

_OF_THE_FILE = {"pin", "meta"}
"""The groups in which a nested torch does not differ by itself."""

MOST_PACKAGES = 10
"""The packages from which on findings tell no packages apart."""

_NAME_OR_NUMBER = re.compile(r"/\S+|'[^']*'|\b[0-9a-f]{32,}\b|\d+")
_PHASE = re.compile(r"(pre|post)[A-Z]\w*|\w+Phase")
_PYTHON_SET = re.compile(r"pythonPackagesExtensions|python3\d*(?:Packages)?")
_INPUTS = ("buildInputs", "nativeBuildInputs", "propagatedBuildInputs", "depsBuildBuild", "patches")


class Difference(NamedTuple):
    """Something that differs: the group, the attribute, what the recipe has and what the compiled one has."""

    group: str
    attribute: str
    own: str
    compiled: str

    def __str__(self) -> str:
        return f"{self.attribute} is {short(self.own)}; compiled, it is {short(self.compiled)}"


class Pair(NamedTuple):
    """An existing recipe of `package` and the compiled one, which stand for `recipes` of them."""

    package: str
    path: Path
    own: Evaluation
    compiled: Evaluation
    recipes: int = 1


def causes(pairs: Sequence[Pair]) -> tuple[int, tuple[Cause, ...]]:
    """How many recipes are equal to the compiled ones, and what makes the others differ, by package and group."""
    packages = {pair.package for pair in pairs}
    differing: dict[tuple[str, str], list[tuple[Pair, list[Difference]]]] = {}
    for pair in pairs:
        package = pair.package if len(packages) <= MOST_PACKAGES else f"{len(packages)} packages"
        for group, several in grouped(differences(pair.own, pair.compiled), lambda row: row.group).items():
            differing.setdefault((package, group), []).append((pair, several))
    equal = sum(pair.recipes for pair in pairs if pair.own.drv_path == pair.compiled.drv_path)
    return equal, tuple(_cause(package, several) for (package, _), several in differing.items())


def _cause(package: str, differing: Sequence[tuple[Pair, Sequence[Difference]]]) -> Cause:
    """What makes recipes of a package differ from the compiled ones in one group."""
    count, first = sum(pair.recipes for pair, _ in differing), differing[0][1][0]
    attributes = ", ".join(dict.fromkeys(row.attribute for _, rows in differing for row in rows))
    verb = "differ" if count > 1 else "differs"
    return Cause(
        code=Code.RECIPE_DIFFERS,
        message=f"{counted(count, 'recipe')} of {package} {verb} in {first.group} ({attributes}): {first}",
        findings=tuple(about(pair.path, Code.RECIPE_DIFFERS, "; ".join(map(str, rows))) for pair, rows in differing),
    )


def compared(facts: FleetFacts, spec: Spec, judged: Judged) -> tuple[int, list[Finding]]:
    """How many recipes are equal to what `spec` compiles, and a finding for each group in which others differ."""
    alike = {rows[0].place: rows for rows in facts.kinds.values()}
    rows = [rows[0] for place, rows in alike.items() if place in facts.evaluations]
    pairs = [
        Pair(row.package, row.path, facts.evaluations[row.place], compiled, len(alike[row.place]))
        for row, compiled in compiled_evaluations(spec, judged, rows)
    ]
    equal, found = causes(pairs)
    return equal, [cause.line for cause in found]


def opaque(facts: FleetFacts) -> list[Finding]:
    """A finding for each cause for which recipes cannot be evaluated, and for those that were not tried."""
    counts = {alike[0].place: len(alike) for alike in facts.kinds.values()}
    same = grouped(facts.opaque.items(), lambda item: _NAME_OR_NUMBER.sub("", item[1].message))
    findings = []
    for failures in same.values():
        count, first = sum(counts[place] for place, _ in failures), failures[0][1]
        message = f"{counted(count, 'recipe')} cannot be evaluated here: {first.message}"
        findings.append(about(first.place, Code.RECIPE_OPAQUE, message))
    if facts.left:
        message = (
            f"{counted(sum(map(len, facts.left)), 'recipe')} of {counted(len(facts.left), 'kind')} (branch, package, "
            f"toolkit, GPU or CPU) were not evaluated, after {MOST_EVALUATED} others; what they alone would tell stays "
            "open"
        )
        findings.append(about(facts.left[0][0].path, Code.RECIPE_OPAQUE, message))
    return findings


def as_compiled(spec: Spec, branch: str) -> Spec:
    """`spec` with compiled recipes for each package of `branch` whose versions and nixpkgs it states."""
    on = spec.branches[branch]
    known = {package.attribute for package in bundled_spec().packages.values()}
    pinned = all(pin.nixpkgs for pin in (on, *on.toolkits.values()))
    return replace(
        spec,
        packages={
            name: replace(package, recipes=(("*", RecipeKind.COMPILED),))
            if pinned and package.attribute in known and {name, *package.needs} <= on.versions.keys()
            else package
            for name, package in spec.packages.items()
        },
    )


def compiled_evaluations(spec: Spec, judged: Judged, rows: Iterable[Row]) -> list[tuple[Row, Evaluation]]:
    """`rows`, as far as the spec compiles to recipes in their place, with what these evaluate to."""
    cells = {(cell.branch, variant.name): (cell, variant) for cell in judged.cells for variant in cell.variants}
    files: dict[str, str] = {}
    paths: dict[str, Row] = {}
    for row in rows:
        needs, folder = spec.packages[row.package].needs, row.branch.replace("/", "-")
        compiles = row.place in cells and not row.listed
        if compiles and spec.branches[row.branch].versions.keys() >= {row.package, *needs}:
            cell, own = cells[row.place]
            built = [variant for variant in cell.variants if variant == own or variant.package in needs]
            files |= {f"{folder}/{variant.name}.nix": recipe(spec, cell, variant) for variant in built}
            paths[f"{folder}/{row.name}.nix"] = row
    with written(files) as root:
        evaluations, _ = evaluate(root, [root / path for path in paths]) if paths else ((), ())
    compiled = {evaluation.path: evaluation for evaluation in evaluations}
    return [(row, compiled[root / path]) for path, row in paths.items() if root / path in compiled]


# What differs.


def differences(own: Evaluation, compiled: Evaluation) -> list[Difference]:
    """What differs between an existing recipe and the compiled one, by group; nothing where both mean the same."""
    if own.drv_path == compiled.drv_path:
        return []
    found = [row for row in _rows(own, compiled) if not _means_the_same(row)]
    if own.torch and compiled.torch:
        found += _inside("torch", own.torch, compiled.torch)
    theirs = {(node.package, node.pname): node for node in compiled.inner}
    for node in own.inner:
        if counterpart := theirs.get((node.package, node.pname)):
            found += _inside(node.pname, node, counterpart)
    if not found and _written(own) == _written(compiled):
        found.append(Difference("inputs", "derivation", own.drv_path, compiled.drv_path))
    return found


def _inside(name: str, own: Evaluation, compiled: Evaluation) -> list[Difference]:
    """The differences of a package inside two recipes, but for those of the files."""
    rows = differences(own, compiled)
    return [row._replace(attribute=f"{name}: {row.attribute}") for row in rows if row.group not in _OF_THE_FILE]


def _written(recipe: Evaluation) -> Evaluation:
    """An evaluation without where it is from and what it is built with."""
    return replace(
        recipe, path=Path(), drv_path="", torch=None, inner=(), torches=(), places={}, imports=(), reads=(), fetched=()
    )


def _rows(own: Evaluation, compiled: Evaluation) -> Iterator[Difference]:
    """Each attribute whose text differs."""
    for group, attributes_of in _GROUPS.items():
        mine, theirs = attributes_of(own), attributes_of(compiled)
        for attribute in dict.fromkeys([*mine, *theirs]):
            values = (mine.get(attribute) or "", theirs.get(attribute) or "")
            if values[0] != values[1]:
                yield Difference(group, attribute, *map(str, values))


def written_values(recipe: Evaluation) -> dict[str, object]:
    """What a package sets, by attribute, each flag alone, with what tells one source, patch or release from another."""
    found = {attribute: value for of in _GROUPS.values() for attribute, value in of(recipe).items()}
    found |= {name: _commands(value) for name, value in recipe.attributes.items() if name not in (*PHASES, *_INPUTS)}
    found |= {"cmakeFlags": ""} | {flag.partition("=")[0].partition(":")[0]: flag for flag in recipe.cmake_flags}
    for name, words in recipe.flags.items():
        found |= {name: ""} | {f"{word} in {name}": "set" for word in map(_alike, words)}
    found |= {f"source {source.name}": f"{source.url} {source.rev} {source.hash}" for source in recipe.sources}
    found |= {f"patch {patch.name}": f"{patch.url} {patch.hash}" for patch in recipe.patches}
    found |= {f"override.{name}": value for name, value in recipe.override.items()}
    found |= {"attribute": recipe.attribute, "meta.broken": recipe.meta.get("broken") or ""}
    found |= {
        "inside": " ".join(sorted(node.package if node.package != "other" else node.pname for node in recipe.inner))
    }
    return found | ({"version": recipe.version} if "version" in recipe.sets else {})


def _means_the_same(row: Difference) -> bool:
    """Whether an attribute differs in its text alone."""
    if row.group == "phases" and (row.attribute not in PHASES or row.attribute == "preConfigure"):
        return set(row.own.split("\n")) <= {"", *row.compiled.split("\n")}  # what the compiler adds proves the result
    passed_on = row.attribute.startswith("passthru.") or (row.group == "exports" and row.attribute.isupper())
    if passed_on and row.own and not row.compiled:
        return True  # nothing asks for it in the build
    return row.attribute == "passthru.gpuArch" and _digits(row.own) == _digits(row.compiled)


def _digits(text: str) -> str:
    return re.sub(r"\D", "", text)


def _pin(recipe: Evaluation) -> dict[str, object]:
    config = {f"config.{key}": value for key, value in recipe.config.items()} if recipe.pin else {}
    overlaid = {
        "overlay of Python packages" if _PYTHON_SET.fullmatch(key) else f"overlay of {key}": value
        for key, value in recipe.overlaid.items()
    }
    kits = {nixpkgs(DEFAULT)["packages"]: recipe.toolkit_attribute}
    return {"nixpkgs": recipe.pin, "python": recipe.python} | kits | config | overlaid


def _flags(recipe: Evaluation) -> dict[str, object]:
    found: dict[str, object] = {name: _turned_on(words) for name, words in recipe.flags.items()}
    return found | {"gpuTargets": " ".join(recipe.gpu_targets)}


def _alike(flag: str) -> str:
    """A flag, in one spelling for each set of instructions that `-march` chooses."""
    return f"-march={_turned_on([flag])}" if flag.startswith("-march=") else flag


def _turned_on(flags: Sequence[str]) -> str:
    """Flags by what they do: the CPU features that they turn on, and all others as they are."""
    chosen = [flag for flag in flags if flag.startswith("-m")]
    try:
        names = sorted(features(chosen))
    except UnknownFlagError:
        return " ".join(sorted(flags))
    return " ".join([*names, *sorted(flag for flag in flags if flag not in chosen)])


def _inputs(recipe: Evaluation) -> dict[str, object]:
    found: dict[str, object] = {"version": recipe.version if "version" in recipe.sets else ""}
    found["source"] = " ".join(
        " ".join(filter(None, (f"{src.owner}/{src.repo}" if src.owner else src.url, src.rev, src.hash)))
        for src in recipe.sources
    )
    found["changed packages"] = " ".join(sorted(recipe.changes))
    found |= {name: _packages(recipe, recipe.attributes[name]) for name in _INPUTS if name in recipe.attributes}
    return found | {"patches": " ".join(f"{patch.name} {patch.hash}".strip() for patch in recipe.patches)}


def _packages(recipe: Evaluation, values: object) -> object:
    """A list of packages by name, each once; the torch that a package is built with is "torch"."""
    if not isinstance(values, list):
        return values
    torches = {recipe.torch.drv_path} if recipe.torch else set()
    shown = (
        "torch" if value.get("derivation") in torches else value.get("name") or value
        for value in (value if isinstance(value, Mapping) else {"name": value} for value in values)
    )
    return " ".join(dict.fromkeys(map(str, shown)))


def _exports(recipe: Evaluation) -> dict[str, object]:
    exports: dict[str, object] = {name: value for name, value in recipe.exports.items() if name not in recipe.flags}
    ninja = [flag for flag in recipe.ninja_flags if flag != f"-j{recipe.max_jobs}"]  # MAX_JOBS says the same
    return exports | {"cmakeFlags": " ".join(_in_effect(recipe.cmake_flags)), "ninjaFlags": " ".join(ninja)}


def _in_effect(flags: Sequence[str]) -> list[str]:
    """CMake's flags without an order: of several definitions of a variable, the last counts."""
    last = {flag.partition("=")[0].partition(":")[0] if flag.startswith("-D") else flag: flag for flag in flags}
    return sorted(last.values())


def _phases(recipe: Evaluation) -> dict[str, object]:
    found: dict[str, object] = {
        name: _commands(script) for name, script in recipe.attributes.items() if _is_phase(name)
    }
    lines = _commands(recipe.pre_configure).split("\n")
    return found | {"preConfigure": "\n".join(line for line in lines if not line.startswith("export "))}


def _is_phase(name: str) -> bool:
    """Whether an attribute is a script of the build: a phase, or a hook before or after a phase."""
    return name in PHASES or _PHASE.fullmatch(name) is not None


def _others(recipe: Evaluation) -> dict[str, object]:
    """The arguments of `override` that are plain values (a set of packages is `<NAME>`), and attributes of no group."""
    found: dict[str, object] = {
        f"override.{name}": value
        for name, value in recipe.override.items()
        if name != "gpuTargets" and isinstance(value, bool | int | str | list) and not str(value).startswith("<")
    }
    left = (name for name in recipe.attributes if not (_is_phase(name) or name in _INPUTS or name.isupper()))
    return found | {name: _packages(recipe, recipe.attributes[name]) for name in left}


def _commands(script: object) -> str:
    """The lines of a script that do something: neither comments nor messages, nor checks of what other values say."""
    lines = (line.strip() for line in str(script).splitlines())
    return "\n".join(line for line in lines if line and not line.startswith(("#", "echo ", f"{ARRIVED} ")))


def _meta(recipe: Evaluation) -> dict[str, object]:
    passthru = {f"passthru.{key}": value for key, value in recipe.passthru.items()}
    texts = {"description": recipe.description, "longDescription": recipe.long_description}
    required = set(recipe.required_system_features)
    if recipe.package == "torch" and "requiredSystemFeatures" not in recipe.sets:
        required.add("big-parallel")  # nixpkgs' own
    listed = {"platforms": " ".join(sorted(recipe.platforms)), "requiredSystemFeatures": " ".join(sorted(required))}
    return {"pname": recipe.pname, **listed, **texts, **passthru}


_GROUPS: Mapping[str, Callable[[Evaluation], Mapping[str, object]]] = {
    "pin": _pin,
    "flags": _flags,
    "inputs": _inputs,
    "exports": _exports,
    "phases": _phases,
    "attributes": _others,
    "meta": _meta,
}


def short(text: str) -> str:
    """A text on one line, cut after 80 characters."""
    line = " ".join(text.split()) or "not set"
    return line if len(line) <= 80 else f"{line[:79]}…"
