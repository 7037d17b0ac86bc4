"""The register of assumptions, the comments of the code that relies on them, and the canary's probes are one list."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import ci_compiler
from ci_compiler.canary.assumptions import FEATURES, Assumption, Verdict, assumptions, complete
from ci_compiler.canary.evidence import of_jobs, of_needs
from ci_compiler.canary.repository import files
from tests.canary import test_evidence, test_scripts
from tests.canary.recorded import jobs
from tests.e2e import test_canary

SOURCES = Path(ci_compiler.__file__).parent
ROOT = SOURCES.parent
MARKER = re.compile(r"# .*\bAssumes (`[a-z0-9-]+`(?:, `[a-z0-9-]+`)*)")
FACTS = re.compile(r"(?:echo \"|^  *echo \")([a-z-]+)=", re.MULTILINE)

TABLES = ("canary.yml", "canary-runs.yml", "canary-events.yml")
"""The workflows that write a table."""

every = pytest.mark.parametrize("one", assumptions().values(), ids=assumptions().keys())


@cache
def relied_on() -> dict[str, list[str]]:
    """The files that rely on each assumption."""
    found: dict[str, list[str]] = defaultdict(list)
    canary = SOURCES / "canary"
    for folder in (SOURCES, ROOT / "runner-images"):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix in {".py", ".sh", ""} and canary not in path.parents:
                for names in MARKER.findall(path.read_text("utf-8")):
                    for name in names.split(", "):
                        found[name.strip("`")].append(path.relative_to(ROOT).as_posix())
    return found


@cache
def workflows() -> dict[str, Any]:
    """The canary's workflows as YAML, by file."""
    texts = {path: text for path, text in files(None).items() if path.startswith(".github/workflows/")}
    return {Path(path).name: yaml.safe_load(text) for path, text in texts.items()}


@cache
def probed(file: str) -> frozenset[str]:
    """The facts that a workflow can find: of scripts, also of those that it calls, of its jobs, of GitHub's list."""
    document = workflows()[file]
    found = {
        f"{written}.{fact}"
        for job in document["jobs"].values()
        for step in job.get("steps", ())
        for written, script in _scripts(step.get("run", ""))
        for fact in FACTS.findall(script)
    }
    for job in document["jobs"].values():
        found |= probed(Path(job["uses"]).name) if "uses" in job else set()
    if report := document["jobs"].get("report"):
        found |= of_needs({name: {"result": "success"} for name in report["needs"]}, "").keys()
        legs = {job["name"].split()[0] for job in document["jobs"].values()}
        found |= {fact for fact in of_jobs(jobs()) if fact.split(".")[0] in {*legs, "report", "hook", "runner"}}
    return frozenset(found | ({"lost.annotated"} if "lost" in document["jobs"] else set()))


def _scripts(run: str) -> list[tuple[str, str]]:
    """The facts files that a step writes, each with the text of what writes it."""
    legs = ("leg-a", "leg-b") if "leg-$LEG" in run else ()
    inline = [(name, run) for name in (*legs, *re.findall(r"> (?:facts|results)/([a-z-]+)\.facts", run))]
    called = re.search(r"bash (\.github/canary/[a-z]+\.sh)", run)
    text = files(None)[called[1]] if called else ""
    written = [name for name, _ in inline] + (["report"] if "report.facts" in text else [])
    return inline + [(name, text) for name in written]


@every
def test_each_assumption_is_named_where_code_relies_on_it(one: Assumption) -> None:
    assert bool(relied_on().get(one.name)) is not bool(one.unused), f"# Assumes `{one.name}`."


def test_code_names_only_assumptions_of_the_register() -> None:
    assert sorted(relied_on().keys() - assumptions().keys()) == []


@every
def test_each_assumption_has_a_probe(one: Assumption) -> None:
    assert [file for file in TABLES if set(one.facts) <= probed(file)] != []
    assert one.tried
    assert one.expected


@pytest.mark.parametrize("file", TABLES)
def test_the_table_of_a_workflow_breaks_nothing_that_only_another_one_tries(file: str) -> None:
    tried = {name: value for one in assumptions().values() for name, value in one.tried.items() if name in probed(file)}
    others = [one for one in assumptions().values() if not set(one.facts) <= probed(file)]
    found = {one.name: one.verdict(complete(tried | dict(one.tried.items() & tried.items()))) for one in others}
    assert {name for name, verdict in found.items() if verdict is not Verdict.NOT_TRIED} == set()


@every
def test_each_assumption_says_what_it_is_for(one: Assumption) -> None:
    assert one.for_
    assert set(one.for_) <= FEATURES.keys()
    assert one.source.startswith(("https://", "the `cell.yml`"))


def test_each_probe_is_made_to_break() -> None:
    under_act = {name for *_, names in test_canary.BREAKS for name in names} | {"dispatch-commit"}
    alone = {name for name, *_ in (*test_scripts.BREAKS, *test_evidence.BREAKS)} | {
        "runs-on-group",
        "called-result",
        "called-variables",
        "lost-runner",
        "pending-cancelled",
        "artifact-patterns",
        "artifact-merged",
        "artifact-alone",
    }
    assert under_act | alone == assumptions().keys()


@pytest.mark.parametrize("file", ["canary.yml", "canary-runs.yml"])
def test_the_report_waits_for_every_job(file: str) -> None:
    jobs = workflows()[file]["jobs"]
    assert set(jobs["report"]["needs"]) == jobs.keys() - {"report"}


def test_an_assumption_without_a_probe_is_noticed() -> None:
    assert "start.no-such-fact" not in probed("canary.yml")
    assert "start.event" in probed("canary.yml")
