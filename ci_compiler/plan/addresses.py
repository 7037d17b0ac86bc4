"""The address under which each variant is published, as far as the spec determines it: no two share one.

The name of a file is the build's own. What it can say of the variant is in the pattern of `files` and, for a wheel, in
its version, Python and platform. A name that the spec leaves open, such as `dist/*.zip`, is not judged here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ci_compiler.backends.command_files import filled
from ci_compiler.codes import Code
from ci_compiler.errors import Finding
from ci_compiler.plan.matrix import Cell, Variant, applying, values_in
from ci_compiler.plan.routing import Route
from ci_compiler.publishing.plan import release_of
from ci_compiler.spec.command import Command
from ci_compiler.spec.model import Spec
from ci_compiler.spec.publishers import GITHUB_RELEASE, REGISTRY, WHEEL_INDEX, Publisher
from ci_compiler.spec.shorthand.lists import TOOLKITS
from ci_compiler.stages import PUBLISH

_BY_PIP = re.compile(r"\bpip3? install\b|\buv (?:add|pip install)\b")
"""A line that installs a wheel, which it chooses by Python and platform."""

_APART = ("gpu", "target", TOOLKITS, "toolkit", "isa", "family", "python", "platform", "system", "branch", "name")
"""The placeholders that tell variants apart, beside the axes that a spec declares: the first that do are named."""

_LOCAL = "into `version: {local: …}`, or into the name in `files`"
_REMEDIES = {
    WHEEL_INDEX: f"into `url`, {_LOCAL}",
    REGISTRY: "into `image-tags` or `url`",
    "files": "into that name",
    "install": "into `install`, or into `version: {local: …}` with @version@ here",
}
"""Where a placeholder makes an address differ, by the kind of publisher; `_LOCAL` for others."""


class _Address(NamedTuple):
    """Where a result is: the key that says so, its text, and what else tells results at that place apart."""

    key: str
    place: str
    more: tuple[str, ...] = ()


class _Result(NamedTuple):
    cell: Cell
    variant: Variant
    values: Mapping[str, str]


def address_findings(spec: Spec, parts: Iterable[tuple[Cell, Route]]) -> Iterator[Finding]:
    """An error for each package with variants that would be published, or installed, under one address."""
    found: dict[_Address, list[_Result]] = {}
    for cell, route in parts:
        for variant in cell.variants if spec.branches[cell.branch].publish and PUBLISH in route.pools else ():
            if command := spec.packages[variant.package].command:
                result = _Result(cell, variant, _values(spec, cell, variant, command))
                for address in dict.fromkeys(_addresses(command, result)):
                    found.setdefault(address, []).append(result)
    said = set[tuple[str, str]]()
    for address, results in found.items():
        package = results[0].variant.package
        if len(results) > 1 and (package, address.key) not in said:
            said.add((package, address.key))
            path = ("packages", package, "command", address.key)
            yield spec.finding(path, Code.ADDRESS_SHARED, _message(spec, address, results), key=True)


def _values(spec: Spec, cell: Cell, variant: Variant, command: Command) -> dict[str, str]:
    """The values of a variant; what a run decides of its version is taken to be one version for each branch."""
    values = values_in(spec, cell, variant.package, variant.name)
    local = applying(command.version.local, cell) if command.version else ""
    unknown = f"({cell.branch}){f'+{filled(local, values)}' if local else ''}"
    return values | ({} if values["version"] else {"version": unknown})


def _addresses(command: Command, result: _Result) -> Iterator[_Address]:
    cell, variant, values = result
    machine = (values["python"], cell.conditions.get("platform", cell.system))
    names = [filled(pattern.rpartition("/")[2], values) for pattern in command.files]
    wheels = [name for name in names if name.endswith(".whl") and "*" in name]
    if wheels and not cell.listed and _BY_PIP.search(command.install):
        yield _Address("install", filled(command.install, values), (variant.package, *machine))
    if (publisher := command.publisher) is None:
        return
    for place in _places(publisher, values):
        if publisher.to == REGISTRY:
            yield _Address("publish", place)
            continue
        yield from (_Address("publish", place, (name, variant.package, values["version"], *machine)) for name in wheels)
        yield from (_Address("files", f"{name} in {place}") for name in names if not set("*?[") & set(name))


def _places(publisher: Publisher, values: Mapping[str, str]) -> Iterator[str]:
    """The places of a variant: the tags of an image, or else the release or the index that takes the files."""
    version, url = release_of(values["version"]), filled(publisher.url, values)
    if publisher.to == REGISTRY:
        yield from (f"{url}:{filled(tag, values).replace('{version}', version)}" for tag in publisher.image_tags)
    elif publisher.to == GITHUB_RELEASE:
        yield f"the release {publisher.tags(values['package'], values['branch']).replace('{version}', version)}"
    else:
        yield url


def _message(spec: Spec, address: _Address, results: Sequence[_Result]) -> str:
    first, second, *more = (
        f"{one.variant.name} on {one.cell.branch}"
        if len({one.cell.branch for one in results}) > 1
        else one.variant.name
        for one in results
    )
    who = f"{first} and {second}{f' and {len(more)} more' if more else ''}"
    command = spec.packages[results[0].variant.package].command
    kind = command.publisher.to if address.key == "publish" and command and command.publisher else address.key
    does = "are installed by one line" if kind == "install" else "are published under one address"
    words = " and ".join(f"@{word}@" for word in _apart(spec, results))
    return f"{who} {does}, {address.place}; to tell them apart, write {words} {_REMEDIES.get(kind, _LOCAL)}"


def _apart(spec: Spec, results: Sequence[_Result]) -> list[str]:
    """The fewest placeholders, in order, whose values differ between all of `results`."""
    own = [axis.replace("_", "-") for axis in spec.axes]
    chosen: list[str] = []
    for word in dict.fromkeys((*_APART[:5], *own, *_APART[5:])):
        if all(word in one.values for one in results):
            before, after = (
                len({tuple(one.values[name] for name in names) for one in results})
                for names in (chosen, [*chosen, word])
            )
            chosen += [word] * (after > before)
    return chosen
