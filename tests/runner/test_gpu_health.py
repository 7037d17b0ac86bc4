"""The health of GPUs from recorded answers of nvidia-smi and the kernel's log, and the doctor's judgement of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_compiler.hardware.families.cuda.devices import GpuTexts, with_state
from ci_compiler.hardware.machine import GpuDevice
from ci_compiler.runner.doctor.diagnosis import examine
from tests.runner.machines import known

from .test_doctor import evidence, failures, with_driver, work

HEALTHY = GpuTexts(
    health="0, GPU-5d5ba0d6, 00000000:4E:00.0, 0\n1, GPU-11111111, 00000000:5F:00.0, 0\n",
    remapped="GPU-5d5ba0d6, No, No\nGPU-11111111, No, No\n",
    listed="GPU 0: NVIDIA H200 (UUID: GPU-5d5ba0d6)\nGPU 1: NVIDIA H200 (UUID: GPU-11111111)\n",
    kernel_log="[    5.1] NVRM: loading NVIDIA UNIX Open Kernel Module\n",
)
RECOVERY = "the driver asks for a recovery"
ASKED = "[ 99.2] NVRM: Xid (PCI:0000:4e:00): 154, GPU recovery action changed from 0x0 (None) to {}\n"
XID = "[ 99.1] NVRM: Xid (PCI:0000:4e:00): {}, pid=1, name=python3\n"


def h200(**changes: str) -> GpuDevice:
    [device] = known("h200").gpus
    return with_state(device, HEALTHY._replace(**changes))


def test_a_healthy_gpu_has_an_identity_and_no_fault() -> None:
    assert (h200().uuid, h200().units, h200().faults) == ("GPU-5d5ba0d6", ("GPU-5d5ba0d6",), ())


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"health": "0, GPU-5d5ba0d6, 00000000:4E:00.0, 3"}, "3 uncorrected memory errors since the driver was loaded"),
        ({"remapped": "GPU-5d5ba0d6, Yes, No"}, "rows of its memory wait to be remapped"),
        ({"remapped": "GPU-5d5ba0d6, No, Yes"}, "rows of its memory could not be remapped, so it must be replaced"),
        ({"kernel_log": XID.format(79) * 2}, "Xid 79 since boot (it has fallen off the bus)"),
        ({"kernel_log": XID.format(119)}, "Xid 119 since boot (its system processor (GSP) does not answer)"),
        ({"kernel_log": XID.format(74)}, "Xid 74 since boot (an NVLink failed)"),
        ({"kernel_log": XID.format(109)}, "Xid 109 since boot (a context switch timed out)"),
        ({"kernel_log": XID.format(110)}, "Xid 110 since boot (security fault)"),
        ({"kernel_log": XID.format(143)}, "Xid 143 since boot (its initialization failed)"),
        ({"kernel_log": XID.format(158)}, "Xid 158 since boot (it did not respond in time)"),
        ({"kernel_log": ASKED.format("0x2 (Node Reboot Required)")}, f"{RECOVERY}: Node Reboot Required"),
        ({"kernel_log": ASKED.format("0x2 (OS Reboot)")}, f"{RECOVERY}: OS Reboot"),
        ({"recovery": "0, Drain and Reset\n1, None\n"}, f"{RECOVERY}: Drain and Reset"),
        ({"recovery": "0, Reset\n", "kernel_log": ASKED.format("0x1 (Reset)")}, f"{RECOVERY}: Reset"),
        ({"state": "0, Disabled, Enabled, N/A, N/A\n"}, "its MIG mode is Disabled, and Enabled after the next reset"),
        ({"state": "0, Disabled, Disabled, In Progress, N/A\n"}, "its NVLink fabric is not ready: In Progress"),
        (
            {"state": "0, Disabled, Disabled, Completed, Insufficient Resources\n"},
            "its NVLink fabric does not accept it: Insufficient Resources",
        ),
        (
            {"health": "0, GPU-5d5ba0d6, 00000000:4E:00.0, [GPU requires reset]"},
            "nvidia-smi reads no memory errors of it: GPU requires reset",
        ),
        (
            {"health": "0, GPU-5d5ba0d6, 00000000:4E:00.0, [Unknown Error]"},
            "nvidia-smi reads no memory errors of it: Unknown Error",
        ),
    ],
)
def test_a_fault_is_found_and_fails_the_doctor(changes: dict[str, str], fault: str) -> None:
    sick = h200(**changes)
    assert sick.faults == (fault,)
    healthy = with_driver("h200", "580.95.05")
    found = failures(work("gpu-test"), evidence(gpus=(replace(healthy[0], faults=sick.faults),)))
    assert found == {"gpu-health": f"GPU 0 (NVIDIA H200): {fault}"}


@pytest.mark.parametrize(
    "changes",
    [
        {"kernel_log": XID.format(79).replace("4e", "5f")},
        {"kernel_log": XID.format(31) + XID.format(13) + XID.format(43) + XID.format(45) + XID.format(94)},
        {"kernel_log": XID.format(119) + ASKED.format("0x1 (Reset)") + ASKED.format("0x0 (None)")},
        {"kernel_log": XID.format(79) + HEALTHY.kernel_log},
        {"kernel_log": ASKED.replace("4e", "5f").format("0x2 (Node Reboot Required)")},
        {"kernel_log": XID.format(154)},
        {"recovery": "0, None\n1, Reset\n"},
        {"state": "0, Disabled, Disabled, N/A, N/A\n1, Disabled, Enabled, In Progress, N/A\n"},
        {"state": "0, [N/A], [N/A], [N/A], [N/A]\n"},
        {"state": "0, Enabled, Enabled, Completed, Success\n"},
        {"recovery": "0, [N/A]\n"},
        {"recovery": 'Field "gpu_recovery_action" is not a valid field to query.'},
        {"health": "0, GPU-5d5ba0d6, 00000000:4E:00.0, [N/A]", "remapped": "GPU-5d5ba0d6, [N/A], [N/A]"},
        {"health": "", "remapped": "", "listed": "", "kernel_log": ""},
    ],
)
def test_what_is_no_fault_of_the_gpu_does_not_count(changes: dict[str, str]) -> None:
    """Faults of other GPUs, those before a recovery, errors of programs, and what an older driver does not report."""
    assert h200(**changes).faults == ()


@pytest.mark.parametrize(
    ("changes", "verdict", "message"),
    [
        ({}, "ok", "no fault in: memory errors, pending remappings, the kernel's log"),
        ({"kernel_log": ""}, "ok", "no fault in: memory errors, pending remappings; not readable: the kernel's log"),
        ({"remapped": ""}, "ok", "no fault in: memory errors, the kernel's log; not readable: pending remappings"),
        (
            {"health": "0, GPU-5d5ba0d6, 00000000:4E:00.0, [N/A]", "remapped": "GPU-5d5ba0d6, [N/A], [N/A]"},
            "ok",
            "no fault in: the kernel's log; not readable: memory errors, pending remappings",
        ),
        ({"health": ""}, "skipped", "not readable: memory errors, pending remappings, the kernel's log"),
        (
            {"health": "0, GPU-5d5ba0d6, 00000000:4E:00.0, [N/A]", "remapped": "", "kernel_log": ""},
            "skipped",
            "not readable: memory errors, pending remappings, the kernel's log",
        ),
    ],
)
def test_the_doctor_claims_no_health_of_what_it_could_not_read(
    changes: dict[str, str], verdict: str, message: str
) -> None:
    shown = replace(with_driver("h200", "580.95.05")[0], unread=h200(**changes).unread)
    found = examine(work("gpu-test"), evidence(gpus=(shown,)))["gpu-health"]
    assert (found.verdict.value, found.message) == (verdict, message)


def test_the_slices_of_a_gpu_are_its_units() -> None:
    listed = """\
GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-5d5ba0d6)
  MIG 3g.40gb     Device  0: (UUID: MIG-aaaa)
  MIG 3g.40gb     Device  1: (UUID: MIG-bbbb)
GPU 1: NVIDIA A100-SXM4-80GB (UUID: GPU-11111111)
  MIG 7g.80gb     Device  0: (UUID: MIG-cccc)
"""
    [device] = known("mig").gpus
    assert with_state(device, HEALTHY._replace(listed=listed)).units == ("MIG-aaaa", "MIG-bbbb")
    assert with_state(device, HEALTHY).units == ()


@given(text=st.text(max_size=200))
def test_no_text_breaks_the_reading(text: str) -> None:
    [device] = known("h200").gpus
    row = f"0, {text}, {text}, {text}"
    with_state(device, GpuTexts(health=row, remapped=text, listed=text, kernel_log=XID.format(text), recovery=text))
    with_state(device, HEALTHY._replace(kernel_log=ASKED.format(text), recovery=f"0, {text}"))
