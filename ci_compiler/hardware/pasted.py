"""A machine from what its tools print: lscpu or /proc/cpuinfo, and what lists its GPUs.

The forms of the output are in `tools.json`, here and in the folder of a family; the finder page reads them as well.
`runner.detect` asks the tools of its own machine in a stricter way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from ci_compiler.hardware import Hardware, read_table
from ci_compiler.hardware.families import DEFAULT, facts, family_of
from ci_compiler.hardware.machine import GpuDevice, Machine, isas_of
from ci_compiler.hardware.products import UNKNOWN_CPU, cpu, cpu_of, device
from ci_compiler.record import record


@record
class Pasted:
    """What a text names: GPUs, the version of the driver, a CPU by its model or its flags; '' or () if it does not.

    `problem` is the reason why the text may not be all that there is.
    """

    gpus: tuple[str, ...] = ()
    driver: str = ""
    cpu: str = ""
    flags: frozenset[str] = frozenset()
    problem: str = ""


_LONGEST_LINE = 8_000
"""The most characters of a line that count; the flags of a CPU have 3,000. The forms need more than linear time."""


def read(text: str) -> Pasted:
    """What `text`, the output of tools, names."""
    forms, tool = tools(), family_of(DEFAULT).tool
    lines = [_plain(line[:_LONGEST_LINE]) for line in re.split(r"\r?\n", text)]
    gpus = tuple(dict.fromkeys(name for line in lines for name in _gpus(line)))
    stated = re.search(forms["driver"], text)
    flags = _first(forms["flags"], lines)
    problem = ""
    if any(name.endswith("...") for name in gpus):
        problem = f"a GPU's name is cut short; `{tool} -L` prints it whole"
    elif not gpus and re.search(forms["no-driver"], text):
        problem = f"{tool} failed there, so no GPU is named; give --gpu"
    elif not (gpus or flags or _first(forms["cpu"], lines)):
        problem = f"no GPU or CPU is named in it; paste what lscpu and {tool} print"
    return Pasted(
        gpus=gpus,
        driver=stated[1] if stated else next(_driver_column(lines), ""),
        cpu=_first(forms["cpu"], lines),
        flags=frozenset(re.findall(r"[a-z0-9_]+", flags)),
        problem=problem,
    )


def machine(hardware: Hardware, pasted: Pasted) -> Machine:
    """The machine that was `pasted`; without a system if its CPU is unknown.

    Flags go before the CPU's name: a guest has those that its host lets through. Raises UnknownHardwareError for a name
    that is not known, ValueError for a GPU of another vendor.
    """
    gpus = tuple(one for name in pasted.gpus if (one := device(hardware, name, pasted.driver)))
    if pasted.flags:
        system = "aarch64-linux" if tools()["arm-flag"] in pasted.flags else "x86_64-linux"
        isas = isas_of(hardware, system, pasted.flags)
        return Machine(system=system, isas=isas, gpus=gpus, cpu=pasted.cpu or "this CPU", flags=pasted.flags)
    return beside(hardware, gpus, pasted.cpu)


def beside(hardware: Hardware, gpus: tuple[GpuDevice, ...], name: str) -> Machine:
    """The machine with `gpus` and the CPU called `name` ('' or `unknown`: the CPU of the GPU's board).

    Raises UnknownHardwareError, ValueError.
    """
    known = cpu(hardware, name) if name not in {"", UNKNOWN_CPU} else None
    known = known or next(filter(None, (cpu_of(hardware, one) for one in gpus)), None)
    if known is None:
        return Machine(system="", gpus=gpus, cpu=UNKNOWN_CPU)
    return Machine(system=known.system, isas=known.isas, gpus=gpus, cpu=known.name)


@cache
def tools() -> Mapping[str, Any]:
    """The forms of the tools' output, as regular expressions that Python and JavaScript share."""
    return {**facts(DEFAULT, "tools"), **read_table("tools.json")}


def _plain(line: str) -> str:
    """`line` without control characters and runs of blanks."""
    return " ".join("".join(char if char.isprintable() else " " for char in line).split())


def _gpus(line: str) -> Iterator[str]:
    found = next(filter(None, (re.search(form, line, re.ASCII) for form in tools()["gpu"])), None)
    if found and not re.search(tools()["not-gpu"], found[1]):
        yield found[1]


def _driver_column(lines: Iterable[str]) -> Iterator[str]:
    """The cells that look like a driver's version in the output of a query for its columns."""
    cells = (cell.strip() for line in lines if "," in line and any(_gpus(line)) for cell in line.split(","))
    return (cell for cell in cells if re.search(tools()["driver-column"], cell, re.ASCII))


def _first(form: str, lines: Iterable[str]) -> str:
    found = next(filter(None, (re.search(form, line, re.ASCII) for line in lines)), None)
    return found[1] if found else ""
