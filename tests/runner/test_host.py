"""Recording this machine, and stand-ins for the tools and files of other machines."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import IO, cast

import pytest

from ci_compiler.cli.app import run
from ci_compiler.cli.runner import PROGRAM
from ci_compiler.hardware import tables
from ci_compiler.hardware.families.cuda.libcuda import cached_libraries, try_cuda
from ci_compiler.hardware.texts import Answer, answer
from ci_compiler.runner.detect import this_machine as host
from ci_compiler.runner.detect.recorded import machine, sandboxed
from ci_compiler.runner.detect.this_machine import record, this_machine, trial_build
from ci_compiler.runner.doctor import probes
from tests.checkers.tools import require
from tests.processes import has_ended, has_written, number_in, until, with_time
from tests.runner.machines import HERE
from tests.runner.test_gpu_health import FIELDS, ROW, rows
from tests.specs import small

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that is the only one on PATH beside the shell's."""
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def program(folder: Path, name: str, script: str) -> None:
    """A program that is a shell script."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    path.chmod(0o755)


@pytest.fixture
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A separate Nix store for the test."""
    require("nix-build")
    for name, folder in (("STORE", "store"), ("STATE", "var/nix"), ("LOG", "var/log"), ("CONF", "etc")):
        monkeypatch.setenv(f"NIX_{name}_DIR", str(tmp_path / "nix" / folder))
    monkeypatch.setenv("NIX_REMOTE", "")
    monkeypatch.setenv("NIX_CONFIG", "build-users-group =\nsandbox = false\n")


# This machine.


@LINUX
def test_this_machine_is_recorded() -> None:
    recorded = record(trial=False)
    found = machine(recorded, tables())
    assert found.system == f"{os.uname().machine}-linux"
    assert 1 <= found.cores <= len(os.sched_getaffinity(0))
    assert 0 < found.memory <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 1.1
    assert [folder.role for folder in found.folders] == ["store", "build", "work"]
    assert all(0 <= folder.free <= folder.size for folder in found.folders)
    work = found.folder("work")
    assert work is not None
    assert work.size == shutil.disk_usage(Path.cwd()).total
    assert found.flags


