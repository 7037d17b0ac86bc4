"""Turns what a machine's files and tools say into a `Machine`.

Pure: `this_machine` records the texts, and the functions here parse them. They accept any text, since tools of any age
and drivers in any state write it: what cannot be parsed becomes a problem, or counts as absent.

Mounts come from /proc/PID/mountinfo: which file system holds a folder, and where a trial build ran.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from ci_compiler.hardware import Hardware
from ci_compiler.hardware.families.machines import found_in
from ci_compiler.hardware.machine import ContainerRuntime, Machine, NixInstallation, StorageFolder, isas_of
from ci_compiler.hardware.texts import MISSING, Answer, plain
from ci_compiler.outside import object_of
from ci_compiler.runner.upstream import upstream
from ci_compiler.units import release


class Mount(NamedTuple):
    """A line of mountinfo: where it is mounted, which folder of the file system it shows, device, kind and source."""

    point: str
    root: str
    numbers: str
    kind: str
    source: str

    @property
    def device(self) -> str:
        """Identifies the file system: the disk if there is one, since subvolumes share its space."""
        return self.source if self.source.startswith("/dev/") else self.numbers


def mounts(text: str) -> tuple[Mount, ...]:
    """The mounts of a /proc/PID/mountinfo, in its order (proc(5))."""
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
    """The mount that holds `path` (absolute, without links): the deepest one, and the last of several at one place."""
    holding = [mount for mount in known if _below(path, mount.point)]
    return max(reversed(holding), key=lambda mount: len(mount.point), default=None)


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def sandboxed(trial: str) -> bool:
    """Whether a trial build ran in a sandbox: only there is its build folder a mount of its own.

    `trial`: the path of the build folder as the build saw it, then its mountinfo.
    """
    return _trial(trial)[1] is not None


def build_folder_of(trial: str, host_mounts: Iterable[Mount]) -> str:
    """The build folder of a `trial` as the host sees it; '' if no mount of the host holds it."""
    top, own = _trial(trial)
    if own is None:
        return top
    holding = [mount for mount in host_mounts if mount.numbers == own.numbers and _below(own.root, mount.root)]
    if not holding:
        return ""
    mount = max(holding, key=lambda mount: len(mount.root))
    return str(PurePosixPath(mount.point, own.root[len(mount.root) :].lstrip("/")))


def _trial(text: str) -> tuple[str, Mount | None]:
    """The folder of a trial build as the build saw it, and what was mounted there."""
    first, _, rest = text.partition("\n")
    top = first.strip()
    return top, next((mount for mount in mounts(rest) if mount.point == top), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The texts and numbers of a machine as they were read; None: the program or file does not exist.

    `machine` and `os_name` come from uname. `affinity` is the number of processors that this process may use.
    `cpu_limits` and `memory_limits` are the texts of the control groups that it is in. `trial` is the output of the
    trial build (`this_machine.TRIAL`). `gpus` has what each family recorded.
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
    gpus: Mapping[str, Any] = field(default_factory=dict)
    nix: Answer | None = None
    nix_config: Answer | None = None
    nix_conf: str = ""
    trial: Answer | None = None
    flox: Answer | None = None
    engines: Mapping[str, Answer] | None = None


def machine(recorded: Recorded, hardware: Hardware) -> Machine:
    """The machine that `recorded` describes."""
    system = f"{_ARCHITECTURES.get(recorded.machine.lower(), recorded.machine)}-{recorded.os_name.lower()}"
    model, part, common = processors(recorded.cpuinfo)
    listed = fields(recorded.lscpu)
    flags = common or frozenset(listed.get("Flags", "").split())
    cores = min([recorded.affinity, *filter(None, map(cpu_limit, recorded.cpu_limits))])
    sizes = [memory_total(recorded.meminfo), *filter(None, map(memory_limit, recorded.memory_limits))]
    found = [found_in(family, texts) for family, texts in recorded.gpus.items()]
    return Machine(
        system=system,
        isas=isas_of(hardware, system, flags),
        gpus=tuple(device for one in found for device in one.gpus),
        os=os_title(recorded.os_release),
        kernel=recorded.kernel,
        cpu=plain(model or listed.get("Model name", "") or part),
        virtual=plain(listed.get("Hypervisor vendor", "")),
        flags=flags,
        cores=cores,
        memory=min(filter(None, sizes), default=0),
        folders=recorded.folders,
        nix=nix(recorded, cores),
        flox=_version(recorded.flox),
        engines=tuple(engine(name, answer) for name, answer in (recorded.engines or {}).items()),
        problems=tuple(problem for one in found for problem in one.problems),
        unlisted=tuple(gpu for one in found for gpu in one.unlisted),
    )


_ARCHITECTURES = {"arm64": "aarch64", "amd64": "x86_64"}
"""Architectures under other names than Nix uses, as some kernels report them."""


# Processors and memory.


def processors(text: str) -> tuple[str, str, frozenset[str]]:
    """What /proc/cpuinfo says: the model ('' on ARM), the part that ARM gives instead, the flags of *all* processors.

    A flag that one processor lacks does not count: a process may run on any of them.
    """
    first = fields(text)
    implementer, part = first.get("CPU implementer", ""), first.get("CPU part", "")
    named = f"part {part} of implementer {implementer}" if part and implementer else ""
    flags = [frozenset(found.split()) for found in re.findall(r"^(?:flags|Features)[ \t]*:(.*)$", text, re.MULTILINE)]
    common = frozenset.intersection(*flags) if flags else frozenset()
    return first.get("model name", ""), named, common


def fields(text: str) -> dict[str, str]:
    """The fields of /proc/cpuinfo, or of lscpu's output in English, by name; the first of several with one name."""
    rows = (line.partition(":") for line in reversed(text.splitlines()))
    return {key.strip(): value.strip() for key, colon, value in rows if colon}


