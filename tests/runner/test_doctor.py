"""The doctor's checks on evidence made by hand: a healthy machine passes, and every fault is found."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_compiler.errors import InputError
from ci_compiler.hardware import Version
from ci_compiler.hardware.families.machines import Attempt, UsedDevice
from ci_compiler.hardware.machine import GpuDevice, Machine, NixInstallation, StorageFolder
from ci_compiler.hardware.texts import Answer
from ci_compiler.judgement import CheckVerdict, Judgement
from ci_compiler.runner.doctor import host_checks
from ci_compiler.runner.doctor.diagnosis import CHECKS, as_json, examine, work_of
from ci_compiler.runner.doctor.evidence import (
    Assignment,
    ClockReading,
    Evidence,
)
from ci_compiler.runner.upstream import holes, upstream
from ci_compiler.spec.build import bundled_spec
from ci_compiler.stages import stage_of, stages
from ci_compiler.units import GB
from tests.loops import each
from tests.runner.machines import DISK, FOLDERS, known
from tests.specs import small, spec_of

NOW = upstream().written + 10**6
NIX = NixInstallation(
    version="2.28.7",
    sandbox="true",
    features=("benchmark", "big-parallel", "nixos-test"),
    max_jobs=1,
    cores=63,
    source="nix",
    sandboxed=True,
)
LINK = "/run/opengl-driver/lib/libcuda.so.1"
H200 = Attempt(library=LINK, linked=True, devices=(UsedDevice(name="NVIDIA H200", capability=Version(9, 0)),))
GPU = "pytorch-python313-cuda12_8-sm90-avx512bf16"
CPU = "torchvision-python313-cpu-avx512bf16"


def token(**claimed: Any) -> str:
    """A token like FloxHub's, with `claimed` in its payload."""
    parts = [{"alg": "HS256", "typ": "JWT"}, claimed]
    head, payload = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return f"{head}.{payload}.c2lnbmF0dXJl"


def with_driver(name: str, driver: str) -> tuple[GpuDevice, ...]:
    """The GPUs of a recorded machine with another driver, which reports everything."""
    return tuple(replace(gpu, driver=driver, unread=()) for gpu in known(name).gpus)


def evidence(machine: Machine | None = None, **changes: Any) -> Evidence:
    """The evidence of a healthy machine with an H200, with `changes` to the evidence or the machine."""
    healthy = machine or replace(known("h200"), nix=NIX, flox="1.14.2", gpus=with_driver("h200", "580.95.05"))
    own = {key: value for key, value in changes.items() if key in Machine.__slots__}
    rest = {key: value for key, value in changes.items() if key not in own}
    clock = ClockReading(now=NOW, newest=NOW - 5, newest_file="/var/log", synchronised=True)
    usual: dict[str, Any] = {"clock": clock, "attempts": (H200,), "runner": "2.336.0", "secret": token(exp=NOW + 10**6)}
    usual["store"] = Answer(status=0)
    return Evidence(machine=replace(healthy, **own), **(usual | rest))


def judged(work: Assignment, shown: Evidence) -> Mapping[str, Judgement]:
    return examine(work, shown)


def failures(work: Assignment, shown: Evidence) -> dict[str, str]:
    return {name: found.message for name, found in judged(work, shown).items() if found.verdict is CheckVerdict.FAILED}


def work(stage: str = "", name: str = "", **document: Any) -> Assignment:
    """Work on the bundled spec, or on the small one with changes."""
    if not document:
        return bundled_work(stage, name)
    return work_of(spec_of(small(**document)), stage=stage_of(stage) if stage else None, name=name)


@cache
def bundled_work(stage: str, name: str) -> Assignment:
    return work_of(bundled_spec(), stage=stage_of(stage) if stage else None, name=name)


@pytest.mark.parametrize("name", ["", GPU])
@pytest.mark.parametrize("stage", ["", *(stage.name for stage in stages())])
def test_a_healthy_machine_passes_every_check(stage: str, name: str) -> None:
    results = judged(work(stage, name), evidence())
    assert [*CHECKS] == list(results)
    assert {found.verdict for found in results.values()} <= {CheckVerdict.OK, CheckVerdict.SKIPPED}
    for check in CHECKS:
        if name and stage and check in stage_of(stage).checks:
            not_needed = results[check].message.endswith(", which is checked") or check == "cache"  # the spec has none
            not_needed |= check == "emulator" and "sde64" in results[check].message  # QEMU executes no AVX-512
            assert (results[check].verdict is CheckVerdict.OK) != not_needed, check


