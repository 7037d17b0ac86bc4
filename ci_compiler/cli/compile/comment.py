"""`ci-compile comment`: the one comment on a pull request, and the status of a fork's commit."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from ci_compiler.cli.console import note
from ci_compiler.cli.where import root_of, spec_of
from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.github.access import access
from ci_compiler.github.client import Client
from ci_compiler.github.request_comments import State, keep_comment, set_status
from ci_compiler.github.run_jobs import run_jobs
from ci_compiler.plan.fork_selection import fork_stages
from ci_compiler.reports.fork_report import fork_comment, outcome
from ci_compiler.workflows.fork import BUILD_STEP, STATUS, test_step


def run(arguments: argparse.Namespace) -> int:
    """Writes the comment and the status, and prints the comment's URL. Raises GitHubError."""
    request, spec, root = _request(arguments.fork), spec_of(arguments), root_of(arguments)
    client = Client(access(os.environ, root), say=note)
    server, number = os.environ.get("GITHUB_SERVER_URL", ""), os.environ.get("GITHUB_RUN_ID", "")
    url = f"{server}/{client.access.repository}/actions/runs/{number}"
    jobs = run_jobs(client, int(number)) if arguments.ended else None
    steps = {BUILD_STEP: BUILD_STEP.lower()} | {test_step(stage): stage.name for stage in fork_stages(spec)}
    print(keep_comment(client, request["number"], fork_comment(request, jobs, steps, url)))
    state, sentence = outcome(request, jobs)
    if state:
        set_status(client, request["commit"], State(state), STATUS, sentence, url)
    return 0


def _request(text: str) -> dict[str, Any]:
    """The output of `choose --fork`. Raises InputError for anything else."""
    try:
        found = json.loads(text)
        if isinstance(found["number"], int) and isinstance(found["commit"], str):
            return dict(found)
    except (ValueError, KeyError, TypeError):
        pass
    raise wrong("--fork", Code.WRONG_VALUE, "is not what `ci-compile choose --fork` prints as `request`")
