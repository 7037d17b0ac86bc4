"""What the names of recipes tell: the variant of each, by name alone.

A name is read by the grammar of variants. What the hardware tables do not know is declared in the spec, as far as the
name or the recipe's text tells enough (`guesses`). A name that fits no axis becomes a variant listed by name, or a
package of its own. No name is lost.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ci_compiler.adoption.checkouts import AdoptedCheckout
from ci_compiler.adoption.evaluator import name_of, text_of
from ci_compiler.adoption.exclusions import VariantKey
from ci_compiler.adoption.spec_forms import fits
from ci_compiler.hardware import ALL, CPU, Hardware
from ci_compiler.hardware.families import FAMILIES, NONE, family_of
from ci_compiler.hardware.pairs import hardware_problems
from ci_compiler.plan.limits import limit
from ci_compiler.plan.sharding import OWN_JOBS, POOL_JOBS
from ci_compiler.stages import stages_that_test
from ci_compiler.variant import VariantName

_PYTHON = re.compile(r"3\.(9|1[0-5])")  # what a spec can hold (`spec.forms.Python`)
_FAMILIES = [family_of(name) for name in FAMILIES if name != NONE]
_NAMED = "|".join(family.name for family in _FAMILIES)
_PREFIXES = "|".join(family.prefix for family in _FAMILIES if family.prefix)
_AXIS = re.compile(
    rf"(?P<package>.+?)-(?:(?:python|py)3?\d|(?:{_NAMED})(?:\d|\b)|(?:{_PREFIXES})_?\d|cpu\b|darwin\b|linux\b|arm64\b"
    r"|aarch64\b|x86)"
)
_SYSTEM = re.compile(r"\b(?:x86_64|aarch64)-(?:linux|darwin)\b")
_DARWIN = re.compile(r"(?:^|-)(?:darwin|macos)(?:-|$)")
ARM = re.compile(r"(?:^|-)(?:arm64|aarch64|armv\d\w*)(?:[.-]|$)")
LONGEST_PACKAGE = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A recipe: its branch, name and file, its package and, unless it is listed by name, its place on the axes.

    `listed`: it fits no axis. `guessed`: only a guess tells its system. `values` are those of a variant of an open
    matrix; `gpu` is its accelerator if the short form has none such.
    """

    branch: str
    name: str
    path: Path
    package: str
    system: str
    python: str = ""
    toolkit: str = ""
    gpu: str = ""
    isa: str = ""
    listed: bool = False
    guessed: bool = False
    values: tuple[tuple[str, str], ...] = ()

    @property
    def family(self) -> str:
        """The family of a variant of an open matrix; '' for any other."""
        return dict(self.values).get("family", "")

    @property
    def place(self) -> tuple[str, str]:
        """Its branch and name."""
        return self.branch, self.name

    @property
    def key(self) -> VariantKey:
        """Its place on the axes."""
        return VariantKey(self.branch, self.package, self.python, self.toolkit, self.gpu, self.isa)

    @property
    def kind(self) -> tuple[str, str, str, str]:
        """What recipes that are written alike share: branch, package, toolkit, kind of GPU."""
        return self.branch, self.package, self.toolkit, self.gpu if self.gpu in {"", CPU, ALL.name} else "gpu"


def rows_of(checkouts: Sequence[AdoptedCheckout], hardware: Hardware) -> list[Row]:
    """A row for each recipe, in the order of `checkouts`; `hardware` includes what is guessed."""
    rows = [_row(checkout.branch, path, hardware) for checkout in checkouts for path in checkout.recipes]
    packages = {row.package for row in rows if not row.listed}
    return _spread(_placed(row, packages) if row.listed else row for row in rows)


_PACKAGE_BYTES = 8_000
"""What the jobs of a package take in `cell.yml`, rounded up: 83 packages without needs take 553 kB."""


