"""`ci-compile select`: the variant for a machine, and how to install it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ci_compiler.cli import options
from ci_compiler.cli.console import print_json, table
from ci_compiler.cli.where import filter_of, records_of, spec_of
from ci_compiler.codes import Code
from ci_compiler.errors import wrong
from ci_compiler.hardware import UnknownHardwareError, products
from ci_compiler.hardware.drivers import driver_number
from ci_compiler.hardware.families import DEFAULT, family_of
from ci_compiler.hardware.machine import Machine
from ci_compiler.hardware.workloads import Workload
from ci_compiler.outside import STANDARD_INPUT, bytes_of, reading
from ci_compiler.plan.routing import route
from ci_compiler.plan.rules import judge
from ci_compiler.plan.sharding import ALL
from ci_compiler.reports import offers
from ci_compiler.reports.evidence import proofs
from ci_compiler.reports.offers import Wishes
from ci_compiler.reports.select import Recommendation, rarest, select
from ci_compiler.runner.detect.this_machine import this_machine
from ci_compiler.spec.model import Spec

SCHEMA = Path(offers.__file__).with_name("select-schema.json")
"""The JSON Schema of what `--json` prints."""


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "--gpu",
        metavar="NAME",
        help="a GPU by product (RTX 4090) or architecture (sm89), none, or a machine in words (RTX 4090 + i9-12900K)",
    )
    parser.add_argument(
        "--cpu", metavar="NAME", help="a CPU by model, family or instruction sets (avx512,…), or unknown"
    )
    parser.add_argument(
        "--driver", metavar="N", default="", help="the version of NVIDIA's driver, as nvidia-smi prints it"
    )
    parser.add_argument(
        "--machine",
        metavar="FILE",
        type=options.path,
        help="the machine that this is about: what its tools print, a node of Kubernetes, words (-: standard input)",
    )
    parser.add_argument(
        "--workload",
        choices=[one.value for one in Workload],
        default="general",
        help="the workload whose CPU instructions are preferred",
    )
    parser.add_argument("--package", metavar="P", help="the package, or all; the first of the spec that is built here")
    options.shared(parser, "only-branch", "only-toolkit")
    parser.add_argument("--python", metavar="V", help="only this Python")
    options.shared(parser, "results", "json", "schema", "root", "spec")


def run(arguments: argparse.Namespace) -> int:
    """Selects; 0 if a variant serves, 1 if none does, 2 for an unknown name or a machine that does not exist."""
    if arguments.schema:
        print_json(json.loads(SCHEMA.read_bytes()))
        return 0
    spec = spec_of(arguments)
    judged = judge(spec)
    everything = arguments.package == ALL
    here = [package.name for package in spec.packages.values() if package.repository is None]
    package = rarest(spec, judged.cells) if everything else filter_of(arguments, "package", here)
    served = spec.axes["python"].serves.values() if "python" in spec.axes else ()
    pythons = list(dict.fromkeys([*spec.pythons, *(python for several in served for python in several)]))
    wishes = Wishes(
        package=package or here[0],
        branch=filter_of(arguments, "branch", spec.branches) or "",
        python=filter_of(arguments, "python", pythons) or "",
        toolkit=filter_of(arguments, "toolkit", spec.every_toolkit) or "",
        workload=Workload(arguments.workload),
    )
    known = proofs(spec, judged.cells, route(spec, judged.cells)[0], records_of(arguments))
    machine = _machine(spec, arguments)
    choice = select(spec, judged.cells, machine, wishes, everything=everything, known=known)
    if choice.impossible:
        given = next((f"--{one}" for one in ("cpu", "gpu", "machine") if getattr(arguments, one) is not None), "GPU")
        other = "; `--cpu` names that of the machine that is meant (unknown: any)" if given == "--gpu" else ""
        raise wrong(given, Code.IMPOSSIBLE_MACHINE, "; ".join(choice.problems) + other)
    if arguments.json:
        gpus = [{"name": gpu.name, "sm": gpu.sm, "driver": gpu.driver} for gpu in machine.gpus]
        own = {"system": machine.system, "cpu": machine.cpu, "isas": machine.isas, "gpus": gpus}
        print_json({"machine": own} | choice.as_json())
    else:
        _print(machine, choice, "none that is known here" if _is_open(spec, arguments) else "none")
    return 0 if choice.best else 1


_LOWEST_DRIVER = 100
"""Below it are the versions of the toolkit, which people take for the driver's."""


