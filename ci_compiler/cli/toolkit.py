"""Where this very ci-compiler was installed from, as a value of the spec's `toolkit` (PEP 610, direct URLs)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ci_compiler.errors import InputError
from ci_compiler.git import Git
from ci_compiler.outside import object_of
from ci_compiler.spec.forms import TOOLKIT

_SSH = re.compile(r"^(?:ssh://)?[^@/]+@(?P<host>[^:/]+)[:/](?P<path>.+)$")


def toolkit(root: Path) -> str:
    """What hosted jobs of the repository at `root` install to have this version; '' for a release from an index."""
    text = None
    with suppress(PackageNotFoundError):
        text = distribution("ci-compiler").read_text("direct_url.json")
    return toolkit_of(object_of(text), root) if text else ""


def toolkit_of(direct: Mapping[str, Any], root: Path) -> str:
    """The value for an installation whose `direct_url.json` is `direct`; '' if no other machine can install that."""
    url: str = direct["url"]
    if "vcs_info" in direct:
        made = _at(url, direct["vcs_info"]["commit_id"])
    elif "archive_info" in direct:
        digest = direct["archive_info"].get("hashes", {}).get("sha256", "")
        made = f"{url}#sha256={digest}"
    else:
        made = _of_checkout(Path(unquote(urlsplit(url).path)), root)
    return made if re.match(TOOLKIT, made) else ""


def _of_checkout(folder: Path, root: Path) -> str:
    """The commit of the checkout at `folder`, by its remote; `.` for the checkout that `root` is."""
    if folder.resolve() == root.resolve():
        return "."
    try:
        git = Git(folder)
        return _at(git.address("origin"), git.resolve("HEAD"))
    except InputError:
        return ""


def _at(url: str, commit: str) -> str:
    """The commit at `url`, which may be one for SSH."""
    match = _SSH.match(url)
    address = f"https://{match['host']}/{match['path']}" if match and not url.startswith("https:") else url
    return f"git+{address.removesuffix('.git')}@{commit}"
