"""The revisions of nixpkgs that are known (`spec/releases.json`), and that the stand-in for nixpkgs has."""

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

    def like(self, versions: Mapping[str, str]) -> str:
        """The revision that has most of `versions` (by attribute), the newest of several."""
        return max(
            self.versions,
            key=lambda pin: (sum(self.versions[pin].get(k) == v for k, v in versions.items()), pin == self.newest, pin),
        )


@cache
def known_pins() -> KnownPins:
    """The table."""
    versions = {pin: row["versions"] for pin, row in facts()["pins"].items()}
    return KnownPins(newest=facts()["newest"], versions=versions)