def _machine(spec: Spec, arguments: argparse.Namespace) -> Machine:
    if arguments.driver and driver_number(arguments.driver) < _LOWEST_DRIVER:
        beside = (
            f", but one of {family_of(DEFAULT).toolkit}, which {family_of(DEFAULT).tool} prints beside it"
            if driver_number(arguments.driver)
            else ""
        )
        message = f"{arguments.driver!r} is not a driver's version such as 580 or 580.65.06{beside}"
        raise wrong("--driver", Code.WRONG_DRIVER, message)
    pasted, gpu = _pasted(spec, arguments) if arguments.machine is not None else None, arguments.gpu
    try:
        if pasted is None and gpu is not None and (whole := _described(spec, arguments)):
            pasted, gpu = whole, None
        return products.machine(
            spec.hardware,
            gpu=gpu,
            cpu_name=arguments.cpu,
            driver=arguments.driver,
            this=lambda: pasted or this_machine(spec.hardware, software=False),
        )
    except UnknownHardwareError as error:
        option = "--gpu" if error.kind == "GPU" else "--cpu"
        raise wrong(option, error.code, str(error)) from None
    except ValueError as error:
        raise wrong("--gpu/--cpu", Code.WRONG_HARDWARE, str(error)) from None


def _described(spec: Spec, arguments: argparse.Namespace) -> Machine | None:
    """The machine that `--gpu` describes in other words than the name of a GPU: `RTX 4090 + i9-12900K`."""
    from ci_compiler.hardware import pasted

    try:
        products.device(spec.hardware, arguments.gpu)
    except UnknownHardwareError:
        found = pasted.read(spec.hardware, arguments.gpu)
    except ValueError:
        return None
    else:
        return None
    if found.problem:
        return None
    whole = pasted.machine(spec.hardware, replace(found, driver=found.driver or arguments.driver))
    without_gpus = bool(whole.system) and not spec.hardware.gpus_of(whole.system)
    return whole if found.gpus or found.none or without_gpus else None


def _pasted(spec: Spec, arguments: argparse.Namespace) -> Machine:
    """The machine that `--machine` describes. `--gpu` and `--cpu` replace what the text says of the GPU and the CPU."""
    from ci_compiler.hardware import pasted

    found = pasted.read(spec.hardware, _input(arguments.machine).decode("utf-8", "replace"))
    if arguments.cpu is not None:
        found = replace(found, cpu="", flags=frozenset())
    if arguments.gpu is not None:
        found = replace(found, gpus=())
    elif found.problem:
        raise wrong(_shown(arguments.machine), Code.WRONG_HARDWARE, found.problem)
    try:
        return pasted.machine(spec.hardware, found)
    except UnknownHardwareError as error:
        raise wrong(_shown(arguments.machine), error.code, str(error)) from None
    except ValueError as error:
        raise wrong(_shown(arguments.machine), Code.WRONG_HARDWARE, str(error)) from None


def _input(path: Path) -> bytes:
    """The content of a file, or of standard input. Raises InputError."""
    with reading(_shown(path), Code.WRONG_VALUE):
        return bytes_of(path)


def _shown(path: Path) -> str:
    return "standard input" if path == STANDARD_INPUT else str(path)


def _is_open(spec: Spec, arguments: argparse.Namespace) -> bool:
    """Whether the machine may have a GPU that nothing here reads, for which the fleet builds."""
    return arguments.gpu is None and bool(products.undescribed(spec.hardware))


def _print(machine: Machine, choice: Recommendation, none: str) -> None:
    print(choice.best.name if choice.best else "no variant serves this machine")
    for key, value in _lines(machine, choice, none):
        print(f"  {key:<10} {value}".rstrip())
    for title, notes in (("also runs here", choice.runners_up), ("better with", choice.better)):
        if notes:
            heading = title if choice.best or title != "better with" else "nearest, with"
            print(f"\n{heading}")
            rows = [[one.offer.name, one.offer.branch, one.note, one.tests] for one in notes]
            table(["variant", "branch", "note", "tests"], rows)


def _lines(machine: Machine, choice: Recommendation, none: str) -> Iterator[tuple[str, str]]:
    gpus = ", ".join(gpu.target or f"{gpu.name} ({gpu.sm}, driver {gpu.driver or 'unknown'})" for gpu in machine.gpus)
    isas = ", ".join(machine.isas) or "none of the instruction sets"
    yield "gpu", gpus or none
    yield "cpu", f"{machine.cpu or 'unknown'} ({machine.system}): {isas}" if machine.system else machine.cpu
    if choice.best:
        libraries = [f"{choice.best.kit} {choice.best.toolkit}"] if choice.best.toolkit else []
        libraries += [f"{family_of(DEFAULT).dnn} {choice.dnn}"] if choice.dnn else []
        yield "branch", ", ".join([choice.best.branch, f"{choice.best.package} {choice.best.version}", *libraries])
    rows = (
        ("but", choice.problems),
        ("why", choice.why),
        ("tested", choice.tested),
        ("untested", choice.untested),
        ("check", choice.doubts),
        ("without", choice.without),
        ("install", choice.install),
        ("verify", choice.verify),
    )
    for key, values in rows:
        for index, value in enumerate(values):
            yield "" if index else key, value
