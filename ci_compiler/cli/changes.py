"""The variants that a change rebuilds, for commands that run in a pull request or after a push."""

from __future__ import annotations

from collections.abc import Sequence

from ci_compiler.cli.console import note
from ci_compiler.cli.where import SPEC
from ci_compiler.errors import InputError
from ci_compiler.git import Git
from ci_compiler.plan.pipeline import Plan
from ci_compiler.recipes.affected import affected


def changed_since(git: Git, decided: Plan, base: str, branch: str) -> Sequence[str]:
    """The variants that changed since `base`; all of the branch if `base` is gone (a forced push)."""
    head = git.resolve("HEAD")
    try:
        start = git.merge_base(git.resolve(base), head)
    except InputError:
        note(f"the commit {base} is not in the history; everything counts as changed")
        return [name for shard in decided.shards if shard.branch == branch for name in shard.variants]
    found = affected(git, base=start, head=head, spec_path=SPEC.as_posix(), spec=decided.spec, branch=branch)
    return [one.name for one in found]
