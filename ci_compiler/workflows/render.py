"""Every compiled file under `.github/`, as text by path, each within GitHub's limits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, Place
from ci_compiler.files.drift import MARK
from ci_compiler.plan.limits import limit
from ci_compiler.plan.sharding import FOLDER, Shard
from ci_compiler.spec.model import Pool, Spec
from ci_compiler.workflows import cell, joined, pull_request, setup_action, shard, shard_called, tasks, variant
from ci_compiler.workflows.called import called_files
from ci_compiler.workflows.common import (
    CELL,
    FLEET_WATCH,
    JOINED,
    PAGES,
    PAGES_SCHEDULE,
    PULL_REQUEST,
    SCHEDULE,
    SETUP_ACTION,
    SYNC,
    UPDATE,
    VARIANT,
    WAVES,
)
from ci_compiler.workflows.model import Workflow
from ci_compiler.workflows.pins import overruled, unknown_pins
from ci_compiler.workflows.writer import Node, dump

_ZIZMOR: dict[str, Node] = {"self-repository": {"disable": True}}
_ZIZMOR_REASON = (
    "self-repository: it asks for `$/` in place of `./`, which actionlint 1.7 and act do not know; both name the",
    "workflow of the very commit that runs.",
)


def header(spec: Spec) -> tuple[str, ...]:
    """The lines that begin every compiled file, without comment signs."""
    return (f"{MARK} from {spec.document.file}. Do not edit: change the spec, then run `ci-compile`.",)


def render(spec: Spec, shards: Sequence[Shard]) -> dict[str, str]:
    """The text of every file by its path relative to the repository's root. Raises InputError if one is too large."""
    head = header(spec)
    files = {path: dump(node, header=head) for path, node in nodes(spec, shards).items()} | {
        ".github/actionlint.yaml": dump(_actionlint(spec.pools), header=head),
        ".github/.gitattributes": "".join(f"# {line}\n" for line in head)
        + "workflows/build-*.yml linguist-generated=true\n",
        ".github/zizmor.yml": dump({"rules": _ZIZMOR}, header=(*head, *_ZIZMOR_REASON)),
    }
    if findings := list(_too_large(files)):
        raise InputError(findings)
    return files


def nodes(spec: Spec, shards: Sequence[Shard]) -> dict[str, Mapping[str, Node]]:
    """Every workflow and action as plain nodes, by the path of its file. Raises InputError for a pin that is wrong."""
    compiled: dict[str, Mapping[str, Node]] = {
        f"{FOLDER}/{name}": one.node() for name, one in _workflows(spec, called_files(shards), shards)
    }
    compiled[f"{SETUP_ACTION}/action.yml"] = setup_action.action(spec)
    compiled |= {part.path: shard.workflow(spec, part).node() for part in shards}
    if findings := list(unknown_pins(spec)):
        raise InputError(findings)
    return {path: _with_bash(_pinned(one, spec), spec) for path, one in compiled.items()}


def _workflows(spec: Spec, called: Collection[str], shards: Sequence[Shard]) -> Iterator[tuple[str, Workflow]]:
    """Each workflow that is not a shard's, by its file's name. Modules that few specs need are imported here."""
    made = {VARIANT: variant.workflow, CELL: cell.workflow, JOINED: joined.workflow}
    yield from ((name, make(spec)) for name, make in made.items() if name in called)
    yield from shard_called.workflows(spec, shards)
    yield PULL_REQUEST, pull_request.workflow(spec, called, shards)
    yield WAVES, tasks.waves(spec)
    if spec.fleet_watch:
        yield FLEET_WATCH, tasks.fleet_watch(spec)
    if spec.pages:
        yield PAGES, tasks.pages(spec)
        yield PAGES_SCHEDULE, tasks.starts(spec, PAGES, tasks.PAGES_DAILY)
    if spec.schedule:
        yield SCHEDULE, tasks.schedule(spec, spec.schedule)
    yield from tasks.profiles(spec)
    if spec.sync:
        yield SYNC, tasks.sync(spec, spec.sync)
    if spec.update:
        yield UPDATE, tasks.update(spec, spec.update)


def _pinned(workflow: Mapping[str, Node], spec: Spec) -> Mapping[str, Node]:
    """The workflow with the commits of actions that the spec has in place of the bundled ones."""
    return {key: overruled(value, spec.pins) for key, value in workflow.items()} if spec.pins else workflow


def _with_bash(workflow: Mapping[str, Node], spec: Spec) -> Mapping[str, Node]:
    """The workflow with Bash for every step if it may run on Windows, where GitHub takes PowerShell otherwise."""
    jobs = workflow.get("jobs")
    windows = {system.name for system in spec.hardware.systems.values() if system.os == "Windows"}
    if jobs is None or not any(pool.system in windows for pool in spec.pools):
        return workflow
    before = {key: value for key, value in workflow.items() if key != "jobs"}
    return before | {"defaults": {"run": {"shell": "bash"}}, "jobs": jobs}


def _actionlint(pools: Iterable[Pool]) -> dict[str, Node]:
    """actionlint's configuration: the labels that are not GitHub's own. A scale set's name counts as one."""
    labels = {label: None for pool in pools for label in (*pool.runs_on.labels, pool.runs_on.scale_set) if label}
    return {"self-hosted-runner": {"labels": list(labels)}}


def _too_large(files: Mapping[str, str]) -> Iterable[Finding]:
    size = limit("file-bytes")
    for path, text in files.items():
        count = len(text.encode())
        if count > size.gate:
            message = (
                f"{count:,} bytes, above the gate of {size.gate:,}: GitHub silently ignores a workflow of more than "
                f"{size.limit:,}"
            )
            yield Finding(place=Place(file=path), code=Code.WORKFLOW_TOO_LARGE, message=message)
