"""The plain values of a job, and the failure of a build."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from ci_compiler.backends.job import (
    BuildOrder,
    ImportWay,
    Interpreter,
    JobContext,
    JoinedVariant,
    NeededFiles,
    NeededVariant,
    check_built,
    show,
    variables,
)
from ci_compiler.errors import StageError
from ci_compiler.process import PAST_LIMIT, Ended

ORDER = BuildOrder(name="torch", recipe="torch.nix", needs=(), log=Path("build.log"))


def test_the_values_of_a_variant_are_variables() -> None:
    found = variables({"python": "3.13", "accelerator-tag": "cpu", "": "x"})
    assert found == {"VARIANT_PYTHON": "3.13", "VARIANT_ACCELERATOR_TAG": "cpu", "VARIANT_": "x"}


def test_what_is_not_given_is_empty() -> None:
    job = JobContext(root=Path(), owner="my-org", cache=None, secrets={}, seconds=60)
    assert (job.container, job.values, job.environment) == ("", {}, {})
    assert Interpreter(program="python") == ("python", (), "", "", ())
    assert ImportWay(name="alone", paths=()) == ("alone", (), "")
    assert NeededVariant(name="torch", recipe="torch.nix") == ("torch", "torch.nix", "")
    assert JoinedVariant(name="torch", patterns=(), folder=Path()) == ("torch", (), Path(), "", "", "")
    assert not NeededFiles(package="torch", folder=Path(), setup="", values={}).gathered


@pytest.mark.parametrize(
    ("status", "how"),
    [(3, "ended with status 3"), (-9, "ended with status -9"), (PAST_LIMIT, "took too long and was ended")],
)
def test_a_build_that_fails_shows_the_end_of_its_log(status: int, how: str) -> None:
    with pytest.raises(StageError) as raised:
        check_built(ORDER, Ended(status=status, out="one\ntwo", seconds=7260))
    assert str(raised.value) == f"torch: the build {how} after 2 h 1 min; the end of build.log: [build-failed]"
    assert raised.value.tail == ("one", "two")


def test_a_build_that_succeeds_is_none_that_failed() -> None:
    check_built(ORDER, Ended(status=0))


def test_a_line_is_printed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = io.TextIOWrapper(raw := io.BytesIO())
    monkeypatch.setattr("sys.stdout", kept)
    show("line")
    assert raw.getvalue() == b"line\n"
