"""The pages of an index of wheels, as text: HTML (PEP 503) and JSON (PEP 691)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from html import escape
from urllib.parse import quote

from ci_compiler.outside import expected, object_of
from ci_compiler.publishing.plan import Upload
from ci_compiler.record import record

_META = {"api-version": "1.0"}


@record
class IndexFile:
    """A file on the page of a project: what PEP 691 says of it, and the package, variant and version that it is of.

    `digest` is its SHA-256. `yanked` is the reason why the file must not be installed (PEP 592); '' if it may be.
    `commit` is the commit that it was built from; '' on a page of an earlier version.
    """

    name: str
    digest: str
    requires_python: str
    package: str
    variant: str
    version: str
    yanked: str = ""
    commit: str = ""


def place_of(file: IndexFile | Upload) -> str:
    """Where a file is, from the page of its project. Two contents never have the same place."""
    return f"files/{file.digest}/{file.name}"


def project_json(project: str, files: Iterable[IndexFile]) -> str:
    """The JSON page of a project. Keys that begin with `_` are the index's own (PEP 691)."""
    rows = [
        {
            "filename": file.name,
            "url": quote(place_of(file)),
            "hashes": {"sha256": file.digest},
            **({"requires-python": file.requires_python} if file.requires_python else {}),
            "yanked": file.yanked or False,
            "_file": asdict(file),
        }
        for file in files
    ]
    return json.dumps({"meta": _META, "name": project, "files": rows}, indent=1) + "\n"


def files_of(text: bytes | str) -> tuple[IndexFile, ...]:
    """The files on a JSON page that `project_json` wrote. Raises ValueError for another page."""
    try:
        rows = [expected(dict, row["_file"]) for row in object_of(text)["files"]]
        return tuple(IndexFile(**row) for row in rows)
    except (KeyError, TypeError):
        message = "is not the page of a project that ci-runner wrote"
        raise ValueError(message) from None


def project_html(project: str, files: Iterable[IndexFile]) -> str:
    """The HTML page of a project."""
    return _html(
        project,
        (
            _link(
                f"{quote(place_of(file))}#sha256={file.digest}",
                file.name,
                {"data-requires-python": file.requires_python, "data-yanked": file.yanked},
            )
            for file in files
        ),
    )


def root_json(projects: Iterable[str]) -> str:
    """The JSON page of the index."""
    names = [{"name": project} for project in sorted(projects)]
    return json.dumps({"meta": _META, "projects": names}, indent=1) + "\n"


def root_html(projects: Iterable[str]) -> str:
    """The HTML page of the index."""
    return _html("Simple index", (_link(f"{project}/", project, {}) for project in projects))


def _link(to: str, text: str, attributes: Mapping[str, str]) -> str:
    more = "".join(f' {name}="{escape(value)}"' for name, value in attributes.items() if value)
    return f'<a href="{escape(to)}"{more}>{escape(text)}</a><br>\n'


def _html(title: str, links: Iterable[str]) -> str:
    head = f'<meta charset="utf-8"><meta name="pypi:repository-version" content="1.0"><title>{escape(title)}</title>'
    return f"<!DOCTYPE html>\n<html><head>{head}</head><body>\n{''.join(links)}</body></html>\n"
