"""A family with a module of its own reads and judges its machines; one without knows nothing of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from ci_compiler.hardware import Version, families, tables
from ci_compiler.hardware.families import FAMILIES, Family, family_of, machines
from ci_compiler.hardware.families.machines import Attempt, Machines, UsedDevice, known_machines, machines_of
from ci_compiler.hardware.machine import GpuDevice
from ci_compiler.judgement import ok
from ci_compiler.runner.detect.recorded import machine
from tests.runner.machines import recorded

NPU = Family(
    name="npu",
    title="NPU",
    machines=lambda: Machines(
        record=lambda root: f"a card below {root}",
        devices=lambda text: (
            (GpuDevice(index=0, name=text, capability=Version(1, 0), target="n200", family="npu"),),
            ("a second card does not answer",),
        ),
        attempts=lambda **_: [Attempt("libnpu.so", linked=True, devices=(UsedDevice("card", Version(1, 0)),))],
        usable=lambda tried, **_: ok(f"{len(tried[0].devices)} through {tried[0].library}"),
        options=lambda engine, gpus: [f"--{engine}-npu", *gpus],
    ),
)


@pytest.fixture
def npu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machines]:
    """What a module `npu` in `hardware/families` says."""
    monkeypatch.setitem(sys.modules, f"{families.__name__}.npu", SimpleNamespace(FAMILY=NPU))
    for module in (families, machines):
        monkeypatch.setattr(module, "FAMILIES", (*FAMILIES, "npu"))
    for cached in (family_of, known_machines):
        cached.cache_clear()
    yield machines_of("npu")
    for cached in (family_of, known_machines):
        cached.cache_clear()


def test_its_module_alone_says_what_its_machines_have(npu: Machines) -> None:
    said = {family: known.record(Path("/nowhere")) for family, known in known_machines().items()}
    assert said["npu"] == "a card below /nowhere"
    found = machine(recorded("h200", gpus=recorded("h200").gpus | {"npu": said["npu"]}), tables())
    assert [(one.family, one.sm) for one in found.gpus] == [("cuda", "sm90"), ("npu", "n200")]
    assert found.problems == ("a second card does not answer",)
    assert npu.usable(tuple(npu.attempts()), reads_loader_cache=False) == ok("1 through libnpu.so")
    assert npu.options("podman", ["a"]) == ["--podman-npu", "a"]


def test_nothing_is_claimed_of_a_family_without_one() -> None:
    family = "unheard-of"
    known = machines_of(family)
    judged = known.usable(tuple(known.attempts()), reads_loader_cache=True)
    assert judged.message == f"nothing is known of machines with {family_of(family).title}"
    assert (known.devices(known.record(Path("/"))), known.options("docker", ("all",))) == (((), ()), [])
