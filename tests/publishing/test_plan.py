"""What is uploaded, refused, waited for and removed: decisions about values, without a place to publish to."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ci_compiler.publishing.plan import (
    UPLOAD_DAYS,
    HeldFile,
    HeldVersion,
    Nights,
    StagedVariant,
    expired,
    order_of,
    other_commit,
    plan_upload,
    refusal,
    release_of,
    waits_for,
)

OLD, NEW = "a" * 40, "b" * 40


def test_each_file_is_in_one_list() -> None:
    wanted = dict.fromkeys(["new", "same", "other", "whole", "broken"], "a1")
    held = {
        "same": HeldFile("a1", shown=True),
        "other": HeldFile("b2", shown=True),
        "whole": HeldFile("a1", shown=False),
        "broken": HeldFile("", shown=False),
        "unwanted": HeldFile("c3", shown=True),
    }
    plan = plan_upload(wanted, held)
    assert (plan.upload, plan.present, plan.refused, plan.resumed, plan.replaced) == tuple(
        (name,) for name in ("new", "same", "other", "whole", "broken")
    )
    assert plan.put == ("new", "broken")


@pytest.mark.parametrize(
    ("earlier", "where"),
    [("", ""), (NEW, ", from this commit: the build is not reproducible"), (OLD, f", from {OLD}")],
)
def test_a_refusal_names_the_files_and_the_commit_of_what_is_published(earlier: str, where: str) -> None:
    assert refusal(["b.whl", "a.whl"], "1.4.0", earlier, NEW) == (
        f"a.whl and b.whl: version 1.4.0 is published already, with another content{where}; "
        "set a new version, or one for each night (`version: {night: …}`)"
    )


@pytest.mark.parametrize(("version", "release"), [("1.4.0", "1.4.0"), ("1.4.0+cu130", "1.4.0"), ("1+a+b", "1")])
def test_the_local_part_of_a_version_is_not_its_releases(version: str, release: str) -> None:
    assert release_of(version) == release


def precedes(one: str, other: str) -> bool:
    return (one, other) == (OLD, NEW)


WAITING_NEW, WAITING_OLD = (StagedVariant(commit, shown=False) for commit in (NEW, OLD))
BUILT = f"was built from {OLD}, this from {NEW}; `ci-compile dispatch --all` builds every one"


@pytest.mark.parametrize(
    ("held", "commit", "refused", "waits"),
    [
        ({}, NEW, "", "cpu and sm90 did not pass and get there yet"),
        ({"cpu": WAITING_NEW}, NEW, "", "sm90 did not pass and get there yet"),
        ({"cpu": WAITING_NEW, "sm90": WAITING_NEW}, NEW, "", ""),
        ({"cpu": WAITING_OLD}, NEW, "", f"sm90 did not pass and get there yet; cpu {BUILT}"),
        ({"sm90": WAITING_OLD, "cpu": WAITING_OLD}, NEW, "", f"cpu and sm90 {BUILT}"),
        ({"sm90": WAITING_OLD, "cpu": WAITING_NEW}, NEW, "", f"sm90 {BUILT}"),
        (
            {"cpu": WAITING_NEW, "sm90": WAITING_OLD},
            OLD,
            f"has files of the newer commit {NEW} (cpu), and this was built from {OLD}",
            f"cpu was built from {NEW}, this from {OLD}; `ci-compile dispatch --all` builds every one",
        ),
        (
            {"sm90": StagedVariant(OLD, shown=True), "cpu": StagedVariant(NEW, shown=True)},
            NEW,
            f"was published from {OLD} (sm90), and this was built from {NEW}; set a new version",
            "",
        ),
        (dict.fromkeys(["cpu", "sm90"], StagedVariant(NEW, shown=True)), NEW, "", ""),
        (dict.fromkeys(["cpu", "sm90"], StagedVariant("", shown=True)), NEW, "", ""),
        (dict.fromkeys(["cpu", "sm90"], StagedVariant("", shown=False)), NEW, "", ""),
    ],
)
def test_what_is_refused_and_what_waits(held: dict[str, StagedVariant], commit: str, refused: str, waits: str) -> None:
    assert other_commit(held, commit, precedes) == refused
    assert waits_for(held, ["sm90", "cpu"], commit) == waits


@pytest.mark.parametrize(
    ("pattern", "version", "date"),
    [
        ("{version}.dev{date}", "1.5.0.dev20261123", (2026, 11, 23)),
        ("{version}.dev{date}", "1.5.0.dev20261123+cu130", (2026, 11, 23)),
        ("{version}.dev{date}", "1.5.0xdev20261123", None),
        ("{version}.dev{date}", "1.5.0.dev20261399", None),
        ("{version}.dev{date}", "1.5.0.dev2026112", None),
        ("{version}.dev{date}", "1.5.0.dev20261123.1", None),
        ("{version}.dev{date}", "v1.5.0.dev20261123", None),
        ("{date}+{version}", "20261123+1.5.0", (2026, 11, 23)),
        ("nightly", "nightly", None),
        ("", "", None),
        ("", "+cu130", None),
        ("", "1.5.0", None),
    ],
)
def test_the_date_of_a_night_is_where_the_pattern_has_it(
    pattern: str, version: str, date: tuple[int, int, int] | None
) -> None:
    assert Nights(pattern=pattern).date(version) == (datetime(*date, tzinfo=UTC) if date else None)


def night(day: int, variant: str = "cpu", local: str = "") -> HeldVersion:
    return HeldVersion(variant, f"1.5.0.dev202611{day:02}{local}")


HELD = [
    *(night(day) for day in (1, 8, 9, 22, 23)),
    night(2, "old", "+cu130"),
    night(1, "old", "+cu130"),
    night(1, "old", "+cu130"),
    HeldVersion("cpu", "1.4.0"),
    HeldVersion("cpu", "1.5.0.dev20261399"),
    HeldVersion("cpu", "2.0.dev1"),
]


@pytest.mark.parametrize(
    ("kept", "gone"),
    [
        ({"days": 14}, [night(8), night(1), night(1, "old", "+cu130")]),
        ({"most": 1}, [night(22), night(9), night(8), night(1), night(1, "old", "+cu130")]),
        ({"most": 4, "days": 30}, [night(1)]),
        ({"days": 30}, []),
        ({"most": 5}, []),
        ({}, []),
    ],
)
def test_nights_expire_and_nothing_else(kept: dict[str, Any], gone: list[HeldVersion]) -> None:
    keep = Nights(pattern="{version}.dev{date}", **kept)
    assert list(expired(HELD, keep, datetime(2026, 11, 23, 12, tzinfo=UTC))) == gone


def test_the_last_night_is_that_of_the_last_day_and_not_of_the_highest_version() -> None:
    old, last = HeldVersion("cpu", "2.0.dev20261101"), HeldVersion("cpu", "1.9.dev20261102")
    keep = Nights(pattern="{version}.dev{date}", most=1)
    assert expired([old, last], keep, datetime(2026, 11, 2, tzinfo=UTC)) == (old,)


def test_versions_sort_as_pep_440_says() -> None:
    versions = ["1.4.0.dev2", "1.4.0a1", "1.4.0rc1", "1.4.0", "1.4.0.post1", "1.4.1.dev1", "1.10.0", "2026.1"]
    assert sorted(sorted(versions), key=order_of) == versions
    assert order_of("1.4.0+cu130") == order_of("1.4.0+cpu")


def test_an_upload_is_no_abandoned_one_while_its_run_may_go_on() -> None:
    """GitHub Docs, "Actions limits": a workflow run ends after 35 days."""
    assert UPLOAD_DAYS == 35 + 1
