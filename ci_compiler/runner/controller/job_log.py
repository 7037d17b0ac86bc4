"""How a job ended, from the output of its runner: GitHub's API tells that only to those who may read the run."""

from __future__ import annotations

import re

_RESULT = re.compile(r"^[0-9 :-]{19}Z: Job .* completed with result: (?P<result>[A-Za-z]+)\s*$", re.MULTILINE)
"""The line with which the runner announces the result of a job (actions/runner, JobDispatcher)."""


def job_failed(log: str) -> bool | None:
    """Whether the last job in the output of a runner failed; None if it shows no result."""
    results = [line["result"] for line in _RESULT.finditer(log)]
    return results[-1] == "Failed" if results else None
