"""`cell.yml`: the jobs that build and test the packages of one cell. Builds wait for builds.

A package that was not chosen is skipped, and the packages that need it still run. A build that fails stops the builds
that need it.
"""

from __future__ import annotations

from ci_compiler.plan.job_graph import built_after
from ci_compiler.plan.sharding import cell_packages
from ci_compiler.spec.model import Spec
from ci_compiler.workflows import called, variant
from ci_compiler.workflows.model import Job, Workflow, input_node
from ci_compiler.workflows.writer import Node


def workflow(spec: Spec) -> Workflow:
    """`cell.yml`."""
    # Assumes `compiled-cell`.
    subjects: dict[str, variant.CalledSubject] = {}
    jobs: dict[str, Job] = {}
    for package in cell_packages(spec):
        needs = tuple(subjects[need] for need in built_after(spec, package.name) if need in subjects)
        subjects[package.name] = variant.CalledSubject(package=package, needs=needs)
        jobs |= variant.jobs(spec, subjects[package.name])
    return Workflow(
        name="cell",
        on={"workflow_call": {"inputs": _inputs(spec), "outputs": variant.outputs(spec, subjects.values())}},
        env=called.environment(spec),
        jobs=jobs,
    )


def _inputs(spec: Spec) -> dict[str, Node]:
    return {
        "cell": input_node("What its variants' names end in, after the package."),
        **called.shard_inputs(spec),
        **called.cell_inputs(spec),
    }
