"""Files reach their dependents: a library that is built once for two extensions, from script to index."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import ci_compiler

from .act import Run
from .test_command import WheelWorld
from .world import HERE, PYTHON, in_a_folder

pytestmark = pytest.mark.slow

LIBRARY = "lib-cpu-x86_64-linux"
EXTENSIONS = [f"ext-{abi}-cpu-x86_64-linux" for abi in ("new", "old")]
SHARD = "build-main-cpu.yml"

FILES = {
    "src/lib.txt": "1\n",
    "ci/lib.sh": "#!/bin/sh -e\nmkdir -p out\ncp src/lib.txt out/lib.txt\n",
    "ci/ext.sh": '#!/bin/sh -e\nmkdir -p dist\necho "$VARIANT_ABI $(cat "$VARIANT_NEEDS/lib/lib.txt")" >dist/ext.txt\n',
    "ci/lib_test.py": "import sys\nassert int(open(sys.prefix + '/lib.txt').read()) > 0\n",
    "ci/ext_test.py": """\
import os
import sys

library = open(os.environ["VARIANT_NEEDS"] + "/lib/lib.txt").read()
assert open(sys.prefix + "/ext.txt").read() == os.environ["VARIANT_ABI"] + " " + library
assert int(library) < 9
""",
    "ci/publish.sh": '#!/bin/sh -e\nmkdir -p "$INDEX/$VARIANT_NAME"\ncp "$VARIANT_FILES"/* "$INDEX/$VARIANT_NAME/"\n',
    ".gitignore": "*-output/\ndist/\nout/\n",
}


def declared() -> dict[str, Any]:
    def package(name: str, file: str, **more: Any) -> dict[str, Any]:
        command = {
            "build": f"ci/{name}.sh",
            "files": [file],
            "sources": [f"src/{name}.txt", f"ci/{name}.sh"],
            "setup": 'cp "$VARIANT_FILES"/* "$VIRTUAL_ENV"/',
            "install": "echo @name@",
            "publish": "ci/publish.sh",
        }
        return {"disk": 1, "memory": 1, "command": command, "smoke": {"cpu": {"python": f"ci/{name}_test.py"}}, **more}

    here = ["self-hosted", "linux", "x64"]
    return {
        "version": 1,
        "owner": "my-org",
        "backend": "command",
        "toolkit": f"ci-compiler=={ci_compiler.__version__}",
        "branches": {"main": {"versions": {"lib": "1.0.0", "ext": "1.0.0"}}},
        "axes": {"abi": {"values": ["new", "old"], "tag": "{value}"}},
        "packages": {
            "lib": package("lib", "out/lib.txt", ignores=["abi"]),
            "ext": package("ext", "dist/ext.txt", needs=["lib"]),
        },
        "matrix": {"values": {"abi": ["new", "old"], "accelerator": "cpu", "platform": "x86_64-linux"}},
        "runners": {
            "builder": {"runs-on": [*here, "builder"], "stages": ["build", "publish"]},
            "tester": {"runs-on": [*here, "tester"], "stages": ["cpu-test"]},
        },
        "publish": {"environment": "release", "on-shared-machines": True},
    }


class LibraryWorld(WheelWorld):
    """A world with a library and what is built with it."""

    def _make_repository(self) -> None:
        super()._make_repository()
        for name, text in FILES.items():
            path = self.clone / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
            path.chmod(0o755)
        (self.clone / ".github/ci-matrix.yaml").write_text(json.dumps(declared()), "utf-8")
        (self.root / "python/python3").symlink_to(self.root / f"python/python{PYTHON}")
        self._run(HERE / "bin/installed/ci-compile", at=self.clone)
        self.commit("A library and two extensions")
        self.git("push", "--quiet", "origin", "main")

    def change(self, number: int) -> None:
        """Commits another library."""
        (self.clone / "src/lib.txt").write_text(f"{number}\n", "utf-8")
        self.commit(f"Library {number}")


@pytest.fixture(scope="module")
def world() -> Iterator[LibraryWorld]:
    yield from in_a_folder(LibraryWorld)


def of(run: Run, name: str) -> str:
    return (run.folder(f"build-{name}") / "files/ext.txt").read_text("utf-8")


def builds(run: Run) -> list[str]:
    ended = [entry for entry in run.journal if entry.command == "build" and entry.what != "begin"]
    return [entry.variant for entry in ended]


@pytest.mark.weekly
def test_a_pull_request_builds_the_library_once_and_tests_what_needs_it_with_the_new_file(world: LibraryWorld) -> None:
    world.git("checkout", "--quiet", "-b", "two")
    world.change(2)
    run = world.pull_request("two", "main")
    assert run.status == 0, run.log.said
    assert sorted(builds(run)) == sorted([LIBRARY, *EXTENSIONS])
    assert builds(run)[0] == LIBRARY
    assert [of(run, name) for name in EXTENSIONS] == ["new 2\n", "old 2\n"]
    world.git("checkout", "--quiet", "main")


def test_a_push_publishes_what_was_tested_together(world: LibraryWorld) -> None:
    world.change(3)
    run = world.push(SHARD, "main")
    assert run.status == 0, run.log.said
    assert sorted(path.name for path in world.index.iterdir()) == sorted([LIBRARY, *EXTENSIONS])
    assert (world.index / EXTENSIONS[1] / "ext.txt").read_text("utf-8") == "old 3\n"


def test_a_library_that_fails_its_test_stops_all_that_contains_it(world: LibraryWorld) -> None:
    world.change(-1)
    run = world.push(SHARD, "main")
    assert run.status != 0
    assert not [path for path in world.index.glob("*/*.txt") if "-1" in path.read_text("utf-8")]
