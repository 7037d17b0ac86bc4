"""Versions that meet: a tree, a spec, a compiler and a machine of different ones."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from ci_compiler import __version__
from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.cli.runner import main as runner
from ci_compiler.files.compiled_by import FILES, compiled_by, is_older
from ci_compiler.plan.pipeline import plan
from ci_compiler.sync.compiled import compile_files
from tests.loops import each
from tests.specs import SMALL, small, spec_of
from tests.test_examples import EXAMPLES, tree

OLD = Path(__file__).parent / "data/compiled-0.1.0/tree"
"""What 0.1.0 compiled from its smallest example, with the spec."""

SPEC = EXAMPLES / "good/smallest/ci-matrix.yaml"

Out = pytest.CaptureFixture[str]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository that 0.1.0 compiled, with what its spec has to state since then."""
    made = shutil.copytree(OLD, tmp_path / "repository")
    shutil.copy(SPEC, made / ".github")
    return made


def ci(root: Path, *words: str) -> int:
    return run(PROGRAM, [*words, "--root", str(root)])


def test_a_check_of_an_older_tree_names_the_command(root: Path, capsys: Out) -> None:
    assert compiled_by(root) == "0.1.0"
    assert ci(root, "--check") == 1
    said = f"0.1.0 compiled these files, and this is {__version__}: `ci-compile upgrade` shows what changes"
    assert said in capsys.readouterr().err.splitlines()


def test_an_upgrade_shows_the_difference_before_it_writes(root: Path, capsys: Out) -> None:
    before = tree(root)
    assert ci(root, "upgrade") == 1
    out, err = capsys.readouterr()
    assert tree(root) == before
    assert f'+  COMPILED_BY: "{__version__}"' in out.splitlines()
    assert f"drifted; run `ci-compile upgrade --write --root {root}`" in err
    assert err.splitlines()[-1].startswith(f"compiled by 0.1.0, this is {__version__}: https://")
    assert "the document of `plan --json` is version 2: `cuda` is now `toolkit`, and `gpu` of a cell `target`" in err
    assert ci(root, "upgrade", "--write") == 0
    assert "run `ci-compile sync`, and update ci-runner" in capsys.readouterr().err
    assert compiled_by(root) == __version__
    assert ci(root, "--check") == 0
    capsys.readouterr()
    assert ci(root, "upgrade") == 0
    assert "drift" not in "".join(capsys.readouterr())


def test_an_upgrade_names_what_the_spec_of_the_older_version_has_to_state(tmp_path: Path, capsys: Out) -> None:
    root = shutil.copytree(OLD, tmp_path / "repository")
    before = tree(root)
    assert ci(root, "upgrade", "--write") == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("warning: ")]
    assert errors
    assert all(line.startswith("error: .github/ci-matrix.yaml:") for line in errors)
    assert tree(root) == before


GONE = {
    ("packages", "pytorch", "suites", "ops", "times"): ("ci/times.json", "pytest-split"),
    ("packages", "pytorch", "suites", "ops", "flaky"): ([], "pytest-rerunfailures"),
    ("packages", "pytorch", "command", "reuse"): (True, "built again at the merge"),
    ("runners", "builder", "untrusted"): (True, "push the branch of a fork to the repository"),
    ("packages", "pytorch", "command", "compiler-cache"): ({"program": "ccache"}, "the build script may keep a cache"),
}
"""Keys that earlier versions had, each with a value and a word of what is written instead."""


@pytest.mark.parametrize(("path", "value", "instead"), [(path, *said) for path, said in GONE.items()])
def test_an_upgrade_says_what_to_write_instead_of_a_key_that_is_gone(
    tmp_path: Path, capsys: Out, path: tuple[str, ...], value: object, instead: str
) -> None:
    document = small(packages={"pytorch": {"suites": {"ops": {"command": "x", "minutes": 1}}}, "torchvision": {}})
    place = document
    for step in path[:-1]:
        place = place.setdefault(step, {})
    place[path[-1]] = value
    (tmp_path / ".github").mkdir()
    (tmp_path / ".github/ci-matrix.yaml").write_text(json.dumps(document), "utf-8")
    assert ci(tmp_path, "upgrade") == 2
    (error,) = (line for line in capsys.readouterr().err.splitlines() if repr(path[-1]) in line)
    assert f"{'.'.join(path[:-1])} has no key {path[-1]!r}; it is gone: " in error
    assert instead in error


UNDECLARED = {"xpu": "xpu 2026.0 bmg", "metal": "metal", "vulkan": "vulkan", "cann": "cann 8.3 ascend910b"}
"""Families of which earlier versions knew facts, each with an accelerator of it."""


