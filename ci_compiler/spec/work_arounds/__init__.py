"""The named pieces that recipes are put together from: what differs between branches, GPUs and ISAs.

`pieces.json` says of each why it is there, when it applies, and what it adds: an overlay, CMake flags, exported
variables, lines of shell. Longer texts stand beside it as files;
those of shell are what stands in a Nix string, so that `${lib…}` is Nix' and `''${…}` is the shell's. The renderer
fills in `@word@` in all of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent
_WORD = re.compile(r"@([a-z-]+)@")


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What decides which pieces a recipe has: a GPU build or not, cuDNN usable or not, the rest as in the spec."""

    attribute: str
    isa: str
    cuda: bool
    cudnn: bool
    source: bool
    work_arounds: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A piece of recipe. Overlay, `post_patch` and `pre_configure` are text; '' for none."""

    name: str
    why: str
    when: Mapping[str, Any]
    overlay: str = ""
    cmake: tuple[str, ...] = ()
    exports: Mapping[str, str] = field(default_factory=dict)
    post_patch: str = ""
    pre_configure: str = ""
    pre_build: tuple[str, ...] = ()

    @property
    def is_work_around(self) -> bool:
        """Whether a branch has it only by naming it."""
        return bool(self.when.get("work-around"))

    def applies(self, traits: Traits) -> bool:
        """Whether a recipe of these traits has it."""
        found = {
            "attribute": traits.attribute,
            "isa": traits.isa,
            "cuda": traits.cuda,
            "cudnn": traits.cudnn,
            "source": traits.source,
            "work-around": self.name in traits.work_arounds,
        }
        for key, value in self.when.items():
            if key == "attribute-not":
                if traits.attribute == value:
                    return False
            elif found[key] != value:
                return False
        return True


@cache
def pieces() -> tuple[Piece, ...]:
    """All pieces, in the order in which recipes have them."""
    table = json.loads((_FOLDER / "pieces.json").read_bytes())["pieces"]
    return tuple(_piece(name, row) for name, row in table.items())


def work_arounds() -> tuple[str, ...]:
    """The names that a branch may list."""
    return tuple(piece.name for piece in pieces() if piece.is_work_around)


def fill(text: str, values: Mapping[str, str]) -> str:
    """`text` with each `@word@` replaced, further lines as far in as its own. Raises KeyError for an unknown word."""

    def value(match: re.Match[str]) -> str:
        line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        return values[match[1]].replace("\n", "\n" + line[: len(line) - len(line.lstrip())])

    return _WORD.sub(value, text)


def _piece(name: str, row: Mapping[str, Any]) -> Piece:
    return Piece(
        name=name,
        why=row["why"],
        when=row["when"],
        overlay=_text(row, "overlay"),
        cmake=tuple(row.get("cmake", ())),
        exports=row.get("exports", {}),
        post_patch=_text(row, "post-patch"),
        pre_configure=_text(row, "pre-configure"),
        pre_build=tuple(row.get("pre-build", ())),
    )


def _text(row: Mapping[str, Any], key: str) -> str:
    return (_FOLDER / row[key]).read_text("utf-8").rstrip("\n") if key in row else ""
