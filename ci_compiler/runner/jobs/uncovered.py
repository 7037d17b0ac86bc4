"""The part of a package that no test covers: instructions beyond the instruction set, and libraries not loaded.

A notice, never a failure: code that asks the CPU first may contain any instruction.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from ci_compiler.hardware import Hardware
from ci_compiler.judgement import CheckVerdict
from ci_compiler.plan.proof import Reach
from ci_compiler.process import follow
from ci_compiler.runner.jobs.junit import TestResult
from ci_compiler.runner.jobs.probing import is_binary
from ci_compiler.runner.jobs.subject import SmokeSubject
from ci_compiler.units import counted

NOT_EXECUTED, NOT_LOADED = "instructions-not-covered", "libraries-not-loaded"
"""The names of the notices among the checks."""

SECONDS = 300.0
"""The limit on the disassembly of a package. objdump writes about 20 MB per second, which a library of 400 MB takes."""

_SHOWN = 5
_FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
_INSTRUCTION = re.compile(r"^ *[0-9a-f]+:\t(.*)$")


def uncovered(subject: SmokeSubject, loaded: Collection[str], reach: Reach, seconds: float) -> Iterator[TestResult]:
    """The notices for the package's own objects; `loaded` are the files that the tested process had mapped.

    Nothing for an interpreter of the user, whose environment has more than the package.
    """
    if not subject.store_path:
        return
    objects = tuple(_objects(subject.home))
    if not subject.program and objects:
        absent = [path for path in objects if ".so" in path.name and os.fspath(path) not in loaded]
        yield _notice(NOT_LOADED, _listed(absent, subject.home), "the test loaded every library of the package")
    if objects:
        yield _instructions(subject, objects, reach, min(SECONDS, seconds))


def _objects(home: Path) -> Iterator[Path]:
    """The programs and libraries below `home`, by their real paths."""
    for folder, _, names in os.walk(home.resolve()):
        for path in sorted(Path(folder, name) for name in names):
            if path.is_file() and not path.is_symlink() and is_binary(path):
                yield path


def _instructions(subject: SmokeSubject, objects: tuple[Path, ...], reach: Reach, seconds: float) -> TestResult:
    isa = subject.built.cell.isa
    program = shutil.which("objdump")
    if program is None:
        message = f"objdump is not on PATH, so that nothing says whether the package has instructions beyond {isa}"
        return TestResult(NOT_EXECUTED, CheckVerdict.SKIPPED, message)
    patterns, end = beyond_patterns(subject.spec.hardware, isa), time.monotonic() + seconds
    found: dict[str, str] = {}
    unread: list[Path] = []
    for path in objects:
        functions = disassembled(program, path, patterns, end - time.monotonic())
        if functions is None:
            unread.append(path)
        else:
            found |= {f"{name} in {path.name} ({beyond})": beyond for name, beyond in functions.items()}
    said = []
    if found:
        covered = "the test did not execute them" if reach is Reach.EMULATED else "the test may not have executed them"
        said.append(f"{_some(list(found), 'function')} with instructions beyond {isa}; {covered}")
    if unread:
        said.append(f"not read within {seconds:.0f} s: {_listed(unread, subject.home)}")
    return _notice(NOT_EXECUTED, "; ".join(said), f"no instruction beyond {isa} in {counted(len(objects), 'object')}")


def beyond_patterns(hardware: Hardware, isa: str) -> dict[str, re.Pattern[str]]:
    """The patterns of the instructions of each ISA of the same system that `isa` does not include."""
    own, system = hardware.runs([isa]), hardware.isa(isa).system
    others = [one for name, one in hardware.isas.items() if name not in own and one.system == system]
    return {other.name: re.compile(other.instructions) for other in reversed(others) if other.instructions}


def disassembled(
    objdump: str, path: Path, patterns: Mapping[str, re.Pattern[str]], seconds: float
) -> dict[str, str] | None:
    """The functions of an object with an instruction that one of `patterns` matches, with that pattern's name.

    None if objdump fails, or does not end within `seconds`.
    """
    found: dict[str, str] = {}
    function = "code without a name"

    def read(line: str) -> None:
        nonlocal function
        if heading := _FUNCTION.match(line):
            function = heading[1]
        elif function not in found and (instruction := _INSTRUCTION.match(line)):
            name = next((name for name, one in patterns.items() if one.search(instruction[1])), "")
            if name:
                found[function] = name

    if seconds <= 0 or not patterns:
        return None if patterns else {}
    command = [objdump, "--disassemble", "--no-show-raw-insn", "--demangle", os.fspath(path)]
    ended = follow(command, read, seconds=seconds, env={**os.environ, "LC_ALL": "C"})
    return None if ended.status != 0 else found


def _notice(check: str, message: str, nothing: str) -> TestResult:
    verdict = CheckVerdict.SKIPPED if message else CheckVerdict.OK
    return TestResult(check, verdict, message or nothing)


def _listed(paths: list[Path], home: Path) -> str:
    return _some([path.relative_to(home.resolve()).as_posix() for path in paths], "file") if paths else ""


def _some(names: list[str], what: str) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{counted(len(names), what)} ({', '.join(names[:_SHOWN])}{more})"
