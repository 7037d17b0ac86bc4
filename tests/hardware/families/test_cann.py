"""Machines with Huawei's NPUs, from public reports: targets, what people paste, detect, doctor, and containers.

None of them was used.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.documents.site.data import data
from ci_compiler.hardware import pasted, tables
from ci_compiler.hardware.families import family_of
from ci_compiler.hardware.families.cann import FAMILY
from ci_compiler.hardware.families.cann import machines as cann_machines
from ci_compiler.hardware.families.machines import machines_of
from ci_compiler.hardware.machine import Machine
from ci_compiler.hardware.texts import Answer
from ci_compiler.plan.machine_fit import fit
from ci_compiler.runner.controller.answers import NAME, matched
from ci_compiler.runner.deployment.kinds import deployment
from ci_compiler.runner.detect.recorded import machine
from ci_compiler.runner.doctor import hardware_checks
from ci_compiler.runner.doctor.diagnosis import work_of
from ci_compiler.runner.doctor.evidence import ClockReading, Evidence
from ci_compiler.stages import GPU_TEST
from tests.documents.test_finder import answers
from tests.hardware.families import runs, what_runs
from tests.plan.test_open_matrix import decided
from tests.runner.machines import recorded

TABLE: dict[str, Any] = json.loads(Path(__file__).with_name("cann_machines.json").read_bytes())
ROWS: dict[str, Any] = TABLE["machines"]
PASTED: list[list[str]] = TABLE["pasted"]

POOLS = {
    "arm": {"runs-on": ["self-hosted", "arm64", "builder"], "system": "aarch64-linux"},
    "npu": {
        "runs-on": ["self-hosted", "arm64", "npu"],
        "system": "aarch64-linux",
        "accelerator": "cann ascend910b",
        "gpus": 2,
        "cores": 1,
        "memory": 1,
        "disk": 1,
    },
}
TARGETS = ["cann 8.3 ascend910b", "cann 8.3 ascend910_93", "cann 8.3 ascend310p3"]
OPEN = decided({"values": {"platform": "aarch64-linux", "accelerator": ["cpu", *TARGETS]}}, runners=POOLS)


def said(name: str) -> Any:
    row = ROWS[name]
    smi = Answer(0, "\n".join(row["smi"]) + "\n") if row["smi"] else None
    return cann_machines.NpuTexts(bus=tuple(map(tuple, row["bus"])), smi=smi, nodes=tuple(row["nodes"]))


def of(name: str) -> Machine:
    return machine(recorded("grace", gpus={"cann": said(name)}), tables())


def test_code_runs_on_the_chips_of_its_series() -> None:
    built = "910b 910b4 910b2c 910b4-1 910_93 910_9391 910 910a 310p 310p3 310"
    asked = " ".join(f"ascend{one}" for one in built.split())
    assert what_runs(FAMILY, "ascend910b", asked) == ["ascend910b", "ascend910b4", "ascend910b2c", "ascend910b4-1"]
    assert what_runs(FAMILY, "ascend910_93", asked) == ["ascend910_93", "ascend910_9391"]
    assert what_runs(FAMILY, "ascend310p", asked) == ["ascend310p", "ascend310p3"]
    assert what_runs(FAMILY, "ascend910", asked) == ["ascend910", "ascend910a"]
    assert runs(FAMILY, "ascend910b", "all")
    assert runs(FAMILY, "ascend910b", "ascend310p1,ascend910b1")
    assert not any(map(FAMILY.is_target, ("", "910b", "Ascend910B1", "ascend910d", "ascend", "ascend910b1 ")))
    assert FAMILY.is_target(FAMILY.example)


@pytest.mark.parametrize("name", ROWS)
def test_a_recorded_machine_has_the_npus_of_the_report(name: str) -> None:
    found = of(name)
    assert [[one.target, one.name, one.uuid, one.memory >> 20] for one in found.gpus] == ROWS[name]["is"]
    assert [one.index for one in found.gpus] == list(range(len(found.gpus)))
    assert {one.driver for one in found.gpus} <= {ROWS[name]["driver"]}
    assert all(matched(NAME, one.uuid) == one.uuid for one in found.gpus)
    assert ROWS[name]["source"]
    assert ["on the PCI bus (0000:02:00.0)" in one for one in found.problems] == [True] * (name == "without-driver")


def judged(name: str, built: str, check: str) -> Any:
    variant = next(one.name for cell in OPEN.judged.cells for one in cell.variants if cell.target == built)
    work = work_of(OPEN.spec, stage=GPU_TEST, name=variant, pool=None)
    return getattr(hardware_checks, check)(work, Evidence(machine=of(name), clock=ClockReading(now=0)))


@pytest.mark.parametrize(
    ("name", "built", "check", "failing", "message"),
    [
        ("910b4", "ascend910b", "gpu_code", False, "Ascend 910B4 (ascend910b)"),
        ("310p3-duo", "ascend310p3", "gpu_code", False, "Ascend 310P3 (ascend310p)"),
        ("a3", "ascend910_93", "gpu_code", False, "Ascend 910 (ascend910_93)"),
        (
            "a3",
            "ascend910b",
            "gpu_code",
            True,
            "no GPU here runs code built for ascend910b; found: Ascend 910 (ascend910_93)",
        ),
        ("910a", "ascend910b", "gpu_code", True, "found: Ascend 910B (ascend910)"),
        ("sick-910b3", "ascend910b", "gpu_health", True, "GPU 1 (Ascend 910B3): npu-smi states the health Alarm"),
        ("910b4", "ascend910b", "gpu_health", False, "no fault in: the health that npu-smi states"),
        ("without-npu-smi", "ascend910b", "gpu_health", False, "not readable: the health that npu-smi states"),
        ("without-driver", "ascend910b", "gpu", True, "but the driver offers none"),
        ("910b4", "ascend910b", "driver", False, "nothing is known of the drivers that CANN 8.3 needs; here: 24.1.1"),
    ],
)
def test_the_doctor_judges_it(name: str, built: str, check: str, failing: bool, message: str) -> None:
    found = judged(name, built, check)
    assert (found.failed, message in found.message) == (failing, True), found


def test_a_pool_names_the_series() -> None:
    own = next(one for one in OPEN.spec.pools if one.name == "npu")
    assert fit(OPEN.spec.hardware, of("910b4"), own).missing == ()
    assert fit(OPEN.spec.hardware, of("a3"), own).missing == ("a GPU of ascend910b (there is ascend910_93)",)


def _read(text: str) -> str:
    hardware = OPEN.spec.hardware
    found = pasted.read(hardware, text)
    if found.problem:
        return "refused"
    gpus = pasted.machine(hardware, found).gpus
    assert {one.family for one in gpus} <= {"cann"}
    return " ".join(one.sm for one in gpus) or "none"


TEXTS = [*PASTED, *(["\n".join(row["smi"]), row["is"][0][0], row["source"]] for row in ROWS.values() if row["smi"])]


@pytest.mark.parametrize(("text", "series", "source"), TEXTS, ids=[row[2] for row in TEXTS])
def test_what_people_paste_names_its_series(text: str, series: str, source: str) -> None:
    assert _read(text) == series, source


def test_the_page_reads_it_as_select_does() -> None:
    found = answers(data(OPEN), [{"pasted": row[0]} for row in TEXTS])
    assert [one.get("gpu", "refused") for one in found] == [row[1] for row in TEXTS]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of a machine with two NPUs, and npu-smi."""
    for name in ("davinci1", "davinci0", "davinci_manager", "hisi_hdc"):
        (tmp_path / "dev").mkdir(exist_ok=True)
        (tmp_path / "dev" / name).touch()
    for address, number in ROWS["910b4"]["bus"]:
        folder = tmp_path / "sys/bus/pci/devices" / address
        folder.mkdir(parents=True)
        for name, value in zip(("vendor", "device"), number.split(":"), strict=True):
            (folder / name).write_text(f"0x{value}\n")
    (tmp_path / "usr/local/Ascend/driver").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "table").write_text("\n".join(ROWS["910b4"]["smi"]) + "\n")
    (tmp_path / "bin/npu-smi").write_text(f'#!/bin/sh\nwhile read -r line; do echo "$line"; done <{tmp_path}/table\n')
    (tmp_path / "bin/npu-smi").chmod(0o755)
    monkeypatch.setenv("PATH", os.fspath(tmp_path / "bin"))
    return tmp_path


