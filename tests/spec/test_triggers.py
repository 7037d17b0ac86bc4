"""The keys that `spec.triggers` declares, as the published schema has them."""

from __future__ import annotations

from typing import Any

import pytest

from ci_compiler.spec.triggers import (
    NightlyProfile,
    Profiles,
    PullRequest,
    PushProfile,
    ReleaseProfile,
    RequestProfile,
    Schedule,
    Sync,
    Watch,
)
from ci_compiler.stages import stages_that_test
from tests.spec.published import assert_published
from tests.specs import small, spec_of


def test_the_schema_has_these_keys() -> None:
    assert_published(
        NightlyProfile, Profiles, PullRequest, PushProfile, ReleaseProfile, RequestProfile, Schedule, Sync, Watch
    )


def profiles(**rows: Any) -> Profiles:
    quiet = {"on-push": False}
    return spec_of(small(publish=quiet, profiles={name.replace("_", "-"): row for name, row in rows.items()})).profiles


WEEKLY = {"schedule": {"days": ["sun"]}}
SM90 = {"target": "sm90"}


def test_without_profiles_nothing_is_started_and_nothing_is_left_out() -> None:
    plain = Profiles()
    assert (dict(plain.started), plain.leaves_tests_out, list(plain.conditions)) == ({}, False, [])
    assert plain.variants == {"pull-request": (), "push": ()}
    assert [plain.left_out(name) for name in ("push", "nightly", "nothing")] == [(), (), ()]


@pytest.mark.parametrize(
    ("rows", "started"),
    [
        ({"push": {"batch": "60m"}}, {"push": True}),
        ({"nightly": WEEKLY}, {"nightly": False}),
        ({"nightly": {**WEEKLY, "build": "changed"}}, {"nightly": True}),
        ({"release": {"tags": ["v*"]}, "nightly": WEEKLY}, {"nightly": False, "release": False}),
    ],
)
def test_what_is_started_and_whether_only_changes_are_built(rows: dict[str, Any], started: dict[str, bool]) -> None:
    assert profiles(**rows).started == started


def test_the_tests_that_a_profile_leaves_out() -> None:
    made = profiles(push={"tests": ["cpu-test"]}, nightly={**WEEKLY, "tests": []}, pull_request={"tests": ["gpu-test"]})
    named = {name: [stage.name for stage in made.left_out(name)] for name in ("push", "nightly", "pull-request")}
    every = [stage.name for stage in stages_that_test()]
    assert named == {
        "push": [name for name in every if name != "cpu-test"],
        "nightly": every,
        "pull-request": [name for name in every if name != "gpu-test"],
    }
    assert made.leaves_tests_out
    assert not profiles(pull_request={"tests": ["gpu-test"]}, nightly=WEEKLY).leaves_tests_out


@pytest.mark.parametrize(
    ("name", "on_push", "expected"),
    [
        ("push", True, True),
        ("push", False, False),
        ("nightly", True, False),
        ("release", False, True),
        ("x", True, False),
    ],
)
def test_which_profiles_publish(name: str, *, on_push: bool, expected: bool) -> None:
    made = profiles(nightly=WEEKLY, release={"tags": ["v*"], "publish": True})
    assert made.publishes(name, on_push=on_push) is expected


def test_conditions_have_their_place_in_the_spec() -> None:
    made = profiles(
        push={"variants": [SM90, {"isa": "avx2"}]},
        release={"tags": ["v*"], "variants": [SM90]},
        pull_request={"labels": {"full": [{"python": "3.13"}]}},
    )
    assert [(path, when.values) for path, when in made.conditions] == [
        (("profiles", "push", "variants", 0), (("target", ("sm90",)),)),
        (("profiles", "push", "variants", 1), (("isa", ("avx2",)),)),
        (("profiles", "release", "variants", 0), (("target", ("sm90",)),)),
        (("profiles", "pull-request", "labels", "full", 0), (("python", ("3.13",)),)),
    ]
