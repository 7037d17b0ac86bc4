"""What a machine's own files and tools say, made into a `Machine`.

Pure: `host` records the texts, the functions here read them. They take any text, since tools of all ages and drivers in
any state wrote it: what cannot be read is told as a problem, or is not there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from ci_compiler.hardware import Hardware, Version
from ci_compiler.hardware.machine import ContainerRuntime, GpuDevice, Machine, NixInstallation, StorageFolder, isas_of
from ci_compiler.runner.upstream import release, upstream

GPU_QUERY = ("index", "name", "compute_cap", "memory.total", "driver_version", "mig.mode.current")
"""What nvidia-smi is asked for each GPU, in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a program said: its exit status and both of its outputs."""

    status: int
    out: str = ""
    err: str = ""

    @property
    def said(self) -> str:
        """The first line that it said, on standard error or else on standard output; '' for nothing."""
        lines = (plain(line) for text in (self.err, self.out) for line in text.splitlines())
        return next(filter(None, lines), "")


def plain(line: str) -> str:
    """A line as people may see it: without a terminal's colours, control characters and runs of blanks."""
    colourless = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line)
    return " ".join("".join(char if char.isprintable() else " " for char in colourless).split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The texts and numbers of a machine as they were read. None: there is no such program or file.

    `machine` and `os_name` are uname's. `affinity` are the processors that this process may use. `cpu_limits` and
    `memory_limits` are the texts of the control groups above it. `display_controllers` are the addresses of NVIDIA's
    GPUs on the PCI bus. `trial` is what a build said of the place it was made in (`host.TRIAL`).
    """

    machine: str
    os_name: str = "Linux"
    kernel: str = ""
    os_release: str = ""
    cpuinfo: str = ""
    lscpu: str = ""
    affinity: int = 1
    cpu_limits: tuple[str, ...] = ()
    meminfo: str = ""
    memory_limits: tuple[str, ...] = ()
    folders: tuple[StorageFolder, ...] = ()
    nvidia_smi: Answer | None = None
    display_controllers: tuple[str, ...] = ()
    nix: Answer | None = None
    nix_config: Answer | None = None
    nix_conf: str = ""
    trial: Answer | None = None
    flox: Answer | None = None
    engines: Mapping[str, Answer] | None = None


def machine(recorded: Recorded, hardware: Hardware) -> Machine:
    """The machine that `recorded` tells of."""
    system = f"{_ARCHITECTURES.get(recorded.machine, recorded.machine)}-{recorded.os_name.lower()}"
    cpu, listed = processors(recorded.cpuinfo), lscpu(recorded.lscpu)
    flags = cpu.flags or frozenset(listed.get("Flags", "").split())
    cores = min([recorded.affinity, *filter(None, map(cpu_limit, recorded.cpu_limits))])
    sizes = [memory_total(recorded.meminfo), *filter(None, map(memory_limit, recorded.memory_limits))]
    devices, problems = gpus(recorded.nvidia_smi, recorded.display_controllers)
    return Machine(
        system=system,
        isas=isas_of(hardware, system, flags),
        gpus=devices,
        os=os_title(recorded.os_release),
        kernel=recorded.kernel,
        cpu=plain(cpu.model or listed.get("Model name", "") or cpu.part),
        virtual=plain(listed.get("Hypervisor vendor", "")),
        flags=flags,
        cores=cores,
        memory=min(filter(None, sizes), default=0),
        folders=recorded.folders,
        nix=nix(recorded, cores),
        flox=_version(recorded.flox),
        engines=tuple(engine(name, answer) for name, answer in (recorded.engines or {}).items()),
        problems=problems,
    )


_ARCHITECTURES = {"arm64": "aarch64", "amd64": "x86_64"}
"""What kernels other than Linux call the architectures of Nix' systems."""


# Processors and memory.


@dataclass(frozen=True, slots=True, kw_only=True)
class Processors:
    """The model that /proc/cpuinfo names ('' on ARM), `part` which ARM gives in its place, flags that *all* have."""

    model: str
    part: str
    flags: frozenset[str]


def processors(text: str) -> Processors:
    """What /proc/cpuinfo says. A flag that one processor of several lacks is none: a process may run on any."""
    first: dict[str, str] = {}
    flags: frozenset[str] | None = None
    for line in text.splitlines():
        key, _, value = (part.strip() for part in line.partition(":"))
        first.setdefault(key, value)
        if key in {"flags", "Features"}:
            own = frozenset(value.split())
            flags = own if flags is None else flags & own
    implementer, part = first.get("CPU implementer", ""), first.get("CPU part", "")
    named = f"part {part} of implementer {implementer}" if part and implementer else ""
    return Processors(model=first.get("model name", ""), part=named, flags=flags or frozenset())


def lscpu(text: str) -> dict[str, str]:
    """The fields of lscpu's output by their names in English, each the first of its name."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            fields.setdefault(key.strip(), value.strip())
    return fields


def cpu_limit(text: str) -> int:
    """The whole processors that a control group allows (`cpu.max`: microseconds in a period), 0 for no limit."""
    found = re.fullmatch(r"\s*([0-9]{1,18})\s+([0-9]{1,18})\s*", text)
    if not found or not int(found[1]) or not int(found[2]):
        return 0
    return max(1, int(found[1]) // int(found[2]))


def memory_total(text: str) -> int:
    """The bytes of memory that /proc/meminfo tells, 0 where it does not."""
    found = re.search(r"^MemTotal:\s+([0-9]{1,18}) kB", text, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def memory_limit(text: str) -> int:
    """The bytes of memory that a control group allows, 0 for no limit (`max`, and a number past any machine)."""
    found = re.fullmatch(r"\s*([0-9]{1,20})\s*", text)
    limit = int(found[1]) if found else 0
    return limit if limit < 2**60 else 0


def os_title(text: str) -> str:
    """The system's name for people out of /etc/os-release; '' for none."""
    found = re.search(r"^PRETTY_NAME=(['\"]?)(.*?)\1\s*$", text, re.MULTILINE)
    return plain(found[2]) if found else ""


# GPUs.


def gpus(answer: Answer | None, controllers: Iterable[str] = ()) -> tuple[tuple[GpuDevice, ...], tuple[str, ...]]:
    """The GPUs that nvidia-smi's `answer` to `GPU_QUERY` proves, and what is wrong with the rest.

    Its exit status proves nothing, since it is 0 with a crashed driver as well: a GPU is what has a name and a compute
    capability. `controllers` are the GPUs on the bus, which have no working driver where none answers.
    """
    found: list[GpuDevice] = []
    problems: list[str] = []
    for row in answer.out.splitlines() if answer else ():
        cells = [plain(cell) for cell in row.split(",")]
        device = _device(cells) if len(cells) >= len(GPU_QUERY) else None
        if device is not None:
            found.append(device)
        elif cells[:1] and cells[0].isdecimal():
            problems.append(
                f"nvidia-smi knows GPU {cells[0]} but not its name and compute capability: {', '.join(cells)}"
            )
        elif any(cells):
            problems.append(f"nvidia-smi: {', '.join(cells)}")
    if answer is not None and not found and not problems:
        problems.append(f"nvidia-smi: {answer.said or f'ended with {answer.status} and named no GPU'}")
    on_bus = list(controllers)
    if on_bus and not found:
        driver = "nvidia-smi is not there" if answer is None else "no driver answers"
        problems.append(f"GPUs of NVIDIA are on the PCI bus ({', '.join(on_bus)}), but {driver}")
    return tuple(found), tuple(problems)


def _device(cells: list[str]) -> GpuDevice | None:
    """The GPU of a row, whose name may hold commas; None without a name and a compute capability."""
    index, (capability, memory, driver, mig) = cells[0], cells[-4:]
    name = ", ".join(cells[1:-4])
    known = re.fullmatch(r"([0-9]{1,3})\.([0-9]{1,2})", capability)
    if not _told(name) or not known or not re.fullmatch(r"[0-9]{1,4}", index):
        return None
    return GpuDevice(
        index=int(index),
        name=name,
        capability=Version(int(known[1]), int(known[2])),
        memory=int(memory) * 2**20 if re.fullmatch(r"[0-9]{1,9}", memory) else 0,
        driver=driver if _told(driver) else "",
        mig=mig == "Enabled",
    )


def _told(cell: str) -> bool:
    """Whether a cell holds a value, and not `[N/A]`, `[Not Supported]`, `[Unknown Error]`, `ERR!` and the like."""
    return bool(cell) and not cell.startswith("[") and cell != "N/A" and "ERR!" not in cell


# Mounts, and the place where builds are made.


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A mount: its place, the folder of its file system that it shows, the device's numbers, the kind and source."""

    point: str
    root: str
    numbers: str
    kind: str
    source: str

    @property
    def device(self) -> str:
        """What tells its file system apart: the disk where there is one, since subvolumes share its space."""
        return self.source if self.source.startswith("/dev/") else self.numbers


def mounts(text: str) -> tuple[Mount, ...]:
    """The mounts of a /proc/PID/mountinfo, in its order (man 5 proc)."""
    found = []
    for line in text.splitlines():
        words, _, rest = line.partition(" - ")
        left, right = words.split(), rest.split()
        if len(left) >= 5 and len(right) >= 2:
            root, point, source = (_unescaped(word) for word in (left[3], left[4], right[1]))
            found.append(Mount(point=point, root=root, numbers=left[2], kind=right[0], source=source))
    return tuple(found)


def _unescaped(word: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), word)


