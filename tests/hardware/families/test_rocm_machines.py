"""Machines with AMD's GPUs, from public reports: detect, doctor, labels and containers. None of them was used."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ci_compiler.hardware import Gpu, tables
from ci_compiler.hardware.families.machines import machines_of
from ci_compiler.hardware.families.rocm import devices, left_out_of, listed
from ci_compiler.hardware.families.rocm import machines as rocm_machines
from ci_compiler.hardware.families.rocm.devices import AgentTexts
from ci_compiler.hardware.machine import Machine
from ci_compiler.hardware.texts import Answer
from ci_compiler.plan.machine_fit import fit
from ci_compiler.runner.deployment.kinds import deployment
from ci_compiler.runner.detect.recorded import machine
from ci_compiler.runner.doctor import hardware_checks
from ci_compiler.runner.doctor.diagnosis import work_of
from ci_compiler.runner.doctor.evidence import ClockReading, Evidence
from ci_compiler.stages import GPU_TEST
from tests.plan.test_open_matrix import decided
from tests.runner.machines import recorded

ROWS: dict[str, Any] = json.loads(Path(__file__).with_name("rocm_machines.json").read_bytes())["machines"]

AGENT = """\
*******
Agent {number}
*******
  Name:                    {name}
  Uuid:                    {uuid}
  Marketing Name:          {title}
  Node:                    {node}
  Device Type:             GPU
  ISA Info:
    ISA 1
      Name:                    amdgcn-amd-amdhsa--{isa}
    ISA 2
      Name:                    amdgcn-amd-amdhsa--gfx9-4-generic
