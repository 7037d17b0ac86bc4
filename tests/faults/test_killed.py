"""Killed at any step that changes the disk: the tree is old or new, and the next run completes the change."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from ci_compiler.files import atomic as disk
from ci_compiler.files import drift as output
from tests.faults.injector import child, command, die, states
from tests.faults.trees import FOREIGN, NEW, OLD, below, give, leftovers, put, replaced, repository, snapshot
from tests.specs import CACHE

pytestmark = pytest.mark.slow

EVERY = os.environ.get("CI_COMPILER_FAULTS") == "every"
"""Whether a process is really killed at every step of a command. The disk is checked before every step in any case."""


class Case:
    """A tree before and after a command, and the command."""

    def __init__(self, folder: Path, words: Callable[[Path], Sequence[str]]) -> None:
        self.root, self._kept, self._states = folder / "root", folder / "kept", folder / "states"
        self.words = tuple(words(self.root))

    def keep(self) -> None:
        """Takes the current tree as the start of every run, and copies the tree before every step."""
        replaced(self._kept, self.root)
        self.old = snapshot(self.root)
        self._states.mkdir()
        self._steps = states(self.words, self.root, self._states)
        self.new = snapshot(self.root)
        assert self.old != self.new
        assert not leftovers(self.root)

    def seen(self) -> Iterator[tuple[int, dict[str, bytes]]]:
        """The number of every step and the files before it. Foreign files must be unchanged."""
        assert self._steps > 5
        for step in range(1, self._steps + 1):
            now = snapshot(self._states / str(step))
            for path, text in FOREIGN.items():
                assert path not in self.old or now[path] == text.encode(), f"step {step}: {path}"
            yield step, now

    def old_or_new(self, *folders: str) -> None:
        """Asserts that `folders` together are old or new before every step, and that both occur."""

        def within(files: dict[str, bytes]) -> list[dict[str, bytes]]:
            return [below(files, folder) for folder in folders]

        before, after, seen = within(self.old), within(self.new), set()
        assert all(one != other for one, other in zip(before, after, strict=True))
        for step, now in self.seen():
            assert within(now) in [before, after], f"step {step}: neither the old nor the new"
            seen.add(within(now) == after)
        assert seen == {False, True}

    def recovers(self) -> None:
        """Kills the command at its first, a middle and its last step; the next run ends as if nothing had happened."""
        for step in range(1, self._steps + 1) if EVERY else (1, self._steps // 2, self._steps):
            replaced(self.root, self._kept)
            die(self.words, step)
            assert snapshot(self.root) == snapshot(self._states / str(step)), f"step {step}"
            assert child(lambda: command(*self.words)) == 0, f"step {step}"
            assert snapshot(self.root, staged=True) == self.new, f"step {step}"
            assert not leftovers(self.root), f"step {step}"


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """A repository with the new spec, and the workflows and recipes of the old one."""
    made = Case(tmp_path, lambda root: ["ci-compile", "--root", str(root)])
    repository(made.root, OLD)
    assert child(lambda: command("ci-compile", "recipes", "--branch", "main", "--root", str(made.root))) == 0
    assert child(lambda: command("ci-compile", "--root", str(made.root))) == 0
    give(made.root, NEW)
    return made


def test_a_compile_leaves_the_recipes_and_the_workflows_old_or_new(case: Case) -> None:
    case.keep()
    case.old_or_new(".flox/pkgs", ".github")
    case.recovers()


def test_a_compile_of_one_changed_file_leaves_it_old_or_new(case: Case) -> None:
    assert child(lambda: command(*case.words)) == 0
    put(case.root, ".github/workflows/cell.yml", f"# {output.MARK} long ago\n")
    case.keep()
    case.old_or_new(".github")
    case.recovers()


def test_a_first_compile_leaves_nothing_or_all(tmp_path: Path) -> None:
    made = Case(tmp_path, lambda root: ["ci-compile", "--root", str(root), "--spec", str(tmp_path / "s.yaml")])
    put(tmp_path, "s.yaml", json.dumps(OLD))
    put(made.root, "README.md", FOREIGN["README.md"])
    made.keep()
    made.old_or_new(".github")
    made.recovers()


def test_recipes_in_a_folder_of_their_own_are_old_or_new(tmp_path: Path) -> None:
    made = Case(
        tmp_path, lambda root: ["ci-compile", "recipes", "--branch", "main", "--root", str(root), "-o", f"{root}/out"]
    )
    repository(made.root, OLD)
    put(made.root, "out/mine.nix", "{ }\n")
    assert child(lambda: command(*made.words)) == 0
    give(made.root, NEW)
    made.keep()
    made.old_or_new("out")
    made.recovers()


@pytest.mark.parametrize("target", ["arc", "systemd"])
def test_a_deployment_is_old_or_new(tmp_path: Path, target: str) -> None:
    made = Case(
        tmp_path,
        lambda root: (
            ["ci-runner", "deploy", target, "-o", str(root), "--spec", str(root / "s.yaml")]
            + ["--scale-set-labels"] * (target == "arc")
        ),
    )
    put(made.root, "s.yaml", json.dumps(OLD | CACHE))
    put(made.root, f"{target}/mine", "mine\n")
    assert child(lambda: command(*made.words)) == 0
    put(
        made.root,
        "s.yaml",
        json.dumps(
            OLD | CACHE | {"runners": OLD["runners"] | {"more": {"runs-on": ["linux", "x64", "more"], "cpu": ["avx"]}}}
        ),
    )
    made.keep()
    made.old_or_new(target)
    made.recovers()


def test_the_finder_page_is_old_or_new(tmp_path: Path) -> None:
    made = Case(tmp_path, lambda root: ["ci-compile", "site", str(root / "site"), "--spec", str(root / "s.yaml")])
    put(made.root, "s.yaml", json.dumps(OLD))
    put(made.root, "site/mine.html", "mine\n")
    assert child(lambda: command(*made.words)) == 0
    put(made.root, "s.yaml", json.dumps(NEW))
    made.keep()
    made.old_or_new("site")
    made.recovers()


def test_without_an_exchange_of_folders_each_file_is_old_or_new(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "_exchange", lambda *_: False)  # as on NFS and other file systems
    case.keep()
    mixed = 0
    for step, now in case.seen():
        for path in now.keys() | case.old.keys() | case.new.keys():
            assert now.get(path) in {case.old.get(path), case.new.get(path)}, f"step {step}: {path}"
        mixed += now not in (case.old, case.new)
    assert mixed
    case.recovers()


@pytest.mark.parametrize("template", ["torch", "own", "template", "wheel"])
def test_init_leaves_all_files_or_none(tmp_path: Path, template: str) -> None:
    made = Case(tmp_path, lambda root: ["ci-compile", "init", "--template", template, "--root", str(root)])
    put(made.root, "README.md", FOREIGN["README.md"])
    put(made.root, ".github/CODEOWNERS", FOREIGN[".github/CODEOWNERS"])
    made.keep()
    made.old_or_new(*{path.rpartition("/")[0] for path in made.new.keys() - made.old.keys()})
