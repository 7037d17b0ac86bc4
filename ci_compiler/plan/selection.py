"""What an event builds: one mechanism for pushes, dispatches, pull requests and merge groups.

The compiled `select` jobs run `ci-compile choose`, which reads GitHub's event and calls this module. From an event
it reads the inputs and the ref of a dispatch, and the base commit of a push, a pull request or a merge group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_compiler.codes import Code
from ci_compiler.errors import nearest, wrong
from ci_compiler.outside import reading
from ci_compiler.plan.limits import limit
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.routing import Route
from ci_compiler.plan.sharding import ALL, UNPUBLISHED, Shard, job_counter
from ci_compiler.spec.patterns import matcher_of_any

if TYPE_CHECKING:
    from ci_compiler.plan.pipeline import Plan
    from ci_compiler.spec.model import Spec

NO_COMMIT = "0" * 40
"""What GitHub states as the commit before a push that created the branch."""

OWN_JOBS = 5
"""The jobs of a pull request's run besides those of its cells."""


class GitHubEvent(NamedTuple):
    """A GitHub event: its name and payload (https://docs.github.com/webhooks/webhook-events-and-payloads)."""

    name: str
    payload: Mapping[str, Any]


class RunSelection(NamedTuple):
    """What a run builds of one branch: the names of variants, and their cells with routes.

    `onto` is what its jobs check out, as `sync.landing` writes it ('': the commit of the run). `left` are the variants
    that are rebuilt as well, but need a dispatch.
    """

    branch: str
    variants: tuple[str, ...]
    cells: tuple[tuple[Cell, Route], ...]
    onto: str = ""
    left: tuple[str, ...] = ()

    @property
    def suffixes(self) -> list[str]:
        """The cells as the conditions of their jobs name them."""
        return [cell.suffix for cell, _ in self.cells]


class RequestSelection(NamedTuple):
    """What a pull request or a merge group builds, by branch. `ref` is the branch that it comes from ('': a fork's)."""

    branches: tuple[RunSelection, ...] = ()
    ref: str = ""


class Rebuilt(NamedTuple):
    """The names of the variants of a branch that a change rebuilds; `onto` as in `RunSelection`."""

    variants: Sequence[str]
    onto: str = ""


Affected = Callable[[str, str], Sequence[str]]
"""A function of a commit and a branch: the names of its variants that differ between that commit and the checkout."""

Landed = Callable[[str, str], Mapping[str, Rebuilt]]
"""A function of the base commit and the base branch of a pull request: what the checkout rebuilds on each branch."""


def of_shard(shard: Shard, event: GitHubEvent, affected: Affected, published: Callable[[str], bool]) -> RunSelection:
    """What `event` builds of `shard`.

    Raises InputError if no shard runs on it, if it names an unknown variant, or if it asks to publish from elsewhere.
    """
    match event.name:
        case "workflow_dispatch":
            inputs = event.payload.get("inputs") or {}
            _check_ref(shard, str(event.payload.get("ref", "")), publish=_asks_to_publish(event))
            wanted = _dispatched(shard, str(inputs.get("variant", "")), str(inputs.get("only") or ""), published)
        case "push":
            before = str(event.payload.get("before", NO_COMMIT))
            wanted = shard.variants if before == NO_COMMIT else affected(before, shard.branch)
        case _:
            raise wrong("event", Code.UNKNOWN_EVENT, f"no shard runs on {event.name!r}")
    return _choice(shard.branch, shard.cells, Rebuilt(wanted))


def may_publish(spec: Spec, shard: Shard, event: GitHubEvent) -> bool:
    """Whether a run of `shard` on `event` publishes what passes its tests."""
    return spec.branches[shard.branch].publish and (
        _asks_to_publish(event) or (event.name == "push" and spec.publish.on_push)
    )


def _asks_to_publish(event: GitHubEvent) -> bool:
    return str((event.payload.get("inputs") or {}).get("publish", "")).lower() == "true"


def of_pull_request(plan: Plan, event: GitHubEvent, landed: Landed) -> RequestSelection:
    """What a pull request or a merge group builds: the cells that it rebuilds on any branch, or representatives.

    Raises InputError for an event of another kind.
    """
    with reading("event", Code.UNKNOWN_EVENT):
        request = _request(event)
    if request.branch not in plan.spec.branches:
        return RequestSelection()
    rebuilt = landed(request.base, request.branch)
    whole = {
        name: _choice(name, [part for shard in plan.shards if shard.branch == name for part in in_request(shard)], one)
        for name, one in rebuilt.items()
    }
    taken = within_limit([part for one in whole.values() for part in one.cells], most_cells(plan))
    chosen = {
        name: _choice(name, [part for part in taken if part[0].branch == name], one) for name, one in rebuilt.items()
    }
    parts = tuple(
        one._replace(left=tuple(name for name in whole[branch].variants if name not in set(one.variants)))
        for branch, one in chosen.items()
        if whole[branch].variants
    )
    return RequestSelection(branches=parts, ref=request.head)


