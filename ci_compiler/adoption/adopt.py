"""A spec made from existing recipes: the reverse of compiling.

    checkouts  ->  rows     ->  facts       ->  fleet   ->  text
    folders        by name      some, by Nix    matrix      YAML, compiled back

1. `checkouts`: the branch of each folder, and its recipes.
2. `names`, `guesses`: the variant that each recipe's name tells, and hardware that the tables lack.
3. `facts`: versions, pins and needs, from recipes that are evaluated; what cannot be evaluated stays open.
4. `fleet`, `axes`, `exclusions`: the variants as products with exceptions.
5. `spec_text`: the YAML. It is compiled, and must give the same names.
6. `comparison`: how the recipes differ from those that the spec would compile to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ci_compiler.adoption.checkouts import read_checkouts
from ci_compiler.adoption.comparison import compared, opaque
from ci_compiler.adoption.evaluator import text_of
from ci_compiler.adoption.exclusions import Key
from ci_compiler.adoption.facts import learn
from ci_compiler.adoption.fleet import Fleet, spec_text
from ci_compiler.adoption.guesses import guessed
from ci_compiler.adoption.known_pins import KnownPins, known_pins
from ci_compiler.adoption.names import Row, rows_of
from ci_compiler.adoption.reads import reads_of
from ci_compiler.adoption.spec_forms import fits
from ci_compiler.codes import Code, Severity
from ci_compiler.errors import Finding, InputError, Place
from ci_compiler.files.drift import marked
from ci_compiler.hardware import tables
from ci_compiler.plan.routing import route
from ci_compiler.plan.rules import Judged, errors_among, judge
from ci_compiler.recipes.render import recipes
from ci_compiler.spec.build import bundled_spec, parse_spec
from ci_compiler.spec.model import Spec
from ci_compiler.spec.packages import Pin, RecipeKind
from ci_compiler.variant import VariantName, recipe_path

SHOWN = ".github/ci-matrix.yaml"
MANY = 500
"""The recipes from which on the progress is reported."""
_ROUNDS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """A spec, its text and its variants, made from recipes whose names are `read`, by branch.

    `findings` say what is odd. `equal` is the number of recipes that are equal to what the spec would compile.
    """

    text: str
    spec: Spec
    judged: Judged
    findings: tuple[Finding, ...]
    read: Mapping[str, frozenset[str]]
    equal: int

    @property
    def names(self) -> Mapping[str, frozenset[str]]:
        """The variants' names by branch."""
        return names_of(self.spec, self.judged)

    @property
    def untested(self) -> int:
        """The variants of which no pool runs a test."""
        routes, _ = route(self.spec, self.judged.cells)
        pairs = zip(self.judged.cells, routes, strict=True)
        return sum(len(cell.variants) for cell, one in pairs if not any(stage.is_test for stage in one.pools))

    @property
    def complete(self) -> bool:
        """Whether the spec has every recipe and no other, and nothing is an error."""
        return self.names == self.read and not any(finding.severity is Severity.ERROR for finding in self.findings)


def names_of(spec: Spec, judged: Judged) -> dict[str, frozenset[str]]:
    """The variants' names by branch."""
    found: dict[str, set[str]] = {branch: set() for branch in spec.branches}
    for cell in judged.cells:
        found[cell.branch].update(variant.name for variant in cell.variants)
    return {branch: frozenset(names) for branch, names in found.items()}


def adopt(folders: Sequence[Path], *, shown: str = SHOWN, progress: Callable[[str], None] | None = None) -> Adopted:
    """The spec of the recipes in `folders`, each a checkout of one branch.

    `shown` is the path that the spec will have. For `MANY` recipes or more, `progress` is called with what is being
    done. Raises InputError if a folder has no recipes.
    """
    checkouts = read_checkouts(folders)
    count = sum(len(one.recipes) for one in checkouts)
    if progress is None or count < MANY:
        progress = _silent
    progress(f"{count} recipes; reading their names")
    known = guessed(checkouts, tables())
    rows, findings = _once(rows_of(checkouts, known.hardware))
    progress("evaluating one recipe of each kind")
    pins = known_pins()
    facts = learn(rows, checkouts, known.hardware, pins)
    fleet = Fleet(rows=rows, facts=facts, reads=reads_of(list(facts.kinds.values()), checkouts), guessed=known)
    progress("looking for a short matrix")
    text, spec, judged = _compiled(fleet, shown)
    progress("comparing recipes with what the spec would compile")
    equal, differ = _differences(fleet, spec, pins)
    findings += [*differ, *opaque(facts)]
    findings = sorted(findings, key=lambda finding: (finding.place, finding.code, finding.message))
    read: dict[str, set[str]] = {}
    for row in rows:
        read.setdefault(row.branch, set()).add(row.name)
    return Adopted(
        text=text,
        spec=spec,
        judged=judged,
        findings=tuple(findings),
        read={branch: frozenset(names) for branch, names in read.items()},
        equal=equal,
    )


def _silent(_: str) -> None:
    """Reports nothing."""


