"""The nixpkgs commits that a spec names, and those whose archive nothing proves."""

from __future__ import annotations

from typing import Any

import pytest

from ci_compiler.plan.pins import Named, named_commits, unverified_commits
from ci_compiler.plan.rules import judge
from tests.specs import CACHE, HASH, MAIN, PIN, small, spec_of

BARE = {name: value for name, value in MAIN.items() if name != "nixpkgs-hash"}
OWN_PINS = BARE | {"cuda": {"12.8": {"nixpkgs": "b" * 40, "nixpkgs-hash": HASH}, "12.9": {}, "13.0": None}}


def test_branches_and_their_toolkits_name_commits() -> None:
    spec = spec_of(small(branches={"main": OWN_PINS, "next": MAIN}))
    assert list(named_commits(spec)) == [
        Named(("branches", "main"), "main", PIN, ""),
        Named(("branches", "main", "cuda", "12.8"), "main", "b" * 40, HASH),
        Named(("branches", "next"), "next", PIN, HASH),
    ]


@pytest.mark.parametrize(
    ("branch", "changes", "found"),
    [
        (BARE, CACHE, 1),
        (MAIN, CACHE, 0),
        (BARE, {}, 0),
        (BARE | {"publish": False}, CACHE, 0),
        (BARE, CACHE | {"packages": {"pytorch": {"recipes": "own"}, "torchvision": {"recipes": "own"}}}, 0),
        (
            BARE,
            CACHE | {"packages": {"pytorch": {"recipes": "own"}, "torchvision": {"recipes": {"*-cpu-*": "own"}}}},
            1,
        ),
        (OWN_PINS, CACHE, 1),
    ],
)
def test_what_is_published_must_come_from_a_commit_with_its_hash(
    branch: dict[str, Any], changes: dict[str, Any], found: int
) -> None:
    spec = spec_of(small(branches={"main": branch}, **changes))
    findings = list(unverified_commits(spec, judge(spec).cells))
    assert len(findings) == found
    for finding in findings:
        assert finding.code == "nixpkgs-unverified"
        assert finding.message == (
            "main publishes into a cache what it builds from fe5e41d7ffc0, and nothing says what that archive must "
            "hold; `ci-compile hash` fills in `nixpkgs-hash`"
        )


def test_a_branch_of_which_nothing_is_built_is_not_asked() -> None:
    spec = spec_of(small(branches={"main": BARE}, **CACHE))
    assert list(unverified_commits(spec, [])) == []
