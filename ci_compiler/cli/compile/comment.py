"""`ci-compile comment`: the one comment on a pull request."""

from __future__ import annotations

import argparse
import os

from ci_compiler.cli import options
from ci_compiler.cli.console import note
from ci_compiler.cli.where import carried_of, event_of_run, root_of
from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.git import Git
from ci_compiler.github.access import access
from ci_compiler.github.client import Client
from ci_compiler.github.request_comments import keep_comment
from ci_compiler.outside import expected, reading
from ci_compiler.plan.pipeline import plan
from ci_compiler.plan.selection import decide, question
from ci_compiler.reports.diff import diff
from ci_compiler.reports.request_report import request_comment
from ci_compiler.reports.summary import SummarisedRun, table
from ci_compiler.spec.revision import base_spec
from ci_compiler.sync.events import facts_of_request, request_base


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "--results", metavar="DIR", type=options.path, required=True, help="the artifacts of the run, one folder each"
    )
    parser.add_argument("--verdict", metavar="RESULT", default="", help="the result of the job that gives the verdict")
    options.shared(parser, "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Writes the comment, and prints its URL. Raises GitHubError."""
    client = Client(access(os.environ, root_of(arguments)), say=note)
    server, number = os.environ.get("GITHUB_SERVER_URL", ""), os.environ.get("GITHUB_RUN_ID", "")
    if not number.isdecimal():
        raise wrong("GITHUB_RUN_ID", Code.NO_EVENT, "names no run; `comment` runs in a GitHub Actions job")
    url = f"{server}/{client.access.repository}/actions/runs/{number}"
    print(_written(arguments, client, url))
    return 0


def _written(arguments: argparse.Namespace, client: Client, url: str) -> str:
    """The URL of the comment. The spec is that of the commit: an artifact of the run may have replaced the file."""
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
