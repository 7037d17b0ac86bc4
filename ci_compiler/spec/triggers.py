"""The keys of the spec for what events do: pull requests, schedules, and a push of the spec itself."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Literal

from ci_compiler.spec.axes import Conditions, When, to_when
from ci_compiler.spec.declare import declared, form, key
from ci_compiler.stages import Stage, stages_that_test


@declared()
class PullRequest:
    """What a pull request from a branch of this repository builds."""

    cells: int = key(
        "The most cells that it builds, as far as GitHub's limit of jobs in a run allows; if more are affected, it "
        "builds a representative of every value of every axis.",
        title="a number of cells from 0 to 64",
        minimum=0,
        maximum=64,
        default=12,
    )
    comment: bool = key(
        "Whether its workflow keeps a comment on it with the meaning, the cost and the results. Needs the permission "
        "to write `pull-requests`. A request of a fork gets none.",
        default=False,
    )


PULL_REQUEST, PUSH, NIGHTLY, RELEASE = "pull-request", "push", "nightly", "release"
"""The profiles, and their keys."""

PROFILE, SINCE = "profile", "since"
"""The inputs of a run with the profile that it is of, and with the commit since which its variants changed."""

CHANGED = "changed"
"""What a night builds that builds only what changed."""

AnyOf = tuple[When, ...]
"""Conditions of which one must hold."""

GitHubLabel = Annotated[str, form(title="the name of a label on GitHub", pattern="^[^,\\s][^,]{0,49}$")]


def _any_of(rows: Iterable[Mapping[str, object]]) -> AnyOf:
    return tuple(map(to_when, rows))


def _variants() -> AnyOf:
    return key(  # type: ignore[no-any-return]
        "The variants that it builds: those for which one of the conditions holds. Left out: all.",
        written=tuple[Conditions, ...],
        convert=_any_of,
        minItems=1,
        default=(),
        published=False,
        examples=[[{"accelerator": "cpu"}, {"python": "3.13", "isa": "avx2"}]],
    )


Tests = tuple[Annotated[Stage, form(enum=list(map(str, stages_that_test())))], ...]
"""Stages that test."""


def _tests(of: str = "") -> Tests:
    return key(  # type: ignore[no-any-return]
        f"The tests that it runs, with their suites. Left out: all{of}.",
        default=stages_that_test(),
        published=False,
        examples=[["cpu-test"]],
    )


Days = Annotated[
    tuple[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"], ...],
    form(title="a list of days (mon, tue, wed, thu, fri, sat, sun)", minItems=1),
]


@declared()
class Times:
    """When a workflow starts by the clock."""

    days: Days = key("Days of the week.")
    at: str = key(
        "The time of day. On the hour, GitHub is busiest.",
        title="a time of day (HH:MM)",
        pattern="^([01][0-9]|2[0-3]):[0-5][0-9]$",
        default="02:17",
    )
    timezone: str = key(
        "The time zone of `at` and `days`.",
        title="a time zone of the IANA database (such as Europe/Berlin)",
        pattern="^[A-Z][A-Za-z]+(/[A-Z][A-Za-z_+-]*[0-9]*)*$",
        default="UTC",
        examples=["Europe/Berlin"],
    )


@declared()
class Schedule(Times):
    """Scheduled builds. One workflow, `schedule.yml`, starts the shards in waves."""

    build: Literal["all", "unpublished"] = key(
        "`all` variants, or only those that are still `unpublished`.", default="unpublished"
    )


@declared("profile")
class PushProfile:
    """What a push builds of what it rebuilds. The rest is left to the schedule, to a night, or to a dispatch."""

    variants: AnyOf = _variants()
    batch: Literal["15m", "30m", "60m", "2h", "4h", "6h", "12h"] | None = key(
        "How often `push-batch.yml` builds what was pushed: what changed since the last complete run of each shard. A "
        "push itself then starts no shard.",
        title="a period (15m, 30m, 60m, 2h, 4h, 6h, 12h)",
        default=None,
        examples=["60m"],
    )
    tests: Tests = _tests()


@declared("request-profile")
class RequestProfile:
    """What a pull request builds and tests of what it rebuilds, and what its labels add."""

    variants: AnyOf = _variants()
    labels: Mapping[GitHubLabel, AnyOf] = key(
        "Labels of a pull request, each with the variants that it adds.",
        written=Mapping[GitHubLabel, tuple[Conditions, ...]],
        convert=lambda labels: {name: _any_of(rows) for name, rows in labels.items()},
        default={},
        published=False,
        examples=[{"ciflow/next": [{"python": "3.14"}]}],
    )
    tests: Tests = _tests(" that a pull request can run")


@declared()
class NightlyProfile:
    """What a night builds. `nightly.yml` starts it, with the versions of nights where packages have them."""

    schedule: Times = key()
    build: Literal["all", "unpublished", "changed"] = key(
        "Of its variants `all`, those that are still `unpublished`, or those that `changed` since the last complete "
        "night of their shard.",
        default="all",
    )
    variants: AnyOf = _variants()
    representatives: int | None = key(
        "The most cells of a branch that it builds: representatives of every value of every axis. Left out: all.",
        title="a number of cells from 1 to 64",
        minimum=1,
        maximum=64,
        default=None,
        examples=[12],
    )
    tests: Tests = _tests()
    publish: bool = key("Whether it publishes what passes its tests.", default=False)


@declared()
class ReleaseProfile:
    """What a release builds. `release.yml` starts it when a tag is pushed to the tip of a branch."""

    tags: tuple[Annotated[str, form(title="a tag, with * for any text", pattern="^[A-Za-z0-9._*-]+$")], ...] = key(
        "The tags of releases. What is built and published has one of them.", minItems=1, examples=[["v*"]]
    )
    variants: AnyOf = _variants()
    tests: Tests = _tests()
    publish: bool = key("Whether it publishes what passes its tests.", default=True)


@declared()
class Profiles:
    """What each event builds. Without a profile, a push builds all that it rebuilds."""

    pull_request: RequestProfile = key(default=RequestProfile())
    push: PushProfile = key(default=PushProfile())
    nightly: NightlyProfile | None = key(default=None)
    release: ReleaseProfile | None = key(default=None)

    @property
    def variants(self) -> Mapping[str, AnyOf]:
        """The conditions of each profile, of which one must hold; () for everything. Only of those that there are."""
        own = {NIGHTLY: self.nightly, RELEASE: self.release}
        always = {PULL_REQUEST: self.pull_request.variants, PUSH: self.push.variants}
        return always | {name: one.variants for name, one in own.items() if one}

    @property
    def started(self) -> Mapping[str, bool]:
        """The profiles whose runs `ci-compile start` starts, each with whether it builds only what changed."""
        batch = {PUSH: True} if self.push.batch else {}
        night = {NIGHTLY: self.nightly.build == CHANGED} if self.nightly else {}
        return {**batch, **night, **({RELEASE: False} if self.release else {})}

    def left_out(self, name: str) -> tuple[Stage, ...]:
        """The tests that a run of a profile leaves out; none if the spec has no such profile."""
        always = {PULL_REQUEST: self.pull_request.tests, PUSH: self.push.tests}
        own = {NIGHTLY: self.nightly, RELEASE: self.release}
        tests = (always | {key: one.tests for key, one in own.items() if one}).get(name, stages_that_test())
        return tuple(stage for stage in stages_that_test() if stage not in tests)

    @property
    def leaves_tests_out(self) -> bool:
        """Whether runs of some shard leave tests out, by their profile."""
        return any(map(self.left_out, (PUSH, NIGHTLY, RELEASE)))

    def publishes(self, name: str, *, on_push: bool) -> bool:
        """Whether a run of a profile publishes; `on_push`: whether pushes do."""
        own = {NIGHTLY: self.nightly, RELEASE: self.release}.get(name)
        return own.publish if own else name == PUSH and on_push

    @property
    def conditions(self) -> Iterator[tuple[tuple[str | int, ...], When]]:
        """Each condition of a profile, with its path in the spec."""
        for name, rows in self.variants.items():
            yield from ((("profiles", name, "variants", index), when) for index, when in enumerate(rows))
        for name, rows in self.pull_request.labels.items():
            path = ("profiles", PULL_REQUEST, "labels", name)
            yield from (((*path, index), when) for index, when in enumerate(rows))


@declared()
class Sync:
    """The workflow `sync.yml`, which carries a change of the spec from the default branch to the other branches.

    Its environment `sync` holds the key of a GitHub App. The token of GitHub Actions can neither push workflows nor
    start them.
    """

    on_push: Literal["push", "pull-request"] = key(
        "What a push to the default branch does: `push` to every branch, or open one `pull-request` per branch.",
        examples=["pull-request"],
    )


@declared()
class Watch:
    """What `fleet-watch.yml` asks in addition: which jobs wait too long, which machines and scale sets are missing, and
    which workflows GitHub disabled. It opens an issue about what it finds, updates it, and closes it.
    """

    longest_wait: int = key(
        "Minutes that a job may wait for a runner. GitHub cancels a job that waits for 24 hours.",
        title="a number of minutes from 10 to 1440 (a day)",
        minimum=10,
        maximum=1440,
        default=360,
    )
    rerun_lost: bool = key(
        "Whether it also runs the failed jobs of a shard's run again, once, if each of them lost its runner. Needs the "
        "permission to write `actions`.",
        default=False,
    )
