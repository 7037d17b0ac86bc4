"""How files get to a target: only what it lacks is sent, and its failures are findings about the variant."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ci_compiler.codes import Code
from ci_compiler.errors import StageError
from ci_compiler.publishing.plan import HeldFile, Upload, UploadPlan
from ci_compiler.publishing.target import Target, place_failures, planned, publish, upload


class Shelf(Target):
    """Holds `files`; `calls` are those of the methods that change it."""

    def __init__(self, files: Mapping[str, HeldFile]) -> None:
        self.files = files
        self.calls: list[str] = []

    def held(self, wanted: Sequence[Upload]) -> Mapping[str, HeldFile]:
        return {file.name: self.files[file.name] for file in wanted if file.name in self.files}

    def put(self, file: Upload) -> None:
        self.calls.append(f"put {file.name}")

    def stage(self, wanted: Sequence[Upload]) -> None:
        self.calls.append(f"stage {' '.join(file.name for file in wanted)}")

    def finish(self, version: str, variants: Collection[str]) -> None:
        self.calls.append(f"finish {version} {' '.join(variants)}")


NAMES = ("new", "same", "whole", "broken")
WANTED = [Upload(name, "a1", Path(name), "fastpath-cpu", "1.4.0", "c0ffee") for name in NAMES]
SAME, WHOLE, BROKEN = HeldFile("a1", shown=True), HeldFile("a1", shown=False), HeldFile("", shown=False)
HELD = {"same": SAME, "whole": WHOLE, "broken": BROKEN}


def test_what_the_target_lacks_is_sent_and_each_file_is_reported() -> None:
    shelf, said = Shelf(HELD), list[str]()
    plan = upload(shelf, WANTED, said.append)
    assert plan == planned(shelf, WANTED)
    assert plan == UploadPlan(upload=("new",), present=("same",), refused=(), resumed=("whole",), replaced=("broken",))
    assert said == [
        "same: published already",
        "whole: uploaded before",
        "new: uploaded",
        "broken: uploaded again",
    ]
    assert shelf.calls == ["put new", "put broken", "stage new same whole broken"]


@pytest.mark.parametrize(
    ("held", "calls"),
    [
        (dict.fromkeys(NAMES, SAME), []),
        (dict.fromkeys(NAMES, WHOLE), ["stage new same whole broken"]),
        (dict.fromkeys(NAMES, SAME) | {"whole": WHOLE}, ["stage new same whole broken"]),
    ],
)
def test_files_are_staged_unless_all_are_shown(held: dict[str, HeldFile], calls: list[str]) -> None:
    shelf = Shelf(held)
    upload(shelf, WANTED, print)
    assert shelf.calls == calls


def test_publishing_ends_with_what_users_see() -> None:
    shelf = Shelf({})
    publish(shelf, [WANTED[0], WANTED[1]._replace(variant="fastpath-sm90", version="1.5")], print)
    assert shelf.calls == ["put new", "put same", "stage new same", "finish 1.4.0 fastpath-cpu"]


@pytest.mark.parametrize(
    ("earlier", "where"), [("c0ffee", ", from this commit: the build is not reproducible"), ("beef", ", from beef")]
)
def test_another_content_is_refused_before_anything_is_sent(earlier: str, where: str) -> None:
    other = HeldFile("b2", shown=True, commit=earlier)
    shelf = Shelf(HELD | {"same": other, "broken": HeldFile("b2", shown=True, commit="later")})
    with pytest.raises(StageError) as raised:
        upload(shelf, WANTED, print)
    [finding] = raised.value.findings
    assert finding.code is Code.PUBLISHED_OTHERWISE
    assert str(finding).startswith(
        f"fastpath-cpu: broken and same: version 1.4.0 is published already, with another content{where}; set a new"
    )
    assert shelf.calls == []


def test_a_place_that_fails_is_a_finding_about_the_variant() -> None:
    with place_failures("fastpath-cpu"):
        pass
    with pytest.raises(StageError) as raised, place_failures("fastpath-cpu"):
        raise OSError("no space left")
    [finding] = raised.value.findings
    assert finding.code is Code.PUBLISH_FAILED
    assert str(finding) == "fastpath-cpu: the place to publish to failed: no space left [publish-failed]"
    with pytest.raises(ZeroDivisionError), place_failures("fastpath-cpu"):
        raise ZeroDivisionError


def test_a_target_that_shows_each_file_at_once_knows_no_more() -> None:
    shelf = Shelf(HELD)
    assert shelf.staged("1.4.0", ["fastpath-cpu"]) == {}
    assert shelf.unfinished("1.4.0", "fastpath-cpu") is False
    assert shelf.versions() == ()
    assert shelf.remove_abandoned(datetime(2026, 11, 23, tzinfo=UTC)) == 0
