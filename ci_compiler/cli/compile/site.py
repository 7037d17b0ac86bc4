"""`ci-compile site DIR`: writes the finder page, and the page of results over time with the history that it shows."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ci_compiler.cli import options
from ci_compiler.cli.console import append_to, note
from ci_compiler.cli.where import plan_of, root_of
from ci_compiler.codes import Code
from ci_compiler.documents.site.page import NAME, STATUS, page
from ci_compiler.errors import wrong
from ci_compiler.files.atomic import reporting, write_file
from ci_compiler.files.drift import FOREIGN, is_ours
from ci_compiler.units import counted, size

if TYPE_CHECKING:
    from ci_compiler.github.benchmarks import LastBenchmark
    from ci_compiler.github.client import Client
    from ci_compiler.github.runs import Reading
    from ci_compiler.github.status import LastBuild
    from ci_compiler.plan.pipeline import Plan
    from ci_compiler.plan.records import Key, Records


_LONGEST_WAIT = 120.0
"""Seconds to wait for a rate limit at most: what is not read now, the next run reads."""


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("folder", metavar="DIR", type=options.path, help="the folder that the pages are written to")
    parser.add_argument(
        "--repository", metavar="OWNER/NAME", default="", help="the GitHub repository that its links lead to"
    )
    parser.add_argument("--pages", action="store_true", help="report whether GitHub Pages is on, for pages.yml")
    parser.add_argument("--status", action="store_true", help="show the last result of each variant, asked of GitHub")
    parser.add_argument(
        "--history",
        action="store_true",
        help="write the page of results over time, and `history.json`, which continues the last one",
    )
    parser.add_argument(
        "--issue",
        action="store_true",
        help="with --history: keep an issue about the variants that fail, and close it when each passes",
    )
    options.shared(parser, "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Writes the pages. Raises InputError if a foreign file is in the way or a file cannot be written."""
    repository: str = arguments.repository
    if repository and not re.fullmatch(r"[A-Za-z0-9-]+/[A-Za-z0-9._-]+", repository):
        message = f"{repository!r} is not a GitHub repository such as my-org/build-pytorch"
        raise wrong("--repository", Code.WRONG_REPOSITORY, message)
    if arguments.issue and not arguments.history:
        raise wrong("--issue", Code.WRONG_OPTION, "it is about the results over time; give --history as well")
    folder: Path = arguments.folder
    for file in (folder / NAME, *([folder / STATUS] if arguments.history else [])):
        if file.is_symlink() or (file.exists() and not is_ours(file)):
            raise wrong(file, Code.IN_THE_WAY, FOREIGN)
    decided, on = plan_of(arguments), _report_pages(arguments) if arguments.pages else True
    records = _records(arguments, decided) if arguments.history and (on or arguments.issue) else None
    lasts, measured, sboms = _known(arguments, decided, records) if arguments.status and on else ([], [], {})
    finder = page(decided, repository, lasts, measured, records=records, sboms=sboms)
    texts = {**(_history(decided, records, repository) if records is not None else {}), NAME: finder}
    for name, text in texts.items():
        _write(folder / name, text)
    return 0


def _write(file: Path, text: str) -> None:
    with reporting(file, always=True):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, text)
    print(f"wrote {file} ({size(len(text.encode()))})")


def _history(decided: Plan, records: Records, repository: str) -> dict[str, str]:
    """The texts of the history and of the page that shows it, by file name."""
    from ci_compiler.documents.site.status_page import status_page  # only this option needs it
    from ci_compiler.reports.history_file import NAME as HISTORY
    from ci_compiler.reports.history_file import text_of

    return {HISTORY: text_of(records), STATUS: status_page(decided, records, repository or records.repository)}


def _records(arguments: argparse.Namespace, decided: Plan) -> Records | None:
    """The history with the newest runs; None if GitHub does not say the one so far, which must not be lost."""
    from ci_compiler.cli.history import last_history  # PyGithub is slow to import
    from ci_compiler.cli.remote import client_of
    from ci_compiler.github.benchmarks import gains_of_run
    from ci_compiler.github.client import Patience
    from ci_compiler.github.errors import GitHubError
    from ci_compiler.github.runs import read_runs

    patience = Patience(longest_wait=_LONGEST_WAIT)
    client = client_of(arguments, root_of(arguments), patience)
    try:
        old = last_history(client, decided, arguments.folder)
    except GitHubError as error:
        note(f"warning: {error.findings[0]}; the site has no page of results this time")
        return None
    reading = read_runs(client, decided, old, measured=lambda run: gains_of_run(client, run))
    if reading.trouble:
        note(f"warning: {reading.trouble.findings[0]}; the history lacks what was not read")
    if reading.unmeasured:
        note(f"warning: the benchmarks of {counted(reading.unmeasured, 'run')} could not be read")
    if arguments.issue:
        _keep_issue(client, decided, reading)
    rest = "" if reading.complete else "; the next one continues"
    note(f"history: {counted(reading.runs, 'run')} read with {counted(reading.requests, 'request')}{rest}")
    return reading.records


def _keep_issue(client: Client, decided: Plan, reading: Reading) -> None:
    """Opens, updates or closes the issue about failures, if all results are known. Raises GitHubError."""
    from ci_compiler.github.issues import keep_issue
    from ci_compiler.reports.failing import MARKER, TITLE, issue_text

    if reading.trouble or not reading.complete:
        note("issue: left as it is, since some results are not known yet")
        return
    text = issue_text(decided, reading.records, client.access.web_host)
    kept, url = keep_issue(client, MARKER, TITLE, lambda _: text)
    note(f"issue: {kept}" + (f"; {url}" if url else ""))


def _known(
    arguments: argparse.Namespace, decided: Plan, records: Records | None
) -> tuple[list[LastBuild], list[LastBenchmark], Mapping[Key, str]]:
    """The last results of all variants and those of their benchmarks, from the history if there is one; their SBOMs.

    None if GitHub does not say them, since the page is of use without them.
    """
    from ci_compiler.cli.remote import client_of  # PyGithub is slow to import
    from ci_compiler.github import benchmarks, release, runs
    from ci_compiler.github.errors import GitHubError
    from ci_compiler.github.status import status

    sboms: Mapping[Key, str] = {}
    lasts: list[LastBuild] = []
    measured: list[LastBenchmark] = []
    what = "last runs"
    try:
        client = client_of(arguments, root_of(arguments))
        if records is not None:
            host = client.access.web_host
            lasts, measured = [*runs.lasts_of(decided, records, host)], [*benchmarks.lasts_of(decided, records, host)]
        else:
            lasts = [last for shard in status(client, decided) for last in shard]
            what = "benchmarks"
            measured = [benchmark for shard in benchmarks.benchmarks(client, decided) for benchmark in shard]
        what = "software bills of materials"
        sboms = release.sboms(client, decided)
    except GitHubError as error:
        note(f"warning: {error.findings[0]}; the page does not show the {what}")
    return lasts, measured, sboms


def _report_pages(arguments: argparse.Namespace) -> bool:
    """Whether GitHub Pages is on, which is also written to $GITHUB_OUTPUT. Raises GitHubError."""
    from ci_compiler.cli.remote import client_of  # PyGithub is slow to import
    from ci_compiler.github.workflows import pages_on

    on = pages_on(client_of(arguments, root_of(arguments)))
    if not on:
        print("::notice::GitHub Pages is off, so that the page is not published; Settings, Pages turns it on")
    append_to("GITHUB_OUTPUT", f"pages={'on' if on else 'off'}\n")
    return on
