"""The health service of the host: its verdict, and what the controller makes of each answer and of none."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from ci_compiler.hardware.families.rocm.host_signs import host_faults
from ci_compiler.runner import host_health
from ci_compiler.runner.host_health import GpuVerdict, HostVerdict, as_json, judged, verdict_of
from tests.github.state import GitHub

from .fault_run import Direct, controller_of
from .test_controller import gpus_of, shown_as_sick, until_finished
from .test_gpu_health import ASKED, HEALTHY_LOG, ROW, XID, rows
from .world import JOB, WORK, World

NOW = 1_790_000_000.0
WELL = GpuVerdict(family="cuda", name="NVIDIA H200", units=("GPU-a",), faults=())
SICK = replace(WELL, units=("GPU-b",), faults=("Xid 79 since boot (it has fallen off the bus)",))
VERDICT = HostVerdict(at=int(NOW), log_read=True, gpus=(WELL, SICK), problems=())
GPU_WORK = replace(WORK, gpu="sm90", gpus=1)


@contextmanager
def service(path: Path, answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A service at the socket `path`, which is started for each connection, as systemd does with `Accept=yes`."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.fspath(path))
        listening.listen()

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    answer(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield os.fspath(path)
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def says(verdict: object) -> Callable[[socket.socket], None]:
    return lambda connection: connection.sendall(json.dumps(verdict).encode())


def test_a_slot_counts_the_faults_of_its_own_gpus() -> None:
    assert judged(VERDICT, family="cuda", gpus=("GPU-a",), now=NOW) == ""
    assert judged(VERDICT, family="", gpus=(), now=NOW) == "", "a pool without GPUs"
    assert judged(VERDICT, family="cuda", gpus=("GPU-b",), now=NOW) == f"NVIDIA H200: {SICK.faults[0]}"
    assert judged(VERDICT, family="cuda", gpus=(), now=NOW) == f"NVIDIA H200: {SICK.faults[0]}"


@pytest.mark.parametrize(
    ("changes", "gpus", "why"),
    [
        ({"at": int(NOW) - 61}, ("GPU-a",), "gives a verdict of 2026-09-21 14:12 UTC, and it is 2026-09-21 14:13 UTC"),
        ({"at": int(NOW) + 3600}, ("GPU-a",), "gives a verdict of 2026-09-21 15:13 UTC"),
        ({"log_read": False}, ("GPU-a",), "cannot read the kernel's log; it needs CAP_SYSLOG"),
        ({}, ("GPU-c",), "does not see GPU-c"),
        ({}, ("GPU-a", "GPU-c"), "does not see GPU-c"),
        ({"gpus": ()}, ("GPU-a",), "does not see GPU-a"),
        ({"gpus": ()}, (), "does not see any GPU (cuda)"),
        ({"gpus": (), "problems": ("no driver answers",)}, (), "no driver answers"),
        ({"gpus": (replace(WELL, family="rocm", units=()),)}, ("GPU-a",), "does not see GPU-a"),
    ],
)
def test_what_does_not_prove_health_is_a_problem(changes: dict[str, object], gpus: tuple[str, ...], why: str) -> None:
    assert why in judged(replace(VERDICT, **changes), family="cuda", gpus=gpus, now=NOW)  # type: ignore[arg-type]


def test_a_gpu_that_the_driver_lost_costs_no_other_slot_its_jobs() -> None:
    lost = replace(VERDICT, problems=("nvidia-smi lists GPU 3 without its name",))
    assert judged(lost, family="cuda", gpus=("GPU-a",), now=NOW) == ""


ANSWER = as_json(VERDICT)
BROKEN: dict[str, object] = {
    "nothing": None,
    "another form": ANSWER | {"form": 2},
    "no date": {key: value for key, value in ANSWER.items() if key != "at"},
    "a date in words": ANSWER | {"at": "now"},
    "a true date": ANSWER | {"at": True},
    "faults in words": ANSWER | {"gpus": [{**ANSWER["gpus"][0], "faults": "none"}]},
    "a GPU without faults": ANSWER | {"gpus": [{"family": "cuda", "name": "", "units": ["GPU-a"]}]},
    "no list": ANSWER | {"problems": 0},
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_malformed_verdict_is_a_problem(tmp_path: Path, broken: str) -> None:
    with service(tmp_path / "s", says(BROKEN[broken])) as path:
        found = host_health.problem(path, family="cuda", gpus=("GPU-a",), now=NOW)
    assert found.startswith("the host's health service: its answer cannot be read: ")


def drip(connection: socket.socket) -> None:
    with suppress(OSError):  # until the controller closes it
        while True:
            connection.sendall(b" ")
            time.sleep(0.02)


def flood(connection: socket.socket) -> None:
    with suppress(OSError):
        while True:
            connection.sendall(b" " * 100_000)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda _: None, "its answer cannot be read: ''"),
        (lambda connection: connection.sendall(b"\xff{"), "its answer cannot be read"),
        (lambda connection: connection.recv(1), "timed out"),
        (drip, "timed out"),
        (flood, "it sends more than 1,000,000 bytes"),
    ],
)
def test_a_service_that_does_not_answer_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Callable[[socket.socket], None], why: str
) -> None:
    monkeypatch.setattr(host_health, "PATIENCE", 0.2)
    with service(tmp_path / "s", answer) as path:
        assert why in host_health.problem(path, family="cuda", gpus=("GPU-a",), now=NOW)


def test_a_socket_that_is_missing_is_a_problem(tmp_path: Path) -> None:
    missing = os.fspath(tmp_path / "s")
    found = host_health.problem(missing, family="cuda", gpus=(), now=NOW)
    assert found == f"the host's health service gives no verdict: {missing}: No such file or directory"
    assert "too long" in host_health.problem("/x" * 100, family="cuda", gpus=(), now=NOW)


# The whole way: the kernel's log, the service, the controller.

SMI = f"""#!/bin/sh
case "$1" in
*compute_cap*) echo '{rows(ROW).strip()}' ;;
esac
"""


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand-ins of the host's programs; returns the file that stands for the kernel's log."""
    log = tmp_path / "kmsg"
    log.write_text(HEALTHY_LOG, "utf-8")
    programs = {"nvidia-smi": SMI, "dmesg": f"#!/bin/sh\ncat {log}\n", "journalctl": "#!/bin/sh\nexit 1\n"}
    (tmp_path / "bin").mkdir()
    for name, text in programs.items():
        (tmp_path / "bin" / name).write_text(text, "utf-8")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return log