@LINUX
def test_a_system_without_the_path_of_the_store_has_no_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows, /nix/store is not absolute: it has no drive."""
    monkeypatch.setattr("ci_compiler.runner.detect.this_machine.STORE", "nix/store")
    assert [folder.role for folder in record(trial=False, software=False).folders] == ["build", "work"]


@pytest.mark.usefixtures("own_store")
def test_every_trial_build_is_new_and_shows_its_folder() -> None:
    first, second = trial_build(), trial_build()
    assert first is not None
    assert second is not None
    assert (first.status, second.status) == (0, 0), first.err
    assert not sandboxed(first.out)
    assert "/nix-build-" in first.out.splitlines()[0] or "/builds/" in first.out.splitlines()[0]


@pytest.mark.usefixtures("own_store")
def test_a_trial_build_sees_the_sandbox_that_it_is_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    isolated = ["unshare", "--mount", "--pid", "--fork", "true"]
    if os.geteuid() or not shutil.which("unshare") or subprocess.run(isolated, check=False).returncode:
        pytest.skip("Nix makes sandboxes for root alone, and where the kernel lets it")
    paths = " ".join(path for path in ("/bin/sh", "/lib", "/lib64", "/usr/lib") if Path(path).exists())
    settings = f"build-users-group =\nsandbox = true\nsandbox-fallback = false\nsandbox-paths = {paths}\n"
    monkeypatch.setenv("NIX_CONFIG", settings)
    builds = tmp_path / "builds"
    builds.mkdir()
    monkeypatch.setenv("TMPDIR", str(builds))
    found = this_machine(tables())
    assert found.nix is not None
    assert (found.nix.sandbox, found.nix.sandboxed, found.nix.problem) == ("true", True, "")
    folder = found.folder("build")
    assert folder is not None
    assert Path(folder.path).resolve() in {builds.resolve(), (tmp_path / "nix/var/nix/builds").resolve()}


@pytest.mark.usefixtures("own_store")
def test_a_trial_build_that_fails_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "nix").write_text("in the way", "utf-8")
    found = this_machine(tables())
    assert found.nix is not None
    assert found.nix.sandboxed is None
    assert "error" in found.nix.problem.lower()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert trial_build() is None


# Tools that answer, hang, or are missing.


def test_the_answer_of_a_program_is_its_status_and_both_outputs(tools: Path) -> None:
    program(tools, "speak", "echo out; echo err >&2; exit 3")
    assert answer("speak") == Answer(status=3, out="out\n", err="err\n")
    assert answer("missing") is None
    (tools / "broken").write_text("", "utf-8")
    (tools / "broken").chmod(0o755)
    (tools / "foreign").write_bytes(b"\x7fELF\xff")
    (tools / "foreign").chmod(0o755)
    found = answer("foreign")
    assert found is not None
    assert found.status == 126


def test_a_program_that_does_not_end_is_killed_with_what_it_started(tools: Path, tmp_path: Path) -> None:
    sleep = shutil.which("sleep", path=os.defpath)
    program(tools, "hang", f"{sleep} 6000 & echo $! >{tmp_path}/child; wait")
    found = with_time(lambda seconds: answer("hang", seconds=seconds), lambda _: has_written(tmp_path / "child"))
    assert found is not None
    assert found.status == 124
    assert re.fullmatch(r"did not answer within [0-9.]+ s", found.err)
    child = number_in(tmp_path / "child")
    until(lambda: has_ended(child))


@LINUX
def test_the_files_and_tools_of_another_machine_describe_it(
    tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name, isa = {"x86_64": ("h200", "avx512bf16"), "aarch64": ("grace", "armv9")}[os.uname().machine]
    root = tmp_path / "root"
    device = "sys/bus/pci/devices/0000:18:00.0"
    group = "sys/fs/cgroup/pod/runner"
    files = {
        "proc/cpuinfo": (HERE / name / "cpuinfo").read_text("utf-8"),
        "proc/meminfo": (HERE / name / "meminfo").read_text("utf-8"),
        "proc/self/cgroup": "0::/pod/runner\n",
        "proc/self/mountinfo": "27 1 254:0 / / rw - ext4 /dev/vda rw\n",
        f"{group}/memory.max": "max\n",
        "sys/fs/cgroup/pod/memory.max": "34000000000\n",
        f"{group}/cpu.max": "100000 100000\n",
        f"{device}/vendor": "0x10de\n",
        f"{device}/class": "0x030200\n",
        "etc/os-release": 'NAME=x\nPRETTY_NAME="Debian GNU/Linux 13 (trixie)"\n',
    }
    for file, text in files.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(text, "utf-8")
    monkeypatch.setattr(host, "ROOT", root)
    query, row = f"--query-gpu={','.join(FIELDS)}", rows(ROW | {"driver_version": "570.86.15"}).strip()
    smi = f'[ "$*" = "{query} --format=csv,noheader,nounits" ] && echo "{row}"'
    program(tools, "nvidia-smi", smi)
    program(tools, "flox", '[ "$1" = --version ] && echo 1.14.2')
    program(tools, "podman", "echo 5.4.2")
    program(tools, "docker", "echo Cannot connect >&2; exit 1")
    program(tools, "nix", '[ "$1" = --version ] && echo "nix (Nix) 2.3.16" || { echo "error: no" >&2; exit 1; }')
    assert run(PROGRAM, ["detect", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["os"], shown["memory"], shown["cpu"]["cores"]) == ("Debian GNU/Linux 13 (trixie)", 34, 1)
    assert isa in shown["cpu"]["isas"]
    assert [(one["sm"], one["driver"]) for one in shown["gpus"]] == [("sm90", "570.86.15")]
    assert [(one["name"], one["usable"]) for one in shown["engines"]] == [("podman", True), ("docker", False)]
    assert (shown["flox"], shown["nix"]["version"], shown["nix"]["sandboxed"]) == ("1.14.2", "2.3.16", None)
    assert shown["folders"]["work"]["device"] == "/dev/vda"
    program(tools, "nvidia-smi", "echo No devices were found")
    assert run(PROGRAM, ["detect"]) == 0
    out, err = capsys.readouterr()
    assert "gpu 0" not in out
    assert err.splitlines() == [
        "this machine: nvidia-smi: No devices were found",
        "this machine: NVIDIA GPUs are on the PCI bus (0000:18:00.0), but no driver answers",
    ]


@LINUX
def test_control_groups_of_version_1_limit_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "proc/self/cgroup": "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n0::/\n",
        "proc/meminfo": "MemTotal: 131072000 kB\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "8000000000\n",
        "sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us": "100000\n",
        "sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us": "100000\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    monkeypatch.setattr(host, "ROOT", tmp_path)
    found = this_machine(tables(), trial=False)
    assert (found.memory, found.cores) == (8_000_000_000, 1)


def test_without_software_no_program_of_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("nix", "nix-build", "flox", "podman", "docker"):
        (tmp_path / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/started\necho 1.0\n", "utf-8")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = this_machine(tables(), software=False)
    assert (found.nix, found.flox, found.engines) == (None, "", ())
    assert found.cores > 0
    assert not (tmp_path / "started").exists()
    assert this_machine(tables(), trial=False).flox == "1.0"
    assert (tmp_path / "started").exists()


def test_only_detect_which_shows_container_engines_starts_them(tools: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("podman", "docker"):
        program(tools, name, f": >{tools}/started; echo 1.0")
    assert this_machine(tables()).engines == ()
    assert not (tools / "started").exists()
    assert run(PROGRAM, ["detect", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["engines"]
    assert [(engine["name"], engine["version"]) for engine in shown] == [("podman", "1.0"), ("docker", "1.0")]


# The doctor's probes.

CUDA = r"""
#include <string.h>
#ifndef FREE
#define FREE 64
#endif
#ifndef WORN
#define WORN -1L
#endif
typedef unsigned long long u64;
int cuInit(unsigned f) { return INIT; }
int cuGetErrorName(int e, const char **t) { *t = "CUDA_ERROR_OF_THE_TEST"; return 0; }
int cuDeviceGetCount(int *n) { *n = 2; return 0; }
int cuDeviceGet(int *d, int i) { *d = i; return 0; }
int cuDeviceGetName(char *t, int n, int d) { t[0] = 'G'; t[1] = 'P'; t[2] = 'U'; t[3] = '0' + d; t[4] = 0; return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) { *v = a == 75 ? 9 : d; return a != 75 && a != 76; }
int cuDevicePrimaryCtxRetain(void **c, int d) { *c = (void *)0x1000; return 0; }
int cuDevicePrimaryCtxRelease_v2(int d) { return 0; }
int cuCtxSetCurrent(void *c) { return c != (void *)0x1000; }
int cuCtxSynchronize(void) { return 0; }
int cuMemGetInfo_v2(u64 *f, u64 *t) { *t = 64 << 20; *f = FREE << 20; return 0; }
static unsigned char memory[64 << 20]; static u64 size;
int cuMemAlloc_v2(u64 *p, u64 n) { size = n; *p = (u64)memory; return n > FREE << 20; }
int cuMemsetD8_v2(u64 p, unsigned char v, u64 n) { memset((void *)p, v, n); return p != (u64)memory || n != size; }
int cuMemcpyDtoH_v2(void *to, u64 p, u64 n) {
  if (WORN >= 0 && size > WORN) memory[WORN] |= 1;
  memcpy(to, (void *)p, n);
  return p < (u64)memory || p + n > (u64)memory + size;
}
int cuMemFree_v2(u64 p) { return p != (u64)memory; }
"""


def libcuda(folder: Path, *defines: str) -> str:
    """A stand-in for the driver's library, which reports two GPUs and checks its arguments."""
    source, library = folder / "cuda.c", folder / "libcuda.so.1"
    source.write_text(CUDA, "utf-8")
    subprocess.run([require("cc"), "-shared", "-fPIC", *defines, "-o", library, source], check=True)
    return str(library)


