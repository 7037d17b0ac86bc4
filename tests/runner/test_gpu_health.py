"""The health of GPUs from recorded answers of nvidia-smi and the kernel's log, and the doctor's judgement of it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_compiler.hardware.families.cuda.devices import IDENTITY, NEWER, STATE, GpuTexts, gpu_texts, gpus
from ci_compiler.hardware.families.machines import found_in
from ci_compiler.hardware.machine import GpuDevice, UnlistedGpu
from ci_compiler.hardware.texts import Answer
from ci_compiler.runner.doctor.diagnosis import examine

from .test_doctor import evidence, failures, with_driver, work

FIELDS = (*IDENTITY, *STATE, *(field for group in NEWER for field in group))
VALUES = "0, NVIDIA H200, 9.0, 143771, 580.95.05, Disabled, GPU-5d5ba0d6, 00000000:4E:00.0, 0, Disabled, None, N/A, N/A"
ROW = dict(zip(FIELDS, [*VALUES.split(", "), "No", "No"], strict=True))
OTHER = ROW | {"index": "1", "uuid": "GPU-11111111", "pci.bus_id": "00000000:5F:00.0"}
BUS = ("0000:4e:00.0", "0000:5f:00.0")
ECC, PENDING, FAILURE = "ecc.errors.uncorrected.volatile.total", "remapped_rows.pending", "remapped_rows.failure"
HEALTHY_LOG = "[    5.1] NVRM: loading NVIDIA UNIX Open Kernel Module\n"
RECOVERY = "the driver asks for a recovery"
ASKED = "[ 99.2] NVRM: Xid (PCI:0000:4e:00): 154, GPU recovery action changed from 0x0 (None) to {}\n"
XID = "[ 99.1] NVRM: Xid (PCI:0000:4e:00): {}, pid=1, name=python3\n"
LOG = "kernel_log"


def rows(*found: dict[str, str]) -> str:
    return "".join(", ".join(row.values()) + "\n" for row in found)


def said(*found: dict[str, str] | str, log: str = HEALTHY_LOG, status: int = 0, bus: tuple[str, ...] = BUS) -> GpuTexts:
    """What a machine says: rows of nvidia-smi and other lines."""
    out = "".join(rows(one) if isinstance(one, dict) else f"{one}\n" for one in found)
    return GpuTexts(smi=Answer(status, out), controllers=bus, fields=FIELDS, kernel_log=log)


def h200(changes: dict[str, str]) -> GpuDevice:
    """The first of two GPUs, with `changes` to its row, to that of the other one (`other`), and to the log."""
    log, other = changes.get(LOG, HEALTHY_LOG), changes.get("other", "")
    own = ROW | {key: text for key, text in changes.items() if key not in {LOG, "other"}}
    return gpus(said(own, OTHER | {"gpu_recovery_action": other or "None"}, log=log))[0][0]


def test_a_healthy_gpu_has_an_identity_and_no_fault() -> None:
    healthy = h200({})
    assert (healthy.uuid, healthy.units, healthy.faults) == ("GPU-5d5ba0d6", ("GPU-5d5ba0d6",), ())


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({ECC: "3"}, "3 uncorrected memory errors since the driver was loaded"),
        ({PENDING: "Yes"}, "rows of its memory wait to be remapped"),
        ({FAILURE: "Yes"}, "rows of its memory could not be remapped, so it must be replaced"),
        ({LOG: XID.format(79) * 2}, "Xid 79 since boot (it has fallen off the bus)"),
        ({LOG: XID.format(119)}, "Xid 119 since boot (its system processor (GSP) does not answer)"),
        ({LOG: XID.format(74)}, "Xid 74 since boot (an NVLink failed)"),
        ({LOG: XID.format(109)}, "Xid 109 since boot (a context switch timed out)"),
        ({LOG: XID.format(110)}, "Xid 110 since boot (security fault)"),
        ({LOG: XID.format(143)}, "Xid 143 since boot (its initialization failed)"),
        ({LOG: XID.format(158)}, "Xid 158 since boot (it did not respond in time)"),
        ({LOG: ASKED.format("0x2 (Node Reboot Required)")}, f"{RECOVERY}: Node Reboot Required"),
        ({LOG: ASKED.format("0x2 (OS Reboot)")}, f"{RECOVERY}: OS Reboot"),
        ({"gpu_recovery_action": "Drain and Reset"}, f"{RECOVERY}: Drain and Reset"),
        ({"gpu_recovery_action": "Reset", LOG: ASKED.format("0x1 (Reset)")}, f"{RECOVERY}: Reset"),
        ({"mig.mode.pending": "Enabled"}, "its MIG mode is Disabled, and Enabled after the next reset"),
        ({"fabric.state": "In Progress"}, "its NVLink fabric is not ready: In Progress"),
        (
            {"fabric.state": "Completed", "fabric.status": "Insufficient Resources"},
            "its NVLink fabric does not accept it: Insufficient Resources",
        ),
        ({ECC: "[GPU requires reset]"}, "nvidia-smi reads no memory errors of it: GPU requires reset"),
        ({ECC: "[Unknown Error]"}, "nvidia-smi reads no memory errors of it: Unknown Error"),
    ],
)
def test_a_fault_is_found_and_fails_the_doctor(changes: dict[str, str], fault: str) -> None:
    sick = h200(changes)
    assert sick.faults == (fault,)
    healthy = with_driver("h200", "580.95.05")
    found = failures(work("gpu-test"), evidence(gpus=(replace(healthy[0], faults=sick.faults),)))
    assert found == {"gpu-health": f"GPU 0 (NVIDIA H200): {fault}"}


@pytest.mark.parametrize(
    "changes",
    [
        {LOG: XID.format(79).replace("4e", "5f")},
        {LOG: XID.format(31) + XID.format(13) + XID.format(43) + XID.format(45) + XID.format(94)},
        {LOG: XID.format(119) + ASKED.format("0x1 (Reset)") + ASKED.format("0x0 (None)")},
        {LOG: XID.format(79) + HEALTHY_LOG},
        {LOG: ASKED.replace("4e", "5f").format("0x2 (Node Reboot Required)")},
        {LOG: XID.format(154)},
        {"other": "Reset"},
        {"mig.mode.current": "[N/A]", "mig.mode.pending": "[N/A]", "fabric.state": "[N/A]", "fabric.status": "[N/A]"},
        {"mig.mode.current": "Enabled", "mig.mode.pending": "Enabled", "fabric.state": "Completed"},
        {"gpu_recovery_action": "[N/A]"},
        {ECC: "[N/A]", PENDING: "[N/A]", FAILURE: "[N/A]"},
        {LOG: ""},
    ],
)
def test_what_is_no_fault_of_the_gpu_does_not_count(changes: dict[str, str]) -> None:
    """Faults of other GPUs, those before a recovery, errors of programs, and what an older driver does not report."""
    assert h200(changes).faults == ()


@pytest.mark.parametrize(
    ("changes", "verdict", "message"),
    [
        ({}, "ok", "no fault in: memory errors, pending remappings, the kernel's log"),
        ({LOG: ""}, "ok", "no fault in: memory errors, pending remappings; not readable: the kernel's log"),
        ({PENDING: ""}, "ok", "no fault in: memory errors, the kernel's log; not readable: pending remappings"),
        (
            {ECC: "[N/A]", PENDING: "[N/A]", FAILURE: "[N/A]"},
            "ok",
            "no fault in: the kernel's log; not readable: memory errors, pending remappings",
        ),
        (
            {ECC: "[N/A]", PENDING: "", LOG: ""},
            "skipped",
            "not readable: memory errors, pending remappings, the kernel's log",
        ),
    ],
)
def test_the_doctor_claims_no_health_of_what_it_could_not_read(
    changes: dict[str, str], verdict: str, message: str
) -> None:
    shown = replace(with_driver("h200", "580.95.05")[0], unread=h200(changes).unread)
    found = examine(work("gpu-test"), evidence(gpus=(shown,)))["gpu-health"]
    assert (found.verdict.value, found.message) == (verdict, message)


def test_a_gpu_of_which_only_the_identity_is_known_has_no_health() -> None:
    only = GpuTexts(smi=Answer(0, ", ".join(list(ROW.values())[:6])), kernel_log=HEALTHY_LOG)
    [device] = gpus(only)[0]
    assert (device.uuid, device.unread) == ("", ("memory errors", "pending remappings", "the kernel's log"))


def test_no_health_is_claimed_where_no_gpu_answers() -> None:
    found = examine(work("gpu-test"), evidence(gpus=(), problems=("nvidia-smi: it hangs",)))["gpu-health"]
    assert (found.verdict.value, found.message) == (
        "skipped",
        "no GPU answers, so nothing could be read of their health",
    )
    amd = replace(with_driver("h200", "580.95.05")[0], family="rocm", target="gfx942")
    found = examine(work("gpu-test"), evidence(gpus=(amd,)))["gpu-health"]
    assert found.verdict.value == "skipped", "the GPUs of another family prove nothing"


# Lines that are no rows, statuses, and GPUs that are missing.

WARNING = "WARNING: infoROM is corrupted at gpu 0000:4E:00.0"
LOST = "Unable to determine the device handle for GPU1: 0000:5F:00.0: Unknown Error"


@pytest.mark.parametrize("line", [WARNING, "infoROM is corrupted at gpu 0000:4E:00.0", "WARNING: something is odd"])
@pytest.mark.parametrize("status", [0, 14])
def test_a_warning_hides_neither_gpus_nor_faults(line: str, status: int) -> None:
    sick = OTHER | {ECC: "5", PENDING: "Yes"}
    found = found_in("cuda", said(ROW, sick, line, log=XID.format(79).replace("4e", "5f"), status=status))
    assert [gpu.uuid for gpu in found.gpus] == ["GPU-5d5ba0d6", "GPU-11111111"]
    assert (found.gpus[0].faults, len(found.gpus[1].faults)) == ((), 3)
    assert (found.problems, found.unlisted) == ((), ())
    assert found.gpus[0].remarks == (f"nvidia-smi: {line}",)
    assert bool(found.gpus[1].remarks) == ("4E" not in line), "the one that it names, or all"
    healthy = (replace(with_driver("h200", "580.95.05")[0], remarks=found.gpus[0].remarks),)
    results = examine(work("gpu-test"), evidence(gpus=healthy))
    assert results["gpu"].verdict.value == "ok"
    assert results["gpu"].message.endswith(f"; nvidia-smi: {line}")


def test_a_line_in_place_of_a_gpu_is_a_problem_of_that_gpu_alone() -> None:
    found = found_in("cuda", said(ROW, LOST, log=XID.format(79).replace("4e", "5f"), status=15))
    assert [(gpu.uuid, gpu.faults, gpu.remarks) for gpu in found.gpus] == [("GPU-5d5ba0d6", (), ())]
    assert found.problems == (f"nvidia-smi: {LOST}",)
    gone = UnlistedGpu(family="cuda", address=BUS[1], faults=("Xid 79 since boot (it has fallen off the bus)",))
    assert found.unlisted == (gone,)
    shown = evidence(gpus=with_driver("h200", "580.95.05"), problems=found.problems, unlisted=found.unlisted)
    results = examine(work("gpu-test"), shown)
    assert results["gpu-health"].message == f"GPU {BUS[1]}: {gone.faults[0]}"
    for check in ("gpu", "gpu-health"):
        assert results[check].verdict.value == "failed"
        assert results[check].fix.startswith("restart the machine"), "no driver is to be installed"


def test_a_gpu_on_the_bus_that_no_tool_lists_is_said() -> None:
    found = found_in("cuda", said(ROW))
    assert [str(one) for one in found.unlisted] == [f"{BUS[1]} is on the PCI bus, and nvidia-smi does not list it"]
    assert found.problems == ()
    judged = examine(work("gpu-test"), evidence(gpus=with_driver("h200", "580.95.05"), unlisted=found.unlisted))["gpu"]
    assert judged.verdict.value == "ok", "a container sees the whole bus, and only its own GPUs"
    assert judged.message.endswith(f"; {found.unlisted[0]}")
    without = GpuTexts(smi=Answer(0, ", ".join(list(ROW.values())[:6])), controllers=BUS)
    assert found_in("cuda", without).unlisted == (), "an address that was not read is not missing"


ASKS = """#!/usr/bin/env python3
import sys
print(*sys.argv[1:], file=open("{folder}/asked", "a"))
row, refused, lost = {row}, {refused}, {lost}
query = next((word.partition("=")[2].split(",") for word in sys.argv if word.startswith("--query-gpu=")), [])
if bad := [field for field in query if field in refused]:
    raise SystemExit(print(f'Field "{{bad[0]}}" is not a valid field to query.\\n') or 2)
