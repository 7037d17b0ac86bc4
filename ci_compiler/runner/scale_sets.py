"""Runner scale sets in Kubernetes: their names, and whether their jobs lack a cache."""

from __future__ import annotations

import re

from ci_compiler.spec.forms import SCALE_SET
from ci_compiler.spec.model import Spec

WITHOUT_CACHE = "jobs in Kubernetes share no store: what one pod builds reaches the next only through a binary cache"
"""Why `needs_cache` matters."""

_LONGEST = 45
"""The most characters of a name (chart gha-runner-scale-set)."""


def needs_cache(spec: Spec) -> bool:
    """Whether what one pod builds could not reach another."""
    return spec.cache is None and not spec.backend.uses_artifacts


def scale_set_of(pool: str) -> str:
    """The name of the scale set for a pool with labels. The chart cannot name a set `4090`: YAML reads a number."""
    return pool if re.fullmatch(SCALE_SET, pool) else f"pool-{pool}"[:_LONGEST].rstrip("-")
