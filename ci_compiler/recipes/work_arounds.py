"""The named pieces that recipes are composed of: what differs between branches, GPUs and ISAs.

Their table is in `ci_compiler.spec.work_arounds`, because the spec names some of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ci_compiler.spec.work_arounds import FOLDER, table

_WORD = re.compile(r"@([a-z-]+)@")


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What decides which pieces a recipe has; `cuda` is True for a GPU build, `cudnn` if cuDNN supports the GPU."""

    attribute: str
    isa: str
    cuda: bool
    cudnn: bool
    source: bool
    work_arounds: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A piece of a recipe. `overlay`, `post_patch` and `pre_configure` are texts; '' for none."""

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
        """Whether only the branches that name it have it."""
        return bool(self.when.get("work-around"))

    def applies(self, traits: Traits) -> bool:
        """Whether a recipe with `traits` has it."""
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
    """All pieces, in their order in a recipe."""
    return tuple(_piece(name, row) for name, row in table().items())


def fill(text: str, values: Mapping[str, str]) -> str:
    """`text` with each `@word@` replaced by its value, indented as `text` is. Raises KeyError for an unknown word."""

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
    return (FOLDER / row[key]).read_text("utf-8").rstrip("\n") if key in row else ""