@pytest.mark.parametrize(
    ("machine", "isa", "tools", "verdict", "message"),
    [
        ("sandy-bridge", "avx", (), CheckVerdict.OK, "this CPU has no more than the variants that it tests"),
        ("haswell", "avx", ("qemu-x86_64",), CheckVerdict.OK, "emulated: avx by qemu-x86_64"),
        (
            "haswell",
            "avx",
            (),
            CheckVerdict.SKIPPED,
            "not emulated, so that the tests say 'on a larger CPU': avx (qemu-x86_64 or sde64); Debian's package",
        ),
        ("graviton3", "armv8_2", ("qemu-aarch64",), CheckVerdict.OK, "emulated: armv8_2 by qemu-aarch64"),
        ("zen4", "avx512", ("qemu-x86_64",), CheckVerdict.SKIPPED, "not emulated, so that the tests say"),
        ("zen4", "avx512", ("sde64",), CheckVerdict.OK, "emulated: avx512 by sde64"),
    ],
)
def test_a_test_on_a_larger_cpu_needs_an_emulator(
    machine: str, isa: str, tools: tuple[str, ...], verdict: CheckVerdict, message: str
) -> None:
    found = examine(bundled_work("cpu-test", f"pytorch-python313-cpu-{isa}"), evidence(known(machine), tools=tools))
    assert found["emulator"].verdict is verdict
    assert found["emulator"].message.startswith(message)


@pytest.mark.parametrize(
    ("fence", "reached", "verdict", "message"),
    [
        (False, (), CheckVerdict.SKIPPED, "not in a container"),
        (True, (), CheckVerdict.OK, "no route to"),
        (True, ("169.254.169.254",), CheckVerdict.FAILED, "a job reaches 169.254.169.254"),
    ],
)
def test_a_job_must_not_reach_what_is_closed(
    reached: tuple[str, ...], verdict: CheckVerdict, message: str, *, fence: bool
) -> None:
    found = host_checks.egress(work("build"), evidence(fence=fence, reached=reached))
    assert (found.verdict, message in found.message) == (verdict, True)


CACHE = {"cache": {"url": "file:///cache", "public-key": f"my-cache:{'A' * 43}="}}


@pytest.mark.parametrize(
    ("shown", "verdict", "message"),
    [
        (Answer(status=0), CheckVerdict.OK, "file:///cache answers"),
        (
            Answer(status=1, err="error: no access"),
            CheckVerdict.FAILED,
            "file:///cache does not answer: error: no access",
        ),
        (None, CheckVerdict.SKIPPED, "file:///cache was not checked: nix is not on PATH"),
    ],
)
def test_publishing_asks_the_cache(shown: Answer | None, verdict: CheckVerdict, message: str) -> None:
    found = judged(work("publish", **CACHE), evidence(cache=shown))["cache"]
    assert (found.verdict, found.message) == (verdict, message)


def test_a_secret_behind_reviewers_is_not_required_before_the_approval() -> None:
    assert failures(work("publish", publish={"reviewers": False}), evidence(secret=""))["token"].endswith("is not set")
    found = judged(work("publish", publish={"reviewers": True}), evidence(secret=""))["token"]
    assert found.verdict is CheckVerdict.SKIPPED
    assert found.message.endswith("a job gets it after a reviewer of publish has approved")


@pytest.mark.parametrize("stage", [stage.name for stage in stages()])
def test_checks_that_a_stage_does_not_need_are_shown_as_skipped(stage: str) -> None:
    results = judged(work(stage, GPU), evidence())
    for check in each(CHECKS):
        if check not in stage_of(stage).checks:
            assert results[check].verdict is CheckVerdict.SKIPPED
            assert results[check].message == f"{stage} does not need it"


def test_a_builder_needs_no_gpu_and_ignores_a_broken_one() -> None:
    machine = replace(known("crashed-driver"), nix=NIX, flox="1.14.2")
    assert failures(work("build", GPU), evidence(machine, attempts=())) == {}
    assert failures(work("", GPU), evidence(machine, attempts=())) == {}


