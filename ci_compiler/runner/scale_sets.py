"""The names of runner scale sets in Kubernetes."""

from __future__ import annotations

import re

from ci_compiler.spec.forms import SCALE_SET

_LONGEST = 45
"""The most characters of a name (chart gha-runner-scale-set)."""


def scale_set_of(pool: str) -> str:
    """The name of the scale set for a pool with labels. The chart cannot name a set `4090`: YAML reads a number."""
    return pool if re.fullmatch(SCALE_SET, pool) else f"pool-{pool}"[:_LONGEST].rstrip("-")
