"""Whether the declared runners can register for their jobs within the requests of one token.

Each job costs its controller one request, which registers the runner. All others of a fleet are at most `OTHERS` an
hour, whatever its size (`controller.slots.SHARE`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ci_compiler.codes import Code
from ci_compiler.errors import Finding
from ci_compiler.plan.job_graph import jobs_of
from ci_compiler.plan.pipeline import Plan

BUDGET = 5000
"""Requests per hour of a token, or of a GitHub App's installation at least (GitHub Docs, "Rate limits for the REST
API")."""

OTHERS = 300
"""The most requests per hour of a fleet beside its registrations."""


def registrations(plan: Plan) -> dict[str, float]:
    """The registrations per hour of each pool addressed by labels, if all its runners work, as in a whole run."""
    jobs, seconds = Counter[str](), Counter[str]()
    for job in jobs_of(plan.spec, plan.shards):
        jobs[job.pool] += 1
        seconds[job.pool] += job.seconds
    served = [pool for pool in plan.spec.pools if not pool.runs_on.scale_set and seconds[pool.name]]
    return {pool.name: pool.count * 3600 * jobs[pool.name] / seconds[pool.name] for pool in served}


def over_budget(plan: Plan) -> Iterator[Finding]:
    """A warning if the declared load needs more requests than a token has."""
    needs = registrations(plan)
    whole = sum(needs.values())
    if whole + OTHERS <= BUDGET:
        return
    largest = max(needs, key=lambda pool: needs[pool])
    apps = -(-round(whole) // (BUDGET - OTHERS))
    ways = f"{apps} GitHub Apps or tokens of different users"
    message = (
        f"if all runners work, they register {whole:,.0f} times an hour ({largest}: {needs[largest]:,.0f}), and a "
        f"token has {BUDGET:,} requests, of which the controllers need up to {OTHERS} for the rest; give the machines "
        f"{ways}, or let scale sets serve a pool (`runs-on: NAME`), which register without them"
    )
    yield plan.spec.finding(("runners", largest), Code.REQUEST_BUDGET, message, key=True)
