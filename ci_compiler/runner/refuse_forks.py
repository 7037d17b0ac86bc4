"""A hook that runs before a job (ACTIONS_RUNNER_HOOK_JOB_STARTED) and fails it if it runs code of a fork.

It reads the event in the file that `GITHUB_EVENT_PATH` names, and refuses an event that it does not know or cannot
read. A job that a comment on a pull request started is refused too: it may run code of a fork although the workflow is
the repository's own.

The runner downloads the job's actions before it runs the hook, so this is a second line of defence. A fork's pull
request runs the workflow files of the fork: the boundary is the approval setting of the repository, or the runner
group.

The module uses only the standard library, since it runs in an isolated interpreter (`python -I`).
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

EVENTS = frozenset(
    {
        *("push", "schedule", "workflow_dispatch", "repository_dispatch", "release", "merge_group"),
        *("pull_request", "pull_request_target", "workflow_run", "issue_comment"),
    }
)
"""The events of which it knows whose code a job runs: that of the repository, or what the event names."""

_OF_REQUESTS = frozenset({"pull_request", "pull_request_target"})
"""The events whose ref may be that of a pull request."""

UNREADABLE = "the event at GITHUB_EVENT_PATH cannot be read, so nobody knows whose code this is"


def strangers(event: Any) -> list[str]:
    """The repositories other than the event's own whose code the job runs. Raises ValueError for an unclear event."""
    try:
        own = event["repository"]["full_name"].lower()
        request, run = event.get("pull_request"), event.get("workflow_run")
        sources = [request["head"]["repo"]] if request is not None else []
        sources += [run["head_repository"]] if run is not None else []
        names = ["a repository that is gone" if source is None else source["full_name"] for source in sources]
        return [name for name in names if name.lower() != own]
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(UNREADABLE) from error


def is_asked_by_comment(event: Any) -> bool:
    """Whether a comment on a pull request started the job, however little the event says of the request."""
    return "comment" in event and "pull_request" in (event.get("issue") or {})


def refusal(name: str, event_path: str, ref: str) -> str:
    """Why the job of the event `name`, which is in the file at `event_path`, is refused; '' if it is not.

    `ref` is that of the job.
    """
    if name not in EVENTS:
        return f"the event {name!r} is unknown, so nobody knows whose code this is"
    try:
        event = json.loads(Path(event_path).read_bytes())
        found, asked = strangers(event), is_asked_by_comment(event)
        refs = [ref, str(event.get("ref") or "")]
    except (OSError, ValueError, RecursionError, AttributeError):
        return UNREADABLE
    if asked:
        return (
            "a comment on a pull request started this job: it may have code of a fork; forks get no self-hosted machine"
        )
    if name not in _OF_REQUESTS and any(one.startswith("refs/pull/") for one in refs):
        return f"{name} at the ref of a pull request: it may have code of a fork; forks get no self-hosted machine"
    return f"this job runs code of {', '.join(found)}; forks get no self-hosted machine" if found else ""


def main() -> int:
    """The exit status of the hook; a refusal is printed for GitHub's annotations and for the runner's log."""
    name, path, ref = (os.environ.get(f"GITHUB_{key}", "") for key in ("EVENT_NAME", "EVENT_PATH", "REF"))
    message = refusal(name, path, ref)
    if message:
        shown = "".join(char if char.isprintable() else "?" for char in message)
        print(f"::error::{shown}")
        print(f"job-started: {shown}", file=sys.stderr)
    return 1 if message else 0


if __name__ == "__main__":
    sys.exit(main())
