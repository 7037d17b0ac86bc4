"""The register of assumptions, the comments of the code that relies on them, and the canary's probes are one list."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from operator import attrgetter
from pathlib import Path

import pytest
import yaml

import ci_compiler
from ci_compiler.canary.assumptions import FEATURES, Assumption, Verdict, assumptions, complete
from ci_compiler.canary.repository import files
from tests.canary import test_evidence, test_scripts
from tests.canary.probed import TABLES, facts
from tests.e2e import test_canary
from tests.rows import for_each_row

SOURCES = Path(ci_compiler.__file__).parent
ROOT = SOURCES.parent
MARKER = re.compile(r"# .*\bAssumes (`[a-z0-9-]+`(?:, `[a-z0-9-]+`)*)")
CANARY = files(None)
KNOWN = {file: facts(CANARY, file) for file in TABLES}

every = for_each_row(assumptions().values(), attrgetter("name"))


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


@every
def test_each_assumption_is_named_where_code_relies_on_it(one: Assumption) -> None:
    assert bool(relied_on().get(one.name)) is not bool(one.unused), f"# Assumes `{one.name}`."


def test_code_names_only_assumptions_of_the_register() -> None:
    assert sorted(relied_on().keys() - assumptions().keys()) == []


@every
def test_each_assumption_has_a_probe(one: Assumption) -> None:
    assert [file for file in TABLES if set(one.facts) <= KNOWN[file]] != []
    assert one.tried
    assert one.expected


@pytest.mark.parametrize("file", TABLES)
def test_the_table_of_a_workflow_breaks_nothing_that_only_another_one_tries(file: str) -> None:
    known = KNOWN[file]
    tried = {name: value for one in assumptions().values() for name, value in one.tried.items() if name in known}
    others = [one for one in assumptions().values() if not set(one.facts) <= known]
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
    jobs = yaml.safe_load(CANARY[f".github/workflows/{file}"])["jobs"]
    assert set(jobs["report"]["needs"]) == jobs.keys() - {"report"}
