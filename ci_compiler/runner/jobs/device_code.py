"""What the files of a build have of code for GPUs, as it is read in them, compared with the variant.

All files are read, also those in archives. Machine code must be for the targets that the variant declares, and for each
of them; code that the driver compiles is said where it is alone. A variant for the CPU has no code for GPUs; one that
states no family may have any.

The vendor's libraries that a result brings along have code for many targets: they are named, and not compared.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, NamedTuple

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, Place, StageError
from ci_compiler.hardware import CPU
from ci_compiler.hardware.families import NamedTarget, family_of
from ci_compiler.hardware.families.machines import DeviceCode, known_machines, machines_of
from ci_compiler.outside import UnreadableError, files_in, why
from ci_compiler.plan.lookup import BuiltVariant
from ci_compiler.plan.matrix import setting
from ci_compiler.plan.needs import served_by
from ci_compiler.runner.jobs.expectation import targets_of
from ci_compiler.spec.presets import override_in
from ci_compiler.units import counted, some


class Compared(NamedTuple):
    """What was read of a build: the targets of its code, and the compilers that the code states.

    `wrong` is what the variant does not declare, `remarks` what users should know. `runs` is how a GPU of the variant
    runs the build, where no machine code for it was read; '' where it was.
    """

    architectures: tuple[str, ...] = ()
    compilers: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    runs: str = ""

    def check(self, name: str) -> None:
        """Raises StageError for what is wrong with the build `name`."""
        if self.wrong:
            place, code = Place(file=name), Code.DEVICE_CODE_DIFFERS
            raise StageError([Finding(place=place, code=code, message=message) for message in self.wrong])


class _Found(NamedTuple):
    """The code in files, by family and file; why others were not read, the vendor's files, and the number of files."""

    code: dict[str, dict[str, DeviceCode]]
    unread: list[str]
    vendors: list[str]
    files: list[str]


def compared(built: BuiltVariant, paths: Iterable[Path]) -> Compared:
    """What the files at `paths`, and below those that are folders, have of code for GPUs."""
    judged = _Judged(built, _read(built, paths))
    every = {family: _all(files.values()) for family, files in sorted(judged.found.code.items())}
    return Compared(
        architectures=tuple(word for family, code in every.items() for word in _words(family, code)),
        compilers=tuple(sorted(one for code in every.values() for one in code.compilers)),
        wrong=tuple(judged.wrong()),
        remarks=tuple(judged.remarks()),
        runs=judged.runs(),
    )


class _Judged:
    """What was `found`, and the targets that the variant declares: () for any code of its family.

    A label that is no target itself stands for those that it serves. With `portable` targets, the variant declares code
    that the driver compiles as well. `own` is the code for its family, by file.
    """

    def __init__(self, built: BuiltVariant, found: _Found) -> None:
        self.spec, self.cell, self.found = built.spec, built.cell, found
        self.overrides = override_in(built.spec.packages[built.variant.package], built.cell.family)
        self.family, self.known = built.spec.hardware.family(built.cell.family), machines_of(built.cell.family)
        self.is_stated = "family" in built.cell.axes
        self.own = found.code.get(built.cell.family, {})
        self.code = _all(self.own.values())
        self.served = served_by(built.spec, "target", built.cell.target)
        named = () if built.cell.target == CPU else targets_of(built.spec.hardware.gpu(built.cell.target))
        named = named if self.family.is_target(built.cell.target) else named and self.served
        self.targets = [one.partition("+")[0] for one in named]
        self.portable = [one for one in named if "+" in one]

    def wrong(self) -> Iterator[str]:
        """What the variant does not declare, and what it declares and lacks."""
        others = sorted(self.found.code.keys() - {self.family.name}) if self.is_stated else ()
        yield from (self._foreign(name, file, one) for name in others for file, one in self.found.code[name].items())
        yield from () if self._takes_others else self._strange()
        for file, one in self.own.items():
            if self._is_of_another_toolkit(one.compilers):
                stated, toolkit = ", ".join(sorted(one.compilers)), f"{self.family.kit} {self.cell.toolkit}"
                yield f"{file} is compiled by {stated}, and the variant is for {toolkit}"
        yield from () if self.found.unread else self._lacking()

    def remarks(self) -> Iterator[str]:
        """What users should know."""
        yield from self._strange() if self._takes_others else ()
        yield from self._lacking() if self.found.unread else ()
        if alone := self._alone():
            yield f"{self.known.portable} alone: compiled by the driver when first used ({', '.join(alone)})"
        if self.known.code_in is None and self.family.has_targets:
            yield f"nothing was read of its code for {self.family.title}: no reader is known"
        elif self.family.has_targets and not (self.code.machine or self.code.portable):
            yield f"no code for {self.family.title} was read in {counted(len(self.found.files), 'file')}"
        elif self.family.has_targets and self.cell.toolkit and not self.code.compilers:
            yield "no compiler was read in its code for GPUs, which is compressed or does not state it"
        for names, what in ((self.found.unread, "not read"), (self.found.vendors, "the vendor's, not compared")):
            yield from [f"{what}: {some(names, 'file')}"] if names else ()

    def runs(self) -> str:
        """How a GPU of the variant runs it, in words; '' where machine code for the variant was read."""
        if not self.family.has_targets:
            return ""
        if alone := self._alone():
            return f"compiles code for {', '.join(alone)} when it is first used: {self.known.portable} alone was built"
        if any(self._has(target) for target in self.targets) or (self.code.machine and not self.targets):
            return ""
        return f"can run code built for {self.cell.target}, of which none was read"

    def _strange(self) -> Iterator[str]:
        """Machine code of its family that is for none of the targets, and portable code that none of them runs."""
        every = {*self.targets, *self.served} if self.targets else set()
        for file, one in self.own.items() if every else ():
            machine = {code for code in one.machine if not any(self._is_for(code, target) for target in every)}
            portable = {code for code in one.portable if not any(self._runs(target, code) for target in every)}
            if machine or portable:
                yield self._foreign(self.family.name, file, DeviceCode(frozenset(machine), frozenset(portable)))

    def _foreign(self, family: str, file: str, code: DeviceCode) -> str:
        words = ", ".join(_words(family, code))
        return f"{file} has code for {words} ({family_of(family).title}), and the variant is for {self.cell.target}"

    def _lacking(self) -> Iterator[str]:
        """The targets for which there is nothing, although there is code for others."""
        found, alone = ", ".join(_words(self.family.name, self.code)), self._alone()
        for target in self.targets if found else ():
            if target not in alone and not self._has(target):
                yield f"nothing is compiled for {target}; there is code for {found}"
        for target in self.portable if found else ():
            if not any(self._is_for(one, target) for one in self.code.portable):
                yield f"there is no {self.known.portable} for {target}; there is code for {found}"

    def _alone(self) -> list[str]:
        """The targets for which there is only code that the driver compiles."""
        return [
            target
            for target in self.targets
            if not self._has(target) and any(self._runs(target, one) for one in self.code.portable)
        ]

    def _runs(self, machine: str, code: str) -> bool:
        """Whether a GPU of one target runs code for another, by the rule of the family."""
        return bool(
            self.family.rule(*(NamedTarget(self.family.named(one), self.family.name) for one in (machine, code)))
        )

    def _is_for(self, code: str, target: str) -> bool:
        """Whether code is for a target, or for some of the GPUs that run code for it."""
        return self._runs(target, code) and self._runs(code, target)

    def _has(self, target: str) -> bool:
        """Whether there is machine code for a target: every GPU that runs code for that runs it."""
        gpus = [name for name in self.spec.hardware.gpus if self._runs(name, target)]
        return any(self._is_for(one, target) and all(self._runs(gpu, one) for gpu in gpus) for one in self.code.machine)

    @property
    def _takes_others(self) -> bool:
        """Whether what is linked into its libraries may have code for other targets."""
        return (setting(self.spec, "machine-code", self.cell) or self.overrides.machine_code) == "also"

    def _is_of_another_toolkit(self, compilers: Iterable[str]) -> bool:
        """Whether code states compilers, and none is of the toolkit, whose exact version a setting may name."""
        stated = (setting(self.spec, f"{name}-version", self.cell) for name in ("toolkit", self.family.name))
        label = next(filter(None, stated), self.cell.toolkit)
        series = [f"{one.removesuffix('.x')}." for one in served_by(self.spec, "toolkit", label) or [label]]
        releases = [".".join([*one.split()[1].split(".")[:2], ""]) for one in compilers]
        alike = (one.startswith(other) or other.startswith(one) for one in releases for other in series)
        return bool(label and releases) and not any(alike)


