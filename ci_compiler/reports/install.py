"""The commands that install a variant, with what it needs: from FloxHub, or from the spec's binary cache."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Container, Iterable

from ci_compiler.plan.job_graph import needs_of
from ci_compiler.plan.matrix import Cell
from ci_compiler.spec.model import Backend, Spec, in_build_order
from ci_compiler.variant import VariantName, recipe_path, variant_name


def install(spec: Spec, shared: Container[str], *, branch: str, name: str, package: str) -> tuple[str, ...]:
    """The commands that install `name`, a variant of `package` on `branch`.

    A name that several branches build (its suffix is in `shared`) is told apart by its version
    (`flox install OWNER/NAME@VERSION`). With Nix, the commands are for a checkout of the repository; what the variant
    needs is part of its closure.
    """
    if spec.backend is Backend.NIX:
        build = " ".join([f"nix-build {recipe_path(name)}", *_cache_options(spec)])
        return (shlex.join(["git", "switch", branch]), build)
    parsed = VariantName.parse(name)
    suffix = parsed.suffix if parsed else ""
    versions = spec.branches[branch].versions
    return tuple(
        f"flox install {spec.owner}/{variant_name(needed, suffix)}"
        + (f"@{versions[needed]}" if suffix in shared else "")
        for needed in _with_needs(spec, package)
    )


def shared_suffixes(cells: Iterable[Cell]) -> set[str]:
    """The suffixes of names that several branches build."""
    branches: dict[str, set[str]] = defaultdict(set)
    for cell in cells:
        branches[cell.suffix].add(cell.branch)
    return {suffix for suffix, names in branches.items() if len(names) > 1}


def _cache_options(spec: Spec) -> list[str]:
    """The options that let `nix-build` fetch from the spec's cache, quoted for a shell; none without a cache."""
    if spec.cache is None:
        return []
    options = {"extra-substituters": spec.cache.url, "extra-trusted-public-keys": spec.cache.public_key}
    return [f"--option {name} {shlex.quote(value)}" for name, value in options.items()]


def _with_needs(spec: Spec, package: str) -> list[str]:
    """`package` and all that it is built with, in build order."""
    wanted = {package, *needs_of(spec, package)}
    return [one.name for one in in_build_order(spec.packages) if one.name in wanted]
