"""Checks of what a test needs on a machine: the system, the CPU's flags, and a GPU with a driver for the variant."""

from __future__ import annotations

from ci_compiler.hardware import CPU, Toolkit
from ci_compiler.hardware.drivers import driver_number, lowest_driver, too_new_driver
from ci_compiler.hardware.families import family_of
from ci_compiler.hardware.machine import GpuDevice, missing_flags
from ci_compiler.judgement import Judgement, failed, ok, skipped
from ci_compiler.plan.machine_fit import lacks
from ci_compiler.runner.doctor.evidence import Assignment, Evidence, table

_NO_VARIANT = "no variant is named"


def pool(work: Assignment, evidence: Evidence) -> Judgement:
    """The machine, or the slot, has the system, the instruction sets and the GPUs that its pool declares."""
    if work.pool is None:
        return skipped("no pool is named")
    missing = list(lacks(work.spec.hardware, evidence.machine, work.pool))
    if not missing:
        return ok(f"it has what {work.pool.name} declares")
    fix = f"repair it, or correct the entry of {work.pool.name} in the spec"
    return failed(f"{work.pool.name} needs {'; '.join(missing)}", fix)


def system(work: Assignment, evidence: Evidence) -> Judgement:
    """The variant's system is this machine's, or a pool of this machine's system builds or runs it."""
    if work.subject is None:
        return skipped(_NO_VARIANT)
    wanted, own = work.cell.system, evidence.machine.system
    if own == wanted:
        return ok(wanted)
    tests = all(stage.is_test for stage in work.stages)
    if any(
        wanted in (pool.runs if tests else (*pool.runs, *pool.builds)) for pool in work.spec.pools if pool.system == own
    ):
        return ok(f"{own}, where pools {'run' if tests else 'build'} {wanted}")
    message = f"{work.subject.name} is built for {wanted}, and this machine is {evidence.machine.system}"
    return failed(message, f"use a machine with {wanted}; emulation is slow and proves nothing about the CPU")


def instructions(work: Assignment, evidence: Evidence) -> Judgement:
    """The CPU has every flag that the variant's instruction set needs."""
    if work.subject is None:
        return skipped(_NO_VARIANT)
    hardware, isa = work.spec.hardware, work.cell.isa
    if evidence.machine.system != work.cell.system:
        return skipped("the machine has another system")
    missing = missing_flags(hardware, isa, evidence.machine.flags)
    if not missing:
        return ok(f"{evidence.machine.cpu or 'the CPU'} runs {isa}")
    hidden = ", or let the hypervisor expose these flags" if evidence.machine.virtual else ""
    message = f"{evidence.machine.cpu or 'the CPU'} lacks {', '.join(missing)}, which {isa} needs"
    return failed(message, f"test it on {hardware.isa(isa).cpus}{hidden}")


def gpu(work: Assignment, evidence: Evidence) -> Judgement:
    """At least one GPU reports its name and compute capability, and no GPU reports only a part of them."""
    devices, problems, unlisted = evidence.machine.gpus, evidence.machine.problems, evidence.machine.unlisted
    if problems:
        lost = bool(devices) or any(one.faults for one in unlisted)
        return failed("; ".join(problems), work.machines.reset if lost else work.machines.install)
    if not work.machines.install:
        return gpu_usable(work, evidence)
    if not devices:
        return failed(work.machines.missing, work.machines.install)
    found = ", ".join(f"GPU {device.index}: {_title(device)}" for device in devices)
    remarks = dict.fromkeys(remark for device in devices for remark in device.remarks)
    return ok("; ".join([found, *remarks, *map(str, unlisted)]))


def gpu_health(work: Assignment, evidence: Evidence) -> Judgement:
    """No GPU has a fault that lasts until it is reset: memory errors, pending remappings, errors of the driver."""
    machine = evidence.machine
    sick = [(f"GPU {device.index} ({device.name})", device.faults) for device in machine.gpus]
    sick += [(f"GPU {lost.address}", lost.faults) for lost in machine.unlisted]
    if faults := [f"{gpu}: {'; '.join(found)}" for gpu, found in sick if found]:
        return failed("; ".join(faults), work.machines.reset)
    own = [device for device in machine.gpus if device.family == work.family]
    if not own:
        return skipped("no GPU answers, so nothing could be read of their health")
    unread = [sign for sign in work.machines.signs if any(sign in device.unread for device in own)]
    read = [sign for sign in work.machines.signs if sign not in unread]
    listed = (
        f"{what}: {', '.join(signs)}" for what, signs in (("no fault in", read), ("not readable", unread)) if signs
    )
    return (ok if read else skipped)("; ".join(listed) or "nothing is known of where their faults show")


