"""The commands that install variants with what they need, as the spec's backend does it, and those that verify this."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping

from ci_compiler.backends.protocol import InstallRequest
from ci_compiler.hardware.families import family_of
from ci_compiler.plan.job_graph import with_needs
from ci_compiler.plan.matrix import Cell, values_in
from ci_compiler.plan.needs import Needs
from ci_compiler.plan.proof import checks, module_of
from ci_compiler.reports.offers import recalled
from ci_compiler.spec.model import Spec, in_build_order
from ci_compiler.spec.placeholders import fill
from ci_compiler.variant import recipe_path, variant_name


def install(needs: Needs, shared: Container[str], cell: Cell, names: Mapping[str, str]) -> tuple[str, ...]:
    """The commands that install variants of `cell`; `names` are their names by package. `needs` has all cells.

    A name that several branches build (its suffix is in `shared`) is qualified with its version, if that is known.
    """
    spec = needs.spec
    versions = spec.branches[cell.branch].versions
    wanted: dict[str, str] = {}
    declared: list[str] = []
    for package, name in names.items():
        for one in [spec.packages[package]] if cell.listed else with_needs(spec, [package]):
            elsewhere = variant_name(one.name, cell.suffix) if one.repository else ""
            other, own = cell, name
            if one.name != package:
                found = ((other, held.name) for other, held in needs.found(cell, one.name))
                other, own = next(found, (cell, elsewhere))
            if own:
                wanted[own] = versions.get(one.name, "") if other.suffix in shared else ""
        if (command := spec.packages[package].command) and not cell.listed:
            declared.append(fill(command.install, values_in(spec, cell, package, name)))
    request = InstallRequest(
        owner=spec.owner,
        branch=cell.branch,
        recipes=tuple(map(recipe_path, names.values())),
        wanted=tuple(wanted.items()),
        cache=spec.cache,
        declared=tuple(filter(None, declared)),
    )
    return spec.backend.install(request)


def verify(spec: Spec, cell: Cell, names: Mapping[str, str]) -> tuple[str, ...]:
    """The commands that import variants, print their versions, and use the GPU of a GPU variant; () if none can.

    `names` are the names of the variants by package.
    """
    if not (cell.python or cell.listed):
        return ()
    held = [
        package for package in with_needs(spec, names) if package.attribute in checks()["packages"] or not package.smoke
    ]
    modules = [module_of(package) for package in held]
    rows = [checks()["packages"].get(package.attribute, {}) for package in held]
    shown = [f"{row['module']}.__version__" for row in rows if row]
    if device := family_of(cell.family).device:
        shown += [row["on-gpu"].replace("@device@", device) for row in rows if "on-gpu" in row]
    recipes = [recipe_path(names[package.name]) for package in held if package.name in names]
    script = f"import {', '.join(modules)}; print({', '.join(shown)})"
    return spec.backend.verify(script, recipes, spec.cache) if modules else ()


def whole(spec: Spec, cell: Cell) -> dict[str, str]:
    """The names of all variants of `cell` that are not recalled, by package, in build order."""
    names = {variant.package: variant.name for variant in cell.variants if not recalled(spec, cell.branch, variant)}
    return {package.name: names[package.name] for package in in_build_order(spec.packages) if package.name in names}


def shared_suffixes(cells: Iterable[Cell]) -> set[str]:
    """The suffixes of the names that several branches build."""
    branches: dict[str, set[str]] = defaultdict(set)
    for cell in cells:
        branches[cell.suffix].add(cell.branch)
    return {suffix for suffix, names in branches.items() if len(names) > 1}
