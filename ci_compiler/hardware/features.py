"""CPU features that compiler flags turn on, so that flags can be compared by what they do: `features`, `exceeds`.

A flag turns on the features that it names and all that they imply, as GCC and LLVM define it; the facts and their
sources are in `features.json`. Features that every CPU of a system has (SSE2, Advanced SIMD) are left out: the flags of
a baseline turn on nothing. A flag that is not about features (`-mtune=…`, `-mcmodel=…`) turns on none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache

from ci_compiler.errors import nearest
from ci_compiler.hardware import Hardware, Isa, read_table

_SHOWN = 4
"""The most features that a message names."""


class UnknownFlagError(ValueError):
    """A `-march` or `-mcpu` value, or an extension in one, that the table does not have."""

    def __init__(self, flag: str, part: str, known: Iterable[str]) -> None:
        self.flag = flag
        super().__init__(f"{flag}: unknown {part!r}{nearest(part, known)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Family:
    """The features of a family of CPUs. The keys of `march` and `mcpu` may occur in the lists of all tables."""

    implies: Mapping[str, list[str]]
    spelled: Mapping[str, list[str]]
    march: Mapping[str, list[str]]
    mcpu: Mapping[str, list[str]]
    cpuinfo: Mapping[str, list[str]]

    def closure(self, names: Iterable[str]) -> frozenset[str]:
        """The features of `names` (features, other spellings of them, architectures), with all that they imply."""
        found: set[str] = set()
        seen: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                found |= {name} & self.implies.keys()
                for table in (self.implies, self.spelled, self.march, self.mcpu):
                    waiting += table.get(name, ())
        return frozenset(found)

    def without(self, features: frozenset[str], name: str) -> frozenset[str]:
        """`features` without `name` and without every feature that implies it."""
        gone = {name, *self.spelled.get(name, ())}
        return frozenset(feature for feature in features if not gone & self.closure([feature]))

    def proofs(self, lacking: frozenset[str], turned_on: frozenset[str]) -> tuple[str, ...]:
        """Few /proc/cpuinfo flags that together prove `lacking`, and no feature that is not `turned_on` if possible.

        A feature that no flag proves is left out.
        """
        found: list[str] = []
        proves = {flag: self.closure(names) for flag, names in self.cpuinfo.items()}
        lacking &= frozenset().union(*proves.values())
        while lacking:
            best = max(proves, key=lambda flag: (proves[flag] <= turned_on, len(proves[flag] & lacking)))
            if not proves[best] & lacking:
                best = min((flag for flag in proves if proves[flag] & lacking), key=lambda flag: len(proves[flag]))
            found.append(best)
            lacking -= proves[best]
        return tuple(found)

    def knows(self, name: str) -> bool:
        """Whether `name` is a feature."""
        return name in self.implies or name in self.spelled


@dataclass(frozen=True, slots=True, kw_only=True)
class Unproved:
    """Features that nothing proves (those that no other one implies), and the /proc/cpuinfo flags that would."""

    features: tuple[str, ...]
    cpuinfo: tuple[str, ...]


def features(flags: Iterable[str]) -> frozenset[str]:
    """The features that `flags` turn on, beyond those that every CPU of the system has. Raises UnknownFlagError.

    As in GCC and Clang, the last `-march` (or, without one, `-mcpu`) gives the first features; `-mX` and `-mno-X` then
    apply in their order, wherever they stand.
    """
    return _features(tuple(flags))


@cache
def _features(given: tuple[str, ...]) -> frozenset[str]:
    chosen = {flag.partition("=")[0]: flag for flag in given if flag.startswith(("-march=", "-mcpu="))}
    found = _of_choice(chosen.get("-march") or chosen.get("-mcpu", ""))
    x86 = _family("x86")
    for flag in given:
        name = flag.removeprefix("-m")
        if name == flag or "=" in name:
            continue
        if x86.knows(name):
            found |= x86.closure([name])
        elif x86.knows(name.removeprefix("no-")):
            found = x86.without(found, name.removeprefix("no-"))
    return found


def _of_choice(flag: str) -> frozenset[str]:
    """The features of a `-march` or `-mcpu` flag: an architecture or a CPU with extensions (`armv9-a+sve2+nobf16`)."""
    if not flag:
        return frozenset()
    x86, arm = _family("x86"), _family("aarch64")
    base, *extensions = flag.partition("=")[2].split("+")
    of_cpus = flag.startswith("-mcpu=")
    if base in x86.march and not extensions:
        return frozenset() if of_cpus else x86.closure([base])  # on x86, -mcpu is an old name of -mtune
    known = arm.mcpu if of_cpus else arm.march
    if base not in known:
        raise UnknownFlagError(flag, base, known if of_cpus else [*x86.march, *known])
    found = arm.closure([base])
    for extension in extensions:
        name = extension.removeprefix("no")
        if arm.knows(extension):
            found |= arm.closure([extension])
        elif name != extension and arm.knows(name):
            found = arm.without(found, name)
        else:
            raise UnknownFlagError(flag, extension, arm.implies)
    return found


def exceeds(flags: Iterable[str], isa: Isa) -> frozenset[str]:
    """The features that `flags` turn on and that the flags of `isa` do not. Raises UnknownFlagError."""
    return features(flags) - features(isa.flags)


def least(names: frozenset[str]) -> list[str]:
    """Those of `names` that no other one of them implies, in the table's order: the features to name in a message."""
    return [
        feature
        for family in map(_family, _FAMILIES)
        for feature in family.implies
        if feature in names
        and not any(feature in family.closure([other]) for other in names - {feature} if family.knows(other))
    ]


