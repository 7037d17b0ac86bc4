"""`cell.yml`: builds the packages of one cell, each with `variant.yml`, after the packages that it needs.

A package that was not chosen is skipped, and the packages that need it still run. A package that fails stops them.
"""

from __future__ import annotations

from ci_compiler.spec.model import Package, Spec, in_build_order
from ci_compiler.variant import variant_name
from ci_compiler.workflows import variant
from ci_compiler.workflows.common import VARIANT, expression, local
from ci_compiler.workflows.model import CallJob, Workflow, input_node
from ci_compiler.workflows.writer import Node


def packages_of(spec: Spec) -> list[Package]:
    """The packages that have cells, in build order: variants that fit no axis are built without `cell.yml`."""
    taken = {package.name for _, _, packages in spec.axes for package in packages if package.repository is None}
    return [package for package in in_build_order(spec.packages) if package.name in taken]


def workflow(spec: Spec) -> Workflow:
    """`cell.yml`."""
    packages = packages_of(spec)
    return Workflow(
        name="cell",
        on={"workflow_call": {"inputs": _inputs(spec), "secrets": variant.secret_input(spec)}},
        jobs={package.name: _job(spec, package) for package in packages},
    )


def _inputs(spec: Spec) -> dict[str, Node]:
    return {
        "cell": input_node("What its variants' names end in, after the package."),
        "chosen": input_node("The names of the variants that this run builds, as a JSON list."),
        "branch": input_node("The branch that it is built for."),
        "commit": input_node("The commit that holds its recipes."),
        "publish": input_node("Whether its variants may be published.", "boolean"),
        "again": input_node("Whether even those that show as published are.", "boolean"),
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
