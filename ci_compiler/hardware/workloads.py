"""The workloads that instruction sets are made for; the facts are in `workloads.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path


class Workload(StrEnum):
    """A kind of work that an instruction set may be made for."""

    GENERAL = "general"
    BF16 = "bf16"
    INT8 = "int8"

    @property
    def label(self) -> str:
        """The name in a list of choices."""
        return _facts()[self]["label"]

    @property
    def words(self) -> str:
        """The name within a sentence."""
        return _facts()[self]["words"]

    @property
    def isa(self) -> str:
        """The instruction set made for it; '' for none in particular."""
        return _facts()[self]["isa"]


@cache
def _facts() -> Mapping[str, Mapping[str, str]]:
    found: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("workloads.json").read_bytes())["workloads"]
    return found