def gpu_code(work: Assignment, evidence: Evidence) -> Judgement:
    """At least one GPU runs the variant's machine code."""
    if work.subject is None:
        return skipped(_NO_VARIANT)
    if work.cell.target == CPU:
        return skipped(f"{work.subject.name} is built for the CPU alone")
    if not work.machines.install:
        return gpu_usable(work, evidence)
    able, unable = _able(work, evidence)
    wanted = work.cell.target
    if not able:
        has = ", ".join(map(_title, unable)) or "none"
        row = work.spec.hardware.gpu(wanted)
        return failed(f"no GPU here runs code built for {wanted}; found: {has}", f"test it on {row.summary}")
    others = f"; {', '.join(map(_title, unable))} does not" if unable else ""
    return ok(f"{', '.join(map(_title, able))} {evidence.runs or f'runs code built for {wanted}'}{others}")


def driver(work: Assignment, evidence: Evidence) -> Judgement:
    """The driver is new enough for the toolkit of the tested variants and for the GPU."""
    devices, _ = _able(work, evidence)
    if not devices:
        return skipped("no GPU here runs what is to be tested")
    toolkits = _toolkits(work, devices)
    if not toolkits:
        return skipped("no variant names a toolkit")
    if work.machines.driver:
        return work.machines.driver(devices, [str(toolkit.version) for toolkit in toolkits])
    for device in devices:
        known = work.spec.hardware.gpus.get(device.sm)
        newest = max(toolkits, key=lambda toolkit: (lowest_driver(toolkit, known), toolkit.version))
        lowest = lowest_driver(newest, known)
        if driver_number(device.driver) < lowest:
            has = f"driver {device.driver}" if device.driver else "an unknown driver"
            message = f"{_title(device)} has {has}, and {_kit(work)} {newest.version} needs {lowest} or newer on it"
            return failed(message, f"install driver {max(lowest, newest.shipped_driver)} or newer")
        if known and 0 < too_new_driver(known) <= driver_number(device.driver):
            message = f"{_title(device)} has driver {device.driver}, which no longer runs {known.name}"
            return failed(message, f"install a driver of branch {known.last_driver}, the last that runs it")
    versions = ", ".join(str(toolkit.version) for toolkit in toolkits)
    return ok(f"driver {devices[0].driver} runs {_kit(work)} {versions}")


def gpu_usable(work: Assignment, evidence: Evidence) -> Judgement:
    """A process with a clean environment finds the driver's library, initializes it and uses a GPU."""
    return work.machines.usable(evidence.attempts, reads_loader_cache=work.spec.backend.reads_loader_cache)


def _able(work: Assignment, evidence: Evidence) -> tuple[list[GpuDevice], list[GpuDevice]]:
    """The GPUs that run the tested variants, and those that do not."""
    hardware, wanted = work.spec.hardware, {cell.target for cell in work.cells if cell.target != CPU}
    able = [
        device for device in evidence.machine.gpus if any(device.runs(hardware, hardware.gpu(name)) for name in wanted)
    ]
    return able, [device for device in evidence.machine.gpus if device not in able]


def _toolkits(work: Assignment, devices: list[GpuDevice]) -> list[Toolkit]:
    """The toolkits of the variants that `devices` test, oldest first."""
    hardware, wanted = work.spec.hardware, {cell.target for cell in work.cells if cell.target != CPU}
    run = {name for name in wanted if any(device.runs(hardware, hardware.gpu(name)) for device in devices)}
    versions = {cell.toolkit for cell in work.cells if cell.target in run and cell.toolkit}
    return sorted(map(hardware.toolkit, versions), key=lambda toolkit: toolkit.version)


def _kit(work: Assignment) -> str:
    return family_of(work.family).toolkit


def _title(device: GpuDevice) -> str:
    return f"{device.name} ({device.sm}{f', {family_of(device.family).slices}' if device.sliced else ''})"


CHECKS = table(pool, system, instructions, gpu, gpu_health, gpu_code, driver, gpu_usable)
