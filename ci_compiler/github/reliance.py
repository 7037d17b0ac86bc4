"""What the compiled workflows rely on in the settings of their repository, read from the workflows themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.sharding import FOLDER
from ci_compiler.spec.carried import default_branch
from ci_compiler.workflows.called import MACHINE, machine
from ci_compiler.workflows.common import PULL_REQUEST, VERDICT, runs_on
from ci_compiler.workflows.render import nodes
from ci_compiler.workflows.tasks import WATCH_SECRET

OPTIONAL = frozenset({WATCH_SECRET})
"""Secrets without which a job does less and says so."""

_SECRET = re.compile(r"\bsecrets\.([A-Za-z_]\w*)")
_BRANCH = re.compile(r"github\.ref == 'refs/heads/([^']+)'")
_OF_GITHUB = frozenset({"GITHUB_TOKEN"})


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedEnvironment:
    """An environment that jobs name: the branches that they run from, and the secrets that they read."""

    branches: set[str] = field(default_factory=set)
    secrets: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliance:
    """What the compiled workflows name: environments, secrets outside of any, and actions at their commits.

    `verdict`: the name of the check that says whether a pull request may be merged; `branches`: those that it is for.
    `publishers`: by runner group, the workflows whose jobs have an environment there, as `PATH@refs/heads/BRANCH`.
    """

    verdict: str
    branches: tuple[str, ...]
    environments: dict[str, UsedEnvironment] = field(default_factory=dict)
    secrets: set[str] = field(default_factory=set)
    actions: set[str] = field(default_factory=set)
    publishers: dict[str, set[str]] = field(default_factory=dict)

    def names_of_actions(self) -> set[str]:
        """The actions without their commits."""
        return {action.partition("@")[0] for action in self.actions}


def reliance(plan: Plan) -> Reliance:
    """What the workflows that `plan` compiles to rely on. Raises InputError for a pin that is wrong."""
    compiled: Mapping[str, Mapping[str, Any]] = nodes(plan.spec, plan.shards)
    request = compiled[f"{FOLDER}/{PULL_REQUEST}"]
    found = Reliance(
        verdict=request["jobs"][VERDICT]["name"], branches=tuple(request["on"]["pull_request"]["branches"])
    )
    machines = {machine(pool): runs_on(pool.runs_on) for pool in plan.spec.pools}
    secrets = {
        path: {name: _secrets(job) for name, job in document.get("jobs", {}).items()}
        for path, document in compiled.items()
    }
    for path, document in compiled.items():
        used = (text for key, text in _texts(document) if key == "uses" and not text.startswith("./"))
        found.actions.update(map(str, used))
        if "workflow_call" in document.get("on", ()):
            continue  # its jobs run for those that call it
        for name, job in document.get("jobs", {}).items():
            branches = _branches(document, job) or {default_branch(plan.spec)}
            called = str(job.get("uses", "")).removeprefix("./")
            for inner, within in compiled[called]["jobs"].items() if called else ():
                placed = within | {"runs-on": machines.get(job["with"].get(MACHINE))}
                _add(found, called, placed, branches, secrets[called][inner])
            if not called:
                _add(found, path, job, branches, secrets[path][name])
    return found


def _secrets(job: Mapping[str, Any]) -> set[str]:
    """The secrets that a job reads."""
    return {name for _, text in _texts(job) for name in _SECRET.findall(text)} - _OF_GITHUB


def _add(found: Reliance, path: str, job: Mapping[str, Any], branches: set[str], secrets: set[str]) -> None:
    """Adds what a job of the workflow at `path`, which reads `secrets`, relies on."""
    named, where = job.get("environment"), job.get("runs-on")
    if named is None:
        found.secrets.update(secrets)
        return
    environment = found.environments.setdefault(
        named["name"] if isinstance(named, Mapping) else named, UsedEnvironment()
    )
    environment.branches.update(branches)
    environment.secrets.update(secrets)
    if isinstance(where, Mapping):
        allowed = found.publishers.setdefault(where["group"], set())
        allowed.update(f"{path}@refs/heads/{branch}" for branch in branches)


def _branches(document: Mapping[str, Any], job: Mapping[str, Any]) -> set[str]:
    """The branches that a job asks for, or else those whose pushes start it; empty: the default branch alone."""
    push = document["on"].get("push") or {}
    return {*_BRANCH.findall(str(job.get("if", "")))} or {*push.get("branches", ())}


def _texts(node: object, key: str = "") -> Iterator[tuple[str, str]]:
    """Every text in a tree, with its key."""
    if isinstance(node, str):
        yield key, node
    elif isinstance(node, Mapping):
        for name, part in node.items():
            yield from _texts(part, name)
    elif isinstance(node, (list, tuple)):
        for part in node:
            yield from _texts(part, key)
