"""The keys that `spec.triggers` declares, as the published schema has them."""

from __future__ import annotations

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
from tests.spec.published import assert_published


def test_the_schema_has_these_keys() -> None:
    assert_published(
        NightlyProfile, Profiles, PullRequest, PushProfile, ReleaseProfile, RequestProfile, Schedule, Sync, Watch
    )
