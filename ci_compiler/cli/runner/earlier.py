"""`ci-runner earlier NAME`: an earlier run that built a variant from the same inputs."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from tempfile import TemporaryDirectory

from ci_compiler.cli.console import append_to, note
from ci_compiler.cli.stage import offered_to, reported, wants_again
from ci_compiler.cli.where import branch_of, plan_of, root_of
from ci_compiler.runner.jobs.joined import leader_first, members
from ci_compiler.runner.jobs.needed import hand_over
from ci_compiler.runner.jobs.reuse import inputs_of, reuses
from ci_compiler.runner.jobs.setting import Job, Secrets
from ci_compiler.runner.targets import find
from ci_compiler.stages import BUILD
from ci_compiler.workflows.artifacts import artifact_name


@reported
def run(arguments: argparse.Namespace, secrets: Secrets) -> int:
    """Writes the run and its artifact to $GITHUB_OUTPUT, and prints the run; nothing if there is none."""
    from ci_compiler.cli.remote import client_of  # PyGithub is slow to import
    from ci_compiler.github.earlier import earlier_run
    from ci_compiler.github.errors import GitHubError

    decided, root = plan_of(arguments), root_of(arguments)
    branch = branch_of(arguments, decided.spec, root)
    built = find(decided.spec, arguments.name, branch)
    every = members(decided.spec, built)
    if wants_again(arguments) or not reuses(decided.spec, every):
        return 0
    client = client_of(arguments, root)
    os.environ.pop("GITHUB_TOKEN", None)  # a command `fetch` of the repository may run
    job = Job(decided.spec, root, secrets)
    with TemporaryDirectory(prefix="ci-runner-earlier-", ignore_cleanup_errors=True) as scratch:
        handed = hand_over(job, every, offered_to(built, arguments), Path(scratch))
        wanted = inputs_of(job, leader_first(every), handed, os.environ)
    try:
        found = earlier_run(client, decided, branch, wanted)
    except GitHubError as error:
        note(f"warning: {error.line}; it is built")
        return 0
    if found:
        append_to(
            "GITHUB_OUTPUT",
            f"run={found}\nartifact={artifact_name(BUILD, built.cell.joined or arguments.name, branch)}\n",
        )
        print(found)
    return 0