def mount_of(known: Iterable[Mount], path: str) -> Mount | None:
    """The mount that `path` (absolute, without links) lies in: the deepest, of several at one place the last."""
    holding = [mount for mount in known if _below(path, mount.point)]
    return max(reversed(holding), key=lambda mount: len(mount.point), default=None)


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def sandboxed(trial: str) -> bool:
    """Whether a trial build ran in a sandbox: there, and only there, its build folder is a mount of its own."""
    top, inside = _trial(trial)
    return any(mount.point == top for mount in inside)


def build_folder(recorded: Recorded, host_mounts: Iterable[Mount], temporary: str) -> str:
    """The folder that builds are made in: as the trial build saw it, else as the settings say.

    `temporary` is TMPDIR or /tmp, where older versions of Nix build.
    """
    if recorded.trial is not None and recorded.trial.status == 0:
        top, inside = _trial(recorded.trial.out)
        own = next((mount for mount in inside if mount.point == top), None)
        seen = top if own is None else _outside(own, host_mounts)
        if seen:
            return str(PurePosixPath(seen).parent)
    configured = settings(recorded).get("build-dir", "")
    if configured:
        return configured
    newer = release(_version(recorded.nix)) >= release(upstream().builds_since)
    return upstream().builds_folder if newer else temporary