def cpu_limit(text: str) -> int:
    """The whole processors that a control group allows (`cpu.max`: microseconds per period); 0 for no limit."""
    match = re.fullmatch(r"\s*([0-9]{1,18})\s+([0-9]{1,18})\s*", text)
    if not match or not int(match[1]) or not int(match[2]):
        return 0
    return max(1, int(match[1]) // int(match[2]))


def memory_total(text: str) -> int:
    """The bytes of memory that /proc/meminfo states; 0 if it states none."""
    match = re.search(r"^MemTotal:\s+([0-9]{1,18}) kB", text, re.MULTILINE)
    return int(match[1]) * 1024 if match else 0


def memory_limit(text: str) -> int:
    """The bytes of memory that a control group allows; 0 for no limit (`max`, or more than any machine has)."""
    match = re.fullmatch(r"\s*([0-9]{1,20})\s*", text)
    limit = int(match[1]) if match else 0
    return limit if limit < 2**60 else 0


def os_title(text: str) -> str:
    """The operating system's display name from /etc/os-release; '' if it has none."""
    match = re.search(r"^PRETTY_NAME=(['\"]?)(.*?)\1\s*$", text, re.MULTILINE)
    return plain(match[2]) if match else ""


# Where builds are made.


def build_folder(recorded: Recorded, host_mounts: Iterable[Mount], temporary: str) -> str:
    """The folder in which Nix builds: where the trial build ran, or else what the settings say.

    `temporary` is TMPDIR or /tmp, where older versions of Nix build.
    """
    if seen := build_folder_of((recorded.trial or MISSING).printed, host_mounts):
        return str(PurePosixPath(seen).parent)
    if configured := settings(recorded).get("build-dir", ""):
        return configured
    newer = release(_version(recorded.nix)) >= release(upstream().builds_since)
    return upstream().builds_folder if newer else temporary


# Nix, Flox, container engines.


def nix(recorded: Recorded, cores: int) -> NixInstallation | None:
    """Nix and its effective settings, with `cores` for `max-jobs = auto` and `cores = 0`; None if there is no Nix."""
    version = _version(recorded.nix)
    if not version and not recorded.nix_conf:
        return None
    values, trial = settings(recorded), recorded.trial or MISSING
    return NixInstallation(
        version=version,
        sandbox=values["sandbox"],
        features=tuple(sorted(values["system-features"].split())),
        max_jobs=_count(values["max-jobs"], cores),
        cores=_count(values["cores"], cores) or cores,
        source="nix.conf" if (recorded.nix_config or MISSING).status else "nix",
        sandboxed=None if trial.status else sandboxed(trial.out),
        problem=first_error(trial.err) if trial.status else "",
    )


def settings(recorded: Recorded) -> dict[str, str]:
    """Nix's settings: as Nix prints them, or else its configuration file over the defaults."""
    if effective := nix_config((recorded.nix_config or MISSING).printed):
        return upstream().nix | effective
    return nix_conf(recorded.nix_conf, upstream().nix)


def nix_config(text: str) -> dict[str, str]:
    """The settings that `nix config show` (or `nix show-config`) printed as JSON or as lines; every value is text."""
    if not text.lstrip().startswith("{"):
        return nix_conf(text, {})
    try:
        data = object_of(text)
    except OSError:
        return {}
    return {name: _text(row["value"]) for name, row in data.items() if isinstance(row, dict) and "value" in row}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "" if value is None else str(value)


def nix_conf(text: str, defaults: Mapping[str, str]) -> dict[str, str]:
    """The settings of a nix.conf over `defaults`: the last value of a name wins, and `extra-` values are appended."""
    values = dict(defaults)
    for line in text.splitlines():
        name, equals, value = (part.strip() for part in line.partition("#")[0].partition("="))
        if equals and name.startswith("extra-"):
            name = name.removeprefix("extra-")
            value = f"{values.get(name, '')} {value}".strip()
        if equals and name:
            values[name] = value
    return values


def first_error(text: str) -> str:
    """The first line of Nix's messages that mentions an error, or else the last line; '' if there is none."""
    lines = list(filter(None, map(plain, text.splitlines())))
    errors = (line for line in lines if re.search(r"\berror\b(?!:$)", line, re.IGNORECASE))
    return next(errors, lines[-1] if lines else "")


def engine(name: str, answer: Answer) -> ContainerRuntime:
    """A container engine, from the answer to a command that prints its version and needs its daemon or storage."""
    version = ".".join(map(str, release(answer.out)))
    works = answer.status == 0 and version
    problem = "" if works else answer.said or f"exited with {answer.status}"
    return ContainerRuntime(name=name, version=version, problem=problem)


def _count(text: str, automatic: int) -> int:
    if text.strip() == "auto":
        return automatic
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else 0


def _version(answer: Answer | None) -> str:
    """The version that a program's `--version` prints; '' if there is no such program, or it fails."""
    return ".".join(map(str, release((answer or MISSING).printed)))
