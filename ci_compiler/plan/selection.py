"""What an event builds: one mechanism for pushes, dispatches, pull requests and merge groups.

The compiled `select` jobs run `ci-compile choose`. It asks this module for the `question` that an event raises, has it
answered by `sync.events`, which looks at the repository, and has this module `decide`. What counts of an event are the
inputs and the ref of a dispatch, the commit before a push, and what a pull request or a merge group is merged into.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_compiler.codes import Code
from ci_compiler.errors import nearest, wrong
from ci_compiler.outside import reading
from ci_compiler.plan.handed import HandedFiles
from ci_compiler.plan.limits import limit
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.needs import hands_files
from ci_compiler.plan.profiles import builds, conditions_of, names_built
from ci_compiler.plan.routing import Route
from ci_compiler.plan.sharding import ALL, UNPUBLISHED, Shard, job_counter
from ci_compiler.spec.axes import PARTS
from ci_compiler.spec.patterns import matcher_of_any
from ci_compiler.spec.triggers import NIGHTLY, PROFILE, PULL_REQUEST, PUSH, SINCE
from ci_compiler.spec.versions import NIGHT, has_nights
from ci_compiler.units import grouped

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
        return list(dict.fromkeys(cell.key for cell, _ in self.cells))


class Selection(NamedTuple):
    """What an event builds, by branch. `ref` is the branch that a request comes from ('': a fork's, or no request)."""

    branches: tuple[RunSelection, ...] = ()
    ref: str = ""


class Rebuilt(NamedTuple):
    """The names of the variants of a branch that a change rebuilds; `onto` as in `RunSelection`."""

    variants: Sequence[str]
    onto: str = ""


class Question(NamedTuple):
    """What must be known about an event before `decide` can be asked.

    The change is compared with the commit `base` ('': with none), for the branch `branch`. `names` are the variants of
    which it matters whether they are published. What differs from one of the commits `since` changed as well.
    """

    branch: str
    base: str = ""
    names: tuple[str, ...] = ()
    since: tuple[str, ...] = ()


class Facts(NamedTuple):
    """The answer to a `Question`: what the change rebuilds, by branch, and which of the names are published."""

    rebuilt: Mapping[str, Rebuilt] = MappingProxyType({})
    published: Collection[str] = ()


def question(plan: Plan, event: GitHubEvent, shard: Shard | None = None, *, base: str = "") -> Question:
    """What must be known to decide what `event` builds: of `shard`, or of a pull request or a merge group.

    `base` is the commit that these are merged into (`sync.events.request_base`). Raises InputError if nothing of the
    kind runs on the event, if it names an unknown variant, or if it asks to publish from another branch.
    """
    if shard is None:
        branch = request_of(event).branch
        return Question(branch, base if branch in plan.spec.branches else "")
    match event.name:
        case "workflow_dispatch":
            _check_ref(shard, str(event.payload.get("ref", "")), publish=_asks_to_publish(event))
            names = tuple(_dispatched(shard, event))
            _check_profile(plan.spec, event)
            since = tuple(commit for commit in str(_inputs(event).get(SINCE) or "").split() if commit != NO_COMMIT)
            return Question(shard.branch, names=names if _variant(event) == UNPUBLISHED else (), since=since)
        case "push":
            before = str(event.payload.get("before", NO_COMMIT))
            return Question(shard.branch, "" if before == NO_COMMIT else before)
        case _:
            raise wrong("event", Code.UNKNOWN_EVENT, f"no shard runs on {event.name!r}")


def decide(plan: Plan, event: GitHubEvent, facts: Facts, shard: Shard | None = None) -> Selection:
    """What `event` builds, by the answer to its `question`, which has accepted it.

    Of a shard, that is what a push changed or a dispatch names. A pull request or a merge group builds the cells that
    it rebuilds on any branch, or representatives of them.
    """
    if shard is None:
        return _of_request(plan, event, facts)
    wanted: Sequence[str] = shard.variants
    if event.name == "workflow_dispatch":
        left = {*facts.published, *_unchanged(shard, facts), *_unprofiled(plan, shard, profile_of(event))}
        wanted = [name for name in _dispatched(shard, event) if name not in left]
    else:
        if shard.branch in facts.rebuilt:
            wanted = facts.rebuilt[shard.branch].variants
        wanted = names_built(plan.spec, PUSH, (cell for cell, _ in shard.cells), wanted)
    wanted = HandedFiles(plan.spec, plan.judged.cells).built_as_well(shard.branch, wanted)
    cells = in_profile(plan.spec, shard, profile_of(event))
    return Selection((_choice(shard.branch, cells, Rebuilt(wanted)),))


def without(
    plan: Plan, selection: Selection, branch: str, complete: Mapping[str, str]
) -> tuple[Selection, dict[str, list[str]]]:
    """`selection` without the variants of `branch` that are `complete`, unless what remains cannot fetch them.

    `complete` has the run that completed each. Also returns the names that are left out, by that run.
    """
    handed = HandedFiles(plan.spec, plan.judged.cells)

    def left(one: RunSelection) -> RunSelection:
        if one.branch != branch or one.onto:
            return one
        wanted = handed.built_as_well(branch, [name for name in one.variants if name not in complete])
        return _choice(branch, one.cells, Rebuilt(wanted))._replace(left=one.left)

    rest = selection._replace(branches=tuple(map(left, selection.branches)))
    kept = {name for one in rest.branches for name in one.variants}
    gone = (
        name for other in selection.branches if other.branch == branch for name in other.variants if name not in kept
    )
    return rest, grouped(gone, complete.__getitem__)


def asks_again(event: GitHubEvent) -> bool:
    """Whether a dispatch asks for what is complete as well."""
    return str(_inputs(event).get("again", "")).lower() == "true"


def may_publish(spec: Spec, shard: Shard, event: GitHubEvent) -> bool:
    """Whether a run of `shard` on `event` publishes what passes its tests."""
    return spec.branches[shard.branch].publish and (
        _asks_to_publish(event) or (event.name == "push" and spec.publish.on_push)
    )


def _asks_to_publish(event: GitHubEvent) -> bool:
    return str(_inputs(event).get("publish", "")).lower() == "true"


def night_of(event: GitHubEvent) -> str:
    """The date of the night that a dispatch is for; '' if it is for none."""
    return str(_inputs(event).get(NIGHT) or "")


def profile_of(event: GitHubEvent) -> str:
    """The profile that a run is of: a push, or a dispatch that names one; '' for none."""
    return PUSH if event.name == "push" else str(_inputs(event).get(PROFILE) or "")


def names_of_profile(plan: Plan, profile: str, branch: str) -> set[str]:
    """The names of the variants of a branch that `profile` builds, of the representatives if it asks for these.

    Raises InputError for a profile that the spec lacks.
    """
    spec = plan.spec
    conditions_of(spec, profile)
    parts = [part for part in zip(plan.judged.cells, plan.routes, strict=True) if part[0].branch == branch]
    parts = [part for part in parts if builds(spec, profile, part[0])]
    if profile == NIGHTLY and spec.profiles.nightly and spec.profiles.nightly.representatives:
        parts = [*within_limit(parts, spec.profiles.nightly.representatives)]
    return {variant.name for cell, _ in parts for variant in cell.variants}


def _unprofiled(plan: Plan, shard: Shard, profile: str) -> Iterable[str]:
    """The variants of `shard` that `profile` ('': none) leaves out."""
    return {*shard.variants} - names_of_profile(plan, profile, shard.branch) if profile else ()


def _unchanged(shard: Shard, facts: Facts) -> Iterable[str]:
    """The variants of `shard` that a run leaves out that builds what changed."""
    return {*shard.variants} - {*facts.rebuilt[shard.branch].variants} if shard.branch in facts.rebuilt else ()


def _check_profile(spec: Spec, event: GitHubEvent) -> None:
    """Raises InputError for a dispatch of a profile that no run is of, or with inputs that do not belong to it."""
    profile, night, started = profile_of(event), night_of(event), spec.profiles.started
    if profile and profile not in started:
        near = nearest(profile, started) or "; `profiles` of the spec declares them"
        message = f"no run is of the profile {profile!r}{near}"
        raise wrong("event", Code.UNKNOWN_PROFILE, message)
    if profile and _asks_to_publish(event) and not spec.profiles.publishes(profile, on_push=spec.publish.on_push):
        raise wrong("event", Code.WRONG_OPTION, f"it asks to publish, which the profile {profile} does not")
    if profile and has_nights(spec) and (profile == NIGHTLY) is not bool(night):
        message = f"the input {NIGHT}, a date, belongs to the profile {NIGHTLY} and to no other"
        raise wrong("event", Code.WRONG_OPTION, message)
    if _inputs(event).get(SINCE) and not started.get(profile):
        message = f"the input {SINCE}, a commit, belongs to a profile that builds what changed"
        raise wrong("event", Code.WRONG_OPTION, message)


def _inputs(event: GitHubEvent) -> Mapping[str, Any]:
    """The inputs of a dispatch."""
    return event.payload.get("inputs") or {}


def _variant(event: GitHubEvent) -> str:
    """What a dispatch asks for: a choice of its form, or a name."""
    return str(_inputs(event).get("variant", ""))


def _of_request(plan: Plan, event: GitHubEvent, facts: Facts) -> Selection:
    request = request_of(event)
    if request.branch not in plan.spec.branches:
        return Selection()
    handed = HandedFiles(plan.spec, plan.judged.cells)
    labels = _labels(event)
    rebuilt = {
        name: one._replace(variants=handed.built_as_well(name, one.variants)) for name, one in facts.rebuilt.items()
    }
    cells = {
        name: [part for shard in plan.shards if shard.branch == name for part in in_request(plan.spec, shard)]
        for name in rebuilt
    }
    whole = {name: _choice(name, cells[name], one) for name, one in rebuilt.items()}
    able = {
        name: _choice(name, cells[name], one._replace(variants=handed.built_as_well(name, wanted)))
        for name, one in rebuilt.items()
        for wanted in [names_built(plan.spec, PULL_REQUEST, [cell for cell, _ in cells[name]], one.variants, labels)]
    }
    taken = _with_needed(handed, able, most_cells(plan))
    built = {name: one._replace(variants=able[name].variants) for name, one in rebuilt.items()}
    chosen = {
        name: _choice(name, [part for part in taken if part[0].branch == name], one) for name, one in built.items()
    }
    parts = tuple(
        one._replace(left=tuple(name for name in whole[branch].variants if name not in set(one.variants)))
        for branch, one in chosen.items()
        if whole[branch].variants
    )
    return Selection(branches=parts, ref=request.head)


def _with_needed(handed: HandedFiles, whole: Mapping[str, RunSelection], most: int) -> Sequence[tuple[Cell, Route]]:
    """As `within_limit` for the cells of `whole`, with the cells that build what they need.

    If these are too many, fewer cells are built. At least one is, with all that it needs.
    """
    cells = [part for selection in whole.values() for part in selection.cells]
    taken: Sequence[tuple[Cell, Route]] = within_limit(cells, most)
    number = most
    while number and hands_files(handed.spec):
        kept = {(cell.branch, variant.name) for cell, _ in within_limit(cells, number) for variant in cell.variants}
        names = {
            (branch, name)
            for branch, part in whole.items()
            for name in handed.built_as_well(branch, (name for name in part.variants if (branch, name) in kept))
        }
        taken = [part for part in cells if any((part[0].branch, variant.name) in names for variant in part[0].variants)]
        number = 0 if len(taken) <= most else number - 1
    return taken


def in_request(spec: Spec, shard: Shard) -> tuple[tuple[Cell, Route], ...]:
    """The cells of `shard` with their routes in a pull request or a merge group."""
    left_out = spec.profiles.left_out(PULL_REQUEST)
    return tuple((cell, route.of_request(left_out)) for cell, route in shard.cells)


def in_profile(spec: Spec, shard: Shard, profile: str) -> tuple[tuple[Cell, Route], ...]:
    """The cells of `shard` with their routes in a run of `profile` ('': none)."""
    if profile == PULL_REQUEST:
        return in_request(spec, shard)
    left_out = spec.profiles.left_out(profile)
    return tuple((cell, route.in_profile(profile, left_out)) for cell, route in shard.cells)


def _labels(event: GitHubEvent) -> tuple[str, ...]:
    """The labels of a pull request; none for a merge group."""
    with reading("event", Code.UNKNOWN_EVENT):
        labels = (event.payload.get("pull_request") or {}).get("labels") or ()
        return tuple(str(one["name"]) for one in labels)
    return ()


class Request(NamedTuple):
    """A change to be merged into `branch`.

    `head` is the branch of this repository that it comes from; '' for a fork's request, which builds nothing. A merge
    group names the commit `base` that it is made on. A pull request does not: its `base.sha` is older than its merge.
    `commit` is the last one of its own.
    """

    branch: str
    head: str
    base: str = ""
    commit: str = ""


def request_of(event: GitHubEvent) -> Request:
    """The change that a pull request or a merge group is about. Raises InputError for another event."""
    with reading("event", Code.UNKNOWN_EVENT):
        match event.payload:
            case {"pull_request": Mapping() as request}:
                commit = str((request.get("head") or {}).get("sha", ""))
                return Request(str(request["base"]["ref"]), _own_head(request), commit=commit)
            case {"merge_group": Mapping() as group}:
                branch, head = (str(group[key]).removeprefix("refs/heads/") for key in ("base_ref", "head_ref"))
                return Request(branch, head, base=str(group["base_sha"]))
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
    """What a test of `cell` covers: its values, with what its machines must have, and its packages."""
    axes = {axis: getattr(cell, axis) for axis in ("branch", "python", "toolkit", "target", "isa")}
    own = {axis: value for axis, value in cell.values if axis not in PARTS}
    listed = {("variant", cell.listed)} if cell.listed else set()
    return {*(axes | own).items(), *listed, *(("package", variant.package) for variant in cell.variants)}


def _check_ref(shard: Shard, ref: str, *, publish: bool) -> None:
    """Raises InputError for a dispatch that asks to publish at another ref than the shard's branch."""
    if publish and ref != f"refs/heads/{shard.branch}":
        message = f"it asks to publish from {ref or 'nowhere'}, but {shard.name} publishes only from {shard.branch}"
        raise wrong("event", Code.WRONG_REF, f"{message}; start it with --ref {shard.branch}, or without publish")


def _dispatched(shard: Shard, event: GitHubEvent) -> Sequence[str]:
    """The variants that a form names: the input `variant` is a choice or a name, `only` has patterns that narrow it."""
    variant, only = _variant(event), str(_inputs(event).get("only") or "")
    if variant not in {ALL, UNPUBLISHED, *shard.variants}:
        message = f"{variant!r} is not in {shard.name}{nearest(variant, shard.variants)}"
        raise wrong("event", Code.UNKNOWN_VARIANT, message)
    names = shard.variants if variant in {ALL, UNPUBLISHED} else [variant]
    if only:
        names = [*filter(matcher_of_any(only.split(), "event"), names)]
    if not names:
        raise wrong("event", Code.UNKNOWN_VARIANT, f"{only!r} matches no variant of {shard.name}")
    return names


def _choice(branch: str, cells: Sequence[tuple[Cell, Route]], rebuilt: Rebuilt) -> RunSelection:
    wanted = frozenset(rebuilt.variants)
    kept = tuple((cell, route) for cell, route in cells if any(v.name in wanted for v in cell.variants))
    names = tuple(v.name for cell, _ in kept for v in cell.variants if v.name in wanted)
    return RunSelection(branch=branch, variants=names, cells=kept, onto=rebuilt.onto)
