"""Runs of a profile that build what changed since the last complete run of their shard.

The state is on GitHub alone: the title of each such run names its profile and the commit since which it builds, and its
head is the commit that it is complete up to if it succeeded. So whatever is lost (a schedule that GitHub dropped, a run
that failed or was cancelled) is built by a later run, which begins where the last complete one ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import quote

from ci_compiler.github.actions import Json, run_of, workflow_ids
from ci_compiler.github.client import Client
from ci_compiler.github.dispatch import DONE, SUCCESS
from ci_compiler.plan.selection import NO_COMMIT
from ci_compiler.plan.sharding import ALL, Shard

_MOST_COMMITS = 50
"""The most commits that a run is compared with; beyond, it builds all variants."""


_FAILED = frozenset({"failure", "timed_out"})
"""How a run ends whose commit is not tried once more. One that was cancelled, or never began, is lost."""

_TITLE = re.compile(rf"(?!.*\(a selection\)).* \({ALL}\) (\S+) since [0-9a-f ]*")
"""The title of a run that builds what changed, with its profile."""


class BatchStanding(NamedTuple):
    """The runs of a profile in a shard: `complete` is the commit up to which all is built, `tried` the newest commit.

    Both are '' where there is none. `between` are the commits of all runs since, whose builds may have been published
    although a later commit has the content of `complete` again. `going`: whether a run of the profile has not ended.
    """

    complete: str = ""
    tried: str = ""
    between: tuple[str, ...] = ()
    going: bool = False

    def is_due(self, tip: str) -> bool:
        """Whether a run for the commit `tip` may start. One that failed is not repeated for the same commit."""
        return not self.going and self.tried != tip

    @property
    def since(self) -> tuple[str, ...]:
        """The commits since any of which a variant changed that a run builds; () for all variants."""
        commits = tuple(dict.fromkeys([self.complete, *self.between]))
        return commits if self.complete and len(commits) <= _MOST_COMMITS else ()

    @property
    def since_input(self) -> str:
        """`since` as the input of a run."""
        return " ".join(self.since) or NO_COMMIT


def _profile_of(title: str) -> str:
    """The profile of a run of all that changed in its shard, by its title; '' for another run.

    It must end as `run-name` ends it: other text in an input makes it the title of no such run.
    """
    titled = _TITLE.fullmatch(title)
    return titled[1] if titled else ""


def standing(runs: Iterable[Json], profile: str) -> BatchStanding:
    """The standing by the runs of a shard, the newest first. It reads no further than the last complete one."""
    found = BatchStanding()
    for run in runs:
        of_profile, ended = _profile_of(run["display_title"]) == profile, run["status"] == DONE
        if of_profile and ended and run["conclusion"] == SUCCESS:
            return found._replace(complete=run["head_sha"], tried=found.tried or run["head_sha"])
        found = found._replace(between=(*found.between, run["head_sha"]))
        if of_profile and (not ended or run["conclusion"] in _FAILED):
            found = found._replace(tried=found.tried or run["head_sha"], going=found.going or not ended)
    return found


def standing_of(client: Client, shard: Shard, profile: str) -> BatchStanding:
    """The standing of `shard` on its branch. Raises GitHubError, and InputError if GitHub does not have its file."""
    workflow = workflow_ids(client, [shard.path])[shard.path]
    path = f"actions/workflows/{workflow}/runs?event=workflow_dispatch&branch={quote(shard.branch, safe='')}"
    return standing(client.pages(f"list the runs of {shard.name}", path, "workflow_runs", run_of), profile)


def tip_of(client: Client, branch: str) -> str:
    """The newest commit of `branch`. Raises GitHubError."""
    what, path = f"read the branch {branch}", f"branches/{quote(branch, safe='')}"
    return client.request(what, "GET", path, read=lambda answer: str(answer["commit"]["sha"]))
