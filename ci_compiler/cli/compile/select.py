"""`ci-compile select`: the variant for a machine, and how to install it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ci_compiler.cli.where import add_spec, spec_of
from ci_compiler.codes import Code
from ci_compiler.errors import nearest, wrong
from ci_compiler.hardware.workloads import Workload

if TYPE_CHECKING:
    from ci_compiler.hardware.machine import Machine
    from ci_compiler.reports.offers import Wishes
    from ci_compiler.reports.select import Recommendation
    from ci_compiler.spec.model import Spec


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options that describe a machine and what is asked for."""
    parser.add_argument("--gpu", metavar="NAME", help="a GPU by product (RTX 4090) or architecture (sm89), or none")
    parser.add_argument("--cpu", metavar="NAME", help="a CPU by model, family or instruction sets (avx512,…)")
    parser.add_argument(
        "--driver", metavar="N", default="", help="the version of NVIDIA's driver, as nvidia-smi prints it"
    )
    works = [one.value for one in Workload]
    parser.add_argument(
        "--workload", choices=works, default=works[0], help="the workload whose CPU instructions are preferred"
    )
    parser.add_argument("--package", metavar="P", help="the package; the first of the spec that is built here")
    parser.add_argument("--branch", metavar="B", help="only this branch")
    parser.add_argument("--python", metavar="V", help="only this Python")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_spec(parser)


def run(arguments: argparse.Namespace) -> int:
    """Selects; 0 if a variant serves, 1 if none does, 2 for an unknown name or a machine that does not exist."""
    from ci_compiler.cli.console import print_json
    from ci_compiler.plan.rules import judge
    from ci_compiler.reports.select import select

    spec = spec_of(arguments)
    wishes = _wishes(spec, arguments)
    machine = _machine(arguments)
    choice = select(spec, judge(spec).cells, machine, wishes)
    if choice.impossible:
        raise wrong("--cpu", Code.IMPOSSIBLE_MACHINE, "; ".join(choice.problems))
    if arguments.json:
        print_json({"machine": _machine_json(machine)} | choice.as_json())
    else:
        _print(machine, choice)
    return 0 if choice.best else 1


def _wishes(spec: Spec, arguments: argparse.Namespace) -> Wishes:
    from ci_compiler.reports.offers import Wishes

    here = [package.name for package in spec.packages.values() if package.repository is None]
    package = arguments.package or here[0]
    for option, code, name, known in (
        ("package", Code.UNKNOWN_PACKAGE, package, here),
        ("branch", Code.UNKNOWN_BRANCH, arguments.branch, list(spec.branches)),
        ("python", Code.UNKNOWN_PYTHON, arguments.python, list(spec.pythons)),
    ):
        if name is not None and name not in known:
            raise wrong(f"--{option}", code, f"unknown {option} {name!r}{nearest(name, known)}")
    return Wishes(
        package=package,
        workload=Workload(arguments.workload),
        branch=arguments.branch or "",
        python=arguments.python or "",
    )


def _machine(arguments: argparse.Namespace) -> Machine:
    from ci_compiler.hardware import UnknownHardwareError, products, tables
    from ci_compiler.hardware.machine import driver_number
    from ci_compiler.runner.detect.this_machine import this_machine

    if arguments.driver and not driver_number(arguments.driver):
        raise wrong(
            "--driver", Code.WRONG_DRIVER, f"{arguments.driver!r} is not a driver's version such as 580 or 580.65.06"
        )
    try:
        return products.machine(
            gpu=arguments.gpu,
            cpu_name=arguments.cpu,
            driver=arguments.driver,
            this=lambda: this_machine(tables(), trial=False),
        )
    except UnknownHardwareError as error:
        option = "--gpu" if error.kind == "GPU" else "--cpu"
        raise wrong(option, error.code, str(error)) from None
    except ValueError as error:
        raise wrong("--gpu/--cpu", Code.WRONG_HARDWARE, str(error)) from None


def _print(machine: Machine, choice: Recommendation) -> None:
    from ci_compiler.cli.console import table

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
        yield "branch", f"{choice.best.branch}, {choice.best.package} {choice.best.version}"
    for key, values in (("but", choice.problems), ("why", choice.why), ("install", choice.install)):
        for index, value in enumerate(values):
            yield "" if index else key, value


def _machine_json(machine: Machine) -> dict[str, object]:
    return {
        "system": machine.system,
        "cpu": machine.cpu,
        "isas": list(machine.isas),
        "gpus": [{"name": one.name, "sm": one.sm, "driver": one.driver} for one in machine.gpus],
    }
