"""Texts that people paste (`pasted.json`), each with the machine that it is about, and what is read out of them.

The truth does not come from this project's tables: each group names its source. A row is `[text, gpu, cpu]`: the GPU's
architecture, `none`, or `foreign` for one of which the tables have no family; the highest instruction sets of the CPU,
'' if the text does not say which, `?` if its vendor does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ci_compiler.hardware import tables


class Text(NamedTuple):
    """A text with its machine."""

    text: str
    gpu: str
    cpu: str

    def verdict(self, gpu: str, system: str, isas: tuple[str, ...]) -> str:
        """`right`, `wrong`, or `vague` for less than is known."""
        words = self.cpu.split()
        its = tables().isa(words[0]).system if words and words != ["?"] else ""
        runs = tables().runs(words, its) if its else frozenset()
        if gpu != self.gpu or (self.cpu != "?" and system not in {"", its}) or not ({*isas} <= runs or not its):
            return "wrong"
        return "right" if {*isas} == runs or self.cpu == "?" else "vague"


def texts() -> Iterator[Text]:
    """Every row of the file."""
    groups: list[dict[str, Any]] = json.loads(Path(__file__).with_name("pasted.json").read_bytes())
    return (Text(*row) for group in groups for row in group["rows"])
