"""A machine from what people paste: output of tools, labels of a cluster's node, or words.

The forms of the output are in `tools.json`, here and in the folders of families; the finder page reads them as well.
`runner.detect` asks the tools of its own machine in a stricter way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from ci_compiler.hardware import Hardware, UnknownHardwareError, read_table
from ci_compiler.hardware.families import DEFAULT, facts, family_of, files_of
from ci_compiler.hardware.machine import GpuDevice, Machine, isas_of
from ci_compiler.hardware.products import (
    UNKNOWN_CPU,
    ForeignGpuError,
    cpu,
    cpu_beside,
    cpu_of,
    device,
    is_unstated,
    undescribed,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pasted:
    """What a text names: GPUs, the version of the driver, a CPU by its model or its flags; '' or () if it does not.

    `none`: it says that there is no GPU. `arm`: it says that its CPU is an ARM one. `problem` is the reason why the
    text may not be all that there is.
    """

    gpus: tuple[str, ...] = ()
    driver: str = ""
    cpu: str = ""
    flags: frozenset[str] = frozenset()
    none: bool = False
    arm: bool = False
    problem: str = ""


_LONGEST_LINE = 8_000
"""The most characters of a line that count; the flags of a CPU have 3,000. The forms need more than linear time."""


def read(hardware: Hardware, text: str) -> Pasted:
    """What `text` names: words in few lines, the output of tools, or words in many lines."""
    words = [line for line in (_plain(line[:_LONGEST_LINE]) for line in re.split(r"\r?\n", text)) if line]
    said = _words(hardware, words) if len(words) <= tools()["few-lines"] else None
    found = said or _printed(hardware, text, words)
    others = undescribed(hardware)
    if others and not found.gpus and any(re.search(tools()["other-gpu"], line, re.IGNORECASE) for line in words):
        known = " or ".join(["none", *others])
        return replace(found, none=False, problem=f"it names a GPU of which nothing is known here; give --gpu: {known}")
    return found


def _printed(hardware: Hardware, text: str, lines: list[str]) -> Pasted:
    """What `text`, the output of tools in `lines`, names."""
    forms, tool = tools(), family_of(DEFAULT).tool
    gpus = tuple(dict.fromkeys(name for line in lines for name in _gpus(hardware, line)))
    stated = re.search(forms["driver"], text)
    flags, model = _first(forms["flags"], lines), _first(forms["cpu"], lines)
    hosts = {name for line in lines for groups in re.findall(forms["host"], line, re.ASCII) for name in groups if name}
    none = any(re.search(forms["no-gpu"], line, re.ASCII) for line in lines)
    problem = ""
    if any(name.endswith("...") for name in gpus):
        problem = f"a GPU's name is cut short; `{tool} -L` prints it whole"
    elif len(hosts) > 1:
        problem = "several machines are named in it; paste one of them"
    elif not gpus and re.search(forms["no-driver"], text):
        problem = f"{tool} failed there, so no GPU is named; give --gpu"
    elif not (gpus or flags or model or none):
        problem = f"no GPU or CPU is named in it; paste what lscpu and {tool} print"
        if said := _words(hardware, lines):
            return said
    return Pasted(
        none=not gpus and none,
        gpus=gpus,
        driver=stated[1] if stated else next(_driver_column(hardware, lines), ""),
        cpu=model,
        flags=frozenset(re.findall(r"[a-z0-9_]+", flags)),
        arm=bool(re.search(forms["arm"], text, re.ASCII)),
        problem=problem,
    )


# Words.


def _words(hardware: Hardware, lines: Iterable[str]) -> Pasted | None:
    """What `lines` name in words (`2x RTX 3090 + Ryzen 9 7950X`); None unless all of it is understood."""
    parts = [part for line in lines for part in _parts(hardware, line)]
    known = [part for part in parts if part]
    if not known or len(known) < len(parts):
        return None
    gpus = tuple(dict.fromkeys(name for part in known for name in part.gpus))
    none = not gpus and any(part.none for part in known)
    return Pasted(gpus=gpus, none=none, cpu=next((part.cpu for part in known if part.cpu), ""))


def _parts(hardware: Hardware, line: str) -> list[Pasted | None]:
    """The names in `line`: the whole of it, or several."""
    forms = tools()
    split = [part for part in re.split(forms["between"], line) if not re.search(forms["plain"], part.lower())]
    bare = [re.sub(forms["label"], "", part, flags=re.IGNORECASE | re.ASCII) for part in split]
    among = [part for part in bare if not re.search(forms["plain"], part.lower())]
    if not among and not re.search(forms["integrated"], line.lower(), re.ASCII):
        return []
    parts = [_part(hardware, part) for part in among]
    return parts if parts and None not in parts and among != [line] else [_part(hardware, line)]


def _part(hardware: Hardware, text: str) -> Pasted | None:
    """What `text` is the name of: a GPU, none or a CPU; None if it is no name."""
    if re.search(tools()["integrated"], text.lower(), re.ASCII):
        return Pasted(none=True)
    own = text if _is_cpu(hardware, text) else ""
    try:
        gpu = device(hardware, text)
        return Pasted(gpus=(text,), cpu="" if cpu_of(hardware, gpu) else own) if gpu else Pasted(none=True)
    except (ForeignGpuError, UnknownHardwareError) as error:
        foreign = (
            Pasted(gpus=(text,)) if isinstance(error, ForeignGpuError) and not any(_gpus(hardware, text)) else None
        )
    return Pasted(cpu=own) if own else foreign


def _is_cpu(hardware: Hardware, text: str) -> bool:
    """Whether `text` is in the place of a CPU's name; a chip's name may be that of its GPU as well."""
    try:
        return is_unstated(text) or bool(cpu(hardware, text))
    except (UnknownHardwareError, ValueError):
        return False


# Machines.


def machine(hardware: Hardware, pasted: Pasted) -> Machine:
    """The machine that was `pasted`; without a system if its CPU is unknown.

    Flags go before the CPU's name: a guest has those that its host lets through. GPUs of other vendors count only
    beside none that is known. Raises UnknownHardwareError for a name that is not known, ForeignGpuError.
    """
    gpus: list[GpuDevice] = []
    foreign: list[ForeignGpuError] = []
    for name in pasted.gpus:
        try:
            gpus += filter(None, [device(hardware, name, pasted.driver)])
        except ForeignGpuError as error:
            foreign.append(error)
    if foreign and not gpus:
        raise foreign[0]
    if pasted.flags:
        system = "aarch64-linux" if tools()["arm-flag"] in pasted.flags else "x86_64-linux"
        isas = isas_of(hardware, system, pasted.flags)
        return Machine(system=system, isas=isas, gpus=tuple(gpus), cpu=pasted.cpu or "this CPU", flags=pasted.flags)
    known = cpu_beside(hardware, pasted.cpu, gpus)
    if known is None and pasted.arm:
        known = cpu(hardware, hardware.systems["aarch64-linux"].undecided)
    if known is None:
        return Machine(system="", gpus=tuple(gpus), cpu=UNKNOWN_CPU)
    return Machine(system=known.system, isas=known.isas, gpus=tuple(gpus), cpu=known.name)


@cache
def tools() -> Mapping[str, Any]:
    """The forms of the tools' output, as regular expressions that Python and JavaScript share."""
    gpu = [form for family in files_of("tools.json") for form in facts(family, "tools")["gpu"]]
    own = read_table("tools.json")
    some = [form for family in files_of("tools.json") if (form := facts(family, "tools").get("integrated"))]
    more = {"gpu": gpu, "integrated": "|".join([own["integrated"], *some]), "other-gpu": facts(".", "others")["named"]}
    return {**facts(DEFAULT, "tools"), **own, **more}


