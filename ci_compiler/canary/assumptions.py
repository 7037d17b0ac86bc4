"""The register of what the compiled files assume of GitHub, its runner, Nix and Flox, and the verdict on each.

The entries are in `assumptions.toml`. Code that relies on one names it in a comment that begins with `Assumes`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

TEXTS = Path(__file__).with_name("assumptions.toml")

FEATURES: Mapping[str, str] = {
    "builds": "builds and tests by the compiled workflows",
    "pull-requests": "builds of pull requests",
    "reruns": "`Re-run` of a run whose job failed",
    "publishing": "publishing",
    "own-machines": "machines of your own, started by `ci-runner start`",
    "nix": "the backend `nix`",
    "flox": "the backend `flox`",
    "macos": "jobs on macOS",
    "windows": "jobs on Windows",
}
"""The features that an assumption can be for, with their descriptions."""

MISSING = "missing"
"""The value of a fact that the canary should have found but did not."""

_VALUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,39}")
"""A value of a fact: a word or a number. Nothing else reaches the table, so that it has no secrets, paths or names."""


class Verdict(StrEnum):
    """What the canary says about an assumption."""

    HELD = "held"
    BROKEN = "broken"
    NOT_TRIED = "not tried"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """An entry of the register; `assumptions.toml` documents the fields."""

    name: str
    says: str
    source: str
    for_: tuple[str, ...]
    when: str
    tried: Mapping[str, str]
    expected: Mapping[str, str]
    unused: str = ""

    @property
    def facts(self) -> tuple[str, ...]:
        """The names of the facts that decide, without duplicates."""
        return tuple(dict.fromkeys([*self.tried, *self.expected]))

    def verdict(self, facts: Mapping[str, str]) -> Verdict:
        """The verdict that `facts` give. An expected fact that is not among them leaves the assumption untried."""
        tried = all(facts.get(name) == value for name, value in self.tried.items())
        if not tried or not self.expected.keys() <= facts.keys():
            return Verdict.NOT_TRIED
        held = all(facts[name] == value for name, value in self.expected.items())
        return Verdict.HELD if held else Verdict.BROKEN

    def evidence(self, facts: Mapping[str, str]) -> dict[str, str]:
        """The facts among `facts` that decide."""
        return {name: facts[name] for name in self.facts if name in facts}


@cache
def assumptions() -> Mapping[str, Assumption]:
    """Every entry by its name, in the order of the file."""
    import tomllib

    tables = tomllib.loads(TEXTS.read_text("utf-8"))
    return {name: _read(name, dict(table)) for name, table in tables.items()}


def _read(name: str, table: dict[str, object]) -> Assumption:
    features = table.pop("for")
    return Assumption(**{**table, "name": name, "for_": tuple(features)})  # type: ignore[arg-type]


def complete(facts: Mapping[str, str]) -> dict[str, str]:
    """`facts` with every fact of the register: one that was not found is MISSING."""
    known = {name: MISSING for assumption in assumptions().values() for name in assumption.facts}
    return known | dict(facts)


def plain(value: str) -> str:
    """`value` if it is a word or a number, else `other`."""
    return value if _VALUE.fullmatch(value) else "other"
