"""The CPU models of the tables: each executes the instructions of its ISA and none beyond, on the real emulator.

The programs are machine code without a compiler: one instruction, then `exit(0)`.
"""

from __future__ import annotations

import re
import signal
import struct
import subprocess
from pathlib import Path

import pytest

from ci_compiler.hardware import tables
from ci_compiler.hardware.features import beyond, features
from tests.checkers.tools import require
from tests.loops import each
from tests.runner.machines import known

INSTRUCTIONS = {
    "x86_64-linux": {  # Intel SDM: haddps (SSE3), vaddps ymm, vpaddd ymm, vfmadd231ps, pdep, vcvtph2ps, vpaddd zmm
        "sse3": ("avx", "f20f7cc8"),
        "avx": ("avx", "c5f458d0"),
        "avx2": ("avx2", "c5f5fed0"),
        "fma": ("avx2", "c4e275b8d0"),
        "bmi2": ("avx2", "c4e2e3f5c8"),
        "f16c": ("avx2", "c4e27d13c8"),
        "avx512f": ("avx512", "62f17548fed0"),
    },
    "aarch64-linux": {  # Arm ARM, as little-endian words: udot v0.4s, v1.16b, v2.16b; ptrue p0.b
        "dotprod": ("armv8_2", "2094826e"),
        "sve": ("armv9", "e0e31825"),
    },
}
"""Instructions by system and feature: the smallest ISA that has it, and its encoding."""

EXIT = {"x86_64-linux": (62, "b83c00000031ff0f05"), "aarch64-linux": (183, "a80b8052000080d2010000d4")}
"""The ELF number of a system's machine, and the code of `exit(0)`."""

CASES = [(isa.name, feature) for isa in tables().isas.values() if isa.qemu for feature in INSTRUCTIONS[isa.system]]


def program(folder: Path, system: str, code: str) -> Path:
    """A static ELF file that executes `code` and ends."""
    machine, ending = EXIT[system]
    text, base, headers = bytes.fromhex(code + ending), 0x400000, 120
    head = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    head += struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, base + headers, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    size = headers + len(text)
    path = folder / "program"
    path.write_bytes(head + struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 4096) + text)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(("name", "feature"), CASES)
def test_a_model_has_its_instruction_set_and_nothing_beyond(tmp_path: Path, name: str, feature: str) -> None:
    isa = tables().isa(name)
    emulator = tables().emulators_of(isa)[0]
    smallest, code = INSTRUCTIONS[isa.system][feature]
    options = [option.format(model=isa.qemu) for option in emulator.options]
    command = [require(emulator.program), *options, str(program(tmp_path, isa.system, code))]
    status = subprocess.run(command, capture_output=True, check=False, cwd=tmp_path).returncode
    has = smallest in tables().runs([name])
    assert status == (0 if has else -signal.SIGILL)


def test_the_small_cpu_of_an_instruction_set_has_it() -> None:
    for isa in each(tables().isas.values()):
        if isa.smallest:
            assert features(isa.flags) <= features(isa.smallest), isa.name
        assert all(one.system == isa.system for one in tables().emulators_of(isa))


@pytest.mark.parametrize(
    ("machine", "isa", "more"),
    [
        ("sandy-bridge", "avx", False),
        ("haswell", "avx", True),
        ("haswell", "avx2", False),
        ("skylake-sp", "avx512", False),
        ("cascade-lake", "avx512", True),
        ("graviton2", "armv8_2", False),
        ("graviton3", "armv8_2", True),  # SVE
    ],
)
def test_which_machines_have_more_than_an_instruction_set(machine: str, isa: str, more: bool) -> None:
    assert bool(beyond(tables().isa(isa), known(machine).flags)) is more


@pytest.mark.parametrize(
    ("isa", "line"),
    [
        ("avx", "vaddps %ymm0,%ymm1,%ymm2"),
        ("avx2", "vpaddd %ymm0,%ymm1,%ymm2"),
        ("avx2", "vfmadd231ps %xmm0,%xmm1,%xmm2"),
        ("avx2", "pdep   %rax,%rbx,%rcx"),
        ("avx512", "vpaddd %zmm0,%zmm1,%zmm2"),
        ("avx512", "vmovdqu8 %ymm16,(%rax)"),
        ("avx512vnni", "vpdpbusd %zmm0,%zmm1,%zmm2"),
        ("avx512bf16", "vdpbf16ps %zmm0,%zmm1,%zmm2"),
        ("armv8_2", "udot\tv0.4s, v1.16b, v2.16b"),
        ("armv8_2", "fadd\tv0.8h, v1.8h, v2.8h"),
        ("armv9", "add\tz0.s, z0.s, z1.s"),
    ],
)
def test_instructions_as_objdump_writes_them(isa: str, line: str) -> None:
    assert re.search(tables().isa(isa).instructions, line)


@pytest.mark.parametrize("line", ["vpermilps $0x4,%ymm0,%ymm1", "vptest %ymm0,%ymm1", "vpaddd %xmm0,%xmm1,%xmm2"])
def test_instructions_of_avx_are_not_taken_for_avx2(line: str) -> None:
    assert not re.search(tables().isa("avx2").instructions, line)
