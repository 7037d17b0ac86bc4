"""`ci-compile comment`: the one comment on a pull request, and the status of a fork's commit."""

from __future__ import annotations

import argparse
import os

from ci_compiler.cli.console import note
from ci_compiler.cli.where import carried_of, event_of_run, root_of, spec_of
from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.git import Git
from ci_compiler.github.access import access
from ci_compiler.github.client import Client
from ci_compiler.github.request_comments import State, keep_comment, set_status
from ci_compiler.github.status import run_jobs
from ci_compiler.outside import expected, object_of, reading
from ci_compiler.plan.fork_selection import fork_stages
from ci_compiler.plan.pipeline import plan
from ci_compiler.plan.selection import decide, question
from ci_compiler.reports.diff import diff
from ci_compiler.reports.fork_report import fork_comment, outcome
from ci_compiler.reports.request_report import request_comment
from ci_compiler.reports.summary import SummarisedRun, table
from ci_compiler.spec.revision import base_spec
from ci_compiler.sync.events import facts_of_request, request_base
from ci_compiler.workflows.fork import BUILD_STEP, STATUS, test_step


def run(arguments: argparse.Namespace) -> int:
    """Writes the comment, and the status where it is a fork's. Prints the comment's URL. Raises GitHubError."""
    client = Client(access(os.environ, root_of(arguments)), say=note)
    server, number = os.environ.get("GITHUB_SERVER_URL", ""), os.environ.get("GITHUB_RUN_ID", "")
    if not number.isdecimal():
        raise wrong("GITHUB_RUN_ID", Code.NO_EVENT, "names no run; `comment` runs in a GitHub Actions job")
    url = f"{server}/{client.access.repository}/actions/runs/{number}"
    print(_of_fork(arguments, client, url) if arguments.fork else _of_own(arguments, client, url))
    return 0


def _of_fork(arguments: argparse.Namespace, client: Client, url: str) -> str:
    jobs = run_jobs(client, int(url.rpartition("/")[2])) if arguments.ended else None
    tests = {test_step(stage): stage.name for stage in fork_stages(spec_of(arguments))}
    steps = {BUILD_STEP: BUILD_STEP.lower(), **tests}
    with reading("--fork", Code.WRONG_VALUE, "is not what `ci-compile choose --fork` prints as `request`"):
        request = object_of(arguments.fork)
        number, commit = expected(int, request["number"]), expected(str, request["commit"])
        text, (state, sentence) = fork_comment(request, jobs, steps, url), outcome(request, jobs)
    written = keep_comment(client, number, text)
    if state:
        set_status(client, commit, State(state), STATUS, sentence, url)
    return written


def _of_own(arguments: argparse.Namespace, client: Client, url: str) -> str:
    """The URL of the comment on a pull request of this repository.

    The spec is that of the commit: an artifact of the run may have replaced the file.
    """
    root, event = root_of(arguments), event_of_run()
    if event.name != "pull_request":
        raise wrong("event", Code.UNKNOWN_EVENT, f"{event.name!r} is no pull request, which could have a comment")
    git, decided = Git(root), plan(base_spec(root, "HEAD"))
    base = request_base(git, event)
    asked = question(decided, event, base=base)
    facts = facts_of_request(git, decided, asked, carried_of(root, decided.spec)).facts
    request = decide(decided, event, facts)
    with reading("event", Code.UNKNOWN_EVENT):
        number = expected(int, event.payload["number"])
    difference = diff(plan(base_spec(root, base)), decided)
    summarised = SummarisedRun(event=event.name, ref=request.ref, publish=False)
    tables = {
        selection.branch: table(decided, summarised, selection.branch, selection.variants, arguments.results)
        for selection in request.branches
        if selection.variants
    }
    text = request_comment(decided, request, difference, tables, verdict=arguments.verdict, url=url)
    return keep_comment(client, number, text)
