"""What the stand-in for nixpkgs knows of a recipe's package, and what it does not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ci_compiler.adoption.evaluation import Evaluation
from ci_compiler.units import counted

_WORDS = {"release": "version", "arguments": "arguments"}


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
