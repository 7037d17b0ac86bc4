"""A shard of a test suite: the command, its environment and its time limit, and the verdict on its JUnit files."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.errors import InputError
from ci_compiler.hardware import Version
from ci_compiler.hardware.families.cuda import libcuda
from ci_compiler.hardware.families.machines import Attempt, UsedDevice
from ci_compiler.runner.jobs import suite as suites
from ci_compiler.runner.jobs.junit import read_junit
from ci_compiler.runner.jobs.subject import of_python
from ci_compiler.runner.jobs.suite import SuiteOutcome, run_suite, shard_of, suite_of
from tests.processes import with_time
from tests.specs import small, spec_of

NAME = "pytorch-python313-cuda12_8-sm90-avx2"
FAILED = '<failure message="1 is not 2"/>'
FP8 = {"test": "ops.test_fp8*", "because": "FP8 needs driver 580.", "until": "2999-12-31"}

Run = Callable[..., SuiteOutcome]


def junit(**tests: str) -> str:
    """A command that writes a JUnit file with `tests`: the content of each by its name."""
    cases = "".join(f'<testcase classname="ops" name="{name}">{text}</testcase>' for name, text in tests.items())
    return f"mkdir -p reports; echo '<testsuites><testsuite>{cases}</testsuite></testsuites>' >reports/ops.xml"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a suite with these keys in an empty folder; `shard` is the shard."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))

    def run(command: str, shard: tuple[int, int] = (1, 1), **keys: Any) -> SuiteOutcome:
        keys = {"minutes": 1, "junit": "reports/*.xml", "command": command, **keys}
        keys = {name: value for name, value in keys.items() if value}
        spec = spec_of(small(packages={"pytorch": {"suites": {"ops": keys}}, "torchvision": {}}))
        suite = spec.packages["pytorch"].suites["ops"]
        subject = of_python(spec, NAME, "main", suite.stage, Path(sys.executable), {})
        return run_suite(subject, suite, shard, tmp_path, tmp_path / "out")

    return run


def test_a_suite_whose_tests_pass_is_counted_in_the_report_and_in_the_summary(run: Run, tmp_path: Path) -> None:
    outcome = run(junit(test_add="", test_mul="", test_gpu='<skipped message="no GPU"/>'), shard=(2, 3))
    assert (outcome.failures, str(outcome)) == ((), "2 passed, 1 skipped")
    report = json.loads((tmp_path / "out/suite.json").read_text("utf-8"))
    assert (report["name"], report["suite"], report["shard"], report["shards"]) == (NAME, "ops", 2, 3)
    assert (report["passed"], report["tests"]) == (True, {"passed": 2, "skipped": 1})
    assert (tmp_path / "out/junit/reports--ops.xml").exists()
    summary = (tmp_path / "summary.md").read_text("utf-8")
    assert "| ops 2/3 | passed (2 passed, 1 skipped) |" in summary


def test_failures_are_named_in_the_summary(run: Run, tmp_path: Path) -> None:
    outcome = run(f"{junit(test_add='', test_mul=FAILED, test_div='<error>boom</error>')}; exit 1")
    assert outcome.failures == ("ops.test_mul: 1 is not 2", "ops.test_div: boom")
    summary = (tmp_path / "summary.md").read_text("utf-8")
    assert "failed (1 passed, 2 failed)" in summary
    assert "ops.test_mul: 1 is not 2; ops.test_div: boom" in summary.replace("\\_", "_")


def test_the_command_gets_the_variants_values_its_shard_and_the_built_interpreter(run: Run, tmp_path: Path) -> None:
    line = 'echo "$VARIANT_NAME $VARIANT_ISA $SHARD of $SHARDS"; command -v python3 || command -v python'
    assert run(line, shard=(2, 4), junit="").failures == ()
    first, python = (tmp_path / "out/suite.log").read_text("utf-8").splitlines()
    assert first == f"{NAME} avx2 2 of 4"
    assert Path(python).parent == Path(os.path.abspath(sys.executable)).parent  # noqa: PTH100  (as `of_python`)


def test_without_junit_files_the_status_decides(run: Run) -> None:
    assert run("true", junit="").failures == ()
    (failure,) = run("echo error: no such module; exit 3", junit="").failures
    assert failure == "the command ended with status 3: no such module"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("true", "the command wrote no file that matches reports/*.xml"),
        (junit(), "the files that match reports/*.xml hold no test"),
        ("mkdir reports; echo '<a' >reports/a.xml", "reports/a.xml is not XML: "),
        *(
            (
                f'mkdir reports; echo \'<?xml version="1.0" encoding="{name}"?><a/>\' >reports/a.xml',
                f"reports/a.xml {said}",
            )
            for name, said in (
                ("klingon", "is not XML that can be read: unknown encoding: klingon"),
                ("utf-7", "is not XML that can be read: multi-byte encodings are not supported"),
                ("zlib", "is not XML that can be read: 'zlib' is not a text encoding"),
            )
        ),
        (f"mkdir reports; echo '{'<a>' * 101}' >reports/a.xml", "reports/a.xml is nested deeper than 100 levels"),
        ("mkdir reports; ln -s /dev/zero reports/a.xml", "reports/a.xml is not a regular file"),
        (f"{junit(test_add='')}; exit 2", "the command ended with status 2: it printed nothing"),
        (f"{junit(test_add='')}; kill -SEGV $$", "signal 11 ended the command; suite.log may say more"),
    ],
)
def test_a_suite_without_sound_results_fails(run: Run, command: str, said: str) -> None:
    failures = run(command).failures
    assert failures[0].startswith(said)


def test_a_junit_file_of_an_earlier_run_does_not_count(run: Run) -> None:
    run(junit(test_add=""))
    assert run("true").failures == ("the command wrote no file that matches reports/*.xml",)


def test_a_suite_that_takes_too_long_is_ended(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    follow = suites.follow

    def trial(limit: float) -> tuple[str, ...]:
        shorter = lambda *given, seconds, **keys: follow(*given, seconds=min(limit, seconds), **keys)  # noqa: E731
        monkeypatch.setattr(suites, "follow", shorter)
        return run(f"{junit(test_add='')}; sleep 600").failures

    failures = with_time(trial, lambda found: len(found) == 1, first=1)
    assert failures == ("the command did not end within 60 s and was terminated",)


def test_an_expected_failure_is_accepted(run: Run) -> None:
    outcome = run(f"{junit(test_add='', **{'test_fp8[1]': FAILED})}; exit 1", **{"expected-failures": [FP8]})
    assert (outcome.failures, str(outcome)) == ((), "1 passed, 1 expected to fail")


def test_an_expected_failure_that_passes_is_a_failure(run: Run) -> None:
    (failure,) = run(junit(test_fp8=""), **{"expected-failures": [FP8]}).failures
    assert failure.startswith("ops.test_fp8: it passed, although its failure is expected (FP8 needs driver 580.)")


def test_an_expectation_whose_date_has_passed_is_a_failure(run: Run) -> None:
    old = FP8 | {"until": "2020-02-29"}
    (failure,) = run(f"{junit(test_fp8=FAILED)}; exit 1", **{"expected-failures": [old]}).failures
    assert failure.startswith("ops.test_fp8*: its failure was expected until 2020-02-29")


@pytest.mark.parametrize(
    ("devices", "said"), [(2, ("this machine has 2 usable GPUs, and the suite needs 4",)), (4, ())]
)
def test_a_machine_with_too_few_gpus_does_not_run_the_suite(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, devices: int, said: tuple[str, ...]
) -> None:
    h200 = UsedDevice(name="NVIDIA H200", capability=Version(9, 0))
    attempt = Attempt(library="/lib/libcuda.so.1", linked=True, devices=(h200,) * devices)
    monkeypatch.setattr(libcuda, "attempts", lambda _: [attempt])
    outcome = run(f"{junit(test_nccl='')}; touch ran", on="gpu", gpus=4)
    assert outcome.failures == said
    assert (tmp_path / "ran").exists() is (not said)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_document_type_is_refused(tmp_path: Path, encoding: str) -> None:
    entities = '<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">'
    text = f'<?xml version="1.0" encoding="{encoding}"?><!DOCTYPE t [{entities}]><t><testcase name="&b;"/></t>'
    (tmp_path / "a.xml").write_text(text, encoding)
    with pytest.raises(ValueError, match="has a document type, which no JUnit file needs"):
        read_junit(tmp_path / "a.xml")


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "1/x", "-1/2"])
def test_a_shard_is_one_of_several(text: str) -> None:
    with pytest.raises(InputError, match="wrong-option"):
        shard_of(text)


def test_an_unknown_suite_is_an_error_with_the_known_ones() -> None:
    packages = {"pytorch": {"suites": {"ops": {"command": "true", "minutes": 1}}}, "torchvision": {}}
    spec = spec_of(small(packages=packages))
    with pytest.raises(InputError, match="unknown suite 'opt'; did you mean ops"):
        suite_of(spec.packages["pytorch"], "opt")
    with pytest.raises(InputError, match="torchvision declares no suites"):
        suite_of(spec.packages["torchvision"], "ops")


def test_the_command_gets_the_values_of_its_row(tmp_path: Path) -> None:
    matrix = {"values": {"cuda-driver": "oldest", "dependencies": "latest"}}
    ops = {"command": "env", "minutes": 1, "matrix": matrix}
    spec = spec_of(small(packages={"pytorch": {"suites": {"ops": ops}}, "torchvision": {}}))
    (suite,) = spec.packages["pytorch"].suites.values()
    subject = of_python(spec, NAME, "main", suite.stage, Path(sys.executable), {})
    assert run_suite(subject, suite, (1, 1), tmp_path, tmp_path / "out").failures == ()
    log = (tmp_path / "out/suite.log").read_text("utf-8")
    assert (suite.name, "SUITE_CUDA_DRIVER=oldest" in log) == ("ops-oldest-latest", True)
    assert "SUITE_DEPENDENCIES=latest" in log
