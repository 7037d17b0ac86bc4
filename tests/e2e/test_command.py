"""The compiled workflows with the backend `command`: a wheel goes from a script to an index, and no Nix is there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ci_compiler
from tests.backends import wheel
from tests.backends.wheel import NAME, TOKEN, VERSION

from .world import HERE, World, in_a_folder

if TYPE_CHECKING:
    from .act import Run

FILE = f"files/fastpath-{VERSION}-py3-none-any.whl"
SECRET = {("preflight", "doctor"), ("publish", "publish-run")}
STAGES = ["build doctor", "build build", "cpu-test doctor", "cpu-test fetch", "cpu-test smoke"]


class WheelWorld(World):
    """A world whose repository is the wheel project; its machines have no Nix store."""

    def __init__(self, root: Path) -> None:
        self.index = root / "index"
        super().__init__(root, backend="command", apart=False)

    def _make_stores(self) -> None:
        """There are none."""

    def _make_repository(self) -> None:
        self._make_origin()
        wheel.write(self.clone)
        wheel.interpreter(self.root / "python", own_pip=True)
        (self.clone / ".github").mkdir()
        self.declare()
        self.commit("Begin")
        self.git("push", "--quiet", "origin", "main")

    def declare(self, **command: Any) -> None:
        """Compiles the spec, with keys of the package's commands changed."""
        spec = wheel.spec(**command) | {"toolkit": f"ci-compiler=={ci_compiler.__version__}"}
        (self.clone / ".github/ci-matrix.yaml").write_text(json.dumps(spec), "utf-8")
        self._run(HERE / "bin/installed/ci-compile", at=self.clone)

    def _secrets(self) -> dict[str, str]:
        return {"PUBLISH_TOKEN": TOKEN}

    def _nix(self) -> str:
        return str(self.root / "python")

    @cached_property
    def environment(self) -> dict[str, str]:
        """The environment with the place of the index."""
        return super().environment | {"INDEX": str(self.index)}


@pytest.fixture(scope="module")
def world() -> Iterator[WheelWorld]:
    yield from in_a_folder(WheelWorld)


@pytest.fixture(scope="module")
def pushed(world: WheelWorld) -> Run:
    world.edit("src/fastpath.py", "2 * number", "number + number")
    world.commit("Add in place of multiplying")
    return world.push("build-main-cpu.yml", "main")


def test_a_push_builds_tests_and_publishes_the_wheel(world: WheelWorld, pushed: Run) -> None:
    assert pushed.status == 0, pushed.log.said
    assert pushed.did(NAME) == STAGES
    assert {(entry.job, entry.command) for entry in pushed.journal if entry.secret} == SECRET
    published = world.index / "avx2/simple/fastpath" / Path(FILE).name
    assert published.read_bytes() == (pushed.folder(f"build-{NAME}") / FILE).read_bytes()


def test_the_artifact_of_the_build_holds_the_files_and_their_hashes(pushed: Run) -> None:
    assert pushed.files(f"build-{NAME}") == {"sbom.cdx.json", "build.log", "manifest.json", FILE}
    assert list(pushed.json(f"build-{NAME}", "manifest.json")["closure"]) == [FILE]


@pytest.mark.weekly
def test_a_wheel_that_fails_its_test_is_not_published(world: WheelWorld, pushed: Run) -> None:  # noqa: ARG001
    world.edit("src/fastpath.py", '"""A module."""', "import no_such_module")
    world.commit("Import what is not there")
    before = list(world.index.rglob("*.whl"))
    run = world.push("build-main-cpu.yml", "main")
    assert run.status != 0
    assert run.did(NAME)[-1] == "cpu-test smoke: 1"
    assert "publish" not in {entry.job for entry in run.journal if entry.what == "0"}
    assert list(world.index.rglob("*.whl")) == before
