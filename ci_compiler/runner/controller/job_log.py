"""How a job ended, from the output of its runner: GitHub's API tells that only to those who may read the run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

_LINE = re.compile(
    r"^(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ): "
    r"(?:(?P<begin>Running job: )|Job .* completed with result: (?P<result>[A-Za-z]+)\s*$)",
    re.MULTILINE,
)
"""The lines with which the runner announces a job and its result (actions/runner, JobDispatcher)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """Whether a job failed, and the seconds that it took."""

    failed: bool
    seconds: float


def job_result(log: str) -> JobResult | None:
    """The result of the last job in the output of a runner; None if it shows none."""
    begin = None
    found = None
    for line in _LINE.finditer(log):
        at = datetime.fromisoformat(line["at"])
        if line["begin"]:
            begin = at
        elif begin is not None:
            found = JobResult(failed=line["result"] == "Failed", seconds=(at - begin).total_seconds())
    return found
