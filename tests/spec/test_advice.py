"""What a message says to write is accepted: each wrong line is replaced as the message about it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.compile import PROGRAM
from ci_compiler.errors import InputError
from ci_compiler.plan.pipeline import plan
from ci_compiler.spec.build import load_spec

RIGHT = """\
version: 1
owner: my-org
branches:
  main:
    cuda: "13.0"
    nixpkgs: 6a030d535719c5190187c4cec156f335e95e3211
    versions: {pytorch: 2.9.1}
packages:
  pytorch: {attribute: torch}
matrix:
  python: ["3.13"]
  isas:
    x86_64-linux:
      - avx2
    aarch64-linux:
      - armv9
  gpus:
    cpu: {}
    sm90: {}
runners:
  builder:
    runs-on: [self-hosted, linux, x64, nix-builder]
    cpu: [avx2]
    memory: 64
  arm:
    runs-on: [self-hosted, linux, arm64, nix-builder]
    cpu: [armv9]
schedule: {days: [sun]}
publish: {on-shared-machines: true}
"""

CUDA, PYTHON = '    cuda: "13.0"', 'python: ["3.13"]'
CASES = [
    # what is written in place of it, what the message says to write, where, what is said
    (CUDA, f'<<<<<<< HEAD\n{CUDA}\n=======\n    cuda: "12.9"\n>>>>>>> other', CUDA, "5:1", "keep one side of it"),
    (CUDA, '    cuda "13.0"', CUDA, "5:5", 'a colon is missing; write `cuda: "13.0"`'),
    (CUDA, '    cuda:"13.0"', CUDA, "5:5", 'the blank after this colon is missing; write `cuda: "13.0"`'),
    (CUDA, '   \u00a0cuda: "13.0"', CUDA, "5:4", "U+00A0 looks like a blank and is none to YAML; write a blank"),
    (CUDA, '    cuda:\u00a0"13.0"', CUDA, "5:10", "U+00A0 looks like a blank and is none to YAML; write a blank"),
    (CUDA, '    cuda: "13.0', CUDA, "5:11", "this quote is not closed on its line, but on line 11; close it here"),
    (
        CUDA,
        "    cuda: \u201c13.0\u201d",
        CUDA,
        "5:11",
        'in typographic quotes, which are no quotes to YAML; write "13.0"',
    ),
    (CUDA, "", CUDA, "19:5", "no branch has a toolkit; write `cuda: VERSION` in one"),
    (PYTHON, 'python: ["3.13]', PYTHON, "11:12", "this quote is not closed; write a second one"),
    (PYTHON, 'python:\n    -"3.13"', 'python:\n    - "3.13"', "12:5", "write `- ` before each entry"),
    (PYTHON, "python: 3.10", 'python: ["3.10"]', "11:11", 'write ["3.10"]'),
    ("memory: 64", "memory 64", "memory: 64", "24:5", "a colon is missing; write `memory: 64`"),
    ("memory: 64", "memory: 4", "memory: 8", "20:1", "and 8 GB of memory; builder has 4 GB of memory ("),
    ("days: [sun]", "days: sunday", "days: [sun]", "28:18", "write [sun]"),
    ("days: [sun]", "days: [sunday]", "days: [sun]", "28:19", "write sun"),
    (
        "schedule: {days: [sun]}",
        "schedule: weekly",
        "schedule: {days: [sun]}",
        "28:11",
        "write a mapping: {days: [sun]}",
    ),
    (
        "nix-builder]\n    cpu: [avx2]",
        "nix-builder]]\n    cpu: [avx2]",
        "nix-builder]\n    cpu: [avx2]",
        "22:52",
        "remove it",
    ),
    ("- armv9\n", "- armv8\n", "- armv8_2\n", "16:9", "write armv8_2"),
    ("- avx2\n", "- neon\n", "- avx2\n", "14:9", "is of ARM; write it below aarch64-linux"),
]


def accept(folder: Path, text: str) -> None:
    """Raises InputError if `text` is no spec or cannot be planned."""
    path = folder / "ci-matrix.yaml"
    path.write_text(text, "utf-8")
    plan(load_spec(path, shown=path.name))


@pytest.mark.parametrize(("there", "wrong", "right", "place", "said"), CASES)
def test_what_a_message_says_to_write_is_accepted(
    tmp_path: Path, there: str, wrong: str, right: str, place: str, said: str
) -> None:
    assert RIGHT.count(there) == 1
    with pytest.raises(InputError) as caught:
        accept(tmp_path, RIGHT.replace(there, wrong))
    assert {(str(one.place), said in one.message) for one in caught.value.findings} == {
        (f"ci-matrix.yaml:{place}", True)
    }
    accept(tmp_path, RIGHT.replace(there, right))


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("cuda", "it is a key of branches.NAME"),
        ("python", "it is a key of matrix"),
        ("gpus", "it is a key of matrix and of hardware"),
        ("cpu", "it is a key of runners.NAME"),
        ("memory", "it is a key of packages.NAME and of runners.NAME"),
    ],
)
def test_a_key_at_the_wrong_level_is_sent_where_it_belongs(tmp_path: Path, key: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        accept(tmp_path, f"{RIGHT}{key}: []\n")
    assert [one.message for one in caught.value.findings] == [f"the spec has no key {key!r}; {said}"]


def test_a_long_value_is_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        accept(tmp_path, RIGHT.replace("my-org", "x" * 200_000))
    (found,) = caught.value.findings
    assert len(found.message) < 200


def status(words: list[str]) -> object:
    try:
        return run(PROGRAM, words)
    except SystemExit as ended:
        return ended.code


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["chek"], 2, "`ci-compile --check` compares and writes nothing"),
        (["variants", "*-sm99-*"], 1, "`sm99` is in no variant's name; did you mean sm90?"),
        (["variants", "pytorch"], 1, "a pattern stands for a whole name: write '*pytorch*' for those that have it"),
        (["variants", "*pytorch*"], 0, "pytorch-python313-cpu-avx2"),
        (["variants", "{pytroch}-*"], 1, "no variant matches; `ci-compile variants` lists them"),
        (["--check", "--spec", ".github"], 2, ".github: is a directory; a spec is a YAML file"),
        (["site", "taken"], 2, "taken: cannot be written: this is a file, and a folder must be there"),
    ],
)
def test_a_command_line_that_fits_nothing_is_told_what_would(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: int,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".github").mkdir()
    (tmp_path / ".github/ci-matrix.yaml").write_text(RIGHT, "utf-8")
    (tmp_path / "taken").touch()
    assert status(words) == code
    out, err = capsys.readouterr()
    assert said in out + err
