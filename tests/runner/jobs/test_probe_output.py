"""The output of the probe, to which the tested package prints as well: a result that cannot be read is a failure."""

from __future__ import annotations

import json

import pytest

from ci_compiler.judgement import CheckVerdict
from ci_compiler.runner.jobs.probing import printed_results

BEGIN, OK = '{"begin": "import"}', '{"check": "import", "verdict": "ok", "message": "fine", "seconds": 0.1}'
NEXT = '{"begin": "version"}', '{"check": "version", "verdict": "ok", "message": "2.8.0", "seconds": 0.1}'


def verdicts(*lines: str) -> tuple[list[tuple[str, CheckVerdict]], str]:
    results, begun, _ = printed_results("\n".join(lines))
    return [(one.check, one.verdict) for one in results], begun


def test_each_result_is_read() -> None:
    assert verdicts(BEGIN, "words", OK, *NEXT) == ([("import", CheckVerdict.OK), ("version", CheckVerdict.OK)], "")
    assert verdicts(BEGIN) == ([], "import")
    assert printed_results('{"loaded": ["a.so"]}')[2] == ("a.so",)


@pytest.mark.parametrize(
    "more",
    [
        {"verdict": "fine"},
        {"verdict": []},
        {"seconds": "x"},
        {"seconds": None},
        {"seconds": 10**400},
        {"check": 7},
        {"message": 7},
        {"message": "\ud800"},
    ],
)
def test_a_result_that_cannot_be_read_is_a_failure(more: dict[str, object]) -> None:
    line = json.dumps(json.loads(OK) | more)
    assert verdicts(BEGIN, line, *NEXT) == ([("import", CheckVerdict.FAILED), ("version", CheckVerdict.OK)], "")
    assert verdicts(BEGIN, line) == ([], "import")


@pytest.mark.parametrize("line", ['{"loaded": 7}', '{"verdict": 1}', "[" * 100_000, "7", '{"loaded": [[]]}'])
def test_what_the_package_prints_ends_no_test(line: str) -> None:
    assert verdicts(BEGIN, line, OK) == ([("import", CheckVerdict.OK)], "")