def space(role: str, *, free: int, device: str = "/dev/sdb", kind: str = "xfs") -> tuple[StorageFolder, ...]:
    """The usual folders, with the one of `role` on its own file system."""
    own = StorageFolder(role=role, path=f"/{role}", device=device, kind=kind, size=100 * GB, free=free)
    return tuple(own if folder.role == role else folder for folder in FOLDERS)


UNSANDBOXED = replace(NIX, sandboxed=False)
BUILD_ILLNESSES: list[tuple[str, dict[str, Any], str]] = [
    ("tools", {"flox": ""}, "flox is not on PATH"),
    ("store-space", {"folders": space("store", free=20 * GB - 1)}, "19.9 GB free for the Nix store"),
    ("build-space", {"folders": space("build", free=19 * GB)}, "19 GB free for the build folder (/build on /dev/sdb)"),
    ("build-folder", {"folders": space("build", free=99 * GB, kind="tmpfs")}, "/build, which is in memory (tmpfs)"),
    ("build-folder", {"folders": FOLDERS[:1]}, "the file system of the build folder cannot be determined"),
    ("memory", {"memory": 30 * GB}, "30 GB of memory, but a build needs 32 GB"),
    ("memory", {"nix": replace(NIX, max_jobs=16)}, "but 16 builds at a time (max-jobs) need 32 GB each"),
    ("memory", {"nix": replace(NIX, max_jobs=0)}, "max-jobs is 0, so Nix builds nothing here"),
    ("sandbox", {"nix": replace(NIX, sandboxed=None, problem="error: no daemon")}, "fails: error: no daemon"),
    ("sandbox", {"nix": replace(NIX, sandboxed=None)}, "no test build ran"),
    ("sandbox", {"nix": UNSANDBOXED}, "sandbox = true, but a test build ran without one"),
    ("sandbox", {"nix": replace(UNSANDBOXED, sandbox="relaxed")}, "sandbox = relaxed, but"),
    (
        "nix-holes",
        {"nix": replace(NIX, version="2.8.0")},
        "Nix 2.8.0 has known holes between its users (CVE-2024-27297",
    ),
    ("nix-holes", {"nix": replace(NIX, version="2.31.3")}, "(CVE-2026-39860: a build can write files as the daemon"),
    ("nix-holes", {"nix": replace(NIX, version="2.34.6")}, "(CVE-2026-44028: a user of the daemon can run code"),
    ("big-parallel", {"nix": replace(NIX, features=("kvm",))}, "lacks big-parallel (it has kvm)"),
    ("clock", {"clock": ClockReading(now=upstream().written - 1)}, "before this release of ci-compiler"),
    (
        "clock",
        {"clock": ClockReading(now=NOW, newest=NOW + 400, newest_file="/var/log")},
        "but /var/log was changed at",
    ),
    ("clock", {"clock": ClockReading(now=NOW, synchronised=False)}, "no time server synchronises it"),
    ("runner", {"runner": "2.328.9"}, "runner 2.328.9 is no longer supported; GitHub accepts 2.329.0 or newer"),
    (
        "runner",
        {"runner": "2.330.0"},
        "runner 2.330.0 may register, and gets no jobs: GitHub refuses 2.331.0 and older",
    ),
    (
        "runner",
        {"runner": "2.334.0"},
        "runner 2.334.0 may register, and gets no jobs: GitHub refuses 2.334.0 and older",
    ),
    ("work-space", {"folders": space("work", free=GB - 1)}, "999 MB free for the files of jobs (/work on /dev/sdb)"),
    ("token", {"secret": token(exp=NOW - 1)}, "FLOX_FLOXHUB_TOKEN expired on"),
    ("token", {"secret": token(exp=NOW + 8 * 3600)}, "but the work ahead takes up to 600 minutes"),
    ("system", {"system": "aarch64-linux"}, "is built for x86_64-linux, and this machine is aarch64-linux"),
]


@pytest.mark.parametrize(("check", "changes", "message"), BUILD_ILLNESSES)
def test_a_fault_of_a_builder_is_found_with_its_remedy(check: str, changes: dict[str, Any], message: str) -> None:
    found = judged(work("build", GPU), evidence(**changes))
    failed = {name: one for name, one in found.items() if one.verdict is CheckVerdict.FAILED}
    assert check in failed
    assert message in failed[check].message
    for one in failed.values():
        assert one.fix
        assert "\n" not in one.fix + one.message
    if "folders" not in changes:
        assert list(failed) == [check]