def _once(rows: Sequence[Row]) -> tuple[list[Row], list[Finding]]:
    """The rows that a spec can hold, each name once a branch, and a finding for each other recipe."""
    kept: dict[tuple[str, str], Row] = {}
    findings: list[Finding] = []
    for row in rows:
        if not fits("word", row.name):
            message = f"{row.name!r} is not a name that a spec can hold (letters, digits, . _ and -); it is left out"
            findings.append(Finding(place=Place(file=str(row.path)), code=Code.WRONG_NAME, message=message))
            continue
        first = kept.setdefault((row.branch, row.name), row)
        if first is not row:
            message = f"{row.branch} has {row.name} twice; {first.path} is used"
            place = Place(file=str(row.path))
            findings.append(Finding(place=place, code=Code.DUPLICATE_RECIPE, message=message, tolerated=True))
    return list(kept.values()), findings


# The text, compiled back.


def _compiled(fleet: Fleet, shown: str) -> tuple[str, Spec, Judged]:
    """The spec's text and plan: packages whose recipes the spec compiles to, byte by byte, are compiled."""
    candidates = frozenset(name for name, rows in fleet.packages.items() if all(_is_marked(row) for row in rows))
    if candidates:
        try:
            _, spec, judged = _exact(fleet, candidates, shown)
            candidates = frozenset(name for name in candidates if _equal(fleet.packages[name], spec, judged))
        except InputError:
            candidates = frozenset()
    return _exact(fleet, candidates, shown)


_OF_VERSIONS = {
    Code.GPU_NEEDS_NEWER_TORCH,
    Code.RELEASE_MISMATCH,
    Code.TOOLKIT_NOT_OF_TORCH,
    Code.VERSION_NOT_OF_PIN,
}
"""The errors that guessed versions cause, which do not matter where recipes are only compared."""


def _differences(fleet: Fleet, spec: Spec, pins: KnownPins) -> tuple[int, list[Finding]]:
    """How many recipes are equal to compiled ones, and how those of packages that a spec can compile differ."""
    attributes = {one.attribute for one in bundled_spec().packages.values()}
    own = {name for name in fleet.packages if spec.packages[name].may_be(RecipeKind.OWN)}
    known = frozenset(name for name in own if spec.packages[name].attribute in attributes)
    if not known:
        return 0, []
    facts = fleet.facts
    kinds = {kind: rows for kind, rows in facts.kinds.items() if rows[0].package in known}
    placed = {(rows[0].branch, rows[0].cuda) for rows in kinds.values()}
    complete = replace(
        facts,
        versions={(branch, name): "0" for branch in fleet.branches for name in known} | dict(facts.versions),
        pins={place: _complete(facts.pins.get(place, Pin()), pins) for place in placed},
    )
    text = spec_text(replace(fleet, facts=complete), known | (fleet.packages.keys() - own), {})
    try:
        made = _judged(str(text), SHOWN, but=_OF_VERSIONS)
    except InputError:  # not enough is known to compile them
        return 0, []
    return compared(replace(facts, kinds=kinds), *made)


def _complete(pin: Pin, pins: KnownPins) -> Pin:
    return pin if pin.nixpkgs else replace(pin, nixpkgs=pins.newest)


def _is_marked(row: Row) -> bool:
    return not row.listed and marked(text_of(row.path).encode())


def _equal(rows: Sequence[Row], spec: Spec, judged: Judged) -> bool:
    texts = {branch: recipes(spec, judged, branch) for branch in {row.branch for row in rows}}
    return all(texts[row.branch].get(recipe_path(row.name)) == text_of(row.path) for row in rows)


def _exact(fleet: Fleet, compiled: frozenset[str], shown: str) -> tuple[str, Spec, Judged]:
    """The spec's text, the spec and its variants: exactly those that the fleet has recipes of.

    Variants that the patterns for exclusions leave in are excluded by name; recipes that the axes do not give back are
    listed by name, as are all of them where the axes are wrong.
    """
    extra: dict[str, list[Key]] = {}
    for attempt in range(_ROUNDS):
        text = str(spec_text(fleet, compiled, extra))
        try:
            spec, judged = _judged(text, shown)
        except InputError:
            if attempt:
                raise
            fleet = replace(fleet, rows=[replace(row, listed=True) for row in fleet.rows])
            continue
        names = names_of(spec, judged)
        wanted = {branch: {row.name for row in fleet.rows if row.branch == branch} for branch in fleet.branches}
        if all(names[branch] == wanted[branch] for branch in wanted):
            break
        lost = {(branch, name) for branch, all_ in wanted.items() for name in all_ - names[branch]}
        fleet = replace(
            fleet, rows=[replace(row, listed=True) if (row.branch, row.name) in lost else row for row in fleet.rows]
        )
        for key in (_key(branch, name) for branch, all_ in wanted.items() for name in sorted(names[branch] - all_)):
            extra.setdefault(key.package, []).append(key)
    return text, spec, judged


def _key(branch: str, name: str) -> Key:
    """The place of the variant `name` on the axes."""
    said = VariantName.parse(name)
    if said is None:
        message = f"{name} is on the axes, and its name is not a variant's"
        raise RuntimeError(message)
    return Key(
        branch=branch, package=said.package, python=said.python, cuda=said.toolkit, gpu=said.target, isa=said.isa
    )


def _judged(text: str, shown: str, but: Collection[Code] = ()) -> tuple[Spec, Judged]:
    """The spec of `text` and its variants. Raises InputError for errors `but` those with these codes."""
    spec = parse_spec(text.encode(), shown=shown)
    judged = judge(spec)
    if errors := [one for one in errors_among(judged.findings) if one.code not in but]:
        raise InputError(errors)
    return spec, judged
