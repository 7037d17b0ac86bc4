"""Checks of what a build needs on a machine: tools, space, memory, and a Nix that builds as configured."""

from __future__ import annotations

from ci_compiler.backends.protocol import NixUse
from ci_compiler.hardware.features import more_than
from ci_compiler.hardware.machine import NOMINAL, NixInstallation, StorageFolder
from ci_compiler.judgement import Judgement, failed, ok, skipped
from ci_compiler.plan.proof import Reach
from ci_compiler.runner.doctor.evidence import Assignment, Evidence, table
from ci_compiler.runner.limits import WORK_ROOM, most_disk, room_for
from ci_compiler.runner.upstream import holes, upstream, without_holes
from ci_compiler.units import GB, size

_INSTALL = "install Nix, and put it on the PATH of the runner's service"
_IN_MEMORY = frozenset({"tmpfs", "ramfs"})


def tools(work: Assignment, evidence: Evidence) -> Judgement:
    """The backend's own programs."""
    testing = work.stage is not None and work.stage.is_test
    return work.spec.backend.check_tools(evidence.machine, evidence.tools, testing=testing)


def emulator(work: Assignment, evidence: Evidence) -> Judgement:
    """Emulators for the instruction sets that this CPU exceeds, so that a test proves no more than the CPU under it."""
    machine, hardware = evidence.machine, work.spec.hardware
    isas = [hardware.isa(name) for name in machine.isas if name in {cell.isa for cell in work.cells}]
    larger = [isa for isa in isas if more_than(isa, machine.flags)]
    if not larger:
        return ok("this CPU has no more than the variants that it tests")
    found, lacking = [], []
    for isa in larger:
        known = [one.program for one in hardware.emulators_of(isa)]
        there = next((name for name in known if name in evidence.tools), "")
        if there:
            found.append(f"{isa.name} by {there}")
        else:
            lacking.append(f"{isa.name} ({' or '.join(known) or 'no emulator is known'})")
    said = [f"emulated: {', '.join(found)}"] if found else []
    if not lacking:
        return ok(said[0])
    said.append(f"not emulated, so that the tests say {Reach.LARGER.value!r}: {', '.join(lacking)}")
    return skipped("; ".join(said) + "; Debian's package qemu-user has QEMU's programs")


def store(_: Assignment, evidence: Evidence) -> Judgement:
    """Nix's store answers, and so does the daemon that serves it."""
    answer = evidence.store
    if answer is None:
        return skipped("nix is not on PATH")
    if answer.status == 0:
        return ok("the store answers")
    fix = "start the Nix daemon, or let the user own /nix; then check it with `nix store ping`"
    return failed(f"the store does not answer: {answer.said}", fix)


def store_space(work: Assignment, evidence: Evidence) -> Judgement:
    """There is space for the result, or for the closure that a test fetches, in addition to a build's own files."""
    needed = room_for(work.packages, work.stages)
    return _space(evidence.machine.folder("store"), "the Nix store", needed, _whose(work))


def build_space(work: Assignment, evidence: Evidence) -> Judgement:
    """There is space to unpack and compile in."""
    store, build = evidence.machine.folder("store"), evidence.machine.folder("build")
    checked = work.spec.backend.nix is not NixUse.NONE
    if checked and store is not None and build is not None and store.device == build.device:
        return skipped(f"{build.path} is on the file system of the Nix store, which is checked")
    return _space(build, "the build folder", most_disk(work.packages), _whose(work))


def _whose(work: Assignment) -> str:
    return work.subject.name if work.subject else "the largest package"


def _space(folder: StorageFolder | None, what: str, needed: int, whose: str) -> Judgement:
    if folder is None:
        return failed(f"the free space for {what} cannot be determined", "find out why `df` fails there")
    found = f"{size(folder.free)} free for {what} ({folder.path} on {folder.device})"
    if folder.free >= needed * GB:
        return ok(f"{found}, {whose} needs {needed} GB")
    fix = "collect garbage while nothing builds (nix-collect-garbage -d), or give the file system more room"
    return failed(f"{found}, but {whose} needs {needed} GB", fix)


def work_space(work: Assignment, evidence: Evidence) -> Judgement:
    """There is space where jobs check out, which the logs of the runner share."""
    folder, store = evidence.machine.folder("work"), evidence.machine.folder("store")
    if folder is None:
        return skipped("the file system of the folder for jobs cannot be determined")
    if store is not None and store.device == folder.device and work.spec.backend.nix is not NixUse.NONE:
        return skipped(f"{folder.path} is on the file system of the Nix store, which is checked")
    return _space(folder, "the files of jobs", WORK_ROOM, "a job")


