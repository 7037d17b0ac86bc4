"""The variants that many machines need, and those that the fleet lacks for them.

An inventory is a CSV file with a header, or a JSON list of objects, with `name`, `count`, `gpu`, `cpu` and `driver`.
JSON may also hold what `ci-runner detect --json` prints for a machine. What `kubectl get nodes` prints, as JSON or as a
table with labels (`-L node.kubernetes.io/instance-type`), is an inventory as well.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError, Place, wrong
from ci_compiler.hardware import CPU, Hardware, UnknownHardwareError, Version
from ci_compiler.hardware.drivers import driver_number
from ci_compiler.hardware.families import DEFAULT
from ci_compiler.hardware.machine import GpuDevice, Machine, isas_of
from ci_compiler.hardware.pasted import beside, machine, read
from ci_compiler.hardware.products import ForeignGpuError, device, strongest
from ci_compiler.outside import decoded, json_of, reading
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.rules import Judged
from ci_compiler.record import record
from ci_compiler.reports.evidence import Proofs
from ci_compiler.reports.offers import Offer, Wishes, isa_order
from ci_compiler.reports.select import Recommendation, noted_json, select
from ci_compiler.spec.model import Spec

COLUMNS = ("name", "count", "gpu", "cpu", "driver")
"""What is read of a machine; other columns are ignored."""


@record
class Entry:
    """Machines of an inventory that are alike: their name, how many they are, and one of them."""

    name: str
    count: int
    machine: Machine


@record
class Served:
    """Machines with the answer for each of them."""

    entry: Entry
    choice: Recommendation


@record
class Needed:
    """A variant that machines need: how many do, their names, what tests say, and the commands that install it."""

    offer: Offer
    machines: int
    names: tuple[str, ...]
    tests: str
    install: tuple[str, ...]


@record
class Lacking:
    """A part of the matrix that machines would use and the fleet does not build; they use `instead` (None: nothing)."""

    gpu: str
    isa: str
    machines: int
    names: tuple[str, ...]
    instead: Offer | None
    why: str


@record
class Cluster:
    """What a cluster needs and what the fleet lacks for it, the most machines first."""

    served: tuple[Served, ...]
    needed: tuple[Needed, ...]
    lacking: tuple[Lacking, ...]


def cluster(
    spec: Spec,
    judged: Judged,
    entries: Sequence[Entry],
    wishes: Wishes,
    *,
    known: Proofs,
    everything: bool,
) -> Cluster:
    """What the machines of `entries` need of `wishes.package`, or of all packages; `known`: what tests say."""
    served = tuple(
        Served(
            entry=entry, choice=select(spec, judged.cells, entry.machine, wishes, everything=everything, known=known)
        )
        for entry in entries
    )
    by_best: dict[Offer, list[Served]] = {}
    by_gap: dict[tuple[str, str], list[Served]] = {}
    for label_set in served:
        if label_set.choice.best:
            by_best.setdefault(label_set.choice.best, []).append(label_set)
        gap = None if label_set.choice.impossible else _gap(spec, judged.cells, label_set.entry.machine, wishes)
        if gap:
            by_gap.setdefault(gap, []).append(label_set)
    needed = (
        Needed(offer=offer, tests=own[0].choice.tests, install=own[0].choice.install, **_machines(own))
        for offer, own in by_best.items()
    )
    lacking = (
        Lacking(gpu=gpu, isa=isa, instead=own[0].choice.best, why=_why(spec, judged, gpu, isa), **_machines(own))
        for (gpu, isa), own in by_gap.items()
    )
    return Cluster(
        served=served,
        needed=tuple(sorted(needed, key=lambda row: -row.machines)),
        lacking=tuple(sorted(lacking, key=lambda row: -row.machines)),
    )


def _machines(served: Iterable[Served]) -> dict[str, Any]:
    """How many machines `served` are, and their names."""
    entries = [label_set.entry for label_set in served]
    return {
        "machines": sum(entry.count for entry in entries),
        "names": tuple(dict.fromkeys(entry.name for entry in entries)),
    }


def _gap(spec: Spec, cells: Iterable[Cell], machine: Machine, wishes: Wishes) -> tuple[str, str] | None:
    """The GPU and the ISA of the variant that would suit `machine` best, if no branch builds it; ISA '': any."""
    device = strongest(spec.hardware, machine.gpus)
    gpu = device.sm if device else CPU
    isa = min(machine.isas, key=isa_order(spec.hardware, wishes.workload).index, default="")
    suited = (
        cell.target in {gpu, device.family if device else CPU}
        and (isa in {"", cell.isa} or (cell.values and "isa" not in dict(cell.values)))
        and any(variant.package == wishes.package for variant in cell.variants)
        for cell in cells
    )
    return None if any(suited) else (gpu, isa)


def _why(spec: Spec, judged: Judged, gpu: str, isa: str) -> str:
    """Why the fleet has no variant for `gpu` and `isa`."""
    left = next(
        (left_out for left_out in judged.left_out if left_out.target == gpu and isa in {"", left_out.isa}), None
    )
    if left:
        return f"left out of {left.branch}: {left.reason}"
    if gpu not in spec.hardware.gpus and gpu != CPU:
        return f"{gpu} is not in the hardware tables"
    if gpu not in spec.gpus:
        return f"`matrix.gpus` does not have {gpu}"
    return f"`matrix` does not select {isa} for {gpu}"


# Reading.


def read_inventory(hardware: Hardware, data: bytes, shown: str) -> tuple[tuple[Entry, ...], tuple[Finding, ...]]:
    """The machines of an inventory called `shown` in findings, and a warning for each with a GPU of another vendor.

    Raises InputError with a finding for each wrong one.
    """
    with reading(shown, Code.WRONG_VALUE):
        text = decoded(data).removeprefix("\ufeff")
    reader = _json_rows if text.lstrip()[:1] in {"[", "{"} else _table_rows if _TABLE.match(text) else _csv_rows
    try:
        rows = list(reader(text, shown))
    except csv.Error as error:
        raise wrong(shown, Code.WRONG_VALUE, f"is not CSV: {error}") from None
    entries: list[Entry] = []
    findings: list[Finding] = []
    foreign: list[Finding] = []
    for place, row in rows:
        try:
            entries.append(_entry(hardware, row, len(entries) + 1))
        except UnknownHardwareError as error:
            findings.append(Finding(place=place, code=error.code, message=str(error)))
        except KeyError as error:
            findings.append(Finding(place=place, code=Code.WRONG_VALUE, message=f"lacks {error}"))
        except ForeignGpuError as error:
            message = f"{error}; this row is left out"
            foreign.append(Finding(place=place, code=Code.WRONG_HARDWARE, message=message, tolerated=True))
        except (ValueError, TypeError) as error:
            findings.append(Finding(place=place, code=Code.WRONG_HARDWARE, message=str(error)))
    if findings:
        raise InputError([*findings, *foreign])
    if not entries:
        raise InputError(foreign or wrong(shown, Code.WRONG_VALUE, "names no machine").findings)
    return tuple(entries), tuple(foreign)


_Row = tuple[Place, Mapping[str, Any]]

_TABLE = re.compile(r"\s*NAME\s+STATUS\s")
"""The header of the table that `kubectl get nodes` prints."""


def _table_rows(text: str, shown: str) -> Iterator[_Row]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not _TABLE.match(line):
            yield Place(file=shown, line=number, column=1), {"name": line.split()[0], "pasted": line}


def _csv_rows(text: str, shown: str) -> Iterator[_Row]:
    reader = csv.DictReader(text.splitlines(), skipinitialspace=True, restval="")
    header = [str(name).strip().lower() for name in reader.fieldnames or ()]
    if not {"gpu", "cpu"} & set(header):
        message = f"has no column gpu or cpu in its first line; read are {', '.join(COLUMNS)}"
        raise InputError([Finding(place=Place(file=shown, line=1, column=1), code=Code.WRONG_VALUE, message=message)])
    reader.fieldnames = header
    for row in reader:
        place = Place(file=shown, line=reader.line_num, column=1)
        yield place, {name: (row.get(name) or "").strip() for name in COLUMNS}


def _json_rows(text: str, shown: str) -> Iterator[_Row]:
    with reading(shown, Code.WRONG_VALUE):
        content = json_of(text)
    nodes = content.get("items", [content]) if isinstance(content, dict) else []
    if nodes and all(isinstance(node, dict) and node.get("kind") == "Node" for node in nodes):
        for node in nodes:
            name = str((node.get("metadata") or {}).get("name", ""))
            yield Place(file=f"{shown}: node {name}"), {"name": name, "pasted": json.dumps(node, indent=1)}
        return
    listed = content.get("machines", [content]) if isinstance(content, dict) else content
    for at, row in enumerate(listed if isinstance(listed, list) else [listed], 1):
        if not isinstance(row, dict) or not {"gpu", "gpus", "cpu"} & row.keys():
            message = "is not an object with gpu, gpus or cpu; `ci-runner detect --json` prints that of its machine"
            raise wrong(f"{shown}: machine {at}", Code.WRONG_VALUE, message)
        yield Place(file=f"{shown}: machine {at}"), row


def _entry(hardware: Hardware, row: Mapping[str, Any], number: int) -> Entry:
    """The machines of a row. Raises UnknownHardwareError, KeyError, ValueError, TypeError."""
    count = str(row.get("count", "")).strip() or "1"
    if not re.fullmatch("[1-9][0-9]{0,8}", count):
        message = f"the count {count!r} is not a number of machines"
        raise ValueError(message)
    kind: Callable[[Hardware, Mapping[str, Any]], Machine] = _detected if isinstance(row.get("gpus"), list) else _named
    found = (_node if "pasted" in row else kind)(hardware, row)
    return Entry(name=str(row.get("name") or row.get("host") or f"machine {number}"), count=int(count), machine=found)


def _named(hardware: Hardware, row: Mapping[str, Any]) -> Machine:
    """A machine by the names of its GPU (`8x H100`; none: no GPU) and its CPU (none: unknown)."""
    name = re.sub(r"^\s*[0-9]+\s*[x×]\s*", "", str(row.get("gpu") or "none"))
    driver = str(row.get("driver") or "")
    if driver and not driver_number(driver):
        message = f"{driver!r} is not a driver's version such as 580 or 580.65.06"
        raise ValueError(message)
    gpu = device(hardware, name, driver)
    return beside(hardware, (gpu,) if gpu else (), str(row.get("cpu") or ""))


def _node(hardware: Hardware, row: Mapping[str, Any]) -> Machine:
    """A node of Kubernetes, by its labels. Raises ValueError if they name neither a GPU nor an instance type."""
    found = read(hardware, row["pasted"])
    if found.problem:
        message = f"{row['name']}: no label of it names a GPU or an instance type"
        raise ValueError(message)
    return machine(hardware, found)


def _detected(hardware: Hardware, row: Mapping[str, Any]) -> Machine:
    """A machine as `ci-runner detect --json` prints it."""
    gpus = tuple(
        GpuDevice(
            index=index,
            name=str(one["name"]),
            capability=Version.parse(str(one["capability"])),
            driver=one["driver"],
            target=str(one.get("target", "")),
            family=str(one.get("family", DEFAULT)),
        )
        for index, one in enumerate(row["gpus"])
    )
    system, flags = str(row["system"]), row["cpu"]["flags"]
    return Machine(system=system, isas=isas_of(hardware, system, flags), gpus=gpus, cpu=str(row["cpu"]["model"]))


def cluster_json(one: Cluster) -> dict[str, Any]:
    """`one` as JSON."""
    return {
        "machines": [
            {
                "name": row.entry.name,
                "count": row.entry.count,
                "best": row.choice.best.as_json() if row.choice.best else None,
                "problems": list(row.choice.problems),
                "tests": row.choice.tests,
                "tested": list(row.choice.tested),
                "untested": list(row.choice.untested),
                "doubts": list(row.choice.doubts),
                "better": noted_json(row.choice.better),
            }
            for row in one.served
        ],
        "needed": [
            row.offer.as_json()
            | {"machines": row.machines, "names": list(row.names), "tests": row.tests, "install": list(row.install)}
            for row in one.needed
        ],
        "lacking": [asdict(row) | {"instead": row.instead.name if row.instead else None} for row in one.lacking],
    }


def notes(served: Sequence[Served]) -> Iterator[str]:
    """What has to be known about machines besides their variants, one line for each that has something."""
    for label_set in served:
        said = "; ".join((*label_set.choice.problems, *label_set.choice.untested, *label_set.choice.doubts))
        if said:
            yield f"{label_set.entry.name} ({label_set.entry.count}): {said}"
