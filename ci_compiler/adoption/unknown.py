"""What the stand-in for nixpkgs knows of a recipe's package, and what it does not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ci_compiler.adoption.audit_own import at
from ci_compiler.adoption.evaluation import Evaluation
from ci_compiler.adoption.evaluator import name_of
from ci_compiler.adoption.judged import another_version
from ci_compiler.codes import Code
from ci_compiler.errors import Finding
from ci_compiler.plan.matrix import Cell
from ci_compiler.spec.model import Spec
from ci_compiler.units import counted

_WORDS = {"release": "version", "arguments": "arguments"}


def another_release(spec: Spec, cell: Cell, one: Evaluation) -> Iterator[Finding]:
    """A finding if a recipe of `cell` evaluates to another version than the spec's, where the stand-in knows it."""
    package = next(variant.package for variant in cell.variants if variant.name == name_of(one.path))
    stated = spec.branches[cell.branch].versions.get(package, "")
    for message in another_version(cell.branch, package, stated, "" if "release" in one.unknown else one.version):
        yield at(one, "version", Code.EVALUATION_DIFFERS, message)


def notes(found: Iterable[Evaluation]) -> Iterator[str]:
    """What was not checked in how many recipes, for each package and nixpkgs that the stand-in does not know."""
    counts: dict[tuple[str, str, tuple[str, ...]], int] = {}
    for one in found:
        for part in filter(None, (one, one.torch)):
            if part.unknown:
                key = (part.pin, part.attribute.rpartition(".")[2], part.unknown)
                counts[key] = counts.get(key, 0) + 1
    for (pin, attribute, unknown), count in sorted(counts.items()):
        what = " and ".join(_WORDS[word] for word in unknown)
        where = f"nixpkgs {pin}" if pin else "the nixpkgs that recipes are called with"
        yield (
            f"not checked in {counted(count, 'recipe')}: the {what} of {attribute} in {where}, which "
            f"are not known here; `--nixpkgs real` evaluates with it"
        )
