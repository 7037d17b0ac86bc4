"""Reading a spec's text: YAML to plain values, with the line and column of every key and value.

PyYAML's composer returns a tree of nodes with their positions: libyaml's, since one in Python takes a hundred times as
long. Its resolver knows YAML 1.1, so plain scalars are resolved here, by YAML 1.2's core schema. This module rejects
what a spec does not need: tags, merge keys, duplicate keys, aliases that expand to a huge tree. The file is untrusted,
so each rejection is a finding with its place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Never

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.reader import ReaderError

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, Place
from ci_compiler.outside import TooLargeError, bytes_of, why
from ci_compiler.secret import TOKEN

Path_ = tuple[str | int, ...]
"""The path of a value in the document: keys and list indexes from the root."""

LARGEST_FILE = 1_000_000
LARGEST_TREE = 50_000
DEEPEST = 50
"""The most bytes, nodes with aliases expanded, and levels of a spec; the bundled one has 3 kB, 300 nodes, 6 levels."""

_OF_LINES = {("work-arounds", key) for key in ("overlay", "post-patch", "pre-configure")}
"""The first and last key of the values that may have several lines."""

_CORE = "tag:yaml.org,2002:"
_DIRECTIVE = re.compile(r"(?:^|(?<=[\r\x85\u2028\u2029\ufeff]))%\w*", re.MULTILINE)
"""A line that is a directive in YAML, such as `%YAML 1.1`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A parsed spec: its plain value, the places of values and of keys, and the original text of numbers.

    `guessed` are the lines with a comment that begins with "guessed", as `ci-compile adopt` writes them.
    """

    file: str
    value: Any
    values: Mapping[Path_, Place]
    keys: Mapping[Path_, Place]
    typed: Mapping[Path_, str]
    guessed: tuple[int, ...] = ()

    def place(self, path: Path_, *, key: bool = False) -> Place:
        """The place of the value (or the key) at `path`, or of the key of the innermost value that the file has."""
        first, second = (self.keys, self.values) if key else (self.values, self.keys)
        while path and path not in first and path not in second:
            path, first, second = path[:-1], self.keys, self.values
        return first.get(path) or second.get(path) or Place(file=self.file)


def read_document(path: Path, *, shown: str) -> Document:
    """The spec at `path`, called `shown` in findings. Raises InputError if it cannot be read or is not valid YAML."""
    try:
        data = bytes_of(path, LARGEST_FILE)
    except FileNotFoundError:
        _refuse(Place(file=shown), Code.SPEC_MISSING, "no such file; `ci-compile init` writes a first one")
    except IsADirectoryError:
        _refuse(Place(file=shown), Code.SPEC_UNREADABLE, "is a directory; a spec is a YAML file")
    except TooLargeError as error:
        _refuse(Place(file=shown), Code.SPEC_TOO_LARGE, why(error))
    except OSError as error:
        _refuse(Place(file=shown), Code.SPEC_UNREADABLE, why(error))
    return parse_document(data, shown=shown)


def parse_document(data: bytes, *, shown: str) -> Document:
    """The spec in `data`. Raises InputError with the place of the error."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        place = Place(file=shown, line=line, column=column)
        _refuse(place, Code.SPEC_NOT_UTF8, f"byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8")
    if token := TOKEN.search(text):
        message = (
            "a token, which all who read the repository can use; revoke it, and keep another as a secret of GitHub"
        )
        _refuse(_place_at(shown, text, token.start()), Code.SPEC_CREDENTIAL, message)
    if directive := _DIRECTIVE.search(text):
        place = _place_at(shown, text, directive.start())
        _refuse(place, Code.SPEC_SYNTAX, f"{directive[0]} is a YAML directive, which a spec must not have; remove it")
    root = _compose(text, shown)
    if root is None:
        _refuse(Place(file=shown), Code.SPEC_EMPTY, "is empty; delete it, and `ci-compile init` writes a first one")
    _Tree(shown).check(root)
    builder = _Builder(shown)
    value = builder.build(root, ())
    guessed = tuple(number for number, line in enumerate(text.splitlines(), 1) if "# guessed" in line)
    return Document(
        file=shown, value=value, values=builder.values, keys=builder.keys, typed=builder.typed, guessed=guessed
    )


def _place_at(shown: str, text: str, index: int) -> Place:
    return Place(file=shown, line=text.count("\n", 0, index) + 1, column=index - text.rfind("\n", 0, index))


class _Loader(yaml.CBaseLoader):
    """libyaml's parser with YAML 1.2's core schema (https://yaml.org/spec/1.2.2/#103-core-schema)."""


for _tag, _plain in {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
    "float": r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
    "merge": r"<<",
}.items():
    _Loader.add_implicit_resolver(_CORE + _tag, re.compile(f"^(?:{_plain})$"), None)


def _compose(text: str, shown: str) -> Node | None:
    # libyaml takes quadratic time for nested brackets, and its composer a stack frame for each level.
    if max(accumulate((char in "[{") - (char in "]}") for char in text), default=0) > DEEPEST:
        _refuse(Place(file=shown), Code.SPEC_SYNTAX, f"nested deeper than {DEEPEST} levels, the limit for a spec")
    try:
        if _depth(text, shown) > DEEPEST:
            _refuse(Place(file=shown), Code.SPEC_SYNTAX, f"nested deeper than {DEEPEST} levels, the limit for a spec")
        node: Node | None = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        from ci_compiler.spec.yaml_errors import explained  # only a wrong spec needs it

        line, column, message = explained(error, text)
        _refuse(Place(file=shown, line=line, column=column), Code.SPEC_SYNTAX, message)
    except ReaderError as error:
        before = text.encode()[: error.position].decode(errors="replace")
        place = Place(file=shown, line=before.count("\n") + 1, column=len(before) - before.rfind("\n"))
        _refuse(place, Code.SPEC_SYNTAX, f"not YAML: {error.reason}")
    return node


