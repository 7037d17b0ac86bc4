"""`python -m tests.licences`: the table of the page of licences, out of the metadata of what is installed.

Walks the dependencies of ci-compiler, and theirs with the extras that they ask for, as this interpreter needs them.
"""

from __future__ import annotations

from importlib.metadata import Distribution, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CLASSIFIER = "License :: OSI Approved :: "


def dependencies() -> dict[str, Distribution]:
    """What ci-compiler needs at run time, directly or not, by its canonical name, sorted."""
    found: dict[str, Distribution] = {}
    waiting, seen = [("ci-compiler", "")], set[tuple[str, str]]()
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        found[name] = distribution(name)
        for needed in map(Requirement, found[name].requires or ()):
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                waiting.extend((canonicalize_name(needed.name), asked) for asked in ("", *sorted(needed.extras)))
    del found["ci-compiler"]
    return dict(sorted(found.items()))


def licence(one: Distribution) -> str:
    """The licence that a distribution's metadata names: the SPDX expression, else the old field or the classifiers."""
    metadata = one.metadata
    (expression,) = metadata.get_all("License-Expression", [""])
    (written,) = metadata.get_all("License", [""])
    if expression or (written.strip() and "\n" not in written.strip()):
        return expression or written.strip()
    classified = [one for one in metadata.get_all("Classifier", []) if one.startswith(CLASSIFIER)]
    return ", ".join(text.removeprefix(CLASSIFIER) for text in classified) or "not named"


def main() -> None:
    """Prints the table."""
    print("| package | licence |\n|---|---|")
    for name, one in dependencies().items():
        print(f"| {name} | {licence(one)} |")


if __name__ == "__main__":
    main()
