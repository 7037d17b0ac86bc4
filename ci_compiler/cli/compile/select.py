"""`ci-compile select`: the variant for a machine, and how to install it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from ci_compiler.cli.console import print_json, table
from ci_compiler.cli.where import filter_of, spec_of
from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.hardware import UnknownHardwareError, products
from ci_compiler.hardware.drivers import driver_number
from ci_compiler.hardware.machine import Machine
from ci_compiler.hardware.workloads import Workload
from ci_compiler.plan.rules import judge
from ci_compiler.reports.offers import Wishes
from ci_compiler.reports.select import Recommendation, select
from ci_compiler.runner.detect.this_machine import this_machine
from ci_compiler.spec.model import Spec


def run(arguments: argparse.Namespace) -> int:
    """Selects; 0 if a variant serves, 1 if none does, 2 for an unknown name or a machine that does not exist."""
    spec = spec_of(arguments)
    here = [package.name for package in spec.packages.values() if package.repository is None]
    wishes = Wishes(
        package=filter_of(arguments, "package", here) or here[0],
        branch=filter_of(arguments, "branch", spec.branches) or "",
        python=filter_of(arguments, "python", spec.pythons) or "",
        cuda=filter_of(arguments, "cuda", spec.toolkits) or "",
        workload=Workload(arguments.workload),
    )
    machine = _machine(spec, arguments)
    choice = select(spec, judge(spec).cells, machine, wishes)
    if choice.impossible:
        raise wrong("--cpu", Code.IMPOSSIBLE_MACHINE, "; ".join(choice.problems))
    if arguments.json:
        gpus = [{"name": one.name, "sm": one.sm, "driver": one.driver} for one in machine.gpus]
        own = {"system": machine.system, "cpu": machine.cpu, "isas": machine.isas, "gpus": gpus}
        print_json({"machine": own} | choice.as_json())
    else:
        _print(machine, choice)
    return 0 if choice.best else 1


_LOWEST_DRIVER = 100
"""Below it are the versions of CUDA, which people take for the driver's."""


def _machine(spec: Spec, arguments: argparse.Namespace) -> Machine:
    if arguments.driver and driver_number(arguments.driver) < _LOWEST_DRIVER:
        beside = ", but one of CUDA, which nvidia-smi prints beside it" if driver_number(arguments.driver) else ""
        message = f"{arguments.driver!r} is not a driver's version such as 580 or 580.65.06{beside}"
        raise wrong("--driver", Code.WRONG_DRIVER, message)
    try:
        return products.machine(
            spec.hardware,
            gpu=arguments.gpu,
            cpu_name=arguments.cpu,
            driver=arguments.driver,
            this=lambda: this_machine(spec.hardware, software=False),
        )
    except UnknownHardwareError as error:
        option = "--gpu" if error.kind == "GPU" else "--cpu"
        raise wrong(option, error.code, str(error)) from None
    except ValueError as error:
        raise wrong("--gpu/--cpu", Code.WRONG_HARDWARE, str(error)) from None


def _print(machine: Machine, choice: Recommendation) -> None:
    print(choice.best.name if choice.best else "no variant serves this machine")
    for key, value in _lines(machine, choice):
        print(f"  {key:<10} {value}".rstrip())
    for title, notes in (("also runs here", choice.runners_up), ("better with", choice.better)):
        if notes:
            heading = title if choice.best or title != "better with" else "nearest, with"
            print(f"\n{heading}")
            table(["variant", "branch", "note"], [[one.offer.name, one.offer.branch, one.note] for one in notes])


def _lines(machine: Machine, choice: Recommendation) -> Iterator[tuple[str, str]]:
    gpus = ", ".join(f"{one.name} ({one.sm}, driver {one.driver or 'unknown'})" for one in machine.gpus)
    isas = ", ".join(machine.isas) or "none of the instruction sets"
    yield "gpu", gpus or "none"
    yield "cpu", f"{machine.cpu or 'unknown'} ({machine.system}): {isas}"
    if choice.best:
        libraries = [f"CUDA {choice.best.cuda}"] if choice.best.cuda else []
        libraries += [f"cuDNN {choice.cudnn}"] if choice.cudnn else []
        yield "branch", ", ".join([choice.best.branch, f"{choice.best.package} {choice.best.version}", *libraries])
    rows = (
        ("but", choice.problems),
        ("why", choice.why),
        ("check", choice.doubts),
        ("without", choice.without),
        ("install", choice.install),
    )
    for key, values in rows:
        for index, value in enumerate(values):
            yield "" if index else key, value
