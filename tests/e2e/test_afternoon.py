"""The page *A Nix fleet in an afternoon*, line by line, up to a build that is signed in a cache.

Its commands are read from the page. What differs is what the page cannot know: the address and key of the cache, the
ci-compiler that is under test, this machine's Python, and the sizes of packages and machines. The archive of nixpkgs is
the miniature one, and act runs the workflow that `ci-compile dispatch` starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ci_compiler
from ci_compiler.cli.where import SPEC
from tests.checkers import require
from tests.test_documents import Block, Session, session, steps_of

from .conftest import on_a_disk
from .world import PYTHON, TAG, World

pytestmark = pytest.mark.weekly

if TYPE_CHECKING:
    from .act import Run

__all__ = ["session"]

PAGE = ".github/docs/nix-fleet.md"
VARIANTS = [f"{package}-{TAG}-cuda12_8-sm90-avx2" for package in ("pytorch", "torchvision", "torchaudio")]


class Afternoon(World):
    """A world whose repository a page makes."""

    def _make_repository(self) -> None:
        self.git("init", "--quiet", "--bare", "--initial-branch=main", self.origin, at=self.root)
        self.git("config", "uploadpack.allowAnySHA1InWant", "true", at=self.origin)

    def own(self, block: Block) -> Block:
        """A block of the page with the cache, the ci-compiler and the Python of this world."""
        text = re.sub(r"s3://\S+ my-cache-1:[^']+", f"file://{self.cache} {self.public_key}", block.text)
        text = re.sub(r"git\+https://\S+", f"ci-compiler=={ci_compiler.__version__}", text)
        return replace(block, text=text.replace("python313", TAG))

    def take_key(self, folder: Path) -> None:
        """Takes the key pair that the page made in `folder`."""
        self.key, self.public_key = (
            (folder / f"{name}.key").read_text("utf-8").strip() for name in ("secret", "public")
        )

    def shrink(self) -> None:
        """Makes the fleet as small as this machine."""
        text = SPEC.read_text("utf-8").replace('python: ["3.13"]', f'python: ["{PYTHON}"]')
        SPEC.write_text(re.sub(r"\b(disk|memory|cores|count): \d+", r"\1: 1", text), "utf-8")


@pytest.fixture
def world(apart: bool, tmp_path: Path) -> Iterator[Afternoon]:
    for tool in ("act", "git", "nix-build", "nix-store", "bash"):
        require(tool)
    made = Afternoon(on_a_disk(tmp_path / "world"), backend="nix", apart=apart)
    yield made
    made.remove()


@pytest.mark.usefixtures("machines_apart")
def test_the_page_leads_from_an_empty_folder_to_a_build_that_is_signed(
    world: Afternoon, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Path.cwd()
    assert list(work.iterdir()) == []
    blocks = [block for block, _ in steps_of(PAGE)]
    kinds = ["nix", "session", "session", "session", "session", "hash", "session", "github", "session"]
    assert [block.kind.split()[-1] for block in blocks] == kinds
    monkeypatch.setattr(Session, "hash", lambda _: None)
    monkeypatch.setattr("ci_compiler.cli.compile.hash.fetched_hash", lambda _: world.nixpkgs_hash["main"])
    key, init, shown, *edits, compiled, explained, dispatch, _ = blocks
    session.step(key)
    world.take_key(work)
    for block in (init, shown, *edits):
        session.step(world.own(block))
    world.clone = work / "stack"
    world.shrink()
    session.step(replace(compiled, kind="sh session"))
    session.step(world.own(explained))
    world.git("remote", "add", "origin", world.origin)
    world.git("push", "--quiet", "origin", "main")
    world.git("fetch", "--quiet", "origin")
    session.step(world.own(dispatch))
    (order,) = session.served.dispatched
    workflow, ref = (order.pop(name) for name in ("path", "ref"))
    assert ref == "main"
    world.install_driver()
    run = world.dispatch(Path(workflow).name, ref, **order)
    _is_green(world, run)


def _is_green(world: Afternoon, run: Run) -> None:
    assert run.status == 0, run.log.said
    assert run.ended("failure") == []
    for variant in VARIANTS:
        assert [did for did in run.did(variant) if ":" in did] == []
        assert {"build build", "cpu-test smoke", "gpu-test smoke"} <= set(run.did(variant))
        assert world.signed(run.json(f"build-{variant}", "manifest.json")["store_path"])