def unproved(hardware: Hardware, isa: Isa) -> Unproved:
    """What the flags of `isa` turn on and its /proc/cpuinfo flags, or those of the ISAs it includes, do not prove.

    `isa` need not be one of `hardware`'s, but the ISAs that it includes must be. Raises UnknownFlagError.
    """
    family, turned_on = _family_of(isa), features(isa.flags)
    shown = [*isa.cpuinfo, *(flag for name in hardware.runs(isa.includes) for flag in hardware.isa(name).cpuinfo)]
    lacking = turned_on - family.closure(name for flag in shown for name in family.cpuinfo.get(flag, ()))
    return Unproved(features=tuple(least(lacking)), cpuinfo=family.proofs(lacking, turned_on))


def beyond(isa: Isa, cpuinfo: Iterable[str]) -> list[str]:
    """The features of a CPU with the /proc/cpuinfo flags `cpuinfo` that a small CPU of `isa` lacks.

    The small CPU is `isa.smallest`, or has only what the flags of `isa` turn on. Raises UnknownFlagError.
    """
    family = _family_of(isa)
    has = family.closure(name for flag in cpuinfo for name in family.cpuinfo.get(flag, ()))
    return list(dict.fromkeys(least(has - features(isa.smallest or isa.flags))))


def more_than(isa: Isa, cpuinfo: Iterable[str]) -> str:
    """The first of what `beyond` finds, in words; '' for nothing."""
    found = beyond(isa, cpuinfo)
    further = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(reversed(found[-_SHOWN:])) + further


def refined(isa: Isa, flags: Iterable[str]) -> Isa:
    """`isa` with other `flags`, and with further /proc/cpuinfo flags that prove what they turn on in addition.

    Raises UnknownFlagError.
    """
    given = tuple(flags)
    adding = _family_of(isa).proofs(exceeds(given, isa), features(given))
    return replace(isa, flags=given, cpuinfo=tuple(dict.fromkeys([*isa.cpuinfo, *adding])))


def declaration(isa: Isa) -> str:
    """The lines of a spec, in YAML's flow style, that refine an ISA to the flags and proofs of `isa`."""
    keys = f"flags: {json.dumps(isa.flags)}, cpuinfo: {json.dumps(isa.cpuinfo)}"
    return f"hardware: {{isas: {{{isa.name}: {{{keys}}}}}}}"


def _family_of(isa: Isa) -> _Family:
    return _family("aarch64" if isa.system.startswith("aarch64") else "x86")


_FAMILIES = ("x86", "aarch64")


@cache
def _family(name: str) -> _Family:
    return _Family(**read_table("features.json")[name])
