"""Nights and releases with the compiled workflows: a night has dated versions, and a release goes out whole or not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

import ci_compiler
from ci_compiler.runner.jobs.publish import HELD_BACK
from tests.backends import wheel
from tests.backends.wheel import TAG, VERSION

from .test_command import WheelWorld
from .world import HERE, in_a_folder

pytestmark = pytest.mark.slow

SHARD = "build-main-cpu.yml"
ISAS = BAD, GOOD = "avx", "avx2"
DATE = "20261123"


class ReleasingWorld(WheelWorld):
    """A world whose wheels of two instruction sets go to one index, as one release."""

    def declare(self, **command: Any) -> None:
        """Compiles the spec, with a night that publishes and with releases."""
        rule = {"night": "{version}.dev{date}", "local": "@isa@"}
        place = {"to": "wheel-index", "url": str(self.index), "whole": True}
        spec = wheel.spec(version=rule, publish=place, **command)
        del spec["packages"]["fastpath"]["command"]["published"]
        nightly = {"schedule": {"days": ["sun"]}, "publish": True}
        spec["profiles"] = {"nightly": nightly, "release": {"tags": ["v*"]}}
        spec["toolkit"] = f"ci-compiler=={ci_compiler.__version__}"
        (self.clone / ".github/ci-matrix.yaml").write_text(json.dumps(spec), "utf-8")
        self._run(HERE / "bin/installed/ci-compile", at=self.clone)

    @cached_property
    def shown(self) -> Path:
        """The page of the project, which lists what users see."""
        return self.index / "fastpath/index.html"

    def release(self, tag: str) -> None:
        """Tags the tip of main, and pushes both."""
        self.git("tag", tag)
        self.git("push", "--quiet", "origin", "main", tag)


def name_of(isa: str) -> str:
    return f"fastpath-{TAG}-cpu-{isa}"


@pytest.fixture(scope="module")
def world() -> Iterator[ReleasingWorld]:
    yield from in_a_folder(ReleasingWorld)


def test_a_night_publishes_versions_with_its_date(world: ReleasingWorld) -> None:
    run = world.dispatch(SHARD, "main", variant="all", profile="nightly", night=DATE, publish="true")
    assert run.status == 0, run.log.said
    page = world.shown.read_text("utf-8")
    assert [f"fastpath-{VERSION}.dev{DATE}+{isa}-py3-none-any.whl" in page for isa in ISAS] == [True, True]


@pytest.mark.weekly
def test_a_release_with_one_failing_variant_shows_nothing(world: ReleasingWorld) -> None:
    before = world.shown.read_bytes()
    world.edit("src/fastpath.py", '"""A module."""', f'"""A module."""\n\nWORKS = {{"{GOOD}": True}}')
    world.edit("ci/backend.py", "FLAGS = {os.environ['VARIANT_FLAGS']!r}", "FLAGS = WORKS[ISA]")
    world.commit("Break one instruction set")
    world.release("v1.4.0")
    run = world.dispatch(SHARD, "main", variant="all", profile="release", publish="true")
    assert run.status != 0
    assert {isa: run.did(name_of(isa))[-1] for isa in ISAS} == {BAD: "cpu-test smoke: 1", GOOD: "cpu-test smoke"}
    assert world.shown.read_bytes() == before
    # act ends a run at its first failed cell, before the job that publishes: the release goes on with what passes.
    run = world.dispatch(SHARD, "main", variant=name_of(GOOD), profile="release", publish="true")
    assert run.status == 0, run.log.said
    assert HELD_BACK in run.row(name_of(GOOD))[-1]
    assert list(world.index.rglob(f"fastpath-{VERSION}+{GOOD}-*.whl"))
    assert world.shown.read_bytes() == before
