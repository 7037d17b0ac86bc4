"""The first minutes: without a spec nothing is written, and `init` writes where hosted jobs get ci-compiler from."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ci_compiler import __version__
from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.cli.excerpt import excerpt
from ci_compiler.cli.toolkit import toolkit_of
from ci_compiler.errors import InputError, Place
from ci_compiler.plan.pipeline import plan
from ci_compiler.spec.build import BUNDLED_SHOWN, bundled_spec, parse_spec
from ci_compiler.sync.compiled import compile_files
from tests.checkers import require

Out = pytest.CaptureFixture[str]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
SPEC = ".github/ci-matrix.yaml"


def ci(*words: str) -> int:
    return run(PROGRAM, list(words))


def tree(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


# Without a spec.


@pytest.mark.parametrize("words", [[], ["--check"], ["recipes"], ["sync"], ["upgrade", "--write"]])
def test_nothing_is_compiled_without_a_spec(words: list[str], tmp_path: Path, capsys: Out) -> None:
    assert ci(*words, "--root", str(tmp_path)) == 2
    err = capsys.readouterr().err
    assert all(way in err for way in ("`ci-compile init`", "--bundled"))
    assert tree(tmp_path) == []


def test_the_bundled_stack_is_compiled_where_it_is_asked_for(tmp_path: Path, capsys: Out) -> None:
    assert ci("--bundled", "--root", str(tmp_path)) == 0
    by_option = tree(tmp_path)
    assert "[toolkit-missing]" in capsys.readouterr().err  # the bundled spec's `.` is a checkout of the compiler
    (tmp_path / SPEC).write_text("bundled: torch\n", "utf-8")
    assert ci("--check", "--root", str(tmp_path)) == 0
    assert tree(tmp_path) == sorted([*by_option, SPEC])
    assert ci("--bundled", "--root", str(tmp_path)) == 2
    assert "leave the option out" in capsys.readouterr().err


def test_a_spec_may_have_the_bundled_one_below_its_own_keys() -> None:
    spec = parse_spec(b"bundled: torch\nowner: my-org\ntoolkit: ci-compiler==0.3.0\n", shown=SPEC)
    assert (spec.owner, spec.toolkit, spec.document.file) == ("my-org", "ci-compiler==0.3.0", SPEC)
    assert spec.branches == bundled_spec().branches
    assert spec.place("owner") == Place(file=SPEC, line=2, column=8)
    assert spec.place("branches").file == BUNDLED_SHOWN
    with pytest.raises(InputError, match=rf"{SPEC}:2:1: the spec has no key 'onwer'; did you mean owner"):
        parse_spec(b"bundled: torch\nonwer: my-org\n", shown=SPEC)


@pytest.mark.parametrize("words", [["hash"], ["update"], ["recipes", "--adopt", "*", "--branch", "main"]])
def test_the_bundled_spec_is_not_edited(words: list[str], tmp_path: Path, capsys: Out) -> None:
    (tmp_path / ".github").mkdir()
    (tmp_path / SPEC).write_text("bundled: torch\n", "utf-8")
    assert ci(*words, "--root", str(tmp_path)) == 2
    assert "`ci-compile init` writes a spec of your own" in capsys.readouterr().err
    assert (tmp_path / SPEC).read_text("utf-8") == "bundled: torch\n"


# Where hosted jobs get ci-compiler from.


@pytest.mark.parametrize(
    ("direct", "value"),
    [
        ({"url": "https://example.org/ci-compiler", "vcs_info": {"commit_id": COMMIT}},
         f"git+https://example.org/ci-compiler@{COMMIT}"),
        ({"url": "ssh://git@example.org/me/ci-compiler.git", "vcs_info": {"commit_id": COMMIT}},
         f"git+https://example.org/me/ci-compiler@{COMMIT}"),
        ({"url": "https://me:secret@example.org/ci-compiler", "vcs_info": {"commit_id": COMMIT}}, ""),
        ({"url": "https://example.org/c-1-py3-none-any.whl", "archive_info": {"hashes": {"sha256": "a" * 64}}},
         f"https://example.org/c-1-py3-none-any.whl#sha256={'a' * 64}"),
        ({"url": "file:///somewhere/c-1-py3-none-any.whl", "archive_info": {"hashes": {"sha256": "a" * 64}}}, ""),
        ({"url": "file:///nowhere/at/all", "dir_info": {}}, ""),
    ],
)  # fmt: skip
def test_the_toolkit_is_what_this_one_was_installed_from(direct: dict[str, Any], value: str, tmp_path: Path) -> None:
    assert toolkit_of(direct, tmp_path) == value


def test_the_toolkit_of_a_checkout_is_its_commit_at_its_remote(tmp_path: Path) -> None:
    require("git")
    clone, direct = tmp_path / "clone", {"url": (tmp_path / "clone").as_uri(), "dir_info": {"editable": True}}
    for words in (
        ["init", "--quiet", str(clone)],
        ["-C", str(clone), "-c", "user.name=A", "-c", "user.email=a@b.c", "commit", "-qm", "x", "--allow-empty"],
    ):
        subprocess.run(["git", *words], check=True)
    assert toolkit_of(direct, tmp_path) == ""
    subprocess.run(["git", "-C", str(clone), "remote", "add", "origin", "git@github.com:me/c.git"], check=True)
    head = subprocess.run(["git", "-C", str(clone), "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    assert toolkit_of(direct, tmp_path) == f"git+https://github.com/me/c@{head.stdout.strip()}"
    assert toolkit_of(direct, clone) == "."


@pytest.mark.parametrize("where", [f"git+https://github.com/me/c@{COMMIT}", ""])
def test_init_writes_the_toolkit_that_fits(
    where: str, tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, _, commit = where.removeprefix("git+").partition("@")
    installed = json.dumps({"url": url, "vcs_info": {"commit_id": commit}}) if where else None
    distribution = SimpleNamespace(read_text=lambda _: installed)
    monkeypatch.setattr("ci_compiler.cli.toolkit.distribution", lambda _: distribution)
    assert ci("init", "--root", str(tmp_path)) == 0
    assert (where or "`toolkit`") in capsys.readouterr().err
    spec = parse_spec((tmp_path / SPEC).read_bytes(), shown=SPEC)
    action = compile_files(plan(spec))[".github/actions/setup-ci-compiler/action.yml"]
    assert f"REQUIREMENT: {where or f'ci-compiler=={__version__}'}\n" in action


# The line of the file, on a terminal.


def test_a_terminal_gets_the_line_with_a_caret_and_a_pipe_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".github").mkdir()
    (tmp_path / SPEC).write_text("version: 1\nowner: my org\n", "utf-8")
    said = {}
    for terminal in (True, False):
        err = io.StringIO()
        monkeypatch.setattr(err, "isatty", lambda terminal=terminal: terminal)
        monkeypatch.setattr(sys, "stderr", err)
        assert ci("--root", str(tmp_path)) == 2
        said[terminal] = err.getvalue().splitlines()
    assert said[True][-2:] == ["    2 | owner: my org", "      |        ^"]
    assert [line for line in said[True] if line.startswith("error: ")] == said[False]


def test_a_long_line_is_cut_around_the_column_and_a_secret_is_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    path = tmp_path / "long.yaml"
    path.write_text(f"{'a' * 100}X{'b' * 100}\ntoken: ghp_{'c' * 36}\n", "utf-8")
    line, caret = excerpt(Place(file="long.yaml", line=1, column=101), tmp_path)
    assert len(line) == 40
    assert line[caret.index("^")] == "X"
    assert excerpt(Place(file="long.yaml", line=2, column=1), tmp_path) == ["    2 | token: ***"]
    assert excerpt(Place(file="long.yaml", line=9, column=1), tmp_path) == []


def test_a_script_that_is_not_in_the_checkout_is_a_warning(tmp_path: Path, capsys: Out) -> None:
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", tmp_path], check=True)
    assert ci("init", "--template", "wheel-rocm", "--owner", "acme", "--gpus", "MI300X", "--root", str(tmp_path)) == 0
    assert ci("--root", str(tmp_path)) == 0
    assert "[script-missing]" not in capsys.readouterr().err
    spec = tmp_path / SPEC
    spec.write_text(
        spec.read_text("utf-8").replace("ci/build-w", "ci/bild-w").replace("/smoke.py", "/test.py"), "utf-8"
    )
    assert ci("--root", str(tmp_path)) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "[script-missing]" in line]
    said = "is not a file of this checkout; the jobs of main run it"
    assert [line.partition(": ")[2].rpartition(" [")[0].partition(": ")[2] for line in lines] == [
        f"ci/bild-wheel.sh {said}; did you mean ci/build-wheel.sh?",
        f"ci/test.py {said}; did you mean ci/smoke.py?",
    ]
    subprocess.run(["git", "-C", tmp_path, "switch", "--quiet", "--create", "other"], check=True)
    assert ci("--root", str(tmp_path)) == 0
    assert "[script-missing]" not in capsys.readouterr().err, "the files of main are not those of this checkout"
