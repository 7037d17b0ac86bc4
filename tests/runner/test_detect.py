"""Detection: recorded machines, and parsers that accept whatever tools and drivers write."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_compiler.hardware import Version, tables
from ci_compiler.hardware.drivers import driver_number, lowest_driver
from ci_compiler.hardware.families.cuda.devices import GpuTexts, gpus
from ci_compiler.hardware.machine import GpuDevice, as_json, missing_flags
from ci_compiler.hardware.texts import Answer
from ci_compiler.runner.detect import recorded as detect
from ci_compiler.runner.detect.recorded import Recorded
from ci_compiler.units import gigabytes, release
from tests.runner.machines import NAMES, known, recorded

ISAS = {
    "sandy-bridge": "avx",
    "haswell": "avx avx2",
    "skylake-sp": "avx avx2 avx512",
    "cascade-lake": "avx avx2 avx512 avx512vnni",
    "cascade-lake-guest": "avx avx2 avx512",
    "ice-lake": "avx avx2 avx512 avx512vnni",
    "ice-lake-guest-without-avx512": "avx avx2",
    "alder-lake": "avx avx2",
    "zen4": "avx avx2 avx512 avx512vnni avx512bf16",
    "h200": "avx avx2 avx512 avx512vnni avx512bf16",
    "graviton2": "armv8_2",
    "graviton3": "armv8_2",
    "graviton4": "armv8_2 armv9",
    "grace": "armv8_2 armv9",
    "dgx-spark": "armv8_2 armv9",
}

GPUS = {
    "two-gpus": ["sm61", "sm120"],
    "h200": ["sm90"],
    "grace": ["sm90"],
    "dgx-spark": ["sm121"],
    "mig": ["sm80"],
    "lost-gpu": ["sm80"],
}

PROBLEMS = {
    "crashed-driver": "couldn't communicate with the NVIDIA driver",
    "driver-mismatch": "Driver/library version mismatch",
    "old-driver": 'Field "compute_cap" is not a valid field to query',
    "no-driver": "NVIDIA GPUs are on the PCI bus (0000:18:00.0, 0000:3b:00.0), but there is no nvidia-smi",
    "lost-gpu": "nvidia-smi lists GPU 1 without its name and compute capability",
    "capability-not-told": "nvidia-smi lists GPU 0 without its name and compute capability",
}


@pytest.mark.parametrize(("name", "isas"), ISAS.items())
def test_a_cpu_proves_its_instruction_sets_by_its_flags(name: str, isas: str) -> None:
    machine = known(name)
    system = "aarch64-linux" if "arm" in isas else "x86_64-linux"
    assert machine.system == system
    assert sorted(machine.isas) == sorted([tables().systems[system].baseline, *isas.split()])


@pytest.mark.parametrize("name", NAMES)
def test_a_gpu_needs_a_name_and_a_capability_and_other_rows_are_problems(name: str) -> None:
    machine = known(name)
    assert [gpu.sm for gpu in machine.gpus] == GPUS.get(name, [])
    assert bool(machine.problems) == (name in PROBLEMS)
    assert PROBLEMS.get(name, "") in "; ".join(machine.problems)
    json.dumps(as_json(machine))


def test_every_recorded_machine_has_an_expectation() -> None:
    assert set(NAMES) == ISAS.keys() | GPUS.keys() | PROBLEMS.keys()


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("haswell", "Intel(R) Xeon(R) CPU E5-2680 v3 @ 2.50GHz"),
        ("graviton2", "Neoverse-N1"),
        ("graviton3", "part 0xd40 of implementer 0x41"),
    ],
)
def test_the_best_available_name_of_the_cpu_is_used(name: str, model: str) -> None:
    assert known(name).cpu == model


def test_flags_come_from_lscpu_if_cpuinfo_is_unreadable() -> None:
    machine = known("zen4", cpuinfo="")
    assert machine.isas == known("zen4").isas
    assert machine.cpu == "AMD EPYC 9554 64-Core Processor"


def test_a_flag_that_one_processor_lacks_proves_nothing() -> None:
    text = recorded("zen4").cpuinfo
    first, second = text.split("\n\n", 1)
    assert "avx512bf16" not in known("zen4", cpuinfo=f"{first}\n\n{second.replace(' avx512_bf16', '')}").isas
    assert known("zen4", cpuinfo=f"{first}\n\nprocessor: 1\nflags:\n", lscpu="").isas == ("baseline",)


@pytest.mark.parametrize("isa", tables().isas)
def test_an_instruction_set_needs_every_flag_of_its_own_and_of_what_it_includes(isa: str) -> None:
    hardware = tables()
    needed = {flag for name in hardware.runs([isa]) for flag in hardware.isa(name).cpuinfo}
    assert missing_flags(hardware, isa, needed) == ()
    for flag in needed:
        assert missing_flags(hardware, isa, needed - {flag}) == (flag,)


def test_the_gpus_have_their_memory_driver_and_mode() -> None:
    pascal, blackwell = known("two-gpus").gpus
    assert (pascal.name, pascal.index, pascal.driver) == ("NVIDIA GeForce GTX 1080 Ti", 0, "570.86.15")
    assert (blackwell.index, gigabytes(blackwell.memory), blackwell.sliced) == (1, 34.1, False)
    assert known("dgx-spark").gpus[0].memory == 0
    assert [(gpu.sliced, gpu.memory) for gpu in known("mig").gpus] == [(True, 0)]


@pytest.mark.parametrize(
    ("out", "problem"),
    [
        ("", "nvidia-smi: exited with 0 and listed no GPU"),
        ("No devices were found\n", "nvidia-smi: No devices were found"),
        ("0, [Unknown Error], 9.0, 1, 570.1, Disabled\n", "nvidia-smi lists GPU 0 without"),
        ("0, NVIDIA H100, ERR!, 1, 570.1, Disabled\n", "nvidia-smi lists GPU 0 without"),
        ("0, NVIDIA H100, 9, 1, 570.1, Disabled\n", "nvidia-smi lists GPU 0 without"),
    ],
)
def test_an_answer_without_a_gpu_is_a_problem(out: str, problem: str) -> None:
    found, problems = gpus(GpuTexts(smi=Answer(status=0, out=out)))
    assert found == ()
    assert problems[0].startswith(problem)


def test_a_gpu_that_the_tables_do_not_know_runs_nothing() -> None:
    hardware = tables()
    pascal = GpuDevice(index=0, name="Tesla P100", capability=Version(6, 0))
    assert not pascal.runs(hardware, hardware.gpu("sm61"))
    ada = GpuDevice(index=0, name="L40S", capability=Version(8, 9))
    assert ada.runs(hardware, hardware.gpu("sm80"))
    assert not ada.runs(hardware, hardware.gpu("sm90"))


def test_drivers_are_numbers_and_blackwell_needs_its_own() -> None:
    hardware = tables()
    assert [driver_number(text) for text in ("570.86.15", "580", "", "[N/A]", "x570")] == [570, 580, 0, 0, 0]
    assert lowest_driver(hardware.toolkit("12.8"), hardware.gpu("sm90")) == 525
    assert lowest_driver(hardware.toolkit("12.8"), hardware.gpu("sm120")) == 570
    assert lowest_driver(hardware.toolkit("13.0"), hardware.gpu("sm120")) == 580


# What a process may use.


@pytest.mark.parametrize(
    ("texts", "cores"),
    [
        ((), 64),
        (("max 100000",), 64),
        (("-1 100000",), 64),
        (("400000 100000",), 4),
        (("350000 100000", "max 100000", "1600000 100000"), 3),
        (("50000 100000",), 1),
        (("", " ", "x y"), 64),
    ],
)
def test_affinity_and_control_groups_limit_the_cores(texts: tuple[str, ...], cores: int) -> None:
    assert known("zen4", cpu_limits=texts).cores == cores


@pytest.mark.parametrize(
    ("limits", "memory"),
    [
        ((), 128 * 2**30),
        (("max\n", "9223372036854771712\n", ""), 128 * 2**30),
        (("34359738368\n", "max"), 32 * 2**30),
    ],
)
def test_control_groups_limit_the_memory(limits: tuple[str, ...], memory: int) -> None:
    assert known("zen4", meminfo=f"MemTotal: {128 * 2**20} kB\n", memory_limits=limits).memory == memory


# Mounts and the build folder.

HOST = """\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 27 0:27 / /fast rw,relatime shared:3 - tmpfs tmpfs rw
31 27 0:40 / /mnt/a\\040b rw - tmpfs none rw
32 27 259:1 /builds /big rw - xfs /dev/nvme1n1 rw
33 27 259:1 / /whole rw - xfs /dev/nvme1n1 rw
"""


def sandbox_of(root: str, numbers: str = "254:0", kind: str = "ext4 /dev/vda") -> Answer:
    """The output of a trial build in a sandbox whose build folder is `root` of a file system."""
    seen = f"123 102 254:0 /nix/store/x.drv.chroot / rw - ext4 /dev/vda rw\n126 123 {numbers} {root} /build rw - {kind}"
    return Answer(status=0, out=f"/build\n{seen} rw\n")


@pytest.mark.parametrize(
    ("path", "point", "kind"),
    [
        ("/fast/x", "/fast", "tmpfs"),
        ("/fastx", "/", "ext4"),
        ("/", "/", "ext4"),
        ("/mnt/a b/c", "/mnt/a b", "tmpfs"),
    ],
)
def test_a_path_lies_in_the_deepest_mount(path: str, point: str, kind: str) -> None:
    mount = detect.mount_of(detect.mounts(HOST), path)
    assert mount is not None
    assert (mount.point, mount.kind) == (point, kind)


def test_the_last_of_two_mounts_at_one_place_counts() -> None:
    mount = detect.mount_of(detect.mounts(f"{HOST}40 27 0:50 / /fast rw - xfs /dev/vdb rw\n"), "/fast/x")
    assert mount is not None
    assert mount.device == "/dev/vdb"


@pytest.mark.parametrize(
    ("trial", "folder"),
    [
        (sandbox_of("/var/builds/nix-build-x.drv-0"), "/var/builds"),
        (sandbox_of("/nix-build-x.drv-0", "0:27", "tmpfs tmpfs"), "/fast"),
        (sandbox_of("/builds/x.drv-0", "259:1", "xfs /dev/nvme1n1"), "/big"),
        (sandbox_of("/other/x.drv-0", "259:1", "xfs /dev/nvme1n1"), "/whole/other"),
        (sandbox_of("/x.drv-0", "0:99", "tmpfs tmpfs"), "/scratch"),
        (Answer(status=0, out="/fast/nix-build-x.drv-0\n" + HOST), "/fast"),
        (Answer(status=1, err="error: no"), "/scratch"),
        (None, "/scratch"),
    ],
)
def test_the_build_folder_is_where_the_trial_build_ran(trial: Answer | None, folder: str) -> None:
    assert detect.build_folder(recorded("zen4", trial=trial), detect.mounts(HOST), "/scratch") == folder


@pytest.mark.parametrize(
    ("version", "conf", "folder"),
    [
        ("nix (Nix) 2.28.3", "", "/scratch"),
        ("nix (Nix) 2.30.0", "", "/nix/var/nix/builds"),
        ("nix (Determinate Nix 3.8.5) 2.30.2", "build-dir = /big", "/big"),
    ],
)
def test_without_a_trial_build_the_settings_give_the_build_folder(version: str, conf: str, folder: str) -> None:
    nix = Answer(status=0, out=version)
    assert detect.build_folder(recorded("zen4", nix=nix, nix_conf=conf), (), "/scratch") == folder


def test_a_build_is_sandboxed_if_its_folder_is_a_mount() -> None:
    assert detect.sandboxed(sandbox_of("/var/x.drv-0").out)
    assert not detect.sandboxed("/fast/nix-build-x.drv-0\n" + HOST)


# Nix and engines.

OLD = json.dumps(
    {
        "sandbox": {"value": False, "aliases": []},
        "system-features": {"value": ["kvm", "benchmark"]},
        "max-jobs": {"value": 3},
        "build-dir": {"value": None},
    }
)


def nix_of(**changes: Any) -> Any:
    return known("zen4", nix=Answer(status=0, out="nix (Nix) 2.8.0\n"), **changes).nix


@pytest.mark.parametrize("out", [OLD, "sandbox = false\nsystem-features = kvm benchmark\nmax-jobs = 3\nbuild-dir = \n"])
def test_effective_settings_are_read_as_json_and_as_lines(out: str) -> None:
    nix = nix_of(nix_config=Answer(status=0, out=out), nix_conf="sandbox = true\n")
    assert (nix.version, nix.sandbox, nix.features, nix.max_jobs) == ("2.8.0", "false", ("benchmark", "kvm"), 3)
    assert (nix.cores, nix.source, nix.sandboxed) == (64, "nix", None)


def test_without_the_command_the_file_overrides_the_defaults() -> None:
    conf = (
        "# a remark\nsandbox = relaxed  # why\nextra-system-features = gccarch-znver4\nmax-jobs = auto\ncores = 7\nno\n"
    )
    nix = nix_of(nix_config=Answer(status=1, err="error: unknown command"), nix_conf=conf)
    assert (nix.sandbox, nix.max_jobs, nix.cores, nix.source) == ("relaxed", 64, 7, "nix.conf")
    assert nix.features == ("benchmark", "big-parallel", "gccarch-znver4", "nixos-test")
    assert nix_of(nix_conf="system-features = kvm\n").features == ("kvm",)
    assert nix_of().sandbox == "true"


def test_there_is_no_nix_without_both_the_command_and_its_file() -> None:
    assert known("zen4").nix is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("warning: x\nerror: the store is read-only\nerror: b\n", "error: the store is read-only"),
        ("\x1b[31;1merror:\x1b[0m\n       … while calling\n\x1b[31;1merror:\x1b[0m no daemon\n", "error: no daemon"),
        ("\n   Error\x08   Error\0  executing '/bin/sh': No such file\nerror: failed\n", None),
        ("did not answer\n", "did not answer"),
        ("", ""),
    ],
)
def test_the_first_line_about_an_error_describes_a_failed_build(text: str, line: str | None) -> None:
    assert detect.first_error(text) == (line if line is not None else "Error Error executing '/bin/sh': No such file")


def test_an_engine_is_usable_if_a_command_that_needs_it_works() -> None:
    down = Answer(status=1, out="\n", err="\nCannot connect to the Docker daemon\nmore\n")
    podman, docker = known("zen4", engines={"podman": Answer(status=0, out="5.4.2\n"), "docker": down}).engines
    assert (podman.name, podman.version, podman.problem) == ("podman", "5.4.2", "")
    assert (docker.name, docker.problem) == ("docker", "Cannot connect to the Docker daemon")


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("nix (Nix) 2.28.3", (2, 28, 3)),
        ("nix (Lix, like Nix) 2.91.1", (2, 91, 1)),
        ("1.14.0-gdeadbee", (1, 14, 0)),
        ("2.30pre20250521_76a4d4c", (2, 30)),
        ("none", ()),
    ],
)
def test_versions_are_found_in_the_output_of_programs(text: str, numbers: tuple[int, ...]) -> None:
    assert release(text) == numbers


# Arbitrary text.

WORDS = ["flags", "Features", ":", ",", "=", " - ", "/", "\t", "\n", "\0", "{", "}", '"', "9.0", "0"]
ANY = st.text() | st.lists(st.sampled_from(WORDS)).map("".join)
ANSWERS = st.none() | st.builds(Answer, status=st.integers(-9, 255), out=ANY, err=ANY)


@pytest.mark.slow
@given(
    st.builds(
        Recorded,
        machine=ANY,
        os_name=ANY,
        os_release=ANY,
        cpuinfo=ANY,
        lscpu=ANY,
        cpu_limits=st.lists(ANY).map(tuple),
        meminfo=ANY,
        memory_limits=st.lists(ANY).map(tuple),
        gpus=st.fixed_dictionaries({"cuda": st.builds(GpuTexts, smi=ANSWERS, controllers=st.just(()))}),
        nix=ANSWERS,
        nix_config=ANSWERS,
        nix_conf=ANY,
        trial=ANSWERS,
        flox=ANSWERS,
        engines=st.dictionaries(ANY, ANSWERS.filter(bool)),
    ),
    ANY,
)
def test_no_text_breaks_detection(told: Recorded, mountinfo: str) -> None:
    machine = detect.machine(told, tables())
    assert all(text.isprintable() for text in (machine.cpu, machine.os, *machine.problems))
    json.dumps(as_json(machine))
    assert machine.cores >= 1
    known_mounts = detect.mounts(mountinfo)
    detect.mount_of(known_mounts, "/fast")
    assert detect.build_folder(told, known_mounts, "/fast")


@given(st.text(alphabet="0123456789.,[]{}NA/ERR! \n\"'-") | st.text())
def test_numbers_of_any_length_are_parsed_or_ignored(text: str) -> None:
    gpus(GpuTexts(smi=Answer(status=0, out=f"0, a, {text}, {text}, {text}, {text}\n{text}")))
    for parser in (detect.cpu_limit, detect.memory_limit, detect.memory_total, driver_number):
        assert parser(text * 50) >= 0
    assert isinstance(detect.nix_config("{" + text), dict)


def test_an_endless_line_is_not_a_gpu() -> None:
    assert gpus(GpuTexts(smi=Answer(status=0, out='0, "' + "x" * 200_000)))[0] == ()


def test_endless_nesting_is_not_a_setting() -> None:
    assert detect.nix_config('{"a":' + "[" * 100_000) == {}