def in_request(shard: Shard) -> tuple[tuple[Cell, Route], ...]:
    """The cells of `shard` with their routes in a pull request or a merge group."""
    return tuple((cell, route.of_request()) for cell, route in shard.cells)


class _Request(NamedTuple):
    """A change to be merged into `branch`, which is at the commit `base`.

    `head` is the branch of this repository that it comes from; '' for a fork's request, which builds nothing.
    """

    branch: str
    base: str
    head: str


def _request(event: GitHubEvent) -> _Request:
    match event.payload:
        case {"pull_request": Mapping() as request}:
            return _Request(str(request["base"]["ref"]), str(request["base"]["sha"]), _own_head(request))
        case {"merge_group": Mapping() as group}:
            branch, head = (str(group[key]).removeprefix("refs/heads/") for key in ("base_ref", "head_ref"))
            return _Request(branch, str(group["base_sha"]), head)
        case _:
            raise wrong("event", Code.UNKNOWN_EVENT, f"{event.name!r} is neither a pull request nor a merge group")


def _own_head(request: Mapping[str, Any]) -> str:
    """The branch of this repository that a pull request comes from; '' for a fork's request, which builds nothing."""
    head, base = request.get("head") or {}, request["base"]
    own = (head.get("repo") or {}).get("full_name") == (base.get("repo") or {}).get("full_name")
    return str(head.get("ref", "")) if own else ""


def most_cells(plan: Plan) -> int:
    """The most cells that a pull request builds: the spec's number, or fewer to stay within GitHub's limit of jobs."""
    jobs = max(map(job_counter(plan.spec), plan.judged.cells))
    return min(plan.spec.pull_request.cells, (limit("jobs").gate - OWN_JOBS) // jobs)


def within_limit(cells: Sequence[tuple[Cell, Route]], most: int) -> tuple[tuple[Cell, Route], ...]:
    """`cells` if they are at most `most`, else representatives of them."""
    return tuple(cells) if len(cells) <= most else representatives(cells, most)


def representatives(cells: Sequence[tuple[Cell, Route]], most: int) -> tuple[tuple[Cell, Route], ...]:
    """At most `most` of `cells`, in their order, that together cover as many values of each axis as possible.

    The choice is greedy: it always takes the cell with the most values that are not covered yet, and the first of
    several such cells. An additional cell elsewhere in the matrix therefore changes the choice little.
    """
    shown: set[tuple[str, str]] = set()
    taken: set[int] = set()
    for _ in range(min(most, len(cells))):
        fresh = [len(_values(cell) - shown) if index not in taken else -1 for index, (cell, _) in enumerate(cells)]
        best = fresh.index(max(fresh))
        if fresh[best] <= 0:
            break
        taken.add(best)
        shown |= _values(cells[best][0])
    return tuple(part for index, part in enumerate(cells) if index in taken)


def _values(cell: Cell) -> set[tuple[str, str]]:
    if cell.listed:
        return {("branch", cell.branch), ("listed", cell.listed)}
    axes = ("branch", "python", "cuda", "gpu", "isa")
    return {(axis, getattr(cell, axis)) for axis in axes}


def _check_ref(shard: Shard, ref: str, *, publish: bool) -> None:
    """Raises InputError for a dispatch that asks to publish at another ref than the shard's branch."""
    if publish and ref != f"refs/heads/{shard.branch}":
        message = f"it asks to publish from {ref or 'nowhere'}, but {shard.name} publishes from {shard.branch} alone"
        raise wrong("event", Code.WRONG_REF, f"{message}; start it with --ref {shard.branch}, or without publish")


def _dispatched(shard: Shard, variant: str, only: str, published: Callable[[str], bool]) -> Sequence[str]:
    """The variants that a form asks for: `variant` is a choice or a name, `only` patterns that narrow it down."""
    if variant not in {ALL, UNPUBLISHED, *shard.variants}:
        message = f"{variant!r} is not in {shard.name}{nearest(variant, shard.variants)}"
        raise wrong("event", Code.UNKNOWN_VARIANT, message)
    names = shard.variants if variant in {ALL, UNPUBLISHED} else [variant]
    if only:
        try:
            matches = matcher_of_any(only.split())
        except ValueError as error:
            raise wrong("event", Code.WRONG_PATTERN, str(error)) from None
        names = [name for name in names if matches(name)]
    if not names:
        raise wrong("event", Code.UNKNOWN_VARIANT, f"{only!r} matches no variant of {shard.name}")
    return [name for name in names if not published(name)] if variant == UNPUBLISHED else names


def _choice(branch: str, cells: Sequence[tuple[Cell, Route]], rebuilt: Rebuilt) -> RunSelection:
    wanted = frozenset(rebuilt.variants)
    kept = tuple((cell, route) for cell, route in cells if any(v.name in wanted for v in cell.variants))
    names = tuple(v.name for cell, _ in kept for v in cell.variants if v.name in wanted)
    return RunSelection(branch=branch, variants=names, cells=kept, onto=rebuilt.onto)
