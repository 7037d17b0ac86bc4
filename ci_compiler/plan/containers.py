"""Where the build scripts that the spec puts into containers can run: on Linux, on a machine with an engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ci_compiler.codes import Code
from ci_compiler.errors import Finding
from ci_compiler.plan.matrix import Cell, applying
from ci_compiler.spec.model import Pool, Spec


def container_findings(spec: Spec, building: Iterable[tuple[Cell, Pool]]) -> Iterator[Finding]:
    """An error for each package whose build script cannot run in its container on a pool that builds it.

    A machine that is a container itself has no engine. With the engine of its host, a job could become root there.
    """
    found: dict[tuple[str, str], str] = {}
    for cell, pool in building:
        for variant in cell.variants:
            command = spec.packages[variant.package].command
            if command and applying(command.container, cell) and (why := _why_not(spec, pool)):
                found.setdefault((variant.package, pool.name), why)
    for (package, name), why in found.items():
        message = f"the build script of {package} cannot run in a container on {name}, {why}"
        path = ("packages", package, "command", "container")
        yield spec.finding(path, Code.CONTAINER_UNUSABLE, message, key=True)


def _why_not(spec: Spec, pool: Pool) -> str:
    if not pool.system.endswith("-linux"):
        return f"whose machines are {pool.system}; give it a `when` for the platforms of Linux"
    if ("runners", pool.name, "image") in spec.document.values:
        return "whose runners are containers of `image`; put what the build needs into that image"
    return "which is `untrusted`: its runners are containers" if pool.untrusted else ""