def build_folder(_: Assignment, evidence: Evidence) -> Judgement:
    """Build folders are not in memory, which the compilers need, and files in them may have long paths."""
    folder = evidence.machine.folder("build")
    if folder is None:
        return failed("the file system of the build folder cannot be determined", "find out why `df` fails there")
    if folder.kind in _IN_MEMORY:
        fix = "set build-dir in nix.conf (before Nix 2.22: TMPDIR of the process that builds) to a folder on a disk"
        return failed(f"builds run in {folder.path}, which is in memory ({folder.kind})", fix)
    if evidence.short_paths:
        fix = r"set LongPathsEnabled to 1 in HKLM\SYSTEM\CurrentControlSet\Control\FileSystem, and git's core.longpaths"
        return failed(f"builds run in {folder.path}, where paths have at most 260 characters", fix)
    return ok(f"builds run in {folder.path}, on {folder.kind or 'a file system of unknown kind'}")


def memory(work: Assignment, evidence: Evidence) -> Judgement:
    """Memory for as many builds as Nix starts at once."""
    nix = evidence.machine.nix if work.spec.backend.nix is not NixUse.NONE else None
    jobs = nix.max_jobs if nix else int(upstream().nix["max-jobs"])
    if not jobs:
        return failed("max-jobs is 0, so Nix builds nothing here", "set max-jobs = 1 in nix.conf")
    needed = work.memory * jobs
    if not evidence.machine.memory:
        return skipped(f"the size of the memory is unknown; a build needs {work.memory} GB")
    found = f"{size(evidence.machine.memory)} of memory"
    each = (
        f"{jobs} builds at a time (max-jobs) need {work.memory} GB each" if jobs > 1 else f"a build needs {needed} GB"
    )
    if evidence.machine.memory >= needed * GB * NOMINAL:
        return ok(f"{found}, {each}")
    if jobs > 1 and evidence.machine.memory >= work.memory * GB * NOMINAL:
        return failed(f"{found}, but {each}", "set max-jobs = 1 in nix.conf, and cores to what one build may use")
    return failed(f"{found}, but {each}", "build on a machine, or in a container, with more memory")


def sandbox(work: Assignment, evidence: Evidence) -> Judgement:
    """A test build succeeds in the configured sandbox; Nix can silently fall back to building without one."""
    # Assumes `nix-sandbox`.
    nix = evidence.machine.nix
    if nix is None or not nix.version:
        if work.spec.backend.nix is NixUse.OWN:
            return skipped(f"nix is not on PATH, and the Nix of {work.spec.backend.title} is not checked")
        return failed("nothing can be built without Nix", _INSTALL)
    if nix.sandboxed is None:
        return _unbuilt(nix)
    if nix.sandboxed:
        return ok(f"a test build ran in a sandbox (sandbox = {nix.sandbox})")
    if nix.sandbox == "false":
        return ok("a test build ran without a sandbox, as nix.conf says (sandbox = false)")
    fix = (
        "allow the container to create namespaces and mounts, or set `sandbox = false` in nix.conf to build without a "
        "sandbox, or `sandbox-fallback = false` to let builds fail"
    )
    return failed(f"sandbox = {nix.sandbox}, but a test build ran without one", fix)


def _unbuilt(nix: NixInstallation) -> Judgement:
    if not nix.problem:
        return failed("no test build ran: nix-build is missing", _INSTALL)
    if "'/bin/sh'" in nix.problem:
        fix = "give the sandbox a shell: sandbox-paths = /bin/sh=PATH-OF-A-STATIC-SHELL in nix.conf"
    else:
        fix = "make `nix-build` work for this user: start the Nix daemon, or let the user own /nix"
    return failed(f"a test build fails: {nix.problem}", fix)


def nix_holes(_: Assignment, evidence: Evidence) -> Judgement:
    """The Nix has no known hole through which one job could change what another builds or runs."""
    nix = evidence.machine.nix
    if nix is None or not nix.version:
        return skipped("nix is not on PATH, so its version is unknown")
    found = holes(nix.version)
    if not found:
        return ok(f"Nix {nix.version} has no known hole between its users")
    listed = "; ".join(f"{hole.name}: {hole.what}" for hole in found)
    fix = f"install Nix {without_holes()} or newer"
    return failed(f"Nix {nix.version} has known holes between its users ({listed})", fix)


def big_parallel(work: Assignment, evidence: Evidence) -> Judgement:
    """Nix has the system feature that nixpkgs requires for large builds."""
    nix = evidence.machine.nix
    if nix is None:
        if work.spec.backend.nix is NixUse.OWN:
            return skipped("nix is not on PATH, so its settings are unknown")
        return failed("Nix is not installed, so it has no system features", _INSTALL)
    if "big-parallel" in nix.features:
        return ok(f"system-features has {' '.join(nix.features)}")
    fix = "add `extra-system-features = big-parallel` to nix.conf, or remove its `system-features` line"
    return failed(f"system-features lacks big-parallel (it has {' '.join(nix.features) or 'none'})", fix)


CHECKS = table(
    tools, emulator, store, store_space, build_space, work_space, build_folder, memory, sandbox, nix_holes, big_parallel
)

OF_NIX = table(store, store_space, sandbox, nix_holes, big_parallel)
"""Those of the machine's Nix, which a backend without Nix skips."""
