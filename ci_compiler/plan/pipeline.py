"""From the spec to the compiled files: each step is a pure function of immutable values.

1. `spec.build`: YAML to a `Spec`, checked against the JSON Schema; every name in it is known.
2. `matrix`: the axes multiplied out to candidates.
3. `rules`: candidates sorted into cells that are built and cells that are left out, with reasons.
4. `routing`: a pool for every stage of every cell.
5. `sharding`: cells grouped into files within GitHub's limits. `job_graph` sorts the cells of each file so that a run
   ends sooner.
6. `workflows.render`: the text of every file.

Reading the spec and writing the files happen outside, in `spec.load` and `files.drift`.
"""

from __future__ import annotations

from ci_compiler.errors import Finding, InputError
from ci_compiler.plan.job_graph import with_cells_ordered
from ci_compiler.plan.proof import untested_findings
from ci_compiler.plan.routing import Route, route
from ci_compiler.plan.rules import Judged, errors_among, judge
from ci_compiler.plan.sharding import Shard, shards
from ci_compiler.plan.suite_rows import with_rows
from ci_compiler.record import record
from ci_compiler.spec.model import Spec


@record
class Plan:
    """All decisions about a spec: its cells, what is left out, the routes, the shards, and warnings."""

    spec: Spec
    judged: Judged
    routes: tuple[Route, ...]
    shards: tuple[Shard, ...]
    warnings: tuple[Finding, ...]


def plan(spec: Spec) -> Plan:
    """The plan for `spec`. Raises InputError with all errors of its matrix, routes and shards."""
    judged = judge(spec)
    spec, wrong_rows = with_rows(spec, judged.cells)
    routes, found = route(spec, judged.cells)
    findings = (*judged.findings, *wrong_rows, *found)
    if spec.expected_failures:
        from ci_compiler.plan.expected import unused_findings  # most specs expect none

        findings += tuple(unused_findings(spec, judged.cells, routes))
    findings += tuple(untested_findings(spec, zip(judged.cells, routes, strict=True)))
    if any(pool.hosted for pool in spec.pools):
        from ci_compiler.plan.hosted_rules import hosted_findings  # most specs have machines of their own

        findings += tuple(hosted_findings(spec, zip(judged.cells, routes, strict=True)))
    if errors := errors_among(findings):
        raise InputError(sorted(errors, key=lambda finding: finding.place))
    made = with_cells_ordered(spec, shards(spec, judged.cells, routes))
    return Plan(spec=spec, judged=judged, routes=routes, shards=made, warnings=findings)
