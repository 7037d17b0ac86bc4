"""Workflows as types: the parts of GitHub's workflow syntax that the compiler uses.

The fields of a class are the keys of its YAML mapping, in the order in which they are written: `_` is written as `-`, a
`_` at the end is dropped, and a field with the value None is left out. `Part.node` makes the plain nodes that `writer`
prints.

What must hold for every workflow holds by construction: its own token may do nothing, each job states its permissions
and its time limit, each action is pinned, and no script contains an expression.

https://docs.github.com/actions/reference/workflows-and-actions/workflow-syntax
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, ClassVar

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
    """The node of a part or of a collection, which holds either parts or what is plain already."""
    if isinstance(value, Part):
        return value.node()
    if isinstance(value, (dict, Mapping)):
        return {key: part.node() for key, part in value.items()} if _are_parts(value.values()) else value
    return [part.node() for part in value] if _are_parts(value) else value


def _are_parts(items: Iterable[Any]) -> bool:
    return isinstance(next(iter(items), None), Part)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Permissions(Part):
    """What a token may do: for each scope "read", "write" (with a remark that says why), or None for no access."""

    contents: str | None = None
    pages: str | None = None
    id_token: str | None = None
    attestations: str | None = None
    artifact_metadata: str | None = None


READ = Permissions(contents="read")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Concurrency(Part):
    """A group of runs or jobs of which one at a time is in progress."""

    group: str
    cancel_in_progress: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Environment(Part):
    """A deployment environment. GitHub shows `url` with the deployment."""

    name: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Input(Part):
    """An input of a dispatch or of a called workflow. `options` are those of the type "choice"."""

    description: str
    type: str = "string"
    required: bool | None = True
    default: str | bool | None = None
    options: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Secret(Part):
    """A secret that a called workflow accepts."""

    description: str
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class OnDispatch(Part):
    """Run by hand or through the API."""

    event: ClassVar[str] = "workflow_dispatch"
    inputs: Mapping[str, Input] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class OnPush(Part):
    """Run by a push to one of the branches that changes a file that one of the patterns matches."""

    event: ClassVar[str] = "push"
    branches: Sequence[str]
    paths: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class OnPullRequest(Part):
    """Run by a pull request into one of the branches."""

    event: ClassVar[str] = "pull_request"
    branches: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class OnSchedule(Part):
    """Run at the times that `cron` matches, in UTC."""

    event: ClassVar[str] = "schedule"
    cron: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class OnCall(Part):
    """Called by another workflow."""

    event: ClassVar[str] = "workflow_call"
    inputs: Mapping[str, Input]
    secrets: Mapping[str, Secret]


Trigger = OnDispatch | OnPush | OnPullRequest | OnSchedule | OnCall


def _on(trigger: Trigger) -> Node:
    """The value below the trigger's event: None without options, and a list for schedules."""
    node = trigger.node()
    return [node] if isinstance(trigger, OnSchedule) else node or None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Step(Part):
    """A step of a job or of a composite action."""

    name: str
    id: str | None = None
    if_: str | None = None
    continue_on_error: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class UsesStep(Step):
    """A step that uses an action: one that is `pinned`, or one of the repository (`./` and its folder)."""

    uses: str
    with_: Mapping[str, Node] | None = None

    def __post_init__(self) -> None:
        """Raises ValueError for any other action."""
        if not self.uses.startswith("./") and self.uses != pinned(self.uses.partition("@")[0]):
            message = f"step {self.name!r} uses `{self.uses}`, which is not the pin in pins.json"
            raise ValueError(message)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Job(Part):
    """A job with steps."""

    name: str
    needs: Sequence[str] | None = None
    if_: str | None = None
    runs_on: str
    timeout_minutes: int
    permissions: Permissions
    outputs: Mapping[str, str] | None = None
    env: Mapping[str, str] | None = None
    environment: str | Environment | None = None
    concurrency: Concurrency | None = None
    steps: Sequence[Step]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Strategy(Part):
    """A job's matrix. `matrix` holds `include`, an expression whose value is the list of legs."""

    fail_fast: bool = False
    matrix: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CallJob(Part):
    """A job that calls a compiled workflow. GitHub allows it no time limit; the called jobs have theirs.

    `permissions` are the most that a job of the called workflow can ask for.
    """

    name: str
    needs: str | Sequence[str] | None = None
    if_: str | None = None
    strategy: Strategy | None = None
    uses: str
    permissions: Permissions
    with_: Mapping[str, Node]
    secrets: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Workflow(Part):
    """A workflow file. Its own token may do nothing: each job is granted what it needs."""

    name: str
    run_name: str | None = None
    on: Sequence[Trigger]
    permissions: Permissions = field(default=Permissions(), init=False)
    concurrency: Concurrency | None = None
    jobs: Mapping[str, Job | CallJob]

    def node(self) -> dict[str, Node]:
        """The document."""
        ordered = Part.node(replace(self, on=(), jobs={}))
        on: Node = {trigger.event: _on(trigger) for trigger in self.on}
        return ordered | {"on": on, "jobs": Spaced({name: job.node() for name, job in self.jobs.items()})}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Composite(Part):
    """What a composite action runs."""

    using: str = "composite"
    steps: Sequence[Step]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Action(Part):
    """The `action.yml` of a composite action."""

    name: str
    description: str
    runs: Composite