def _trial(text: str) -> tuple[str, tuple[Mount, ...]]:
    """A trial build's folder as it saw it, and the mounts around it."""
    first, _, rest = text.partition("\n")
    return first.strip(), mounts(rest)


def _outside(own: Mount, host_mounts: Iterable[Mount]) -> str:
    """Where the folder that a sandbox mounted lies outside of it; '' where no mount of the host holds it."""
    holding = [mount for mount in host_mounts if mount.numbers == own.numbers and _below(own.root, mount.root)]
    if not holding:
        return ""
    mount = max(holding, key=lambda mount: len(mount.root))
    return str(PurePosixPath(mount.point, own.root[len(mount.root) :].lstrip("/")))


# Nix, Flox, container engines.


def nix(recorded: Recorded, cores: int) -> NixInstallation | None:
    """Nix and its effective settings, `max-jobs = auto` and `cores = 0` as `cores`; None where there is no Nix."""
    version = _version(recorded.nix)
    if not version and not recorded.nix_conf:
        return None
    found = settings(recorded)
    trial = recorded.trial
    problem = "" if trial is None or trial.status == 0 else first_error(trial.err)
    return NixInstallation(
        version=version,
        sandbox=found["sandbox"],
        features=tuple(sorted(found["system-features"].split())),
        max_jobs=_count(found["max-jobs"], cores),
        cores=_count(found["cores"], cores) or cores,
        source="nix" if recorded.nix_config and recorded.nix_config.status == 0 else "nix.conf",
        sandboxed=sandboxed(trial.out) if trial is not None and trial.status == 0 else None,
        problem=problem,
    )


def settings(recorded: Recorded) -> dict[str, str]:
    """Nix' settings: those that it tells itself, else those of its configuration file over the defaults."""
    told = recorded.nix_config
    if told is not None and told.status == 0 and (effective := nix_config(told.out)):
        return upstream().nix | effective
    return nix_conf(recorded.nix_conf, upstream().nix)


def nix_config(text: str) -> dict[str, str]:
    """The settings that `nix config show` (or `nix show-config`) printed, as JSON or as lines, all as text."""
    if not text.lstrip().startswith("{"):
        return nix_conf(text, {})
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    rows = data.items() if isinstance(data, dict) else ()
    return {name: _text(row["value"]) for name, row in rows if isinstance(row, dict) and "value" in row}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "" if value is None else str(value)


def nix_conf(text: str, defaults: Mapping[str, str]) -> dict[str, str]:
    """The settings of a nix.conf over `defaults`: the last of a name counts, `extra-` ones add to it."""
    found = dict(defaults)
    for line in text.splitlines():
        name, equals, value = (part.strip() for part in line.partition("#")[0].partition("="))
        if equals and name.startswith("extra-"):
            name = name.removeprefix("extra-")
            value = f"{found.get(name, '')} {value}".strip()
        if equals and name:
            found[name] = value
    return found


def first_error(text: str) -> str:
    """The first line of Nix' messages that speaks of an error; the last line where none does, '' for nothing."""
    lines = list(filter(None, map(plain, text.splitlines())))
    errors = (line for line in lines if re.search(r"\berror\b(?!:$)", line, re.IGNORECASE))
    return next(errors, lines[-1] if lines else "")


def engine(name: str, answer: Answer) -> ContainerRuntime:
    """A container engine by the answer to a command that needs its daemon, or its storage, to give its version."""
    version = ".".join(map(str, release(answer.out)))
    if answer.status == 0 and version:
        return ContainerRuntime(name=name, version=version)
    return ContainerRuntime(name=name, version=version, problem=answer.said or f"ended with {answer.status}")


def _count(text: str, automatic: int) -> int:
    if text.strip() == "auto":
        return automatic
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else 0


def _version(answer: Answer | None) -> str:
    """The version that a program's `--version` names; '' where there is no such program, or it fails."""
    return ".".join(map(str, release(answer.out))) if answer is not None and answer.status == 0 else ""
