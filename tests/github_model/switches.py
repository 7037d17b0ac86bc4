"""What sources disagree about, or only report: each switch is a row of the canary's register, with both behaviours.

True is what the row says. The model asks for a switch only where it matters; the exploration then tries both.
"""

from __future__ import annotations

from collections.abc import Mapping

from ci_compiler.canary.assumptions import assumptions

SWITCHES: Mapping[str, tuple[str, str]] = {
    "artifact-rerun": ("a job that runs again alone finds earlier artifacts", "it finds none"),
    "artifact-rerun-failed": ("after `Re-run failed jobs`, a job finds earlier artifacts", "it finds none"),
    "artifact-rerun-token": ("a partial re-run finds earlier artifacts with a token", "it finds none"),
    "artifact-anew": ("after `Re-run all jobs`, a job finds no earlier artifacts", "it finds them"),
    "artifact-anew-token": ("after `Re-run all jobs`, a job finds earlier artifacts with a token", "it finds none"),
    "artifact-newest": ("the newest artifact of a name is downloaded", "the oldest is"),
    "artifact-again": ("another attempt may upload a name again", "the upload fails"),
    "outputs-rerun": ("the outputs of jobs that are not re-run alone remain", "they are empty"),
    "outputs-rerun-failed": ("the outputs of jobs that `Re-run failed jobs` leaves out remain", "they are empty"),
    "output-kept": ("a job that does not set an output again keeps its value", "the output is empty"),
    "variables-rerun": ("a re-run reads the variables of now", "it has those of the first attempt"),
    "cancelled-rerun": ("`Re-run failed jobs` includes cancelled jobs", "it leaves them out"),
    "pending-replaced": ("a new pending run or job of a group replaces the pending one", "both wait"),
    "pending-cancelled": ("a job that its group cancelled does not make its run cancelled", "it does"),
    "queue-order": ("a queue is first in, first out", "the last one comes first"),
    "approval-holds-group": ("a job that waits for an approval holds its group", "it enters the group afterwards"),
    "approval-each-job": ("each job of an environment is asked about", "the first approval holds for the whole run"),
    "missing-environment": ("an environment that is missing is created without protection", "its jobs fail"),
    "called-secret": ("a called job gets its environment's secret if the callers pass the name", "it gets none"),
    "environment-branches": ("a job fails on a branch that its environment does not allow", "it runs"),
}
"""The rows, each with what GitHub does if the row holds, and what if not."""

AS_REGISTERED: Mapping[str, bool] = dict.fromkeys(SWITCHES, True)


class UndecidedError(Exception):
    """The play depends on a switch that is not set."""

    def __init__(self, row: str) -> None:
        super().__init__(row)
        self.row = row


def not_registered() -> list[str]:
    """The switches that are no rows of the canary's register."""
    return [row for row in SWITCHES if row not in assumptions()]
