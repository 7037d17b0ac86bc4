"""The revisions of nixpkgs that are known (`spec/releases.json`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

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
