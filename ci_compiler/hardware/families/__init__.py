"""Families of accelerators: one row each, from a module of its own, which alone knows the family's facts.

A *target* is what code is compiled for: `sm90`, `gfx942`. It is an opaque name; which target runs code of which other
one is the family's own rule. A family without facts has no order of targets: code runs where its target, or its family
if it has no target, is named.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import NamedTuple, Protocol

NONE = "cpu"
"""The family of variants that use no accelerator."""


class Target(Protocol):
    """What a rule is given of a target."""

    @property
    def name(self) -> str:
        """Its name; the family's if code is not compiled for a target."""

    @property
    def family(self) -> str:
        """The name of its family."""


def runs_what_it_is_named(machine: Target, built: Target) -> bool:
    """The rule of a family without an order: the same target, or code for the family as a whole."""
    return built.name in {machine.name, built.family}


class Family(NamedTuple):
    """A family: its name in specs and names of variants, and its name in sentences.

    `targets` is the pattern of its targets ('': any word). `runs` says whether a machine's target runs code that was
    compiled for another one; both are of this family. `toolkit` is how sentences call its toolkit.
    """

    name: str
    title: str
    toolkit: str = ""
    targets: str = ""
    runs: Callable[..., bool] = runs_what_it_is_named

    def is_target(self, name: str) -> bool:
        """Whether `name` has the form of a target of the family."""
        return re.fullmatch(self.targets or r"[A-Za-z0-9][A-Za-z0-9_:+.-]*", name) is not None


_CPU = Family(name=NONE, title="CPU")

FAMILIES = ("cuda", "rocm", "metal", "xpu", "vulkan", NONE)
"""The families that are known, each but the last with a module of its name."""


@cache
def family_of(name: str) -> Family:
    """The family called `name`; one without facts if it is not a known one."""
    if name not in FAMILIES:
        return Family(name=name, title=name)
    row: Family = _CPU if name == NONE else import_module(f"{__name__}.{name}").FAMILY
    return row
