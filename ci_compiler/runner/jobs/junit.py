"""JUnit XML, which most report viewers read: the results of a test as such a file, and the results in other files.

A library would save no lines: files of jobs must be read by the bounded reader, which gives the elements.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

from ci_compiler.judgement import CheckVerdict
from ci_compiler.outside import bytes_of, xml_of

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that are not allowed in an XML 1.0 document (XML 1.0, section 2.2)."""

_VERDICTS = {"failure": CheckVerdict.FAILED, "error": CheckVerdict.FAILED, "skipped": CheckVerdict.SKIPPED}
"""The elements that say how a test ended. A test without any of them passed."""

_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")

_LARGEST, _LONGEST_MESSAGE = 100_000_000, 300


class TestResult(NamedTuple):
    """The result of a check: its name, its verdict, what it found in one line, and its duration in seconds."""

    check: str
    verdict: CheckVerdict
    message: str
    seconds: float = 0.0


def junit(name: str, stage: str, results: Sequence[TestResult]) -> str:
    """The results of `stage` for the variant `name` as one test suite."""
    suite = ET.Element("testsuite", name=f"{stage} {name}", tests=str(len(results)), errors="0")
    for verdict, attribute in ((CheckVerdict.FAILED, "failures"), (CheckVerdict.SKIPPED, "skipped")):
        suite.set(attribute, str(sum(result.verdict is verdict for result in results)))
    suite.set("time", f"{sum(result.seconds for result in results):.3f}")
    for result in results:
        case = ET.SubElement(suite, "testcase", classname=name, name=result.check, time=f"{result.seconds:.3f}")
        message = _NOT_XML.sub("\ufffd", result.message)
        if result.verdict is CheckVerdict.FAILED:
            ET.SubElement(case, "failure", message=message).text = message
        elif result.verdict is CheckVerdict.SKIPPED:
            ET.SubElement(case, "skipped", message=message)
        else:
            ET.SubElement(case, "system-out").text = message
    suites = ET.Element("testsuites")
    suites.append(suite)
    ET.indent(suites)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(suites, encoding="unicode")}\n'


def read_junit(path: Path) -> tuple[TestResult, ...]:
    """The results in a JUnit file; a test is called by its class name, a dot and its name. Raises OSError."""
    return tuple(map(_result, xml_of(bytes_of(path, _LARGEST)).iter("testcase")))


def _result(case: ET.Element) -> TestResult:
    name = ".".join(filter(None, (case.get("classname"), case.get("name"))))
    time = case.get("time", "")
    seconds = float(time) if _SECONDS.fullmatch(time) else 0.0
    for tag, verdict in _VERDICTS.items():
        element = case.find(tag)
        if element is not None:
            message = " ".join((element.get("message") or element.text or "").split())[:_LONGEST_MESSAGE]
            return TestResult(name, verdict, message, seconds)
    return TestResult(name, CheckVerdict.OK, "", seconds)
