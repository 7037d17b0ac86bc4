"""The facts that each workflow of the canary with a table can find, read from its jobs and their scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from ci_compiler.canary.assumptions import Assumption
from ci_compiler.canary.evidence import of_jobs, of_needs
from tests.canary.derived import load
from tests.canary.recorded import jobs

FACTS = re.compile(r"(?:echo \"|^  *echo \")([a-z-]+)=", re.MULTILINE)

TABLES = ("canary.yml", "canary-runs.yml", "canary-events.yml")
"""The workflows that write a table."""

Texts = Mapping[str, str]


def facts(texts: Texts, file: str) -> frozenset[str]:
    """The facts that a workflow can find: of scripts, also of those that it calls, of its jobs, of GitHub's list."""
    document = load(texts[f".github/workflows/{file}"])
    found = {
        f"{written}.{fact}"
        for job in document["jobs"].values()
        for step in job.get("steps", ())
        for written, script in _scripts(texts, step.get("run", ""))
        for fact in FACTS.findall(script)
    }
    for job in document["jobs"].values():
        found |= facts(texts, Path(job["uses"]).name) if "uses" in job else set()
    if report := document["jobs"].get("report"):
        found |= of_needs({name: {"result": "success"} for name in report["needs"]}, "").keys()
        legs = {job["name"].split()[0] for job in document["jobs"].values()}
        found |= {fact for fact in of_jobs(jobs()) if fact.split(".")[0] in {*legs, "report", "hook", "runner"}}
    return frozenset(found | ({"lost.annotated"} if "lost" in document["jobs"] else set()))


def _scripts(texts: Texts, run: str) -> list[tuple[str, str]]:
    """The facts files that a step writes, each with the text of what writes it."""
    legs = ("leg-a", "leg-b") if "leg-$LEG" in run else ()
    inline = [(name, run) for name in (*legs, *re.findall(r"> (?:facts|results)/([a-z-]+)\.facts", run))]
    called = re.search(r"bash (\.github/canary/[a-z]+\.sh)", run)
    text = texts[called[1]] if called else ""
    written = [name for name, _ in inline] + (["report"] if "report.facts" in text else [])
    return inline + [(name, text) for name in written]


def unfound(texts: Texts, register: Mapping[str, Assumption]) -> Iterator[str]:
    """What is wrong with a register for the canary's files: assumptions that no workflow decides."""
    known = [facts(texts, file) for file in TABLES]
    for one in register.values():
        if not any(set(one.facts) <= found for found in known):
            yield f"no workflow of the canary finds the facts of {one.name}"
