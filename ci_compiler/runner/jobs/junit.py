"""The results of a test as JUnit XML, which most report viewers read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from ci_compiler.judgement import CheckVerdict

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that are not allowed in an XML 1.0 document (XML 1.0, section 2.2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestResult:
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
    suite.set("time", _seconds(sum(result.seconds for result in results)))
    for result in results:
        case = ET.SubElement(suite, "testcase", classname=name, name=result.check, time=_seconds(result.seconds))
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


def _seconds(value: float) -> str:
    return f"{value:.3f}"