if "--id=0000:5f:00.0" in sys.argv or (lost and not any(word.startswith("--id=") for word in sys.argv)):
    raise SystemExit(print("Unable to determine the device handle for GPU1: 0000:5F:00.0: Unknown Error") or 15)
print(", ".join(row[field] for field in query) or "GPU-5d5ba0d6, Yes, No")
raise SystemExit(14)
"""


def asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, refused: tuple[str, ...] = (), lost: bool = False
) -> tuple[GpuTexts, list[str]]:
    """What a machine with a GPU, or with a second one that is lost, says, and the questions to nvidia-smi."""
    for address in BUS[: 1 + lost]:
        device = tmp_path / "sys/bus/pci/devices" / address
        device.mkdir(parents=True)
        (device / "vendor").write_text("0x10de\n", "utf-8")
        (device / "class").write_text("0x030200\n", "utf-8")
    program = tmp_path / "nvidia-smi"
    program.write_text(ASKS.format(folder=tmp_path, row=ROW, refused=refused, lost=lost), "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    texts = gpu_texts(tmp_path)
    return texts, (tmp_path / "asked").read_text("utf-8").splitlines()


def test_the_driver_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without persistence mode, each question takes nine seconds."""
    texts, questions = asked(tmp_path, monkeypatch)
    assert len(questions) == 1
    assert [gpu.uuid for gpu in gpus(texts)[0]] == ["GPU-5d5ba0d6"]