def _depth(text: str, shown: str) -> int:
    """How deep the collections in `text` are nested. Raises yaml.YAMLError, and InputError for too many values."""
    starts, ends = (yaml.MappingStartEvent, yaml.SequenceStartEvent), (yaml.MappingEndEvent, yaml.SequenceEndEvent)
    depth = deepest = count = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, starts) - isinstance(event, ends)
        deepest = max(deepest, depth)
        count += isinstance(event, yaml.NodeEvent)
        if count > LARGEST_TREE:
            _refuse(
                Place(file=shown), Code.SPEC_TOO_LARGE, f"has more than {LARGEST_TREE:,} values, the limit for a spec"
            )
    return deepest


class _Tree:
    """Counts the nodes of a tree with its aliases expanded, visiting each once; rejects huge trees and cycles."""

    def __init__(self, shown: str) -> None:
        self.shown = shown
        self.sizes: dict[int, int] = {}
        self.open: set[int] = set()

    def check(self, node: Node) -> int:
        if id(node) in self.open:
            _refuse(_place(self.shown, node), Code.SPEC_ALIAS, "an alias for a value that contains the alias")
        if id(node) not in self.sizes:
            self.open.add(id(node))
            self.sizes[id(node)] = 1 + sum(map(self.check, _children(node)))
            self.open.remove(id(node))
            if self.sizes[id(node)] > LARGEST_TREE:
                message = f"aliases expand to more than {LARGEST_TREE:,} values, the limit for a spec"
                _refuse(_place(self.shown, node), Code.SPEC_ALIAS, message)
        return self.sizes[id(node)]


class _Builder:
    """Turns nodes into plain values and records the place of each."""

    def __init__(self, shown: str) -> None:
        self.shown = shown
        self.values: dict[Path_, Place] = {}
        self.keys: dict[Path_, Place] = {}
        self.typed: dict[Path_, str] = {}

    def build(self, node: Node, path: Path_) -> Any:
        self.values[path] = _place(self.shown, node)
        if isinstance(node, MappingNode) and node.tag == _CORE + "map":
            return self._mapping(node, path)
        if isinstance(node, SequenceNode) and node.tag == _CORE + "seq":
            return [self.build(item, (*path, index)) for index, item in enumerate(node.value)]
        if not isinstance(node, ScalarNode):
            _refuse(_place(self.shown, node), Code.SPEC_TAG, f"the tag {node.tag} is not allowed in a spec; remove it")
        return self._scalar(node, path)

    def _mapping(self, node: MappingNode, path: Path_) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            place = _place(self.shown, key_node)
            if not isinstance(key_node, ScalarNode):
                said = "a key must be a word, not a list or a mapping"
                if isinstance(key_node, MappingNode) and not any(value.value for _, value in key_node.value):
                    said = (
                        "two braces are a mapping as a key to YAML, and nothing fills in a spec; write the value itself"
                    )
                _refuse(place, Code.SPEC_KEY, said)
            key = self._text(key_node)
            if key_node.tag == _CORE + "merge":
                _refuse(place, Code.SPEC_MERGE, "merge keys (<<) are not part of YAML 1.2; write the keys out")
            if key in result:
                first = self.keys[(*path, key)].line
                _refuse(
                    place, Code.SPEC_DUPLICATE_KEY, f"the key {key!r} is already on line {first}; remove one of them"
                )
            self.keys[(*path, key)] = place
            result[key] = self.build(value_node, (*path, key))
        return result

    def _scalar(self, node: ScalarNode, path: Path_) -> str | int | float | bool | None:
        text = self._text(node, lines=len(path) == 3 and path[::2] in _OF_LINES)
        match str(node.tag).removeprefix(_CORE):
            case "str":
                return text
            case "null":
                return None
            case "bool":
                return text.lower() == "true"
            case "int" | "float" as kind:
                self.typed[path] = text
                return _number(text, whole=kind == "int")
            case _:
                return _refuse(
                    _place(self.shown, node), Code.SPEC_TAG, f"the tag {node.tag} is not allowed in a spec; remove it"
                )

    def _text(self, node: ScalarNode, *, lines: bool = False) -> str:
        """The scalar's text. Invisible characters are rejected, and so are line breaks unless `lines`.

        They could only mislead a reader.
        """
        text: str = node.value
        allowed = "\n" if lines else ""
        if odd := next((char for char in text if not char.isprintable() and char not in allowed), None):
            said = f"contains the invisible character {odd.encode('unicode_escape').decode()}; remove it"
            if odd == "\n":
                said = "a text of several lines; write it on one line, and a list with `- ` before each entry"
            _refuse(_place(self.shown, node), Code.SPEC_CHARACTER, said)
        return text


def _number(text: str, *, whole: bool) -> int | float:
    """The number that a scalar stands for; NaN, which no key accepts, if Python cannot read its notation."""
    try:
        return int(text, 10 if text.lstrip("+-").isdigit() else 0) if whole else float(text)
    except ValueError:
        return float("nan")


def _children(node: Node) -> list[Node]:
    if isinstance(node, MappingNode):
        return [child for pair in node.value for child in pair]
    return list(node.value) if isinstance(node, SequenceNode) else []


def _place(shown: str, node: Node) -> Place:
    mark = node.start_mark
    return Place(file=shown, line=mark.line + 1, column=mark.column + 1)


def _refuse(place: Place, code: Code, message: str) -> Never:
    raise InputError([Finding(place=place, code=code, message=message)])
