"""The commands that install a variant with what it needs, as the spec's backend does it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable

from ci_compiler.backends.protocol import InstallRequest
from ci_compiler.plan.job_graph import needs_of
from ci_compiler.plan.matrix import Cell
from ci_compiler.spec.model import Spec, in_build_order
from ci_compiler.spec.placeholders import fill
from ci_compiler.spec.values import variant_values
from ci_compiler.variant import VariantName, recipe_path, variant_name


def install(spec: Spec, shared: Container[str], *, branch: str, name: str, package: str) -> tuple[str, ...]:
    """The commands that install `name`, a variant of `package` on `branch`.

    A name that several branches build (its suffix is in `shared`) is qualified with its version, if that is known.
    """
    versions = spec.branches[branch].versions
    wanted: tuple[tuple[str, str], ...] = ((name, versions.get(package, "") if name in shared else ""),)
    parsed = VariantName.parse(name)
    if parsed:
        suffix, held = parsed.suffix, {package, *needs_of(spec, package)}
        wanted = tuple(
            (variant_name(one.name, suffix), versions.get(one.name, "") if suffix in shared else "")
            for one in in_build_order(spec.packages)
            if one.name in held
        )
    command = spec.packages[package].command
    values = variant_values(spec, branch, package, name, parsed) if parsed else {}
    request = InstallRequest(
        owner=spec.owner,
        branch=branch,
        recipe=recipe_path(name),
        wanted=wanted,
        cache=spec.cache,
        declared=fill(command.install, values) if command and values else "",
    )
    return spec.backend.install(request)


def shared_suffixes(cells: Iterable[Cell]) -> set[str]:
    """The suffixes of the names that several branches build."""
    branches: dict[str, set[str]] = defaultdict(set)
    for cell in cells:
        branches[cell.suffix].add(cell.branch)
    return {suffix for suffix, names in branches.items() if len(names) > 1}
