"""What `sync` would commit to each branch, as plans and as trees, before anything is merged or moved.

A pull request on the default branch changes other branches too: when it is merged, `sync` carries it to them. Such a
branch is therefore built from the tree that sync would commit to it. The selection of a run writes the trees to choose
the variants, and every job of the branch writes and checks out the same tree again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ci_compiler.backends.checkout import JobCheckout
from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.git import Git
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.selection import Rebuilt
from ci_compiler.recipes.affected import affected
from ci_compiler.recipes.render import recipes, territories
from ci_compiler.spec.carried import template_paths
from ci_compiler.spec.model import Spec
from ci_compiler.sync.branches import WRITTEN, BranchPlan, plan_branch
from ci_compiler.sync.compiled import compile_files
from ci_compiler.workflows.tasks import AUTHOR


class Landing(NamedTuple):
    """What sync would commit to a branch: `tree`, on the commit `parent`. As text `PARENT..TREE`, as for `git diff`."""

    parent: str
    tree: str

    def __str__(self) -> str:
        return f"{self.parent}..{self.tree}"


def branch_plans(
    git: Git, decided: Plan, carried: Mapping[str, str], heads: Mapping[str, str], *, adopt: bool
) -> tuple[BranchPlan, ...]:
    """What each branch lacks. `heads` has the commits of the branches, and `carried` the texts of the carried files.

    Raises InputError if something that was not compiled is in the way (`plan_branch`, also about `adopt`).
    """
    spec, judged = decided.spec, decided.judged
    common = {**compile_files(decided), **carried}
    templates = {path: carried[path] for path in template_paths(spec) if path in carried}
    return tuple(
        plan_branch(
            git,
            branch,
            head,
            {**common, **recipes(spec, judged, branch, templates)},
            territories(spec, judged, branch),
            adopt=adopt,
        )
        for branch, head in heads.items()
    )


def landings(git: Git, decided: Plan, carried: Mapping[str, str], heads: Mapping[str, str]) -> dict[str, Landing]:
    """What sync would commit to each branch of `heads`. Writes the trees to the repository, and moves nothing.

    Recipes that are in the way are taken over, as `sync --adopt` does. Raises InputError for anything else in the way.
    """
    plans = branch_plans(git, decided, carried, heads, adopt=True)
    return {plan.branch: Landing(parent=plan.parent, tree=git.write_tree(plan.parent, plan.changes)) for plan in plans}


def rebuilt_elsewhere(
    git: Git, decided: Plan, carried: Mapping[str, str], heads: Mapping[str, str]
) -> dict[str, Rebuilt]:
    """The variants that sync would change on each branch of `heads`, compared with the branch's tip."""
    found = {}
    for branch, one in landings(git, decided, carried, heads).items():
        changed = affected(git, base=one.parent, head=one.tree, spec=decided.spec, branch=branch)
        found[branch] = Rebuilt([variant.name for variant in changed], str(one))
    return found


def source_branch(git: Git, spec: Spec, heads: Mapping[str, str], commit: str) -> str:
    """The branch of `spec` that `commit` was branched off: the one that lacks the fewest of its commits.

    Where several do, it is the first of them in the spec. '' if the commit shares no history with any of the branches.
    """
    lacking = {
        branch: len(git.lacking(heads[branch], commit))
        for branch in spec.branches
        if branch in heads and git.has_ancestor(git.merge_base(heads[branch], commit), commit)
    }
    return min(lacking, key=lambda branch: lacking[branch], default="")


def check_out(git: Git, decided: Plan, carried: Mapping[str, str], branch: str, onto: str) -> str:
    """Checks out what sync would commit to `branch`, detached, and returns its commit. `onto` is `PARENT[..TREE]`.

    The commit depends on its parent and its tree alone. Raises InputError if the tree is not TREE, and StageError if
    tracked files of the checkout are changed.
    """
    tip, _, tree = onto.partition("..")
    parent = git.resolve(tip)
    landing = landings(git, decided, carried, {branch: parent})[branch]
    if tree and tree != landing.tree:
        message = (
            f"compiles to the tree {landing.tree} on {branch} here, and to {tree} where the run was planned; "
            "install the version of ci-compiler that the spec's `toolkit` names"
        )
        raise wrong(decided.spec.document.file, Code.OTHER_TREE, message)
    dates = dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), git.date(parent))
    commit = git.commit_tree(landing.tree, parent, f"Compile for {branch}\n\n{WRITTEN}", AUTHOR | dates)
    JobCheckout(git.root).put_at(commit)
    return commit


def tips(git: Git, spec: Spec) -> dict[str, str]:
    """The commits of the spec's branches that the repository has, as last fetched where it has a remote."""
    heads = {**git.heads(), **git.heads("remotes/origin")}
    return {branch: heads[branch] for branch in spec.branches if branch in heads}
