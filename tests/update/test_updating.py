"""Values of axes that a command lists: `update` writes them, and compiling asks no tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recipes.test_affected import Repository
from tests.update.conftest import FILE

SPEC = """\
# Kernels for each torch.
version: 1
owner: my-org
backend: command
branches:
  main: {versions: {kernel: 1.0.0}}
axes:
  torch: {values: ["2.8", "2.9"], values-from: cat torches.txt}  # those that upstream supports
packages:
  kernel:
    untested: They are tested elsewhere.
    command: {build: b.sh, files: ["*.whl"], install: get @name@, publish: u.sh}
matrix:
  values: {python: "3.13", accelerator: [cpu, rocm 7.1]}  # in every row
  rows:
    - {torch: ["2.9"], platform: x86_64-linux}  # chosen by hand
publish: {on-shared-machines: true}
runners:
  builder: {runs-on: [self-hosted, linux, x64, b], cpu: [avx2]}
"""
EVERY = SPEC.replace('3.13",', '3.13", torch: ["2.8", "2.9"],').replace('torch: ["2.9"], ', "")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path)
    made.write(FILE, EVERY)
    made.write("torches.txt", "2.9\n2.10\n")
    made.commit()
    return made


def text(repository: Repository) -> str:
    return (repository.root / FILE).read_text("utf-8")


def test_update_writes_what_the_command_lists_and_nothing_else(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    assert repository.ci() == 0
    assert text(repository) == EVERY
    assert repository.ci("update", "--check", "values") == 1
    assert "cat torches.txt lists other values" in capsys.readouterr().out
    assert repository.ci("update") == 0
    assert text(repository) == EVERY.replace('["2.8", "2.9"]', '["2.9", "2.10"]')
    assert "values of torch" in capsys.readouterr().out
    assert repository.ci("update", "values") == 0
    assert "nothing is stale" in capsys.readouterr().out


def test_a_row_that_was_chosen_by_hand_stays(repository: Repository) -> None:
    repository.write(FILE, SPEC)
    assert repository.ci("update", "values") == 0
    assert text(repository) == SPEC.replace('["2.8", "2.9"]', '["2.9", "2.10"]')


@pytest.mark.parametrize(
    ("printed", "message"),
    [
        ("2.10\n2.11", "unknown torch '2.9'"),
        ("", "printed no value"),
        ("[2.9]", "printed '2.9', which is not a value of an axis"),
        ('["2.9"', "printed no list in JSON"),
        ("2.9\n2.9", "must print at most 200 values, each once"),
        ("a\n$(b)", "printed '$(b)', which is not a value of an axis"),
        (None, "ended with status 1: cat: torches.txt: No such file or directory"),
    ],
)
def test_what_is_no_list_of_values_is_an_error(
    repository: Repository, printed: str | None, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.write(FILE, SPEC)
    if printed is None:
        (repository.root / "torches.txt").unlink()
    else:
        repository.write("torches.txt", printed)
    assert repository.ci("update", "values") == 2
    assert message in capsys.readouterr().err
    assert text(repository) == SPEC