@pytest.mark.parametrize(
    ("version", "names"),
    [
        ("2.3.17", ["CVE-2024-27297"]),
        ("2.3.18", []),
        ("2.8.0", ["CVE-2024-27297"]),
        ("2.18.1", ["CVE-2024-27297"]),
        ("2.18.2", ["CVE-2026-39860"]),
        ("2.20.5", ["CVE-2026-39860"]),
        ("2.24.4", ["CVE-2026-39860", "CVE-2026-44028"]),
        ("2.28.6", ["CVE-2026-44028"]),
        ("2.34.7", []),
        ("2.35.2", []),
        ("3.0", []),
    ],
)
def test_the_holes_of_a_nix_follow_from_its_version(version: str, names: list[str]) -> None:
    assert [hole.name for hole in holes(f"nix (Nix) {version}")] == names


@pytest.mark.slow
def test_the_nix_that_is_advised_and_every_later_one_have_no_known_hole() -> None:
    versions = [f"2.{line}.{patch}" for line in range(3, 41) for patch in range(30)]
    advised = set()
    for version in versions:
        if holes(version):
            judgement = judged(work("build", GPU), evidence(nix=replace(NIX, version=version)))["nix-holes"]
            advised.add(judgement.fix.removeprefix("install Nix ").removesuffix(" or newer"))
    assert len(advised) == 1
    [lowest] = advised
    assert lowest in versions
    assert not [version for version in versions[versions.index(lowest) :] if holes(version)]


BLACKWELL = "pytorch-python313-cuda12_9-sm120-avx512bf16"
TEST_ILLNESSES: list[tuple[str, str, Evidence, str]] = [
    ("instructions", GPU, evidence(flags=known("ice-lake").flags), "lacks avx512_bf16, which avx512bf16 needs"),
    ("gpu", GPU, evidence(gpus=()), "no GPU was found: nvidia-smi is missing"),
    ("gpu", GPU, evidence(problems=("nvidia-smi: GPU 1 is lost",)), "nvidia-smi: GPU 1 is lost"),
    ("gpu-code", GPU, evidence(gpus=known("mig").gpus), "no GPU here runs code built for sm90; found: NVIDIA A100"),
    (
        "driver",
        GPU,
        evidence(gpus=with_driver("h200", "520.61.05")),
        "has driver 520.61.05, and CUDA 12.8 needs 525 or newer",
    ),
    (
        "driver",
        GPU.replace("12_8", "13_0"),
        evidence(gpus=known("h200").gpus),
        "has driver 570.86.15, and CUDA 13.0 needs 580",
    ),
    ("driver", "", evidence(gpus=known("h200").gpus), "has driver 570.86.15, and CUDA 13.0 needs 580"),
    ("driver", GPU, evidence(gpus=with_driver("h200", "")), "has an unknown driver"),
    (
        "driver",
        "pytorch-python313-cuda12_9-sm61-avx2",
        evidence(gpus=(replace(known("h200").gpus[0], capability=Version(6, 1), driver="590.48.01"),)),
        "has driver 590.48.01, which no longer runs sm61",
    ),
    (
        "driver",
        BLACKWELL,
        evidence(gpus=with_driver("two-gpus", "560.1")[1:]),
        "has driver 560.1, and CUDA 12.9 needs 570",
    ),
    ("gpu-usable", GPU, evidence(attempts=()), "libcuda.so.1 is neither in /run/opengl-driver/lib nor"),
    (
        "gpu-usable",
        GPU,
        evidence(attempts=(H200._replace(devices=(), problem="cuInit fails with CUDA_ERROR_UNKNOWN"),)),
        f"{LINK}: cuInit fails with CUDA_ERROR_UNKNOWN",
    ),
    ("gpu-usable", GPU, evidence(attempts=(H200._replace(devices=()),)), f"{LINK}: it reports no GPU"),
    ("store-space", GPU, evidence(folders=space("store", free=1)), "1 B free for the Nix store"),
]


@pytest.mark.parametrize(("check", "name", "shown", "message"), TEST_ILLNESSES)
def test_a_fault_of_a_gpu_tester_is_found(check: str, name: str, shown: Evidence, message: str) -> None:
    failed = failures(work("gpu-test", name), shown)
    assert message in failed[check]
    if check != "gpu":
        assert list(failed) == [check]


