"""What a test proves of an instruction set: real code, built by a real compiler, on a real emulator.

The machine is a recorded one with AVX-512. The code of the package runs on this machine's CPU first, which needs AVX2.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.plan.proof import Reach
from ci_compiler.runner.jobs import emulation, smoke
from tests.checkers.tools import require, unavailable
from tests.runner.jobs.world import PYTHON, World, ci_runner
from tests.runner.machines import known

AVX = f"odd-python{PYTHON.replace('.', '')}-cpu-avx"
AVX2_INSTRUCTION = 'asm volatile("vpaddd %ymm0, %ymm1, %ymm2");'  # compilers scalarise intrinsics
AVX_INSTRUCTION = 'asm volatile("vaddps %ymm0, %ymm1, %ymm2");'

SOURCE = """\
int called(void) {{ {called} return 1; }}
int hidden(void) {{ {hidden} return 1; }}
"""

MODULE = """\
import ctypes, pathlib
__version__ = "1.0"
library = ctypes.CDLL(str(pathlib.Path(__file__).with_name("libodd.so")))
assert library.called() == 1
"""


def package(world: World, name: str = AVX, *, called: str = AVX_INSTRUCTION, hidden: str = AVX_INSTRUCTION) -> None:
    """Builds a package that loads a library and calls one of its functions, and another library that it never loads."""
    for tool in ("cc", "objdump"):
        require(tool)
    if "avx2" not in Path("/proc/cpuinfo").read_text("utf-8"):
        unavailable("this CPU has no AVX2")
    pkgs = world.root / ".flox" / "pkgs"
    (pkgs / "source").mkdir()
    (pkgs / "source" / "odd.c").write_text(SOURCE.format(called=called, hidden=hidden), "utf-8")
    (pkgs / "source" / "__init__.py").write_text(MODULE, "utf-8")
    common = 'system = builtins.currentSystem; builder = "/bin/sh"; PATH = "/usr/bin:/bin"; src = ./source;'
    (pkgs / "python.nix").write_text(
        f'{{ ... }}: derivation {{ name = "python-{PYTHON}"; {common}\n'
        f'args = [ "-e" "-c" "mkdir -p $out/bin; ln -s {Path(sys.executable).resolve()} $out/bin/python{PYTHON}" ]; }}',
        "utf-8",
    )
    script = f"""
      site=$out/lib/python{PYTHON}/site-packages/odd_one; mkdir -p $site $out/nix-support
      cc -O1 -mavx -shared -fPIC $src/odd.c -o $site/libodd.so
      cc -O1 -mavx -shared -fPIC $src/odd.c -o $site/libunused.so
      cp $src/__init__.py $site/
      echo $python >$out/nix-support/propagated-build-inputs"""
    world.write(
        name,
        f'{{ ... }}: derivation {{ name = "{name}-1.0"; {common}\n'
        f"python = import ./python.nix {{ }}; args = [ \"-e\" \"-c\" ''{script}'' ]; }}\n",
    )
    world.commit()
    assert world.build(name) == 0


def outcome(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str = AVX, machine: str = "h200"
) -> tuple[int, dict[str, Any]]:
    """The exit code of the test on a recorded machine, and its report with the checks by name."""
    monkeypatch.setattr(smoke, "this_machine", lambda *_, **__: known(machine))
    code = ci_runner("smoke", name, "--manifest", "build-output/manifest.json")
    report: dict[str, Any] = json.loads((world.root / "test-output/result.json").read_text("utf-8"))
    return code, report | {"checks": {one["check"]: one for one in report["checks"]}}


def test_an_instruction_beyond_the_instruction_set_fails_the_test(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    require("qemu-x86_64")
    package(world, called=AVX2_INSTRUCTION)
    code, report = outcome(world, monkeypatch)
    assert (code, report["passed"]) == (1, False)
    assert report["checks"]["import"]["verdict"] == "ok", "this CPU has the instruction"
    emulated = report["checks"]["emulated-cpu"]
    assert emulated["verdict"] == "failed"
    assert emulated["message"].startswith(
        "import executes an instruction that avx lacks, so that it fails on a CPU with no more than avx: "
        "illegal instruction under QEMU's SandyBridge; in <module>, "
    )
    assert "odd_one/__init__.py:4" in emulated["message"]
    assert f"{AVX}: emulated-cpu: import executes an instruction" in capsys.readouterr().err
    assert f"| {AVX} | cpu-test | failed |" in world.summary


def test_an_instruction_in_code_that_the_test_does_not_call_is_named_as_not_covered(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("qemu-x86_64")
    package(world, hidden=AVX2_INSTRUCTION)
    code, report = outcome(world, monkeypatch)
    assert (code, report["reach"]) == (0, Reach.EMULATED)
    checks = report["checks"]
    assert checks["emulated-cpu"]["message"] == "2 of 2 checks passed under QEMU's SandyBridge"
    said = checks["instructions-not-covered"]
    assert said["verdict"] == "skipped"
    assert said["message"] == (
        "2 functions (hidden in libodd.so (avx2), hidden in libunused.so (avx2)) with instructions beyond avx; "
        "the test did not execute them"
    )
    site = f"lib/python{PYTHON}/site-packages"
    assert checks["libraries-not-loaded"]["message"] == f"1 file ({site}/odd_one/libunused.so)"
    assert f"| {AVX} | cpu-test | passed (imported only, instruction set emulated) |" in world.summary


def test_a_package_that_stays_within_its_instruction_set_has_no_such_notice(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("qemu-x86_64")
    package(world)
    code, report = outcome(world, monkeypatch)
    assert (code, report["reach"]) == (0, Reach.EMULATED)
    assert report["checks"]["instructions-not-covered"]["verdict"] == "ok"


def test_what_passed_on_a_larger_cpu_alone_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    package(world, called=AVX2_INSTRUCTION)
    monkeypatch.setattr(emulation, "located", lambda name, **_: None if "qemu" in name or "sde" in name else name)
    code, report = outcome(world, monkeypatch)
    assert (code, report["reach"]) == (0, Reach.LARGER)
    assert report["reach_because"].endswith("; qemu-x86_64 is not on PATH and sde64 is not on PATH")
    emulated = report["checks"]["emulated-cpu"]
    assert (emulated["verdict"], emulated["message"].partition(":")[0]) == ("skipped", "on a larger CPU")
    assert f"| {AVX} | cpu-test | passed (imported only, on a larger CPU) |" in world.summary


def test_on_a_cpu_with_no_more_than_the_instruction_set_nothing_is_emulated(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(world)
    code, report = outcome(world, monkeypatch, machine="sandy-bridge")
    assert (code, report["reach"]) == (0, Reach.OWN)
    assert "emulated-cpu" not in report["checks"]
    assert f"| {AVX} | cpu-test | passed (imported only) |" in world.summary
