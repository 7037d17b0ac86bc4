"""How a run went, as Markdown for its summary: a row a variant, from what the stages left as artifacts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci_compiler.plan.lookup import explain
from ci_compiler.plan.pipeline import Plan
from ci_compiler.plan.selection import RunSelection
from ci_compiler.stages import BUILD, PUBLISH, stages, stages_that_test
from ci_compiler.units import duration, markdown_table, markdown_text, size
from ci_compiler.variant import variant_name
from ci_compiler.workflows.variant import MANIFEST_FILE, PUBLISHED, RESULT


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarisedRun:
    """A run's circumstances: the event's name, the branch or tag it runs at, whether publishing was asked for."""

    event: str
    ref: str
    publish: bool


def table(plan: Plan, run: SummarisedRun, branch: str, chosen: Sequence[str], results: Path) -> str:
    """The table of the `chosen` variants; `results` holds the run's artifacts, a folder each by its name."""
    if not chosen:
        return "Nothing was to be built.\n"
    head = ["variant", *(stage.name for stage in stages() if stage is not PUBLISH), "time", "size", "published"]
    rows = [_row(plan, run, branch, name, results, chosen) for name in chosen]
    return f"{markdown_table(head, rows)}\n"


def left_to_dispatch(plan: Plan, choice: RunSelection) -> str:
    """The variants that a pull request rebuilds and does not build, with the command that starts each."""
    commands = [
        built.dispatch
        for name in choice.left
        for built in explain(plan, name).built
        if built.cell.branch == choice.branch
    ]
    listed = "\n".join(commands)
    count = f"{len(choice.left)} further variants are rebuilt by this change"
    return f"<details><summary>{count}; start them by</summary>\n\n```sh\n{listed}\n```\n\n</details>\n"


def _row(plan: Plan, run: SummarisedRun, branch: str, name: str, results: Path, chosen: Sequence[str]) -> list[str]:
    built = next(one for one in explain(plan, name).built if one.cell.branch == branch)
    manifest = _manifest(results, name)
    tests = {stage: _read(results / f"{stage}-{name}" / RESULT) for stage in stages_that_test()}
    needs = [variant_name(need, built.cell.suffix) for need in plan.spec.packages[built.variant.package].needs]
    waited = any(need in chosen and not _manifest(results, need) for need in needs)
    said = {BUILD: "passed" if manifest else "not reached" if waited else "**failed**"}
    for stage, result in tests.items():
        if stage not in built.route.pools:
            reason = built.route.skipped.get(stage, "")
            said[stage] = f"no: {markdown_text(reason)}" if reason else "–"
        elif not manifest:
            said[stage] = "not reached"
        else:
            said[stage] = "passed" if result.get("passed") else "**failed**"
    published = _read(results / f"publish-{name}" / PUBLISHED)
    failed = any(cell in {"**failed**", "not reached"} for cell in said.values())
    return [
        f"`{name}`",
        *(said[stage] for stage in (BUILD, *stages_that_test())),
        _number(manifest, "seconds", duration),
        _number(manifest, "closure_size", size),
        markdown_text(str(published["result"])) if "result" in published else _why_not(run, branch, failed=failed),
    ]


def _why_not(run: SummarisedRun, branch: str, *, failed: bool) -> str:
    if run.event not in {"push", "workflow_dispatch"}:
        return f"no: {markdown_text(run.event)} publishes nothing"
    if run.ref != branch:
        return f"no: the run is at {markdown_text(run.ref)}, not at {markdown_text(branch)}"
    if not run.publish:
        return "no: not asked for"
    return "no: it failed before" if failed else "**failed**"


def _manifest(results: Path, name: str) -> Mapping[str, Any]:
    """The manifest of a build; a run's only artifact, a build's then, comes without its folder (download-artifact)."""
    alone = _read(results / MANIFEST_FILE)
    return alone if alone.get("name") == name else _read(results / f"build-{name}" / MANIFEST_FILE)


def _read(path: Path) -> Mapping[str, Any]:
    """The JSON object in a file; an empty one where there is none to read."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _number(manifest: Mapping[str, Any], key: str, written: Callable[[int], str]) -> str:
    value = manifest.get(key)
    return written(round(value)) if isinstance(value, int | float) else "–"
