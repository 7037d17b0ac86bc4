"""Whether a spec can hold a text, by its schema; hashes in the form that a spec has them."""

from __future__ import annotations

import base64
import re

from ci_compiler.backends.nar import hex_digest
from ci_compiler.spec.schema import schema


def fits(definition: str, text: str, *keys: str) -> bool:
    """Whether `text` matches the schema's `definition`; `keys` lead to a property within it."""
    rule = schema()["$defs"][definition]
    for key in keys:
        rule = rule["properties"][key]
    return re.search(rule["pattern"], text) is not None and len(text) <= rule.get("maxLength", len(text))


def sri(text: str) -> str:
    """A SHA-256 hash in SRI form, given in that, in Nix's base 32, hexadecimal or base 64; '' for anything else."""
    digits = text.removeprefix("sha256:").removeprefix("sha256-")
    try:
        is_base_64 = len(digits) not in {52, 64}
        digest = base64.b64decode(digits, validate=True) if is_base_64 else bytes.fromhex(hex_digest(digits))
    except (ValueError, OverflowError):
        return ""
    return f"sha256-{base64.b64encode(digest).decode()}" if len(digest) == 32 else ""
