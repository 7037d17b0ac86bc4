"""The variant that a machine should run, why, what else it runs, and what a better one would need.

A variant fits where its system is the machine's, the CPU runs its ISA, a GPU of the machine runs its cubin and the
driver runs its toolkit. Of those that fit, the best is chosen by, in this order: a GPU variant before one for the CPU
alone, the GPU's own architecture before one whose code merely runs there, the newest CUDA, the ISA that suits the
workload, the newest Python. The page makes the same choice from the same tables, with the sentences of `select.json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ci_compiler.hardware import CPU, Gpu, Hardware
from ci_compiler.hardware.machine import GpuDevice, Machine, driver_number, lowest_driver
from ci_compiler.hardware.workloads import Workload
from ci_compiler.plan.matrix import Cell
from ci_compiler.reports.install import install
from ci_compiler.spec.model import Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What is asked for. `branch` and `python` empty: any."""

    package: str
    workload: Workload = Workload.GENERAL
    branch: str = ""
    python: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A variant on a branch. `driver` is the lowest that runs it on the machine's GPU, 0 for a CPU variant."""

    name: str
    package: str
    version: str
    branch: str
    cuda: str
    python: str
    gpu: str
    isa: str
    system: str
    driver: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """An offer that is not the best, and what there is to say of it: why it is not, or what it would need."""

    offer: Offer
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """The answer. `best` None: nothing serves. `problems` say why a GPU, or the whole machine, is not served.

    `runners_up` fit and differ from the best in one thing each. `better` do not fit; where nothing does, they are the
    nearest. `impossible`: no such machine exists.
    """

    best: Offer | None
    impossible: bool = False
    problems: tuple[str, ...] = ()
    why: tuple[str, ...] = ()
    runners_up: tuple[Noted, ...] = ()
    better: tuple[Noted, ...] = ()
    install: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The answer as `--json` shows it, and as the page's own logic gives it."""
        return {
            "best": asdict(self.best) if self.best else None,
            "impossible": self.impossible,
            "problems": list(self.problems),
            "why": list(self.why),
            "runners_up": [asdict(one.offer) | {"note": one.note} for one in self.runners_up],
            "better": [asdict(one.offer) | {"note": one.note} for one in self.better],
            "install": list(self.install),
        }


def select(spec: Spec, cells: Iterable[Cell], machine: Machine, wishes: Wishes) -> Recommendation:
    """The variant among `cells` for `machine`. What `wishes` names is known to the spec."""
    return _Chooser(spec, tuple(cells), machine, wishes).choice()


# The order in which things are preferred.


def isa_order(hardware: Hardware, workload: Workload) -> list[str]:
    """Every ISA, the most wanted first: the workload's own, then by how much they include.

    One that is for another workload comes just behind what it adds to: its builds serve that workload alone.
    """
    special = {one.isa for one in Workload if one.isa}

    def less_wanted(name: str) -> tuple[bool, int]:
        depth = 2 * len(hardware.runs([name]))
        return name != workload.isa, -(depth - 3 if name in special else depth)

    return sorted(hardware.isas, key=less_wanted)


def branch_order(spec: Spec, package: str) -> list[str]:
    """The branches with `package`, the newest first: by CUDA, by the package's version, then as the spec has them."""
    names = [name for name, branch in spec.branches.items() if package in branch.versions]

    def newness(name: str) -> tuple[tuple[int, int], list[int]]:
        branch = spec.branches[name]
        return spec.hardware.toolkit(branch.cuda).version, _numbers(branch.versions[package])

    return sorted(names, key=newness, reverse=True)


def python_order(spec: Spec) -> list[str]:
    """The Pythons of the matrix, the newest first."""
    return sorted(spec.matrix.pythons, key=_numbers, reverse=True)


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"[0-9]+", version)]


# Sentences.


@cache
def sentences() -> Mapping[str, str]:
    """The sentences by their names, which the page has as well."""
    found: dict[str, str] = json.loads(Path(__file__).with_name("select.json").read_bytes())["sentences"]
    return found


