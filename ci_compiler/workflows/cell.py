"""`cell.yml`: the packages of one cell in the order of their needs, each calling `variant.yml`.

A package that was not chosen is skipped, and what needs it goes on; one that failed stops what needs it.
"""

from __future__ import annotations

from ci_compiler.plan.matrix import in_build_order
from ci_compiler.spec.model import Package, Spec
from ci_compiler.workflows import variant
from ci_compiler.workflows.common import READ, VARIANT, expression, local
from ci_compiler.workflows.writer import Node, Spaced


def workflow(spec: Spec) -> dict[str, Node]:
    """The document of `cell.yml`."""
    packages = [package for package in in_build_order(dict(spec.packages)) if package.repository is None]
    return {
        "name": "cell",
        "on": {"workflow_call": {"inputs": _inputs(spec), "secrets": variant.secret_input(spec)}},
        "permissions": {},
        "jobs": Spaced({package.name: _job(spec, package) for package in packages}),
    }


def permissions(spec: Spec) -> dict[str, str]:
    """What a caller grants, and the cell passes on: the most that a job of `variant.yml` asks for."""
    return dict(variant.ATTEST_PERMISSIONS if spec.attest else READ)


def _inputs(spec: Spec) -> dict[str, Node]:
    return {
        "cell": variant.text_input("What its variants' names end in, behind the package."),
        "chosen": variant.text_input("The names of the variants that this run builds, as a JSON list."),
        "branch": variant.text_input("The branch that it is built for."),
        "commit": variant.text_input("The commit that holds its recipes."),
        "publish": {"description": "Whether its variants may be published.", "type": "boolean", "required": True},
        "again": {"description": "Whether even those that show as published are.", "type": "boolean", "required": True},
        **variant.machine_inputs(spec),
    }


def _job(spec: Spec, package: Package) -> dict[str, Node]:
    name = f"format('{package.name}-{{0}}', inputs.cell)"
    condition = f"contains(fromJSON(inputs.chosen), {name})"
    job: dict[str, Node] = {"name": package.name}
    needs = [need for need in package.needs if spec.packages[need].repository is None]
    if needs:
        job["needs"] = list(needs)
        went = [f"(needs.{need}.result == 'success' || needs.{need}.result == 'skipped')" for need in needs]
        condition = " && ".join(["!cancelled()", condition, *went])
    passed = ["branch", "commit", "publish", "again", *variant.machine_inputs(spec)]
    return job | {
        "if": expression(condition),
        "uses": local(VARIANT),
        "permissions": permissions(spec),
        "with": {"name": f"{package.name}-{expression('inputs.cell')}"}
        | {key: expression(f"inputs.{key}") for key in passed},
        "secrets": variant.secret_passed(spec),
    }
