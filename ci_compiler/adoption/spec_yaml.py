"""YAML as people write specs: short mappings and lists on one line, others one entry per line, remarks at the end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from ci_compiler.workflows.writer import WIDTH, quoted

_WORDS = re.compile(r"[A-Za-z_][A-Za-z0-9_./=+-]*(?: [A-Za-z0-9_./=+-]+)*")
_DIGITS_FIRST = re.compile(r"[0-9][A-Za-z0-9._=+-]*")
_READ_AS_ANOTHER = re.compile(r"[0-9][0-9_]*(\.[0-9_]*)?([eE][-+]?[0-9]+)?|0[xob][0-9a-fA-F_]+|\d{4}-\d\d?-\d\d?.*")


def scalar(value: str | int) -> str:
    """A scalar, quoted where YAML 1.1 or 1.2 would read another type."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if _DIGITS_FIRST.fullmatch(value) and not _READ_AS_ANOTHER.fullmatch(value):
        return value
    return quoted(value) if _WORDS.fullmatch(value) else json.dumps(value, ensure_ascii=False)


def flow(value: object) -> str:
    """Any value on one line."""
    if isinstance(value, Mapping):
        items = [f"{scalar(key)}: {flow(item) or '{}'}" for key, item in value.items()]
        return f"{{{', '.join(items)}}}" if value else ""
    if isinstance(value, str | int):
        return scalar(value)
    if isinstance(value, Sequence):
        return f"[{', '.join(map(flow, value))}]"
    message = f"{value!r} is not a value of a spec"
    raise TypeError(message)


def entry(key: str, value: object, indent: str = "", remark: str = "", *, block: bool = False) -> Iterator[str]:
    """The lines of `key: value`: one line if it fits and need not be a `block`, else one per entry."""
    said = f"  # {remark}" if remark else ""
    head = f"{indent}{scalar(key)}:"
    line = f"{head} {flow(value)}".rstrip()
    if isinstance(value, Mapping) and value and (block or len(line + said) > WIDTH):
        yield head + said
        for name, item in value.items():
            yield from entry(name, item, indent + "  ")
    elif (
        isinstance(value, Sequence)
        and any(isinstance(item, Mapping) for item in value)
        and (block or len(line) > WIDTH)
    ):
        yield head + said
        for item in value:
            yield f"{indent}  - {flow(item)}"
    else:
        if len(line + said) > WIDTH and remark:
            yield f"{indent}# {remark}"
            said = ""
        yield line + said
