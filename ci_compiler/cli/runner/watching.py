"""What `ci-runner coverage --watch` reads from GitHub, and the issue that `--issue` keeps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from ci_compiler.cli.console import note
from ci_compiler.github.client import Client
from ci_compiler.github.errors import GitHubError
from ci_compiler.github.inventory import UNSEEN, Inventory, inventory
from ci_compiler.github.issues import keep_issue
from ci_compiler.github.queue import Queue, queue
from ci_compiler.github.workflows import disabled
from ci_compiler.plan.pipeline import Plan
from ci_compiler.runner.coverage import PATIENCE, LabelSet, Served, cover
from ci_compiler.runner.watch import (
    MARKER,
    TITLE,
    Check,
    Remark,
    WatchReport,
    issue_body,
    of_queue,
    of_runners,
    quarantined,
    report_of,
    unseen_sets,
    without_unseen,
)
from ci_compiler.spec.model import Watch
from ci_compiler.units import duration

_NEEDS = {
    Check.RUNNERS: "Administration: read for the repository's runners, and Self-hosted runners: read for those of its "
    "organisation",
    Check.QUEUE: "Actions: read",
    Check.WORKFLOWS: "Actions: read",
}
"""The permissions of a fine-grained token or an App (GitHub Docs, "Permissions required for GitHub Apps")."""

Answer = TypeVar("Answer")


def look(
    runners: Client, own: Client, decided: Plan, asked: tuple[LabelSet, ...], *, scale_set_labels: bool
) -> tuple[tuple[Served, ...], WatchReport]:
    """The verdicts on the label sets, and everything that was found. `own` reads all but the runners.

    Raises GitHubError, except where a token lacks a permission.
    """
    unseen: list[Remark] = []
    verdicts = partial(cover, asked, scale_set_labels=scale_set_labels)
    seen = _inventory(runners)
    if seen.unseen is None and any(of_runners(verdicts(seen.runners), all_seen=True)):
        note(f"runners are missing; asking again in {duration(PATIENCE)}, as one may be between two jobs")
        runners.clock.sleep(PATIENCE)
        seen = _both(seen, _inventory(runners))
    all_seen = seen.unseen is None
    if seen.unseen is not None:
        unseen.append(_not_seen(Check.RUNNERS, seen.unseen))
    served = without_unseen(verdicts(seen.runners), seen)
    waiting = _asked(Check.QUEUE, partial(queue, own), unseen)
    stopped = _asked(Check.WORKFLOWS, partial(disabled, own, decided), unseen) or ()
    known = waiting or Queue()
    if known.left_out:
        words = f"the jobs of the {known.left_out} newest open runs were not read"
        unseen.append(Remark(check=Check.QUEUE, subject="queue", words=words))
    longest = 60.0 * (decided.spec.watch or Watch()).longest_wait
    problems = (
        *of_runners(served, all_seen=all_seen),
        *quarantined(seen.runners),
        *of_queue(served, known, longest=longest, now=own.clock.now(), all_seen=all_seen),
        *(Remark(check=Check.WORKFLOWS, subject="workflow", words=str(one)) for one in stopped),
    )
    return served, report_of(problems, (*unseen, *unseen_sets(served, known, all_seen=all_seen)))


def keep(client: Client, report: WatchReport) -> None:
    """Opens, updates or closes the issue, and prints what was done. Raises GitHubError."""
    done, url = keep_issue(client, MARKER, TITLE, partial(issue_body, report))
    note(f"issue: {done}" + (f"; {url}" if url else ""))


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
    return Remark(check=check, subject=check.value, words=f"needs a token with {_NEEDS[check]} ({error.line})")


def _inventory(client: Client) -> Inventory:
    """The runners; those that the token may see, with the reason why it does not see all."""
    try:
        return inventory(client)
    except GitHubError as error:
        if error.trouble not in UNSEEN:
            raise
        return Inventory(runners=(), unseen=error)


def _both(first: Inventory, second: Inventory) -> Inventory:
    """The runners of two looks: one that was there at either time has a machine."""
    runners = {runner.id: runner for runner in (*first.runners, *second.runners)}
    return Inventory(runners=tuple(runners.values()), unseen=second.unseen)