"""


def texts(row: dict[str, Any]) -> AgentTexts:
    """The texts of a recorded machine."""
    names = ("node", "name", "uuid", "title", "isa")
    shown = row.get("rocminfo", "") + "".join(
        AGENT.format(number=number, **dict(zip(names, agent, strict=True)))
        for number, agent in enumerate(row.get("agents", ()), start=2)
    )
    return AgentTexts(
        nodes=tuple((number, _properties(found)) for number, found in row.get("nodes", ())),
        rocminfo=Answer(1 if "rocminfo" in row else 0, out=shown) if shown else None,
        smi=row.get("smi", ""),
        partitions=row.get("partitions", ""),
        enumerated=row.get("enumerated", ""),
        module=row.get("module", ""),
        ras=tuple((int(minor), text) for minor, text in row.get("ras", {}).items()),
        accelerators=tuple(row.get("accelerators", ())),
    )


def _properties(row: dict[str, Any]) -> str:
    values = {"gfx_target_version": 0, **row, "unique_id": int(row.get("unique_id", "0"), 16)}
    return "".join(f"{key} {value}\n" for key, value in values.items())


def of(name: str) -> Machine:
    return machine(recorded("zen4", gpus={"rocm": texts(ROWS[name])}), tables())


@pytest.mark.parametrize("name", ROWS)
def test_a_recorded_machine_has_the_gpus_of_the_report(name: str) -> None:
    row, found = ROWS[name], of(name)
    assert [[one.target, one.name, one.uuid, list(one.faults)] for one in found.gpus] == row["is"]
    assert found.problems == ((row["problem"],) if "problem" in row else ())
    assert all(one.family == "rocm" and one.sm == one.target.partition(":")[0] for one in found.gpus)
    assert row["source"]


SPEC = decided({"values": {"platform": "x86_64-linux", "accelerator": ["cpu", "rocm 7.1 gfx942", "rocm 7.1 gfx1100"]}})


@pytest.mark.parametrize(
    ("name", "built", "failing"),
    [
        ("mi300x", "gfx942", {}),
        ("two-7900-xtx", "gfx1100", {}),
        ("two-7900-xtx", "gfx942", {"gpu_code": "no GPU here runs code built for gfx942; found: Radeon RX 7900 XTX"}),
        ("strix-halo-overridden", "gfx1100", {"gpu_code": "Radeon 8060S Graphics (gfx1151)"}),
        ("mi300x-sick", "gfx942", {"gpu_health": "3 uncorrectable errors in umc"}),
        ("mi300x-in-a-container", "gfx942", {"gpu": "Unable to open /dev/kfd", "driver": "6.7.0 is that of 6.1"}),
        ("mi300x-without-a-driver", "gfx942", {"gpu": "0000:05:00.0", "gpu_code": "found: none"}),
        ("unsupported-pitcairn", "gfx942", {"gpu": "no GPU was found", "gpu_code": "found: none"}),
    ],
)
def test_the_doctor_says_what_is_wrong_with_it(name: str, built: str, failing: dict[str, str]) -> None:
    variant = next(one.name for cell in SPEC.judged.cells for one in cell.variants if cell.target == built)
    work = work_of(SPEC.spec, stage=GPU_TEST, name=variant, pool=None)
    evidence = Evidence(machine=of(name), clock=ClockReading(now=0))
    judged = {
        check: getattr(hardware_checks, check)(work, evidence) for check in ("gpu", "gpu_health", "gpu_code", "driver")
    }
    assert {check for check, found in judged.items() if found.failed} == {*failing}
    for check, said in failing.items():
        assert said in judged[check].message


PRODUCTS = ("gfx908", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1150", "gfx1151", "gfx1201")
POOLS = decided(
    {"values": {"platform": "x86_64-linux", "accelerator": [f"rocm 7.1 {target}" for target in PRODUCTS]}},
    runners={"builder": {"runs-on": ["self-hosted", "linux", "x64", "builder"]}}
    | {one: {"runs-on": ["self-hosted", "linux", "x64", one], "accelerator": f"rocm {one}"} for one in PRODUCTS},
).spec


@pytest.mark.parametrize("name", ROWS)
def test_a_machine_gets_the_labels_of_the_pools_of_its_gpus(name: str) -> None:
    found = of(name)
    fits = [one.name for one in POOLS.pools if one.gpu and fit(POOLS.hardware, found, one).fits]
    assert fits == [target for target in PRODUCTS if target in {gpu.sm for gpu in found.gpus}]


def test_the_labels_of_a_machine_with_two_kinds_of_gpus_say_what_keeps_them_apart() -> None:
    pool = next(one for one in POOLS.pools if one.name == "gfx1151")
    (remark,) = fit(POOLS.hardware, of("strix-halo-overridden"), pool).remarks
    assert "AMD Radeon AI PRO R9700 (gfx1201); give the jobs GPU 1 alone" in remark
    assert "ROCR_VISIBLE_DEVICES" in remark


def test_code_that_fixes_a_feature_runs_where_rocminfo_shows_it() -> None:
    full, plain = of("mi300x").gpus[0], of("mi300x-sick").gpus[0]
    for built, runs in (("gfx942", [True, True]), ("gfx942:xnack-", [True, False]), ("gfx942:xnack+", [False, False])):
        row = Gpu(name=built, architecture="", summary="", systems=(), family="rocm")
        assert [one.runs(tables(), row) for one in (full, plain)] == runs


@pytest.mark.parametrize(
    ("module", "toolkits", "said"),
    [
        ("6.16.6", ["7.1"], "driver 6.16.6 (30.20) is listed for ROCm 7.1"),
        ("6.12.12", ["7.2"], "driver 6.12.12 (6.4) is listed for ROCm 7.2"),
        ("6.14.14", ["7.0.2", "7.2.4"], "driver 6.14.14 (30.10) is listed for ROCm 7.0.2, 7.2.4"),
        ("6.12.12", ["7.14"], "driver 6.12.12 is that of 6.4, and ROCm 7.14 is listed with 31.40,"),
        ("6.16.6", ["7.0"], "driver 6.16.6 (30.20) is listed for ROCm 7.0"),
        ("6.16.6", ["7.14", "10.0"], "driver 6.16.6 (30.20) is listed for ROCm 7.14, 10.0"),
        ("6.16.6", ["11.0"], "nothing is known of ROCm 11.0"),
        ("6.10.5", ["7.1"], "driver 6.10.5 is that of 6.3, and ROCm 7.1 is listed with 30.20, 6.4, 30.10,"),
        ("6.16.13", ["6.2"], "driver 6.16.13 is that of 30.30, and ROCm 6.2 is listed with 6.2, 6.0,"),
        ("6.19.99", ["7.1"], "nothing is known of its release"),
        ("", ["7.1"], "the kernel's own driver, of which AMD has no list"),
    ],
)
def test_a_driver_is_judged_by_the_list_of_amd(module: str, toolkits: list[str], said: str) -> None:
    gpu = replace(of("mi300x").gpus[0], driver=module)
    assert said in rocm_machines.driver([gpu], toolkits).message


def test_windows_and_exclusions_are_those_of_the_tables() -> None:
    assert [listed(target, "6.4") for target in ("gfx942:xnack-", "gfx950", "gfx906", "gfx1031")] == [
        True,
        *[False] * 3,
    ]
    assert listed("gfx1201", "6.4.1")
    assert not listed("gfx1201", "6.4.0")
    assert [listed("gfx1151", release) for release in ("7.2", "7.14", "10.0")] == [False, True, True]
    outside = rocm_machines.driver([replace(of("strix-point").gpus[0], driver="6.16.6")], ["7.1"])
    assert "; AMD's matrix does not list gfx1150 for ROCm 7.1; AMD builds hipSPARSELt without" in outside.message
    assert left_out_of("gfx1031") == ["hipSPARSELt", "composable_kernel", "rocWMMA", "hipBLASLt"]
    assert left_out_of("gfx942:sramecc+:xnack-") == []
    xtx = rocm_machines.driver([replace(of("two-7900-xtx").gpus[0], driver="6.16.6")], ["7.1"])
    assert xtx.message.endswith("is listed for ROCm 7.1; AMD builds hipSPARSELt without code for gfx1100")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The files of a machine with two GPUs."""
    for number, row in ROWS["two-7900-xtx"]["nodes"]:
        node = tmp_path / f"sys/class/kfd/kfd/topology/nodes/{number}"
        node.mkdir(parents=True)
        (node / "properties").write_text(_properties(row), "utf-8")
    (tmp_path / "dev/dri").mkdir(parents=True)
    for name in ("kfd", "dri/renderD128", "dri/renderD129"):
        (tmp_path / "dev" / name).touch()
    counters = tmp_path / "sys/class/drm/renderD128/device/ras"
    counters.mkdir(parents=True)
    (counters / "umc_err_count").write_text("ue: 2\nce: 0\n", "utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("page", "faults"),
    [
        ("R", []),
        ("P", ["bad pages of its memory wait to be reserved"]),
        ("F", ["bad pages of its memory could not be reserved, so it must be replaced"]),
    ],
)
def test_bad_pages_are_faults_until_they_are_reserved(
    root: Path, monkeypatch: pytest.MonkeyPatch, page: str, faults: list[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    ras = root / "sys/class/drm/renderD129/device/ras"
    ras.mkdir(parents=True)
    (ras / "umc_err_count").write_text("ue: 0\nce: 7\n", "utf-8")
    (ras / "gpu_vram_bad_pages").write_text(f"0x00000001 : 0x00001000 : R\n0x00000002 : 0x00001000 : {page}\n", "utf-8")
    gpus, _ = devices.agents(devices.agent_texts(root))
    assert list(gpus[1].faults) == faults


def test_the_files_of_a_machine_are_enough(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    gpus, problems = devices.agents(devices.agent_texts(root))
    assert [(one.sm, one.faults) for one in gpus] == [("gfx1100", ("2 uncorrectable errors in umc",)), ("gfx1100", ())]
    assert not problems
    (attempt,) = rocm_machines.attempts(root=root)
    assert rocm_machines.usable([attempt], reads_loader_cache=True).message == "gfx1100, gfx1100 through /dev/kfd"
    assert rocm_machines.usable([], reads_loader_cache=True).failed


WSL = """\
WSL environment detected.
*******
Agent 1
*******
  Name:                    AMD Ryzen 7 5800X 8-Core Processor
  Device Type:             CPU
  Node:                    0
*******
Agent 2
*******
  Name:                    gfx1100
  Uuid:                    GPU-XX
  Marketing Name:          AMD Radeon RX 7900 XT
  Node:                    1
  Device Type:             GPU
      Name:                    amdgcn-amd-amdhsa--gfx1100
"""
"""rocminfo in WSL: nix-community/NixOS-WSL issue 655 (its first line), ROCm/legacy-rocm-build issue 3734 (the GPU)."""


@pytest.mark.parametrize(
    ("printed", "status", "found", "problem"),
    [
        (WSL, 0, ["gfx1100"], ()),
        (
            f"{WSL[:26]}hsa api call failure at: rocminfo.cc:1282",
            1,
            [],
            ("rocminfo: hsa api call failure at: rocminfo.cc:1282",),
        ),
    ],
    ids=["works", "ROCm/legacy-rocm-build issue 6323"],
)
def test_in_wsl_rocminfo_alone_lists_the_gpus(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    printed: str,
    status: int,
    found: list[str],
    problem: tuple[str, ...],
) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/dxg").touch()
    (tmp_path / "printed").write_text(printed)
    (tmp_path / "rocminfo").write_text(f"#!/bin/sh\n/bin/cat {tmp_path}/printed\nexit {status}\n")
    (tmp_path / "rocminfo").chmod(0o755)
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    gpus, problems = devices.agents(devices.agent_texts(tmp_path))
    assert ([one.sm for one in gpus], problems) == (found, problem)
    judged = rocm_machines.usable(tuple(rocm_machines.attempts(root=tmp_path)), reads_loader_cache=True)
    assert judged.message == ("gfx1100 through /dev/dxg" if found else "/dev/dxg offers no GPU")


def test_an_override_of_the_user_does_not_reach_the_tools(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = root / "bin"
    tools.mkdir()
    (tools / "rocminfo").write_text('#!/bin/sh\necho "override=$HSA_OVERRIDE_GFX_VERSION$HSA_OVERRIDE_GFX_VERSION_1"\n')
    (tools / "rocminfo").chmod(0o755)
    monkeypatch.setenv("PATH", os.fspath(tools))
    monkeypatch.setenv("HSA_OVERRIDE_GFX_VERSION", "10.3.0")
    monkeypatch.setenv("HSA_OVERRIDE_GFX_VERSION_1", "11.0.0")
    said = devices.agent_texts(root).rocminfo
    assert said
    assert said.out == "override=\n"


def test_a_slot_gets_the_render_node_of_its_gpu_and_the_groups(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = str((root / "dev/kfd").stat().st_gid)
    own = ["--device", "/dev/kfd", "--device", "/dev/dri/renderD129"]
    docker = devices.device_options("docker", ("GPU-398a3f843a146602",), root)
    assert docker == [*own, "--group-add", group]
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    podman = devices.device_options("podman", ("GPU-398a3f843a146602",), root)
    assert podman == [*own, "--group-add", "keep-groups"]
    assert "amd.com/gpu=GPU-lost" in devices.device_options("docker", ("GPU-lost",), root)
    assert "/dev/dri/renderD128" in devices.device_options("docker", ("all",), root)
    assert devices.device_options("docker", (), root) == []


def test_nothing_is_said_of_a_machine_without_them(tmp_path: Path) -> None:
    known = machines_of("rocm")
    assert known.devices(known.record(tmp_path)) == ((), ())


def test_any_text_is_accepted() -> None:
    for text in ("", "{", "[1]", '{"gpu_data": 3}', '{"gpu_data": [{"asic": 1, "bus": null}]}', "Agent 1\n  Node: x\n"):
        row = AgentTexts(nodes=((1, text),), rocminfo=Answer(0, out=text), smi=text, partitions=text, enumerated=text)
        assert devices.agents(row) == ((), ())


def test_labels_are_those_of_a_pool_that_names_its_target() -> None:
    pool = {
        "runs-on": ["self-hosted", "linux", "x64", "amd"],
        "accelerator": "rocm gfx942",
        "cores": 1,
        "memory": 1,
        "disk": 1,
    }
    values = {"platform": "x86_64-linux", "accelerator": ["cpu", "rocm 7.1 gfx942"]}
    builder = {"runs-on": ["self-hosted", "linux", "x64", "builder"]}
    spec = decided({"values": values}, runners={"mi300": pool, "x86": builder}).spec
    (own,) = (one for one in spec.pools if one.name == "mi300")
    assert fit(spec.hardware, of("mi300x"), own).fits
    assert fit(spec.hardware, of("two-7900-xtx"), own).missing == ("a GPU of gfx942 (there is gfx1100)",)
    assert fit(spec.hardware, of("mi300x-cpx"), replace(own, gpus=3)).missing == ("3 GPUs of gfx942 (there are 2)",)


def test_a_cluster_gives_its_pods_the_resource_of_amd() -> None:
    pool = {"runs-on": "mi300", "system": "x86_64-linux", "accelerator": "rocm gfx942", "image": "localhost/rocm"}
    values = {"platform": "x86_64-linux", "accelerator": ["cpu", "rocm 7.1 gfx942"]}
    builder = {"runs-on": ["self-hosted", "linux", "x64", "builder"]}
    files = deployment(decided({"values": values}, runners={"mi300": pool, "x86": builder}).spec, "arc").files
    assert "            amd.com/gpu: 1\n" in files["mi300.yaml"]
    assert "      - key: amd.com/gpu\n" in files["mi300.yaml"]
    assert "compute.major" not in files["mi300.yaml"] + files["install.md"]
    assert "No label of the plug-in has the target of a GPU" in files["install.md"]
