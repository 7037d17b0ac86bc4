"""`ci-runner detect`: what this machine is."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from ci_compiler.cli import options
from ci_compiler.cli.console import note, print_json, table
from ci_compiler.cli.progress import progress
from ci_compiler.hardware import tables
from ci_compiler.hardware.families import family_of
from ci_compiler.hardware.machine import Machine, NixInstallation, as_json
from ci_compiler.runner.detect.this_machine import this_machine
from ci_compiler.units import size


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    options.shared(parser, "json")


def run(arguments: argparse.Namespace) -> int:
    """Prints what the machine is; problems go to standard error, and `doctor` judges them."""
    with progress("examining this machine"):
        machine = this_machine(tables(), engines=True)
    if arguments.json:
        print_json(as_json(machine))
    else:
        table(["fact", "value"], _rows(machine))
        for problem in machine.problems:
            note(f"this machine: {problem}")
    return 0


def _rows(machine: Machine) -> Iterator[tuple[str, str]]:
    yield "system", machine.system
    yield "os", f"{machine.os or 'unknown'}, kernel {machine.kernel}"
    yield "cpu", f"{machine.cpu or 'unknown'}{f' ({machine.virtual} guest)' if machine.virtual else ''}"
    yield "isas", ", ".join(machine.isas) or "none of the known ones"
    yield "cores", str(machine.cores)
    yield "memory", size(machine.memory) if machine.memory else "unknown"
    for folder in machine.folders:
        space = f"{size(folder.free)} of {size(folder.size)} free"
        yield folder.role, f"{folder.path}: {space} on {folder.device} ({folder.kind or 'unknown kind'})"
    for gpu in machine.gpus:
        memory = size(gpu.memory) if gpu.memory else "the machine's memory"
        mode = f", in multi-instance ({family_of(gpu.family).slices}) mode" if gpu.sliced else ""
        yield f"gpu {gpu.index}", f"{gpu.name}: {gpu.sm}, {memory}, driver {gpu.driver or 'unknown'}{mode}"
        for remark in gpu.remarks:
            yield f"gpu {gpu.index}", remark
    for lost in machine.unlisted:
        yield "gpu", "; ".join([str(lost), *lost.faults])
    yield "nix", _nix(machine.nix) if machine.nix else "none"
    yield "flox", machine.flox or "none"
    for engine in machine.engines:
        state = f"cannot be used: {engine.problem}" if engine.problem else "usable"
        yield engine.name, f"{engine.version} {state}".strip()


def _nix(nix: NixInstallation) -> str:
    made = {True: "effective", False: "builds are not sandboxed", None: nix.problem or "no build was tried"}
    sandbox = f"sandbox = {nix.sandbox} ({made[nix.sandboxed]})"
    features = f"system-features = {' '.join(nix.features)}"
    version = nix.version or "not on PATH, but there is a nix.conf"
    return f"{version}: {sandbox}, {features}, max-jobs = {nix.max_jobs}, cores = {nix.cores}"
