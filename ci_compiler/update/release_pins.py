"""The pins of runner images and deployments in a checkout of the compiler, brought to the newest releases.

The file is JSON. It stays as it is outside the values that change.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.outside import object_of
from ci_compiler.update.choice import order
from ci_compiler.update.editing import Edit, change_value, found_node
from ci_compiler.update.pins import StalePin, latest_program
from ci_compiler.update.remote import Remote, upstream_facts
from ci_compiler.update.web import unreachable

FILE = "ci_compiler/runner/deployment/release_pins.json"
"""The file in a checkout."""

ACTIONS = "ci_compiler/workflows/pins.json"
"""The table of actions in a checkout."""

_CHECKSUM = "[0-9a-f]{64}"


def stale_release_pins(text: str, remote: Remote, now: float, *, fetch: bool) -> Iterator[StalePin]:
    """The stale pins of the file. Raises InputError.

    now: seconds since 1970, for the time of the packages in the images.
    fetch: whether checksums are looked up, for the edits.
    """
    data = object_of(text)
    facts = upstream_facts()["programs"]
    chart = data["chart"]["version"]
    with remote.lookup():
        latest = latest_program(remote, facts["chart"])
        if latest and order(latest) > order(chart):
            yield StalePin("chart", "", chart, latest, "a newer release", (Edit(("chart", "version"), latest),), FILE)
    base = data["base"]
    with remote.lookup():
        if (digest := remote.digest(base["image"])) != base["digest"]:
            edits = (
                Edit(("base", "digest"), digest),
                Edit(("snapshot",), time.strftime("%Y%m%dT000000Z", time.gmtime(now))),
            )
            yield StalePin(base["image"], "", base["digest"], digest, "the tag names another digest", edits, FILE)
    for name, row in data["archives"].items():
        with remote.lookup():
            yield from _of_archive(name, row, facts[name], remote, fetch=fetch) if name in facts else ()


def _of_archive(
    name: str, row: Mapping[str, Any], upstream: Mapping[str, Any], remote: Remote, *, fetch: bool
) -> Iterator[StalePin]:
    version = row["version"]
    latest = latest_program(remote, upstream)
    if latest and order(latest) > order(version):
        edits = _of_release(name, row, latest, upstream, remote) if fetch else ()
        yield StalePin(name, "", version, latest, "a newer release", edits, FILE)
        return
    if missing := [arch for arch in row["machines"] if arch not in row["sha256"]]:
        edits = _of_release(name, row, version, upstream, remote) if fetch else ()
        yield StalePin(name, "", version, version, f"has no checksum for {' and '.join(missing)}", edits, FILE)
    for arch, pinned in row["sha256"].items():
        found = _published(name, row, arch, version, upstream, remote)
        if found not in {"", pinned}:
            why = f"{version} has another checksum now (archives.{name}.sha256.{arch}); find out why before you take it"
            yield StalePin(name, "", pinned, found, why, (), FILE)


def _of_release(
    name: str, row: Mapping[str, Any], version: str, upstream: Mapping[str, Any], remote: Remote
) -> tuple[Edit, ...]:
    """The edits that pin `version`. A checksum that nobody publishes is that of the download."""
    sums = {}
    for arch, machine in row["machines"].items():
        url = row["url"].format(version=version, machine=machine)
        sums[arch] = _published(name, row, arch, version, upstream, remote) or remote.checksum(url)
    return (Edit(("archives", name, "version"), version), Edit(("archives", name, "sha256"), sums))


def _published(
    name: str, row: Mapping[str, Any], arch: str, version: str, upstream: Mapping[str, Any], remote: Remote
) -> str:
    """The checksum that the publisher states; '' if the table knows of no place where it does. Raises InputError."""
    if "checksums" not in upstream:
        return ""
    machine = row["machines"][arch]
    archive = row["url"].format(version=version, machine=machine)
    url = upstream["checksums"].format(api=remote.api, archive=archive, version=version)
    before = re.escape(upstream["before"].format(machine=machine))
    match = re.search(f"{before}({_CHECKSUM})(?![0-9a-f])", remote.page(url))
    if not match:
        raise unreachable(name, f"{url} states no checksum for {machine}")
    return match[1]


def of_table(pin: StalePin, tables: Mapping[str, str]) -> StalePin:
    """`pin`, whose edit is that of the compiler's table if that has the pin."""
    if pin.file or ACTIONS not in tables or pin.what not in object_of(tables[ACTIONS])["pins"]:
        return pin
    edits = [
        Edit(("pins", pin.what, key), value)
        for edit in pin.edits
        if isinstance(edit.value, Mapping)
        for key, value in edit.value.items()
    ]
    return pin._replace(file=ACTIONS, edits=tuple(edits))


def json_edited(text: str, edits: Iterable[Edit], *, shown: str) -> str:
    """`text`, which is JSON, with `edits`. Raises InputError for a place that cannot be edited."""
    wanted = object_of(text)
    for edit in edits:
        change_value(wanted, edit)
        node, rest = found_node(text, edit.path)
        start, end = node.start_mark.index, node.end_mark.index
        indent = text[text.rfind("\n", 0, start) + 1 : start]
        indent = indent[: len(indent) - len(indent.lstrip())]
        made = json.dumps(edit.value, indent=2).replace("\n", f"\n{indent}")
        text = text[:start] + made + text[end:]
        if rest or object_of(text) != wanted:
            where = ".".join(map(str, edit.path))
            raise wrong(
                shown, Code.WRONG_VALUE, f"`{where}` cannot be edited here; write {json.dumps(edit.value)} by hand"
            )
    return text