def _plain(line: str) -> str:
    """`line` without control characters and runs of blanks."""
    return " ".join("".join(char if char.isprintable() else " " for char in line).split())


@cache
def forms(hardware: Hardware) -> list[str]:
    """The forms of lines that name a GPU: first those that are a family's own, where the tables have a GPU of it."""
    named = {gpu.family for gpu in hardware.gpus.values()}
    tables = (facts(family, "tools") for family in files_of("tools.json") if family in named)
    return [*(form for table in tables for form in table.get("own", ())), *tools()["gpu"]]


def _gpus(hardware: Hardware, line: str) -> Iterator[str]:
    match = next(filter(None, (re.search(form, line, re.ASCII) for form in forms(hardware))), None)
    if match and not re.search(tools()["not-gpu"], match[1]):
        yield match[1]


def _driver_column(hardware: Hardware, lines: Iterable[str]) -> Iterator[str]:
    """The cells that look like a driver's version in the output of a query for its columns."""
    cells = (cell.strip() for line in lines if "," in line and any(_gpus(hardware, line)) for cell in line.split(","))
    return (cell for cell in cells if re.search(tools()["driver-column"], cell, re.ASCII))


def _first(form: str, lines: Iterable[str]) -> str:
    match = next(filter(None, (re.search(form, line, re.ASCII) for line in lines)), None)
    return match[1] if match else ""
