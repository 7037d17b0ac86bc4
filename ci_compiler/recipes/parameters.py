"""The parameters of the Nix functions that compiled recipes share, in place of a variant's own values.

A shared text is compiled like a whole recipe, with a mark for each value that differs between the variants that share
it. The marks survive quoting and escaping for Nix and for a shell; at the end each becomes `${NAME}`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping

_OPEN, _CLOSE = "\ue000", "\ue001"
"""Characters for private use (Unicode 16.0, 23.5), which no spec has a use for."""

_MARK = re.compile(rf"(?P<dollar>\$?){_OPEN}(?P<name>[A-Za-z]+){_CLOSE}")
_WHOLE = re.compile(rf'"{_OPEN}([A-Za-z]+){_CLOSE}"')
_INHERITED = re.compile(r"^( *)([A-Za-z]+) = \2;$", re.MULTILINE)

OWN: Mapping[str, str] = {
    "name": "variantName",
    "pname": "pname",
    "gpu": "gpuArch",
    "capability": "gpuArchSM",
    "sm": "gpuArchNumber",
    "isa": "cpuISA",
    "flags": "cpuFlagsText",
    "system": "system",
}
"""The placeholders whose values are a variant's own, with the names that recipes give to these."""

DERIVED: Mapping[str, str] = {
    "gpuArchNumber": 'builtins.replaceStrings [ "." ] [ "" ] gpuArchSM',
    "cpuFlagsText": 'builtins.concatStringsSep " " cpuFlags',
}
"""Those of the names that follow from other ones, with the Nix expression."""

OF_ONE_GPU = frozenset({"capability", "sm"})
"""Those that a build for several GPUs shares with the builds of other instruction sets."""


def marked(values: Mapping[str, str], placeholders: Iterable[str]) -> dict[str, str]:
    """`values` with a mark in place of those of `placeholders`."""
    return {**values, **{key: f"{_OPEN}{OWN[key]}{_CLOSE}" for key in placeholders}}


def quoted(text: str) -> str:
    """`text` as a word of a shell, as `shlex.quote` writes it. Of a variant's own values only the flags need quotes."""
    plain = _MARK.sub(lambda mark: mark["dollar"] + (" " if mark["name"] == OWN["flags"] else "_"), text)
    return text if shlex.quote(plain) == plain else shlex.quote(text)


def expanded(text: str) -> str:
    """The Nix text with an expression in place of each mark."""
    text = _WHOLE.sub(r"\1", text)
    # `$${` would be text.
    text = _MARK.sub(lambda mark: ('${"$"}' if mark["dollar"] else "") + f"${{{mark['name']}}}", text)
    return _INHERITED.sub(r"\1inherit \2;", text)


def marks_in(text: str) -> frozenset[str]:
    """The names that the marks in `text` stand for."""
    return frozenset(mark["name"] for mark in _MARK.finditer(text))


def named_in(texts: Iterable[str]) -> bool:
    """Whether a text names a placeholder of `OWN`."""
    return any(f"@{key}@" in text for text in texts for key in OWN)