def test_an_older_driver_is_asked_for_what_it_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = ("gpu_recovery_action", "fabric.state", "remapped_rows.pending", "remapped_rows.failure")
    texts, questions = asked(tmp_path, monkeypatch, refused=refused)
    assert len(questions) == 5
    assert gpus(texts)[0][0].faults == ("rows of its memory wait to be remapped",)


def test_the_neighbours_of_a_lost_gpu_are_asked_apart_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts, questions = asked(tmp_path, monkeypatch, lost=True)
    assert sorted(question.split()[0] for question in questions[1:]) == [f"--id={address}" for address in BUS]
    found = found_in("cuda", texts)
    assert [(gpu.uuid, gpu.remarks) for gpu in found.gpus] == [("GPU-5d5ba0d6", ())]
    assert found.problems == (f"nvidia-smi: {LOST}",)
    assert [one.address for one in found.unlisted] == [BUS[1]]


def test_pending_remappings_may_come_from_a_question_of_their_own() -> None:
    fields = FIELDS[:-2]
    row = ", ".join(ROW[field] for field in fields)
    texts = GpuTexts(smi=Answer(0, row), fields=fields, remapped="GPU-11111111, No, No\nGPU-5d5ba0d6, Yes, No\n")
    assert gpus(texts)[0][0].faults == ("rows of its memory wait to be remapped",)


