"""Compiler caches of build scripts: who may read and who may write them.

A run on the shard's own branch keeps what it compiled, and the next run there reads it. A pull request, a merge group
and a run on another branch read, and keep nothing; a fork's code gets none. GitHub's scopes of caches hold the same
for whoever calls its API: what is written for another ref is not served to the branch.
"""

from __future__ import annotations

from collections.abc import Iterator

from ci_compiler.spec.model import Spec
from ci_compiler.workflows.common import expression, selected
from ci_compiler.workflows.model import UsesStep, action_step, input_node
from ci_compiler.workflows.writer import Node

FOLDER = ".compiler-cache"
"""The folder of the cache, below the root of the repository."""

VARIABLE = "CI_COMPILER_CACHE"
"""The variable of the step that builds with one of the words of `TRUST`; '' or nothing for no cache."""

READ_ONLY, RELEASE = "read", "release"
TRUST = (READ_ONLY, "write", RELEASE)
"""What a run may do with caches: read them, write them too, or write them as a run that publishes."""

_INPUT = "compiler-cache"
_KEPT = "steps.build.outputs.compiler-cache == 'yes'"


def is_used(spec: Spec) -> bool:
    """Whether a package has a compiler cache."""
    return any(package.command and package.command.compiler_cache for package in spec.packages.values())


def inputs(spec: Spec) -> dict[str, Node]:
    """The input of called workflows with what the run may do."""
    return {_INPUT: input_node("What the run may do with compiler caches.")} if is_used(spec) else {}


def passed(spec: Spec, branch: str = "", publishes: str = "") -> dict[str, str]:
    """The value of the input: for a run of `branch` that publishes if the expression `publishes` is true.

    Without a branch, for a pull request or a merge group.
    """
    if not is_used(spec):
        return {}
    if not branch:
        return {_INPUT: READ_ONLY}
    published = f"({publishes}) && '{RELEASE}' || " if publishes else ""
    return {_INPUT: expression(f"github.ref != 'refs/heads/{branch}' && '{READ_ONLY}' || {published}'write'")}


def environment(spec: Spec) -> dict[str, str]:
    """The variable of the step that builds."""
    return {VARIABLE: expression(f"inputs.{_INPUT}")} if is_used(spec) else {}


def fetched(spec: Spec, name: str) -> Iterator[UsesStep]:
    """The step before the build of `name` that fetches the newest cache of that name and branch."""
    if is_used(spec):
        files: dict[str, Node] = {"path": FOLDER, "key": _key(name), "restore-keys": _prefix(name)}
        yield action_step("Fetch the compiler cache", "actions/cache/restore", files)


def kept(spec: Spec, name: str) -> Iterator[UsesStep]:
    """The step after it that keeps the cache, where the run may."""
    if is_used(spec):
        may = expression(f"inputs.{_INPUT} != '{READ_ONLY}' && {_KEPT}")
        files: dict[str, Node] = {"path": FOLDER, "key": _key(name)}
        yield action_step("Keep the compiler cache", "actions/cache/save", files, if_=may)


def _prefix(name: str) -> str:
    return f"compiler-cache-{name}-{expression(selected('branch'))}-"


def _key(name: str) -> str:
    return f"{_prefix(name)}{expression('github.run_id')}-{expression('github.run_attempt')}"
