"""Records of tests that passed, in the binary cache: a test that passed on the same content is not run again.

A record is a text that states everything that a test depends on: the content of the build (the hash of its closure),
the test, and the version of this program. Only a test that passed writes its record, so a failed test always runs
again. Tests that read the repository also depend on the tree that is checked out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import ci_compiler
from ci_compiler.backends.checkout import JobCheckout
from ci_compiler.errors import InputError, StageError
from ci_compiler.plan.proof import Reach
from ci_compiler.runner.jobs.subject import SmokeSubject
from ci_compiler.spec.suites import Suite

_REQUESTS = frozenset({"pull_request", "merge_group"})
"""The events whose runs publish nothing."""

NOT_RUN = "not run again: the cache has the record of the same test, which passed on the same content"
"""Why a test was left out."""


def smoke_records(subject: SmokeSubject) -> dict[str, Reach]:
    """The records that the test of `subject` can leave, by what they prove, the strongest first; {} if it leaves none.

    What a test proves depends on the machine that ran it.
    """
    declared = subject.declared
    script = declared.python if declared else ""
    tree = _tree(Path.cwd()) if script else ""
    if script and not tree:
        return {}
    test = {
        "expectation": asdict(subject.expectation) | {"script": script},
        "declared": asdict(declared) if declared else None,
        "tree": tree,
    }
    return {_text(subject, test | {"reach": reach.value}): reach for reach in Reach}


def suite_records(subject: SmokeSubject, suite: Suite, shard: tuple[int, int], root: Path) -> tuple[str, ...]:
    """The record that `shard` of `suite` can leave in the checkout at `root`; () if it leaves none."""
    tree = _tree(root)
    return (_text(subject, {"suite": asdict(suite), "shard": shard, "tree": tree}),) if tree else ()


def passed_before(subject: SmokeSubject, test: str, records: Sequence[str]) -> str:
    """The first of `records` of `test` that is in the cache; '' if none is.

    Every job can write one. Where the result may lead to a publication, publishing must have signed that the content
    passed the test.
    """
    programs, build = subject.programs, subject.build
    if programs is None or build is None:
        return ""
    record = next(iter(programs.recorded(records)), "")
    believed = record and (os.environ.get("GITHUB_EVENT_NAME") in _REQUESTS or programs.attested(build, [test]))
    return record if believed else ""


def keep_record(subject: SmokeSubject, record: str) -> str:
    """Writes the record of a test that passed. Returns why it could not be written; '' if it was."""
    if subject.programs is None:
        return ""
    try:
        subject.programs.record(record)
    except StageError as error:
        return f"{error.findings[0].message}; the test will run again"
    return ""


def _text(subject: SmokeSubject, test: dict[str, Any]) -> str:
    stated = {
        "ci-compiler": ci_compiler.__version__,
        "content": subject.content,
        "stage": subject.stage.name,
        "values": subject.values,
        "test": test,
    }
    return f"{json.dumps(stated, indent=1, sort_keys=True)}\n"


def _tree(root: Path) -> str:
    """The tree that is checked out at `root`; '' if there is none or a tracked file differs from it."""
    try:
        checkout = JobCheckout(root)
        return "" if checkout.changed() else checkout.tree_id()
    except (InputError, StageError):
        return ""
