"""Edits of a spec's text that leave every other byte as it is: comments, order, quotes, line ends.

An edit sets or removes the value at a path. Its place is taken from the marks of the YAML parser, and the result is
parsed again: it must have exactly the edited values.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from ci_compiler.adoption.spec_yaml import entry, flow, scalar
from ci_compiler.codes import Code
from ci_compiler.errors import InputError, wrong
from ci_compiler.spec.load import Path_, parse_document


class Edit(NamedTuple):
    """The value to set at `path` (text, a list of texts, or a mapping of values); None removes the key."""

    path: Path_
    value: Any


def edited(text: str, edits: Iterable[Edit], *, shown: str) -> str:
    """`text` with `edits`, one after the other. Raises InputError for a place that cannot be edited."""
    wanted = copy.deepcopy(parse_document(text.encode(), shown=shown).value)
    for edit in edits:
        change_value(wanted, edit)
        made = _removed(text, edit.path) if edit.value is None else _put(text, edit.path, edit.value)
        if _value(made, shown) != wanted:
            where = ".".join(map(str, edit.path))
            change = f"remove `{where}`" if edit.value is None else f"write `{where}: {flow(edit.value)}`"
            raise wrong(shown, Code.WRONG_VALUE, f"`{where}` cannot be edited here; {change} by hand")
        text = made
    return text


def change_value(value: Any, change: Edit) -> None:
    """Makes `change` in a plain value. A mapping that loses its last key is removed."""
    *outer, last = change.path
    around = [value]
    for key in outer:
        inner = around[-1].get(key) if isinstance(around[-1], dict) else around[-1][key]
        if inner is None and isinstance(around[-1], dict):
            if change.value is None:
                return
            inner = around[-1][key] = {}
        around.append(inner)
    if change.value is not None:
        around[-1][last] = copy.deepcopy(change.value)
        return
    for at, key in reversed([*enumerate(change.path)]):
        around[at].pop(key, None)
        if around[at]:
            return


def _value(text: str, shown: str) -> Any:
    try:
        return parse_document(text.encode(), shown=shown).value
    except InputError:
        return None


# Setting a value.


def _put(text: str, path: Path_, value: Any) -> str:
    node, rest = found_node(text, path)
    if rest:
        for key in reversed(rest[1:]):
            value = {key: value}
        return _inserted(text, node, str(rest[0]), value)
    if isinstance(node, ScalarNode) and isinstance(value, str):
        quote = node.style if node.style in {"'", '"'} else ""
        made = f"{quote}{value}{quote}" if quote else scalar(value)
        return _replaced(text, node, made)
    if isinstance(node, MappingNode) and node.value and isinstance(value, Mapping):
        for key in [key.value for key, _ in node.value if key.value not in value]:
            text = _removed(text, (*path, key))
        for key, item in value.items():
            text = _put(text, (*path, key), item)
        return text
    return _replaced(text, node, _on_one_line(node, value))


def _on_one_line(node: Node, value: Any) -> str:
    return f" {flow(value)}" if node.start_mark.index == node.end_mark.index else flow(value)


def _replaced(text: str, node: Node, made: str) -> str:
    return text[: node.start_mark.index] + made + text[_end(text, node) :]


def _inserted(text: str, node: Node, key: str, value: Any) -> str:
    """`text` with a new last key in the mapping `node`, in the mapping's own style."""
    if not isinstance(node, MappingNode):
        return _replaced(text, node, _on_one_line(node, {key: value}))
    if not node.value:
        return _replaced(text, node, flow({key: value}))
    end = _end(text, node.value[-1][1])
    if node.flow_style:
        return f"{text[:end]}, {scalar(key)}: {flow(value)}{text[end:]}"
    newline = "\r\n" if "\r\n" in text else "\n"
    indent = " " * node.value[0][0].start_mark.column
    lines = newline.join(entry(key, value, indent, block=_is_block(value)))
    stop = text.find("\n", end)
    if stop < 0:
        return f"{text}{newline}{lines}"
    return f"{text[: stop + 1]}{lines}{newline}{text[stop + 1 :]}"


def _is_block(value: Any) -> bool:
    """Whether a value is written over several lines wherever it stands: a mapping of mappings."""
    return isinstance(value, Mapping) and any(isinstance(item, Mapping) for item in value.values())


# Removing a key.


def _removed(text: str, path: Path_) -> str:
    """`text` without the key at `path`, or without the outermost mapping that would be empty then."""
    node, rest = found_node(text, path[:-1])
    if rest or not isinstance(node, MappingNode):
        return text
    at = next((at for at, (key, _) in enumerate(node.value) if key.value == path[-1]), None)
    if at is None:
        return text
    if len(node.value) == 1 and len(path) > 1:
        return _removed(text, path[:-1])
    key, value = node.value[at]
    start, end = key.start_mark.index, max(key.end_mark.index + 1, _end(text, value))
    if node.flow_style:
        if at + 1 < len(node.value):
            end = node.value[at + 1][0].start_mark.index
        elif at:
            start = _end(text, node.value[at - 1][1])
        return text[:start] + text[end:]
    start = text.rfind("\n", 0, start) + 1
    stop = text.find("\n", end)
    return text[:start] + ("" if stop < 0 else text[stop + 1 :])


# The parser's marks.


def found_node(text: str, path: Path_) -> tuple[Node, Path_]:
    """The innermost node on `path`, and the rest of the path, which the text lacks."""
    node: Node = yaml.compose(text, Loader=yaml.CBaseLoader)  # type: ignore[assignment]  # a spec is not empty
    for at, key in enumerate(path):
        inner = None
        if isinstance(node, MappingNode):
            inner = next((value for name, value in node.value if name.value == key), None)
        elif isinstance(node, SequenceNode) and isinstance(key, int):
            inner = node.value[key]
        if inner is None:
            return node, path[at:]
        node = inner
    return node, ()


def _end(text: str, node: Node) -> int:
    """Where the text of `node` ends; the mark of a block is after the comments that follow it."""
    if not isinstance(node, MappingNode | SequenceNode) or node.flow_style:
        end: int = node.end_mark.index
        return max(node.start_mark.index, len(text[:end].rstrip())) if end > node.start_mark.index else end
    last = node.value[-1]
    return _end(text, last[1] if isinstance(last, tuple) else last)


def repeated(text: str, path: Path_, name: str) -> str:
    """`text` in which the entry at `path` of a mapping stands once more directly after itself, as `name`."""
    node, _ = found_node(text, path[:-1])
    assert isinstance(node, MappingNode)  # noqa: S101 - the caller knows the entry
    key, value = next(pair for pair in node.value if pair[0].value == path[-1])
    start, end = key.start_mark.index, _end(text, value)
    rest = text[key.end_mark.index : end]
    if node.flow_style:
        return f"{text[:end]}, {scalar(name)}{rest}{text[end:]}"
    stop = text.find("\n", end)
    newline = "\r\n" if "\r\n" in text else "\n"
    whole, joint = (text, newline) if stop < 0 else (text[: stop + 1], "")
    copied = text[text.rfind("\n", 0, start) + 1 : start] + scalar(name) + text[key.end_mark.index : len(whole)]
    return f"{whole}{joint}{copied}{text[len(whole) :]}"
