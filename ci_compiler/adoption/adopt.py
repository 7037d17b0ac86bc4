"""A spec made from existing recipes: the reverse of compiling.

    checkouts  ->  rows     ->  facts       ->  fleet   ->  text
    folders        by name      some, by Nix    matrix      YAML, compiled back

1. `checkouts`: the branch of each folder, and its recipes.
2. `names`, `opened`, `guesses`: the variant that each recipe's name tells, and hardware that the tables lack.
3. `facts`: versions, pins and needs, from recipes that are evaluated; what cannot be evaluated stays open.
4. `fleet`, `axes`, `exclusions`: the variants as products with exceptions.
5. `spec_text`: the YAML. It is compiled, and must give the same names.
6. `comparison`: how the recipes differ from those that the spec would compile to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path

from ci_compiler.adoption.causes import by_place
from ci_compiler.adoption.checkouts import read_checkouts
from ci_compiler.adoption.comparison import compared, opaque
from ci_compiler.adoption.evaluator import text_of
from ci_compiler.adoption.exclusions import VariantKey
from ci_compiler.adoption.facts import learn
from ci_compiler.adoption.fleet import Fleet, spec_text
from ci_compiler.adoption.guesses import guessed
from ci_compiler.adoption.names import Row, rows_of
from ci_compiler.adoption.opened import closed, opened
from ci_compiler.adoption.reads import reads_of
from ci_compiler.adoption.spec_forms import fits
from ci_compiler.codes import Code, Severity
from ci_compiler.errors import Finding, InputError, about
from ci_compiler.files.drift import marked
from ci_compiler.hardware import tables
from ci_compiler.plan.routing import route
from ci_compiler.plan.rules import Judged, errors_among, judge
from ci_compiler.recipes.render import recipes
from ci_compiler.spec.build import bundled_spec, parse_spec
from ci_compiler.spec.model import Spec
from ci_compiler.spec.packages import Pin, RecipeKind
from ci_compiler.spec.releases import facts as releases
from ci_compiler.units import grouped
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
        return sum(len(cell.variants) for cell, routed in pairs if not any(stage.is_test for stage in routed.pools))

    @property
    def complete(self) -> bool:
        """Whether the spec has every recipe and no other, and nothing is an error."""
        return self.names == self.read and not any(finding.severity is Severity.ERROR for finding in self.findings)


def names_of(spec: Spec, judged: Judged) -> dict[str, frozenset[str]]:
    """The variants' names by branch."""
    names = [(cell.branch, variant.name) for cell in judged.cells for variant in cell.variants]
    return {name: frozenset(variant for branch, variant in names if branch == name) for name in spec.branches}


def adopt(folders: Sequence[Path], *, shown: str = SHOWN, progress: Callable[[str], object] = str) -> Adopted:
    """The spec of the recipes in `folders`, each a checkout of one branch.

    `shown` is the path that the spec will have. For `MANY` recipes or more, `progress` is called with what is being
    done. Raises InputError if a folder has no recipes.
    """
    checkouts = read_checkouts(folders)
    count = sum(len(checkout.recipes) for checkout in checkouts)
    progress = progress if count >= MANY else str
    progress(f"{count} recipes; reading their names")
    known = guessed(checkouts, tables())
    rows, findings = _once(rows_of(checkouts, known.hardware))
    rows, spelled = opened(rows, known.hardware)
    progress("evaluating one recipe of each kind")
    facts = learn(rows, checkouts, known.hardware)
    reads = reads_of(list(facts.kinds.values()), checkouts)
    fleet = Fleet(rows=rows, facts=facts, reads=reads, guessed=known, spelled=spelled)
    progress("looking for a short matrix")
    text, spec, judged = _compiled(fleet, shown)
    progress("comparing recipes with what the spec would compile")
    equal, differ = _differences(fleet, spec)
    by_branch = grouped(rows, attrgetter("branch"))
    return Adopted(
        text=text,
        spec=spec,
        judged=judged,
        findings=tuple(by_place([*findings, *differ, *opaque(facts)])),
        read={branch: frozenset(row.name for row in own) for branch, own in by_branch.items()},
        equal=equal,
    )


