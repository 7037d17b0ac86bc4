"""The site's pages, each one static file with its style, scripts and data, which makes no network requests.

A page's policy forbids all requests, and all scripts except its own, which it allows by their hashes. The scripts are
modules that import one another on disk, where tests run them; in a page they are concatenated.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from ci_compiler.documents.site.data import data
from ci_compiler.hardware import CPU
from ci_compiler.hardware.families import DEFAULT, family_of
from ci_compiler.plan.pipeline import Plan
from ci_compiler.reports import reasons
from ci_compiler.spec.model import in_build_order
from ci_compiler.units import counted
from ci_compiler.workflows.render import header

if TYPE_CHECKING:
    from ci_compiler.github.benchmarks import LastBenchmark  # PyGithub is slow to import
    from ci_compiler.github.status import LastBuild
    from ci_compiler.plan.records import Key, Records

NAME = "index.html"

STATUS = "status.html"
"""The page of results over time."""

SCRIPTS = (
    "names.mjs", "finder.mjs", "elements.mjs", "theme.mjs", "runs.mjs", "cell.mjs", "matrix.mjs", "answer.mjs",
    "page.mjs",
)  # fmt: skip
_LEFT_OUT = re.compile(r'^(import \{[^}]*\} from "\./[a-z]+\.mjs";| *//.*| */\*\*[^*]*(\*[^*/]+)*\*/)\n', re.MULTILINE)
"""Imports, and lines that are comments."""


def page(
    plan: Plan,
    repository: str = "",
    lasts: Iterable[LastBuild] = (),
    measured: Iterable[LastBenchmark] = (),
    *,
    records: Records | None = None,
    sboms: Mapping[Key, str] = MappingProxyType({}),
) -> str:
    """The finder. `repository` is the `OWNER/NAME` on GitHub for its links; '' if it is not known.

    `lasts` are the last results of variants, where they are known, and `measured` those of their benchmarks. `records`:
    the history, if there is one, and so the page of results beside it. `sboms`: the tags of the releases that have the
    software bills of materials of variants.
    """
    parts = {
        "lead": html.escape(f"Name your GPU, and get {reasons.listed(_titles(plan))} built for it."),
        "summary": html.escape(_summary(plan)),
        "status": f' <a href="{STATUS}">Results over time</a>' if records is not None else "",
        "source": html.escape(f"Compiled by ci-compile from {plan.spec.document.file}."),
        "title": html.escape(f"Find the build for your machine · {plan.spec.owner}"),
    }
    return assembled(
        plan, "page.html", ["page.css"], SCRIPTS, parts, data(plan, repository, lasts, measured, records, sboms)
    )


def assembled(
    plan: Plan, template: str, styles: Iterable[str], scripts: Sequence[str], parts: Mapping[str, str], given: object
) -> str:
    """A page: `template` with its `parts`, which are HTML, and its styles and scripts, which read the data `given`."""
    style, script = "".join(map(_text, styles)), _script(scripts)
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    every = {**parts, "policy": policy, "style": style, "script": script, "data": _embedded(given)}
    text = re.sub("@([a-z]+)@", lambda found: every[found[1]], _text(template))
    mark = header(plan.spec)[0].replace("--", "‐‐")
    return f"<!-- {mark} -->\n{text}"


def _titles(plan: Plan) -> list[str]:
    return [package.title for package in in_build_order(plan.spec.packages) if package.repository is None]


def _summary(plan: Plan) -> str:
    """The summary of the page: how many variants there are, and of what."""
    cells = plan.judged.cells
    gpus = {cell.target for cell in cells} - {CPU}
    toolkits = {cell.toolkit for cell in cells} - {""}
    return (
        f"{counted(sum(len(cell.variants) for cell in cells), 'variant')} of {reasons.listed(_titles(plan))}, "
        f"each built for one of {counted(len(gpus), 'GPU architecture')} or for the CPU alone, for one of "
        f"{counted(len({cell.isa for cell in cells}), 'instruction set')}, and with one of "
        f"{counted(len(toolkits), f'{family_of(DEFAULT).toolkit} toolkit')}."
    )


def _script(names: Sequence[str]) -> str:
    """The scripts concatenated, each after those that it imports, without the import statements and comments."""
    return "\n" + "\n".join(_LEFT_OUT.sub("", _text(name)) for name in names)


def _embedded(value: object) -> str:
    """`value` as JSON that cannot end the script element around it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _text(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")
