"""Killed, or out of space, at the system calls that change the disk: the files are the old ones or the new ones.

A few calls of each command are struck, spread over all of them; every one with `CI_COMPILER_FAULTS=every`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest

from tests.faults.injector import child, command
from tests.faults.kernel import FULL, KILLED, Call, changing_calls, program, struck
from tests.faults.trees import COMMANDS, below, leftovers, prepared, replaced, snapshot

EVERY = os.environ.get("CI_COMPILER_FAULTS") == "every"
TRIED = 3
"""The number of calls to inject a fault at, unless all are tried."""

WHOLE = {
    "compile": (".flox/pkgs", ".github"),
    "recipes": (".flox/pkgs",),
    "site": ("out",),
    "deploy": ("out/systemd",),
    "init": ("bare/.github",),
}
"""The folders that each command changes in one step."""


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree that every command starts from."""
    return prepared(tmp_path_factory.mktemp("before") / "root")


Traced = Callable[[str], tuple[Sequence[Call], dict[str, bytes]]]


@pytest.fixture(scope="module")
def traced(before: Path, tmp_path_factory: pytest.TempPathFactory) -> Traced:
    """Runs a command once in the folder `root`: the calls that change it, and its files after them."""

    @cache
    def run(name: str) -> tuple[Sequence[Call], dict[str, bytes]]:
        folder = tmp_path_factory.mktemp("traced")
        root = folder / "root"
        replaced(root, before)
        return changing_calls(program(*COMMANDS[name](root)), root, folder / "log"), snapshot(root)

    return run


def some(calls: Sequence[Call]) -> Sequence[Call]:
    """All calls, or as many as an ordinary run tries, including the first and the last."""
    assert len(calls) > 3
    count = len(calls) if EVERY else min(TRIED, len(calls))
    return [calls[number * (len(calls) - 1) // (count - 1)] for number in range(count)]


@pytest.mark.parametrize("fault", [KILLED, FULL], ids=["killed", "full"])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_fault_at_a_system_call_leaves_the_old_or_the_new(
    before: Path, traced: Traced, tmp_path: Path, name: str, fault: str
) -> None:
    root = tmp_path / "root"
    words = COMMANDS[name](root)
    calls, new = traced(name)
    old = snapshot(before)
    assert old != new
    for call in some(calls):
        replaced(root, before)
        ended = struck(program(*words), call, fault, tmp_path / "log")
        assert ended.status in ({-9} if fault == KILLED else {0, 2}), f"{call}: {ended}"
        assert "Traceback" not in ended.said, call
        now = snapshot(root)
        assert ended.status or now == new, f"{call}: it says that it is done"
        for path in old.keys() | new.keys() | now.keys():
            assert now.get(path) in {old.get(path), new.get(path)}, f"{call}: {path}"
        for folder in WHOLE[name]:
            assert below(now, folder) in [below(old, folder), below(new, folder)], f"{call}: {folder}"
        if name != "init":
            assert child(lambda: command(*words)) == 0, call
            assert snapshot(root) == new, call
            assert not leftovers(root), call