def test_of_two_gpus_the_one_that_runs_the_variant_counts() -> None:
    machine = replace(known("two-gpus"), nix=NIX, flox="1.14.2")
    found = judged(work("gpu-test", "pytorch-python313-cuda12_8-sm61-avx2"), evidence(machine))
    assert found["gpu-code"].message == (
        "NVIDIA GeForce GTX 1080 Ti (sm61) runs code built for sm61; NVIDIA GeForce RTX 5090 (sm120) does not"
    )
    assert found["driver"].message == "driver 570.86.15 runs CUDA 12.8"
    old = tuple(replace(gpu, driver="560.1") for gpu in machine.gpus)
    assert (
        failures(work("gpu-test", "pytorch-python313-cuda12_8-sm61-avx2"), evidence(replace(machine, gpus=old))) == {}
    )


def test_a_cpu_test_needs_the_flags_of_the_variant_and_no_gpu() -> None:
    machine = replace(known("ice-lake"), nix=NIX)
    assert failures(work("cpu-test", CPU), evidence(machine, attempts=())) == {
        "instructions": "Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz lacks avx512_bf16, which avx512bf16 needs"
    }
    assert failures(work("cpu-test", CPU.replace("bf16", "vnni")), evidence(machine, attempts=())) == {}


def test_graviton3_is_not_armv9() -> None:
    machine = replace(known("graviton3"), nix=NIX)
    found = failures(work("cpu-test", "pytorch-python313-cpu-armv9"), evidence(machine))
    assert found == {"instructions": "part 0xd40 of implementer 0x41 lacks sve2, which armv9 needs"}
    assert failures(work("cpu-test", "pytorch-python313-cpu-armv8_2"), evidence(machine)) == {}


def test_a_virtual_machine_is_warned_that_flags_may_be_hidden() -> None:
    machine = replace(known("cascade-lake-guest"), nix=NIX)
    fix = judged(work("cpu-test", CPU.replace("bf16", "vnni")), evidence(machine))["instructions"].fix
    assert fix.endswith("or let the hypervisor expose these flags")


def test_a_deep_proof_also_judges_the_disk() -> None:
    deep = replace(work("cpu-test", CPU), deep=True)
    assert list(judged(deep, evidence())) == [*CHECKS, "disk"]
    assert failures(deep, evidence()) == {}
    fault = "a file that was just written has another content"
    assert failures(deep, evidence(disk=fault)) == {"disk": fault}


# What each backend needs.


@pytest.mark.parametrize(
    ("backend", "stage", "changes", "failing"),
    [
        ("flox", "build", {"nix": None}, []),
        ("flox", "build", {"nix": None, "flox": ""}, ["tools"]),
        ("flox", "cpu-test", {"flox": ""}, []),
        ("flox", "cpu-test", {"flox": "", "nix": None}, ["tools"]),
        ("nix", "build", {"flox": "", "secret": ""}, []),
        ("nix", "build", {"nix": None, "secret": ""}, ["tools", "sandbox", "big-parallel"]),
        ("nix", "cpu-test", {"nix": None}, ["tools"]),
        ("nix", "publish", {"nix": None, "secret": ""}, ["tools", "token"]),
    ],
)
def test_each_backend_needs_its_own_tools(
    backend: str, stage: str, changes: dict[str, Any], failing: list[str]
) -> None:
    found = judged(work(stage, backend=backend), evidence(**changes))
    assert [name for name, one in found.items() if one.verdict is CheckVerdict.FAILED] == failing


def test_without_nix_on_path_the_nix_of_flox_is_shown_as_skipped() -> None:
    found = judged(work("build", GPU), evidence(nix=None))
    assert [found[name].verdict for name in ("sandbox", "big-parallel")] == [CheckVerdict.SKIPPED] * 2
    assert "its own Nix, none on PATH" in found["tools"].message


def test_nixpkgs_programs_find_the_driver_by_its_link_and_flox_by_the_cache_as_well() -> None:
    cached = H200._replace(library="/lib/libcuda.so.1", linked=False)
    broken = H200._replace(devices=(), problem="cuInit fails")
    assert failures(work("gpu-test", GPU), evidence(attempts=(broken, cached))) == {}
    found = failures(work("gpu-test", backend="nix"), evidence(attempts=(cached,)))
    assert found == {
        "gpu-usable": "/lib/libcuda.so.1 works, but programs of nixpkgs look only in /run/opengl-driver/lib"
    }


