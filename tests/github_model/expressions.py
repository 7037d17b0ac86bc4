"""GitHub's expressions in whole texts, each question asked once: `tests.checkers` has the evaluator.

Contexts are JSON texts by name, so that a question is its own key: the text, and the contexts that it names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from tests.checkers import condition_values, expression_values
from tests.checkers.expressions import ExpressionError

JsonTexts = Mapping[str, str]
"""Contexts by name, each as JSON; `status()` is the state that the status functions ask for."""

_CONTEXTS = ("github", "needs", "inputs", "vars", "matrix", "strategy", "steps", "secrets", "env", "runner", "jobs")
_STATUS = "status()"
_STRING = re.compile(r"'(?:[^']|'')*'")
_NAMED = re.compile(rf"(?<![.\w-])({'|'.join(_CONTEXTS)})(?![\w-])")
_EXPRESSION = re.compile(r"\$\{\{.*?\}\}", re.DOTALL)

_known: dict[tuple[str | None, ...], Any] = {}


@cache
def _parts(text: str) -> tuple[tuple[str, bool], ...]:
    """The parts of `text`, each with whether it is an expression."""
    found: list[tuple[str, bool]] = []
    end = 0
    for match in _EXPRESSION.finditer(text):
        found += [(text[end : match.start()], False), (match[0], True)]
        end = match.end()
    return tuple(part for part in [*found, (text[end:], False)] if part[0])


@cache
def _named(expression: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_NAMED.findall(_STRING.sub("", expression))))


def _asked(expression: str, contexts: JsonTexts, *, condition: bool) -> Any:
    names = (*_named(expression), _STATUS) if condition else _named(expression)
    key = (expression, str(condition), *map(contexts.get, names))
    if key not in _known:
        given = {name: json.loads(contexts[name]) for name in names if name in contexts and name != _STATUS}
        given |= {_STATUS: contexts[_STATUS]} if condition else {}
        ask = condition_values if condition else expression_values
        try:
            (_known[key],) = ask([(expression, given)])
        except ExpressionError as error:
            _known[key] = error
    if isinstance(_known[key], ExpressionError):
        raise _known[key]
    return _known[key]


def condition(text: str, contexts: JsonTexts) -> bool:
    """Whether a job or step with this `if:` runs."""
    return bool(_asked(text, contexts, condition=True))


def evaluated(node: Any, contexts: JsonTexts) -> Any:
    """A node of a workflow with its expressions replaced: one alone keeps its type, others become text."""
    if isinstance(node, str):
        return _text(node, contexts) if "${{" in node else node
    if not isinstance(node, dict | list):
        return node
    names = _named_in(node)
    key = (id(node), *map(contexts.get, names))
    if key not in _nodes:
        if isinstance(node, dict):
            _nodes[key] = {name: evaluated(value, contexts) for name, value in node.items()}
        else:
            _nodes[key] = [evaluated(value, contexts) for value in node]
    return _nodes[key]


_nodes: dict[tuple[Any, ...], Any] = {}
_kept: dict[int, tuple[Any, tuple[str, ...]]] = {}
"""The contexts that each node names. The nodes stay alive, so that no other gets the identity of one."""


def _named_in(node: Any) -> tuple[str, ...]:
    if id(node) not in _kept:
        parts = (part for text in _texts(node) for part, is_one in _parts(text) if is_one)
        _kept[id(node)] = node, tuple(dict.fromkeys(name for part in parts for name in _named(part)))
    return _kept[id(node)][1]


def _texts(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict | list):
        for value in node.values() if isinstance(node, dict) else node:
            yield from _texts(value)


def _text(text: str, contexts: JsonTexts) -> Any:
    values = [_asked(part, contexts, condition=False) if is_one else part for part, is_one in _parts(text)]
    return values[0] if len(values) == 1 else "".join(map(shown, values))


def shown(value: Any) -> str:
    """A value as GitHub writes it into text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def text_of(node: Any, contexts: JsonTexts) -> str:
    """A node of a workflow as text."""
    return shown(evaluated(node, contexts))
