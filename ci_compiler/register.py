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

TEXTS = Path(__file__).with_name("findings.toml")
_GUIDES = "https://github.com/flox-cuda/ci-compiler/blob/main/.github/docs"

BY_HAND = f"{_GUIDES}/build-by-hand.md"
"""The guide that reproduces the build of a failed job."""

PAGES = f"{_GUIDES}/reference/findings"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The documentation of one code.

    `area` is the title of the page that describes it. `since` is a version of ci-compiler. `tested` is the path of the
    test that causes the finding ('': a folder in `tests/examples/wrong` does). `severity` is a text for readers.
    """

    code: Code
    area: str
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


def _file(area: str) -> str:
    return f"{area.lower().replace(' ', '-')}.md"


def url(code: Code) -> str:
    """The address of the code's documentation."""
    return f"{PAGES}/{_file(register()[code].area)}#{code}"


def page(entry: Entry) -> str:
    """The entry as Markdown."""
    parts = [f"## {entry.code}", f"Severity: {entry.severity}. Since {entry.since}.", entry.meaning]
    parts += [f"**Why it matters:** {entry.reason}", f"**What to do:** {entry.remedy}"]
    parts += [f"```yaml\n{entry.example}```"] if entry.example else []
    parts += [f"Source: {entry.source}."] if entry.source else []
    return "\n\n".join(parts) + "\n"


def pages() -> dict[str, str]:
    """The reference pages as Markdown, by file: the list of all codes, and one page per area."""
    entries = register().values()
    texts = {"README.md": "# Findings\n\nWhat commands report, by area. `ci-compile explain CODE` prints the same.\n"}
    for area in sorted({entry.area for entry in entries}):
        own = [entry for entry in entries if entry.area == area]
        texts["README.md"] += f"\n**[{area}]({_file(area)})**: {', '.join(f'`{entry.code}`' for entry in own)}\n"
        texts[_file(area)] = "\n".join([f"# Findings: {area}\n", *map(page, own)])
    return texts
