"""Whether a spec can hold a text, by its schema; hashes in the form that a spec has them."""

from __future__ import annotations

import base64
import re

from ci_compiler.spec.schema import schema

_NIX_DIGITS = "0123456789abcdfghijklmnpqrsvwxyz"


def fits(definition: str, text: str, *keys: str) -> bool:
    """Whether `text` matches the schema's `definition`; `keys` lead to a property within it."""
    rule = schema()["$defs"][definition]
    for key in keys:
        rule = rule["properties"][key]
    return re.search(rule["pattern"], text) is not None and len(text) <= rule.get("maxLength", len(text))


def keys(definition: str) -> frozenset[str]:
    """The keys of the schema's `definition`; `spec` is the whole file."""
    whole = schema()
    return frozenset((whole if definition == "spec" else whole["$defs"][definition])["properties"])


def sri(text: str) -> str:
    """A SHA-256 hash in SRI form, given in that, in Nix's base 32, hexadecimal or base 64; '' for anything else."""
    digits = text.removeprefix("sha256:").removeprefix("sha256-")
    try:
        if re.fullmatch(r"[0-9a-fA-F]{64}", digits):
            digest = bytes.fromhex(digits)
        elif len(digits) == 52 and set(digits) <= set(_NIX_DIGITS):
            digest = _from_base32(digits)
        else:
            digest = base64.b64decode(digits, validate=True)
    except ValueError:
        return ""
    return f"sha256-{base64.b64encode(digest).decode()}" if len(digest) == 32 else ""


def _from_base32(text: str) -> bytes:
    """Nix's base 32 (nix/src/libutil/hash.cc): five bits per digit, the last digit first. Raises ValueError."""
    number = 0
    for digit in text:
        number = number << 5 | _NIX_DIGITS.index(digit)
    if number >> 256:
        message = "more than 256 bits"
        raise ValueError(message)
    return number.to_bytes(32, "little")
