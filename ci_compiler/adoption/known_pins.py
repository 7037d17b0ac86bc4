"""The revisions of nixpkgs that are known (`spec/releases.json`), as a file for the stand-in."""

from __future__ import annotations

from collections.abc import Iterable

from ci_compiler.recipes import nix_text as nix
from ci_compiler.spec.releases import facts


def functions() -> str:
    """A Nix set: for each known revision and package, a function with the parameters of nixpkgs' own.

    Each function returns its arguments. Its parameters are optional, since `override` replaces some of those that
    `callPackage` gave. Nix refuses any other argument, in its own words.
    """
    rows = {
        pin: nix.attributes(
            {attribute: _function(names.split()) for attribute, names in row.get("arguments", {}).items()}
        )
        for pin, row in facts()["pins"].items()
    }
    return nix.attributes(rows) + "\n"


def _function(names: Iterable[str]) -> str:
    return f"{{ {', '.join(f'{name} ? null' for name in names)} }}@given: given"