def _spread(rows: Iterable[Row]) -> list[Row]:
    """`rows`, with those listed by name that no workflow file could hold.

    These are the rows of cells with more packages than a shard's file has jobs for, and of the packages with the fewest
    recipes beyond as many as `cell.yml` holds.
    """
    found = list(rows)
    tests = [stage for stage in stages_that_test() if not stage.is_optional]
    jobs = (limit("jobs").gate - OWN_JOBS - POOL_JOBS) // (1 + len(tests))
    most = min(jobs, limit("file-bytes").gate // _PACKAGE_BYTES)
    held = Counter(_cell(row) for row in found if not row.listed)
    sizes = Counter(row.package for row in found if not row.listed and held[_cell(row)] <= most)
    kept = {package for package, _ in sizes.most_common(most)}
    return [
        replace(row, listed=True, python="", toolkit="", gpu="", isa="")
        if not row.listed and (row.package not in kept or held[_cell(row)] > most)
        else row
        for row in found
    ]


def _cell(row: Row) -> tuple[str, ...]:
    return row.branch, row.python, row.toolkit, row.gpu, row.isa


def parsed(checkouts: Sequence[AdoptedCheckout]) -> Iterator[tuple[VariantName, Path]]:
    """The recipes whose names have the form of a variant's."""
    for checkout in checkouts:
        for path in checkout.recipes:
            if (parts := VariantName.parse(name_of(path))) is not None:
                yield parts, path


def _row(branch: str, path: Path, hardware: Hardware) -> Row:
    name = name_of(path)
    parts = VariantName.parse(name)
    if parts is None or str(parts) != name or not _known(parts, hardware):
        system, guessed = _system(name, path, hardware)
        return Row(branch=branch, name=name, path=path, package="", system=system, listed=True, guessed=guessed)
    axes = {axis: getattr(parts, axis) for axis in ("package", "python", "isa")}
    axes |= {"toolkit": parts.toolkit, "gpu": parts.target}
    return Row(branch=branch, name=name, path=path, system=hardware.isas[parts.isa].system, **axes)


def _known(parts: VariantName, hardware: Hardware) -> bool:
    """Whether a spec can hold the variant on its axes: its parts are known, and the rules allow it."""
    if not (fits("package-name", parts.package) and _PYTHON.fullmatch(parts.python) and parts.isa in hardware.isas):
        return False
    known = parts.toolkit in hardware.toolkits and parts.target in {ALL.name, *hardware.gpus}
    return parts.target == CPU or (known and possible(hardware, parts.target, parts.toolkit, parts.isa))


def possible(hardware: Hardware, gpu: str, kit: str, isa: str) -> bool:
    """Whether the rules allow the GPU with the toolkit on the ISA's system."""
    if gpu in {CPU, ALL.name}:
        return True
    row, toolkit, system = hardware.gpus[gpu], hardware.toolkits[kit], hardware.isas[isa].system
    return not any(hardware_problems(row, toolkit, system))


def _system(name: str, path: Path, hardware: Hardware) -> tuple[str, bool]:
    """The system that a recipe is for, by its name or text, and whether that is a guess."""
    if _DARWIN.search(name):
        return "aarch64-darwin", False
    if ARM.search(name):
        return "aarch64-linux", False
    systems = set(_SYSTEM.findall(text_of(path)))
    return (
        (systems.pop(), False) if len(systems) == 1 and systems <= hardware.systems.keys() else ("x86_64-linux", True)
    )


def _placed(row: Row, packages: set[str]) -> Row:
    """A listed row with its package: the one that its name begins with, else one of its own."""
    match = _AXIS.match(row.name)
    starts = [package for package in packages if match and row.name.startswith(f"{package}-")]
    package = max(starts, key=len, default=match["package"] if match else row.name)
    if not fits("package-name", package):
        plain = re.sub(r"[^A-Za-z0-9_-]", "-", package).strip("-")
        package = (plain if plain[:1].isalpha() else f"p-{plain}")[:LONGEST_PACKAGE].rstrip("-")
    return replace(row, package=package)
