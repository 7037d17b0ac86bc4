"""`cell.yml`: builds the packages of one cell, each with `variant.yml`, after the packages that it needs.

A package that was not chosen is skipped, and the packages that need it still run. A package that fails stops them.
"""

from __future__ import annotations

from ci_compiler.spec.model import Package, Spec, in_build_order
from ci_compiler.variant import variant_name
from ci_compiler.workflows import variant
from ci_compiler.workflows.common import VARIANT, expression, local
from ci_compiler.workflows.model import CallJob, Input, OnCall, Workflow


def workflow(spec: Spec) -> Workflow:
    """`cell.yml`."""
    packages = [package for package in in_build_order(spec.packages) if package.repository is None]
    return Workflow(
        name="cell",
        on=[OnCall(inputs=_inputs(spec), secrets=variant.secret_input(spec))],
        jobs={package.name: _job(spec, package) for package in packages},
    )


def _inputs(spec: Spec) -> dict[str, Input]:
    return {
        "cell": Input(description="What its variants' names end in, behind the package."),
        "chosen": Input(description="The names of the variants that this run builds, as a JSON list."),
        "branch": Input(description="The branch that it is built for."),
        "commit": Input(description="The commit that holds its recipes."),
        "publish": Input(description="Whether its variants may be published.", type="boolean"),
        "again": Input(description="Whether even those that show as published are.", type="boolean"),
        **variant.machine_inputs(spec),
        **variant.neighbour_inputs(spec),
    }


def _job(spec: Spec, package: Package) -> CallJob:
    name = f"format('{variant_name(package.name, '{0}')}', inputs.cell)"
    condition = f"contains(fromJSON(inputs.chosen), {name})"
    needs = [need for need in package.needs if spec.packages[need].repository is None]
    if needs:
        went = [f"(needs.{need}.result == 'success' || needs.{need}.result == 'skipped')" for need in needs]
        condition = " && ".join(["!cancelled()", condition, *went])
    passed = ["branch", "commit", "publish", "again", *variant.machine_inputs(spec)]
    return CallJob(
        name=package.name,
        needs=needs or None,
        if_=expression(condition),
        uses=local(VARIANT),
        permissions=variant.build_permissions(spec),
        with_={"name": variant_name(package.name, expression("inputs.cell"))}
        | {key: expression(f"inputs.{key}") for key in passed}
        | {key: variant_name(package.name, expression(f"inputs.{key}")) for key in variant.neighbour_inputs(spec)}
        | variant.titles(spec, package),
        secrets=variant.secret_passed(spec),
    )