def test_memory_whose_size_is_unknown_is_no_fault() -> None:
    found = judged(work("build", GPU), evidence(memory=0))["memory"]
    said = "the size of the memory is unknown; a build needs 32 GB"
    assert (found.verdict, found.message) == (CheckVerdict.SKIPPED, said)


def test_a_builder_configured_without_a_sandbox_is_healthy() -> None:
    nix = replace(NIX, sandbox="false", sandboxed=False)
    found = judged(work("build", GPU), evidence(nix=nix))["sandbox"]
    assert (found.verdict, "without a sandbox" in found.message) == (CheckVerdict.OK, True)


def test_a_sandbox_without_a_shell_is_told_from_other_failures() -> None:
    nix = replace(NIX, sandboxed=None, problem="error: executing '/bin/sh': No such file or directory")
    assert "give the sandbox a shell" in judged(work("build", GPU), evidence(nix=nix))["sandbox"].fix


# The publishing secret.

SECRET = "c2VjcmV0"  # noqa: S105  (it says `secret`)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("", "FLOX_FLOXHUB_TOKEN is not set"),
        (SECRET, "is not a FloxHub token"),
        (token(exp=NOW + 7000, sub=SECRET), "but the work ahead takes up to 120 minutes"),
    ],
)
def test_a_token_that_cannot_publish_is_found_and_never_shown(given: str, message: str) -> None:
    shown = evidence(secret=given)
    found = judged(work("publish", GPU), shown)["token"]
    assert found.verdict is CheckVerdict.FAILED
    assert message in found.message
    assert SECRET not in repr(shown) + found.message + found.fix
    assert not given or given not in repr(shown) + found.message + found.fix


def test_a_token_must_outlive_the_longest_build_that_the_spec_states() -> None:
    packages = {"pytorch": {"minutes": {"gpu": 300, "cpu": 30}}, "torchvision": {"needs": ["pytorch"]}}
    needed = work("publish", packages=packages)
    assert "up to 300 minutes" in failures(needed, evidence(secret=token(exp=NOW + 299 * 60)))["token"]
    assert failures(needed, evidence(secret=token(exp=NOW + 301 * 60))) == {}


def test_a_build_needs_no_token() -> None:
    assert judged(work("build", GPU), evidence(secret=""))["token"].verdict is CheckVerdict.SKIPPED


@pytest.mark.parametrize(
    ("flox", "answer", "failing"),
    [
        ("1.14.0", Answer(status=0, out="Logged in"), ""),
        ("1.14.0", Answer(status=1, err="not logged in"), "cannot be checked (flox: not logged in)"),
    ],
)
def test_a_token_that_only_floxhub_can_read_is_proved_by_flox(flox: str, answer: Answer | None, failing: str) -> None:
    shown = evidence(secret=f"flox_sat_{SECRET}", flox=flox, answer=answer)
    assert failing in failures(work("publish", GPU), shown).get("token", "")
    assert bool(failing) == ("token" in failures(work("publish", GPU), shown))


KEY = base64.b64encode(bytes(range(64))).decode()
PUBLIC = base64.b64encode(bytes(range(32, 64))).decode()


@pytest.mark.parametrize(
    ("key", "cache", "failing"),
    [
        (f"my-cache:{KEY}", PUBLIC, ""),
        (f"other:{KEY}", PUBLIC, "not the pair of cache.public-key"),
        (f"other:{KEY}", "", ""),
    ],
)
def test_a_signing_key_is_the_pair_of_the_public_one(key: str, cache: str, failing: str) -> None:
    document: dict[str, Any] = {"backend": "nix"}
    if cache:
        document["cache"] = {"url": "s3://my-cache", "public-key": f"my-cache:{cache}"}
    shown = evidence(secret=key)
    found = failures(work("publish", **document), shown)
    assert failing in found.get("token", "")
    assert bool(failing) == bool(found)
    assert key.partition(":")[2] not in repr(shown) + str(found)


@given(st.text() | st.binary().map(lambda data: f"a.{base64.urlsafe_b64encode(data).decode().rstrip('=')}.c"))
def test_any_text_may_be_given_as_a_token(text: str) -> None:
    judged(work("publish"), evidence(secret=text, answer=None))


# The requested work.