def verdict_on(connection: socket.socket) -> None:
    """`ci-runner health` with the connection as its output, as the deployed unit starts it."""
    command = [sys.executable, "-c", "from ci_compiler.cli.runner import main; raise SystemExit(main())", "health"]
    subprocess.run(command, stdin=connection, stdout=connection, check=False)


def test_an_xid_in_the_hosts_log_costs_one_job_at_most(tmp_path: Path, host: Path) -> None:
    """The container sees no kernel log, so that its doctor calls the GPU healthy all the time."""
    world = World(github=GitHub())
    gpus_of(world, "GPU-5d5ba0d6")
    lives = iter([JOB])

    def life(_: object) -> list[tuple[float, str]]:
        if found := next(lives, None):
            return list(found)
        host.write_text(HEALTHY_LOG + XID.format(79), "utf-8")
        return list(JOB)

    def answer(connection: socket.socket) -> None:
        says(as_json(verdict_of(tmp_path, world.clock.now())))(connection)

    with service(tmp_path / "s", answer) as path:
        controller = controller_of(world, replace(GPU_WORK, health=path), Direct(world))
        world.script = life
        until_finished(world, controller, 2)
        world.run_until(controller, lambda: bool(shown_as_sick(world)))
        assert len(world.orders) == 2, "the job during which it failed is the last one"
        [why] = [line for line in world.said if "in quarantine" in line]
        assert why == "slot 1: in quarantine: NVIDIA H200: Xid 79 since boot (it has fallen off the bus)"
        host.write_text(HEALTHY_LOG + XID.format(79) + ASKED.format("0x0 (None)"), "utf-8")
        until_finished(world, controller, 3)
    assert "slot 1: healthy again" in world.said
    assert controller.finished == 3


def test_the_program_gives_its_verdict_to_the_connection(tmp_path: Path, host: Path) -> None:
    with service(tmp_path / "s", verdict_on) as path:
        well = host_health.problem(path, family="cuda", gpus=("GPU-5d5ba0d6",), now=time.time())
        host.write_text(XID.format(119), "utf-8")
        sick = host_health.problem(path, family="cuda", gpus=("GPU-5d5ba0d6",), now=time.time())
        host.write_text("", "utf-8")
        blind = host_health.problem(path, family="cuda", gpus=("GPU-5d5ba0d6",), now=time.time())
    assert (well, sick) == ("", "NVIDIA H200: Xid 119 since boot (its system processor (GSP) does not answer)")
    assert blind == "the host's health service cannot read the kernel's log; it needs CAP_SYSLOG"


