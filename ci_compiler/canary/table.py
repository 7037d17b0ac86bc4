"""The result of a canary as a Markdown table, and what such tables mean for this version.

The table has the facts that decided, so that a reader judges them by its own register: the one of its version.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ci_compiler import __version__
from ci_compiler.canary.assumptions import FEATURES, Assumption, Verdict, assumptions, complete, plain
from ci_compiler.units import markdown_table

VERSIONS = ("runner", "os", "nix", "flox")
"""The facts of the job `machine` that are versions, in the order in which they are shown."""

_HEAD = re.compile(
    r"ci-compiler `(?P<version>[\w.+!-]{1,40})` on a machine that is `(?P<kind>[\w.+-]{1,40})`", re.ASCII
)
_ROW = re.compile(
    r"\| *+`(?P<name>[a-z0-9-]{1,60})` *+\| *+(?P<verdict>held|broken|not tried) *+\|(?P<evidence>[^|]*+)\|"
)
_FACT = re.compile(r"(?<![a-z-])(?P<name>[a-z-]+\.[a-z-]+)=(?P<value>[A-Za-z0-9._+-]+)")
"""Patterns that take a time in proportion to the text, which anybody may have written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A result as it was read: the version that wrote it, the names of its rows, and its facts."""

    version: str
    kind: str
    names: frozenset[str]
    facts: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A feature with the names of the assumptions for it, by verdict."""

    name: str
    broken: tuple[str, ...]
    untried: tuple[str, ...]

    def __str__(self) -> str:
        if self.broken:
            return f"not safe: {', '.join(self.broken)}"
        more = f" and {len(self.untried) - 3} more" if len(self.untried) > 3 else ""
        return f"not known: {', '.join(self.untried[:3])}{more} not tried" if self.untried else "safe"


def written_table(found: Mapping[str, str]) -> str:
    """The table of the facts `found`: each assumption with its verdict and its evidence, and the versions."""
    facts = complete({name: plain(value) for name, value in found.items()})
    rows = [(f"`{entry.name}`", entry.verdict(facts), _shown(entry, facts)) for entry in assumptions().values()]
    versions = "; ".join(f"{name} `{facts.get(f'machine.{name}-version', 'none')}`" for name in VERSIONS)
    head = f"ci-compiler `{__version__}` on a machine that is `{facts.get('machine.kind', 'unknown')}`: {versions}"
    return f"{head}\n\n{markdown_table(('assumption', 'result', 'evidence'), rows)}\n"


def _shown(assumption: Assumption, facts: Mapping[str, str]) -> str:
    """The facts that decide about `one`, and what to do if it was not tried."""
    words = " ".join(f"{name}={value}" for name, value in assumption.evidence(facts).items())
    return words if assumption.verdict(facts) is not Verdict.NOT_TRIED else f"{words} (to try it: {assumption.when})"


def read_tables(text: str) -> tuple[Table, ...]:
    """The tables in `text`, each below the line that names its version; rows before the first such line are skipped."""
    heads = list(_HEAD.finditer(text))
    ends = [*(head.start() for head in heads), len(text)][1:]
    return tuple(_read(head, text[head.end() : end]) for head, end in zip(heads, ends, strict=True))


def _read(head: re.Match[str], text: str) -> Table:
    rows = list(_ROW.finditer(text))
    facts = {fact["name"]: fact["value"] for row in rows for fact in _FACT.finditer(row["evidence"])}
    names = frozenset(row["name"] for row in rows)
    return Table(version=head["version"], kind=head["kind"], names=names, facts=facts)


def verdicts(tables: Sequence[Table]) -> dict[str, Verdict]:
    """The verdict on each assumption of this version: broken if one table says so, else held if one does."""
    found = {name: [assumption.verdict(table.facts) for table in tables] for name, assumption in assumptions().items()}
    worst = (Verdict.BROKEN, Verdict.HELD, Verdict.NOT_TRIED)
    return {name: min(several, key=worst.index) for name, several in found.items()}


def features(found: Mapping[str, Verdict], used: Collection[str] = FEATURES) -> Iterator[Feature]:
    """What the verdicts `found` mean for each feature, where only the `used` ones are relied on."""
    for name in FEATURES:
        needed = [entry.name for entry in relied_on({*used, name}) if name in entry.for_]
        yield Feature(
            name=name,
            broken=tuple(assumption for assumption in needed if found[assumption] is Verdict.BROKEN),
            untried=tuple(assumption for assumption in needed if found[assumption] is Verdict.NOT_TRIED),
        )


def relied_on(used: Collection[str]) -> Iterator[Assumption]:
    """The assumptions of code that works for features among `used` alone."""
    return (entry for entry in assumptions().values() if not entry.unused and set(entry.for_) <= set(used))


def unknown(tables: Iterable[Table]) -> tuple[str, ...]:
    """The assumptions in `tables` that this version does not have, sorted."""
    return tuple(sorted({name for table in tables for name in table.names} - assumptions().keys()))
