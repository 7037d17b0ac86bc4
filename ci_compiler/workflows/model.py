"""Workflows as types: the parts of GitHub's workflow syntax that the compiler uses.

The fields of a class are the keys of its YAML mapping, in the order in which they are written: `_` is written as `-`, a
`_` at the end is dropped, and a field with the value None is left out. `Part.node` makes the plain nodes that `writer`
prints. What needs no check and no default, such as a trigger or a concurrency group, is a plain node from the start.

What must hold for every workflow holds by construction: its own token may do nothing, each job states its permissions
and its time limit, each action is pinned, and no script contains an expression.

https://docs.github.com/actions/reference/workflows-and-actions/workflow-syntax
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any

from ci_compiler.workflows.pins import pinned
from ci_compiler.workflows.writer import Node, Spaced


class Part:
    """A part of a file that is written as a mapping."""

    __slots__ = ()

    def node(self) -> dict[str, Node]:
        """The mapping."""
        kind: Any = type(self)
        return {
            key: value if isinstance(value, (str, int)) else _plain(value)
            for name, key in _keys(kind)
            if (value := getattr(self, name)) is not None
        }


@cache
def _keys(kind: Any) -> tuple[tuple[str, str], ...]:
    """The fields of a class with their keys."""
    return tuple((one.name, one.name.rstrip("_").replace("_", "-")) for one in fields(kind))


def _plain(value: Any) -> Node:
    """The node of a collection, which holds either parts or what is plain already."""
    if isinstance(value, (dict, Mapping)):  # an exact type first: checks against abstract classes are slow
        parts = isinstance(next(iter(value.values()), None), Part)
        return {key: part.node() for key, part in value.items()} if parts else value
    return [part.node() for part in value] if isinstance(next(iter(value), None), Part) else value


Permissions = dict[str, str]
"""What a token may do: "read" or "write" (with a remark that says why) by scope; nothing in any other scope."""

READ: Permissions = {"contents": "read"}


def input_node(description: str, kind: str = "string", *, required: bool = True, **more: Node) -> dict[str, Node]:
    """An input of a dispatch or of a called workflow, with its type and `more` options of that type."""
    return {"description": description, "type": kind, "required": required, **more}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Part):
    """A step of a job or of a composite action."""

    name: str
    id: str | None = None
    if_: str | None = None
    continue_on_error: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStep(Step):
    """A step that runs a script. A composite action must state the `shell`; elsewhere GitHub has a default."""

    shell: str | None = None
    env: Mapping[str, str] | None = None
    run: str

    def __post_init__(self) -> None:
        """Raises ValueError for an expression in the script, where its value would run as code."""
        if "${{" in self.run:
            message = f"the script of step {self.name!r} contains an expression; pass the value in `env`"
            raise ValueError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsesStep(Step):
    """A step that uses an action: one that is `pinned`, or one of the repository (`./` and its folder)."""

    uses: str
    with_: Mapping[str, Node] | None = None

    def __post_init__(self) -> None:
        """Raises ValueError for any other action."""
        if not self.uses.startswith("./") and self.uses != pinned(self.uses.partition("@")[0]):
            message = f"step {self.name!r} uses `{self.uses}`, which is not the pin in pins.json"
            raise ValueError(message)


def action_step(name: str, action: str, with_: Mapping[str, Node] | None = None, **more: Any) -> UsesStep:
    """A step that uses `action` at its pin. `more` are further fields of the step. Raises KeyError without a pin."""
    return UsesStep(name=name, uses=pinned(action), with_=with_, **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Part):
    """A job with steps."""

    name: str
    needs: Sequence[str] | None = None
    if_: str | None = None
    strategy: Mapping[str, Node] | None = None
    runs_on: str | list[str] | dict[str, str | list[str]]
    timeout_minutes: int | str
    permissions: Permissions
    outputs: Mapping[str, str] | None = None
    env: Mapping[str, str] | None = None
    environment: Node = None
    concurrency: Mapping[str, Node] | None = None
    steps: Sequence[Step]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallJob(Part):
    """A job that calls a compiled workflow. GitHub allows it no time limit; the called jobs have theirs.

    `permissions` are the most that a job of the called workflow can ask for (None: those of the workflow).
    """

    name: str
    needs: Sequence[str] | None = None
    if_: str | None = None
    strategy: Mapping[str, Node] | None = None
    uses: str
    permissions: Permissions | None = None
    with_: Mapping[str, Node] | None = None
    secrets: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow(Part):
    """A workflow file. Its token may do nothing unless it says so: each job is granted what it needs.

    `on` has the triggers with their options, None for a trigger without any.
    """

    name: str
    run_name: str | None = None
    on: Mapping[str, Node]
    permissions: Permissions = field(default_factory=dict)
    env: Mapping[str, str] | None = None
    concurrency: Mapping[str, Node] | None = None
    jobs: Mapping[str, Job | CallJob]

    def node(self) -> dict[str, Node]:
        """The document, with a blank line between its jobs."""
        made: dict[str, Any] = Part.node(self)
        return made | {"jobs": Spaced(made["jobs"])}
