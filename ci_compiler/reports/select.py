"""The best variant for a machine, why it is the best, what else runs there, and what a better one would need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ci_compiler.hardware.drivers import driver_number
from ci_compiler.hardware.machine import GpuDevice, Machine
from ci_compiler.hardware.products import gpu_of, strongest
from ci_compiler.plan.matrix import Cell
from ci_compiler.plan.needs import Needs
from ci_compiler.plan.releases import dnn_of
from ci_compiler.recipes.work_arounds import switched_off
from ci_compiler.reports import reasons
from ci_compiler.reports.evidence import UNKNOWN, Proofs, TestEvidence, together
from ci_compiler.reports.finder import Finder, FinderStep, Noted
from ci_compiler.reports.install import install, shared_suffixes, verify, whole
from ci_compiler.reports.offers import Offer, Profile, Wishes, runs_with
from ci_compiler.spec.model import Package, Spec, in_build_order


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """The answer. `best` None: nothing fits. `problems` say why no variant fits a GPU or the whole machine, or which
    variant is recalled that would be better.

    `tests`, `tested` and `untested` are those of `TestEvidence`, with its verdict first. `doubts` say what to check
    before `best` is installed, `without` what is switched off in it or left out. `dnn` is the version of its library
    for neural networks ('': unknown, or without). `runners_up` fit and differ from the best in one axis each. `better`
    do not fit; if nothing fits, they are the nearest variants. `verify` proves that what `install` installed works.
    `impossible`: no such machine exists.
    """

    best: Offer | None
    impossible: bool = False
    problems: tuple[str, ...] = ()
    why: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    tests: str = ""
    tested: tuple[str, ...] = ()
    untested: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    dnn: str = ""
    runners_up: tuple[Noted, ...] = ()
    better: tuple[Noted, ...] = ()
    install: tuple[str, ...] = ()
    verify: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The answer for `--json`."""
        noted = {"runners_up": noted_json(self.runners_up), "better": noted_json(self.better)}
        values = asdict(self) | noted | {"best": self.best and self.best.as_json()}
        return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def noted_json(several: Iterable[Noted]) -> list[dict[str, Any]]:
    """Offers with their notes as JSON."""
    return [noted.offer.as_json() | {"note": noted.note, "tests": noted.tests} for noted in several]


def select(
    spec: Spec,
    cells: Iterable[Cell],
    machine: Machine,
    wishes: Wishes,
    *,
    everything: bool = False,
    known: Proofs = UNKNOWN,
) -> Recommendation:
    """The best variant among `cells` for `machine`. The names in `wishes` must be in the spec.

    A machine without a system has an unknown CPU. `everything`: install all packages of the variant's cell. `known`:
    the evidence of the tests of all variants.
    """
    cells = tuple(cells)
    device = strongest(spec.hardware, machine.gpus)
    driver = driver_number(device.driver) if device else 0
    finder = Finder(spec, cells, wishes.package, known)
    profile = _profile(finder, machine, device, wishes)
    step = finder.answer(profile, wishes).at(driver)
    anywhere = finder.answer(profile, replace(wishes, branch="", python="", toolkit="")).at(driver)
    best, facts = step.best, _facts(device, driver, wishes)
    fitting = [one for one in finder.fitting(profile, wishes.workload) if runs_with(profile, one, driver)]
    runners_up = finder.alternatives(filter(wishes.allow, fitting))[best] if best else ()

    def filled(text: str, offer: Offer | None) -> str:
        return reasons.fill(text, (reasons.of_offer(offer) if offer else {}) | facts)

    def names_of(offer: Offer | None) -> Mapping[str, str]:
        here = everything and next((one for one in cells if _is_of(one, offer)), None)
        return whole(spec, here) if here else {offer.package: offer.name} if offer else {}

    def noted(one: Noted) -> Noted:
        return replace(one, tests=_proof(known, one.offer, names_of(one.offer)).verdict)

    cell, names = next((one for one in cells if _is_of(one, best)), None), names_of(best)
    proof = _proof(known, best, names)
    return Recommendation(
        best=best,
        impossible=step.impossible,
        problems=tuple(filled(text, best) for text in step.problems),
        why=tuple(filled(text, best) for text in _why(spec, machine, step)),
        doubts=tuple(filled(text, best) for text in step.doubts),
        tests=proof.verdict,
        tested=proof.tested,
        untested=proof.untested,
        without=_without(spec, cell, wishes.package, names if everything else None) if cell else (),
        dnn=dnn_of(spec, cell, wishes.package) if cell else "",
        runners_up=tuple(noted(replace(note, note=filled(note.note, note.offer))) for note in runners_up),
        better=tuple(map(noted, _better(step, anywhere, wishes))),
        install=install(Needs(spec, cells), shared_suffixes(cells), cell, names) if cell else (),
        verify=verify(spec, cell, names) if cell else (),
    )


