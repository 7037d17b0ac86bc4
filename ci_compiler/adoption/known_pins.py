"""The revisions of nixpkgs that are known (`spec/releases.json`), for Python and as a file for the stand-in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from ci_compiler.recipes import nix_text as nix
from ci_compiler.spec.releases import facts


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPins:
    """The revision that stands for an unknown one, and the releases in each known one by package attribute."""

    newest: str
    versions: Mapping[str, Mapping[str, str]]


@cache
def known_pins() -> KnownPins:
    """The table."""
    versions = {pin: row["versions"] for pin, row in facts()["pins"].items()}
    return KnownPins(newest=facts()["newest"], versions=versions)


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
