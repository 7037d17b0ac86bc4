"""What is wrong with the fleet on GitHub, as far as the tokens may see it: read, judged, and put in words.

A check that could not be made is stated as such. It never counts as passed: an issue about it stays open.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import NamedTuple, TypeVar

from ci_compiler.github.client import Client
from ci_compiler.github.errors import GitHubError
from ci_compiler.github.inventory import UNSEEN, Inventory, Runner, inventory
from ci_compiler.github.queue import Labels, Queue, queue
from ci_compiler.github.workflows import disabled
from ci_compiler.plan.pipeline import Plan
from ci_compiler.runner.controller.runner_names import QUARANTINED, read_name
from ci_compiler.runner.coverage import PATIENCE, UNSERVED, CoverageVerdict, LabelSet, Served, cover, label_sets
from ci_compiler.runner.scale_sets import scale_set_of
from ci_compiler.spec.model import Watch
from ci_compiler.units import duration, markdown_text

MARKER = "<!-- ci-compiler fleet-watch:"
"""The start of the line in the body by which the issue is found. The checks that found something follow."""

TITLE = "The fleet needs attention"

_CHECKS = re.compile(rf"{re.escape(MARKER)}([a-z ]*)-->")


class Check(StrEnum):
    """What the watch looks at, as the marker names it."""

    RUNNERS = "runners"
    SETS = "scalesets"
    QUEUE = "queue"
    WORKFLOWS = "workflows"


_NEEDS = {
    Check.RUNNERS: "Administration: read for the repository's runners, and Self-hosted runners: read for those of its "
    "organisation",
    Check.QUEUE: "Actions: read",
    Check.WORKFLOWS: "Actions: read",
}
"""The permissions of a fine-grained token or an App (GitHub Docs, "Permissions required for GitHub Apps")."""

Answer = TypeVar("Answer")


class Remark(NamedTuple):
    """What a check found about a `subject`, or why it could not be made. `url`: a page on GitHub about it, or ''.

    `harmless`: jobs wait longer, but none is lost.
    """

    check: Check
    subject: str
    words: str
    url: str = ""
    harmless: bool = False

    def __str__(self) -> str:
        return f"{self.subject}: {self.words}"


class WatchReport(NamedTuple):
    """What was found, and what could not be seen."""

    problems: tuple[Remark, ...]
    unseen: tuple[Remark, ...]


def unserved(one: Served) -> Remark:
    """A label set whose jobs wait until GitHub cancels them."""
    who = "no runner serves" if one.verdict is CoverageVerdict.NOBODY else "no runner is online for"
    words = f"{who} the {sum(one.asked.jobs.values())} jobs of pool {one.asked.pool}"
    return Remark(Check.RUNNERS, str(one.asked), words)


def quarantined(runners: Iterable[Runner]) -> Iterator[Remark]:
    """The slots that take no jobs, because their machine is sick."""
    words = "a slot of its machine is in quarantine; the log of the machine's controller says why"
    for runner in runners:
        if QUARANTINED in runner.labels:
            yield Remark(Check.RUNNERS, runner.name, words, harmless=True)


def of_runners(served: Iterable[Served], *, all_seen: bool) -> Iterator[Remark]:
    """The label sets that nobody serves and, if all runners were seen, the pools with too few machines online.

    The machines of scale sets are not counted: they are online only while they work.
    """
    for label_set in served:
        if label_set.verdict in UNSERVED:
            yield unserved(label_set)
        elif all_seen and label_set.verdict in {CoverageVerdict.ONLINE, CoverageVerdict.BUSY} and not label_set.scales:
            online = {_machine(runner.name) for runner in label_set.runners if runner.online}
            if len(online) < label_set.asked.machines:
                asked = label_set.asked
                words = f"{len(online)} of the {asked.machines} machines of pool {asked.pool} are online"
                yield Remark(Check.RUNNERS, str(asked), words, harmless=True)


def _machine(name: str) -> str:
    """The machine of a runner. Runners that the controller did not create count as one machine each."""
    read = read_name(name)
    return read.host if read else name


def of_queue(
    served: Iterable[Served], waiting: Queue, *, longest: float, now: float, all_seen: bool
) -> Iterator[Remark]:
    """The label sets whose oldest job has waited for more than `longest` seconds. `now`: seconds since 1970.

    `all_seen`: all runners were seen, so that a scale set without any has none.
    """
    for label_set in served:
        wanted = labels_of_jobs(label_set.asked)
        oldest = next((job for job in waiting.jobs if job.labels == wanted), None)
        if oldest is None or now - oldest.since <= longest:
            continue
        waited = f"the oldest job has waited for {duration(now - oldest.since)}"
        if all_seen and label_set.scales and not _exists(label_set, waiting):
            words = f"{waited}, and no runner of the scale set is registered: it does not exist, or is not connected"
            yield Remark(Check.SETS, _set(label_set), words, url=oldest.url)
        else:
            yield Remark(Check.QUEUE, str(label_set.asked), waited, url=oldest.url)


def unseen_sets(served: Iterable[Served], waiting: Queue, *, all_seen: bool) -> Iterator[Remark]:
    """The scale sets of which nothing shows that they exist: no runner, and no job that one took."""
    runners = "no runner of it is registered now" if all_seen else "its runners are not seen"
    words = f"{runners}, and GitHub's API does not list scale sets"
    for label_set in served:
        if label_set.scales and not _exists(label_set, waiting):
            yield Remark(Check.SETS, _set(label_set), words)


def _set(one: Served) -> str:
    return f"scale set {one.asked.runs_on.scale_set or scale_set_of(one.asked.pool)}"


def _exists(one: Served, waiting: Queue) -> bool:
    return bool(one.runners) or labels_of_jobs(one.asked) in waiting.taken


def labels_of_jobs(asked: LabelSet) -> Labels:
    """The labels that GitHub shows for the jobs of a label set. Those of a scale set have its name."""
    where = asked.runs_on
    return frozenset(label.lower() for label in ((where.scale_set,) if where.scale_set else where.labels))


def report_of(problems: Iterable[Remark], unseen: Iterable[Remark]) -> WatchReport:
    """The report. What a problem is about is not listed as unseen as well."""
    remarks = tuple(problems)
    known = {(remark.check, remark.subject) for remark in remarks}
    return WatchReport(
        problems=remarks, unseen=tuple(remark for remark in unseen if (remark.check, remark.subject) not in known)
    )


def report_text(report: WatchReport) -> str:
    """The report as Markdown; '' if everything was seen and in order."""
    return "\n\n".join([*_section("Found", report.problems), *_section("Not seen", report.unseen)])


def issue_body(report: WatchReport, old: str) -> str:
    """The body of the issue, which has the body `old` ('': there is no issue); '' if no issue is needed.

    An issue about a check that now cannot be made stays open.
    """
    unseen = {remark.check for remark in report.unseen}
    kept = [check for check in _recorded(old) if check in unseen]
    checks = sorted({*(problem.check for problem in report.problems), *kept})
    if not checks:
        return ""
    parts = [
        "`ci-runner coverage --watch --issue` keeps this issue up to date, and closes it when everything is in order.",
        report_text(report),
        f"{MARKER} {' '.join(checks)} -->",
    ]
    return "\n\n".join(parts) + "\n"


def _recorded(body: str) -> Iterator[Check]:
    """The checks that the marker in `body` names."""
    match = _CHECKS.search(body)
    known = set(Check)
    return (Check(word) for word in (match[1] if match else "").split() if word in known)


def _section(title: str, remarks: Sequence[Remark]) -> list[str]:
    if not remarks:
        return []
    lines = (
        f"- {markdown_text(str(remark))}" + (f" ([job]({remark.url}))" if remark.url else "") for remark in remarks
    )
    return [f"### {title}", "\n".join(lines)]


# What GitHub answers.


def look(
    runners: Client, own: Client, plan: Plan, *, scale_set_labels: bool, say: Callable[[str], None]
) -> tuple[tuple[Served, ...], WatchReport]:
    """The verdicts on the label sets, and everything that was found. `own` reads all but the runners.

    Raises GitHubError, except where a token lacks a permission.
    """
    unseen: list[Remark] = []
    verdicts = partial(cover, label_sets(plan), scale_set_labels=scale_set_labels)
    seen = _inventory(runners)
    if seen.unseen is None and any(of_runners(verdicts(seen.runners), all_seen=True)):
        say(f"runners are missing; asking again in {duration(PATIENCE)}, as one may be between two jobs")
        runners.clock.sleep(PATIENCE)
        second = _inventory(runners)  # a runner that was there at either time has a machine
        either = {runner.id: runner for runner in (*seen.runners, *second.runners)}
        seen = replace(second, runners=tuple(either.values()))
    all_seen = seen.unseen is None
    served = verdicts(seen.runners)
    if seen.unseen is not None:  # a runner that nobody sees may serve what nobody else does
        unseen.append(_not_seen(Check.RUNNERS, seen.unseen))
        unsure = dict.fromkeys(UNSERVED, CoverageVerdict.UNSEEN)
        served = tuple(
            label_set._replace(verdict=unsure.get(label_set.verdict, label_set.verdict)) for label_set in served
        )
    waiting = _asked(Check.QUEUE, partial(queue, own), unseen)
    stopped = _asked(Check.WORKFLOWS, partial(disabled, own, plan), unseen) or ()
    known = waiting or Queue()
    if known.left_out:
        words = f"the jobs of the {known.left_out} newest open runs were not read"
        unseen.append(Remark(Check.QUEUE, "queue", words))
    longest = 60.0 * (plan.spec.watch or Watch()).longest_wait
    problems = (
        *of_runners(served, all_seen=all_seen),
        *quarantined(seen.runners),
        *of_queue(served, known, longest=longest, now=own.clock.now(), all_seen=all_seen),
        *(Remark(Check.WORKFLOWS, "workflow", str(disabled_workflow)) for disabled_workflow in stopped),
    )
    return served, report_of(problems, (*unseen, *unseen_sets(served, known, all_seen=all_seen)))


def _asked(check: Check, ask: Callable[[], Answer], unseen: list[Remark]) -> Answer | None:
    """The result of `ask`; None, with a line in `unseen`, if the token lacks a permission."""
    try:
        return ask()
    except GitHubError as error:
        if error.trouble not in UNSEEN:
            raise
        unseen.append(_not_seen(check, error))
        return None


def _not_seen(check: Check, error: GitHubError) -> Remark:
    return Remark(check, check.value, f"needs a token with {_NEEDS[check]} ({error.line})")


def _inventory(client: Client) -> Inventory:
    """The runners; those that the token may see, with the reason why it does not see all."""
    try:
        return inventory(client)
    except GitHubError as error:
        if error.trouble not in UNSEEN:
            raise
        return Inventory(runners=(), unseen=error)