def _once(rows: Sequence[Row]) -> tuple[list[Row], list[Finding]]:
    """The rows that a spec can hold, each name once a branch, and a finding for each other recipe."""
    kept: dict[tuple[str, str], Row] = {}
    findings: list[Finding] = []
    for row in rows:
        if not fits("word", row.name):
            message = f"{row.name!r} is not a name that a spec can hold (letters, digits, . _ and -); it is left out"
            findings.append(about(row.path, Code.WRONG_NAME, message))
            continue
        first = kept.setdefault(row.place, row)
        if first is not row:
            message = f"{row.branch} has {row.name} twice; {first.path} is used"
            findings.append(replace(about(row.path, Code.DUPLICATE_RECIPE, message), tolerated=True))
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


def _differences(fleet: Fleet, spec: Spec) -> tuple[int, list[Finding]]:
    """How many recipes are equal to compiled ones, and how those of packages that a spec can compile differ."""
    attributes = {package.attribute for package in bundled_spec().packages.values()}
    own = {name for name in fleet.packages if spec.packages[name].may_be(RecipeKind.OWN)}
    known = frozenset(name for name in own if spec.packages[name].attribute in attributes)
    if not known:
        return 0, []
    facts = fleet.facts
    kinds = {kind: list(map(closed, rows)) for kind, rows in facts.kinds.items() if rows[0].package in known}
    placed = {(rows[0].branch, rows[0].toolkit) for rows in kinds.values()}
    complete = replace(
        facts,
        versions={(branch, name): "0" for branch in fleet.branches for name in known} | dict(facts.versions),
        pins={place: _complete(facts.pins.get(place, Pin())) for place in placed},
    )
    short = replace(fleet, facts=complete, rows=list(map(closed, fleet.rows)))
    text = spec_text(short, known | (fleet.packages.keys() - own), {})
    try:
        made = _judged(str(text), SHOWN, but=_OF_VERSIONS)
    except InputError:  # not enough is known to compile them
        return 0, []
    return compared(replace(facts, kinds=kinds), *made)


def _complete(pin: Pin) -> Pin:
    return pin if pin.nixpkgs else replace(pin, nixpkgs=releases()["newest"])


def _is_marked(row: Row) -> bool:
    return not row.listed and marked(text_of(row.path).encode())


def _equal(rows: Sequence[Row], spec: Spec, judged: Judged) -> bool:
    texts = {branch: recipes(spec, judged, branch) for branch in {row.branch for row in rows}}
    return all(texts[row.branch].get(recipe_path(row.name)) == text_of(row.path) for row in rows)


def _exact(fleet: Fleet, compiled: frozenset[str], shown: str) -> tuple[str, Spec, Judged]:
    """The spec's text, the spec and its variants: exactly those that the fleet has recipes of.

    Variants that the patterns for exclusions leave in are excluded by name; recipes that the axes do not give back are
    listed by name, as are all of them where the axes are wrong. Open matrices are given up first.
    """
    extra: dict[str, list[VariantKey]] = {}
    for _ in range(_ROUNDS):
        text = str(spec_text(fleet, compiled, extra))
        try:
            spec, judged = _judged(text, shown)
        except InputError:
            if all(row.listed for row in fleet.rows):
                raise
            is_open = any(row.values for row in fleet.rows)
            fleet = replace(fleet, rows=[closed(row) if is_open else replace(row, listed=True) for row in fleet.rows])
            continue
        names = names_of(spec, judged)
        wanted = {branch: {row.name for row in fleet.rows if row.branch == branch} for branch in fleet.branches}
        if all(names[branch] == wanted[branch] for branch in wanted):
            break
        rows = [row if row.name in names[row.branch] else replace(row, listed=True, values=()) for row in fleet.rows]
        fleet = replace(fleet, rows=rows)
        for key in (_key(branch, name) for branch, own in wanted.items() for name in sorted(names[branch] - own)):
            extra.setdefault(key.package, []).append(key)
    return text, spec, judged


def _key(branch: str, name: str) -> VariantKey:
    """The place of the variant `name` on the axes."""
    parts = VariantName.parse(name)
    if parts is None:
        message = f"{name} is on the axes, and its name is not a variant's"
        raise RuntimeError(message)
    return VariantKey(branch, parts.package, parts.python, parts.toolkit, parts.target, parts.isa)


def _judged(text: str, shown: str, but: Collection[Code] = ()) -> tuple[Spec, Judged]:
    """The spec of `text` and its variants. Raises InputError for errors `but` those with these codes."""
    spec = parse_spec(text.encode(), shown=shown)
    judged = judge(spec)
    if errors := [error for error in errors_among(judged.findings) if error.code not in but]:
        raise InputError(errors)
    return spec, judged