def _proof(known: Proofs, offer: Offer | None, names: Mapping[str, str]) -> TestEvidence:
    """What is known of the tests of what `offer` installs, by package; of none, and where nothing is known, nothing."""
    nothing = TestEvidence(verdict="")
    if not offer:
        return nothing
    proofs = {package: known.get((offer.branch, name), nothing) for package, name in names.items()}
    return together(proofs.pop(offer.package, nothing), proofs)


def _profile(finder: Finder, machine: Machine, device: GpuDevice | None, wishes: Wishes) -> Profile:
    """What the answer depends on in `machine`, with the CPU that stands for an unknown one."""
    gpu = gpu_of(finder.hardware, device) if device else None
    profile = Profile(system=machine.system, isas=machine.isas, gpu=gpu, has_gpu=device is not None)
    return profile if profile.system else finder.unknown_cpu(profile, wishes)


def _why(spec: Spec, machine: Machine, step: FinderStep) -> Iterator[str]:
    """The sentences of `step`, with those on several GPUs and on an unknown CPU."""
    best = step.best
    if best and len({gpu.sm for gpu in machine.gpus}) > 1:
        yield reasons.say("strongest")
    if best and not machine.system and (not best.values or "isa" in dict(best.values)):
        yield from (*step.why[:-1], reasons.unknown_cpu(spec.hardware, best))
    else:
        yield from step.why


def _without(spec: Spec, cell: Cell, package: str, names: Collection[str] | None) -> tuple[str, ...]:
    """What is switched off in `package`, and which packages are not among the installed `names` (None: only it is)."""
    left = [] if names is None else [one.name for one in _here(spec) if one.name not in names]
    lacks = (reasons.say("whole-lacks", missing=reasons.listed(left)),) if left else ()
    return (*switched_off(spec, cell, package), *lacks)


def rarest(spec: Spec, cells: Iterable[Cell]) -> str:
    """The package with the fewest variants that are not recalled: what is chosen by if all packages are wanted."""
    counts = Counter(one for cell in cells for one in whole(spec, cell))
    return min(_here(spec), key=lambda package: counts[package.name]).name


def _here(spec: Spec) -> list[Package]:
    """The packages that are built here, in build order."""
    return [package for package in in_build_order(spec.packages) if package.repository is None]


def _is_of(cell: Cell, offer: Offer | None) -> bool:
    return (
        offer is not None and cell.branch == offer.branch and offer.name in {variant.name for variant in cell.variants}
    )


def _facts(device: GpuDevice | None, driver: int, wishes: Wishes) -> dict[str, object]:
    """The values for sentences about the machine and the wishes."""
    gpu: dict[str, object] = {"own": device.sm, "device": device.name, "driver": driver} if device else {}
    return gpu | {"package": wishes.package, "where": reasons.where(wishes)}


def _better(step: FinderStep, anywhere: FinderStep, wishes: Wishes) -> tuple[Noted, ...]:
    """Better variants with another driver or other wishes; if there are none, variants that need another CPU."""
    found = [replace(note, note=reasons.fill(note.note, reasons.of_offer(note.offer))) for note in step.better]
    if anywhere.best and anywhere.best != step.best:
        found.append(Noted(offer=anywhere.best, note=reasons.instead(wishes, anywhere.best)))
    if not found and step.nearest:
        found.append(Noted(offer=step.nearest, note=reasons.say("need-isa", isa=step.nearest.isa)))
    return tuple(found)
