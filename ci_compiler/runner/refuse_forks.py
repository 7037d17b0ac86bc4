"""A hook that runs before a job (ACTIONS_RUNNER_HOOK_JOB_STARTED) and fails it if it runs code of a fork.

It reads the event in the file that `GITHUB_EVENT_PATH` names, and refuses an event that it cannot read. The runner
downloads the job's actions before it runs the hook, so this is a second line of defence. A fork's pull request runs the
workflow files of the fork: the boundary is the approval setting of the repository, or the runner group.

The module uses only the standard library, since it runs in an isolated interpreter (`python -I`).
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

UNREADABLE = "the event at GITHUB_EVENT_PATH cannot be read, so nobody knows whose code this is"


def strangers(event: Any) -> list[str]:
    """The repositories other than the event's own whose code the job runs. Raises ValueError for an unclear event."""
    try:
        own = event["repository"]["full_name"].lower()
        request, run = event.get("pull_request"), event.get("workflow_run")
        sources = [request["head"]["repo"]] if request is not None else []
        sources += [run["head_repository"]] if run is not None else []
        names = ["a repository that is gone" if one is None else one["full_name"] for one in sources]
        return [name for name in names if name.lower() != own]
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(UNREADABLE) from error


def refusal(event_path: str) -> str:
    """Why the job whose event is in the file at `event_path` is refused; '' if it is not."""
    try:
        found = strangers(json.loads(Path(event_path).read_bytes()))
    except (OSError, ValueError, RecursionError):
        return UNREADABLE
    return f"this job runs code of {', '.join(found)}; forks get no self-hosted machine" if found else ""


def main() -> int:
    """The exit status of the hook; a refusal is printed for GitHub's annotations and for the runner's log."""
    message = refusal(os.environ.get("GITHUB_EVENT_PATH", ""))
    if message:
        shown = "".join(char if char.isprintable() else "?" for char in message)
        print(f"::error::{shown}")
        print(f"job-started: {shown}", file=sys.stderr)
    return 1 if message else 0


if __name__ == "__main__":
    sys.exit(main())