def test_a_clean_process_uses_every_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/nowhere.so")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    found = try_cuda(libcuda(tmp_path, "-DINIT=0"), linked=True)
    assert found.problem == ""
    assert [(one.name, str(one.capability)) for one in found.devices] == [("GPU0", "9.0"), ("GPU1", "9.1")]


def test_a_deep_proof_finds_memory_that_does_not_keep_what_is_written(tmp_path: Path) -> None:
    worn = libcuda(tmp_path, "-DINIT=0", f"-DWORN={9 << 20}L", "-DFREE=30")
    assert try_cuda(worn, linked=True).problem == "", "the routine proof looks at one megabyte"
    assert try_cuda(worn, linked=True, megabytes=12).problem == "its memory does not keep what is written to it"
    assert try_cuda(libcuda(tmp_path, "-DINIT=0", "-DFREE=30"), linked=True, megabytes=2048).problem == ""


@pytest.mark.parametrize(
    ("init", "problem"), [("999", "cuInit fails with CUDA_ERROR_OF_THE_TEST"), ("*(int *)0", "ended with -")]
)
def test_a_libcuda_that_fails_or_crashes_is_a_problem(tmp_path: Path, init: str, problem: str) -> None:
    found = try_cuda(libcuda(tmp_path, f"-DINIT={init}"), linked=False)
    assert found.devices == ()
    assert problem in found.problem


