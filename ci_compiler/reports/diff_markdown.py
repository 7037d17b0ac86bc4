"""A `PlanDifference` as Markdown for the summary of a pull request, with long lists collapsed.

All text from a spec is in code spans, where Markdown, HTML, mentions and references have no effect.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from ci_compiler.reports.diff import ChangeGroup, PlanDifference, Rerouted
from ci_compiler.units import duration, guess, machine_hours, markdown_table

NOTHING = "Nothing changes."
_FEW = 3  # variants that are named instead of counted
_SHOWN_LINES = 12  # of a list that is not collapsed
_SHOWN_NAMES = 1000  # of a collapsed list; the summary of a step is limited to 1 MiB
_SHOWN_TEXT = 200


def markdown(found: PlanDifference) -> str:
    """The whole text; exactly `NOTHING` if nothing changes."""
    if not found:
        return NOTHING
    return "\n\n".join(_blocks(found))


def code(text: str) -> str:
    """`text` as a code span that its content cannot end, also within a table."""
    shown = text if len(text) <= _SHOWN_TEXT else f"{text[: _SHOWN_TEXT - 1]}…"
    shown = "".join(char if char.isprintable() else " " for char in shown)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    pad = " " if "`" in shown or (shown.startswith(" ") and shown.endswith(" ") and shown.strip()) else ""
    return f"{fence}{pad}{shown}{pad}{fence}" if shown else "nothing"


def _blocks(found: PlanDifference) -> Iterator[str]:
    """The paragraphs, lists and tables in order."""
    kinds = {"added": found.added, "removed": found.removed, "rebuilt": found.rebuilt}
    counts = {kind: sum(len(group.names) for group in groups) for kind, groups in kinds.items()}
    said = ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
    yield f"**{said or 'No variant is added, removed or rebuilt'}**; {found.variants:,} variants in all."
    yield from _list(
        "changes",
        [
            *(_line(group, kind) for kind, groups in kinds.items() for group in groups),
            *map(_rerouted, found.rerouted),
            *(
                f"workflow {_change(*names)}: {len(variants):,} variants moved"
                for names, variants in found.resharded.items()
            ),
            *(f"new warning: {code(text)}" for text in found.warnings_new),
            *(f"no longer: {code(text)}" for text in found.warnings_gone),
        ],
    )
    for kind, groups in kinds.items():
        if counts[kind] > _FEW:
            yield _names(f"{counts[kind]:,} {kind}", groups)
    yield from _proved(found.proved)
    yield from _costs(found, counts["added"] + counts["rebuilt"])
    if found.settings:
        yield "What was edited:"
    yield from _list("values of the spec", [f"{code(path)}: {_change(*pair)}" for path, *pair in found.settings])


def _line(group: ChangeGroup, kind: str) -> str:
    """The line for a group: "`avx2` on `main`: 18 added"."""
    why = f" ({', '.join(map(code, group.reasons))})" if group.reasons else ""
    return f"{_where(group)}: {len(group.names):,} {kind}{why}"


def _proved(groups: Sequence[ChangeGroup]) -> Iterator[str]:
    """What tests say of what is added or rebuilt: how many variants are tested, and a folded list with the machines."""
    counts = Counter({group.reasons[0]: 0 for group in groups})
    for group in groups:
        counts[group.reasons[0]] += len(group.names)
    if groups:
        said = ", ".join(f"{count:,} {verdict}" for verdict, count in counts.items())
        lines = [f"- {_where(one)}: {'; '.join([one.reasons[0], *map(code, one.reasons[1:])])}" for one in groups]
        yield _folded(f"tests of what is added or rebuilt: {said}", lines[:_SHOWN_NAMES])


def _where(group: ChangeGroup) -> str:
    if len(group.names) <= _FEW:
        return f"{', '.join(map(code, group.names))} on {code(group.branch)}"
    scope = ", ".join(map(code, group.scope))
    if not group.scope:
        return f"all of {code(group.branch)}"
    return f"{scope} on {code(group.branch)}" if group.whole else f"some of {scope} on {code(group.branch)}"


def _change(before: str, after: str) -> str:
    return f"{code(before)} → {code(after)}"


def _rerouted(moved: Rerouted) -> str:
    before, after = (code(pool) if pool else "not run" for pool in (moved.before, moved.after))
    count = sum(len(group.names) for group in moved.groups)
    where = "; ".join(map(_where, moved.groups))
    return f"{moved.stage} {before} → {after}, {count:,} variants rerouted: {where}"


def _list(what: str, lines: Iterable[str]) -> Iterator[str]:
    """A list, collapsed if it is long; nothing if it is empty."""
    items = [f"- {line}" for line in lines]
    if len(items) > _SHOWN_LINES:
        shown = items[:_SHOWN_NAMES]
        more = [f"- … and {len(items) - len(shown):,} more"] if len(items) > len(shown) else []
        yield _folded(f"{len(items):,} {what}", [*shown, *more])
    elif items:
        yield "\n".join(items)


def _names(title: str, groups: Iterable[ChangeGroup]) -> str:
    lines: list[str] = []
    left = _SHOWN_NAMES
    for group in groups:
        names = list(map(code, group.names[:left]))
        left -= len(names)
        more = [f"… and {len(group.names) - len(names):,} more"] if len(group.names) > len(names) else []
        lines.append(f"- {_where(group)}: {', '.join([*names, *more])}")
    return _folded(title, lines)


def _folded(title: str, lines: Iterable[str]) -> str:
    return "\n".join([f"<details><summary>{title}</summary>", "", *lines, "", "</details>"])


def _costs(found: PlanDifference, variants: int) -> Iterator[str]:
    if variants:
        hours = machine_hours(sum(cost.seconds for cost in found.costs))
        money = f" ({found.bill})" if found.bill else ""
        yield (
            f"Building {variants:,} variants takes {hours} machine-hours{money}, "
            f"{duration(found.end)} with these pools where nothing else runs{guess(found.guessed)}:"
        )
        rows = [
            (
                code(cost.pool),
                f"{cost.jobs:,}",
                machine_hours(cost.seconds),
                *([found.bill.shown(found.bill.machines[cost.pool])] if found.bill else []),
            )
            for cost in found.costs
            if cost.jobs
        ]
        headers = ("pool", "jobs", "machine-hours", *(["cost"] if found.bill else []))
        yield markdown_table(headers, rows, right=len(headers) - 1)
    before, after = duration(found.full_before), duration(found.full_after)
    if before != after:
        yield f"A full build takes {after} instead of {before}{guess(found.guessed_full)}."
