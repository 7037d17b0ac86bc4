"""The output of runners: how a job ended, and the logs of lost runners: those that failed, hung or disappeared.

The container of a lost runner is removed, and its log stays.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from ci_compiler.runner.controller.answers import last_line
from ci_compiler.runner.controller.engine import RunnerState

KEPT, LINES = 50, 10_000
"""The logs that are kept on a machine (older ones are removed), and the most lines of one."""

_AROUND = re.compile(r"\[(?:RUNNER|WORKER) |\s+at |Runner listener exit|Exiting |Restarting runner|√|$")
"""The beginnings of lines that say nothing of why a runner ends: traces, what run.sh adds, and blank lines."""

_REFUSED = re.compile(r"Runner version v?[0-9.]{1,20} is deprecated")
"""What GitHub says to a runner whose version it does not serve (actions/runner, BrokerHttpClient)."""

_RESULT = re.compile(r"^[0-9 :-]{19}Z: Job .* completed with result: (?P<result>[A-Za-z]+)\s*$", re.MULTILINE)
"""The line with which the runner announces the result of a job (actions/runner, JobDispatcher)."""


_EVENT = re.compile(
    r"^(?P<time>[0-9 :-]{19})Z: (?:(?P<idle>Listening for Jobs|Job .* completed with result: )|(?P<busy>Running job: )"
    r"|(?P<away>Runner connect error: )|(?P<back>Runner reconnected))",
    re.MULTILINE,
)
"""The lines with which the runner says what it does (actions/runner, Runner, JobDispatcher and MessageListener)."""


def state(log: str) -> RunnerState | None:
    """What the last events in the output of a runner say, by their time; None if it has none."""
    found = None
    for event in sorted(_EVENT.finditer(log), key=lambda match: match["time"]):
        busy = bool(event["busy"]) or (not event["idle"] and found is not None and found.busy)
        found = RunnerState(online=not event["away"], busy=busy)
    return found


def job_failed(log: str) -> bool | None:
    """Whether the last job in the output of a runner failed; None if it shows no result.

    GitHub's API tells that only to those who may read the run.
    """
    results = [line["result"] for line in _RESULT.finditer(log)]
    return results[-1] == "Failed" if results else None


def last_words(log: str) -> str:
    """The last line in which a runner itself says something, fit to show; '' if there is none."""
    return last_line("\n".join(line for line in log.splitlines() if not _AROUND.match(line)))


def refused(words: str) -> bool:
    """Whether `words` say that GitHub does not serve the version of the runner. Before 2.333.0, its code is 0."""
    return bool(_REFUSED.search(words))


def folder() -> Path:
    """The folder of the logs: below that of the service (systemd.exec(5)) or of the user (XDG base directories)."""
    state = os.environ.get("STATE_DIRECTORY") or os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return Path(state) / "ci-runner-lost"


def keep(name: str, log: str) -> None:
    """Writes the log of the runner `name`, readable by its owner only, and removes the oldest. Raises OSError."""
    logs = folder()
    logs.mkdir(mode=0o700, parents=True, exist_ok=True)
    opened = os.open(logs / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(opened, "w", encoding="utf-8") as file:
        file.write(log)
    for old in sorted(logs.glob("*.log"), key=lambda path: path.stat().st_mtime)[:-KEPT]:
        old.unlink(missing_ok=True)


def count() -> int:
    """The logs that are kept."""
    return len(list(folder().glob("*.log")))