def test_a_libcuda_that_cannot_be_loaded_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_text("no library", "utf-8")
    found = try_cuda(str(tmp_path / "libcuda.so.1"), linked=True)
    assert found.devices == ()
    assert "libcuda.so.1" in found.problem


def test_a_deep_proof_writes_to_the_disk_and_reads_it_back(tmp_path: Path) -> None:
    assert probes.disk(tmp_path) == ""
    assert list(tmp_path.iterdir()) == []
    assert probes.disk(tmp_path / "missing") == "a file cannot be written and read back: No such file or directory"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is always full")
def test_a_disk_that_returns_something_else_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(path: str) -> Callable[..., IO[bytes]]:
        return lambda **_: cast("IO[bytes]", io.FileIO(path, "r+"))

    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(tempfile, "TemporaryFile", opened("/dev/full"))
    assert probes.disk() == "a file cannot be written and read back: No space left on device"
    monkeypatch.setattr(tempfile, "TemporaryFile", opened("/dev/null"))
    assert probes.disk() == "a file that was just written has another content"


CACHE = """\
7 libs found in cache `/etc/ld.so.cache'
\tlibcuda.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libcuda.so.1
\tlibcuda.so.1 (libc6,AArch64) => /lib/aarch64-linux-gnu/libcuda.so.1
\tlibcuda.so.1 (libc6) => /lib/i386-linux-gnu/libcuda.so.1
\tlibcuda.so.1 (libc6,x86-64, OS ABI: Linux 3.2.0) => /usr/local/nvidia lib/libcuda.so.1
\tlibcuda.so (libc6,x86-64) => /lib/x86_64-linux-gnu/libcuda.so
\tlibcudart.so.1 (libc6,x86-64) => /usr/local/cuda/lib64/libcudart.so.1
"""


def test_the_cache_of_the_loader_is_read_for_this_architecture() -> None:
    assert cached_libraries(CACHE, "libcuda.so.1", "aarch64") == ("/lib/aarch64-linux-gnu/libcuda.so.1",)
    assert cached_libraries(CACHE, "libcuda.so.1", "x86_64") == (
        "/lib/x86_64-linux-gnu/libcuda.so.1",
        "/usr/local/nvidia lib/libcuda.so.1",
    )


@pytest.mark.parametrize(
    ("script", "synchronised"),
    [("echo yes", True), ("echo no", False), ("echo not booted with systemd >&2; exit 1", None), (None, None)],
)
def test_systemd_shows_whether_the_clock_is_synchronised(
    tools: Path, script: str | None, synchronised: bool | None
) -> None:
    if script is not None:
        program(tools, "timedatectl", f'[ "$*" = "show --property=NTPSynchronized --value" ] || exit 9\n{script}')
    seen = probes.clock()
    assert seen.synchronised is synchronised
    assert 0 < seen.newest <= seen.now + 300
    assert Path(seen.newest_file).exists()


def runner_in(folder: Path, version: str) -> None:
    (folder / "bin").mkdir(parents=True)
    program(folder / "bin", "Runner.Listener", f'[ "$1" = --version ] && echo {version}')


def test_the_runner_is_found_where_it_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RUNNER_VERSION", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert probes.runner_version() == "" or Path("/home/runner/bin").exists()
    runner_in(tmp_path / "actions-runner", "2.336.0")
    assert probes.runner_version() == "2.336.0"
    monkeypatch.setenv("RUNNER_VERSION", "2.330.0")
    assert probes.runner_version() == "2.330.0"


