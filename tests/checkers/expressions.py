"""GitHub's expressions, evaluated by GitHub's own code: for truth tables of `if:` and `runs-on:`.

Contexts are plain data: `{"github": {"event_name": "push"}, "needs": {"build": {"result": "success"}}}`. Only the
given ones exist: naming another is an error, as it is on GitHub where a context is not available.

The status functions ask for the key `"status()"` among the contexts: "success", "failure", "cancelled", or "skipped"
(none of these). Without it, the results of `needs` decide as on GitHub: any failure is a failure, success needs all
of them, and cancelled() is false, since it is about the run and not about a job. On GitHub the jobs above those in
`needs` count as well: a table that is about them gives `"status()"`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from .node import ask

Contexts: TypeAlias = Mapping[str, object]
Case: TypeAlias = tuple[str, Contexts]


class ExpressionError(ValueError):
    """GitHub's evaluator rejects the expression; the message is GitHub's own."""


def expression_values(cases: Iterable[Case]) -> list[Any]:
    """The values of (expression, contexts) pairs, as plain data; an expression may stand in `${{ }}` or without."""
    return _evaluated(cases, condition=False)


def expression_value(expression: str, contexts: Contexts) -> Any:
    """The value of one expression."""
    return expression_values([(expression, contexts)])[0]


def condition_values(cases: Iterable[Case]) -> list[bool]:
    """Whether jobs or steps with these `if:` texts run: without a status function, `success() &&` is put before."""
    return _evaluated(cases, condition=True)


def condition_value(condition: str, contexts: Contexts) -> bool:
    """Whether a job or step with this `if:` runs."""
    return condition_values([(condition, contexts)])[0]


def _evaluated(cases: Iterable[Case], *, condition: bool) -> list[Any]:
    pairs = [(expression, dict(contexts)) for expression, contexts in cases]
    question = [{"expression": text, "contexts": contexts, "condition": condition} for text, contexts in pairs]
    answers = ask("expressions", question)
    for (text, contexts), answer in zip(pairs, answers, strict=True):
        if "error" in answer:
            raise ExpressionError(f"{text!r} with {contexts}: {answer['error']}")
    return [answer["value"] for answer in answers]
