"""A suite of a wheel as the compiled job runs it: `unittest` with the installed wheel writes a JUnit file."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.backends import wheel
from tests.backends.project import MANIFEST, Project
from tests.backends.wheel import NAME

TESTS = """
import os, sys, unittest
from xml.etree import ElementTree as ET

import fastpath


class Tests(unittest.TestCase):
    def test_double(self):
        self.assertEqual(fastpath.double(2), 4)

    def test_where(self):
        self.assertTrue(fastpath.__file__.startswith(sys.prefix))
        self.assertEqual((os.environ["VARIANT_ISA"], fastpath.ISA), ("avx2", "avx2"))

    def test_half(self):
        self.assertEqual(fastpath.double(1), 1)


class Result(unittest.TestResult):
    def startTest(self, test):
        super().startTest(test)
        self.case = ET.SubElement(suite, "testcase", classname="tests.Tests", name=test.id().split(".")[-1])

    def addFailure(self, test, error):
        super().addFailure(test, error)
        ET.SubElement(self.case, "failure", message=str(error[1]))


suite = ET.Element("testsuite")
result = Result()
cases = sorted(unittest.defaultTestLoader.loadTestsFromTestCase(Tests), key=lambda test: test.id())
shard, shards = int(os.environ["SHARD"]), int(os.environ["SHARDS"])
unittest.TestSuite(cases[shard - 1 :: shards]).run(result)
os.makedirs("build/reports", exist_ok=True)
ET.ElementTree(suite).write("build/reports/shard-%s.xml" % shard)
sys.exit(not result.wasSuccessful())
"""
EXPECTED = [{"test": "tests.Tests.test_half", "because": "Halves are not done.", "until": "2999-01-01"}]


def declare(project: Project, **keys: Any) -> None:
    """Writes the spec with a suite of these keys."""
    suite = {"command": "python ci/suite.py", "minutes": 5, "shards": 2, "junit": "build/reports/*.xml", **keys}
    spec = wheel.spec()
    spec["packages"]["fastpath"]["suites"] = {"unit": suite}
    (project.root / ".github/ci-matrix.yaml").write_text(json.dumps(spec), "utf-8")
    project.commit()


@pytest.mark.slow
def test_the_shards_of_a_suite_run_with_the_built_wheel(built: Project) -> None:
    (built.root / "ci/suite.py").write_text(TESTS, "utf-8")
    declare(built)
    shard = ("suite", NAME, "--suite", "unit", "--manifest", MANIFEST, "--shard")
    assert built.job(*shard, "1/2").stdout.splitlines()[-1] == f"{NAME}: unit 1/2: 2 passed"
    second = built.job(*shard, "2/2", status=1, GITHUB_STEP_SUMMARY=str(built.root / "build/summary.md"))
    assert second.stdout.splitlines()[-1] == f"{NAME}: unit 2/2: 1 failed"
    assert f"{NAME}: unit: tests.Tests.test_half: 2 != 1" in second.stderr
    assert second.stderr.splitlines()[-2:] == [
        f"| ci-runner build {NAME} --branch main",
        f"| ci-runner suite {NAME} --suite unit --shard 2/2 --manifest {MANIFEST}",
    ]
    report = json.loads((built.root / "test-output/suite.json").read_text("utf-8"))
    assert (report["stage"], report["shard"], report["passed"]) == ("cpu-test", 2, False)
    declare(built, **{"expected-failures": EXPECTED})
    assert built.job(*shard, "2/2").stdout.splitlines()[-1] == f"{NAME}: unit 2/2: 1 expected to fail"
