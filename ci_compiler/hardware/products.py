"""Product names of GPUs and CPUs, resolved to what the tables know: `i9-12900K` runs avx2.

Case, blanks, hyphens, vendors, memory sizes and form factors are ignored. A name that nothing matches raises an error
with the nearest known names. The names are in `names.json` of a family and in `cpus.json`, with their sources, and
products in the hardware tables, to which a spec may add; the finder page reads the same tables (`as_data`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache
from typing import Any

from ci_compiler.hardware import Gpu, Hardware, UnknownHardwareError, Version, read_table
from ci_compiler.hardware.families import DEFAULT, FAMILIES, facts, family_of, files_of, products_of
from ci_compiler.hardware.machine import GpuDevice, Machine

NO_GPU = ("none", "no", "cpu")
"""Words for "no GPU"."""

UNKNOWN_CPU = "unknown"
"""The word for a CPU that is not known; a machine with it has no system."""


class ForeignGpuError(ValueError):
    """A GPU of a vendor whose GPUs are in no table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cpu:
    """A CPU, or a family of CPUs: its Nix system and all instruction sets that it runs, in the tables' order.

    `note` corrects a common mistake about it. `gpus` are the products that come with this CPU only.
    """

    name: str
    system: str
    isas: tuple[str, ...]
    note: str = ""
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Names:
    """A table of names: patterns to drop from a text, exact names by their key, patterns of keys in order.

    `keys` are those of the names that are `shown`, computed when the first text is not known.
    """

    noise: tuple[re.Pattern[str], ...]
    exact: Mapping[str, str]
    patterns: tuple[tuple[re.Pattern[str], str], ...]
    shown: tuple[str, ...]
    keys: dict[str, str] = field(default_factory=dict)

    def key(self, text: str) -> str:
        return _key(self.noise, text)

    def find(self, text: str) -> str | None:
        """The table's name for what `text` names; None if it knows no such thing."""
        key = self.key(text)
        if key in self.exact:
            return self.exact[key]
        return next((name for pattern, name in self.patterns if pattern.search(key)), None)

    def nearest(self, text: str, otherwise: Iterable[str]) -> list[str]:
        """The names whose keys are nearest to that of `text`; `otherwise` if none is near."""
        if not self.keys:
            self.keys.update((self.key(name), name) for name in self.shown)
        near = get_close_matches(self.key(text), self.keys, n=3, cutoff=0.75)
        return [self.keys[key] for key in near] or list(otherwise)

    def as_data(self) -> dict[str, Any]:
        """The table as the finder page reads it."""
        rows: dict[str, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
        for pattern, name in self.patterns:
            rows[name][1].append(pattern.pattern)
        for key, name in self.exact.items():
            rows[name][0].append(key)
        return {
            "noise": [pattern.pattern for pattern in self.noise],
            "rows": [[name, *row] for name, row in rows.items()],
            "shown": list(self.shown),
        }


def _key(noise: Iterable[re.Pattern[str]], text: str) -> str:
    """`text` without noise, case, blanks and punctuation: the key for searching the tables."""
    plain = text.lower()
    for pattern in noise:
        plain = pattern.sub(" ", plain)
    return re.sub(r"[^a-z0-9+]", "", plain)


def device(hardware: Hardware, text: str, driver: str = "") -> GpuDevice | None:
    """The GPU that `text` names, with the version of its `driver`; None if `text` says that there is no GPU.

    Raises UnknownHardwareError for an unknown name, ForeignGpuError for a GPU of another vendor.
    """
    wanted = text.strip()
    if wanted.lower() in NO_GPU:
        return None
    named = _named(hardware)
    target, family = _target(hardware, wanted)
    if wanted.lower() in named:
        target = named[wanted.lower()]
        family = hardware.gpus[target].family
    if target:
        return GpuDevice(index=0, name=wanted, driver=driver, target=target, family=family)
    names = _gpu_names(hardware)
    found = names.find(wanted)
    if found is None and (form := re.fullmatch(facts(DEFAULT, "names")["architecture"], wanted.lower())):
        written = ".".join(form.groups())
        found = written if written in {str(gpu.capability) for gpu in hardware.gpus.values()} else None
    if found is None:
        if any(pattern.search(names.key(wanted)) for pattern in _foreign()):
            vendor = family_of(DEFAULT).vendor
            others = f"; of others, write {', '.join(dict.fromkeys(named.values()))}" if named else ""
            message = f"{wanted!r} is not one of {vendor}'s; a machine without their GPUs has the GPU none{others}"
            raise ForeignGpuError(message)
        raise UnknownHardwareError("GPU", wanted, names.nearest(wanted, hardware.gpus))
    return GpuDevice(index=0, name=wanted, capability=Version.parse(found), driver=driver)


@cache
def _named(hardware: Hardware) -> Mapping[str, str]:
    """The rows without compute capabilities, by their names and by the aliases of their families."""
    rows = [name for name, gpu in hardware.gpus.items() if not any(gpu.capability)]
    aliases = ((alias, one.name) for one in hardware.families.values() for alias in one.aliases if one.name in rows)
    return {**dict(aliases), **{name: name for name in rows}}


def undescribed(hardware: Hardware) -> list[str]:
    """The rows of families without facts, of whose GPUs nothing is known but that a fleet builds for them."""
    return [name for name, gpu in hardware.gpus.items() if gpu.family not in FAMILIES]


def _target(hardware: Hardware, text: str) -> tuple[str, str]:
    """The target of the GPU that `text` names, and its family, which has no compute capabilities; '' if it names none.

    Only families of which the tables have a GPU count, and those that list the products of their targets.
    """
    for name in _listing(hardware):
        typed = text.lower() if re.fullmatch(_typed(name), text.lower(), re.ASCII) else ""
        if found := typed or _products(name).find(text):
            return found, name
    return "", ""


def _listing(hardware: Hardware) -> list[str]:
    """The families without compute capabilities of which the tables have a GPU, and which list products."""
    families = dict.fromkeys(gpu.family for gpu in hardware.gpus.values() if not any(gpu.capability))
    return [name for name in families if products_of(name)]


def _typed(family: str) -> str:
    """The pattern of what may be typed as a target of `family`: its name, and its targets."""
    return f"{family}|{family_of(family).targets}"


def gpu_of(hardware: Hardware, device: GpuDevice) -> Gpu | None:
    """The row of the tables for `device`; one without facts for a target of a family of which they have another."""
    row = {gpu.family: gpu for gpu in hardware.gpus.values() if products_of(gpu.family)}.get(device.family)
    if (device.target or device.sm) in hardware.gpus or not device.target or not row:
        return hardware.gpus.get(device.sm)
    architecture = f"{family_of(row.family).title} {device.target}"
    return replace(row, name=device.target, architecture=architecture)


@cache
def known_gpus(hardware: Hardware) -> Mapping[str, Gpu]:
    """The rows of the tables, and before them one for each target of which a family lists products.

    Of GPUs without compute capabilities, the integrated ones come first, and each family's in the order of its table.
    """
    listed = [(target, name) for name in _listing(hardware) for target in (name, *products_of(name))]
    listed.sort(key=lambda row: row[0] not in facts(row[1], "names").get("integrated", ()))
    devices = (GpuDevice(index=0, name=one, target=one, family=name) for one, name in listed)
    return {**{device.target: row for device in devices if (row := gpu_of(hardware, device))}, **hardware.gpus}


def strongest(hardware: Hardware, gpus: Iterable[GpuDevice]) -> GpuDevice | None:
    """The GPU that counts of several: by its compute capability, then its place in `known_gpus`; None of none."""
    known = {name: place for place, name in enumerate(known_gpus(hardware))}
    return max(gpus, key=lambda gpu: (gpu.capability, known.get(gpu.sm, -1), -gpu.index), default=None)


def cpu(hardware: Hardware, text: str) -> Cpu:
    """The CPU that `text` names: a model, a family, or its instruction sets (`avx512bf16,avx512vnni`).

    Raises UnknownHardwareError for an unknown name, ValueError for instruction sets of two systems.
    """
    wanted = text.strip()
    if found := _cpu_names().find(wanted):
        return cpus(hardware)[found]
    words = re.split(r"[,\s]+", wanted.lower())
    if any(word in hardware.isas or word in hardware.aliases for word in words):
        systems = {hardware.isa(word).system for word in words}
        if len(systems) > 1:
            message = f"{wanted!r} holds instruction sets of {' and '.join(sorted(systems))}; a CPU runs one of them"
            raise ValueError(message)
        system = systems.pop()
        return Cpu(name=wanted, system=system, isas=_in_order(hardware, words, system))
    raise UnknownHardwareError("CPU", wanted, _cpu_names().nearest(wanted, hardware.isas))


def is_unstated(text: str) -> bool:
    """Whether `text` names no model of a CPU: empty, `unknown`, or what a hypervisor shows in its place."""
    key = _cpu_names().key(text)
    return text.strip() in {"", "-", UNKNOWN_CPU} or any(re.search(one, key) for one in _cpu_table()["unstated"])


def cpu_of(hardware: Hardware, gpu: GpuDevice) -> Cpu | None:
    """The only CPU that `gpu` comes with; None if it comes with several."""
    names, known = _gpu_names(hardware), hardware.gpus.get(gpu.sm)
    for one in cpus(hardware).values():
        own = {names.key(product) for product in one.gpus}
        every = known and known.products and {names.key(product) for product in known.products} <= own
        if {names.key(gpu.name), gpu.sm} & own or (own and every):
            return one
    return None


def cpu_beside(hardware: Hardware, name: str, gpus: Iterable[GpuDevice]) -> Cpu | None:
    """The CPU called `name`; the one that the first of `gpus` always comes with, if `name` states no model."""
    if not is_unstated(name):
        return cpu(hardware, name)
    return next(filter(None, (cpu_of(hardware, gpu) for gpu in gpus)), None)


def machine(
    hardware: Hardware, *, gpu: str | None, cpu_name: str | None, driver: str, this: Callable[[], Machine]
) -> Machine:
    """The machine with the named parts. Parts that are not given (None, '') are those of `this`, with three exceptions:

    a GPU that comes with one CPU only brings that CPU; the driver of a named GPU is unknown; if the named CPU is of
    another system than `this`, there is no GPU. With `UNKNOWN_CPU`, the machine has no system. Raises as `device` and
    `cpu` do.
    """
    found = device(hardware, gpu, driver) if gpu is not None else None
    named: tuple[GpuDevice, ...] = (found,) if found else ()
    unknown = cpu_name is not None and is_unstated(cpu_name)
    beside = cpu_beside(hardware, cpu_name or "", named)
    if unknown and not beside:
        return Machine(system="", gpus=named if gpu is not None else this().gpus, cpu=UNKNOWN_CPU)
    if beside and gpu is not None:
        return Machine(system=beside.system, isas=beside.isas, gpus=named, cpu=beside.name)
    own = this()
    if gpu is None:
        named = tuple(replace(one, driver=driver or one.driver) for one in own.gpus)
    if beside is None:
        return replace(own, gpus=named)
    gpus = named if own.system in {"", beside.system} else ()
    return Machine(system=beside.system, isas=beside.isas, gpus=gpus, cpu=beside.name)


@cache
def _cpu_table() -> dict[str, Any]:
    """The table of CPUs: `cpus.json`, and those that come with the GPUs of a family."""
    tables = [read_table("cpus.json"), *(facts(family, "cpus") for family in files_of("cpus.json"))]
    joined = {key: [row for table in tables for row in table[key]] for key in ("noise", "cpus")}
    return joined | {"unstated": tables[0]["unstated"]}


@cache
def cpus(hardware: Hardware) -> Mapping[str, Cpu]:
    """All CPUs of the table, by name."""
    return {
        row["name"]: Cpu(
            name=row["name"],
            system=row["system"],
            isas=_in_order(hardware, row["isas"], row["system"]),
            note=row.get("note", ""),
            gpus=tuple(row.get("gpus", ())),
        )
        for row in _cpu_table()["cpus"]
    }


def as_data(hardware: Hardware) -> dict[str, Any]:
    """Both tables of names and what CPUs run, as the page reads them. `beside`: the CPUs that GPUs always come with."""
    gpus, known = _gpu_names(hardware), cpus(hardware)
    named = ((name, filter(None, [device(hardware, name)])) for name in hardware.gpus)
    boards = ((name, cpu_beside(hardware, "", one)) for name, one in named)
    by_product = {gpus.key(product): one.name for one in known.values() for product in one.gpus}
    return {
        "none": list(NO_GPU),
        "vendor": family_of(DEFAULT).vendor,
        "tool": family_of(DEFAULT).tool,
        "sm": facts(DEFAULT, "names")["architecture"],
        "gpu": gpus.as_data(),
        "foreign": [pattern.pattern for pattern in _foreign()],
        "named": dict(_named(hardware)),
        "undescribed": undescribed(hardware),
        "families": [
            {"targets": _typed(name).replace("(?P<", "(?<"), "gpu": _products(name).as_data()}
            for name in _listing(hardware)
        ],
        "cpu": _cpu_names().as_data(),
        "unstated": _cpu_table()["unstated"],
        "cpus": {one.name: {"system": one.system, "isas": list(one.isas), "note": one.note} for one in known.values()},
        "beside": by_product | {name: found.name for name, found in boards if found},
    }


def _in_order(hardware: Hardware, isas: Iterable[str], system: str) -> tuple[str, ...]:
    """`isas`, all that they include, and the baseline of `system`, in the tables' order."""
    runs = hardware.runs(isas, system)
    return tuple(name for name in hardware.isas if name in runs)


@cache
def _gpu_names(hardware: Hardware) -> _Names:
    """GPUs by name; the table's own name for a GPU is its compute capability, `8.9`."""
    content = facts(DEFAULT, "names")
    noise = tuple(map(_compiled, content["noise"]))
    gpus = hardware.gpus.values()
    known = [(pattern, str(gpu.capability)) for gpu in gpus for pattern in content["patterns"].get(gpu.name, ())]
    older = [(pattern, capability) for capability, some in content["outside"].items() for pattern in some]
    return _Names(
        noise=noise,
        exact={_key(noise, product): str(gpu.capability) for gpu in gpus for product in gpu.products},
        patterns=tuple((_compiled(pattern), capability) for pattern, capability in (*known, *older)),
        shown=tuple(product for gpu in gpus for product in gpu.products),
    )


@cache
def _products(family: str) -> _Names:
    """The products of a family, whose names in the table are targets."""
    content = facts(family, "names")
    noise = tuple(map(_compiled, content["noise"]))
    rows = products_of(family)
    forms: Mapping[str, list[str]] = content.get("patterns", {})
    return _Names(
        noise=noise,
        exact={_key(noise, product): target for target, some in rows.items() for product in some},
        patterns=tuple((_compiled(pattern), target) for target, some in forms.items() for pattern in some),
        shown=tuple(product for some in rows.values() for product in some),
    )


@cache
def _foreign() -> tuple[re.Pattern[str], ...]:
    return tuple(map(_compiled, facts(DEFAULT, "names")["foreign"]))


@cache
def _cpu_names() -> _Names:
    """CPUs by name; the table's own name for a CPU is its key in `cpus`."""
    content = _cpu_table()
    noise = tuple(map(_compiled, content["noise"]))
    rows = content["cpus"]
    return _Names(
        noise=noise,
        exact={_key(noise, name): row["name"] for row in rows for name in (row["name"], *row["names"])},
        patterns=tuple((_compiled(pattern), row["name"]) for row in rows for pattern in row["patterns"]),
        shown=tuple(name for row in rows for name in row["names"]),
    )


def _compiled(pattern: str) -> re.Pattern[str]:
    """`pattern` with ASCII character classes, as in JavaScript."""
    return re.compile(pattern, re.ASCII)