@pytest.mark.parametrize(
    ("stage", "name", "message"),
    [
        ("build", "pytorch-python313-cuda12_8-sm90-avx51", "unknown ISA 'avx51'; did you mean avx512"),
        ("build", "pytorch-python313-cuda12_8-sm9-avx512", "unknown GPU 'sm9'; did you mean sm90"),
        ("build", "pytorch-python313-cpu-armv8.2", "write pytorch-python313-cpu-armv8_2"),
        ("build", "pytorch-python313-cuda13_0-sm61-avx2", "is not built: left out on cuda-13_0"),
        ("gpu-test", CPU, "is built for the CPU alone and has no gpu-test"),
    ],
)
def test_an_unknown_name_is_reported_with_the_right_ones(stage: str, name: str, message: str) -> None:
    with pytest.raises(InputError, match="NAME: ") as caught:
        work(stage, name)
    assert message in str(caught.value)


def test_the_named_variant_s_needs_count_and_without_a_name_the_largest() -> None:
    assert work("build", CPU).memory == 16
    assert work("build").memory == 32
    short = evidence(folders=[replace(one, free=7 * GB) for one in FOLDERS])
    assert "store-space" not in failures(work("build", CPU), short)
    assert "the largest package needs 20 GB" in failures(work("build"), short)["store-space"]
    assert "the largest package needs 10 GB" in failures(work("gpu-test"), short)["store-space"]


def test_a_pool_is_checked_for_its_own_stages_and_gpus() -> None:
    spec = bundled_spec()
    h100 = next(pool for pool in spec.pools if pool.name == "h100")
    tests = work_of(spec, pool=h100)
    assert not failures(tests, evidence())
    short = evidence(folders=[replace(one, free=11 * GB) for one in FOLDERS])
    assert not failures(tests, short)
    assert set(failures(work_of(spec, pool=next(one for one in spec.pools if one.name == "x86-builder")), short)) == {
        "store-space"
    }
    several = failures(work_of(spec, pool=replace(h100, gpus=2)), evidence())
    assert several == {"pool": "h100 needs 2 GPUs of sm90 (there is 1)"}
    assert failures(tests, evidence(gpus=with_driver("two-gpus", "580.95.05")))["pool"].startswith(
        "h100 needs a GPU of sm90 (there is sm61, sm120)"
    )


def test_a_benchmark_needs_a_gpu_for_a_variant_or_a_pool_that_has_one() -> None:
    tests = {"benchmark": "where-routed"}
    needed = {"gpu", "gpu-health", "gpu-code", "driver", "gpu-usable"}
    without = evidence(gpus=(), attempts=())
    of_gpu, of_cpu = (f"pytorch-python313-{cell}" for cell in ("cuda12_8-sm90-avx2", "cpu-avx2"))
    assert set(failures(work("benchmark", of_gpu, tests=tests), without)) >= {"gpu", "gpu-code", "gpu-usable"}
    assert not failures(work("benchmark", of_gpu, tests=tests), evidence())
    found = judged(work("benchmark", of_cpu, tests=tests), without)
    assert {name for name, one in found.items() if one.message == "benchmark does not need it"} >= needed
    assert found["instructions"].verdict is CheckVerdict.OK
    spec = spec_of(small(tests=tests))
    for pool, shown in ((spec.pools[0], without), (spec.pools[1], evidence())):
        assert stage_of("benchmark") in pool.stages
        assert not {"gpu", "gpu-usable"} & set(failures(work_of(spec, pool=pool), shown))


def test_a_store_that_does_not_answer_is_found() -> None:
    shown = evidence(store=Answer(status=1, err="error: cannot connect to socket"))
    assert failures(work("cpu-test"), shown) == {"store": "the store does not answer: error: cannot connect to socket"}


def test_without_a_stage_the_stages_of_the_pools_that_it_fits_count() -> None:
    builder = replace(known("zen4"), nix=NIX, flox="1.14.2")
    assert judged(work(), evidence(builder, attempts=()))["gpu"].message == "nothing that this machine may run needs it"
    tester = judged(work(), evidence(folders=(replace(DISK, size=250 * GB),)))
    assert (tester["gpu"].verdict, tester["memory"].verdict) == (CheckVerdict.OK, CheckVerdict.SKIPPED)


def test_json_contains_every_check() -> None:
    asked = work("gpu-test", GPU)
    shown = as_json(asked, examine(asked, evidence(gpus=())))
    assert (shown["stage"], shown["variant"], shown["ok"]) == ("gpu-test", GPU, False)
    assert [row["check"] for row in shown["checks"]] == [*CHECKS]
    json.dumps(shown)
