"""The code that is built of a fork's pull request: the base branch with the fork's recipes and sources, as data.

Nothing else comes from the fork: a commit that changes any other file is refused whole. So the workflow, the actions,
the spec, the templates and the overlays of such a run are those of the base branch. Every job makes the same tree
again, from the hash of the fork's commit, and compares it with the one that the run was planned with.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import PurePosixPath

from ci_compiler.backends.checkout import REMOTE
from ci_compiler.codes import Code
from ci_compiler.errors import Finding, about, raise_any, wrong
from ci_compiler.git import Git, TreeChange
from ci_compiler.plan.rules import judge
from ci_compiler.plan.sources import rebuilt_packages
from ci_compiler.recipes.affected import read_by_recipes
from ci_compiler.spec.carried import carried_paths
from ci_compiler.spec.model import RecipeKind, Spec
from ci_compiler.sync.landing import Landing, put_at
from ci_compiler.variant import RECIPES, SHARED, recipe_path

MOST_FILES = 300
"""The most files that a commit may change."""

_PLAIN = re.compile(r"[A-Za-z0-9 ._+@=,()\[\]~^#%/-]{1,300}")
"""A path without characters that a terminal, a shell or Markdown could take for something else."""


def fork_tree(git: Git, spec: Spec, branch: str, parent: str, commit: str) -> Landing:
    """The tree of `parent`, the tip of `branch`, with what the fork's `commit` changes. Moves no ref.

    Raises InputError with a finding for each change that is refused.
    """
    base = git.merge_base(parent, commit)
    taken = git.changes(base, commit)
    raise_any(_refused(spec, branch, taken, git.changed(base, parent)))
    tree = git.graft(parent, taken)
    raise_any(_beside(branch, taken, git.changes(parent, tree)))
    return Landing(parent=parent, tree=tree)


def refused_changes(git: Git, spec: Spec, branch: str, base: str, head: str) -> list[Finding]:
    """What a build of a fork would refuse of the changes from `base` to `head`, which are on top of `branch`."""
    return list(_refused(spec, branch, git.changes(git.merge_base(base, head), head), ()))


def check_out_fork(git: Git, spec: Spec, branch: str, onto: str, commit: str) -> str:
    """Fetches the fork's `commit` and checks out its code on `branch`, detached. Returns the new commit.

    `onto` is `PARENT..TREE`, the `Landing` that the run was planned with. Raises InputError if the tree is another, or
    if a change is refused, and StageError if tracked files of the checkout are changed.
    """
    tip, _, tree = onto.partition("..")
    git.fetch_commit(REMOTE, commit)
    landing = fork_tree(git, spec, branch, git.resolve(tip), git.resolve(commit))
    if landing.tree != tree:
        message = f"gives the tree {landing.tree} on {branch}, and the run was planned with {tree}"
        raise wrong(commit, Code.OTHER_TREE, message)
    return put_at(git, landing, f"Take the code of {commit}")


def _refused(spec: Spec, branch: str, changes: Sequence[TreeChange], meanwhile: Collection[str]) -> Iterator[Finding]:
    """A finding for each of `changes` that no fork may make; `meanwhile` is what the branch itself changed."""
    if len(changes) > MOST_FILES:
        message = f"changes {len(changes):,} files; a build of a fork takes at most {MOST_FILES}"
        yield about(branch, Code.FORK_CHANGE, message)
        return
    rules = _Rules(spec, branch)
    for change in changes:
        why = rules.refusal(change)
        if not why and change.path in meanwhile:
            why = f"was also changed on {branch}; merge {branch} into the pull request first"
        if why:
            yield about(change.path, Code.FORK_CHANGE, why)


def _beside(branch: str, taken: Iterable[TreeChange], made: Iterable[TreeChange]) -> Iterator[Finding]:
    """A finding for each path where the tree that was made differs from the branch in another way than was `taken`.

    A file at the path of a folder, for example, removes what the branch has in that folder.
    """
    for path in sorted({change.path for change in {*taken} ^ {*made}}):
        message = f"a file and a folder of the same name meet here; merge {branch} into the pull request first"
        yield about(path, Code.FORK_CHANGE, message)


class _Rules:
    """What a commit of a fork may change on `branch`."""

    def __init__(self, spec: Spec, branch: str) -> None:
        self.spec = spec
        self.deciding = (*carried_paths(spec, spec.document.file), *_toolkit_paths(spec))
        self.readable = read_by_recipes(spec) if spec.backend.has_recipes else ()
        self.compiled = frozenset(
            recipe_path(variant.name)
            for cell in judge(spec).cells
            for variant in cell.variants
            if cell.branch == branch and spec.packages[variant.package].kind_of(variant.name) is not RecipeKind.OWN
        )

    def refusal(self, change: TreeChange) -> str:
        """Why a change is refused; '' if it is not."""
        path = change.path
        reasons = {
            "has a part or a character in its name that no recipe needs": not _is_plain(path),
            "is read by git or GitHub: workflows, actions, hooks and settings do not come from forks": _is_of_git(path),
            "decides what is built and how; a maintainer has to make this change": _is_in(path, self.deciding),
            "is compiled from the spec; a maintainer has to change that": path in self.compiled
            or _is_in(path, [SHARED]),
            "is neither a recipe nor a source that the spec declares": not self._is_data(path),
            "is a link or a submodule": not (change.removed or change.is_file),
        }
        return next((why for why, applies in reasons.items() if applies), "")

    def _is_data(self, path: str) -> bool:
        if not self.spec.backend.has_recipes:
            return bool(rebuilt_packages(self.spec, [path]))
        return _is_in(path, (RECIPES, *self.readable))


def _is_plain(path: str) -> bool:
    """Whether `path` has only plain characters, and no part such as `..`, which somebody could write into a tree."""
    return posixpath.normpath(path) == path and bool(_PLAIN.fullmatch(path))


def _is_of_git(path: str) -> bool:
    """Whether a file or folder on `path` begins with `.git`, as `.github`, `.gitattributes` and `.git` itself do."""
    return any(part.lower().startswith(".git") for part in PurePosixPath(path).parts)


def _is_in(path: str, places: Iterable[str]) -> bool:
    """Whether `path` is one of `places`, or below one."""
    return any(path == place or path.startswith(f"{place}/") for place in places)


def _toolkit_paths(spec: Spec) -> tuple[str, ...]:
    """What hosted jobs install, where `toolkit` is a path in the repository."""
    return (posixpath.normpath(spec.toolkit),) if spec.toolkit.startswith("./") else ()
