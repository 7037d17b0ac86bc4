"""The health of a machine's GPUs as its host sees it, since a job's container hides the kernel's log.

On the host, `ci-runner health` prints one dated verdict: a service runs it for each connection to a socket, which the
controllers' user alone may open. A controller reads the verdict before each registration. One that is missing, late,
too large, malformed or old is a problem like a fault: nothing but a verdict of this minute counts as healthy.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci_compiler.clock import minute_of
from ci_compiler.hardware.families.machines import Found, found_in, known_machines
from ci_compiler.hardware.machine import bus_place
from ci_compiler.hardware.texts import kernel_log, plain
from ci_compiler.outside import expected
from ci_compiler.runner.controller import answers
from ci_compiler.runner.controller.engine import EngineError

SOCKET = "/run/ci-runner-health/socket"
"""Where the deployed service listens."""

FORM = 1
"""The version of the verdict's form."""

FRESH = 60.0
"""Seconds by which the date of a verdict may differ from the clock of the controller, which is that of the host."""

PATIENCE = 45.0
"""Seconds within which the whole verdict must arrive; a driver that takes longer is sick as well."""

LARGEST = 1_000_000
"""The most bytes of a verdict."""

_SERVICE = "the host's health service"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuVerdict:
    """What the host says of a GPU: its family, name, what jobs can get of it (UUIDs; none if unknown), its faults.

    `remarks`: what else its tool reports, and what could not be read.
    """

    family: str
    name: str
    units: tuple[str, ...]
    faults: tuple[str, ...]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostVerdict:
    """What the host says of its GPUs at the time `at` (seconds since 1970), and of those that do not respond.

    `log_read`: whether it could read the kernel's log.
    """

    at: int
    log_read: bool
    gpus: tuple[GpuVerdict, ...]
    problems: tuple[str, ...]

    @property
    def sick(self) -> bool:
        """Whether anything is wrong with any GPU."""
        return bool(self.problems or any(gpu.faults for gpu in self.gpus))


_LISTS = ("units", "faults")
"""The lists by which a controller judges a GPU; the remarks are for people."""


# On the host.


def verdict_of(root: Path, now: float) -> HostVerdict:
    """The verdict on the machine whose files are below `root`."""
    log = kernel_log()
    gpus: list[GpuVerdict] = []
    problems: list[str] = []
    for family, known in known_machines().items():
        found = found_in(family, known.record(root))
        problems += found.problems
        gpus += _verdicts(family, found, [*known.host(root, log)])
    return HostVerdict(at=int(now), log_read=bool(log), gpus=tuple(gpus), problems=tuple(problems))


def _verdicts(family: str, found: Found, signs: Sequence[tuple[str, tuple[str, ...]]]) -> Iterator[GpuVerdict]:
    """The verdict on each GPU. A fault belongs to the GPU at its address; if that is unknown, to each of them."""
    shown = {bus_place(address): faults for address, faults in signs}
    for gpu in found.gpus:
        faults = (*gpu.faults, *shown.get(bus_place(gpu.address), ()))
        remarks = (*gpu.remarks, *(f"not readable: {sign}" for sign in gpu.unread))
        yield GpuVerdict(family=family, name=gpu.name, units=gpu.units, faults=faults, remarks=remarks)
    listed = {bus_place(gpu.address) for gpu in found.gpus}
    rest = {one.address: (str(one), one.faults) for one in found.unlisted}
    for address, faults in {**dict.fromkeys(rest, ()), **dict(signs)}.items():
        if bus_place(address) not in listed:
            name, own = rest.get(address, (address, ()))
            units = () if bus_place("") in listed else (address,)
            yield GpuVerdict(family=family, name=name, units=units, faults=(*own, *faults))


def as_json(verdict: HostVerdict) -> dict[str, Any]:
    """`verdict` as JSON."""
    gpus = [
        {"family": one.family, "name": one.name} | {key: list(getattr(one, key)) for key in (*_LISTS, "remarks")}
        for one in verdict.gpus
    ]
    problems = list(verdict.problems)
    return {"form": FORM, "at": verdict.at, "kernel-log": verdict.log_read, "gpus": gpus, "problems": problems}


# In the controller.


def problem(path: str, *, family: str, gpus: Sequence[str], now: float) -> str:
    """Why a slot must take no job, from the verdict at the socket `path`; '' if the host calls its GPUs healthy.

    `family` is that of the pool's GPUs ('': it has none), and `gpus` are the UUIDs of the slot's (none: all of them).
    """
    try:
        verdict = answers.read(_heard(path).decode("utf-8", "replace"), _verdict, _SERVICE)
    except EngineError as error:
        return str(error)
    except OSError as error:
        return f"{_SERVICE} gives no verdict: {path}: {error.strerror or error}"
    return plain(judged(verdict, family=family, gpus=gpus, now=now))


def judged(verdict: HostVerdict, *, family: str, gpus: Sequence[str], now: float) -> str:
    """Why a slot must take no job; the parameters are those of `problem`."""
    if abs(now - verdict.at) > FRESH:
        return f"{_SERVICE} gives a verdict of {minute_of(verdict.at)}, and it is {minute_of(now)}"
    if not verdict.log_read:
        return f"{_SERVICE} cannot read the kernel's log; it needs CAP_SYSLOG"
    if not family:
        return ""
    present = [other for other in verdict.gpus if other.family == family]
    own = [one for one in present if not gpus or not one.units or {*one.units} & {*gpus}]
    units = {unit for one in own for unit in one.units}
    lost = [gpu for gpu in gpus if units and gpu not in units]
    found = [f"{one.name}: {fault}" for one in own for fault in one.faults]
    if lost or not own:
        found.append(f"{_SERVICE} does not see {', '.join(lost or gpus) or f'any GPU ({family})'}")
    if lost or not own or not gpus:
        found += verdict.problems
    return "; ".join(found)[: answers.LONGEST]


def _heard(path: str) -> bytes:
    """All that the service at `path` sends. Raises OSError if that is too much or takes too long."""
    if not hasattr(socket, "AF_UNIX"):
        raise OSError("this system has no such sockets")
    end, heard = time.monotonic() + PATIENCE, b""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE)
        connection.connect(path)
        while (left := end - time.monotonic()) > 0:
            connection.settimeout(left)
            if not (part := connection.recv(2**16)):
                return heard
            heard += part
            if len(heard) > LARGEST:
                raise OSError(f"it sends more than {LARGEST:,} bytes")
    raise TimeoutError("timed out")


def _verdict(value: Mapping[str, Any]) -> HostVerdict:
    if value["form"] != FORM:
        raise ValueError(value["form"])
    return HostVerdict(
        at=expected(int, value["at"]),
        log_read=expected(bool, value["kernel-log"]),
        gpus=tuple(_gpu(one) for one in expected(list, value["gpus"])),
        problems=_texts(value["problems"]),
    )


def _gpu(value: Mapping[str, Any]) -> GpuVerdict:
    family, name = (expected(str, value[key]) for key in ("family", "name"))
    return GpuVerdict(family=family, name=name, **{key: _texts(value[key]) for key in _LISTS})


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(expected(str, one) for one in expected(list, value))