def test_what_the_doctor_says_first_ends_every_finding() -> None:
    """A reset leaves no line in the log of older drivers, while a start of the machine or of the driver does."""
    fix = examine(work("gpu-test"), evidence(gpus=(h200({LOG: XID.format(119)}),)))["gpu-health"].fix
    assert fix.startswith("restart the machine, or unload and load NVIDIA's driver")
    assert h200({LOG: XID.format(119) + HEALTHY_LOG}).faults == ()


def test_the_slices_of_a_gpu_are_its_units() -> None:
    listed = """\
GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-5d5ba0d6)
  MIG 3g.40gb     Device  0: (UUID: MIG-aaaa)
  MIG 3g.40gb     Device  1: (UUID: MIG-bbbb)
GPU 1: NVIDIA A100-SXM4-80GB (UUID: GPU-11111111)
  MIG 7g.80gb     Device  0: (UUID: MIG-cccc)
"""
    mig = said(ROW | {"mig.mode.current": "Enabled", "mig.mode.pending": "Enabled"})
    assert gpus(mig._replace(listed=listed))[0][0].units == ("MIG-aaaa", "MIG-bbbb")
    assert gpus(mig)[0][0].units == ()


@given(text=st.text(max_size=200))
def test_no_text_breaks_the_reading(text: str) -> None:
    row = ROW | dict.fromkeys((*STATE, *FIELDS[-5:]), text)
    gpus(said(row, text, log=XID.format(text))._replace(remapped=text, listed=text))
    gpus(said(ROW | {"gpu_recovery_action": text}, log=ASKED.format(text)))
