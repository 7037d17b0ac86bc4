"""Which releases belong together, which GPUs a release of torch knows, and what known nixpkgs commits have.

`releases.json` holds the facts with their sources, `torch.json` of a family those about its GPUs, its toolkits and what
nixpkgs has for it; the `releases` section of a spec adds to them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ci_compiler.hardware.families import DEFAULT, family_of, files_of
from ci_compiler.hardware.families import facts as family_facts
from ci_compiler.units import numbers

TORCH = "torch"
"""The attribute in nixpkgs of the package that the releases of the others belong to."""


@cache
def facts() -> Mapping[str, Any]:
    """The tables of `releases.json`, with those of the families."""
    table: dict[str, Any] = json.loads(Path(__file__).with_name("releases.json").read_bytes())
    for own in (family_facts(family, "torch") for family in files_of("torch.json")):
        table |= {name: rows for name, rows in own.items() if name not in {"pins", "source"}}
        for pin, row in own["pins"].items():
            known = table["pins"][pin]
            arguments = {name: f"{known['arguments'][name]} {more}" for name, more in row["arguments"].items()}
            own_of = row.get("derivations", {})
            derivations = {name: row | own_of.get(name, {}) for name, row in known["derivations"].items()}
            table["pins"][pin] = {
                **known,
                **row,
                "arguments": {**known["arguments"], **arguments},
                "derivations": derivations,
            }
    return table


def companions(version: str, own: Mapping[str, Mapping[str, str]]) -> Mapping[str, str]:
    """The releases that belong to `version` of torch, by attribute; {} if the table does not know it.

    `own` are a spec's rows, which come first. A value is a release or, where only the series is known, a series.
    """
    known = {**facts()["releases"], **own}
    found: Mapping[str, str] = known.get(version) or known.get(series(version), {})
    return found


def companions_of_torch() -> frozenset[str]:
    """The attributes of the packages whose releases belong to those of torch."""
    return frozenset(attribute for row in facts()["releases"].values() for attribute in row)


def series(version: str) -> str:
    """The first two numbers of a version: `2.9` for `2.9.1`."""
    return ".".join(version.split(".")[:2])


def is_of(version: str, release: str) -> bool:
    """Whether `version` is the release or, if `release` is a series, one of its releases."""
    return version == release or (release.count(".") == 1 and series(version) == release)


def first_series(version: str, gpu: str) -> str:
    """The first series of torch that knows `gpu`, if `version` is older; else or if either is unknown, ''."""
    first: str = facts()["gpus"].get(gpu, "")
    try:
        older = bool(first) and numbers(series(version)) < numbers(first)
    except ValueError:
        return ""
    return first if older else ""


def toolkits(version: str) -> tuple[str, ...]:
    """The toolkits that PyTorch builds `version` of torch with, oldest first; () if they are not known."""
    return tuple(facts()["toolkits"].get(series(version), ()))


def toolkit_refusal(version: str, toolkit: str) -> str:
    """Why `version` of torch cannot be built with `toolkit`; '' if it can, or if that is not known.

    Other minor versions than PyTorch's own build as well: 2.9 with 12.9, 2.10 with 13.1.
    """
    known = toolkits(version)
    if not known or any(name.partition(".")[0] == toolkit.partition(".")[0] for name in known):
        return ""
    return f"does not support {family_of(DEFAULT).toolkit} {toolkit}: PyTorch builds it with {', '.join(known)}"


def python_refusal(version: str, python: str) -> str:
    """Why `version` of torch cannot be built for `python`; '' if it can, or if that is not known."""
    first, last = facts()["pythons"].get(series(version), (python, python))
    if numbers(first) <= numbers(python) <= numbers(last):
        return ""
    return f"does not support Python {python}: PyTorch builds it for {first} to {last}"


def version_in(pin: str, attribute: str) -> str:
    """The release of `attribute` in the nixpkgs commit `pin`; '' if it is not known."""
    version: str = facts()["pins"].get(pin, {}).get("versions", {}).get(attribute, "")
    return version


def arguments_in(pin: str, attribute: str) -> frozenset[str]:
    """The arguments that the function of `attribute` takes in the nixpkgs commit `pin`; none if they are not known."""
    names: str = facts()["pins"].get(pin, {}).get("arguments", {}).get(attribute, "")
    return frozenset(names.split())


def attribute_of(name: str) -> str:
    """The attribute in nixpkgs of the package that is called `name`; '' if the table does not know it."""
    attribute: str = facts()["names"].get(name, "")
    return attribute


def is_called(attribute: str, right: str) -> bool:
    """Whether `attribute` is `right`, an alias of it, or a variation of either, such as `torch-bin`."""
    names = facts()["names"]
    if attribute in names:
        return bool(names[attribute] == right)
    return attribute.startswith(tuple(name for name, of in names.items() if of == right))


def dnn_in(pin: str, toolkit: str) -> str:
    """The library for neural networks in the commit `pin` for `toolkit`, or its series (`9.x`); '' if unknown."""
    version: str = facts()["pins"].get(pin, {}).get("dnn", {}).get(toolkit, "")
    return version


def pins_with(attribute: str, version: str) -> tuple[str, ...]:
    """The known nixpkgs commits that have `version` of `attribute`."""
    return tuple(pin for pin in facts()["pins"] if version_in(pin, attribute) == version)
