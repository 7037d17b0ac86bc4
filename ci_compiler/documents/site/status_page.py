"""The page of results over time: for each variant of the plan, what the history has of it, and what it costs.

Nothing of the history becomes HTML or an address: names are those of the plan, and a run is linked by its number.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from ci_compiler.clock import day_of
from ci_compiler.documents.site.page import NAME, assembled
from ci_compiler.plan.expected import as_row, expected_failures
from ci_compiler.plan.matrix import Cell, Variant
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.records import Record, Records
from ci_compiler.plan.routing import Route
from ci_compiler.register import BY_HAND
from ci_compiler.reports.costs import machine_price, rounded
from ci_compiler.reports.history import History, history_of
from ci_compiler.reports.history_file import ENDS, RESULTS, columns, stage_names
from ci_compiler.stages import BUILD
from ci_compiler.units import counted

SCRIPTS = ("elements.mjs", "theme.mjs", "runs.mjs", "trend.mjs", "failures.mjs", "status.mjs")

_ENDS = ENDS | {"n": "found in the store"}


def status_page(plan: Plan, records: Records, repository: str = "") -> str:
    """The page. `repository` is the `OWNER/NAME` on GitHub for its links; '' for that of the page's address."""
    parts = {
        "lead": _lead(plan, records),
        "finder": NAME,
        "source": html.escape(f"Compiled by ci-compile from {plan.spec.document.file}."),
        "title": html.escape(f"Results over time · {plan.spec.owner}"),
    }
    given = status_data(plan, records, repository)
    return assembled(plan, "status.html", ["page.css", "status.css"], SCRIPTS, parts, given)


def _lead(plan: Plan, records: Records) -> str:
    shown = [records.variants[key] for key in _keys(plan) if key in records.variants]
    results = counted(sum(len(trace.records) for trace in shown), "result")
    return f"{results} of builds from <time>{day_of(records.since)}</time> to <time>{day_of(records.through)}</time>."


def status_data(plan: Plan, records: Records, repository: str) -> dict[str, Any]:
    """The data of the page: columns of results by variant, as `history.json` has them, and the rows of runs."""
    shown = {key: records.variants[key].records for key in _keys(plan) if key in records.variants}
    numbers = sorted({record.run.number for own in shown.values() for record in own})
    at = {number: index for index, number in enumerate(numbers)}
    known, prices = history_of(records), plan.spec.prices
    return {
        "repository": repository,
        "guide": f"{BY_HAND}#from-a-failed-job",
        "stages": stage_names(),
        "results": {word[0]: word for word in RESULTS},
        "ends": _ENDS,
        "currency": prices.currency if prices else "",
        "runs": {
            "id": numbers,
            "started": [records.runs[number].started for number in numbers],
            "commit": [records.runs[number].commit for number in numbers],
        },
        "lasts": [],
        "isas": list(plan.spec.hardware.isas),
        "variants": [
            {
                "name": variant.name,
                "branch": cell.branch,
                "package": variant.package,
                "gpu": cell.target,
                "isa": cell.isa,
                "family": cell.family,
                "toolkit": cell.toolkit,
                "python": cell.python,
                **({"expected": {variant.package: fails}} if (fails := _expected(plan, cell, variant)) else {}),
                **columns(own := shown.get((cell.branch, variant.name), ()), at),
                **({"benchmarks": found} if (found := _benchmarks(own)) else {}),
                **({"cost": _cost(plan, known, cell, route, variant)} if prices else {}),
            }
            for cell, route in zip(plan.judged.cells, plan.routes, strict=True)
            for variant in cell.variants
        ],
    }


def _benchmarks(records: Sequence[Record]) -> dict[int, str]:
    """What the benchmarks of a variant found, in words by run."""
    return {record.run.number: str(record.benchmark) for record in records if record.benchmark}


def _keys(plan: Plan) -> list[tuple[str, str]]:
    return [(cell.branch, variant.name) for cell in plan.judged.cells for variant in cell.variants]


def _expected(plan: Plan, cell: Cell, variant: Variant) -> list[dict[str, str]]:
    """The test stages of a variant that are expected to fail."""
    return list(map(as_row, expected_failures(plan.spec, variant.name, cell.branch).values()))


def _cost(plan: Plan, known: History, cell: Cell, route: Route, variant: Variant) -> str:
    """What a build of a variant and its tests cost at the median; '' if no build of it was recorded."""
    found = {
        stage: (pool, known.seconds[cell.branch, variant.name, stage.name])
        for stage, pool in route.pools.items()
        if (cell.branch, variant.name, stage.name) in known.seconds
    }
    if BUILD not in found:
        return ""
    amounts = (machine_price(plan.spec, pool.name, seconds) for pool, seconds in found.values())
    return f"{rounded(sum(amounts, Decimal())):,}"
