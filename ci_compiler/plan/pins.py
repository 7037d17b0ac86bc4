"""The nixpkgs commits that the spec names, with the hashes of their archives.

Nix takes whatever an address gives as long as no hash says what it must be, so what is signed and published must come
from a commit with its hash.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ci_compiler.codes import Code
from ci_compiler.errors import Finding
from ci_compiler.plan.matrix import Cell
from ci_compiler.spec.axes import SHORT_FAMILY
from ci_compiler.spec.load import Path_
from ci_compiler.spec.model import RecipeKind, Spec

COMMIT, HASH = "nixpkgs", "nixpkgs-hash"
"""The keys of the spec."""


class Named(NamedTuple):
    """A place of the spec that names a nixpkgs commit. `hash` is the one beside it; '' for none."""

    path: Path_
    branch: str
    commit: str
    hash: str


def named_commits(spec: Spec) -> Iterator[Named]:
    """All places that name one: branches, and entries of their toolkits."""
    for branch, row in spec.document.value["branches"].items():
        toolkits = row.get(SHORT_FAMILY)
        entries = toolkits.items() if isinstance(toolkits, dict) else ()
        rows = [
            (("branches", branch), row),
            *((("branches", branch, SHORT_FAMILY, toolkit), entry) for toolkit, entry in entries),
        ]
        for path, one in rows:
            if one and one.get(COMMIT):
                yield Named(path, branch, one[COMMIT], one.get(HASH) or "")


def unverified_commits(spec: Spec, cells: Sequence[Cell]) -> Iterator[Finding]:
    """An error for each commit without a hash, on a branch whose recipes are written and published into a cache."""
    built = {cell.branch for cell in cells}
    if spec.cache is None or not spec.backend.has_recipes:
        return
    for pin in named_commits(spec):
        branch = spec.branches[pin.branch]
        written = any(
            package.on(branch.name) and (package.may_be(RecipeKind.COMPILED) or package.may_be(RecipeKind.TEMPLATE))
            for package in spec.packages.values()
        )
        if branch.publish and branch.name in built and written and not pin.hash:
            message = (
                f"{branch.name} publishes into a cache what it builds from {pin.commit[:12]}, and nothing says what "
                f"that archive must hold; `ci-compile hash` fills in `{HASH}`"
            )
            yield spec.finding((*pin.path, COMMIT), Code.NIXPKGS_UNVERIFIED, message)