def usable(root: Path) -> Any:
    return cann_machines.usable(tuple(cann_machines.attempts(root=root)), reads_loader_cache=True)


def test_this_machine_is_read_from_its_files_and_npu_smi(root: Path) -> None:
    known = machines_of("cann")
    gpus, problems = known.devices(known.record(root))
    assert [(one.sm, one.uuid, one.driver) for one in gpus] == [
        ("ascend910b", "davinci0", "24.1.1"),
        ("ascend910b", "davinci1", "24.1.1"),
    ]
    assert not problems
    assert usable(root).message == "Ascend 910B4, Ascend 910B4 through /dev/davinci* and npu-smi"
    (root / "table").write_text("DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\n")
    assert (usable(root).failed, "npu-smi lists no NPU: DrvMng" in usable(root).message) == (True, True)
    (root / "bin/npu-smi").unlink()
    assert usable(root).message == "Huawei NPU 19e5:d802, Huawei NPU 19e5:d802 through /dev/davinci*"
    assert machines_of("cann").record(root / "nowhere") == cann_machines.NpuTexts()


def test_device_files_that_are_closed_are_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, _: not str(path).endswith("hisi_hdc"))
    assert (usable(root).failed, usable(root).message) == (True, "this user may not read and write /dev/hisi_hdc")


def test_a_slot_gets_its_npu_and_what_all_share(root: Path) -> None:
    words = cann_machines.options("docker", ("davinci1",), root)
    shared = ["--device", "/dev/davinci_manager", "--device", "/dev/hisi_hdc"]
    assert words[:6] == ["--device", "/dev/davinci1", *shared]
    assert words[-1] == "--volume=/usr/local/Ascend/driver:/usr/local/Ascend/driver:ro"
    assert [word for word in cann_machines.options("docker", ("all",), root) if "davinci" in word] == [
        *("/dev/davinci0", "/dev/davinci1", "/dev/davinci_manager")
    ]
    assert "huawei.com/npu=../sda" in cann_machines.options("docker", ("../sda",), root)
    assert cann_machines.options("docker", (), root) == []


def test_a_pod_asks_for_its_series() -> None:
    pools = POOLS | {
        "duo": POOLS["npu"] | {"runs-on": ["self-hosted", "arm64", "duo"], "accelerator": "cann ascend310p"}
    }
    values = {"platform": "aarch64-linux", "accelerator": ["cpu", *TARGETS]}
    spec = decided({"values": values}, runners=pools).spec
    files = deployment(spec, "arc", scale_set_labels=True).files
    assert "huawei.com/Ascend910: 2" in files["npu.yaml"]
    assert "huawei.com/Ascend310P: 2" in files["duo.yaml"]


def test_any_text_is_accepted() -> None:
    for text in ("", "| 0 910B4 | OK |", "| 0 910B4 | OK |\n| 0 |", "| 0  910B4 | OK | 1 |\n| 0 | NA |  |\n" * 2000):
        cann_machines.devices(cann_machines.NpuTexts(smi=Answer(0, text), nodes=("davinci0",)))
    assert family_of("cann").title == "CANN"