@LINUX
def test_the_runner_that_started_this_process_takes_precedence(tmp_path: Path) -> None:
    runner_in(tmp_path / "own", "2.331.0")
    runner_in(tmp_path / "actions-runner", "2.336.0")
    worker = tmp_path / "own/bin/Runner.Worker"
    shutil.copy(Path("/bin/sh").resolve(), worker)
    code = "from ci_compiler.runner.doctor.probes import runner_version; print(runner_version())"
    env: Mapping[str, str] = {**os.environ, "HOME": str(tmp_path), "RUNNER_VERSION": ""}
    done = subprocess.run(
        [worker, "-c", f"'{sys.executable}' -c '{code}'; exit $?"], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "2.331.0"


# The commands.


def test_labels_and_doctor_return_1_if_nothing_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tools: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    program(tools, "nvidia-smi", "echo No devices were found")
    root = ["--root", str(tmp_path)]
    assert run(PROGRAM, ["labels", *root, "--json"]) in {0, 1}
    rows = json.loads(capsys.readouterr().out)
    assert {row["pool"] for row in rows} >= {"x86-builder", "dgx-spark"}
    assert all(row["fits"] != bool(row["missing"]) for row in rows)
    gpu_pools = [row for row in rows if row["pool"] in {"a100", "l4", "h100", "rtx5090", "dgx-spark"}]
    assert not any(row["fits"] for row in gpu_pools)
    name = "pytorch-python313-cuda12_8-sm90-avx512"
    assert run(PROGRAM, ["doctor", *root, "--for", "gpu-test", name]) == 1
    out, err = capsys.readouterr()
    assert "gpu" in out
    assert "error: this machine: gpu: nvidia-smi: No devices were found" in err
    assert "[check-failed]" in err
    assert all("; to fix it: " in line for line in err.splitlines())
    assert run(PROGRAM, ["doctor", *root, "--for", "gpu-test", name, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False


@LINUX
def test_labels_are_printed_for_the_pool_that_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    system = f"{os.uname().machine}-linux"
    other = next(name for name in tables().systems if name != system)
    least = {"system": system, "cores": 1, "memory": 1, "disk": 1}
    pools = {
        "mine": least | {"runs-on": ["self-hosted", "mine"]},
        "grouped": least | {"runs-on": {"group": "fast", "labels": ["self-hosted"]}},
        "set": least | {"runs-on": "arc-set"},
        "other": least | {"runs-on": ["other"], "system": other},
    }
    spec = tmp_path / "spec.yaml"
    spec.write_text(json.dumps(small(runners=pools)), "utf-8")
    assert run(PROGRAM, ["labels", "--root", str(tmp_path), "--spec", str(spec)]) == 0
    assert [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()] == [
        ["mine", "yes", "self-hosted, mine"],
        ["grouped", "yes", "self-hosted in the runner group fast"],
        ["set", "yes", "runner scale set arc-set"],
        ["other", "no", f"{other} (this is {system})"],
    ]
    spec.write_text(json.dumps(small(runners={"mine": least | {"runs-on": ["mine"], "gpu": "sm9"}})), "utf-8")
    assert run(PROGRAM, ["labels", "--root", str(tmp_path), "--spec", str(spec)]) == 2
    assert "did you mean sm9" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["doctor", "pytorch-python313-cpu-avx9"], "NAME: unknown ISA 'avx9'"),
        (["doctor", "--spec", "missing.yaml"], "spec-"),
        (["labels", "--spec", "missing.yaml"], "spec-"),
    ],
)
def test_wrong_arguments_are_reported_on_one_line(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(PROGRAM, [*argv, "--root", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert len(err.splitlines()) == 1


def test_the_doctor_checks_what_a_pool_declares_with_a_spec_on_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(json.dumps(small()).encode())))
    monkeypatch.setenv("PATH", str(tmp_path))  # no tools: nothing is built
    assert run(PROGRAM, ["doctor", "--pool", "h100", "--spec", "-", "--json"]) == 1
    shown = json.loads(capsys.readouterr().out)
    found = {one["check"]: one["verdict"] for one in shown["checks"]}
    assert shown["pool"] == "h100"
    assert (found["pool"], found["gpu"], found["build-space"]) == ("failed", "failed", "skipped")
    assert run(PROGRAM, ["doctor", "--pool", "h10"]) == 2
    assert "--pool: unknown pool 'h10'; did you mean h100" in capsys.readouterr().err
