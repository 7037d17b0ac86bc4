"""The register of finding codes: what each means, why it matters, what to do about it, where the fact comes from.

`ci-compile explain CODE`, the reference pages and the `url` in JSON are made from it. The texts are in `findings.toml`,
which is read only when one of them is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ci_compiler.codes import Code
from ci_compiler.units import markdown_table

TEXTS = Path(__file__).with_name("findings.toml")
PAGES = "https://github.com/flox-cuda/ci-compiler/blob/main/.github/docs/reference/findings"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The documentation of one code.

    `since` is a version of ci-compiler. `tested` is the path of the test that causes the finding ('': a folder in
    `tests/examples/wrong` does). `severity` is a text for readers.
    """

    code: Code
    severity: str
    meaning: str
    reason: str
    remedy: str
    since: str
    example: str = ""
    source: str = ""
    tested: str = ""


@cache
def register() -> Mapping[Code, Entry]:
    """Every entry, in the order of the file."""
    import tomllib

    tables = tomllib.loads(TEXTS.read_text("utf-8"))
    return {
        code: Entry(**{"code": code, "severity": code.severity.value, **tables[code]}) for code in map(Code, tables)
    }


def url(code: Code) -> str:
    """The address of the code's page."""
    return f"{PAGES}/{code}.md"


def page(entry: Entry) -> str:
    """The entry as Markdown."""
    parts = [f"# {entry.code}", f"Severity: {entry.severity}. Since {entry.since}.", entry.meaning]
    parts += ["## Why it matters", entry.reason, "## What to do", entry.remedy]
    if entry.example:
        parts += ["## Example", f"```yaml\n{entry.example}```"]
    if entry.source:
        parts += ["## Source", f"{entry.source}."]
    return "\n\n".join(parts) + "\n"


def index() -> str:
    """The list of all codes as Markdown."""
    rows = [(f"[`{one.code}`]({one.code}.md)", one.severity, one.meaning) for one in register().values()]
    head = "What the commands report, by code. `ci-compile explain CODE` prints a code's page."
    return f"# Findings\n\n{head}\n\n{markdown_table(('code', 'severity', 'meaning'), rows)}\n"