@pytest.mark.parametrize(("family", "accelerator"), UNDECLARED.items())
def test_an_upgrade_shows_the_declaration_of_a_family_that_is_no_longer_known(
    tmp_path: Path, capsys: Out, family: str, accelerator: str
) -> None:
    command = {"build": "b.sh", "files": ["dist/*"], "install": "i", "publish": "p"}
    document = small(
        backend="command",
        packages={"ext": {"command": command, "untested": "It is an example."}},
        branches={"main": {"versions": {"ext": "1.0"}}},
        matrix={"values": {"platform": "x86_64-linux", "accelerator": ["cpu", accelerator]}},
    )
    spec = tmp_path / ".github/ci-matrix.yaml"
    spec.parent.mkdir()
    text = yaml.safe_dump(document)
    spec.write_text(text, "utf-8")
    assert ci(tmp_path, "upgrade") == 2
    (error,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("error: "))
    found = re.fullmatch(
        rf"error: \.github/ci-matrix\.yaml:[0-9]+:[0-9]+: '{family}' is a family of which nothing is known here; "
        rf"declare it: (?P<lines>hardware: .*), and write {family} \[unknown-family\]",
        error,
    )
    assert found, error
    spec.write_text(f"{text}\n{found['lines']}\n", "utf-8")
    assert ci(tmp_path, "upgrade", "--write") == 0


def test_an_upgrade_asks_for_a_newer_toolkit_in_hosted_jobs(root: Path, capsys: Out) -> None:
    spec = root / ".github/ci-matrix.yaml"
    spec.write_text(spec.read_text("utf-8") + "\ntoolkit: ci-compiler==0.1.0\n", "utf-8")
    assert ci(root, "upgrade", "--write") == 2
    err = capsys.readouterr().err
    assert err.startswith("error: .github/ci-matrix.yaml:")
    said = f"hosted jobs would install ci-compiler==0.1.0, which is older; write ci-compiler=={__version__}"
    assert f"{said} [older-toolkit]" in err


def test_a_tree_of_a_newer_version_is_not_compiled_over(root: Path, capsys: Out) -> None:
    assert ci(root) == 0
    cell = root / ".github/workflows/cell.yml"
    cell.write_text(cell.read_text("utf-8").replace(__version__, "9.10.0"), "utf-8")
    before = tree(root)
    for words in ([], ["--check"], ["upgrade", "--write"]):
        capsys.readouterr()
        assert ci(root, *words) == 2
        assert capsys.readouterr().err.splitlines()[-1] == (
            f"error: .github: 9.10.0 compiled these files, and this is {__version__}; install ci-compiler==9.10.0 "
            "[older-compiler]"
        )
    assert tree(root) == before


def test_every_job_on_a_self_hosted_machine_states_the_version() -> None:
    packages = SMALL["packages"] | {"wheelhouse": {"variants": {"wheelhouse-linux": {"system": "x86_64-linux"}}}}
    document = small(packages=packages)
    document["branches"]["main"]["versions"]["wheelhouse"] = "1.0"
    files = compile_files(plan(spec_of(document)))
    for path in each(FILES):
        assert yaml.safe_load(files[path])["env"] == {"COMPILED_BY": __version__}


@pytest.mark.parametrize("words", [["doctor", "--for", "build", "x"], ["build", "x"], ["publish"], ["smoke", "x"]])
def test_an_older_machine_refuses_before_it_works(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    monkeypatch.setenv("COMPILED_BY", "9.10.0")
    monkeypatch.setattr("sys.argv", ["ci-runner", *words])
    assert runner() == 2
    assert capsys.readouterr().err == (
        f"error: this machine: ci-runner {__version__} is older than ci-compile 9.10.0, which compiled this "
        "workflow; to fix it: install ci-compiler==9.10.0 on the machine, or start its runners from the images of "
        "9.10.0 [older-runner]\n"
    )


@pytest.mark.parametrize("compiler", ["", "0.1.0", __version__])
def test_a_machine_of_the_same_or_a_newer_version_works(
    compiler: str, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    monkeypatch.setenv("COMPILED_BY", compiler)
    monkeypatch.setattr("sys.argv", ["ci-runner", "detect", "--json"])
    assert runner() == 0
    assert capsys.readouterr().out.startswith("{")


def test_versions_are_compared_by_their_numbers() -> None:
    assert is_older("0.2.0", "0.10.0")
    assert not is_older("0.10.0", "0.10.0")
    assert not is_older("1.0.0", "0.10.0")
