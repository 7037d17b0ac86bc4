"""Every compiled file under `.github/`, as text by path, each within GitHub's limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, Place
from ci_compiler.files.drift import MARK
from ci_compiler.plan.limits import limit
from ci_compiler.plan.sharding import FOLDER, Shard, cell_packages, lists_any
from ci_compiler.spec.model import Pool, Spec
from ci_compiler.workflows import (
    cell,
    fleet_watch,
    pages,
    pull_request,
    setup_action,
    shard,
    variant,
    waves,
)
from ci_compiler.workflows.common import CELL, FLEET_WATCH, PULL_REQUEST, SCHEDULE, SETUP_ACTION, VARIANT, WAVES
from ci_compiler.workflows.pins import overruled, unknown_pins
from ci_compiler.workflows.writer import Node, dump

_ZIZMOR: dict[str, Node] = {"rules": {"self-repository": {"disable": True}}}
_ZIZMOR_REASON = (
    "self-repository: it asks for `$/` in place of `./`, which actionlint 1.7 and act do not know; both name the",
    "workflow of the very commit that runs.",
)


def header(spec: Spec) -> tuple[str, ...]:
    """The lines that begin every compiled file, without comment signs."""
    return (f"{MARK} from {spec.document.file}. Do not edit: change the spec, then run `ci-compile`.",)


def render(spec: Spec, shards: Iterable[Shard]) -> dict[str, str]:
    """The text of every file by its path relative to the repository's root. Raises InputError if one is too large."""
    head = header(spec)
    compiled: dict[str, Mapping[str, Node]] = {
        **({f"{FOLDER}/{VARIANT}": variant.workflow(spec).node()} if lists_any(spec) else {}),
        **({f"{FOLDER}/{CELL}": cell.workflow(spec).node()} if cell_packages(spec) else {}),
        f"{FOLDER}/{PULL_REQUEST}": pull_request.workflow(spec).node(),
        **({f"{FOLDER}/{FLEET_WATCH}": fleet_watch.workflow(spec).node()} if spec.fleet_watch else {}),
        **({f"{FOLDER}/{pages.FILE}": pages.workflow(spec).node()} if spec.pages else {}),
        f"{FOLDER}/{WAVES}": waves.workflow(spec).node(),
        f"{SETUP_ACTION}/action.yml": setup_action.action(spec),
    }
    asked, problems = _asked(spec)
    compiled |= asked
    compiled |= {part.path: shard.workflow(spec, part).node() for part in shards}
    if findings := [*unknown_pins(spec), *problems]:
        raise InputError(findings)
    files = {path: dump(_pinned(one, spec), header=head) for path, one in compiled.items()} | {
        ".github/actionlint.yaml": dump(_actionlint(spec.pools), header=head),
        ".github/.gitattributes": "".join(f"# {line}\n" for line in head)
        + "workflows/build-*.yml linguist-generated=true\n",
        ".github/zizmor.yml": dump(_ZIZMOR, header=(*head, *_ZIZMOR_REASON)),
    }
    if findings := list(_too_large(files)):
        raise InputError(findings)
    return files


def _asked(spec: Spec) -> tuple[dict[str, Mapping[str, Node]], Sequence[Finding]]:
    """The workflows that only some specs ask for, by a key each, and what is wrong with them.

    Their modules are imported here, so that other specs are compiled without them.
    """
    compiled: dict[str, Mapping[str, Node]] = {}
    problems: Sequence[Finding] = ()
    if spec.schedule:
        from ci_compiler.workflows import schedule

        compiled[f"{FOLDER}/{SCHEDULE}"] = schedule.workflow(spec, spec.schedule).node()
    if spec.sync:
        from ci_compiler.workflows import sync

        compiled[f"{FOLDER}/{sync.FILE}"] = sync.workflow(spec, spec.sync).node()
    if spec.update:
        from ci_compiler.workflows import update

        compiled[f"{FOLDER}/{update.FILE}"] = update.workflow(spec, spec.update).node()
    if spec.images:
        from ci_compiler.workflows import images

        problems = tuple(images.problems(spec))
        compiled[f"{FOLDER}/{images.FILE}"] = images.workflow(spec, spec.images).node()
    return compiled, problems


def _pinned(workflow: Mapping[str, Node], spec: Spec) -> Mapping[str, Node]:
    """The workflow with the commits of actions that the spec has in place of the bundled ones."""
    return {key: overruled(value, spec.pins) for key, value in workflow.items()} if spec.pins else workflow


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
