"""`sync --pull-request`: one branch `ci-compile/BRANCH` and one pull request for each branch that changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import urlencode

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, about, raise_any
from ci_compiler.git import Git
from ci_compiler.github.client import Client, url_in
from ci_compiler.github.request_comments import cut
from ci_compiler.sync.branches import WRITTEN, BranchPlan, commit_plans, makes

HEAD = "ci-compile/{branch}"
"""The branch that a pull request comes from."""


def open_pull_requests(
    client: Client,
    git: Git,
    remote: str,
    plans: Iterable[BranchPlan],
    messages: Mapping[str, str],
    bodies: Mapping[str, str],
    *,
    head: str = HEAD,
) -> Iterator[tuple[str, str]]:
    """Pushes a commit for each of `plans` that changes anything, and opens or updates its pull request: branch, URL.

    `messages` of commits, whose first lines are the titles, and `bodies` are by branch. `head` is the form of the head
    branches' names. A head branch that another run pushed is replaced, and left alone if it has the same changes.
    Raises InputError if it has commits of others, and GitHubError.
    """
    due = [plan for plan in plans if plan.changes]
    environment = client.git_environment()
    heads = {head.format(branch=plan.branch): plan for plan in due}
    theirs = {name: commit for name, commit in git.list_remote(remote, environment).items() if name in heads}
    git.fetch(remote, theirs, environment=environment)
    raise_any(_foreign(name) for name, commit in theirs.items() if WRITTEN not in git.message(commit))
    made = {heads[name].branch: commit for name, commit in theirs.items() if makes(git, commit, heads[name])}
    commits = commit_plans(git, due, messages, made)
    fresh = {name: commits[plan.branch] for name, plan in heads.items() if plan.branch not in made}
    if fresh:
        git.push(remote, fresh, replaced={name: theirs.get(name, "") for name in fresh}, environment=environment)
    for name, plan in heads.items():
        title = messages[plan.branch].partition("\n")[0]
        yield plan.branch, _open(client, plan.branch, name, title, bodies[plan.branch])


def _open(client: Client, branch: str, head: str, title: str, text: str) -> str:
    """The URL of the pull request from `head`, new or updated."""
    query = urlencode({"state": "open", "base": branch, "head": f"{client.access.owner}:{head}"})
    found = next(client.pages(f"look for the pull request of {branch}", f"pulls?{query}", "", dict), None)
    given = {"title": title, "body": cut(text, "`ci-compile diff` shows the rest.")}
    if found is None:
        what, given = f"open a pull request for {branch}", given | {"base": branch, "head": head}
        return client.request(what, "POST", "pulls", given, read=url_in, again=False)
    what, path = f"update the pull request of {branch}", f"pulls/{found['number']}"
    return client.request(what, "PATCH", path, given, read=url_in)


def _foreign(head: str) -> Finding:
    message = "its last commit is not one of sync; merge its pull request, or delete the branch"
    return about(head, Code.IN_THE_WAY, message)