# What the kernel's files and log say of AMD's GPUs.

RESET = "[ 9.1] amdgpu 0000:c3:00.0: amdgpu: GPU reset"


@pytest.mark.parametrize(
    ("files", "log", "faults"),
    [
        ({"umc_err_count": "ue: 0\nce: 12\n", "gpu_vram_bad_pages": "0x00000001 : 0x00001000 : R\n"}, "", ()),
        ({"umc_err_count": "ue: 2097120\nce: 0\n"}, "", ()),  # twice what some Radeon cards report at each query
        (
            {"umc_err_count": "ue: 3\nce: 0\n"},
            "",
            ("uncorrectable errors since the driver was loaded (umc_err_count: 3)",),
        ),
        (
            {"gpu_vram_bad_pages": "0x01 : 0x1000 : R\n0x02 : 0x1000 : P\n"},
            "",
            ("bad pages of its memory wait to be reserved",),
        ),
        (
            {"gpu_vram_bad_pages": "0x00000002 : 0x00001000 : F\n"},
            "",
            ("bad pages of its memory could not be reserved, so it must be replaced",),
        ),
        ({}, f"{RESET} end with ret = -62\n", ("its last reset failed",)),
        ({}, f"{RESET} end with ret = -62\n{RESET}(2) succeeded!\n", ()),
        ({}, f"{RESET} end with ret = -62\n".replace("c3", "c4"), ()),
        ({}, "amdgpu 0000:c3:00.0: amdgpu: no uncorrectable hardware errors detected in umc block\n", ()),
    ],
)
def test_states_of_amds_gpus(tmp_path: Path, files: dict[str, str], log: str, faults: tuple[str, ...]) -> None:
    device = tmp_path / "sys/bus/pci/devices/0000:c3:00.0"
    (device / "ras").mkdir(parents=True)
    (device / "vendor").write_text("0x1002\n", "utf-8")
    (device / "class").write_text("0x120000\n", "utf-8")
    for name, text in files.items():
        (device / "ras" / name).write_text(text, "utf-8")
    assert list(host_faults(tmp_path, log)) == [("0000:c3:00.0", faults)]


def test_a_fault_on_the_bus_counts_for_the_gpu_at_that_address(tmp_path: Path, host: Path) -> None:
    """For every family: the others go on working, and what is not listed is said."""
    nodes = tmp_path / "sys/class/kfd/kfd/topology/nodes"
    for number, bus in ((1, 0xC100), (2, 0xC300)):
        (nodes / str(number)).mkdir(parents=True)
        text = f"gfx_target_version 90402\nunique_id {number}\nlocation_id {bus}\ndomain 0\n"
        (nodes / str(number) / "properties").write_text(text, "utf-8")
    for address in ("0000:c1:00.0", "0000:c3:00.0", "0000:c5:00.0"):
        device = tmp_path / "sys/bus/pci/devices" / address
        device.mkdir(parents=True)
        (device / "vendor").write_text("0x1002\n", "utf-8")
        (device / "class").write_text("0x120000\n", "utf-8")
    host.write_text(f"{RESET} end with ret = -62\n{RESET.replace('c3', 'c5')} end with ret = -62\n", "utf-8")
    verdict = verdict_of(tmp_path, NOW)
    own = [one for one in verdict.gpus if one.family == "rocm"]
    assert [(one.units, one.faults) for one in own] == [
        (("GPU-0000000000000001",), ()),
        (("GPU-0000000000000002",), ("its last reset failed",)),
        (("0000:c5:00.0",), ("its last reset failed",)),
    ]
    assert own[2].name == "0000:c5:00.0 is on the PCI bus, and rocminfo does not list it"
    assert judged(verdict, family="rocm", gpus=("GPU-0000000000000001",), now=NOW) == ""
    assert judged(verdict, family="rocm", gpus=("GPU-0000000000000002",), now=NOW).endswith("its last reset failed")
    assert "0000:c5:00.0" in judged(verdict, family="rocm", gpus=(), now=NOW), "a slot with all GPUs"
