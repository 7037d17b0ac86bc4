"""GitHub's limits and the pins: a file above the gate is refused, and the tables hold GitHub's numbers."""

from __future__ import annotations

import json

import pytest

from ci_compiler.errors import InputError
from ci_compiler.plan.limits import Limit, limit
from ci_compiler.plan.pipeline import plan
from ci_compiler.spec.build import parse_spec
from ci_compiler.sync.compiled import compile_files
from ci_compiler.workflows.pins import pinned
from tests.specs import small


def sizes(shown: str) -> dict[str, int]:
    """The bytes of each compiled file, every one of which names the spec in its header."""
    files = compile_files(plan(parse_spec(json.dumps(small()).encode(), shown=shown)))
    return {path: len(text.encode()) for path, text in files.items() if path.startswith(".github/workflows/")}


def test_a_file_at_the_gate_is_written_and_one_byte_more_is_refused() -> None:
    usual = sizes("s")
    path = max(usual, key=lambda name: usual[name])
    room = 470_000 - usual[path]
    assert sizes("s" * (room + 1))[path] == 470_000
    with pytest.raises(InputError) as raised:
        sizes("s" * (room + 2))
    said = f"{path}: 470,001 bytes, above the gate of 470,000: GitHub silently ignores a workflow of more than 512,000"
    assert list(map(str, raised.value.findings)) == [f"{said} [workflow-too-large]"]
    with pytest.raises(InputError, match="workflow-too-large"):
        sizes("é" * (room // 2 + 2))


def test_every_file_that_is_too_large_is_named() -> None:
    usual = sizes("s")
    with pytest.raises(InputError) as raised:
        sizes("s" * 470_000)
    assert {finding.place.file for finding in raised.value.findings} >= usual.keys()


def test_the_table_gives_the_limits_that_github_documents() -> None:
    assert limit("file-bytes") == Limit(gate=470_000, limit=512_000)
    assert limit("jobs") == Limit(gate=256, limit=256)
    assert limit("dispatch-inputs") == Limit(gate=10, limit=25)
    assert limit("expression-characters") == Limit(gate=20_000, limit=21_000)
    with pytest.raises(KeyError):
        limit("nothing")


def test_a_pin_is_a_commit_with_its_tag_in_a_remark() -> None:
    found = pinned("actions/checkout")
    assert found.partition("@")[0] == "actions/checkout"
    assert len(found.partition("@")[2]) == 40
    assert found.remark.startswith("v")
    with pytest.raises(KeyError):
        pinned("actions/nothing")
