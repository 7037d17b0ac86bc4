"""Versions of releases: which tags are final releases, which release is newer, and which belong to one line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ci_compiler.spec.upstream import Upstream

_VERSION = r"[0-9]+(?:\.[0-9]+)*(?:\.post[0-9]+)?"
_PLACE = "@version@"


class Release(NamedTuple):
    """A final release: its tag, and the commit that the tag names. Both are '' where only the index knows it."""

    version: str
    tag: str
    commit: str


def releases(upstream: Upstream, tags: Mapping[str, str]) -> dict[str, Release]:
    """The final releases among `tags` (commits by tag), by version; tags of any other form are left out."""
    before, after = map(re.escape, upstream.tags.split(_PLACE))
    form = re.compile(f"{before}({_VERSION}){after}")
    found = ((form.fullmatch(tag), tag, commit) for tag, commit in tags.items())
    return {match[1]: Release(match[1], tag, commit) for match, tag, commit in found if match}


def is_final(version: str) -> bool:
    """Whether `version` is that of a final release: numbers, and no more than a post-release after them."""
    return re.fullmatch(_VERSION, version) is not None


def order(version: str) -> tuple[int, ...]:
    """The numbers of a version, by which releases are ordered. 2.9 and 2.9.0 are equal."""
    numbers, _, post = version.partition(".post")
    found = [int(part) for part in re.findall("[0-9]+", numbers)]
    return (*found, *[0] * (6 - len(found)), int(post or 0))


def newest(versions: Iterable[str]) -> str:
    """The newest of `versions`; '' for none."""
    return max(versions, key=order, default="")


def in_line(version: str, line: str) -> bool:
    """Whether `version` begins with the numbers of `line` ('' for all): 2.9.1 is in 2.9, 2.91 is not."""
    return not line or f"{version}.".startswith(f"{line}.")


def line_of(version: str, numbers: int) -> str:
    """The first `numbers` numbers of a version."""
    return ".".join(version.split(".")[:numbers])