def _all(every: Iterable[DeviceCode]) -> DeviceCode:
    """The code of several files."""
    found = DeviceCode()
    for one in every:
        compilers = found.compilers | one.compilers
        found = DeviceCode(found.machine | one.machine, found.portable | one.portable, compilers)
    return found


def _words(family: str, code: DeviceCode) -> list[str]:
    """The targets of code, as sentences call them."""
    portable = machines_of(family).portable
    names = [*code.machine, *(f"{portable} {one.partition('+')[0]}" for one in code.portable)]
    return sorted(names, key=lambda name: (len(name), name))


def _read(built: BuiltVariant, paths: Iterable[Path]) -> _Found:
    """What each reader finds in the files."""
    found = _Found({}, [], [], [])
    vendors = {built.cell.family: {*machines_of(built.cell.family).libraries} - {built.variant.package}}
    for home, path in ((one, path) for one in paths for path in files_below(one)):
        below = path.relative_to(home.resolve()).as_posix() if home.is_dir() else ""
        try:
            with path.open("rb") as opened:
                for name, file in files_in(opened, f"{home.name}/{below}" if below else path.name):
                    _note(found, name, file, vendors)
        except OSError as error:
            found.unread.append(f"{path.name} {why(error)}")
    return found


def _note(found: _Found, name: str, file: IO[bytes] | UnreadableError, vendors: Mapping[str, Collection[str]]) -> None:
    """Notes what there is of a file, in `found`."""
    if isinstance(file, UnreadableError):
        found.unread.append(f"{name} {file}")
        return
    found.files.append(name)
    for family, code in _code_in(file):
        if _library(name) in vendors.get(family, ()):
            found.vendors.append(name)
            continue
        if code.unread:
            found.unread.append(f"{name} may have code whose targets are not read")
        if code.machine or code.portable:
            files = found.code.setdefault(family, {})
            files[name] = _all([code, files.get(name, code)])  # an archive may have two files of one name


def _library(name: str) -> str:
    """The library that a file is by its name, to which tools that copy it into a package add a digest."""
    match = re.match("(?:lib)?([a-z]+)", name.rpartition("/")[2].lower())
    return match[1] if match else ""


def _code_in(file: IO[bytes]) -> Iterator[tuple[str, DeviceCode]]:
    """What each family's reader finds in a file."""
    if os.fstat(file.fileno()).st_size:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            for family, known in known_machines().items():
                if known.code_in and any(code := known.code_in(content)):
                    yield family, code


def files_below(home: Path) -> Iterator[Path]:
    """`home`, or the regular files below it, by their real paths."""
    if home.is_file():
        yield home
    for folder, _, names in os.walk(home.resolve()):
        yield from (one for name in sorted(names) if (one := Path(folder, name)).is_file() and not one.is_symlink())
