"""The guide "Build and test one by hand": every command runs, in its order, and prints what the guide shows."""

from __future__ import annotations

import shlex
import subprocess
from itertools import pairwise

import pytest

from ci_compiler.runner.jobs import smoke
from tests.runner.jobs.test_smoke_store import package_recipes
from tests.runner.jobs.world import TORCH, World, ci_runner, recipe
from tests.runner.machines import known
from tests.test_documents import Block, printing, read, shows

GUIDE = ".github/docs/build-by-hand.md"
NAME = "pytorch-python313-cpu-avx2"


@pytest.mark.parametrize("backend", ["flox", "nix"])
def test_every_command_prints_what_the_guide_shows(world: World, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a small repository, whose PyTorch is a stand-in and whose Flox is one that builds with Nix."""
    package_recipes(world)
    world.spec(backend=backend)
    world.commit()
    monkeypatch.setattr(smoke, "this_machine", lambda *_, **__: known("h200"))
    ran = 0
    for block, following in pairwise([*read(GUIDE)[0], Block("", "", 0)]):
        if block.kind == "sh" and "--python" not in block.text:  # the stand-in is installed nowhere
            line, expected = (text.replace(NAME, TORCH).strip() for text in (block.text, following.text))
            printed = run(world, line)
            assert shows(expected, printed), f"{line}\n{printed}"
            ran += 1
    assert ran == 8


@pytest.mark.parametrize("backend", ["flox", "nix"])
def test_the_commands_at_the_end_of_a_failed_job_reproduce_its_failure(
    world: World, backend: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the guide shows them, in a clone that has moved on; for a build, and for a test of what was built."""
    world.spec(backend=backend)
    world.write(TORCH, recipe(TORCH, "2.8.0", "echo a.cpp:1:2: error: no x; exit 3"))
    world.commit()
    assert ci_runner("build", TORCH, "--branch", "main") == 1
    built = end_of_job(capsys)
    package_recipes(world)
    world.commit()
    assert ci_runner("build", TORCH, "--branch", "main") == 0
    monkeypatch.setattr(smoke, "this_machine", lambda *_, **__: known("sandy-bridge"))
    assert ci_runner("smoke", TORCH, "--manifest", "build-output/manifest.json") == 1
    tested = end_of_job(capsys)
    for lines in (built, tested):
        world.git("commit", "--quiet", "--allow-empty", "--message", "later")
        *before, last = (shlex.split(line) for line in lines)
        for program, *words in before:
            assert ci_runner(*words) == 0 if program == "ci-runner" else world.git(*words) is not None
        assert ci_runner(*last[1:]) == 1
        assert end_of_job(capsys) == lines
    shown = next(block.text for block in read(GUIDE)[0] if "git checkout" in block.text)
    assert shows(shown.replace(NAME, TORCH).strip(), "\n".join(tested))
    assert "error: no x" in world.summary
    assert f"ci-runner smoke {TORCH}" in world.summary


def end_of_job(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The commands at the end of a failed job."""
    lines = capsys.readouterr().err.splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("To reproduce it"))
    return [line.removeprefix("| ") for line in lines[start + 1 :]]


def run(world: World, line: str) -> str:
    """Runs a command that must succeed; what it prints."""
    program, *words = shlex.split(line)
    if program == "ci-runner":
        with printing() as printed:
            assert ci_runner(*words) in ({0, 1} if words[0] == "doctor" else {0})  # 1: this machine is too small
        return printed.getvalue()
    done = subprocess.run([program, *words], cwd=world.root, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr + done.stdout if program == "nix-build" else done.stdout + done.stderr