def _say(key: str, **values: object) -> str:
    return sentences()[key].format(**values)


def _listed(words: Iterable[str]) -> str:
    """`a, b and c`, each once."""
    *most, last = dict.fromkeys(words) or [_say("nothing")]
    return f"{', '.join(most)} {_say('and')} {last}" if most else last


# Choosing.


class _Chooser:
    """One machine's choice: what it holds is looked up once."""

    def __init__(self, spec: Spec, cells: tuple[Cell, ...], machine: Machine, wishes: Wishes) -> None:
        self.spec, self.hardware, self.cells = spec, spec.hardware, cells
        self.machine, self.wishes = machine, wishes
        self.device = max(machine.gpus, key=lambda device: (device.capability, -device.index), default=None)
        self.gpu = self.hardware.gpus.get(self.device.sm) if self.device else None
        self.driver = driver_number(self.device.driver) if self.device else 0
        self.branches = branch_order(spec, wishes.package)
        self.pythons = python_order(spec)
        self.isas = isa_order(self.hardware, wishes.workload)
        self.offers = tuple(self._offers())
        self.wanted = tuple(offer for offer in self.offers if self._asked_for(offer))

    def choice(self) -> Recommendation:
        if self.gpu and self.machine.system not in self.gpu.systems:
            return Recommendation(best=None, impossible=True, problems=(self._impossible(self.gpu),))
        best = self._best(self.wanted)
        problems = []
        if self.device and (best is None or best.gpu == CPU):
            problems.append(self._unserved_gpu(self.device))
        if best is None:
            return Recommendation(best=None, problems=(*problems, self._unserved()), better=tuple(self._better(None)))
        return Recommendation(
            best=best,
            problems=tuple(problems),
            why=tuple(self._why(best)),
            runners_up=tuple(self._runners_up(best)),
            better=tuple(self._better(best)),
            install=install(self.spec, self.cells, branch=best.branch, name=best.name, package=best.package),
        )

    def _offers(self) -> Iterator[Offer]:
        for cell in self.cells:
            branch = self.spec.branches[cell.branch]
            gpu = self.gpu or (None if cell.gpu == CPU else self.hardware.gpu(cell.gpu))
            driver = 0 if cell.gpu == CPU else lowest_driver(self.hardware.toolkit(branch.cuda), gpu)
            for variant in cell.variants:
                if variant.package == self.wishes.package:
                    yield Offer(
                        name=variant.name,
                        package=variant.package,
                        version=branch.versions[variant.package],
                        branch=cell.branch,
                        cuda=branch.cuda,
                        python=cell.python,
                        gpu=cell.gpu,
                        isa=cell.isa,
                        system=cell.system,
                        driver=driver,
                    )

    def _asked_for(self, offer: Offer) -> bool:
        return self.wishes.branch in {"", offer.branch} and self.wishes.python in {"", offer.python}

    # What fits.

    def _gpu_fits(self, offer: Offer) -> bool:
        return offer.gpu == CPU or (self.device is not None and self._runs_cubin(offer))

    def _runs_cubin(self, offer: Offer) -> bool:
        return (
            offer.gpu != CPU
            and self.device is not None
            and self.device.runs(self.hardware, self.hardware.gpu(offer.gpu))
        )

    def _system_fits(self, offer: Offer) -> bool:
        return offer.system == self.machine.system

    def _isa_fits(self, offer: Offer) -> bool:
        return offer.isa in self.machine.isas

    def _driver_fits(self, offer: Offer) -> bool:
        return not self.driver or self.driver >= offer.driver

    def _fits_but_driver(self, offer: Offer) -> bool:
        return self._system_fits(offer) and self._isa_fits(offer) and self._gpu_fits(offer)

    def _fits(self, offer: Offer) -> bool:
        return self._fits_but_driver(offer) and self._driver_fits(offer)

    def _rank(self, offer: Offer) -> tuple[bool, int, int, int, int]:
        """The order of preference: the least is the best."""
        own = self.gpu.capability.minor if self.gpu else 0
        distance = 0 if offer.gpu == CPU else own - self.hardware.gpu(offer.gpu).capability.minor
        return (
            offer.gpu == CPU,
            distance,
            self.branches.index(offer.branch),
            self.isas.index(offer.isa),
            self.pythons.index(offer.python),
        )

    def _best(self, offers: Iterable[Offer]) -> Offer | None:
        return min(filter(self._fits, offers), key=self._rank, default=None)

    # Why nothing, or no GPU variant, serves.

    def _impossible(self, gpu: Gpu) -> str:
        systems = _listed(gpu.systems)
        return _say("impossible", gpu=gpu.name, summary=gpu.summary, systems=systems, system=self.machine.system)

    def _where(self) -> str:
        branch, python = self.wishes.branch, self.wishes.python
        on = _say("where-branch", branch=branch) if branch else ""
        return on + (_say("where-python", python=python) if python else "")

    def _unserved_gpu(self, device: GpuDevice) -> str:
        if self.gpu is None:
            return _say("gpu-unknown", device=device.name, gpu=device.sm)
        said = {"gpu": device.sm, "where": self._where(), "system": self.machine.system}
        left = list(filter(self._runs_cubin, self.wanted))
        if not left:
            return _say("gpu-unbuilt", **said)
        if not any(map(self._system_fits, left)):
            return _say("gpu-system", systems=_listed(offer.system for offer in left), **said)
        left = list(filter(self._system_fits, left))
        if not any(map(self._isa_fits, left)):
            return _say("gpu-isa", isas=self._least(left), has=_listed(self.machine.isas), **said)
        needed = min(offer.driver for offer in left if self._isa_fits(offer))
        return _say("gpu-driver", needed=needed, driver=self.driver, **said)

    def _unserved(self) -> str:
        said = {"package": self.wishes.package, "system": self.machine.system, "where": self._where()}
        here = [offer for offer in self.wanted if self._system_fits(offer) and offer.gpu == CPU]
        if not here or any(map(self._isa_fits, here)):
            return _say("none-system", **said)
        return _say("none-isa", isas=self._least(here), has=_listed(self.machine.isas), **said)

    def _least(self, offers: Iterable[Offer]) -> str:
        """The ISAs of `offers` that include no other of them."""
        names = [name for name in self.hardware.isas if name in {offer.isa for offer in offers}]
        return _listed(name for name in names if not (self.hardware.runs([name]) - {name}) & set(names))

    # Why the best is the best.

    def _why(self, best: Offer) -> Iterator[str]:
        if len({device.sm for device in self.machine.gpus}) > 1 and self.device:
            yield _say("strongest", device=self.device.name, gpu=self.device.sm)
        if best.gpu == CPU:
            yield _say("cpu-only" if self.device else "no-gpu")
        elif self.gpu and best.gpu == self.gpu.name:
            yield _say("gpu-own", gpu=best.gpu)
        elif self.gpu:
            yield _say("gpu-nearest", gpu=best.gpu, own=self.gpu.name)
        yield from self._why_branch(best)
        yield self._why_isa(best)

    def _why_branch(self, best: Offer) -> Iterator[str]:
        said = {"branch": best.branch, "cuda": best.cuda, "package": best.package, "version": best.version}
        newer = [
            offer
            for offer in self.wanted
            if offer.gpu == best.gpu and self._fits_but_driver(offer) and not self._driver_fits(offer)
        ]
        if self.wishes.branch:
            yield _say("branch-asked", **said)
        elif newer:
            first = min(newer, key=self._rank)
            yield _say("branch-driver", newer=first.cuda, needed=first.driver, driver=self.driver, **said)
        else:
            yield _say("branch-newest" if best.branch == self.branches[0] else "branch-serves", **said)
        if best.gpu != CPU:
            key = "driver-runs" if self.driver else "driver-unknown"
            yield _say(key, cuda=best.cuda, needed=best.driver, driver=self.driver)

    def _why_isa(self, best: Offer) -> str:
        suited, workload = self.wishes.workload.isa, self.wishes.workload.words
        if suited and best.isa == suited:
            return _say("isa-suited", isa=best.isa, workload=workload)
        if suited and self.hardware.isa(suited).system == best.system:
            key = "isa-unbuilt" if suited in self.machine.isas else "isa-lacks"
            return _say(key, suited=suited, isa=best.isa, workload=workload)
        others = [one for one in Workload if one.isa in self.machine.isas and one.isa != best.isa]
        if others and best.isa in self.hardware.runs([others[0].isa]):
            theirs = _listed(one.words for one in others)
            return _say("isa-general", isa=best.isa, others=_listed(one.isa for one in others), theirs=theirs)
        wanted = min(self.machine.isas, key=self.isas.index)
        return _say("isa-best" if best.isa == wanted else "isa-built", isa=best.isa)

    # What else.

    def _runners_up(self, best: Offer) -> Iterator[Noted]:
        axes: tuple[Callable[[Offer], str], ...] = (
            lambda offer: offer.gpu,
            lambda offer: offer.branch,
            lambda offer: offer.isa,
            lambda offer: offer.python,
        )
        notes = (self._other_gpu, self._other_branch, self._other_isa, self._other_python)
        for offer in sorted(filter(self._fits, self.wanted), key=self._rank):
            differs = [index for index, axis in enumerate(axes) if axis(offer) != axis(best)]
            if len(differs) == 1:
                yield Noted(offer=offer, note=notes[differs[0]](best, offer))

    def _other_gpu(self, _: Offer, offer: Offer) -> str:
        if offer.gpu == CPU:
            return _say("other-cpu")
        return _say("other-gpu", gpu=offer.gpu, own=self.gpu.name if self.gpu else "")

    def _other_branch(self, _: Offer, offer: Offer) -> str:
        key = "other-version" if offer.gpu == CPU else "other-branch"
        return _say(key, cuda=offer.cuda, package=offer.package, version=offer.version)

    def _other_isa(self, best: Offer, offer: Offer) -> str:
        other = next((one for one in Workload if one.isa == offer.isa), None)
        if other:
            return _say("other-workload", workload=other.words)
        return _say("other-isa" if offer.isa in self.hardware.runs([best.isa]) else "other-lesser", isa=best.isa)

    def _other_python(self, _: Offer, offer: Offer) -> str:
        return _say("other-python", python=offer.python)

    def _better(self, best: Offer | None) -> Iterator[Noted]:
        """What does not fit and is better than `best`: with a newer driver, or off the branch that was asked for."""
        found = False
        at_present = best
        for needed in sorted({offer.driver for offer in self.wanted if not self._driver_fits(offer)}):
            fitting = [offer for offer in self.wanted if offer.driver <= needed and self._fits_but_driver(offer)]
            offer = min(fitting, key=self._rank, default=None)
            if offer and (at_present is None or self._rank(offer) < self._rank(at_present)):
                found, at_present = True, offer
                yield Noted(offer=offer, note=_say("need-driver", needed=needed))
        offer = self._best(self.offers)
        if offer and (best is None or self._rank(offer) < self._rank(best)):
            found = True
            yield Noted(offer=offer, note=self._wish_in_the_way(offer))
        if best is None and not found:
            yield from self._nearest()

    def _wish_in_the_way(self, offer: Offer) -> str:
        said = []
        if self.wishes.branch not in {"", offer.branch}:
            said.append(_say("need-branch", branch=offer.branch, asked=self.wishes.branch))
        if self.wishes.python not in {"", offer.python}:
            said.append(_say("need-python", python=offer.python, asked=self.wishes.python))
        return _listed(said)

    def _nearest(self) -> Iterator[Noted]:
        """The variant that asks the least of the CPU."""
        here = [offer for offer in self.offers if self._system_fits(offer) and self._gpu_fits(offer)]
        if here:
            lowest = max(self.isas.index(offer.isa) for offer in here)
            offer = min((one for one in here if self.isas.index(one.isa) == lowest), key=self._rank)
            yield Noted(offer=offer, note=_say("need-isa", isa=offer.isa))
