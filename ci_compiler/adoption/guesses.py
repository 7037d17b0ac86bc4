"""Hardware that recipes name and the tables lack, declared with what the names and the recipes' texts tell.

What neither tells is taken from the nearest known row: a newer toolkit's drivers are those of the newest older one. An
ISA is declared if the recipes state flags for it; a known ISA is refined if most of its recipes, and `FEWEST` at least,
state flags that turn on more than its own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ci_compiler.adoption.checkouts import AdoptedCheckout
from ci_compiler.adoption.evaluator import recipe_folder, text_of
from ci_compiler.adoption.names import ARM, parsed
from ci_compiler.hardware import ALL, CPU, Hardware, Isa, Version
from ci_compiler.hardware.families import DEFAULT, nixpkgs
from ci_compiler.hardware.features import UnknownFlagError, exceeds, refined
from ci_compiler.spec.read import read
from ci_compiler.spec.shorthand.hardware import HardwareRows, merged
from ci_compiler.variant import VariantName

_GPU = re.compile(r"sm(\d{1,2})(\d)")
_FLAG = re.compile(r"(?<![\w-])-m(?:(?:arch|cpu)=)?[a-z0-9][a-z0-9._+-]*")
_NOT_FEATURES = ("-mtune", "-mcmodel", "-mllvm")

Answer = TypeVar("Answer")

FEWEST = 4
"""The fewest recipes that refine a known ISA; the flags of fewer may be the mistake."""

Declared = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""The section `hardware` of a spec: table -> name -> row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guessed:
    """The bundled tables with what was guessed, and the section of the spec that declares it."""

    hardware: Hardware
    declared: Declared


def guessed(checkouts: Sequence[AdoptedCheckout], hardware: Hardware) -> Guessed:
    """The hardware that the names and texts of recipes tell of."""
    names = list(parsed(checkouts))
    kits = dict.fromkeys(said.toolkit for said, _ in names if said.toolkit)
    declared: dict[str, dict[str, dict[str, Any]]] = {
        "toolkits": {kit: _toolkit(kit, hardware) for kit in kits if kit not in hardware.toolkits},
        "isas": dict(_isas(names, checkouts, hardware)),
    }
    known = _with(declared, hardware)
    declared["gpus"] = {
        name: _gpu(name, f"{match[1]}.{match[2]}", [said for said, _ in names if said.target == name], known)
        for name in dict.fromkeys(said.target for said, _ in names)
        if name not in {*hardware.gpus, CPU, ALL.name} and (match := _GPU.fullmatch(name))
    }
    rows = {table: rows for table, rows in declared.items() if rows}
    return Guessed(hardware=_with(rows, hardware), declared=rows)


def _with(declared: Declared, hardware: Hardware) -> Hardware:
    hardware_rows: HardwareRows = read(HardwareRows, declared)
    return merged(hardware_rows, hardware)[0]


def _toolkit(version: str, hardware: Hardware) -> dict[str, Any]:
    wanted = Version.parse(version)
    rows = sorted(hardware.toolkits.values(), key=lambda row: row.version)
    like = next((row for row in reversed(rows) if row.version <= wanted), rows[0])
    return {
        "attribute": f"{nixpkgs(DEFAULT)['packages']}_{version.replace('.', '_')}",
        "shipped-driver": like.shipped_driver,
        "lowest-driver": like.lowest_driver,
    }


def _gpu(name: str, capability: str, seen: Sequence[VariantName], hardware: Hardware) -> dict[str, Any]:
    systems = {hardware.isas[said.isa].system for said in seen if said.isa in hardware.isas}
    return {
        "capability": capability,
        "architecture": name,
        f"first-{DEFAULT}": str(min(Version.parse(said.toolkit) for said in seen)),
        "systems": [system for system in hardware.systems if system in systems] or ["x86_64-linux"],
    }


# Instruction sets.


def _isas(
    names: Sequence[tuple[VariantName, Path]], checkouts: Sequence[AdoptedCheckout], hardware: Hardware
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of ISAs that are unknown, or whose recipes turn on more than the tables say."""
    stated = _stated(names, checkouts)
    for name, counts in stated.items():
        known = hardware.isas.get(name)
        if known is None and name not in hardware.aliases and counts:
            flags, _ = counts.most_common(1)[0]
            if isa := _known(refined, _unknown(name, flags), flags):
                yield name, {"system": isa.system, "flags": flags, "cpuinfo": isa.cpuinfo, "cpus": isa.cpus}
        elif known is not None:
            more = Counter({flags: count for flags, count in counts.items() if _known(exceeds, flags, known)})
            usual = more.total() >= FEWEST and 2 * more.total() > counts.total()
            if usual and (isa := _known(refined, known, more.most_common(1)[0][0])):
                yield name, {"flags": isa.flags, "cpuinfo": isa.cpuinfo}


def _stated(
    names: Sequence[tuple[VariantName, Path]], checkouts: Sequence[AdoptedCheckout]
) -> dict[str, Counter[tuple[str, ...]]]:
    """The flags that recipes state, by ISA and counted; where none state any, those in shared files count for all."""
    recipes = Counter(said.isa for said, _ in names)
    found: dict[str, Counter[tuple[str, ...]]] = {}
    for said, path in names:
        counts = found.setdefault(said.isa, Counter())
        if flags := _flags(text_of(path)):
            counts[flags] += 1
    lacking = [name for name, counts in found.items() if not counts]
    for checkout in checkouts if lacking else ():
        for file in sorted(recipe_folder(checkout.folder).glob("*/**/*.nix")):
            text = text_of(file)
            for name in lacking:
                for value in re.findall(rf'(?<![\w-])"?{re.escape(name)}"?\s*=\s*(\{{[^{{}}]*\}}|\[[^\]]*\])', text):
                    if flags := _flags(value):
                        found[name][flags] += recipes[name]
    return found


def _flags(text: str) -> tuple[str, ...]:
    """The flags that choose instructions in a text, outside comments."""
    code = "\n".join(line.split("#", 1)[0] for line in text.splitlines())
    return tuple(dict.fromkeys(flag for flag in _FLAG.findall(code) if not flag.startswith(_NOT_FEATURES)))


def _known(judge: Callable[..., Answer], *arguments: object) -> Answer | None:
    """What `judge` returns; None if a flag is unknown."""
    try:
        return judge(*arguments)
    except UnknownFlagError:
        return None


def _unknown(name: str, flags: Sequence[str]) -> Isa:
    """An ISA that only recipes tell of."""
    arm = ARM.search(f"-{name}-") or any(re.search(r"=(arm|neoverse|cortex|apple)", flag) for flag in flags)
    return Isa(
        name=name,
        system="aarch64-linux" if arm else "x86_64-linux",
        title=name,
        flags=(),
        cpuinfo=(),
        includes=(),
        cpus=f"CPUs with {name}",
    )
