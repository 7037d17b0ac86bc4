"""Rows of the hardware tables for what a matrix names and they lack: platforms, and accelerators of other families.

What a spec names, and is known or declared, gets a row without facts, so that everything that reads the tables needs no
second way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from ci_compiler.hardware import ALL, Gpu, Hardware, Isa, System, Toolkit, Version, read_table
from ci_compiler.hardware.families import Family
from ci_compiler.spec.axes import NO_ACCELERATOR, Accelerator
from ci_compiler.spec.model import Matrix, Spec


@cache
def _table() -> dict[str, Any]:
    return read_table("platforms.json")


def hosted() -> dict[str, dict[str, Any]]:
    """The machines that GitHub hosts, by label: system, cores, memory and disk in GB, dollars per minute."""
    found: dict[str, dict[str, Any]] = _table()["hosted"]
    return found


def known_platforms(spec: Spec) -> list[str]:
    """The names that a spec may give to a platform."""
    return [*spec.hardware.systems, *_table()["platforms"], *spec.hardware_rows.platforms]


def with_open_rows(spec: Spec) -> Hardware:
    """The tables of `spec` with a row for each platform and accelerator that it names and they lack."""
    hardware = spec.hardware
    platforms = dict.fromkeys(name for name in _platforms(spec) if name not in hardware.systems)
    systems = {name: row for name in platforms if (row := _system(spec, name))}
    isas = {row.baseline: _baseline(row) for row in systems.values()}
    gpus = {
        accelerator.label: _gpu(accelerator, hardware.family(accelerator.family), [*hardware.systems, *systems])
        for accelerator in _accelerators(spec)
        if accelerator.family != NO_ACCELERATOR.family
        and accelerator.label not in hardware.gpus
        and accelerator.target != ALL.name
    }
    toolkits = {
        accelerator.toolkit: _toolkit(spec, accelerator.toolkit)
        for accelerator in _accelerators(spec)
        if accelerator.toolkit and accelerator.toolkit not in hardware.toolkits
    }
    if not (systems or gpus or toolkits):
        return hardware
    return replace(
        hardware,
        systems={**hardware.systems, **systems},
        isas={**hardware.isas, **isas},
        gpus={**hardware.gpus, **gpus},
        toolkits={**hardware.toolkits, **toolkits},
    )


def _toolkit(spec: Spec, name: str) -> Toolkit:
    """The row of a toolkit: the oldest of those that `name` serves or is the series of, else one without facts."""
    served = spec.axes["toolkit"].serves.get(name, ()) if "toolkit" in spec.axes else ()
    known = [row for one, row in spec.hardware.toolkits.items() if one in served or one.startswith(f"{name}.")]
    if known:
        return min(known, key=lambda row: row.version)
    return Toolkit(version=_version(name), attribute="", shipped_driver=0, lowest_driver=0)


def _version(toolkit: str) -> Version:
    """The first two numbers of a toolkit's version."""
    numbers = [int(number) for number in re.findall("[0-9]+", toolkit)[:2]]
    return Version(*(*numbers, 0, 0)[:2])


def _matrices(spec: Spec) -> Iterator[Matrix]:
    yield from (matrix for _, matrix, _ in spec.matrices)


def _platforms(spec: Spec) -> Iterator[str]:
    serves = spec.axes["platform"].serves if "platform" in spec.axes else {}
    for matrix in _matrices(spec):
        for name in matrix.of("platform"):
            yield from serves.get(name, (name,))
    yield from (variant.system for package in spec.packages.values() for variant in package.variants.values())
    yield from (pool.system or hosted().get(pool.hosted, {}).get("system", "") for pool in spec.pools)
    yield from (name for pool in spec.pools for name in (*pool.runs, *pool.builds))


def _accelerators(spec: Spec) -> Iterator[Accelerator]:
    named = [accelerator for matrix in _matrices(spec) for _, accelerator in matrix.accelerators]
    yield from named
    if any("target" in package.ignores for package in spec.packages.values()):
        yield from (accelerator._replace(target="") for accelerator in named)
    for rows in spec.accelerator_tables():
        for row in rows.values():
            yield from (Accelerator(family=row.name, target=target) for target in row.targets or [""])
            yield from (Accelerator(family=row.name, toolkit=toolkit) for toolkit in row.toolkits)
    yield from (Accelerator.parse(pool.accelerator) for pool in spec.pools if pool.accelerator)


def _system(spec: Spec, name: str) -> System | None:
    """The row of a platform that is known or declared; None for any other name, which is an error elsewhere."""
    if declared := spec.hardware_rows.platforms.get(name):
        row = {"label": declared.label, "os": declared.os, "title": declared.title or name}
    elif (known := _table()["platforms"].get(name)) is None:
        return None
    else:
        row = known
    return System(name=name, baseline=name, undecided=name, **row)


def _baseline(system: System) -> Isa:
    """The instruction set that every CPU of a platform without facts runs."""
    return Isa(
        name=system.baseline,
        system=system.name,
        title=system.title,
        cpus=f"every CPU of {system.title}",
    )


def _gpu(accelerator: Accelerator, family: Family, systems: Iterable[str]) -> Gpu:
    """The row of a target, or of a family without one."""
    return Gpu(
        name=accelerator.label,
        architecture=f"{family.title} {accelerator.target}".strip(),
        summary=family.title,
        dnn=False,
        systems=tuple(systems),
        family=accelerator.family,
    )
